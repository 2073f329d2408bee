"""The best tree, against an enumeration of all trees."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capmeter.text.parsing.caption_parser import _best_trees, _is_well_formed


def is_tree(heads: tuple[int, ...]) -> bool:
    """One root, no cycle, no crossing arcs: by the definition, word by word."""
    if heads.count(0) != 1:
        return False
    for word in range(1, len(heads) + 1):
        at, steps = word, 0
        while at and steps <= len(heads):
            at, steps = heads[at - 1], steps + 1
        if at:
            return False
    arcs = [(min(word, head), max(word, head)) for word, head in enumerate(heads, start=1)]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


TREES = {n: [heads for heads in product(range(n + 1), repeat=n) if is_tree(heads)] for n in range(1, 6)}


def test_number_of_trees() -> None:
    assert [len(trees) for trees in TREES.values()] == [1, 2, 7, 30, 143]  # Yuret 1998, with one root


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
def test_well_formed_rows_are_trees_by_definition(words: int) -> None:
    rows = list(product(range(words + 1), repeat=words))
    assert _is_well_formed(np.array(rows)).tolist() == [is_tree(row) for row in rows]


@settings(max_examples=60)
@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_no_tree_is_better(words: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(7, words, words + 1))
    scores[:, np.arange(words), np.arange(words) + 1] = -1e9
    for best_heads, table in zip(_best_trees(scores).tolist(), scores, strict=True):
        totals = {heads: sum(table[d, h] for d, h in enumerate(heads)) for heads in TREES[words]}
        assert totals[tuple(best_heads)] == pytest.approx(max(totals.values()))


def test_a_long_sentence_gets_a_tree() -> None:
    scores = np.random.default_rng(3).normal(size=(2, 80, 81)).astype(np.float32)
    assert _is_well_formed(_best_trees(scores)).all()
