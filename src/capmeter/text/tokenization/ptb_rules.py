"""The token patterns of the Penn Treebank tokenizer of Stanford CoreNLP 3.4.1; the longest match wins.

Written from the behaviour of the tokenizer that captioning has used since 2015; both accept the same spans with the
same meanings. The order of :data:`RULES` decides between two patterns that match the same span. How a match is turned
into a token is defined in ``capmeter.text.tokenization.ptb``. Letters match both cases except inside square brackets.

The character classes of the Penn Treebank tokenizer 3.4.1: Unicode 6.0, whatever Unicode version Python uses.
"""

from __future__ import annotations

import re
import unicodedata

from capmeter.text.tokenization.lexer import Ranges, Rule, merge_ranges, parse_ranges

# fmt: off
LETTERS = parse_ranges(
    "41-5A 61-7A AA B5 BA C0-D6 D8-F6 F8-2C1 2C6-2D1 2E0-2E4 2EC 2EE 370-374 376-377 37A-37D 386 388-38A 38C 38E-3A1 "
    "3A3-3F5 3F7-481 48A-527 531-556 559 561-587 5D0-5EA 5F0-5F2 620-64A 66E-66F 671-6D3 6D5 6E5-6E6 6EE-6EF 6FA-6FC "
    "6FF 710 712-72F 74D-7A5 7B1 7CA-7EA 7F4-7F5 7FA 800-815 81A 824 828 840-858 8A0 8A2-8AC 904-939 93D 950 958-961 "
    "971-977 979-97F 985-98C 98F-990 993-9A8 9AA-9B0 9B2 9B6-9B9 9BD 9CE 9DC-9DD 9DF-9E1 9F0-9F1 A05-A0A A0F-A10 "
    "A13-A28 A2A-A30 A32-A33 A35-A36 A38-A39 A59-A5C A5E A72-A74 A85-A8D A8F-A91 A93-AA8 AAA-AB0 AB2-AB3 AB5-AB9 ABD "
    "AD0 AE0-AE1 B05-B0C B0F-B10 B13-B28 B2A-B30 B32-B33 B35-B39 B3D B5C-B5D B5F-B61 B71 B83 B85-B8A B8E-B90 B92-B95 "
    "B99-B9A B9C B9E-B9F BA3-BA4 BA8-BAA BAE-BB9 BD0 C05-C0C C0E-C10 C12-C28 C2A-C33 C35-C39 C3D C58-C59 C60-C61 "
    "C85-C8C C8E-C90 C92-CA8 CAA-CB3 CB5-CB9 CBD CDE CE0-CE1 CF1-CF2 D05-D0C D0E-D10 D12-D3A D3D D4E D60-D61 D7A-D7F "
    "D85-D96 D9A-DB1 DB3-DBB DBD DC0-DC6 E01-E30 E32-E33 E40-E46 E81-E82 E84 E87-E88 E8A E8D E94-E97 E99-E9F EA1-EA3 "
    "EA5 EA7 EAA-EAB EAD-EB0 EB2-EB3 EBD EC0-EC4 EC6 EDC-EDF F00 F40-F47 F49-F6C F88-F8C 1000-102A 103F 1050-1055 "
    "105A-105D 1061 1065-1066 106E-1070 1075-1081 108E 10A0-10C5 10C7 10CD 10D0-10FA 10FC-1248 124A-124D 1250-1256 "
    "1258 125A-125D 1260-1288 128A-128D 1290-12B0 12B2-12B5 12B8-12BE 12C0 12C2-12C5 12C8-12D6 12D8-1310 1312-1315 "
    "1318-135A 1380-138F 13A0-13F4 1401-166C 166F-167F 1681-169A 16A0-16EA 1700-170C 170E-1711 1720-1731 1740-1751 "
    "1760-176C 176E-1770 1780-17B3 17D7 17DC 1820-1877 1880-18A8 18AA 18B0-18F5 1900-191C 1950-196D 1970-1974 "
    "1980-19AB 19C1-19C7 1A00-1A16 1A20-1A54 1AA7 1B05-1B33 1B45-1B4B 1B83-1BA0 1BAE-1BAF 1BBA-1BE5 1C00-1C23 "
    "1C4D-1C4F 1C5A-1C7D 1CE9-1CEC 1CEE-1CF1 1CF5-1CF6 1D00-1DBF 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 "
    "1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 "
    "1FF6-1FFC 2071 207F 2090-209C 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D 212F-2139 213C-213F "
    "2145-2149 214E 2183-2184 2C00-2C2E 2C30-2C5E 2C60-2CE4 2CEB-2CEE 2CF2-2CF3 2D00-2D25 2D27 2D2D 2D30-2D67 2D6F "
    "2D80-2D96 2DA0-2DA6 2DA8-2DAE 2DB0-2DB6 2DB8-2DBE 2DC0-2DC6 2DC8-2DCE 2DD0-2DD6 2DD8-2DDE 2E2F 3005-3006 "
    "3031-3035 303B-303C 3041-3096 309D-309F 30A1-30FA 30FC-30FF 3105-312D 3131-318E 31A0-31BA 31F0-31FF 3400-4DB5 "
    "4E00-9FCC A000-A48C A4D0-A4FD A500-A60C A610-A61F A62A-A62B A640-A66E A67F-A697 A6A0-A6E5 A717-A71F A722-A788 "
    "A78B-A78E A790-A793 A7A0-A7AA A7F8-A801 A803-A805 A807-A80A A80C-A822 A840-A873 A882-A8B3 A8F2-A8F7 A8FB "
    "A90A-A925 A930-A946 A960-A97C A984-A9B2 A9CF AA00-AA28 AA40-AA42 AA44-AA4B AA60-AA76 AA7A AA80-AAAF AAB1 "
    "AAB5-AAB6 AAB9-AABD AAC0 AAC2 AADB-AADD AAE0-AAEA AAF2-AAF4 AB01-AB06 AB09-AB0E AB11-AB16 AB20-AB26 AB28-AB2E "
    "ABC0-ABE2 AC00-D7A3 D7B0-D7C6 D7CB-D7FB F900-FA6D FA70-FAD9 FB00-FB06 FB13-FB17 FB1D FB1F-FB28 FB2A-FB36 "
    "FB38-FB3C FB3E FB40-FB41 FB43-FB44 FB46-FBB1 FBD3-FD3D FD50-FD8F FD92-FDC7 FDF0-FDFB FE70-FE74 FE76-FEFC "
    "FF21-FF3A FF41-FF5A FF66-FFBE FFC2-FFC7 FFCA-FFCF FFD2-FFD7 FFDA-FFDC "
)

