"""Penn Treebank tokens of captions, as in the standard captioning code since 2015, without Java.

The standard is the tokenizer of Stanford CoreNLP 3.4.1 with ``-preserveLines -lowerCase``, followed by the removal of
the tokens in :data:`PUNCTUATION`. For example, ``don't`` is ``do n't``, ``cannot`` is ``can not``, ``€`` is
``$``, ``½`` is ``1/2``, emoji are dropped, U+0085 is ``...``, and brackets stay (``-lrb-``: the removal list has
``-LRB-``, but by then everything is lower case).

Each caption is read on its own, as if followed by a line break and a lower-case line. Where this differs from the
standard code, whose result depends on the captions that follow: docs/parity.md.

A token never contains a space, but may contain U+00A0: ``1 1/2``, ``555 1234`` and ``<a b="c">`` are one token each.
The standard BLEU and CIDEr split it there (``str.split()``), the standard ROUGE-L does not (``split(" ")``).

>>> tokenise("A dog, two cats and the dog's ball; they don't mind.")
['a', 'dog', 'two', 'cats', 'and', 'the', 'dog', "'s", 'ball', 'they', 'do', "n't", 'mind']
>>> split("A t-shirt (red).")
['a', 't-shirt', '-lrb-', 'red', '-rrb-', '.']

Sentence boundaries in a caption's tokens, as in Stanford CoreNLP 3.6.

A sentence ends after a token "." or a token of "!" and "?"; closing quotation marks and brackets that follow belong to
it. "..." and abbreviations such as "etc." do not end a sentence. Texts of many sentences:
`capmeter.text.tokenization.document_splitting`.

>>> split_sentences(["A", "dog", ".", "It", "runs", "!", "''"])
[['A', 'dog', '.'], ['It', 'runs', '!', "''"]]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from capmeter.core.ragged import Ragged, distinct

if TYPE_CHECKING:
    from capmeter.text.tokenization.lexer import Lexer, Marks


_END = re.compile(r"\.|[!?]+")
_CLOSING = frozenset(("''", "'", '"', ")", "]", "}", "-RRB-", "-RSB-", "-RCB-", "»", "”", "’", "›"))


def split_sentences(tokens: Sequence[str]) -> list[list[str]]:
    """Splits a caption's tokens into sentences."""
    sentences: list[list[str]] = []
    at_end = True
    for token in tokens:
        if at_end and not (sentences and token in _CLOSING):
            sentences.append([])
            at_end = False
        sentences[-1].append(token)
        at_end = at_end or _END.fullmatch(token) is not None
    return sentences


VERSION = "ptb-3.4.1-caption"

PUNCTUATION = frozenset("'' ' `` ` -LRB- -RRB- -LCB- -RCB- . ? ! , : - -- ... ;".split())  # noqa: SIM905

# Words, commas, a separate 's (as systems write it), and a final full stop: a caption that the rules can read in only
# one way, except for CONTRACTIONS.
_SIMPLE = re.compile(r"[A-Za-z ,]*(?:(?<= )'s +(?=[A-Za-z])[A-Za-z ,]*)*(?:(?:(?<=[A-Za-z]{2})|(?<= ))\. *)?")
# A span without symbols whose rules look beyond the following space and letter: its tokens are always the same.
_CHUNK = re.compile(r" *([A-Za-z0-9'-]{1,40})(?= +[A-Za-z])")  # bounded, so that no text is read twice in full
CONTRACTIONS = frozenset(
    ["cannot", "gonna", "gotta", "lemme", "gimme", "wanna", "cannot.", "gonna.", "gotta.", "lemme.", "gimme.", "wanna."]
)
_BLOCK = 1000

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


def tokenise(caption: str) -> list[str]:
    """Tokenises a caption as captioning metrics score it.

    Args:
        caption: any text.

    Returns:
        Its tokens in lower case, without punctuation.
    """
    if _SIMPLE.fullmatch(caption) is not None:
        words = caption.lower().replace(",", " ").split()
        if CONTRACTIONS.isdisjoint(words):
            if words and words[-1][-1] == ".":
                words.extend(_last_word_tokens(words.pop()))
            return words
    return [token for token in split(caption) if token not in PUNCTUATION]


def tokenise_sentences(caption: str) -> list[list[str]]:
    """Applies :func:`tokenise` to each sentence of a caption, whose ends are found before punctuation is removed.

    >>> tokenise_sentences("A dog runs. It barks at St. Bernard!")
    [['a', 'dog', 'runs'], ['it', 'barks', 'at', 'st.', 'bernard']]
    """
    if _SIMPLE.fullmatch(caption) is not None:  # its only full stop is the last character
        sentences = [tokenise(caption)]
    else:
        tokens = ([_lower(token) for token in sentence] for sentence in split_sentences(split_as_written(caption)))
        sentences = [[token for token in sentence if token not in PUNCTUATION] for sentence in tokens]
    return [sentence for sentence in sentences if sentence]


def tokenise_all(sentences: Iterable[str]) -> list[list[str]]:
    """Applies :func:`tokenise` to every sentence, in order."""
    return [tokenise(sentence) for sentence in sentences]


