"""Tests of significance as named values: where the p of a difference between two systems comes from.

* `permutation` (the default): a paired permutation test. Under the null hypothesis system labels can be swapped within
  an image; p is the share of permutations whose difference is at least as large as the observed one. With up to
  2¹² permutations in all, every one is tried.
* `bootstrap`: from the paired resamples of images that the intervals rest on, how often the difference falls on the
  less likely side of 0, doubled.

Other packages add tests through the entry point group `capmeter.tests` (name = "module:Class").

>>> str(parse("permutation(permutations=2000)")), str(parse("bootstrap"))
('permutation(permutations=2000)', 'bootstrap')
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from capmeter.errors import InputError
from capmeter.metrics.scores import Scores
from capmeter.named import Named
from capmeter.registry import Entry, Registry
from capmeter.stats.bootstrap import Clusters, Interval
from capmeter.stats.significance import PERMUTATIONS, Pair, bootstrap_p, permutation_p, resamples_for


@dataclass(frozen=True, eq=False)
class PairedScores:
    """One metric's scores of several systems, whose captions are aligned.

    `clusters` says which captions belong to one image; `intervals` are the systems' bootstrap intervals, from the same
    resamples of images for all systems.
    """

    scores: Mapping[str, Scores]
    clusters: Clusters
    intervals: Mapping[str, Interval]


@dataclass(frozen=True, kw_only=True)
class SignificanceTest(Named, ABC):
    """The base of all tests. Class attributes: `NAME`, `SUMMARY` (one line), and `USES_INTERVALS`: whether p comes from
    the intervals' resamples, of which more are then made where many systems are compared.
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
    def described(self, resamples: int) -> str:
        """The test in words, for the note below a table; `resamples`: how many the intervals rest on."""


@dataclass(frozen=True, kw_only=True)
class Permutation(SignificanceTest):
    """A paired permutation test by image."""

    NAME: ClassVar[str] = "permutation"
    SUMMARY: ClassVar[str] = "paired permutation test: system labels are swapped within an image"

    permutations: Annotated[int, "how many permutations, more where many systems are compared"] = PERMUTATIONS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.permutations < 1:
            raise InputError(f"{self.name}: permutations={self.permutations} is not a number from 1")

    def for_systems(self, number: int) -> Permutation:
        """With at least 100 permutations for each pair."""
        return replace(self, permutations=resamples_for(self.permutations, number))

    def p(self, paired: PairedScores, seed: int) -> Mapping[Pair, float]:
        """The share of permutations whose difference is at least as large."""
        tables = {name: each.by_cluster(paired.clusters) for name, each in paired.scores.items()}
        finish = next(iter(paired.scores.values())).finish
        (p,) = permutation_p([tables], [finish], self.permutations, seed)
        return p

    def described(self, resamples: int) -> str:
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
        return bootstrap_p(paired.intervals)

    def described(self, resamples: int) -> str:
        """With the number of resamples."""
        return f"paired bootstrap by image ({resamples:,} resamples)"


TESTS: Registry[SignificanceTest] = Registry(
    "significance test",
    SignificanceTest,  # type: ignore[type-abstract]
    "capmeter.tests",
    {
        "permutation": Entry("capmeter.meta.significance_tests:Permutation"),
        "bootstrap": Entry("capmeter.meta.significance_tests:Bootstrap"),
    },
)
parse, names = TESTS.parse, TESTS.names
