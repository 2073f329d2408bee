"""METEOR 1.5's normaliser (its option `-norm`): splits punctuation and hyphens off, lower-cases.

Abbreviations keep their dots. For English, Czech, French, Spanish, German and Russian the reference program has a
normaliser (the same, with three ways to treat apostrophes); for the other languages it only lower-cases (`-lower`).

>>> MeteorNormaliser("english", {"dr": 1, "Dr": 1})("Dr. Smith's half-open U.S. jar, 1,000 miles...")
['dr.', 'smith', "'s", 'half', 'open', 'us', 'jar', ',', '1,000', 'miles', '...']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from capmeter.core.ragged import Ragged, distinct
from capmeter.text.tokenization.token_tables import TokenTable, Vocabulary

WESTERN = frozenset({"english", "czech", "french", "spanish", "german", "russian"})

_ALPHA = (
    "A-Za-z\u0160\u017d\u0161\u017e\u0178\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e"
    "\u0400-\u04ff\u0500-\u0527\ua640-\ua66e\ua67e-\ua697\u1d00-\u1d7f"
)
_ALNUM = "0-9" + _ALPHA
# The program's regular expressions recognise only ASCII white space and digits. They are compiled at their first use.
_OTHER = rf"([^{_ALNUM} \t\n\x0b\f\r.'`,\-\u2018\u2019])"
_DOTS = r"\.(\.+)"
_DOTS_END = r"DOTMULTI\.([^.])"
_COMMAS = (r"([^0-9]),([^0-9])", r"([0-9]),([^0-9])", r"([^0-9]),([0-9])")
_SINGLE_QUOTE = "[`\u2018\u2019]"
_DOUBLE_QUOTE = "[\u201c\u201d]|''"
_HYPHEN = rf"([{_ALNUM}.])-([{_ALNUM}])"
_HAS_ALPHA = rf"[{_ALPHA}]"
_SPACES = r"[ \u2000-\u200a\u202f\u205f\u3000\u00a0]+"
_WORDS = r"[^ \t\n\r\f]+"
_CONTROLS = "".join(map(chr, range(33)))
_PLAIN = r"[A-Za-z0-9 ]*"

_Rules = tuple[tuple[str, str], ...]
_ENGLISH: _Rules = (
    (rf"([^{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
    (rf"([^{_ALPHA}0-9])'([{_ALPHA}])", r"\1 ' \2"),
    (rf"([{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
    (rf"([{_ALPHA}])'([{_ALPHA}])", r"\1 '\2"),
    (r"([0-9])'(s)", r"\1 '\2"),
)
_FRENCH: _Rules = (
    (rf"([^{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
    (rf"([^{_ALPHA}])'([{_ALPHA}])", r"\1 ' \2"),
    (rf"([{_ALPHA}])'([^{_ALPHA}])", r"\1 ' \2"),
    (rf"([{_ALPHA}])'([{_ALPHA}])", r"\1' \2"),
)
_PLAIN_APOSTROPHE: _Rules = (("'", " ' "),)


def split_words(line: str) -> list[str]:
    """Splits a line at ASCII white space alone, like the reference program."""
    return re.findall(_WORDS, line)


def lowercase_words(sentence: str) -> list[str]:
    """Splits a sentence into words in lower case, as with the program's option `-lower`."""
    return split_words(sentence.strip(_CONTROLS).lower())


