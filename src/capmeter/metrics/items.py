"""Scores of one metric: of all captions, and of each under its id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.errors import InputError
from capmeter.metrics.base import Floats, Metric
from capmeter.metrics.checks import checked_scores
from capmeter.metrics.held import Rows
from capmeter.stats.bootstrap import Clusters


class Items(Mapping[str, float]):
    """One number per caption, keyed by id in input order; `array` has all of them, or is a function that gives them.

    Ids are text; a whole number finds the id that it is written as: `items[391895]`.
    """

    def __init__(self, ids: Ids, array: Floats | Callable[[], Floats]) -> None:
        self.ids, self._array = ids, array

    @property
    def array(self) -> Floats:
        """The numbers, in the order of the ids."""
        if callable(self._array):
            self._array = self._array()
        return self._array

    def __getitem__(self, id: str | int) -> float:
        text = str(int(id)) if isinstance(id, int | np.integer) and not isinstance(id, bool) else id
        if text not in self.ids.position:
            some = ", ".join(map(repr, self.ids.names[:3]))
            raise KeyError(f"no caption has the id {id!r}; ids are such as {some}")
        return float(self.array[self.ids.position[str(text)]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids.names)

    def __len__(self) -> int:
        return len(self.ids.names)

    def __repr__(self) -> str:
        shown = ", ".join(f"{id!r}: {value:.4f}" for id, value in zip(self.ids.names[:3], self.array, strict=False))
        return f"Items({len(self)}: {{{shown}{', …' if len(self) > 3 else ''}}})"


@dataclass(frozen=True, eq=False)
class Ids:
    """The scored captions: their ids, and the image of each."""

    names: Sequence[str]
    images: Sequence[str]

    @cached_property
    def position(self) -> dict[str, int]:
        """Each id's position."""
        return {name: k for k, name in enumerate(self.names)}

    @cached_property
    def clusters(self) -> Clusters:
        """The captions grouped by image: they are resampled together."""
        return Clusters(self.images)


@dataclass(frozen=True, eq=False)
class Scores:
    """One metric's scores.

    `score`: of the whole set; `items`: of each caption; `parts` and `part_items`: the score's components (precision,
    lower orders …), of the set and of each caption; `notes`: reason → ids of captions that were empty, truncated …;
    `signature`: everything that affects the score; `rows`: what `metric.finish` turns into scores (`values`).
    """

    name: str
    score: float
    items: Items
    parts: dict[str, float]
    part_items: dict[str, Items]
    notes: dict[str, list[str]]
    signature: str
    metric: Metric | None = None
    rows: Rows | None = None

    def __repr__(self) -> str:
        return f"Scores({self.name}: {self.score:.4f}; {len(self.items)} captions)"

    @cached_property
    def values(self) -> Floats | None:
        """The rows as one array, where they are known."""
        return None if self.rows is None else self.rows.array

    @classmethod
    def of(cls, metric: Metric, ids: Ids, rows: Rows, notes: dict[str, list[str]], signature: str) -> Scores:
        """The scores computed from these rows; those of single captions when they are first asked for."""
        whole = metric.finish(rows.sums(), np.float64(len(rows)))
        each, first = _Finished(metric, rows), 0
        for block in rows.blocks:
            checked_scores(metric, each.of(block), whole, ids.names[first : first + len(block)])
            first += len(block)
        parts = [name for name in whole if name != "score"]
        return cls(
            name=str(metric),
            score=float(whole["score"]),
            items=Items(ids, partial(each, "score")),
            parts={name: float(whole[name]) for name in parts},
            part_items={name: Items(ids, partial(each, name)) for name in parts},
            notes=notes,
            signature=signature,
            metric=metric,
            rows=rows,
        )

    def resampled(self, weights: npt.NDArray[Any], clusters: Clusters) -> Floats:
        """The corpus score of each resample d, where cluster c's captions count `weights[d, c]` times: [resamples]."""
        sums, counts = self.by_cluster(clusters)
        return self.finish(weights @ sums, weights @ counts)

    def by_cluster(self, clusters: Clusters) -> tuple[Floats, Floats]:
        """The captions' rows summed within each cluster, [clusters, k], and the number of captions, [clusters]."""
        if self.metric is None or self.values is None:
            raise InputError(f"{self.name}: read from a file without rows to resample; score the captions again")
        return clusters.sums(self.values), clusters.sums(np.ones(len(self.values)))

    def finish(self, sums: Floats, counts: Floats) -> Floats:
        """The corpus score from summed rows [..., k] and numbers of captions [...]."""
        if self.metric is None:
            raise InputError(f"{self.name}: read from a file without the rows of captions; score the captions again")
        return self.metric.finish(sums, counts)["score"]


class _Finished:
    """The scores and parts of single captions, all computed when one of them is asked for."""

    def __init__(self, metric: Metric, rows: Rows) -> None:
        self._metric, self._rows = metric, rows
        self._all: Mapping[str, Floats] = {}

    def of(self, block: Floats) -> Mapping[str, Floats]:
        """Those of some rows."""
        return self._metric.finish(block, np.ones(len(block)))

    def __call__(self, name: str) -> Floats:
        if not self._all:
            self._all = self.of(self._rows.array)  # at once: a caption without a score may get the mean of all others
        return self._all[name]
