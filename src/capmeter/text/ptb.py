"""Penn Treebank tokens of captions, as in the standard captioning code since 2015, without Java.

The standard is the tokenizer of Stanford CoreNLP 3.4.1 with ``-preserveLines -lowerCase``, followed by the removal of
the tokens in :data:`PUNCTUATION`. Its behaviour is kept: ``don't`` is ``do n't``, ``cannot`` is ``can not``, ``€`` is
``$``, ``½`` is ``1/2``, emoji are dropped, U+0085 is ``...``, and brackets stay (``-lrb-``: the removal list has
``-LRB-``, but by then everything is lower case).

Each caption is read on its own, as if followed by a line break and a lower-case line. Where this differs from the
standard code, whose result depends on the captions that follow: docs/parity.md.

A token never contains a space, but may contain U+00A0: ``1 1/2``, ``555 1234`` and ``<a b="c">`` are one token each.
The standard BLEU and CIDEr split it there (``str.split()``), the standard ROUGE-L does not (``split(" ")``).

>>> tokenize("A dog, two cats and the dog's ball; they don't mind.")
['a', 'dog', 'two', 'cats', 'and', 'the', 'dog', "'s", 'ball', 'they', 'do', "n't", 'mind']
>>> split("A t-shirt (red).")
['a', 't-shirt', '-lrb-', 'red', '-rrb-', '.']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from capmeter.ragged import Ragged

if TYPE_CHECKING:
    from capmeter.text.lexer import Lexer

VERSION = "ptb-3.4.1-caption"

PUNCTUATION = frozenset("'' ' `` ` -LRB- -RRB- -LCB- -RCB- . ? ! , : - -- ... ;".split())  # noqa: SIM905

# Words, commas, a separate 's (as systems write it), and a final full stop: a caption that the rules can read in only
# one way, except for _TAKEN_APART.
_SIMPLE = re.compile(r"[A-Za-z ,]*(?:(?<= )'s +(?=[A-Za-z])[A-Za-z ,]*)*(?:(?:(?<=[A-Za-z]{2})|(?<= ))\. *)?")
# A span without symbols whose rules look beyond the following space and letter: its tokens are always the same.
_CHUNK = re.compile(r" *([A-Za-z0-9'-]{1,40})(?= +[A-Za-z])")  # bounded, so that no text is read twice in full
_TAKEN_APART = frozenset(
    ["cannot", "gonna", "gotta", "lemme", "gimme", "wanna", "cannot.", "gonna.", "gotta.", "lemme.", "gimme.", "wanna."]
)

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_APOSTROPHE = re.compile("&apos;|'")
_DOUBLE_QUOTE = re.compile('"|&quot;')
_AMPERSAND = re.compile("&amp;", re.IGNORECASE)
_QUOTES = str.maketrans(
    {
        **dict.fromkeys("\u0091\u2018\u201b\u2039", "`"),
        **dict.fromkeys("\u0092\u2019\u203a", "'"),
        **dict.fromkeys("\u0093\u201c\u00ab", "``"),
        **dict.fromkeys("\u0094\u201d\u00bb", "''"),
    }
)
_FRACTIONS = str.maketrans({"¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"})
_CURRENCIES = str.maketrans({"¢": "cents", "£": "#", **dict.fromkeys("\u0080\u00a4\u20a0\u20ac", "$")})
_NO_BREAK = str.maketrans({" ": "\u00a0"})
_PARENTHESES = str.maketrans({"(": "-LRB-", ")": "-RRB-"})


def tokenize(caption: str) -> list[str]:
    """The scored tokens of a caption: lower case, without punctuation."""
    if _SIMPLE.fullmatch(caption) is not None:
        words = caption.lower().replace(",", " ").split()
        if _TAKEN_APART.isdisjoint(words):
            if words and words[-1][-1] == ".":
                words.extend(_scored(words.pop()))
            return words
    return [token for token in split(caption) if token not in PUNCTUATION]


def tokenize_all(sentences: Iterable[str]) -> list[list[str]]:
    """:func:`tokenize` of every sentence, in order."""
    return [tokenize(sentence) for sentence in sentences]


def token_numbers(sentences: Sequence[str]) -> tuple[Ragged, list[str]]:
    """:func:`tokenize` of every sentence as numbers of words, and the words: the simple ones are split all at once."""
    simple = np.fromiter((_SIMPLE.fullmatch(each) is not None for each in sentences), bool, len(sentences))
    pieces = _Numbers()
    rows, plain = _split_simple([each for each, is_simple in zip(sentences, simple.tolist(), strict=True) if is_simple])
    at = np.flatnonzero(simple)
    # A word's tokens depend on the word alone, except for those that are taken apart.
    apart = np.array([word in _TAKEN_APART for word in plain], bool)
    read = np.zeros(len(sentences), bool)
    read[at[rows.rows[apart[rows.values]]]] = True
    kept = np.flatnonzero(~read[at])
    rows, at = rows.take(kept), at[kept]
    tokens = Ragged.from_rows([[pieces[token] for token in _pieces(word)] for word in plain], np.int32)
    spread = tokens.take(rows.values)
    rows = Ragged(spread.values, spread.offsets[rows.offsets])
    others = np.flatnonzero(~simple | read)
    lists = [[pieces[token] for token in tokenize(sentences[k])] for k in others.tolist()]
    return Ragged.merged([rows, Ragged.from_rows(lists, np.int32)], [at, others]), list(pieces)


def _pieces(word: str) -> tuple[str, ...]:
    """The tokens of a word of a simple sentence: what is no abbreviation only loses its full stop."""
    if word[-1] != ".":
        return (word,)
    return (word[:-1],) if len(word) > 2 and _abbreviation().fullmatch(word) is None else _scored(word)


class _Numbers(dict[str, int]):
    """Words numbered as they are asked for."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def _split_simple(sentences: list[str]) -> tuple[Ragged, list[str]]:
    """The words of simple sentences, still with a final full stop, as numbers, and the words."""
    words = "".join([f"{sentence} | " for sentence in sentences]).lower().replace(",", " ").split()
    numbers = _Numbers({"|": 0})
    values = np.fromiter(map(numbers.__getitem__, words), np.int32, len(words))
    ends = np.flatnonzero(values == 0)
    return Ragged.from_lengths(values[values > 0] - 1, np.diff(ends, prepend=-1) - 1), list(numbers)[1:]


