from __future__ import annotations

from collections import Counter

import numpy as np
from captionsets import ROWS, caption_set
from hypothesis import given

from capmeter.captions.model import SentencePool
from capmeter.ragged import Ragged
from capmeter.text.ngrams import Matches, NGrams


def grams(text: str, n: int) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[i : i + k]) for k in range(1, n + 1) for i in range(len(words) - k + 1)]


@given(ROWS)
def test_counts_are_those_of_a_counter(rows) -> None:
    pool = caption_set(rows).pool
    table = pool.analyse(NGrams(3, "whitespace"))
    number: dict[int, set] = {}
    for row, sentence in enumerate(pool.sentences):
        expected = Counter(grams(sentence, 3))
        span = slice(table.entries.offsets[row], table.entries.offsets[row + 1])
        assert sorted(table.counts[span]) == sorted(expected.values())
        assert sorted(table.order[table.entries.values[span]]) == sorted(map(len, expected))
        assert table.lengths[row] == len(sentence.split())
        for gram in expected:
            number.setdefault(len(gram), set()).add(gram)
    assert table.size == sum(map(len, number.values()))


@given(ROWS)
def test_document_frequencies_are_those_of_a_counter(rows) -> None:
    captions = caption_set(rows)
    table = captions.pool.analyse(NGrams(2, "whitespace"))
    hashes, counts = table.documents(captions.references, np.ones(len(captions), np.int64))
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


def test_a_part_numbers_ngrams_anew_and_hashes_them_alike() -> None:
    whole = SentencePool(["a b", "b c a", ""])
    part = whole.part(np.array([1]))
    table, own = whole.analyse(NGrams(2, "whitespace")), part.analyse(NGrams(2, "whitespace"))
    assert set(own.hashes) < set(table.hashes)
    assert own.size == 5


def test_no_sentence_at_all() -> None:
    table = SentencePool([""]).analyse(NGrams(4, "whitespace"))
    hashes, counts = table.documents(Ragged.from_rows([[0]], np.int32), np.ones(1, np.int64))
    assert (table.size, len(hashes), len(counts)) == (0, 0, 0)
