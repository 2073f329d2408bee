"""Permutation tests: could chance alone have done this?

* `exchange_tests`: systems on the same images, two by two; under the null their captions of an image may as well change
  places. Whole images change places, all captions of an image together, and a corpus score (BLEU) is recomputed from
  the sums each time. `paired_permutation` does so for two tables of captions.
* `association`: few systems, two numbers each; under the null any pairing is as likely. All n! pairings where that is
  possible, else drawn.
* `williams`: two correlations with the same human scores, compared by Williams' t (needs independent points; with
  several judgments per image take the paired bootstrap).

>>> paired_permutation([3.0, 4.0, 5.0], [1.0, 1.0, 2.0]).p     # all 2³ exchanges: only two are as far from 0
0.25
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, permutations
from math import factorial, sqrt
from typing import Any

import numpy as np

from capmeter.errors import InputError
from capmeter.stats.bootstrap import Clusters
from capmeter.stats.kendall import Array, Numbers, paired

Finish = Callable[[Array, Array], Array]
"""Sums [..., k] and numbers of captions [...] to corpus scores [...]."""

_EXACT = 12  # clusters whose 2^n exchanges are all tried
_EXACT_PAIRINGS = 400_000  # 9! = 362,880
_CELLS = 1 << 21


@dataclass(frozen=True)
class Test:
    """What a test found: the observed value, the two-sided p, and whether every rearrangement was tried (else `draws`
    of them).
    """

    __test__ = False  # not a test case, whatever its name says to pytest

    value: float
    p: float
    exact: bool
    draws: int


def mean(sums: Array, counts: Array) -> Array:
    """Sums over counts, for rows [n, 1] of one number per caption."""
    result: Array = sums[..., 0] / counts
    return result


@dataclass(frozen=True, eq=False)
class Contest:
    """Systems that captioned the same images, under one metric.

    sums: float64[systems, images, k], the rows of sufficient statistics of an image's captions, summed.
    counts: float64[systems, images], how many captions those are. finish: sums and counts to corpus scores.
    """

    sums: Array
    counts: Array
    finish: Finish = mean


def exchange_tests(
    contests: Sequence[Contest], draws: int = 10_000, seed: int = 0
) -> list[dict[tuple[int, int], Test]]:
    """For each contest and pair of its systems, whether their scores differ: images change places between the two.

    All contests have the same images, in the same order, and all pairs see the same exchanges. With up to 12 images
    all exchanges are tried; else `draws` random ones, and p = (1 + as extreme) / (1 + draws).
    """
    if not contests:
        return []
    if any(not np.isfinite(each.sums).all() for each in contests):
        raise InputError("a paired test needs a finite value for every caption of both systems; leave the others out")
    images = contests[0].counts.shape[1]
    exact = images <= _EXACT
    tallies = [_Tally(each) for each in contests]
    columns = [each.table.swapaxes(0, 1).reshape(images, -1) for each in tallies]
    ends = np.cumsum([each.shape[1] for each in columns])[:-1]
    together = np.concatenate(columns, axis=1)  # all contests in one matrix product
    tried = 0
    for exchanged in _exchanges(images, draws, seed, exact, together.shape[1]):
        tried += len(exchanged)
        for tally, moved in zip(tallies, np.split(exchanged @ together, ends, axis=1), strict=True):
            tally.add(moved.reshape(len(exchanged), len(tally.table), -1))
    return [tally.tests(exact, tried) for tally in tallies]


class _Tally:
    """How many exchanges made two systems differ as much as they do.

    table: float64[systems, images, k + 1], a contest's sums with the counts as the last column.
    """

    def __init__(self, contest: Contest) -> None:
        self.table = np.concatenate([contest.sums, contest.counts[..., None]], axis=2)
        self._finish = contest.finish
        self._total = self.table.sum(axis=1)
        self._scores = self._score(self._total)
        self._extreme = dict.fromkeys(combinations(range(len(self.table)), 2), 0)

    def _score(self, rows: Array) -> Array:
        return self._finish(rows[..., :-1], rows[..., -1])

    def add(self, moved: Array) -> None:
        """moved: [exchanges, systems, k + 1], the rows of the images that change places, summed."""
        for a, b in self._extreme:
            gap = moved[:, b] - moved[:, a]
            differences = self._score(self._total[a] + gap) - self._score(self._total[b] - gap)
            first, second = self._scores[a], self._scores[b]
            # rounding must not make the observed arrangement less extreme than itself
            slack = 1e-9 * abs(first - second) + 1e-13 * (abs(first) + abs(second))
            self._extreme[a, b] += int((np.abs(differences) >= abs(first - second) - slack).sum())

    def tests(self, exact: bool, tried: int) -> dict[tuple[int, int], Test]:
        """What they say of each pair."""
        found = {}
        for (a, b), extreme in self._extreme.items():
            p = extreme / tried if exact else (1 + extreme) / (1 + tried)
            found[a, b] = Test(float(self._scores[a] - self._scores[b]), p, exact, tried)
        return found


def paired_permutation(
    first: Numbers,
    second: Numbers,
    clusters: Sequence[Any] | Array | Clusters | None = None,
    finish: Finish = mean,
    draws: int = 10_000,
    seed: int = 0,
) -> Test:
    """Tests whether finish(first) - finish(second) differs from 0, as `exchange_tests` does.

    `first` and `second` are float64[n] or [n, k]: one number or one row of sufficient statistics per caption, rows
    aligned. `clusters` says which rows change places together (default: each alone).
    """
    a, b = (np.asarray(rows, float) for rows in (first, second))
    if a.shape != b.shape or a.ndim not in (1, 2) or len(a) == 0:
        raise InputError(f"expected two aligned tables of one row per caption, but got shapes {a.shape} and {b.shape}")
    grouped = (
        clusters if isinstance(clusters, Clusters) else Clusters(np.arange(len(a)) if clusters is None else clusters)
    )
    sums = np.stack([grouped.sums(rows.reshape(len(rows), -1)) for rows in (a, b)])
    counts = np.stack([grouped.sums(np.ones(len(a)))] * 2)
    return exchange_tests([Contest(sums, counts, finish)], draws, seed)[0][0, 1]


def association(x: Numbers, y: Numbers, statistic: str = "pearson", draws: int = 20_000, seed: int = 0) -> Test:
    """Tests whether x and y go together, by pairing them in every order (up to nine points), else in `draws` orders.

    `statistic` is pearson, spearman or tau. What it is divided by is the same for every order (so τa, τb and τc have
    one p), and `value` is r, ρ or τa.
    """
    x_values, y_values = paired(x, y)
    if statistic not in _PRODUCTS:
        raise InputError(f"unknown statistic {statistic!r}; expected one of {', '.join(_PRODUCTS)}")
    prepared_x, prepared_y = _PRODUCTS[statistic](x_values[None])[0], _PRODUCTS[statistic](y_values[None])[0]
    size = float(np.sqrt((prepared_x**2).sum() * (prepared_y**2).sum()))
    if statistic == "tau":
        size = len(x_values) * (len(x_values) - 1)
    if size == 0:
        raise InputError(f"{statistic} needs at least two different values on both sides; one side is constant here")
    observed = float(prepared_x @ prepared_y)
    exact = factorial(min(len(y_values), 20)) <= _EXACT_PAIRINGS
    extreme = tried = 0
    for orders in _orders(len(y_values), draws, seed, exact):
        products = _PRODUCTS[statistic](y_values[orders]) @ prepared_x
        extreme += int((np.abs(products) >= abs(observed) - 1e-9 * size).sum())
        tried += len(orders)
    p = extreme / tried if exact else (1 + extreme) / (1 + tried)
    return Test(observed / size, p, exact, tried)


def _centred(rows: Array) -> Array:
    centred: Array = rows - rows.mean(axis=1, keepdims=True)
    return centred


def _ranked(rows: Array) -> Array:
    below = (rows[:, None, :] < rows[:, :, None]).sum(axis=2)
    equal = (rows[:, None, :] == rows[:, :, None]).sum(axis=2)
    return _centred(below + equal / 2)


def _signs(rows: Array) -> Array:
    signs: Array = np.sign(rows[:, :, None] - rows[:, None, :]).reshape(len(rows), -1)
    return signs


# rows of values [m, n] to rows whose inner products are the numerator of the statistic
_PRODUCTS: dict[str, Callable[[Array], Array]] = {"pearson": _centred, "spearman": _ranked, "tau": _signs}


def _orders(n: int, draws: int, seed: int, exact: bool) -> Iterator[Array]:
    """Blocks int[m, n] of orders of n points."""
    step = max(1, _CELLS // (n * n))
    if exact:
        every = permutations(range(n))
        while block := list(islice(every, step)):
            yield np.asarray(block)
        return
    random = np.random.default_rng(seed)
    for start in range(0, draws, step):
        yield random.permuted(np.tile(np.arange(n), (min(step, draws - start), 1)), axis=1)


def williams(r12: float, r13: float, r23: float, n: int) -> Test:
    """Williams' t for r12 - r13, two correlations that share variable 1, over n independent points; r23 is that
    between the other two.
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
        return Test(r12 - r13, 1.0 if r12 == r13 else 0.0, True, 0)
    t = (r12 - r13) * sqrt((n - 1) * (1 + r23) / spread)
    return Test(r12 - r13, float(2 * stdtr(n - 3, -abs(t))), True, 0)


def _exchanges(clusters: int, draws: int, seed: int, exact: bool, width: int) -> Any:
    """Blocks float64[m, clusters] of zeros and ones: 1 where the two systems change places.

    A block, and the m rows of `width` numbers that are made of it, hold `_CELLS` numbers at most (but for one exchange
    of very many); which exchanges are drawn does not depend on the blocks.
    """
    step = max(1, _CELLS // max(clusters, width))
    if exact:
        for start in range(0, 1 << clusters, step):
            numbers = np.arange(start, min(start + step, 1 << clusters))
            yield (numbers[:, None] >> np.arange(clusters) & 1).astype(float)
        return
    random = np.random.default_rng(seed)
    for start in range(0, draws, step):
        yield random.integers(2, size=(min(step, draws - start), clusters)).astype(float)
