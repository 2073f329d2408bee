"""The concepts that a caption names: the stems of its content words.

>>> concepts("Two dogs are riding on a motorcycle.")
['two', 'dog', 'ride', 'motorcycl']

As in the code that Feinglass and Yang released with SMURF (2021), a caption is lower-cased and all full stops are
removed; it is tokenised like NLTK's `word_tokenize`; stop words are removed, and so is every token that contains an
ASCII punctuation mark (`two-wheeled`, `'s`, `n't`); the rest are stemmed by Porter's algorithm in NLTK's mode. NLTK
itself is not needed. Differences: docs/parity.md.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import Life
from capmeter.ragged import Ragged
from capmeter.text.porter import stem
from capmeter.text.stopwords import STOP_WORDS
from capmeter.text.tokens import Sentences

# how concepts are extracted, for signatures
CONCEPTS_BY = {"tokenizer": "treebank-nltk3.5", "stemmer": "porter-nltk", "stopwords": "nltk-179"}

_PUNCTUATION = frozenset(string.punctuation)

# The rules of the Penn Treebank's tokenizer script in NLTK 3.5's form and order, for lower-case text without full
# stops. Each separates its match from the surrounding text.
_SEPARATIONS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"[«“‘„]|`+", r" \g<0> "),
        (r'^"', r" `` "),
        (r"``", r" `` "),
        (r"([ (\[{<])(?:\"|'')", r"\1 `` "),
        (r"'(?!re|ve|ll|m|t|s|d)(\w)\b", r"' \1"),
        (r"([:,])(\D)", r" \1 \2"),
        (r"([:,])$", r" \1 "),
        (r"[;@#$%&?!]", r" \g<0> "),
        (r"([^'])' ", r"\1 ' "),
        (r"[*\]\[(){}<>]", r" \g<0> "),
        (r"--", " -- "),
        (r"\A|\Z", " "),
        (r"[»”’]", r" \g<0> "),
        (r'"', " '' "),
        (r"(\S)''", r"\1 '' "),
        (r"([^' ])('[smd]|') ", r"\1 \2 "),
        (r"([^' ])('ll|'re|'ve|n't) ", r"\1 \2 "),
        (r"\b(can)(not)\b", r" \1 \2 "),
        (r"\b(d)('ye)\b", r" \1 \2 "),
        (r"\b(gim)(me)\b", r" \1 \2 "),
        (r"\b(gon)(na)\b", r" \1 \2 "),
        (r"\b(got)(ta)\b", r" \1 \2 "),
        (r"\b(lem)(me)\b", r" \1 \2 "),
        (r"\b(mor)('n)\b", r" \1 \2 "),
        (r"\b(wan)(na)\s", r" \1 \2 "),
        (r" ('t)(is)\b", r" \1 \2 "),
        (r" ('t)(was)\b", r" \1 \2 "),
    )
)
_JOINED = {
    "cannot": ("can", "not"),
    "gimme": ("gim", "me"),
    "gonna": ("gon", "na"),
    "gotta": ("got", "ta"),
    "lemme": ("lem", "me"),
    "wanna": ("wan", "na"),
}
_PLAIN = re.compile(r"[a-z0-9\s]*", re.ASCII)


def plain(sentence: str) -> str:
    """The sentence lower-cased, without full stops and trailing white space, as in SMURF's code.

    >>> plain("A dog runs . ")
    'a dog runs'
    """
    return sentence.lower().rstrip().replace(" .", "").replace(".", "")


def word_tokens(text: str) -> list[str]:
    """The tokens of a `plain` text.

    >>> word_tokens("a man's dog isn't here, gonna run!")
    ['a', 'man', "'s", 'dog', 'is', "n't", 'here', ',', 'gon', 'na', 'run', '!']
    """
    if _PLAIN.fullmatch(text):  # letters, digits and spaces: only contractions such as "gonna" are split
        return [part for word in text.split() for part in _JOINED.get(word, (word,))]
    for pattern, replacement in _SEPARATIONS:
        text = pattern.sub(replacement, text)
    return text.split()


@lru_cache(maxsize=1 << 16)
def concept(token: str) -> str | None:
    """The concept that a token names, or None for a stop word or a token with punctuation.

    >>> concept("wheels"), concept("the"), concept("two-wheeled")
    ('wheel', None, None)
    """
    if token in STOP_WORDS or not _PUNCTUATION.isdisjoint(token):
        return None
    return stem(token)


def concepts(sentence: str) -> list[str]:
    """The concepts of a sentence in order, with repetitions."""
    named = (concept(token) for token in word_tokens(plain(sentence)))
    return [found for found in named if found is not None]


@dataclass(frozen=True, eq=False)
class ConceptTable:
    """For each sentence its distinct concepts, as ascending indices into `vocabulary`."""

    vocabulary: tuple[str, ...]
    concepts: Ragged

    def __len__(self) -> int:
        return len(self.concepts)

    def take(self, indices: npt.NDArray[np.int64]) -> ConceptTable:
        """The sentences at these indices."""
        return ConceptTable(self.vocabulary, self.concepts.take(indices))


@dataclass(frozen=True)
class Concepts:
    """The analysis of a pool into the distinct concepts of each sentence."""

    life: ClassVar[Life] = "run"

    def run(self, pool: Sentences) -> ConceptTable:
        """The concepts of every sentence of the pool."""
        vocabulary: dict[str, int] = {}
        rows = [self._indices(concepts(sentence), vocabulary) for sentence in pool.sentences]
        return ConceptTable(tuple(vocabulary), Ragged.from_rows(rows, np.int32))

    @staticmethod
    def _indices(named: Iterable[str], vocabulary: dict[str, int]) -> list[int]:
        return sorted({vocabulary.setdefault(each, len(vocabulary)) for each in named})
