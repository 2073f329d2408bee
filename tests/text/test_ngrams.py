"""N-gram tables against plain counters: counts, document frequencies, matches."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.caption_sets import ROWS, caption_set

from capmeter.captions.caption_set import SentencePool
from capmeter.core.ragged import Ragged
from capmeter.text.ngrams import Matches, NGrams, _sort_hashes


def grams(text: str, n: int) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[i : i + k]) for k in range(1, n + 1) for i in range(len(words) - k + 1)]


@given(ROWS)
def test_counts_equal_those_of_a_counter(rows) -> None:
    pool = caption_set(rows).pool
    table = pool.analyse(NGrams(3, "whitespace"))
    grams_of_order: dict[int, set] = {}
    for row, sentence in enumerate(pool.sentences):
        expected = Counter(grams(sentence, 3))
        span = slice(table.entries.offsets[row], table.entries.offsets[row + 1])
        assert sorted(table.counts[span]) == sorted(expected.values())
        assert sorted(table.order[table.entries.values[span]]) == sorted(map(len, expected))
        assert table.lengths[row] == len(sentence.split())
        for gram in expected:
            grams_of_order.setdefault(len(gram), set()).add(gram)
    assert table.size == sum(map(len, grams_of_order.values()))


@given(ROWS, st.randoms(use_true_random=False))
def test_some_sentences_have_the_table_of_a_pool_of_these(rows, rng) -> None:
    pool = caption_set(rows).pool
    indices = rng.sample(range(len(pool)), rng.randint(0, len(pool)))
    selection = pool.analyse(NGrams(3, "whitespace")).take(np.array(indices, np.int64))
    alone = SentencePool([pool[k] for k in indices]).analyse(NGrams(3, "whitespace"))
    for array in ("counts", "order", "hashes", "lengths"):
        assert getattr(selection, array).tolist() == getattr(alone, array).tolist(), array
    assert selection.entries.values.tolist() == alone.entries.values.tolist()
    assert selection.entries.offsets.tolist() == alone.entries.offsets.tolist()


@given(ROWS)
def test_document_frequencies_equal_those_of_a_counter(rows) -> None:
    captions = caption_set(rows)
    table = captions.pool.analyse(NGrams(2, "whitespace"))
    hashes, counts = table.document_frequencies(captions.references, np.ones(len(captions), np.int64))
    expected = Counter(gram for _, many in rows for gram in {g for one in many for g in grams(one, 2)})
    assert sorted(counts) == sorted(expected.values())
    assert (np.diff(hashes.astype(object)) > 0).all()


@given(ROWS)
def test_matches_are_the_ngrams_in_common(rows) -> None:
    captions = caption_set(rows)
    matches = captions.analyse(Matches(2, "whitespace"))
    pair = 0
    for candidate, references in rows:
        for reference in references:
            common = set(grams(candidate, 2)) & set(grams(reference, 2))
            assert (matches.pair == pair).sum() == len(common)
            pair += 1


def test_a_part_has_new_ids_and_the_same_hashes() -> None:
    pool = SentencePool(["a b", "b c a", ""])
    part = pool.part(np.array([1]))
    table, part_table = pool.analyse(NGrams(2, "whitespace")), part.analyse(NGrams(2, "whitespace"))
    assert set(part_table.hashes) < set(table.hashes)
    assert part_table.size == 5


def test_a_pool_without_words() -> None:
    table = SentencePool([""]).analyse(NGrams(4, "whitespace"))
    hashes, counts = table.document_frequencies(Ragged.from_rows([[0]], np.int32), np.ones(1, np.int64))
    assert (table.size, len(hashes), len(counts)) == (0, 0, 0)


@given(
    st.lists(st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 9), st.sampled_from([2**63, 2**63 + 1])), max_size=40)
)
def test_hashes_are_sorted_whether_or_not_their_upper_bits_differ(values: list[int]) -> None:
    hashes = np.array(values, np.uint64)
    order, sorted_hashes = _sort_hashes(hashes)
    assert sorted(order.tolist()) == list(range(len(values)))
    assert hashes[order].tolist() == sorted_hashes.tolist() == sorted(values)
