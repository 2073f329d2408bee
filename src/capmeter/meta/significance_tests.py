"""Tests of significance as named values: where the p of a difference between two systems comes from.

* `permutation` (the default): a paired permutation test. Under the null hypothesis system labels can be swapped within
  an image; p is the share of permutations whose difference is at least as large as the observed one. With up to
  2¹² permutations in all, every one is tried.
* `bootstrap`: from the intervals' paired resamples of images, how often the difference falls on the less likely side of
  0, doubled.

Other packages add tests through the entry point group `capmeter.tests` (name = "module:Class").

>>> str(parse("permutation(permutations=2000)")), str(parse("bootstrap"))
('permutation(permutations=2000)', 'bootstrap')
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from capmeter.core.errors import InputError
from capmeter.core.named import Named
from capmeter.core.registry import Entry, Registry
from capmeter.evaluation.results import Scores
from capmeter.stats.bootstrap import Clusters, Interval
from capmeter.stats.significance import PERMUTATIONS, Pair, bootstrap_p_values, permutation_p_values, required_resamples


@dataclass(frozen=True, eq=False)
class PairedScores:
    """One metric's scores of several systems, whose captions are aligned.

    `clusters`: which captions belong to one image; `intervals`: the systems' bootstrap intervals, from the same
    resamples of images for all systems.
    """

    scores: Mapping[str, Scores]
    clusters: Clusters
    intervals: Mapping[str, Interval]


@dataclass(frozen=True, kw_only=True)
class SignificanceTest(Named, ABC):
    """The base of all tests. Class attributes: `NAME`, `SUMMARY` (one line), and `USES_INTERVALS`: whether p comes from
    the intervals' resamples, so that comparing many systems needs more of them.
    """

    USES_INTERVALS: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The test's name without parameters."""
        return self.NAME

    def for_systems(self, number: int) -> SignificanceTest:
        """The test for this many systems: the correction for all pairs requires smaller p."""
        return self

    @abstractmethod
    def p(self, paired: PairedScores, seed: int) -> Mapping[Pair, float]:
        """p of every pair of systems, two-sided and uncorrected."""

    @abstractmethod
    def describe(self, resamples: int) -> str:
        """The test in words, for the note below a table; `resamples`: the number that the intervals are based on."""


@dataclass(frozen=True, kw_only=True)
class PermutationTest(SignificanceTest):
    """A paired permutation test by image."""

    NAME: ClassVar[str] = "permutation"
    SUMMARY: ClassVar[str] = "paired permutation test: system labels are swapped within an image"

    permutations: Annotated[int, "number of permutations (more where many systems are compared)"] = PERMUTATIONS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.permutations < 1:
            raise InputError(f"{self.name}: permutations={self.permutations} must be at least 1")

    def for_systems(self, number: int) -> PermutationTest:
        """With at least 100 permutations for each pair."""
        return replace(self, permutations=required_resamples(self.permutations, number))

    def p(self, paired: PairedScores, seed: int) -> Mapping[Pair, float]:
        """The share of permutations whose difference is at least as large."""
        tables = {system_name: each.sum_by_cluster(paired.clusters) for system_name, each in paired.scores.items()}
        score_function = next(iter(paired.scores.values())).score_from_sums
        (p,) = permutation_p_values([tables], [score_function], self.permutations, seed)
        return p

    def describe(self, resamples: int) -> str:
        """With its number of permutations."""
        return f"paired permutation test by image ({self.permutations:,} permutations)"


@dataclass(frozen=True, kw_only=True)
class Bootstrap(SignificanceTest):
    """A paired bootstrap test by image."""

    NAME: ClassVar[str] = "bootstrap"
    SUMMARY: ClassVar[str] = "paired bootstrap test, from the intervals' resamples of images"
    USES_INTERVALS: ClassVar[bool] = True

    def p(self, paired: PairedScores, seed: int) -> Mapping[Pair, float]:
        """How often the difference falls on the less likely side of 0, doubled."""
        return bootstrap_p_values(paired.intervals)

    def describe(self, resamples: int) -> str:
        """With the number of resamples."""
        return f"paired bootstrap by image ({resamples:,} resamples)"


TESTS: Registry[SignificanceTest] = Registry(
    "significance test",
    SignificanceTest,  # type: ignore[type-abstract]
    "capmeter.tests",
    {
        "permutation": Entry("capmeter.meta.significance_tests:PermutationTest"),
        "bootstrap": Entry("capmeter.meta.significance_tests:Bootstrap"),
    },
)
parse, names = TESTS.parse, TESTS.names
