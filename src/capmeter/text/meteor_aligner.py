"""METEOR 1.5's word alignment of many sentence pairs at once: all matches, those that are settled, then the search.

A pair's *hypothesis* is the candidate (the program's line 1), its *reference* line 2. A match is a span of words on
each side and the module that found it: the same word, the same stem, a shared synset, or a pair in the paraphrase
table. WordMatches of all modules are kept together, in the program's order, which breaks ties in its beam search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.meteor_search import search, spans
from capmeter.text.meteor_words import BACK, RANK, SYNONYM, MeteorSentences

Ints = npt.NDArray[np.integer[Any]]
KINDS = ("exact", "stem", "synonym", "paraphrase")
# Maximum numbers of pairs, and of pairs of words, in a batch; of pairs that are searched at once.
_PAIRS, _CELLS, _SEARCHED = 2048, 1_000_000, 4096
# Of captions with more matches, which repeat themselves, those of the best alignment are kept and not all.
_KEPT = 64
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
        """Some of the matches: those at these places, or those for which it is true."""
        rows = np.flatnonzero(which) if which.dtype == bool else which
        return WordMatches(*(getattr(self, name).take(rows) for name in self.__dataclass_fields__))

    @classmethod
    def joined(cls, parts: list[WordMatches]) -> WordMatches:
        """The matches of all parts, concatenated."""
        names = cls.__dataclass_fields__
        return cls(
            *(np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)]) for name in names)
        )


@dataclass(frozen=True, eq=False)
class MatchedPairs:
    """All matches of pairs of sentences, of which `aligned` chooses the best alignment for as many pairs as are asked.

    Inside, pairs are numbered in the order of their lengths, so that pairs of like length are neighbours: pair
    `order[k]` is number k, with `lengths` (hypotheses, references). `settled` are the matches that compete with no
    other; `chunks` says how many of a pair's begin a chunk in any alignment, since no match ends where they begin.
    `unaligned` are the pairs that cannot be aligned, because they are too long or repeat too many words; they have no
    match.
    """

    order: Ints
    lengths: tuple[Ints, Ints]
    matches: WordMatches
    settled: npt.NDArray[np.bool_]
    chunks: Ints
    unaligned: Ints
    beam: int

    @classmethod
    def of(cls, sentences: MeteorSentences, hypotheses: Ints, references: Ints, *, beam: int = 40) -> MatchedPairs:
        """The matches of these pairs (indices of sentences)."""
        here, there = sentences.lengths[hypotheses], sentences.lengths[references]
        endless = here * there > _MOST_CELLS
        pairs = np.flatnonzero(~endless)
        order = pairs[np.lexsort((here[pairs], there[pairs]))]
        here, there = here[order], there[order]
        parts, settled, refused = [], [np.zeros(0, bool)], [np.flatnonzero(endless)]
        chunks: list[Ints] = [np.zeros(0, np.int64)]
        for first, last in _batches(here, there, _PAIRS):
            batch = order[first:last]
            matches, alone, hopeless = _matched(sentences, hypotheses[batch], references[batch], beam)
            if len(matches.pair) > _KEPT * len(batch):
                matches = matches.take(np.sort(_best(matches, alone, here[first:last], there[first:last], beam)))
                alone = np.ones(len(matches.pair), bool)
            parts.append(replace(matches, pair=matches.pair + first))
            settled.append(alone)
            chunks.append(_least_chunks(matches, alone, len(batch)))
            refused.append(batch[hopeless])
        unaligned = np.sort(np.concatenate(refused))
        found, alone = WordMatches.joined(parts), np.concatenate(settled)
        return cls(order, (here, there), found, alone, np.concatenate(chunks), unaligned, beam)

    def aligned(self, pairs: Ints) -> WordMatches:
        """The alignments of these pairs, by pair (numbered from 0, as they are given) and place in the reference."""
        number = np.full(int(max(self.order.max(initial=-1), pairs.max(initial=-1))) + 1, -1)
        number[pairs] = np.arange(len(pairs))
        wanted = np.flatnonzero(number[self.order] >= 0)
        lengths = self.lengths[0][wanted], self.lengths[1][wanted]
        begin = np.searchsorted(self.matches.pair, np.arange(len(self.order) + 1))
        chosen = []
        for first, last in _batches(*lengths, _SEARCHED):
            asked = wanted[first:last]
            count = begin[asked + 1] - begin[asked]
            inside = spans(begin[asked], count)
            found = replace(self.matches.take(inside), pair=np.repeat(np.arange(len(asked)), count))
            here, there = (each[first:last] for each in lengths)
            chosen.append(inside[_best(found, self.settled.take(inside), here, there, self.beam)])
        best = self.matches.take(np.concatenate([np.zeros(0, np.int64), *chosen]))
        best = replace(best, pair=number[self.order[best.pair]])
        return best.take(np.argsort(best.pair << 32 | best.start))


def _best(found: WordMatches, settled: npt.NDArray[np.bool_], here: Ints, there: Ints, beam: int) -> Ints:
    """Which of the matches of these pairs, of so many words on both sides, form the best alignment of each."""
    # If every match is settled there is nothing to search.
    searched = np.zeros(len(here), bool)
    searched[found.pair.take(np.flatnonzero(~settled))] = True
    among = np.flatnonzero(searched.take(found.pair))
    number, inside = np.cumsum(searched) - 1, found.take(among)
    best = search(
        number.take(inside.pair),
        inside.kind == 0,
        (inside.start, inside.length, inside.hypothesis_start, inside.hypothesis_length),
        settled[among],
        (here[searched], there[searched]),
        beam,
    )
    alone = settled.copy()
    alone[among] = False
    return np.concatenate([np.flatnonzero(alone), among[best]])


def _batches(here: Ints, there: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Neighbouring pairs, of so many words on both sides, in groups none of which has too many pairs or words."""
    first = 0
    while first < len(here):
        group = slice(first, first + most)
        depth, width = np.maximum.accumulate(there[group]), np.maximum.accumulate(here[group])
        cells = np.arange(1, len(depth) + 1) * depth * width  # of a table with a place for every pair of words
        size = max(1, int(np.searchsorted(cells, _CELLS, side="right")))
        yield first, min(first + size, len(here))
        first += size


