"""The area under the ROC curve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.core.errors import InputError
from capmeter.stats.bootstrap import bootstrap_interval, resample_blocks
from capmeter.stats.ratios import RocArea

ITEMS = st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=2, max_size=12)


def share_of_pairs(labels: list[int], scores: list[float]) -> float:
    """Every positive against every negative, counted one by one; ½ where there is no pair."""
    sides: dict[int, list[float]] = {0: [], 1: []}
    for label, score in zip(labels, scores, strict=True):
        sides[label].append(score)
    credits = [(a > b) + (a == b) / 2 for a in sides[1] for b in sides[0]]
    return sum(credits) / len(credits) if credits else 0.5


def test_area_by_hand() -> None:
    assert RocArea([1, 1, 0, 0], [4, 3, 2, 1])() == 1 and RocArea([0, 0, 1, 1], [4, 3, 2, 1])() == 0
    assert RocArea([1, 0, 1, 0], [4, 3, 2, 1])() == 3 / 4
    assert RocArea([1, 0, 1, 0], [1, 1, 1, 1])() == 1 / 2


@given(ITEMS, st.integers(0, 99))
def test_area_is_the_share_of_ordered_pairs_also_of_resamples(items: list[tuple[bool, int]], seed: int) -> None:
    labels, scores = [int(each) for each, _ in items], [float(each) for _, each in items]
    if len(set(labels)) == 1:
        with pytest.raises(InputError, match="at least one of each"):
            RocArea(labels, scores)
        return
    area = RocArea(labels, scores)
    assert area() == pytest.approx(share_of_pairs(labels, scores))
    weights = next(resample_blocks(len(items), 5, seed))
    repeated = [np.repeat(np.arange(len(items)), row).tolist() for row in weights]
    expected = [share_of_pairs([labels[k] for k in rows], [scores[k] for k in rows]) for rows in repeated]
    assert area(weights) == pytest.approx(expected)


def test_the_interval_is_that_of_a_bootstrap_of_items_of_both_kinds() -> None:
    """Hanley and McNeil's variance (1982), of two independent samples, says how wide it has to be."""
    random = np.random.default_rng(0)
    labels = np.repeat([1.0, 0.0], [300, 30])
    scores = random.normal(size=330) + labels
    area = RocArea(labels, scores)
    interval = bootstrap_interval(area, range(330), resamples=500)
    a = area()
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    variance = (a * (1 - a) + 299 * (q1 - a * a) + 29 * (q2 - a * a)) / (300 * 30)
    assert interval.resamples.std() == pytest.approx(np.sqrt(variance), rel=0.2)
    positives_alone = np.sqrt((q1 - a * a) / 300)
    assert interval.resamples.std() > 2 * positives_alone
