"""Baselines: metrics of other fields for comparison with caption metrics on one benchmark, by name, in `capmeter meta`.

A caption metric sees candidates and references. A `Baseline` sees the judgments themselves, and what only they hold:
the sentences that a system was given to correct, say. It is run by `meta` alone, not by `score`.

>>> names()
['gleu']
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from capmeter.judgments.judged import Floats, Judgments
from capmeter.named import Named
from capmeter.registry import Entry, Registry


@dataclass(frozen=True, kw_only=True)
class Baseline(Named, ABC):
    """The base of all baselines. Class attributes: `NAME`, and `SUMMARY`, one line."""

    @property
    def name(self) -> str:
        """The baseline's name without parameters."""
        return self.NAME

    @abstractmethod
    def scores(self, judgments: Judgments) -> Floats:
        """One score per system (of judgments of captions: one per id)."""

    def most_references(self, judgments: Judgments) -> int:
        """The largest number of references that it sees of one caption: by default as many as a metric does."""
        return int(judgments.captions.references.lengths.max(initial=0))


BASELINES: Registry[Baseline] = Registry(
    "baseline",
    Baseline,  # type: ignore[type-abstract]
    "capmeter.baselines",
    {"gleu": Entry("capmeter.meta.gleu:Gleu")},
)
parse, names = BASELINES.parse, BASELINES.names
