"""The token patterns of the Penn Treebank tokenizer of Stanford CoreNLP 3.4.1; the longest match wins.

Written from the behaviour of the tokenizer that captioning has used since 2015; both accept the same spans with the
same meanings. The order of :data:`RULES` decides between two patterns that match the same span. How a match is turned
into a token is defined in ``capmeter.text.tokenization.ptb``. Letters match both cases except inside square brackets.

Its classes of characters are those of Unicode 6.0 (`data/unicode6.json`), whatever version Python uses.
"""

from __future__ import annotations

import re
import unicodedata

from capmeter.core.json_text import read_bundled_json
from capmeter.text.tokenization.lexer import Ranges, Rule, merge_ranges, parse_ranges

_CLASSES = {name: parse_ranges(" ".join(lines)) for name, lines in read_bundled_json("unicode6.json").items()}
LETTERS = _CLASSES["letters"]
MARKS = _CLASSES["marks"]
"""Vowel signs, accents and tone marks that take part in a word, and the soft hyphen."""
DIGITS = merge_ranges((zero, zero + 9) for low, high in _CLASSES["zeros"] for zero in range(low, high + 1))
_NO_CASE_THEN = range(0x13A0, 0x13F6)  # Cherokee got its upper case in Unicode 8

UPPERCASE = merge_ranges(
    (
        *parse_ranges("2160-216F 24B6-24CF"),  # Roman numerals and circled capitals
        *(
            (unit, unit)
            for low, high in LETTERS
            if high - low < 1000  # ideographs and syllables have no case
            for unit in range(low, high + 1)
            if unit not in _NO_CASE_THEN and unicodedata.category(chr(unit)) == "Lu"
        ),
    )
)


