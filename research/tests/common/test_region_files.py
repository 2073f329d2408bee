"""Regions as files, and which boxes of them are used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from capmeter_research.common.region_files import BoxRule, box_features, write_npz_regions
from support.uniter_examples import random_regions

from capmeter.core.errors import InputError
from capmeter.images.regions import Regions


def test_positions_by_hand() -> None:
    regions = Regions(np.ones((1, 2), np.float32), np.array([[0.1, 0.2, 0.5, 0.8]], np.float32))
    np.testing.assert_allclose(box_features(regions), [[0.1, 0.2, 0.5, 0.8, 0.4, 0.6, 0.24]], atol=1e-6)


@pytest.mark.parametrize(("sure", "count"), [(0, 10), (15, 15), (40, 36)])
def test_the_number_of_boxes(sure: int, count: int) -> None:
    confidence = np.where(np.arange(50) < sure, 0.9, 0.1).astype(np.float32)
    assert BoxRule(0.2, 10, 36).count(confidence, 50) == count


def test_fewer_boxes_than_the_least_are_all_used() -> None:
    assert BoxRule().count(np.zeros(4, np.float32), 4) == 4
    assert BoxRule(max_boxes=3, min_boxes=1).count(None, 4) == 3


def test_the_most_confident_boxes_or_the_first() -> None:
    regions = random_regions(0, count=3)
    shuffled = regions.take(np.array([2, 0, 1]))
    best = BoxRule(0.0, 1, 2).select(shuffled)
    np.testing.assert_array_equal(best.features, regions.features[:2])
    first = BoxRule(0.0, 1, 2, in_order=True).select(shuffled)
    np.testing.assert_array_equal(first.features, regions.features[[2, 0]])


def test_a_rule_without_boxes() -> None:
    with pytest.raises(InputError, match="min_boxes <= max_boxes"):
        BoxRule(min_boxes=5, max_boxes=2)


def test_a_writer_refuses_what_cannot_be_read_back(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be the name of a file"):
        write_npz_regions(tmp_path / "r", [("../up", random_regions(0))])
