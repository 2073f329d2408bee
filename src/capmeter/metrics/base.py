"""The base classes of metrics: a metric is an immutable value that measures captions.

A metric turns a part of a caption set into one row of numbers per caption (`measure`), and sums of rows into scores
(`finish`). Everything else (running over parts, corpus scores, intervals, files) is implemented once, elsewhere, and
relies on this: `finish` of one caption's row is that caption's score, `finish` of the sum of all rows the corpus score.

There are three kinds. A `MeanMetric` gives one number per caption, and its corpus score is their mean; an
`AdditiveMetric` gives sufficient statistics per caption, and its corpus score is a function of their sum; a
`CompositeMetric` (`capmeter.metrics.composite`) is made of other metrics. What depends on the corpus (document
frequencies …) is a `Corpus`: a value that collects a state from each part; states add up.

Everything that a metric is given besides the captions is in one `Context`: the corpus state, the results of required
metrics, and the settings of the run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.named import Named
from capmeter.settings import Settings

if TYPE_CHECKING:
    from capmeter.metrics.evidence import Evidence

Floats = npt.NDArray[np.float64]


class CapmeterWarning(UserWarning):
    """A score was computed, but it may be misleading."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A metric's results on a part: `values` (float64, [captions, columns]) and notes (reason → ids)."""

    values: Floats
    notes: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Context:
    """What a metric or a corpus is given besides the captions of a part.

    state: what `corpus()` collected from the whole run (None without one).
    settings: device, precision, threads and cache of this run.
    scores: for each required metric its "score" and its parts, one number per caption of the part.
    measured: for each required metric its rows and notes. Both are empty if there are no captions (in `facts`).
    required: the context of each required metric, for calls that a composite makes to its members (facts, evidence).
    """

    state: Any = None
    settings: Settings = field(default_factory=Settings)
    scores: Mapping[Metric, Mapping[str, Floats]] = field(default_factory=dict)
    measured: Mapping[Metric, Measurement] = field(default_factory=dict)
    required: Mapping[Metric, Context] = field(default_factory=dict)


class Corpus(ABC):
    """What is collected from a whole run before any caption is scored: a hashable value.

    Equal values are collected once for all the metrics that need them. The states of parts add up to the state of the
    whole: `collect(a) + collect(b)` equals `collect(a and b)`.
    """

    def requires(self) -> tuple[Metric, ...]:
        """The metrics whose scores `collect` needs; they are measured first, on the same captions."""
        return ()

    @abstractmethod
    def collect(self, part: CaptionSet, context: Context) -> Any:
        """The state of this part; `context.scores` has the scores of the metrics of `requires()`."""


@dataclass(frozen=True, kw_only=True)
class Metric(Named, ABC):
    """The base class of all metrics. A subclass is a frozen dataclass whose fields are its parameters.

    Class attributes: `NAME`, the metric's name; `SUMMARY`, one line; `EXTRA`, the pip extra it needs, if any (of
    several: "neural,meteor"); `ROWS`, the preferred number of captions per part; `MICROSECONDS`, what a caption with
    five references takes of one core (0: not known, or a network, which takes all). `needs` says what each caption
    must have.
    """

    EXTRA: ClassVar[str | None] = None
    ROWS: ClassVar[int] = 8192
    MICROSECONDS: ClassVar[float] = 0.0

    @property
    def name(self) -> str:
        """The metric's name without parameters."""
        return self.NAME

    @property
    def needs(self) -> frozenset[str]:
        """What each caption must have: any of "references", "image" (its picture) and "regions" (of the picture)."""
        return frozenset({"references"})

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that `measure` returns."""

    def requires(self) -> tuple[Metric, ...]:
        """The metrics whose caption-level scores this one needs."""
        return ()

    @property
    def extras(self) -> tuple[str, ...]:
        """The pip extras that it needs, with those of the metrics that it requires."""
        own = self.EXTRA.split(",") if self.EXTRA else []
        return tuple(sorted({*own, *(extra for each in self.requires() for extra in each.extras)}))

    def corpus(self) -> Corpus | None:
        """What must be collected from the whole run first."""
        return None

    @abstractmethod
    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """One row of numbers per caption of the part: float64, finite, [captions, columns]."""

    @abstractmethod
    def finish(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """Scores from sums of rows: `sums` [..., columns], `counts` [...] how many captions were summed.

        The first key is "score", the others are its parts; every value has the shape of `counts`.
        """

    def facts(self, context: Context) -> dict[str, str]:
        """What else affects the score and belongs in the signature (tokenizer version, model hash, idf source …)."""
        return {}

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """The evidence for each caption of the part; an `InputError` if the metric cannot explain its scores."""
        raise InputError(f"{self} cannot explain its scores; `capmeter list` marks the metrics that can")

    @property
    def is_mean(self) -> bool:
        """Whether a caption's row is its score and parts, and the corpus score is the mean of the caption scores."""
        return False

    @property
    def explains(self) -> bool:
        """Whether the metric can give evidence."""
        return type(self).explain is not Metric.explain


class MeanMetric(Metric):
    """A metric with one score per caption; the corpus score is their mean.

    A subclass defines `columns`, of which the first is "score" and the others are its parts, and `measure`, whose rows
    have these columns. Nothing else is needed: the corpus value of every column is its mean.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Words(MeanMetric):
    ...     NAME, SUMMARY, columns = "words", "how many words a caption has", ("score",)
    ...
    ...     def measure(self, part, context):
    ...         return Measurement(np.array([[len(each.candidate.split())] for each in part], np.float64))
    >>> from capmeter.captions.model import Caption
    >>> Words().measure(CaptionSet.from_captions([Caption("1", "1", "a dog runs")]), Context()).values.tolist()
    [[3.0]]
    """

    @property
    def is_mean(self) -> bool:
        """Always."""
        return True

    def finish(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """The mean of every column."""
        return column_means(self.columns, sums, counts)


class AdditiveMetric(Metric):
    """A metric with sufficient statistics: the corpus score is `finish` of the sum of its captions' rows.

    A subclass defines `columns`, `measure`, whose rows are counts that can be summed over captions (matches, lengths
    …), and `finish`, the formula that turns such sums into scores. `finish` is called with the sums of one caption, of
    all captions, and of every resample of an interval or test, many at once: it must work on arrays of any shape
    [..., columns] and return "score" first.
    """


def column_means(columns: tuple[str, ...], sums: Floats, counts: Floats) -> dict[str, Floats]:
    """The mean of every column, from sums [..., columns] and numbers of captions [...]."""
    means = sums / counts[..., None]
    return {column: means[..., k] for k, column in enumerate(columns)}


def merged_notes(notes: Iterable[Mapping[str, list[str]]]) -> dict[str, list[str]]:
    """Several notes merged: for each reason the ids, without duplicates."""
    merged: dict[str, dict[str, None]] = {}
    for each in notes:
        for reason, ids in each.items():
            if ids:
                merged.setdefault(reason, {}).update(dict.fromkeys(ids))
    return {reason: list(ids) for reason, ids in merged.items()}


def wordless(part: CaptionSet, lengths: npt.NDArray[Any]) -> dict[str, list[str]]:
    """A note of the captions that are not blank but have no words, given the words per sentence of the pool."""
    none = np.flatnonzero(lengths[part.candidates] == 0).tolist()
    none = [k for k in none if part.pool[int(part.candidates[k])].strip()]
    return {"no words in candidate": [part.ids[k] for k in none]} if none else {}
