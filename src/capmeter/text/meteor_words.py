"""Sentences prepared for METEOR's aligner: their words as numbers, and which words and phrases may match.

Word identity follows the reference program, which compares 32-bit hash codes of words and stems: two words with the
same hash ("variants" and "gelato") count as the same word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.meteor_resources import MeteorLanguage
from capmeter.text.meteor_search import spans

Ints = npt.NDArray[np.integer[Any]]


class PairTable:
    """A multiset of ordered pairs of numbers below 2**31, each with a value, for batched look-ups."""

    def __init__(self, left: Ints, right: Ints, values: Ints) -> None:
        keys = left.astype(np.int64) << 32 | right.astype(np.int64)
        order = np.argsort(keys, kind="stable")
        self._keys, self._values = keys[order], values[order]
        self._shift = np.uint64(64 - max(12, (8 * len(keys)).bit_length()))
        # This hash table rejects nearly all queries at once.
        self._seen = np.zeros(1 << int(64 - self._shift), bool)
        self._seen[self._hash(self._keys)] = True

    def __len__(self) -> int:
        return len(self._keys)

    def _hash(self, keys: Ints) -> npt.NDArray[np.uint64]:
        hashes: npt.NDArray[np.uint64] = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> self._shift
        return hashes

    def find(self, left: Ints, right: Ints) -> tuple[Ints, Ints]:
        """Which of these pairs are in the table (one index per occurrence), and their values."""
        keys = left.astype(np.int64) << 32 | right.astype(np.int64)
        asked = np.flatnonzero(self._seen[self._hash(keys)])
        first = np.searchsorted(self._keys, keys[asked])
        count = np.searchsorted(self._keys, keys[asked], side="right") - first
        return np.repeat(asked, count), self._values[spans(first, count)]


@dataclass(frozen=True, eq=False)
class MeteorSentences:
    """Sentences as the aligner sees them. Sentence i has the words `words[offsets[i] : offsets[i + 1]]`.

    `exact` and `stem` (None: the language has no stemmer) number the words so that equal numbers match; `function_sum`
    counts the function words before each position. The phrases of sentence i that may be a paraphrase of another phrase
    begin at `phrase_offsets[i]`: their first word within the sentence, their length and their number (node).
    """

    tokens: Sequence[Sequence[str]]
    words: Ints
    offsets: Ints
    exact: Ints
    stem: Ints | None
    function_sum: Ints
    synonyms: PairTable | None
    paraphrases: PairTable | None
    phrase_start: Ints
    phrase_length: Ints
    phrase_node: Ints
    phrase_offsets: Ints


def meteor_sentences(tokens: Sequence[Sequence[str]], language: MeteorLanguage) -> MeteorSentences:
    """Numbers the words of these sentences (normalised tokens) and finds what may match among them."""
    numbers: dict[str, int] = {}
    words = np.array([numbers.setdefault(word, len(numbers)) for sentence in tokens for word in sentence], np.int64)
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    offsets = _offsets(lengths)
    vocabulary = list(numbers)
    function = np.array([word in language.function_words for word in vocabulary], bool)
    start, length, node, table = _phrases(vocabulary, words, offsets, language)
    sentence = np.repeat(np.arange(len(tokens)), lengths)[start]
    order = np.argsort(sentence, kind="stable")
    return MeteorSentences(
        tokens=tokens,
        words=words,
        offsets=offsets,
        exact=_numbered([java_hash(word) for word in vocabulary]),
        stem=_numbered([java_hash(language.stem(word)) for word in vocabulary]) if language.stem else None,
        function_sum=_offsets(function[words].astype(np.int64)),
        synonyms=_synonyms(vocabulary, language),
        paraphrases=table,
        phrase_start=(start - offsets[sentence])[order],
        phrase_length=length[order],
        phrase_node=node[order],
        phrase_offsets=_offsets(np.bincount(sentence, minlength=len(tokens))),
    )


def java_hash(word: str) -> int:
    """Java's hash code of a string.

    >>> java_hash("variants") == java_hash("gelato")
    True
    """
    code = 0
    for unit in memoryview(word.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code


def _numbered(codes: list[int]) -> Ints:
    numbers: Ints = np.unique(np.array(codes, np.int64), return_inverse=True)[1]
    return numbers


def _offsets(lengths: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def _synonyms(vocabulary: list[str], language: MeteorLanguage) -> PairTable | None:
    """All pairs of words that share a synset."""
    if language.synonyms is None:
        return None
    synsets = [language.synonyms.synsets(word) for word in vocabulary]
    word = np.repeat(np.arange(len(vocabulary)), [len(known) for known in synsets])
    synset = np.array([number for known in synsets for number in sorted(known)], np.int64)
    order = np.argsort(synset, kind="stable")
    _, first, count = np.unique(synset[order], return_index=True, return_counts=True)
    members = word[order]
    left = np.repeat(members, np.repeat(count, count))
    right = members[spans(np.repeat(first, count), np.repeat(count, count))]
    keys = np.unique(left[left != right] << 32 | right[left != right])
    return PairTable(keys >> 32, keys & 0xFFFFFFFF, np.zeros(len(keys), np.int8))


def _phrases(
    vocabulary: list[str], words: Ints, offsets: Ints, language: MeteorLanguage
) -> tuple[Ints, Ints, Ints, PairTable | None]:
    """The phrases of the sentences that are paraphrases of each other, and their pairs."""
    nothing = np.zeros(0, np.int64)
    index = language.paraphrases
    if index is None:
        return nothing, nothing, nothing, None
    known = np.array([index.words.get(word, -1) for word in vocabulary] or [-1], np.int64)
    start, length, node = index.phrases(known[words], offsets)
    here, where = np.unique(node, return_inverse=True)
    left, right, rank = index.rights(here)
    right_here = np.searchsorted(here, right)
    right_here[right_here == len(here)] = 0
    both = np.flatnonzero(here[right_here] == right) if len(here) else nothing
    left, right, rank = left[both], right_here[both], rank[both]
    related = np.zeros(len(here), bool)
    related[left] = related[right] = True
    kept = related[where]
    return start[kept], length[kept], where[kept], PairTable(left, right, rank)
