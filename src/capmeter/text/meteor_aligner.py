"""METEOR 1.5's word alignment of many sentence pairs at once: all matches, those that are settled, then the search.

A pair's *hypothesis* is the candidate (the program's line 1), its *reference* line 2. A match is a span of words on
each side and the module that found it: the same word, the same stem, a shared synset, or a pair in the paraphrase
table. WordMatches of all modules are kept together, in the program's order, which breaks ties in its beam search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.meteor_search import search, spans
from capmeter.text.meteor_words import MeteorSentences, PairTable

Ints = npt.NDArray[np.integer[Any]]
KINDS = ("exact", "stem", "synonym", "paraphrase")
# Maximum numbers of pairs, and of pairs of words, in a batch.
_PAIRS, _CELLS = 2048, 500_000
# A pair of texts with more pairs of words is no caption and its reference. The search is slow before that, where both
# repeat themselves, and needs much memory where one repeats a word; the Java program takes minutes, or fails.
_MOST_CELLS, _MOST_WORK, _MOST_TRIED = 4_000_000, 1_000_000_000, 10_000_000


@dataclass(frozen=True, eq=False)
class WordMatches:
    """WordMatches of pairs of sentences: match k belongs to pair `pair[k]`, `kind[k]` is its index in `KINDS`."""

    pair: Ints
    kind: Ints
    start: Ints
    length: Ints
    hypothesis_start: Ints
    hypothesis_length: Ints

    def take(self, which: npt.NDArray[Any]) -> WordMatches:
        """Some of the matches."""
        return WordMatches(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    @classmethod
    def joined(cls, parts: list[WordMatches]) -> WordMatches:
        """The matches of all parts, concatenated."""
        names = cls.__dataclass_fields__
        return cls(
            *(np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)]) for name in names)
        )


def align(
    sentences: MeteorSentences, hypotheses: Ints, references: Ints, *, beam: int = 40
) -> tuple[WordMatches, Ints]:
    """The alignment of each pair (indices of sentences), by pair and then by place in the reference.

    With it the pairs that were not aligned, because they are too long or repeat too many words; they have no match.
    """
    chosen: list[WordMatches] = []
    lengths = np.diff(sentences.offsets)
    endless = lengths[hypotheses] * lengths[references] > _MOST_CELLS
    refused: list[Ints] = [np.flatnonzero(endless)]
    for rows in _batches(lengths[hypotheses], lengths[references], np.flatnonzero(~endless)):
        best, hopeless = _align_batch(sentences, hypotheses[rows], references[rows], beam)
        chosen.append(
            WordMatches(rows[best.pair], *(getattr(best, name) for name in list(best.__dataclass_fields__)[1:]))
        )
        refused.append(rows[hopeless])
    matches = WordMatches.joined(chosen)
    unaligned = np.sort(np.concatenate([np.zeros(0, np.int64), *refused]))
    return matches.take(np.lexsort((matches.start, matches.pair))), unaligned


def _batches(here: Ints, there: Ints, pairs: Ints) -> Iterator[Ints]:
    """These pairs, of so many words on both sides, in groups of like length, none with too many words."""
    order = pairs[np.argsort((here + there)[pairs], kind="stable")]
    cells = np.cumsum(here[order] * there[order])
    first = 0
    while first < len(order):
        limit = cells[first - 1] + _CELLS if first else _CELLS
        last = max(first + 1, min(first + _PAIRS, int(np.searchsorted(cells, limit, side="right"))))
        yield order[first:last]
        first = last


def _align_batch(
    sentences: MeteorSentences, hypotheses: Ints, references: Ints, beam: int
) -> tuple[WordMatches, npt.NDArray[np.bool_]]:
    """The batch's alignments, and which of its pairs were not aligned."""
    lengths = np.diff(sentences.offsets)
    here, there = lengths[hypotheses], lengths[references]
    matches = _all_matches(sentences, hypotheses, references)
    settled = _settled(matches, here, there)
    place = matches.pair[~settled] * (int(there.max(initial=0)) + 1) + matches.start[~settled]
    competing = np.bincount(place, minlength=len(here) * (int(there.max(initial=0)) + 1)).reshape(len(here), -1)
    size = beam * ((here + there) // 64 + 1)
    hopeless = (competing.sum(axis=1) * size > _MOST_WORK) | (competing.max(axis=1) * size > _MOST_TRIED)
    if hopeless.any():
        kept = ~hopeless[matches.pair]
        matches, settled = matches.take(kept), settled[kept]
    # If every match is settled there is nothing to search.
    open_pairs = np.unique(matches.pair[~settled])
    searched = np.zeros(len(hypotheses), bool)
    searched[open_pairs] = True
    inside = np.flatnonzero(searched[matches.pair])
    number = np.cumsum(searched) - 1
    found = matches.take(inside)
    chosen = search(
        number[found.pair],
        found.kind == 0,
        (found.start, found.length, found.hypothesis_start, found.hypothesis_length),
        settled[inside],
        (here[open_pairs], there[open_pairs]),
        beam,
    )
    settled[inside] = False
    return matches.take(np.concatenate([np.flatnonzero(settled), inside[chosen]])), hopeless


def _all_matches(sentences: MeteorSentences, hypotheses: Ints, references: Ints) -> WordMatches:
    """Every match of each pair, ordered by pair, position in the reference, and then as in the program."""
    offsets, words = sentences.offsets, sentences.words
    pair, here, there = _cross(
        offsets[references], np.diff(offsets)[references], offsets[hypotheses], np.diff(offsets)[hypotheses]
    )
    word, other = words[here], words[there]
    start, other_start = here - offsets[references][pair], there - offsets[hypotheses][pair]
    same = sentences.exact[word] == sentences.exact[other]
    # Two identical lists of words are matched by the exact module alone.
    equal = np.diff(offsets)[references] == np.diff(offsets)[hypotheses]
    alike = np.bincount(pair[same & (start == other_start)], minlength=len(references))
    equal &= alike == np.diff(offsets)[references]
    differs = ~same & ~equal[pair]
    found = [(0, np.flatnonzero(same))]
    if sentences.stem is not None:
        found.append((1, np.flatnonzero(differs & (sentences.stem[word] == sentences.stem[other]))))
    if sentences.synonyms is not None:
        asked = np.flatnonzero(differs)
        found.append((2, asked[sentences.synonyms.find(word[asked], other[asked])[0]]))
    parts: list[tuple[WordMatches, Ints, Ints]] = []
    for kind, cells in found:
        one = np.ones(len(cells), np.int64)
        single = WordMatches(pair[cells], kind * one, start[cells], one, other_start[cells], one)
        parts.append((single, 0 * one, other_start[cells]))
    if sentences.paraphrases is not None:
        parts += _paraphrased(sentences, sentences.paraphrases, hypotheses, references, equal)
    matches = WordMatches.joined([part for part, _, _ in parts])
    back, order = (np.concatenate([part[column] for part in parts]) for column in (1, 2))
    return matches.take(np.lexsort((order, back, matches.kind, matches.start, matches.pair)))


def _paraphrased(
    sentences: MeteorSentences, table: PairTable, hypotheses: Ints, references: Ints, equal: npt.NDArray[np.bool_]
) -> Iterator[tuple[WordMatches, Ints, Ints]]:
    """The paraphrase module's matches, the direction in which each was found, and its order within that direction.

    A table's left side is looked up in the reference, then in the hypothesis. The first direction orders a word's
    matches by (length, rank in the table, position in the hypothesis), the second by (position and length in the
    hypothesis, rank).
    """
    offsets = sentences.phrase_offsets
    here, there = np.where(equal, 0, np.diff(offsets)[references]), np.diff(offsets)[hypotheses]
    pair, mine, other = _cross(offsets[references], here, offsets[hypotheses], there)
    node, other_node = sentences.phrase_node[mine], sentences.phrase_node[other]
    for back in (0, 1):
        cells, rank = table.find(other_node, node) if back else table.find(node, other_node)
        start, length = sentences.phrase_start[mine[cells]], sentences.phrase_length[mine[cells]]
        far, far_length = sentences.phrase_start[other[cells]], sentences.phrase_length[other[cells]]
        place = (far << 32 | far_length << 28 | rank) if back else (length << 60 | rank << 28 | far)
        kind = np.full(len(cells), 3)
        yield WordMatches(pair[cells], kind, start, length, far, far_length), np.full(len(cells), back), place


def _cross(first: Ints, count: Ints, other_first: Ints, other_count: Ints) -> tuple[Ints, Ints, Ints]:
    """For each pair of ranges, the Cartesian product of their numbers: (pair, one, other)."""
    rows = spans(first, count)
    row_pair = np.repeat(np.arange(len(first)), count)
    width = other_count[row_pair]
    pair, one = np.repeat(row_pair, width), np.repeat(rows, width)
    return pair, one, spans(other_first[row_pair], width)


def _settled(matches: WordMatches, here: Ints, there: Ints) -> npt.NDArray[np.bool_]:
    """Which matches compete with no other: each of their words, on both sides, is covered by no other match."""
    reference = np.cumsum(there)[matches.pair] - there[matches.pair] + matches.start
    hypothesis = np.cumsum(here)[matches.pair] - here[matches.pair] + matches.hypothesis_start
    alone = np.ones(len(matches.pair), bool)
    for first, length, words in ((reference, matches.length, there), (hypothesis, matches.hypothesis_length, here)):
        covered = np.bincount(spans(first, length), minlength=int(words.sum()))
        for step in range(int(length.max(initial=0))):
            inside = length > step
            alone[inside] &= covered[first[inside] + step] == 1
    return alone
