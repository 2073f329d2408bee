"""Permutation tests: by hand where all permutations are tried, uniform p under the null, Williams against a published
example.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest, pearsonr
from scipy.stats import t as student

from capmeter.core.errors import InputError
from capmeter.stats.bootstrap import Clusters
from capmeter.stats.correlation import Pearson, Spearman
from capmeter.stats.kendall import TauB
from capmeter.stats.permutation import PairedSums, association_test, mean_score, permutation_tests, williams_test


def compare_pair(first: Any, second: Any, clusters: Any = None, score_function: Any = mean_score, **how: Any) -> Any:
    """The test of two tables of a row for each caption."""
    tables = [np.asarray(rows, float).reshape(len(first), -1) for rows in (first, second)]
    images = Clusters(np.arange(len(first)) if clusters is None else clusters)
    counts = np.stack([images.sums(np.ones(len(first)))] * 2)
    sums = np.stack([images.sums(rows) for rows in tables])
    return permutation_tests([PairedSums(sums, counts, score_function)], **how)[0][0, 1]


def test_all_permutations_by_hand() -> None:
    first, second = np.asarray([3.0, 1.0, 4.0, 1.0]), np.asarray([2.0, 2.0, 1.0, 1.0])
    gap = first - second
    every = [abs(np.dot(signs, gap)) for signs in product((1, -1), repeat=4)]
    result = compare_pair(first, second)
    assert result == np.mean(np.asarray(every) >= abs(gap.sum()) - 1e-12)


def test_clusters_change_places_together() -> None:
    result = compare_pair([1.0] * 10, [0.0] * 10, clusters=["a"] * 5 + ["b"] * 5)
    assert result == 0.5  # only the two arrangements that keep both images on one side


def test_corpus_score_is_recomputed_from_sums() -> None:
    # a ratio of sums (as BLEU's precision), not a mean of ratios: the rows are matches and lengths
    rows_a, rows_b = np.asarray([[9.0, 10.0], [1.0, 100.0]]), np.asarray([[1.0, 10.0], [2.0, 100.0]])
    result = compare_pair(rows_a, rows_b, score_function=lambda sums, counts: sums[..., 0] / sums[..., 1])
    # the arrangements: as observed, both swapped (-), and 11/110 against 2/110 twice (further from 0)
    assert result == 1.0


def test_random_permutations_agree_with_all() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(0.4, 1, size=12), random.normal(size=12)
    exact = compare_pair(first, second)
    doubled = compare_pair(np.repeat(first, 2), np.repeat(second, 2), clusters=np.repeat(np.arange(12), 2))
    assert exact == doubled
    padded = compare_pair(np.r_[first, 5.0], np.r_[second, 5.0], permutations=20_000)  # an equal pair changes nothing
    assert padded != exact and padded == pytest.approx(exact, abs=0.01)


def test_p_is_uniform_under_the_null() -> None:
    values = []
    for run in range(400):
        random = np.random.default_rng(run)
        images = np.repeat(np.arange(40), 3)
        shared = np.repeat(random.normal(size=40), 3)
        first, second = (shared + np.repeat(random.normal(size=40), 3) + random.normal(size=120) for _ in range(2))
        values.append(compare_pair(first, second, images, permutations=500, seed=run))
    assert kstest(values, "uniform").pvalue > 0.01
    assert 0.03 <= np.mean(np.asarray(values) <= 0.05) <= 0.075


@pytest.mark.parametrize("images", [7, 50])
def test_many_systems_and_metrics_are_tested_as_two_under_one(images: int) -> None:
    random = np.random.default_rng(images)
    clusters = np.repeat(np.arange(images), 2)
    tables = [random.normal(0.1 * system, 1, size=(4, 2 * images, 1)) for system in range(2)]
    grouped = [np.stack([rows.reshape(images, 2, 1).sum(axis=1) for rows in systems]) for systems in tables]
    result = permutation_tests([PairedSums(sums, np.full((4, images), 2.0)) for sums in grouped], permutations=500)
    assert [len(tests) for tests in result] == [6, 6]
    for systems, tests in zip(tables, result, strict=True):
        for (a, b), test in tests.items():
            assert test == compare_pair(systems[a][:, 0], systems[b][:, 0], clusters, permutations=500)


def test_systems_may_have_other_numbers_of_captions_of_an_image() -> None:
    # one caption of each of two images, against two of the first and one of the second
    sums, counts = np.array([[[1.0], [3.0]], [[2.0], [1.0]]]), np.array([[1.0, 1.0], [2.0, 1.0]])
    ((test,),) = (list(result.values()) for result in permutation_tests([PairedSums(sums, counts)]))
    every = [4 / 2 - 3 / 3, 5 / 3 - 2 / 2, 2 / 2 - 5 / 3, 3 / 3 - 4 / 2]  # none, the first, the second, both
    assert test == np.mean(np.abs(every) >= abs(every[0]) - 1e-12) == 0.5


@pytest.mark.parametrize("images", [9, 15])
def test_little_is_held_at_once(images: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(images)
    scores = PairedSums(random.random((4, images, 6)), np.ones((4, images)))
    complete = permutation_tests([scores] * 3, permutations=500)
    monkeypatch.setattr("capmeter.stats.permutation._CELLS", 1000)  # 84 numbers per permutation: eleven at once
    content: list[int] = []

    def score_function(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
        content.append(sums[..., 0].size)
        return sums[..., 0] / counts

    parts = permutation_tests([PairedSums(scores.sums, scores.counts, score_function)] * 3, permutations=500)
    assert parts == complete and max(content) == 11


def test_association_over_all_pairings() -> None:
    x = [1, 2, 3, 4]
    for statistic in ("pearson", "spearman", "tau"):
        result = association_test(x, x, statistic)
        assert result == pytest.approx(2 / 24)  # the same order and its reverse
    with pytest.raises(InputError, match="pearson, spearman, tau"):
        association_test(x, x, "kappa")
    with pytest.raises(InputError, match="constant"):
        association_test(x, [2, 2, 2, 2])


@pytest.mark.parametrize("n", [6, 12])
def test_association_equals_its_definition(n: int) -> None:
    random = np.random.default_rng(n)
    x, y = random.integers(5, size=n).astype(float), random.normal(size=n)
    y = x + 2 * y
    orders = list(permutations(range(n))) if n < 9 else [random.permutation(n) for _ in range(3000)]
    statistics = {"pearson": Pearson, "spearman": Spearman, "tau": TauB}
    for name, statistic in statistics.items():
        values = np.abs([statistic(x, y[list(order)])() for order in orders])
        share = np.mean(values >= abs(statistic(x, y)()) - 1e-9)
        assert association_test(x, y, name) == pytest.approx(share, abs=1e-12 if n < 9 else 0.03)


def test_drawn_association_is_near_the_parametric_one() -> None:
    random = np.random.default_rng(1)
    a = random.normal(size=12)
    b = a + 1.2 * random.normal(size=12)
    sampled = association_test(a, b)
    assert sampled == pytest.approx(pearsonr(a, b).pvalue, abs=0.02)


def test_williams() -> None:
    # Steiger (1980), example 1 in the form of Williams' T2: r12 = .4, r13 = .6 of n = 103, r23 = .5 gives t(100) =
    # -2.25 by his formula
    result = williams_test(0.4, 0.6, 0.5, 103)
    r12, r13, r23, n = 0.4, 0.6, 0.5, 103
    det = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
    t = (r12 - r13) * np.sqrt(
        (n - 1) * (1 + r23) / (2 * (n - 1) / (n - 3) * det + ((r12 + r13) / 2) ** 2 * (1 - r23) ** 3)
    )
    assert result == pytest.approx(2 * student.sf(abs(t), n - 3), rel=1e-9)
    assert williams_test(0.5, 0.5, 0.9, 12) == 1.0
    with pytest.raises(InputError, match="four points"):
        williams_test(0.5, 0.4, 0.3, 3)


def test_williams_p_is_uniform_under_the_null() -> None:
    values = []
    for run in range(600):
        random = np.random.default_rng(run)
        human = random.normal(size=30)
        a, b = (human + random.normal(size=30) for _ in range(2))
        values.append(williams_test(Pearson(human, a)(), Pearson(human, b)(), Pearson(a, b)(), 30))
    assert kstest(values, "uniform").pvalue > 0.01


@pytest.mark.parametrize(("number", "seed"), [(2.5, 0), (None, 0), ("3", 0), (3, -1), (3, 1.5)])
def test_numbers_of_permutations_and_seeds_are_whole(number: Any, seed: Any) -> None:
    with pytest.raises(InputError, match=r"expected (whole numbers|a seed)"):
        compare_pair([1, 2], [2, 3], permutations=number, seed=seed)
    with pytest.raises(InputError, match=r"expected (whole numbers|a seed)"):
        association_test([1, 2, 3], [2, 3, 1], permutations=number, seed=seed)


def test_huge_values_do_not_overflow() -> None:
    """p does not depend on the unit."""
    assert association_test([1e308, -1e308, 0], [1, 2, 3]) == association_test([1, -1, 0], [1, 2, 3])
    with pytest.raises(InputError, match="finite sums"):
        compare_pair([1e308, 1e308], [-1e308, 1.0])