@lru_cache(maxsize=65536)
def _scored(ending: str) -> tuple[str, ...]:
    """The tokens of a caption's last word and full stop: ``dog.`` is ``dog``, but ``etc.`` is ``etc.``."""
    return tuple(token for token in split(ending) if token not in PUNCTUATION)


def split(caption: str) -> list[str]:
    """All tokens of a caption, in lower case, including punctuation."""
    return [_lower(token) for token in split_as_written(caption)]


def split_as_written(caption: str) -> list[str]:
    """All tokens of a caption with case and punctuation kept, as a parser needs them."""
    text = caption.replace("\n", " ")
    if _ASTRAL.search(text) is None:
        return list(_read(text))
    paired = _ASTRAL.sub(_surrogates, text)  # the rules count UTF-16 code units
    return [_joined(token) for token in _read(paired)]


def _read(text: str, following: str = "\nz") -> Iterator[str]:
    lexer, meanings = _lexer()
    kinds = lexer.kinds(text + following)
    marks = lexer.marks()
    at = 0
    while at < len(text):
        chunk = _CHUNK.match(text, at)
        if chunk is not None:
            word = chunk[1]
            # A word of letters is one token, as in _SIMPLE.
            yield from (word,) if word.isalpha() and word.lower() not in _TAKEN_APART else _chunk(word)
            at = chunk.end()
            continue
        end, rule = lexer.match(kinds, at, marks)
        meaning = meanings[rule]
        if meaning.render is not None:
            yield meaning.render(text[at : end - meaning.cut])
        at = end - meaning.cut - meaning.again


@lru_cache(maxsize=65536)
def _chunk(chunk: str) -> tuple[str, ...]:
    return tuple(_read(chunk, " a"))


def _surrogates(character: re.Match[str]) -> str:
    high, low = divmod(ord(character[0]) - 0x10000, 0x400)
    return chr(0xD800 + high) + chr(0xDC00 + low)


def _lower(token: str) -> str:
    """Lower case as in Java: a hyphen does not end a Greek word."""
    if "\u03a3" in token:
        return token.replace("-", "\u2027").lower().replace("\u2027", "-")
    return token.lower()


def _joined(token: str) -> str:
    return token.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class _Meaning(NamedTuple):
    """How a match is turned into a token. ``cut`` characters at its end are left to the next token."""

    render: Callable[[str], str] | None = str
    cut: int = 0
    again: int = 0  # this many characters at the end belong to this token and are read again for the next


def _softened(stretch: str) -> str:
    """Removes soft hyphens, which only mark possible line breaks."""
    return stretch.replace("\u00ad", "") or "-"


def _quoted(stretch: str, single: str) -> str:
    stretch = _APOSTROPHE.sub(single, stretch)
    return _DOUBLE_QUOTE.sub(single * 2, stretch).translate(_QUOTES)


def _constant(token: str) -> _Meaning:
    return _Meaning(lambda stretch: token)


_MEANINGS: dict[str, _Meaning] = {
    "plain": _Meaning(),
    "nothing": _Meaning(None),
    "line": _Meaning(None),
    "untokenizable": _Meaning(None),
    "softened": _Meaning(_softened),
    "assimilated 2": _Meaning(cut=2),
    "assimilated 3": _Meaning(cut=3),
    "sentence end": _Meaning(again=1),  # the full stop of "etc." is also the sentence's
    "acronym": _Meaning(lambda stretch: stretch[:1] if len(stretch) == 2 else stretch, again=1),
    "closing quote": _Meaning(lambda stretch: _quoted(stretch, "'")),
    "opening quote": _Meaning(lambda stretch: _quoted(stretch, "`")),
    "ampersand": _Meaning(lambda stretch: _AMPERSAND.sub("&", stretch)),
    "spaced": _Meaning(lambda stretch: stretch.translate(_NO_BREAK)),
    "phone": _Meaning(lambda stretch: stretch.translate(_NO_BREAK).translate(_PARENTHESES)),
    "smiley": _Meaning(lambda stretch: stretch.translate(_PARENTHESES)),
    "hyphens": _Meaning(lambda stretch: "--" if len(stretch) in (3, 4) else stretch),
    "fraction": _Meaning(lambda stretch: stretch.translate(_FRACTIONS)),
    "currency": _Meaning(lambda stretch: stretch.translate(_CURRENCIES)),
    **{
        name: _constant(token)
        for name, token in {
            "dash": "--",
            "ellipsis": "...",
            "less than": "<",
            "greater than": ">",
            **{bracket: bracket for bracket in ("-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-")},
        }.items()
    },
}


@cache
def _abbreviation() -> re.Pattern[str]:
    """Matches every word of letters that may keep its full stop, in any case."""
    from capmeter.text.ptb_rules import abbreviations

    return re.compile(abbreviations(), re.IGNORECASE)


@cache
def _lexer() -> tuple[Lexer, tuple[_Meaning, ...]]:
    from capmeter.text.lexer import Lexer
    from capmeter.text.ptb_rules import RULES, SHAPES

    return Lexer(RULES, SHAPES), tuple(_MEANINGS[rule.meaning] for rule in RULES)