def _matched(
    sentences: MeteorSentences, hypotheses: Ints, references: Ints, beam: int
) -> tuple[WordMatches, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """The batch's matches, which of them are settled, and which of its pairs are not to be aligned."""
    here, there = sentences.lengths[hypotheses], sentences.lengths[references]
    matches = _all_matches(sentences, hypotheses, references)
    settled = _settled(matches, here, there)
    place = matches.pair[~settled] * (int(there.max(initial=0)) + 1) + matches.start[~settled]
    competing = np.bincount(place, minlength=len(here) * (int(there.max(initial=0)) + 1)).reshape(len(here), -1)
    size = beam * ((here + there) // 64 + 1)
    hopeless = (competing.sum(axis=1) * size > _MOST_WORK) | (competing.max(axis=1) * size > _MOST_TRIED)
    if hopeless.any():
        kept = ~hopeless[matches.pair]
        matches, settled = matches.take(kept), settled[kept]
    return matches, settled, hopeless


def _all_matches(sentences: MeteorSentences, hypotheses: Ints, references: Ints) -> WordMatches:
    """Every match of each pair, ordered by pair, position in the reference, and then as in the program."""
    here, there = sentences.lengths[hypotheses], sentences.lengths[references]
    depth, width, pairs = int(there.max(initial=0)), int(here.max(initial=0)), len(here)
    rows, columns = np.arange(depth)[:, None], np.arange(width)[:, None]
    words = sentences.padded.take(sentences.offsets[references] + rows)
    heard = sentences.padded.take(sentences.offsets[hypotheses] + columns)

    def equal_cells(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """A table [words of the reference, words of the hypothesis, pairs]."""
        one, other = np.where(rows < there, numbers.take(words), -1), np.where(columns < here, numbers.take(heard), -2)
        cells: npt.NDArray[np.bool_] = one[:, None] == other
        return cells

    same = equal_cells(sentences.exact)
    pair, start, far = _places(np.flatnonzero(same), width, pairs)
    # Two identical lists of words are matched by the exact module alone.
    differ = (here != there) | (np.bincount(pair[start == far], minlength=pairs) != there)
    found = [(0, pair, start, far)]
    if sentences.stem is not None:
        alike = equal_cells(sentences.stem) > same
        if not differ.all():
            alike &= differ
        found.append((1, *_places(np.flatnonzero(alike), width, pairs)))
    pair, one, other = _related(sentences, hypotheses, references, differ)
    cells, relation = sentences.relations.find(sentences.phrase.take(one), sentences.phrase.take(other))
    pair, one, other = pair[cells], one[cells], other[cells]
    is_synonym = relation >> RANK == SYNONYM
    synonyms = np.flatnonzero(is_synonym)
    mine, theirs = (sentences.exact[sentences.phrase[side[synonyms]]] for side in (one, other))
    synonyms = synonyms[mine != theirs]
    found.append((2, pair[synonyms], sentences.phrase_start[one[synonyms]], sentences.phrase_start[other[synonyms]]))
    parts = [
        WordMatches(pair, np.full(len(pair), kind), start, np.ones_like(start), far, np.ones_like(far))
        for kind, pair, start, far in found
    ]
    others = ~is_synonym
    matches = WordMatches.joined(
        [*parts, _paraphrased(sentences, pair[others], one[others], other[others], relation[others])]
    )
    place = (matches.pair * max(depth, 1) + matches.start) * len(KINDS) + matches.kind
    return matches.take(np.sort(place << 32 | np.arange(len(place))) & 0xFFFFFFFF)  # faster than a stable argsort


def _places(cells: Ints, width: int, pairs: int) -> tuple[Ints, Ints, Ints]:
    """The (pair, row, column) of these cells of a table [depth, width, pairs]."""
    cell, pair = np.divmod(cells, max(pairs, 1))
    return pair, *np.divmod(cell, max(width, 1))


def _related(
    sentences: MeteorSentences, hypotheses: Ints, references: Ints, differ: npt.NDArray[np.bool_]
) -> tuple[Ints, Ints, Ints]:
    """Pairs of phrases that may be synonyms or paraphrases: (pair, the reference's phrase, the hypothesis's)."""
    offsets = sentences.phrase_offsets
    count = np.where(differ, offsets[references + 1] - offsets[references], 0)
    order = np.argsort(-count, kind="stable")  # so that the pairs with a k-th phrase of the reference are the first
    count, first, other_first = count[order], offsets[references[order]], offsets[hypotheses[order]]
    other_count = offsets[hypotheses[order] + 1] - other_first
    column = np.arange(int(other_count.max(initial=0)))[:, None]
    # What is read beyond a sentence's last phrase is related to nothing.
    sign = np.where(column < other_count, sentences.sign.take(other_first + column), 0)
    found = []
    for row in range(int(count.max(initial=0))):  # a table of all would not fit the processor's memory
        having = int(np.searchsorted(-count, -row))
        cells = np.flatnonzero((sentences.kin.take(first[:having] + row) & sign[:, :having]) != 0)
        place, pair = np.divmod(cells, having)
        found.append((order.take(pair), first.take(pair) + row, other_first.take(pair) + place))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    pairs, one, other = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return pairs, one, other


def _paraphrased(sentences: MeteorSentences, pair: Ints, mine: Ints, other: Ints, relation: Ints) -> WordMatches:
    """The paraphrase module's matches, these pairs of phrases with their relation, in the program's order.

    A table's left side is looked up in the reference, then in the hypothesis. The first direction orders a word's
    matches by (length, rank in the table, position in the hypothesis), the second by (position and length in the
    hypothesis, rank).
    """
    start, length = sentences.phrase_start[mine], sentences.phrase_length[mine]
    far, far_length = sentences.phrase_start[other], sentences.phrase_length[other]
    back, rank = relation >> RANK == BACK, relation & ((1 << RANK) - 1)
    order = np.where(back, far << 32 | far_length << 28 | rank, length << 60 | rank << 28 | far)
    matches = WordMatches(pair, np.full(len(pair), 3), start, length, far, far_length)
    return matches.take(np.lexsort((order, pair << 32 | start << 1 | back)))


def _least_chunks(matches: WordMatches, settled: npt.NDArray[np.bool_], pairs: int) -> Ints:
    """How many settled matches of each pair begin where no match ends, and so begin a chunk in any alignment."""
    after, far_after = matches.start + matches.length, matches.hypothesis_start + matches.hypothesis_length
    depth, width = int(after.max(initial=0)) + 1, int(far_after.max(initial=0)) + 1
    ends = np.zeros(pairs * depth * width, bool)
    ends[(matches.pair * depth + after) * width + far_after] = True
    begins = settled & ~ends.take((matches.pair * depth + matches.start) * width + matches.hypothesis_start)
    return np.bincount(matches.pair[begins], minlength=pairs)


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