@dataclass(frozen=True)
class MeteorNormaliser:
    """The normaliser of one language.

    Args:
        language: its English name.
        prefixes: its abbreviations; 1: they keep their dot, 2: before numbers only.
    """

    language: str
    prefixes: Mapping[str, int]

    def __call__(self, sentence: str) -> list[str]:
        """Tokenises a sentence."""
        if re.fullmatch(_PLAIN, sentence) and "DOTMULTI" not in sentence:
            return sentence.lower().split()
        line = re.sub(_OTHER, r" \1 ", f" {sentence} ")
        line = _protect_dots(line)
        for rule in _COMMAS:
            line = re.sub(rule, r"\1 , \2", line)
        line = re.sub(_DOUBLE_QUOTE, ' " ', re.sub(_SINGLE_QUOTE, "'", line))
        line = re.sub(_HYPHEN, r"\1 \2", line.replace("\u2013", "-").replace("--", "-"))
        for rule, replacement in {"english": _ENGLISH, "french": _FRENCH}.get(self.language, _PLAIN_APOSTROPHE):
            line = re.sub(rule, replacement, line)
        line = _restore_dots(self._split_dots(split_words(line)))
        return lowercase_words(re.sub(_SPACES, " ", line))

    def _split_dots(self, words: list[str]) -> str:
        """Splits a sentence's final dot off, keeps an abbreviation's dot, removes an acronym's dots."""
        tokens: list[str] = []
        for word, next_word in zip(words, [*words[1:], ""], strict=False):
            bare_word = word[:-1]
            if not (bare_word and word.endswith(".")):
                tokens.append(word)
            elif "." in bare_word and re.search(_HAS_ALPHA, bare_word):
                tokens.append(word.replace(".", ""))
            elif self._keeps_dot(bare_word, next_word[:1]):
                tokens.append(word)
            else:
                tokens.append(bare_word + " .")
        return "".join(word + " " for word in tokens)

    def _keeps_dot(self, bare_word: str, next_letter: str) -> bool:
        """Whether an abbreviation's dot, or one before a small letter, does not end the sentence."""
        prefix_kind = self.prefixes.get(bare_word)
        return prefix_kind == 1 or "a" <= next_letter <= "z" or (prefix_kind == 2 and "0" <= next_letter <= "9")


def _protect_dots(line: str) -> str:
    """Replaces runs of dots by DOTMULTI words, so that no rule takes them for the end of a sentence."""
    line = re.sub(_DOTS, r" DOTMULTI\1", line)
    while "DOTMULTI." in line:
        line = re.sub(_DOTS_END, r"DOTDOTMULTI \1", line).replace("DOTMULTI.", "DOTDOTMULTI")
    return line


def _restore_dots(line: str) -> str:
    while "DOTDOTMULTI" in line:
        line = line.replace("DOTDOTMULTI", "DOTMULTI.")
    return line.replace("DOTMULTI", ".")


Normaliser = Callable[[str], list[str]]


def normalise_texts(tokens: TokenTable, texts: Ragged, normalise: Normaliser) -> TokenTable:
    """Normalises texts.

    A token of ASCII letters and digits is only lower-cased; a text of such tokens does not need the normaliser.

    Args:
        tokens: tokens of sentences.
        texts: row i has the sentences of text i, which are joined by blanks.
        normalise: the normaliser.

    Returns:
        The words of each text.
    """
    word_ids: dict[str, int] = {}
    lower_ids = [
        word_ids.setdefault(word.lower(), len(word_ids))
        if word.isascii() and word.isalnum() and "DOTMULTI" not in word
        else -1
        for word in tokens.vocabulary.words
    ]
    sentence_tokens = tokens.ids.take(texts.values)
    rows = Ragged(np.array([*lower_ids, -1], np.int64)[sentence_tokens.values], sentence_tokens.offsets[texts.offsets])
    other_rows = distinct(rows.rows[rows.values < 0])
    # The program's pipe uses ||| to separate captions; a caption cannot hold it.
    lines = [
        normalise(" ".join(" ".join(tokens.row(k)) for k in texts[text_index].tolist()).replace("|||", ""))
        for text_index in other_rows.tolist()
    ]
    others = Ragged.from_rows([[word_ids.setdefault(word, len(word_ids)) for word in line] for line in lines], np.int64)
    simple_rows = np.delete(np.arange(len(rows)), other_rows)
    return TokenTable(
        Ragged.merged([rows.take(simple_rows), others], [simple_rows, other_rows]), Vocabulary(tuple(word_ids))
    )