# vowel signs, accents and tone marks that take part in a word, and the soft hyphen
MARKS = parse_ranges(
    "AD 2C2-2C5 2D2-2DF 2E5-2EB 2ED 2EF-36F 375 378-379 384-385 3F6 483-487 55A-55F 591-5BD 5BF 5C1-5C2 5C4-5C5 5C7 "
    "615-61A 64B-65E 670 6D6-6E4 6E7-6ED 6FD-6FE 70F 711 730-74C 7A6-7B0 7EB-7F3 900-903 93C 93E-94E 951-955 962-963 "
    "981-983 9BC 9BE-9C4 9C7-9C8 9CB-9CD 9D7 9E2-9E3 A01-A03 A3C A3E-A4F A81-A83 ABC ABE-ACF B82 BBE-BC2 BC6-BC8 "
    "BCA-BCD C01-C03 C3E-C56 D3E-D44 D46-D48 E31 E34-E3A E47-E4E EB1 EB4-EBC EC8-ECD "
)
# fmt: on

DIGITS = merge_ranges(
    (zero, zero + 9)
    for low, high in parse_ranges(
        "30 660 6F0 7C0 966 9E6 A66 AE6 B66 BE6 C66 CE6 D66 E50 ED0 F20 1040 1090 17E0 1810 1946 19D0 1A80 1A90 1B50 "
        "1BB0 1C40 1C50 A620 A8D0 A900 A9D0 AA50 ABF0 FF10"
    )
    for zero in range(low, high + 1)
)

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
