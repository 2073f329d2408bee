"""Holm's correction, and rankings from p values."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.core.errors import InputError
from capmeter.stats.bootstrap import bootstrap_interval, mean_statistic
from capmeter.stats.significance import (
    Ranking,
    bootstrap_p_values,
    holm_correction,
    is_significant,
    required_resamples,
    significance_threshold,
)


def test_by_hand() -> None:
    # sorted .005, .01, .03, .04 times 4, 3, 2, 1, then never less than before
    assert holm_correction([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm_correction([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm_correction([0.02]).tolist() == [0.02]
    assert holm_correction([]).tolist() == []


@given(st.lists(st.floats(0, 1), max_size=12))
def test_it_lies_between_p_and_bonferroni_and_keeps_the_order(p: list[float]) -> None:
    adjusted = holm_correction(p)
    values = np.array(p)
    assert (adjusted >= values).all()
    assert (adjusted <= np.minimum(values * len(p), 1) + 1e-15).all()
    assert (np.diff(adjusted[np.argsort(values, kind="stable")]) >= 0).all()


def test_it_errs_at_all_as_rarely_as_promised() -> None:
    random = np.random.default_rng(0)
    errs = np.mean([(holm_correction(random.random(10)) <= 0.05).any() for _ in range(4000)])
    assert 0.04 < errs < 0.06


@pytest.mark.parametrize("p", [[-0.1], [1.1], [float("nan")], [[0.1]]])
def test_what_is_no_p_is_refused(p: list) -> None:
    with pytest.raises(InputError, match="p values between 0 and 1"):
        holm_correction(p)


def test_p_at_the_level_itself_is_not_significant() -> None:
    assert is_significant(0.0499, 0.95) and not is_significant(0.05, 0.95)
    assert not is_significant(0.1, 0.9) and not is_significant(0.01, 0.99)  # 1 - .9 is .09999999999999998 in binary
    assert significance_threshold(0.95) == 0.05
    with pytest.raises(InputError, match="a level between 0 and 1"):
        is_significant(0.01, 95)


def test_ranks_and_best_by_hand() -> None:
    values = {"d": 0.1, "a": 0.9, "c": 0.5, "b": 0.8}
    p = {("a", "b"): 0.2, ("a", "c"): 0.001, ("a", "d"): 0.001, ("b", "c"): 0.01, ("c", "b"): 0.01, ("b", "d"): 0.001}
    del p["c", "b"]
    p["d", "c"] = 0.04
    plain = Ranking.from_p_values(values, p, correct=False)
    assert plain.ranks() == {"a": 1, "b": 1, "c": 2, "d": 3}
    assert (
        plain.best() == {"a", "b"}
        and plain.significantly_worse("c") == {"d"}
        and plain.significantly_worse("d") == frozenset()
    )
    assert plain.corrected_p("c", "d") == plain.corrected_p("d", "c") == 0.04
    corrected = Ranking.from_p_values(values, p)
    assert corrected.corrected_p("c", "d") == pytest.approx(0.08)  # the fifth of six p: twice it
    assert corrected.ranks() == {"a": 1, "b": 1, "c": 2, "d": 2}
    strict = Ranking.from_p_values(values, p, correct=False, level=0.995)
    assert strict.ranks() == {"a": 1, "b": 1, "c": 2, "d": 2}
    assert strict.significantly_worse("a") == {"c", "d"}


def test_the_best_and_equal_values() -> None:
    values = {"a": 0.9, "b": 0.8, "c": 0.7}
    result = Ranking.from_p_values(values, {("a", "b"): 0.01, ("a", "c"): 0.3, ("b", "c"): 0.5}, correct=False)
    assert result.best() == {"a", "c"} and result.ranks() == {"a": 1, "b": 2, "c": 2}
    result = Ranking.from_p_values({"a": 1.0, "b": 1.0}, {("a", "b"): 0.0})
    assert result.ranks() == {"a": 1, "b": 1} and result.best() == {"a", "b"}


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5), st.randoms())
def test_the_first_is_best_and_ranks_go_up_as_values_go_down(numbers: list[float], random: object) -> None:
    values = {str(k): number for k, number in enumerate(numbers)}
    p = {pair: random.random() for pair in combinations(values, 2)}  # type: ignore[attr-defined]
    result = Ranking.from_p_values(values, p)
    ranks = [result.ranks()[name] for name in result.order()]
    assert ranks[0] == 1 and all(after - before in (0, 1) for before, after in pairwise(ranks))
    assert result.order()[0] in result.best()
    assert list(result.corrected.values()) == holm_correction(list(p.values())).tolist()
    assert not any(result.better(a, b) and result.better(b, a) for a, b in combinations(values, 2))


def test_every_pair_needs_its_p() -> None:
    with pytest.raises(InputError, match=r"it is missing for .*'a', 'c'.*"):
        Ranking.from_p_values({"a": 1, "b": 2, "c": 3}, {("a", "b"): 0.1, ("c", "b"): 0.1})
    assert Ranking.from_p_values({"alone": 1.0}, {}).ranks() == {"alone": 1}


def test_bootstrap_p_is_small_where_resamples_keep_one_sign() -> None:
    random = np.random.default_rng(5)
    low = random.random(40)
    bounds = {
        name: bootstrap_interval(mean_statistic(values), range(40), resamples=199)
        for name, values in (("low", low), ("high", low + 1), ("same", low))
    }
    result = bootstrap_p_values(bounds)
    assert result["low", "high"] == 2 / 200 and result["low", "same"] == 1.0


def test_many_pairs_need_many_resamples() -> None:
    assert required_resamples(1000, 2) == 1000 and required_resamples(1000, 8) == 2800
