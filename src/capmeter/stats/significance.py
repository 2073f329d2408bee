"""Which systems, or metrics, are significantly better: pairwise p values, Holm's correction, ranks, the best set.

A `Ranking` holds values by name, the p of every pair, and a confidence level. Everything about significance follows:

    significant(p)   ⇔  p < 1 - level, for p after correction over all pairs (if any)
    better(a, b)     ⇔  value(a) > value(b) and the difference is significant; < where lower is better
    ranks            from best to worst value; a new rank begins where a value is worse than the best of its rank
    best             the best value, and all that are not significantly worse

p comes from paired resamples shared by all pairs: permutations (system labels are swapped within an image), or
`bootstrap_p_values` (images resampled with replacement).

>>> values = {"a": 0.9, "b": 0.8, "c": 0.2}
>>> ranking = Ranking.from_p_values(values, {("a", "b"): 0.3, ("a", "c"): 0.01, ("b", "c"): 0.02})
>>> ranking.corrected["b", "c"], ranking.ranks(), sorted(ranking.best())
(0.04, {'a': 1, 'b': 1, 'c': 2}, ['a', 'b'])

S. Holm. A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6, 1979.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.bootstrap import Interval, check_level, paired_difference
from capmeter.stats.kendall import Array, Numbers


def holm_correction(p: Numbers) -> Array:
    """Holm's step-down correction: rejecting where the result is below α keeps the family-wise error rate at α."""
    p_values = np.asarray(p, float)
    if p_values.ndim != 1 or not ((p_values >= 0) & (p_values <= 1)).all():
        raise InputError(f"expected p values between 0 and 1, but got {p_values.tolist()}")
    order = np.argsort(p_values, kind="stable")
    stepped_p = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted_p = np.empty(len(p_values))
    adjusted_p[order] = np.minimum(stepped_p, 1.0)
    return adjusted_p


Pair = tuple[str, str]

LEVEL = 0.95
PERMUTATIONS = 10_000
_FOR_EACH_PAIR = 100


def is_significant(p: float, level: float = LEVEL) -> bool:
    """Whether p is strictly below 1 - level."""
    return p < significance_threshold(level)


def significance_threshold(level: float) -> float:
    """1 - level as written: .05 for .95, not the .050000000000000044 of binary arithmetic."""
    check_level(level)
    return round(1 - level, 12)


def required_resamples(requested: int, system_count: int) -> int:
    """At least as many resamples as requested, and more if many systems are compared.

    The number of resamples bounds p from below; with too few, nothing could be significant after correction.
    """
    return max(requested, _FOR_EACH_PAIR * (system_count * (system_count - 1) // 2))


@dataclass(frozen=True)
class Ranking:
    """Values by name, and for each pair of names its p and its `corrected` p, to which `level` is applied.

    Without p nothing was tested: nothing is best, or worse than another. `intervals`: of the values, where known.
    """

    values: Mapping[str, float]
    p: Mapping[Pair, float]
    corrected: Mapping[Pair, float]
    level: float = LEVEL
    lower_is_better: bool = False
    intervals: Mapping[str, Interval] = field(default_factory=dict)

    @classmethod
    def from_p_values(
        cls,
        values: Mapping[str, float],
        p: Mapping[Pair, float],
        *,
        level: float = LEVEL,
        correct: bool = True,
        lower_is_better: bool = False,
        intervals: Mapping[str, Interval] | None = None,
    ) -> Ranking:
        """The ranking of these values.

        Args:
            values: by name.
            p: of each pair, once, in either order; empty: none was tested.
            level: such as 0.95.
            correct: whether Holm's correction is applied.
            lower_is_better: whether low values are best.
            intervals: of the values, where known.
        """
        missing = [pair for pair in combinations(values, 2) if pair not in p and pair[::-1] not in p]
        if p and missing:
            raise InputError(f"expected p for every pair of {', '.join(values)}, but it is missing for {missing[:5]}")
        significance_threshold(level)
        corrected = dict(zip(p, holm_correction(list(p.values())).tolist(), strict=True)) if correct else dict(p)
        return cls(dict(values), dict(p), corrected, level, lower_is_better, intervals or {})

    def corrected_p(self, first: str, second: str) -> float:
        """The pair's p after correction; the order of the names does not matter."""
        pair = (first, second)
        return self.corrected[pair] if pair in self.corrected else self.corrected[pair[::-1]]

    def better(self, first: str, second: str) -> bool:
        """Whether the first is significantly better than the second."""
        is_better = bool(self.p) and self._goodness(first) > self._goodness(second)
        return is_better and is_significant(self.corrected_p(first, second), self.level)

    def _goodness(self, name: str) -> float:
        """The value, negated where lower is better."""
        return -self.values[name] if self.lower_is_better else self.values[name]

    def significantly_worse(self, name: str) -> frozenset[str]:
        """Those that are significantly worse than this one; none where it has no value."""
        names = self.values if name in self.values else ()
        return frozenset(other for other in names if other != name and self.better(name, other))

    def order(self) -> list[str]:
        """The names from best to worst value; equal values keep their given order."""
        return sorted(self.values, key=lambda name: -self._goodness(name))

    def ranks(self) -> dict[str, int]:
        """Each name's rank; 1 is the best value."""
        ranks: dict[str, int] = {}
        best, rank = "", 0
        for name in self.order():
            if not ranks or self.better(best, name):
                best, rank = name, rank + 1
            ranks[name] = rank
        return ranks

    def best(self) -> frozenset[str]:
        """The name with the best value, and all that are not significantly worse."""
        order = self.order()
        return frozenset(order) - self.significantly_worse(order[0]) if self.p else frozenset()


def bootstrap_p_values(intervals: Mapping[str, Interval]) -> dict[Pair, float]:
    """p of each pair from paired resamples: twice the share of differences on the less likely side of 0."""
    return {(a, b): paired_difference(intervals[a], intervals[b])[1] for a, b in combinations(intervals, 2)}
