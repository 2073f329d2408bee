"""Relative positions in attention: which bias each pair of word pieces gets."""

from __future__ import annotations

import pytest

from capmeter.encoders.text.bert import _relative_bias

torch = pytest.importorskip("torch", reason="needs the neural extra")


def test_a_bias_depends_on_head_and_distance() -> None:
    weight = torch.arange(64.0).reshape(32, 2)  # of bucket b and head h: 2 b + h
    bias = _relative_bias(weight, 4)
    assert bias.shape == (2, 4, 4)
    assert bias[0].tolist() == [[0, 34, 36, 38], [2, 0, 34, 36], [4, 2, 0, 34], [6, 4, 2, 0]]
    assert torch.equal(bias[1], bias[0] + 1)


def test_far_distances_share_a_bucket() -> None:
    """Of 16 buckets to a side, 8 are for distances 0 to 7; the others grow to 128 by a factor of 2^(1/2) each."""
    row = _relative_bias(torch.arange(32.0).reshape(32, 1), 300)[0, 0].long() - 16
    starts = [int((row == bucket).nonzero()[0]) for bucket in range(1, 16)]
    assert starts == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    assert row[128:].unique().tolist() == [15]
