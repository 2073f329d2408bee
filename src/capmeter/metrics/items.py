"""Scores of one metric: of all captions, and of each under its id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.errors import InputError
from capmeter.metrics.base import Floats, Metric
from capmeter.metrics.checks import checked_scores
from capmeter.stats.bootstrap import Clusters


class Items(Mapping[str, float]):
    """One number per caption, keyed by id in input order; `array` has all of them.

    Ids are text; a whole number finds the id that it is written as: `items[391895]`.
    """

    def __init__(self, ids: Ids, array: Floats) -> None:
        self.ids, self.array = ids, array

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
    `signature`: everything that affects the score; `values`: the rows that `metric.finish` turns into scores.
    """

    name: str
    score: float
    items: Items
    parts: dict[str, float]
    part_items: dict[str, Items]
    notes: dict[str, list[str]]
    signature: str
    metric: Metric | None = None
    values: Floats | None = None

    def __repr__(self) -> str:
        return f"Scores({self.name}: {self.score:.4f}; {len(self.items)} captions)"

    @classmethod
    def of(cls, metric: Metric, ids: Ids, values: Floats, notes: dict[str, list[str]], signature: str) -> Scores:
        """The scores computed from these rows."""
        each = metric.finish(values, np.ones(len(values)))
        whole = metric.finish(values.sum(axis=0), np.float64(len(values)))
        checked_scores(metric, each, whole, ids.names)
        parts = [name for name in each if name != "score"]
        return cls(
            name=str(metric),
            score=float(whole["score"]),
            items=Items(ids, each["score"]),
            parts={name: float(whole[name]) for name in parts},
            part_items={name: Items(ids, each[name]) for name in parts},
            notes=notes,
            signature=signature,
            metric=metric,
            values=values,
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
