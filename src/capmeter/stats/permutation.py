"""Permutation tests: could a difference or a correlation be due to chance?

* `permutation_tests`: pairs of systems on the same images; under the null hypothesis the system labels are exchangeable
  within an image. Labels are swapped for all captions of an image together, and a corpus score (BLEU) is recomputed
  from the sums each time.
* `association_test`: few systems with two numbers each; under the null hypothesis every pairing is equally likely. All
  n! pairings are tried if feasible, else a random sample.
* `williams_test`: two correlations with the same human scores, compared by Williams' t (requires independent points;
  with several judgments per image use the paired bootstrap).

>>> scores = PairedSums(np.array([[[3.0], [4.0], [5.0]], [[1.0], [1.0], [2.0]]]), np.ones((2, 3)))
>>> permutation_tests([scores])[0][0, 1]  # all 2³ permutations: only two are as far from 0
0.25
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import factorial, sqrt
from typing import Any

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.bootstrap import check_random
from capmeter.stats.kendall import Array, Numbers, paired

ScoreFunction = Callable[[Array, Array], Array]
"""Sums [..., k] and numbers of captions [...] to corpus scores [...]."""

_MAX_EXACT_CLUSTERS = 12  # up to which all 2^n permutations are evaluated
_EXACT_PAIRINGS = 400_000  # 9! = 362,880
_CELLS = 1 << 21


def mean_score(sums: Array, counts: Array) -> Array:
    """Sums divided by counts, for rows [n, 1] of one number per caption."""
    result: Array = sums[..., 0] / counts
    return result


@dataclass(frozen=True, eq=False)
class PairedSums:
    """The scores by one metric of systems that captioned the same images.

    sums: float64[systems, images, k], the sufficient statistics of an image's captions, summed.
    counts: float64[systems, images], the number of those captions. score_function: sums and counts to corpus scores.
    """

    sums: Array
    counts: Array
    score_function: ScoreFunction = mean_score


def permutation_tests(
    scores: Sequence[PairedSums], permutations: int = 10_000, seed: int = 0
) -> list[dict[tuple[int, int], float]]:
    """For each metric and pair of systems p of the difference of their scores: labels are swapped within images.

    All metrics have the same images, in the same order, and all pairs see the same permutations. With up to 12 images
    all permutations are tried; else `permutations` random ones, and p = (1 + as extreme) / (1 + permutations).

    Args:
        scores: of each metric.
        permutations: their number.
        seed: of random ones.
    """
    check_random(permutations, seed)
    if not scores:
        return []
    with np.errstate(over="ignore"):
        sizes = [np.abs(each.sums).sum() for each in scores]  # infinite if they overflow
    if not np.isfinite(sizes).all():
        raise InputError(
            "a paired test needs finite values and finite sums for the captions of both systems; leave out the others"
        )
    images = scores[0].counts.shape[1]
    is_exact = images <= _MAX_EXACT_CLUSTERS
    tallies = [_Tally(each) for each in scores]
    metric_columns = [each.table.swapaxes(0, 1).reshape(images, -1) for each in tallies]
    column_ends = np.cumsum([each.shape[1] for each in metric_columns])[:-1]
    all_columns = np.concatenate(metric_columns, axis=1)  # all metrics in one matrix product
    tried_count = 0
    for swap_table in _permutations(images, permutations, seed, is_exact, all_columns.shape[1]):
        tried_count += len(swap_table)
        for tally, moved_sums in zip(tallies, np.split(swap_table @ all_columns, column_ends, axis=1), strict=True):
            tally.add(moved_sums.reshape(len(swap_table), len(tally.table), -1))
    return [tally.p_values(is_exact, tried_count) for tally in tallies]


class _Tally:
    """How many permutations make two systems differ at least as much as observed.

    table: float64[systems, images, k + 1], a metric's sums with the counts as the last column.
    """

    def __init__(self, scores: PairedSums) -> None:
        self.table = np.concatenate([scores.sums, scores.counts[..., None]], axis=2)
        self._score_function = scores.score_function
        self._total = self.table.sum(axis=1)
        self._scores = self._score(self._total)
        self._extreme = dict.fromkeys(combinations(range(len(self.table)), 2), 0)

    def _score(self, rows: Array) -> Array:
        return self._score_function(rows[..., :-1], rows[..., -1])

    def add(self, moved: Array) -> None:
        """moved: [permutations, systems, k + 1], the summed rows of the images whose labels are swapped."""
        for a, b in self._extreme:
            gap = moved[:, b] - moved[:, a]
            differences = self._score(self._total[a] + gap) - self._score(self._total[b] - gap)
            first, second = self._scores[a], self._scores[b]
            # rounding must not make the observed labelling less extreme than itself
            slack = 1e-9 * abs(first - second) + 1e-13 * (abs(first) + abs(second))
            self._extreme[a, b] += int((np.abs(differences) >= abs(first - second) - slack).sum())

    def p_values(self, exact: bool, tried: int) -> dict[tuple[int, int], float]:
        """p of each pair, two-sided."""
        return {pair: _share(extreme_count, tried, exact) for pair, extreme_count in self._extreme.items()}


def _share(extreme: int, tried: int, exact: bool) -> float:
    """p, of all permutations or of random ones."""
    return extreme / tried if exact else (1 + extreme) / (1 + tried)


def association_test(
    x: Numbers, y: Numbers, statistic: str = "pearson", permutations: int = 20_000, seed: int = 0
) -> float:
    """p of the association of x and y, two-sided: over all pairings (up to nine points), or over random ones.

    The denominator of each statistic is the same for every pairing, so that τa, τb and τc have the same p.

    Args:
        x, y: numbers (points).
        statistic: pearson, spearman or tau.
        permutations, seed: number of random pairings, and what determines them.
    """
    check_random(permutations, seed)
    x_values, y_values = paired(x, y)
    if statistic not in _PRODUCTS:
        raise InputError(f"unknown statistic {statistic!r}; expected one of {', '.join(_PRODUCTS)}")
    # of values up to 1, whose squares do not overflow; the coefficients do not depend on the unit
    x_values, y_values = (each / max(float(np.abs(each).max()), 1e-300) for each in (x_values, y_values))
    prepared_x, prepared_y = _PRODUCTS[statistic](x_values[None])[0], _PRODUCTS[statistic](y_values[None])[0]
    size = float(np.sqrt((prepared_x**2).sum() * (prepared_y**2).sum()))
    if statistic == "tau":
        size = len(x_values) * (len(x_values) - 1)
    if size == 0:
        raise InputError(f"{statistic} needs at least two distinct values in each variable; one of them is constant")
    observed = float(prepared_x @ prepared_y)
    is_exact = factorial(min(len(y_values), 20)) <= _EXACT_PAIRINGS
    extreme_count = tried_count = 0
    for point_orders in _orders(len(y_values), permutations, seed, is_exact):
        products = _PRODUCTS[statistic](y_values[point_orders]) @ prepared_x
        extreme_count += int((np.abs(products) >= abs(observed) - 1e-9 * size).sum())
        tried_count += len(point_orders)
    return _share(extreme_count, tried_count, is_exact)


def _centred(rows: Array) -> Array:
    centred: Array = rows - rows.mean(axis=1, keepdims=True)
    return centred


def _ranked(rows: Array) -> Array:
    below_counts = (rows[:, None, :] < rows[:, :, None]).sum(axis=2)
    equal_counts = (rows[:, None, :] == rows[:, :, None]).sum(axis=2)
    return _centred(below_counts + equal_counts / 2)


def _signs(rows: Array) -> Array:
    signs: Array = np.sign(rows[:, :, None] - rows[:, None, :]).reshape(len(rows), -1)
    return signs


# transforms rows of values [m, n] so that inner products are the numerator of the statistic
_PRODUCTS: dict[str, Callable[[Array], Array]] = {"pearson": _centred, "spearman": _ranked, "tau": _signs}


def _orders(n: int, permutations: int, seed: int, is_exact: bool) -> Iterator[Array]:
    """Blocks int[m, n] of permutations of n points."""
    block_size = max(1, _CELLS // (n * n))
    if is_exact:
        all_orders = itertools.permutations(range(n))
        while order_block := list(islice(all_orders, block_size)):
            yield np.asarray(order_block)
        return
    random = np.random.default_rng(seed)
    for block_start in range(0, permutations, block_size):
        yield random.permuted(np.tile(np.arange(n), (min(block_size, permutations - block_start), 1)), axis=1)


def williams_test(r12: float, r13: float, r23: float, n: int) -> float:
    """p of Williams' t for r12 - r13, two correlations that share variable 1, over n independent points; r23 is the
    correlation between the other two.

    Args:
        r12, r13: the correlations that are compared.
        r23: of the other two variables.
        n: number of points.
    """
    if n < 4:
        raise InputError(f"Williams' test needs at least four points, but got {n}")
    if not all(-1 <= r <= 1 for r in (r12, r13, r23)):
        raise InputError(f"expected correlations between -1 and 1, but got {r12}, {r13}, {r23}")
    from scipy.special import stdtr

    determinant = max(1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23, 0.0)
    between = ((r12 + r13) / 2) ** 2 * (1 - r23) ** 3
    spread = 2 * determinant * (n - 1) / (n - 3) + between
    if r12 == r13 or spread <= 0:
        return 1.0 if r12 == r13 else 0.0
    t = (r12 - r13) * sqrt((n - 1) * (1 + r23) / spread)
    return float(2 * stdtr(n - 3, -abs(t)))


def _permutations(clusters: int, permutations: int, seed: int, is_exact: bool, width: int) -> Any:
    """Blocks float64[m, clusters] of zeros and ones: 1 where the labels of the two systems are swapped.

    A block, and the m rows of `width` numbers derived from it, hold at most `_CELLS` numbers (unless a single
    permutation has more); the random permutations do not depend on the blocks.
    """
    block_size = max(1, _CELLS // max(clusters, width))
    if is_exact:
        for block_start in range(0, 1 << clusters, block_size):
            permutation_numbers = np.arange(block_start, min(block_start + block_size, 1 << clusters))
            yield (permutation_numbers[:, None] >> np.arange(clusters) & 1).astype(float)
        return
    random = np.random.default_rng(seed)
    for block_start in range(0, permutations, block_size):
        yield random.integers(2, size=(min(block_size, permutations - block_start), clusters)).astype(float)
