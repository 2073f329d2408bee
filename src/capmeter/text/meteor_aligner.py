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

from capmeter.ragged import distinct
from capmeter.text.meteor_search import search, spans
from capmeter.text.meteor_words import MeteorSentences

Ints = npt.NDArray[np.integer[Any]]
KINDS = ("exact", "stem", "synonym", "paraphrase")
# Maximum numbers of pairs, and of pairs of words, in a batch.
_PAIRS, _CELLS = 2048, 1_000_000
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
    lengths = sentences.lengths
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
    place = matches.pair << 32 | matches.start
    return matches.take(np.argsort(place)), unaligned


def _batches(here: Ints, there: Ints, pairs: Ints) -> Iterator[Ints]:
    """These pairs, of so many words on both sides, in groups of like length, none with too many words."""
    order = pairs[np.lexsort((here[pairs], there[pairs]))]
    first = 0
    while first < len(order):
        group = order[first : first + _PAIRS]
        depth, width = np.maximum.accumulate(there[group]), np.maximum.accumulate(here[group])
        cells = np.arange(1, len(group) + 1) * depth * width  # of a table with a place for every pair of words
        size = max(1, int(np.searchsorted(cells, _CELLS, side="right")))
        yield group[:size]
        first += size


def _align_batch(
    sentences: MeteorSentences, hypotheses: Ints, references: Ints, beam: int
) -> tuple[WordMatches, npt.NDArray[np.bool_]]:
    """The batch's alignments, and which of its pairs were not aligned."""
    lengths = sentences.lengths
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
    open_pairs = distinct(matches.pair[~settled])
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
    here, there = sentences.lengths[hypotheses], sentences.lengths[references]
    depth, width = int(there.max(initial=0)), int(here.max(initial=0))
    words = sentences.padded[sentences.offsets[references][:, None] + np.arange(depth)]
    others = sentences.padded[sentences.offsets[hypotheses][:, None] + np.arange(width)]
    inside = np.arange(depth) < there[:, None], np.arange(width) < here[:, None]

    def equal_cells(numbers: Ints) -> npt.NDArray[np.bool_]:
        one, other = np.where(inside[0], numbers[words], -1), np.where(inside[1], numbers[others], -2)
        cells: npt.NDArray[np.bool_] = one[:, :, None] == other[:, None, :]
        return cells

    same = equal_cells(sentences.exact)
    pair, start, far = _places(np.flatnonzero(same), depth, width)
    # Two identical lists of words are matched by the exact module alone.
    differ = (here != there) | (np.bincount(pair[start == far], minlength=len(there)) != there)
    found = [(0, pair, start, far)]
    if sentences.stem is not None:
        alike = equal_cells(sentences.stem) & ~same & differ[:, None, None]
        found.append((1, *_places(np.flatnonzero(alike), depth, width)))
    pair, one, other = _related(sentences, hypotheses, references, differ)
    mine, theirs = sentences.phrase[one], sentences.phrase[other]
    start, far = sentences.phrase_start[one], sentences.phrase_start[other]
    cells, _ = sentences.synonyms.find(mine, theirs)
    cells = cells[sentences.exact[mine[cells]] != sentences.exact[theirs[cells]]]
    found.append((2, pair[cells], start[cells], far[cells]))
    parts = [
        WordMatches(pair, np.full(len(pair), kind), start, np.ones_like(start), far, np.ones_like(far))
        for kind, pair, start, far in found
    ]
    matches = WordMatches.joined([*parts, _paraphrased(sentences, pair, one, other)])
    place = (matches.pair * max(depth, 1) + matches.start) * len(KINDS) + matches.kind
    return matches.take(np.argsort(place, kind="stable"))


def _places(cells: Ints, depth: int, width: int) -> tuple[Ints, Ints, Ints]:
    """The (pair, row, column) of these cells of a table [pairs, depth, width]."""
    row, column = np.divmod(cells, max(width, 1))
    pair, row = np.divmod(row, max(depth, 1))
    return pair, row, column


def _related(
    sentences: MeteorSentences, hypotheses: Ints, references: Ints, differ: npt.NDArray[np.bool_]
) -> tuple[Ints, Ints, Ints]:
    """Pairs of phrases that may be synonyms or paraphrases: (pair, the reference's phrase, the hypothesis's)."""
    offsets = sentences.phrase_offsets
    first, other_first = offsets[references], offsets[hypotheses]
    count, other_count = np.where(differ, offsets[references + 1] - first, 0), offsets[hypotheses + 1] - other_first
    depth, width = int(count.max(initial=0)), int(other_count.max(initial=0))
    # What is read beyond a sentence's last phrase is dropped below.
    one = sentences.codes[first[:, None] + np.arange(depth)]
    other = sentences.codes[other_first[:, None] + np.arange(width)]
    cells = np.flatnonzero(sentences.related[one[:, :, None] ^ other[:, None, :]])
    pair, row, column = _places(cells, depth, width)
    inside = np.flatnonzero((row < count[pair]) & (column < other_count[pair]))
    pair = pair[inside]
    return pair, first[pair] + row[inside], other_first[pair] + column[inside]


def _paraphrased(sentences: MeteorSentences, pair: Ints, mine: Ints, other: Ints) -> WordMatches:
    """The paraphrase module's matches among these pairs of phrases, in the program's order.

    A table's left side is looked up in the reference, then in the hypothesis. The first direction orders a word's
    matches by (length, rank in the table, position in the hypothesis), the second by (position and length in the
    hypothesis, rank).
    """
    number, other_number = sentences.phrase[mine], sentences.phrase[other]
    parts, orders = [], []
    for back in (0, 1):
        table = sentences.paraphrases
        cells, rank = table.find(other_number, number) if back else table.find(number, other_number)
        start, length = sentences.phrase_start[mine[cells]], sentences.phrase_length[mine[cells]]
        far, far_length = sentences.phrase_start[other[cells]], sentences.phrase_length[other[cells]]
        place = (far << 32 | far_length << 28 | rank) if back else (length << 60 | rank << 28 | far)
        parts.append(WordMatches(pair[cells], np.full(len(cells), 3), start, length, far, far_length))
        orders.append((np.full(len(cells), back), place))
    matches = WordMatches.joined(parts)
    direction, order = (np.concatenate(columns) for columns in zip(*orders, strict=True))
    return matches.take(np.lexsort((order, direction, matches.start, matches.pair)))


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
