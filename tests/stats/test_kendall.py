"""τ against hand counts, scipy, brute force, and points really repeated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Tau, TauA, TauB, TauC

values = st.lists(st.integers(-3, 3), min_size=2, max_size=30)


def test_hand_count() -> None:
    # pairs: (1,2) alike, (1,3) alike, (2,3) tied in y: C = 2, D = 0 of 3
    x, y = [1, 2, 3], [1, 2, 2]
    assert TauA(x, y)() == pytest.approx(2 / 3)
    assert TauB(x, y)() == pytest.approx(2 / (3 * 2) ** 0.5)
    assert TauC(x, y)() == pytest.approx(2 * 2 / (9 * (1 / 2)))


def test_counts_of_pairs() -> None:
    pairs = Tau([1, 1, 2, 3, 3], [2, 2, 1, 1, 5]).pairs()
    result = [
        int(getattr(pairs, name)[0])
        for name in ("total", "concordant", "discordant", "tied_x", "tied_y", "tied_both", "levels")
    ]
    # by hand: ties in x {01, 34}, in y {01, 23}, both {01}; of the other seven, 04 14 24 alike and 02 03 12 13 not
    assert result == [10, 3, 4, 2, 2, 1, 3]


@pytest.mark.parametrize("levels", [2, 4, 37, 0])
@pytest.mark.parametrize("other", [3, 200, 0])
def test_equals_scipy(levels: int, other: int) -> None:
    random = np.random.default_rng(levels * 1000 + other)
    x = random.normal(size=1501)
    y = x + random.normal(size=1501)
    x, y = (np.digitize(v, np.linspace(-1, 1, k)) if k else v for v, k in ((x, levels), (y, other)))  # type: ignore[assignment]
    assert TauB(x, y)() == pytest.approx(kendalltau(x, y, variant="b").statistic, abs=1e-12)
    assert TauC(x, y)() == pytest.approx(kendalltau(x, y, variant="c").statistic, abs=1e-12)


@given(values, st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_equals_brute_force(x: list[int], random) -> None:
    y = [random.randint(0, 4) for _ in x]
    signs = [np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i in range(len(x)) for j in range(i)]
    assert TauA(x, y)() == pytest.approx(sum(signs) / len(signs), abs=1e-12)


@given(values, st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_weights_are_repetitions(x: list[int], random) -> None:
    y = [random.randint(0, 40) / 10 for _ in x]
    weights = [random.randint(0, 3) for _ in x]
    long_x, long_y = np.repeat(x, weights), np.repeat(y, weights)
    for variant in (TauA, TauB, TauC):
        if len(long_x) < 2:
            continue
        sampled = variant(x, y)(np.asarray([weights, [1] * len(x)]))[0]
        if len(set(long_x)) > 1 and len(set(long_y)) > 1:
            assert sampled == pytest.approx(variant(long_x, long_y)(), abs=1e-12)
        elif variant is not TauA:
            assert sampled == 0.0  # nothing to correlate in this draw


def test_symmetry_reversal_and_monotone_change() -> None:
    random = np.random.default_rng(1)
    x, y = random.integers(4, size=400), random.normal(size=400)
    for tau in (TauA, TauB, TauC):
        assert tau(x, y)() == pytest.approx(tau(y, x)(), abs=1e-12)
        assert tau(x, -y)() == pytest.approx(-tau(x, y)(), abs=1e-12)
        assert tau(x, np.exp(y))() == tau(x, y)()


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2, 3], [1, 2], "equal length"),
        ([1], [1], "at least two points"),
        ([1, 2, float("nan")], [1, 2, 3], "first at index 2"),
        ([1, 1, 1], [1, 2, 3], "constant"),
        ([[1, 2]], [[1, 2]], "shapes"),
    ],
)
def test_what_cannot_be_correlated(x, y, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TauB(x, y)()


def test_weights_of_the_wrong_kind() -> None:
    with pytest.raises(InputError, match="integer weights"):
        TauB([1, 2, 3], [1, 2, 3])([0.5, 0.5, 1.0])
    with pytest.raises(InputError, match=r"\[resamples, 3\]"):
        TauB([1, 2, 3], [1, 2, 3])([1, 1])