def tokenise_to_ids(sentences: Sequence[str]) -> tuple[Ragged, list[str]]:
    """Tokenises sentences like :func:`tokenise`, simple ones all at once.

    Returns:
        Token ids, row i of sentence i, and the tokens by id.
    """
    simple_rows = np.flatnonzero([_SIMPLE.fullmatch(sentence) is not None for sentence in sentences])
    word_rows, is_regular, words = _split_simple([sentences[row] for row in simple_rows.tolist()])
    regular_rows = np.flatnonzero(is_regular)
    is_other = np.ones(len(sentences), bool)
    is_other[simple_rows[regular_rows]] = False
    other_rows, token_ids = np.flatnonzero(is_other), _WordIds(zip(words, range(len(words)), strict=True))
    other_ids = [[token_ids[token] for token in tokenise(sentences[row])] for row in other_rows.tolist()]
    parts = [word_rows.take(regular_rows), Ragged.from_rows(other_ids, np.int32)]
    return Ragged.merged(parts, [simple_rows[regular_rows], other_rows]), list(token_ids)


class _WordIds(dict[str, int]):
    """Words with ids in order of first look-up."""

    def __missing__(self, word: str) -> int:
        word_id = self[word] = len(self)
        return word_id


def _split_simple(sentences: list[str]) -> tuple[Ragged, npt.NDArray[np.bool_], list[str]]:
    """Splits simple sentences into words, without a final full stop.

    Returns:
        The ids of each sentence's words; whether these are its tokens, since no word is a contraction and the last is
        no abbreviation, which would keep its full stop; and the words by id.
    """
    word_ids, id_parts = _WordIds({"|": 0, ".": 1}), [np.zeros(0, np.int32)]
    for start in range(0, len(sentences), _BLOCK):  # the words of a block are in the processor's cache
        text = " | ".join([*sentences[start : start + _BLOCK], ""]).lower().replace(",", " ").replace(".", " . ")
        words = text.split()
        id_parts.append(np.fromiter(map(word_ids.__getitem__, words), np.int32, len(words)))
    flat_ids, words = np.concatenate(id_parts), list(word_ids)
    is_word, sentence_numbers = flat_ids > 1, np.cumsum(flat_ids == 0)
    is_irregular = np.array([word in CONTRACTIONS for word in words], bool)[flat_ids]
    last_places = np.flatnonzero(flat_ids == 1) - 1
    is_abbreviation = np.zeros(len(words), bool)
    for k in distinct(flat_ids[last_places]).tolist():
        is_abbreviation[k] = _abbreviation().fullmatch(f"{words[k]}.") is not None
    is_irregular[last_places] |= is_abbreviation[flat_ids[last_places]]
    is_regular = np.ones(len(sentences), bool)
    is_regular[sentence_numbers[is_irregular]] = False
    word_counts = np.bincount(sentence_numbers[is_word], minlength=len(sentences))
    return Ragged.from_lengths(flat_ids[is_word] - 2, word_counts), is_regular, words[2:]


@lru_cache(maxsize=65536)
def _last_word_tokens(ending: str) -> tuple[str, ...]:
    """Tokenises a caption's last word and full stop: ``dog.`` is ``dog``, but ``etc.`` is ``etc.``."""
    return tuple(token for token in split(ending) if token not in PUNCTUATION)


def split(caption: str) -> list[str]:
    """Returns all tokens of a caption, in lower case, including punctuation."""
    return [_lower(token) for token in split_as_written(caption)]


def split_as_written(caption: str) -> list[str]:
    """Returns all tokens of a caption with their case, including punctuation, as a parser needs them."""
    text = caption.replace("\n", " ")
    if _ASTRAL.search(text) is None:
        return list(_read(text))
    paired = _ASTRAL.sub(_surrogates, text)  # the rules count UTF-16 code units
    return [token.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass") for token in _read(paired)]


def _read(text: str, following: str = "\nz") -> Iterator[str]:
    """Yields the tokens of a text that is followed by these characters."""
    lexer, meanings = _lexer()
    character_kinds = lexer.classify(text + following)
    marks: Marks = set()
    position = 0
    while position < len(text):
        chunk = _CHUNK.match(text, position)
        if chunk is not None:
            word = chunk[1]
            # A word of letters is one token, as in _SIMPLE.
            yield from (word,) if word.isalpha() and word.lower() not in CONTRACTIONS else _split_chunk(word)
            position = chunk.end()
            continue
        token_end, rule_index = lexer.match(character_kinds, position, marks)
        meaning = meanings[rule_index]
        if meaning.render is not None:
            yield meaning.render(text[position : token_end - meaning.cut])
        position = token_end - meaning.cut - meaning.again


@lru_cache(maxsize=65536)
def _split_chunk(chunk: str) -> tuple[str, ...]:
    """Returns the tokens of a span without symbols that a space and a letter follow."""
    return tuple(_read(chunk, " a"))


def _surrogates(character: re.Match[str]) -> str:
    high, low = divmod(ord(character[0]) - 0x10000, 0x400)
    return chr(0xD800 + high) + chr(0xDC00 + low)


def _lower(token: str) -> str:
    """Lower-cases as Java does: a hyphen does not end a Greek word."""
    if "\u03a3" in token:
        return token.replace("-", "\u2027").lower().replace("\u2027", "-")
    return token.lower()


class _Meaning(NamedTuple):
    """How a match is turned into a token."""

    render: Callable[[str], str] | None = str
    cut: int = 0  # number of characters at its end that are left to the next token
    again: int = 0  # number of characters at its end that belong to this token and to the next


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
    """Compiles the pattern of every word of letters that may keep its full stop, in any case."""
    from capmeter.text.tokenization.ptb_rules import abbreviations

    return re.compile(abbreviations(), re.IGNORECASE)


@cache
def _lexer() -> tuple[Lexer, tuple[_Meaning, ...]]:
    from capmeter.text.tokenization.lexer import Lexer
    from capmeter.text.tokenization.ptb_rules import RULES, SHAPES

    return Lexer(RULES, SHAPES), tuple(_MEANINGS[rule.meaning] for rule in RULES)