SHAPES: dict[str, str | Ranges] = {
    # characters
    "letter": LETTERS,
    "uppercase": UPPERCASE,
    "digit": DIGITS,
    "marked": merge_ranges((*LETTERS, *MARKS)),
    "symbol": (
        r"[+%&~\^|\\\u00A6-\u00A9\u00AC\u00AE-\u00BA\u00D7\u00F7\u0387\u05BE\u05C0\u05C3\u05C6\u05F3\u05F4\u0600-\u0603\u0606-\u060A"
        r"\u060C\u0614\u061B\u061E\u066A\u066D\u0703-\u070D\u07F6-\u07F8\u0964\u0965\u0E4F\u1FBD\u2016\u2017\u2020-\u2023"
        r"\u2030-\u2038\u203B\u203E-\u2042\u2044\u207A-\u207F\u208A-\u208E\u2100-\u214F\u2190-\u2BFF\u3012\u30FB"
        r"\uFF01-\uFF0F\uFF1A-\uFF20\uFF3B-\uFF40\uFF5B-\uFF65]"
    ),
    "space": r"[ \t\u00A0\u2000-\u200A\u3000]",
    "break": r"\r\n?|[\n\v\f\u0085\u2028\u2029]",
    "blank": "{space}|{break}",
    "inner mark": r"[,;:\u3001]",
    "alnum": "({letter}|{digit})",
    # apostrophes and quotation marks
    "apostrophe": r"['\u0092\u2019]|&apos;",
    "any apostrophe": r"{apostrophe}|[`\u0091\u2018\u201B]",
    "double quote": r"\"|&quot;",
    "quote": (r"{apostrophe}|''|[`\u2018-\u201F\u0091-\u0094\u2039\u203A\u00AB\u00BB]{1,2}"),
    # words
    "accented": "&[aeiouAEIOU](acute|grave|uml);",
    "wordly": "({marked}|{accented})",
    "wordly part": "{wordly}|{digit}",
    "word": r"{wordly}{wordly part}*([.!?]{wordly}{wordly part}*)*",
    "clitic": "{apostrophe}([msdMSD]|re|ve|ll)",
    "negated stem": r"[A-Za-z\u00AD]*[A-MO-Za-mo-z]\u00AD*",
    "negation": "n{any apostrophe}t",
    "apostrophe word": (
        r"{apostrophe}n{apostrophe}?|[lLdDjJ]{apostrophe}|(Dunkin|somethin|ol){apostrophe}|{apostrophe}em"
        r"|[A-HJ-XZn]{any apostrophe}{letter}{letter}+|{apostrophe}[2-9]0s|{apostrophe}till?"
        r"|{letter}+[aeiouyAEIOUY]{any apostrophe}[aeiouA-Z]{letter}*"
        r"|{apostrophe}cause|cont'd\.?|nor'easter|c'mon|e'er|s'mores|ev'ry|li'l|nat'l|o{any apostrophe}o"
    ),
    "hyphen": r"[-_\u058A\u2010\u2011]",
    "prefixed": "([dDoOlL]{any apostrophe}{alnum})?",
    "thing": "{prefixed}{alnum}+({hyphen}{prefixed}{alnum}+)*",
    "ampersand": "&amp;",
    "initials joined": "[A-Z]+(([+&]|{ampersand})[A-Z]+)+",
    "slashed": r"[A-Za-z0-9]+(-[A-Za-z]+){0,2}(\\?/[A-Za-z0-9]+(-[A-Za-z]+){0,2}){1,2}",
    "hyphenated": r"[A-Za-z0-9][A-Za-z0-9.,\u00AD]*(-([A-Za-z0-9\u00AD]+|{long acronym}\.))+",
    "kept together": (
        r"-(l|r)(r|c|s)b-|C\.D\.s|pro-|anti-|S(&|{ampersand})P-500|S(&|{ampersand})Ls|Cap{apostrophe}n|c{apostrophe}est"
    ),
    # numbers
    "decimal": r"{digit}*([.:,\u00AD\u066B\u066C]{digit}+)+|{digit}+",
    "number": "[-+]?{decimal}",
    "small number": r"[\u207A\u207B\u208A\u208B]?([\u2070\u00B9\u00B2\u00B3\u2074-\u2079]+|[\u2080-\u2089]+)",
    "date": "{digit}{1,2}[-/]{digit}{1,2}[-/]{digit}{2,4}",
    "fraction": r"({digit}{1,4}[- \u00A0])?{digit}{1,4}(\\?/|\u2044){digit}{1,4}",
    "fraction sign": r"[\u00BC\u00BD\u00BE\u2153-\u215E]",
    "dollar": r"[A-Z]*$|#",
    "currency": r"[\u00A2-\u00A5\u0080\u20A0\u20AC\u060B\u0E3F\u20A4\uFFE0\uFFE1\uFFE5\uFFE6]",
    "phone": (
        r"(\([0-9]{2,3}\)[ \u00A0]?|(\+\+?)?([0-9]{2,4}[- \u00A0])?[0-9]{2,4}[- \u00A0])[0-9]{3,4}[- \u00A0]?[0-9]{3,5}"
        r"|((\+\+?)?[0-9]{2,4}\.)?[0-9]{2,4}\.[0-9]{3,4}\.[0-9]{3,5}"
    ),
    # the web
    "full address": r"https?://[^ \t\n\f\r\"<>|(){}]+[^ \t\n\f\r\"<>|.!?(){},-]",
    "likely address": (
        r"((www\.([^ \t\n\f\r\"<>|.!?(){},]+\.)+[a-zA-Z]{2,4})|(([^ \t\n\f\r\"`'<>|.!?(){},-_$]+\.)+(com|net|org|edu)))"
        r"(/[^ \t\n\f\r\"<>|()]+[^ \t\n\f\r\"<>|.!?(){},-])?"
    ),
    "mail address": (
        r"(&lt;|<)?[a-zA-Z0-9][^ \t\n\f\r\"<>|()\u00A0{}]*@([^ \t\n\f\r\"<>|(){}.\u00A0]+\.)*"
        r"[^ \t\n\f\r\"<>|(){}.\u00A0]+(&gt;|>)?"
    ),
    "handle": "@[a-zA-Z_][a-zA-Z_0-9]*|#{wordly}+",
    "file name": (
        r"{wordly part}+(\.{wordly part}+)*\.(bat|bmp|c|class|cgi|cpp|dll|doc|docx|exe|gif|gz|h|htm|html|jar"
        r"|java|jpeg|jpg|mov|mp3|pdf|php|pl|png|ppt|ps|py|sql|tar|txt|wav|x|xml|zip)"
    ),
    "markup name": r"[A-Za-z][A-Za-z0-9_:.-]*",
    "markup value": r"'[^']*'|\"[^\"]*\"",
    "markup": r"<([!?][A-Za-z-][^>\r\n]*|{markup name}( +{markup name}( *= *{markup value})?)* */?|/{markup name}) *>",
    # abbreviations
    "month": "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec",
    "day": "Mon|Tues?|Wed|Thu|Thurs|Fri",
    "state": (
        "Ala|Ariz|[A]z|[A]rk|Calif|Colo|Conn|Ct|Dak|[D]el|Fla|Ga|[I]ll|Ind|Kans?|Ky|[L]a|[M]ass|Md|Mich|Minn|[M]iss|Mo|Mont"
        "|Neb|Nev|Okla|[O]re|[P]a|Penn|Tenn|[T]ex|Va|Vt|[W]ash|Wisc?|Wyo"
    ),
    "company": "Inc|Cos?|Corp|Pp?t[ye]s?|Ltd|Plc|Rt|Bancorp|Bhd|Assn|Univ|Intl|Sys",
    "counter": "tel|est|ext|sq",
    "after a name": r"Jr|Sr|Bros|(Ed|Ph)\.D|Blvd|Rd|Esq|Bldg",
    "acronym": "[A-Za-z]|{long acronym}",
    "long acronym": r"[A-Za-z](\.[A-Za-z])+|(Canada|Sino|Korean|EU|Japan|non)-U\.S|U\.S\.-(U\.K|U\.S\.S\.R)",
    "title": (
        "Mr|Mrs|Ms|[M]iss|Drs?|Profs?|Sens?|Reps?|Attys?|Lt|Col|Gen|Messrs|Govs?|Adm|Rev|Maj|Sgt|Cpl|Pvt|Mt|Capt|Ste?|Ave|Pres"
        "|Lieut|Hon|Brig|Co?mdr|Pfc|Spc|Supts?|Det|Ft"
        "|Dept|Adj|Adv|Asst|Assoc|Ens|Insp|Mlle|Mme|Msgr|Sfc"
    ),
    "closing abbreviation": r"({month}|{day}|{state}|{company}|{counter}|{after a name}|etc|al|seq)\.",
    "opening abbreviation": (r"{title}|vs|Alex|Wm|Jos|Cie|a\.k\.a|cf|TREAS|Ph|{acronym}|Invt|Elec|Natl|M[ft]g"),
    "before limited": "(pt[eyEY]|co)",
    "before a number": "(ca|figs?|prop|nos?|art|bldg|pp|op)",
    "sentence opener": (
        "[A]bout|[A]ccording|[A]dditionally|[A]fter|[A]n|[A]|[A]s|[A]t|[B]ut|[E]arlier|[H]e|[H]er|[H]ere|[H]owever|[I]f|[I]n|[I]t"
        r"|[L]ast|[M]any|[M]ore|[M]r\.|[M]s\.|[N]ow|[O]nce|[O]ne|[O]ther|[O]ur|[S]he|[S]ince|[S]o|[S]ome|[S]uch|[T]hat|[T]he"
        "|[T]heir|[T]hen|[T]here|[T]hese|[T]hey|[T]his|[W]e|[W]hen|[W]hile|[W]hat|[Y]et|[Y]ou"
    ),
    # signs
    "ellipsis": r"\.{3,5}|(\.[ \u00A0]){2,4}\.|[\u0085\u2026]",
    "smiley": r"[<>]?[:;=][-o*']?[()DPdpO\\{@|\[\]]",
    # meant as [^x=~<>].[^x=~<>], but the original pattern asks for "[^x=", then anything up to the next "<", then ">]"
    "runaway smiley": r"[\^x=~<>]\.\[\^x=[^<]*<>\]",
    "asian smiley": (
        r"{runaway smiley}|[-\^x=~<>']_[-\^x=~<>']|\([-\^x=~<>'][_.]?[-\^x=~<>']\)"
        r"|\([\^x=~<>']-[\^x=~<>'`]\)"
    ),
}

