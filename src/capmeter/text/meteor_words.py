"""Sentences prepared for METEOR's aligner: which of their words and phrases may match.

Word identity follows the reference program, which compares 32-bit hash codes of words and stems: two words with the
same hash ("variants" and "gelato") count as the same word.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.ragged import Ragged, distinct
from capmeter.text.meteor_resources import MeteorLanguage
from capmeter.text.meteor_search import spans
from capmeter.text.meteor_texts import MeteorTexts
from capmeter.text.tokens import TokenTable

Ints = npt.NDArray[np.integer[Any]]
RANK = 40  # bits of the rank in a relation's value, below its kind
SYNONYM, FORWARD, BACK = 0, 1, 2


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
        hashes: npt.NDArray[np.uint64] = keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> self._shift
        return hashes

    def sides(self) -> tuple[Ints, Ints]:
        """The left and the right numbers of all pairs."""
        return self._keys >> 32, self._keys & 0xFFFFFFFF

    def find(self, left: Ints, right: Ints) -> tuple[Ints, Ints]:
        """Which of these pairs are in the table (one index per occurrence), and their values."""
        keys = left.astype(np.int64, copy=False) << 32 | right
        asked = np.flatnonzero(self._seen.take(self._hash(keys).view(np.int64)))
        first = np.searchsorted(self._keys, keys[asked])
        count = np.searchsorted(self._keys, keys[asked], side="right") - first
        return np.repeat(asked, count), self._values[spans(first, count)]


@dataclass(frozen=True, eq=False)
class MeteorSentences:
    """Sentences as the aligner sees them. Sentence i has the words `words[offsets[i] : offsets[i + 1]]`.

    `exact` and `stem` (None: the language has no stemmer) number the words so that equal numbers match; `function_sum`
    counts the function words before each position. The phrases of sentence i that a synonym or a paraphrase may match
    begin at `phrase_offsets[i]`: their first word within the sentence, their length and their number, which for a
    single word is the word. Phrases k and l can match only if `kin[k] & sign[l]`: `sign` has one of 64 bits, `kin`
    those of all that the phrase may match. Of both there are some more than phrases, so that one may read beyond the
    end.
    `relations` has those pairs, a reference's phrase before a hypothesis's, with a value of `SYNONYM`, or `FORWARD` or
    `BACK` and the rank in the paraphrase table, where the left phrase is the reference's or the hypothesis's.
    """

    table: TokenTable
    exact: npt.NDArray[np.int32]
    stem: npt.NDArray[np.int32] | None
    function_sum: Ints
    relations: PairTable
    phrase_start: Ints
    phrase_length: Ints
    phrase: Ints
    phrase_offsets: Ints
    kin: npt.NDArray[np.uint64]
    sign: npt.NDArray[np.uint64]

    @property
    def words(self) -> Ints:
        """The words of all sentences, as indices into the vocabulary."""
        return self.table.ids.values

    @property
    def offsets(self) -> Ints:
        """Where each sentence begins in `words`, and the end of the last."""
        return self.table.ids.offsets

    @cached_property
    def lengths(self) -> Ints:
        """The number of words of each sentence."""
        return self.table.ids.lengths

    @cached_property
    def padded(self) -> Ints:
        """`words`, so that one may read beyond the end of the last sentence."""
        return np.concatenate([self.words, np.zeros(int(self.lengths.max(initial=0)) + 1, np.int64)])


def meteor_sentences(texts: MeteorTexts, language: MeteorLanguage, said: Ints) -> MeteorSentences:
    """What may match among these texts, of which those at `said` are the hypotheses.

    A synonym or a paraphrase is found only if it is said in a hypothesis: all others are left out here.
    """
    table, count = texts.table, len(texts.table.vocabulary)
    words, offsets = table.ids.values, table.ids.offsets
    heard = np.zeros(count, bool)
    heard[table.ids.take(said).values] = True
    synonyms = _synonyms(texts.synsets, heard)
    kept, paraphrases, number = _phrases(texts, language, said, heard)
    # A word is a phrase if a synonym or a paraphrase of it occurs; longer phrases have been chosen already.
    kin = np.zeros(count, bool)
    for side in (*synonyms, *paraphrases[:2]):
        kin[side[side < count]] = True
    single = np.flatnonzero(kin[words])
    alone = table.ids.rows[single]
    sentence = np.concatenate([alone, texts.phrases.rows[kept]])
    order = np.argsort(sentence, kind="stable")
    start = np.concatenate([single - offsets[alone], texts.start[kept]])
    length = np.concatenate([np.ones(len(single), np.int64), texts.length[kept]])
    number = np.concatenate([words[single], number])[order]
    beyond = np.zeros(_longest(sentence) + 1, np.uint64)
    relations = _relations(synonyms, paraphrases)
    kin_of, sign_of = _signs(int(number.max(initial=0)) + 1, relations)
    return MeteorSentences(
        table=table,
        exact=_numbered(texts.exact),
        stem=_numbered(texts.stem) if language.stem else None,
        function_sum=_offsets(texts.function[words].astype(np.int64)),
        relations=relations,
        phrase_start=start[order],
        phrase_length=length[order],
        phrase=number,
        phrase_offsets=_offsets(np.bincount(sentence, minlength=len(table.ids))),
        kin=np.concatenate([kin_of[number], beyond]),
        sign=np.concatenate([sign_of[number], beyond]),
    )


def _longest(rows: Ints) -> int:
    """The largest number of values in a row."""
    return int(np.bincount(rows).max(initial=0))


def _numbered(codes: Ints) -> npt.NDArray[np.int32]:
    numbers: npt.NDArray[np.int32] = np.unique(codes, return_inverse=True)[1].astype(np.int32)
    return numbers


def _offsets(lengths: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def _relations(synonyms: tuple[Ints, Ints], paraphrases: tuple[Ints, Ints, Ints]) -> PairTable:
    """The pairs of words that share a synset, and those of phrases in the paraphrase table, as they are and turned."""
    (one, other), (left, right, rank) = synonyms, paraphrases
    values = np.zeros(len(one), np.int64), FORWARD << RANK | rank, BACK << RANK | rank
    return PairTable(np.concatenate([one, left, right]), np.concatenate([other, right, left]), np.concatenate(values))


def _signs(phrases: int, relations: PairTable) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """For each phrase the signs of all that it is related to, and its own sign."""
    spread = np.arange(phrases, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    sign = np.uint64(1) << (spread >> np.uint64(58))
    kin = np.zeros(phrases, np.uint64)
    one, other = relations.sides()
    np.bitwise_or.at(kin, one, sign[other])
    return kin, sign


def _synonyms(synsets: Ragged, heard: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """All pairs of words that share a synset, one of which is heard, in both orders."""
    synset, word = synsets.values.astype(np.int64), synsets.rows
    order = np.argsort(synset, kind="stable")
    _, first, count = np.unique(synset[order], return_index=True, return_counts=True)
    members = word[order]
    left = np.repeat(members, np.repeat(count, count))
    right = members[spans(np.repeat(first, count), np.repeat(count, count))]
    pairs = (left != right) & (heard[left] | heard[right])
    keys = distinct(left[pairs] << 32 | right[pairs])
    return keys >> 32, keys & 0xFFFFFFFF


def _phrases(
    texts: MeteorTexts, language: MeteorLanguage, said: Ints, heard: npt.NDArray[np.bool_]
) -> tuple[Ints, tuple[Ints, Ints, Ints], Ints]:
    """Which longer phrases of the texts may be paraphrases, all pairs of phrases one of which is said with their ranks,
    and the numbers of these longer phrases there.
    """
    nothing = np.zeros(0, np.int64)
    if language.paraphrases is None:
        return nothing, (nothing, nothing, nothing), nothing
    index, count = language.paraphrases, len(heard)
    word = np.flatnonzero(texts.node >= 0)
    here = distinct(np.concatenate([texts.node[word], texts.phrases.values]))
    # A single word is numbered as in the vocabulary, a longer phrase after them, other nodes of the table -1.
    number = np.full(index.nodes, -1, np.int32)
    number[here] = count + np.arange(len(here))
    number[texts.node[word]] = word
    is_said = np.zeros(count + len(here), bool)
    is_said[:count] = heard
    is_said[number[texts.phrases.take(said).values]] = True
    left, right, rank = index.rights(here)
    left, right = number[here[left]], number[right]
    both = np.flatnonzero(right >= 0)
    left, right, rank = left[both], right[both], rank[both]
    pairs = is_said[left] | is_said[right]
    left, right, rank = left[pairs], right[pairs], rank[pairs]
    number_of = number[texts.phrases.values]
    related = np.zeros(count + len(here), bool)
    related[left] = related[right] = True
    kept = np.flatnonzero(related[number_of])
    return kept, (left, right, rank), number_of[kept]
