"""Baselines: metrics of other fields for comparison with caption metrics on one benchmark, by name, in `capmeter meta`.

A caption metric sees candidates and references. A `Baseline` sees the judgments themselves, and what only they hold,
such as the sentences that systems had to correct. It is run by `meta` alone, not by `score`.

Packages add baselines through the entry point group `capmeter.baselines` (name = "module:Class"); `capmeter-research`
has `gleu`, for CoNLL-2014.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from capmeter.core.named import Named
from capmeter.core.registry import Registry
from capmeter.judgments.prepared import Floats, PreparedJudgments


@dataclass(frozen=True, kw_only=True)
class Baseline(Named, ABC):
    """The base of all baselines. Class attributes: `NAME`, and `SUMMARY`, one line."""

    @property
    def name(self) -> str:
        """The baseline's name without parameters."""
        return self.NAME

    @abstractmethod
    def scores(self, judgments: PreparedJudgments) -> Floats:
        """One score per system (of judgments of captions: one per id)."""

    def max_references(self, judgments: PreparedJudgments) -> int:
        """The largest number of references of one caption that it sees: by default as many as a metric does."""
        return int(judgments.captions.references.lengths.max(initial=0))


BASELINES: Registry[Baseline] = Registry(
    "baseline",
    Baseline,  # type: ignore[type-abstract]
    "capmeter.baselines",
    {},
)
parse, names = BASELINES.parse, BASELINES.names
