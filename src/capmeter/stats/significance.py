"""Which of several systems, or metrics, are really better: pairwise p values, Holm's correction, ranks, the best set.

A `Ranking` holds values by name, the p of every pair, and a level. All that is said of significance follows from it:

    significant(p)   ⇔  p < 1 - level, for p after the correction over all pairs (where there is one)
    better(a, b)     ⇔  value(a) > value(b) and the pair is significant
    ranks            from the highest value down; a new rank begins at one that is worse than the best of its rank
    best             the highest value, and all that are not worse than it

p comes from paired resamples that all pairs share: `permutation_p` (system labels are swapped within an image) or
`bootstrap_p` (images drawn with replacement).

>>> values = {"a": 0.9, "b": 0.8, "c": 0.2}
>>> found = Ranking.of(values, {("a", "b"): 0.3, ("a", "c"): 0.01, ("b", "c"): 0.02})
>>> found.corrected["b", "c"], found.ranks(), sorted(found.best())
(0.04, {'a': 1, 'b': 1, 'c': 2}, ['a', 'b'])

S. Holm. A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6, 1979.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from capmeter.errors import InputError
from capmeter.stats.bootstrap import Interval, difference
from capmeter.stats.kendall import Array
from capmeter.stats.multiple import holm
from capmeter.stats.permutation import Contest, Finish, exchange_tests

Pair = tuple[str, str]
Table = tuple[Array, Array]
"""Of one system: the rows of each image's captions summed, [images, k], and how many captions each has, [images]."""

LEVEL = 0.95
PERMUTATIONS = 10_000
RESAMPLES = 1000
_FOR_EACH_PAIR = 100


def significant(p: float, level: float = LEVEL) -> bool:
    """Whether p is below 1 - level; at the level itself it is not."""
    return p < alpha(level)


def alpha(level: float) -> float:
    """1 - level as it is written: .05 of .95, not the .050000000000000044 of binary arithmetic."""
    if not 0 < level < 1:
        raise InputError(f"expected a level between 0 and 1, such as 0.95, but got {level}")
    return round(1 - level, 12)


def resamples_for(asked: int, number: int) -> int:
    """At least as many resamples as asked for, and more where many systems are compared.

    p cannot be smaller than they allow, and after the correction for all pairs nothing could be significant.
    """
    return max(asked, _FOR_EACH_PAIR * (number * (number - 1) // 2))


@dataclass(frozen=True)
class Ranking:
    """Values by name, and for each pair of names p and `corrected`, which is what `level` is applied to."""

    values: Mapping[str, float]
    p: Mapping[Pair, float]
    corrected: Mapping[Pair, float]
    level: float = LEVEL

    @classmethod
    def of(
        cls, values: Mapping[str, float], p: Mapping[Pair, float], *, level: float = LEVEL, correct: bool = True
    ) -> Ranking:
        """The ranking of these values; `correct`: by Holm, over the pairs. p needs each pair once, either way round."""
        missing = [pair for pair in combinations(values, 2) if pair not in p and pair[::-1] not in p]
        if missing:
            raise InputError(f"expected p for every pair of {', '.join(values)}, but got none for {missing[:5]}")
        alpha(level)
        corrected = dict(zip(p, holm(list(p.values())).tolist(), strict=True)) if correct else dict(p)
        return cls(dict(values), dict(p), corrected, level)

    def between(self, first: str, second: str) -> float:
        """The pair's p after the correction, whichever way round it is named."""
        pair = (first, second)
        return self.corrected[pair] if pair in self.corrected else self.corrected[pair[::-1]]

    def better(self, first: str, second: str) -> bool:
        """Whether the first has the higher value, and significantly so."""
        return self.values[first] > self.values[second] and significant(self.between(first, second), self.level)

    def beaten(self, name: str) -> frozenset[str]:
        """Those that are significantly worse than this one."""
        return frozenset(other for other in self.values if other != name and self.better(name, other))

    def order(self) -> list[str]:
        """The names from the highest value down; equal values keep the order in which they were given."""
        return sorted(self.values, key=lambda name: -self.values[name])

    def ranks(self) -> dict[str, int]:
        """Each name's rank, from the highest value down."""
        ranks: dict[str, int] = {}
        best, rank = "", 0
        for name in self.order():
            if not ranks or self.better(best, name):
                best, rank = name, rank + 1
            ranks[name] = rank
        return ranks

    def best(self) -> frozenset[str]:
        """The highest, and all that are not significantly below it."""
        order = self.order()
        return frozenset(order) - self.beaten(order[0]) if order else frozenset()


def permutation_p(
    measures: Sequence[Mapping[str, Table]],
    finishes: Sequence[Finish],
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> list[dict[Pair, float]]:
    """For each measure, p of each pair of systems: their labels are swapped within an image, with all its captions.

    `measures` have a table for each system, of the same images in the same order; `finishes` make corpus scores of
    summed tables. All pairs and measures see the same permutations.
    """
    contests = []
    for tables, finish in zip(measures, finishes, strict=True):
        sums, counts = zip(*tables.values(), strict=True)
        contests.append(Contest(np.stack(sums), np.stack(counts), finish))
    found = exchange_tests(contests, permutations, seed)
    return [
        {(names[a], names[b]): test.p for (a, b), test in tests.items()}
        for names, tests in zip(map(list, measures), found, strict=True)
    ]


def bootstrap_p(intervals: Mapping[str, Interval]) -> dict[Pair, float]:
    """p of each pair from the paired resamples of both: how often they fall on the less likely side of 0, doubled."""
    return {(a, b): difference(intervals[a], intervals[b])[1] for a, b in combinations(intervals, 2)}