RULES = (
    Rule("plain", r"c\+\+|(c|f)#"),
    Rule("assimilated 3", "cannot|'twas"),
    Rule("assimilated 2", "gonna|gotta|lemme|gimme|wanna|'tis"),
    Rule("spaced", "{markup}"),
    Rule("dash", r"&(MD|mdash|ndash);|[\u0096\u0097\u2013\u2014\u2015]"),
    Rule("ampersand", "{ampersand}"),
    Rule("plain", "&(HT|TL|UR|LR|QC|QL|QR|odq|cdq|#[0-9]+);"),
    Rule("softened", "{word}", before="{clitic}"),
    Rule("softened", "{negated stem}", before="{negation}"),
    Rule("softened", "{word}"),
    Rule("plain", "{apostrophe word}"),
    Rule("plain", "y{apostrophe}", before="{letter}"),
    Rule("plain", "{full address}|{likely address}|{mail address}|{handle}"),
    Rule("closing quote", "{clitic}", before="[^A-Za-z]"),
    Rule("closing quote", "{negation}", before="[^A-Za-z]"),
    Rule("plain", "{date}"),
    Rule("softened", "{number}"),
    Rule("plain", "{small number}"),
    Rule("spaced", "{fraction}"),
    Rule("fraction", "{fraction sign}"),
    Rule("ampersand", "{kept together}"),
    Rule("plain", "{slashed}"),
    Rule("plain", "{dollar}"),
    Rule("currency", "{currency}"),
    Rule("acronym", r"{acronym}\.", before="{blank}+({sentence opener}|{markup}){blank}"),
    Rule("plain", r"{before limited}\.", before="{space}(ltd|lim)"),
    Rule("plain", r"{before a number}\.", before="{blank}?{digit}"),
    Rule("sentence end", "{closing abbreviation}", before="{blank}({blank}|{uppercase}|{markup})"),
    Rule("plain", "{closing abbreviation}", before=r"[^][^]"),
    Rule("sentence end", "{closing abbreviation}"),
    Rule("plain", r"{opening abbreviation}\."),
    Rule("plain", "{opening abbreviation}", before="{space}"),
    Rule("plain", "{acronym}", before="{blank}"),
    Rule("plain", "{apostrophe}[0-9][0-9]", before="{blank}"),
    Rule("softened", r"{word}\.", before="{inner mark}"),
    Rule("phone", "{phone}"),
    Rule("opening quote", "{double quote}", before="[A-Za-z0-9$]"),
    Rule("closing quote", "{double quote}"),
    Rule("nothing", r"\x7F"),
    Rule("less than", "<|&lt;"),
    Rule("greater than", ">|&gt;"),
    Rule("smiley", "{smiley}", before="[^A-Za-z0-9]"),
    Rule("smiley", "{asian smiley}"),
    Rule("-LCB-", r"\{"),
    Rule("-RCB-", r"\}"),
    Rule("-LSB-", r"\["),
    Rule("-RSB-", r"\]"),
    Rule("-LRB-", r"\("),
    Rule("-RRB-", r"\)"),
    Rule("hyphens", r"-+"),
    Rule("ellipsis", "{ellipsis}"),
    Rule("plain", r"@+|#+|_+|\*+|(\\\*){1,3}|{inner mark}|[?!]+|=|/"),
    Rule("plain", r"[.¡¿\u037E\u0589\u061F\u06D4\u0700-\u0702\u07FA\u3002]"),
    Rule("softened", r"{hyphenated}\.", before="{inner mark}"),
    Rule("softened", "{hyphenated}"),
    Rule("plain", "{file name}", before=r"{blank}|[.?!,]"),
    Rule("plain", r"{thing}\.", before="{inner mark}"),
    Rule("plain", "{thing}"),
    Rule("ampersand", r"{initials joined}\.", before="{inner mark}"),
    Rule("ampersand", "{initials joined}"),
    Rule("opening quote", "'", before=r"[A-Za-z][^ \t\n\r\u00A0]"),
    Rule("closing quote", "{clitic}|{negation}|{quote}"),
    Rule("plain", "<<|>>"),
    Rule("plain", "{symbol}"),
    Rule("nothing", r"\0|{space}+|[\u200B\u200E\u200F\uFEFF]|&nbsp;"),
    Rule("line", "{break}"),
    Rule("untokenizable", r"[^\n]"),
)


def abbreviations() -> str:
    """Returns the pattern of all words that the rules read with a full stop at their end, in the syntax of `re`."""
    pattern = r"{closing abbreviation}|({opening abbreviation}|{before limited}|{before a number})\."
    # names are replaced by the patterns that they stand for
    while (plain := re.sub(r"\{([a-z ]+)\}", lambda name_match: f"({SHAPES[name_match[1]]})", pattern)) != pattern:
        pattern = plain
    return pattern
