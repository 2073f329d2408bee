"""Scores of one metric: of the whole set, and of each caption by its id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.evaluation.base import Answers, Floats, Metric
from capmeter.evaluation.checks import check_scores
from capmeter.evaluation.compact import PackedRows
from capmeter.stats.bootstrap import Clusters


class Items(Mapping[str, float]):
    """One number per caption, keyed by id in input order.

    Ids are text; an integer finds the id that it is written as: `items[391895]`.

    Args:
        ids: the ids of the captions.
        array: the numbers (captions), or a function that computes them when they are first used.
    """

    def __init__(self, ids: Ids, array: Floats | Callable[[], Floats]) -> None:
        self.ids, self._array = ids, array

    @property
    def array(self) -> Floats:
        """The numbers in the order of the ids: (captions)."""
        if callable(self._array):
            self._array = self._array()
        return self._array

    def __getitem__(self, id: str | int) -> float:
        caption_id = str(int(id)) if isinstance(id, int | np.integer) and not isinstance(id, bool) else id
        if caption_id not in self.ids.positions:
            examples = ", ".join(map(repr, self.ids.names[:3]))
            raise KeyError(f"no caption has the id {id!r}; ids are such as {examples}")
        return float(self.array[self.ids.positions[str(caption_id)]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids.names)

    def __len__(self) -> int:
        return len(self.ids.names)

    def __repr__(self) -> str:
        examples = ", ".join(f"{id!r}: {value:.4f}" for id, value in zip(self.ids.names[:3], self.array, strict=False))
        return f"Items({len(self)}: {{{examples}{', …' if len(self) > 3 else ''}}})"


@dataclass(frozen=True, eq=False)
class Ids:
    """The ids of the scored captions."""

    names: Sequence[str]  # (captions)
    images: Sequence[str]  # (captions): the id of each caption's image

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each id."""
        return {name: k for k, name in enumerate(self.names)}

    @cached_property
    def clusters(self) -> Clusters:
        """The captions grouped by image: those of one image are resampled together."""
        return Clusters(self.images)


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one metric."""

    name: str
    score: float  # of the whole set
    items: Items  # the score of each caption
    parts: dict[str, float]  # components of the score (precision, lower orders …), of the whole set
    part_items: dict[str, Items]  # the same of each caption
    notes: dict[str, list[str]]  # reason → ids of captions that were empty, truncated …
    signature: str  # everything that affects the score
    metric: Metric | None = None  # None if this installation lacks it
    answers: Answers = field(default_factory=dict)  # of a judge
    rows: PackedRows | None = None  # what `metric.from_sums` turns into scores; None if the file had none

    def __repr__(self) -> str:
        return f"Scores({self.name}: {self.score:.4f}; {format_count(len(self.items), 'caption')})"

    @cached_property
    def values(self) -> Floats | None:
        """The rows as one array (captions, columns), if there are any."""
        return None if self.rows is None else self.rows.array

    @classmethod
    def from_rows(
        cls, metric: Metric, ids: Ids, rows: PackedRows, notes: dict[str, list[str]], signature: str
    ) -> Scores:
        """Computes the scores from the rows of all captions; those of single captions when they are first used."""
        corpus_scores = metric.from_sums(rows.sums(), np.float64(len(rows)))
        caption_scores, block_start = _CaptionScores(metric, rows), 0
        for block in rows.blocks:
            check_scores(
                metric, caption_scores.compute(block), corpus_scores, ids.names[block_start : block_start + len(block)]
            )
            block_start += len(block)
        part_names = [part_name for part_name in corpus_scores if part_name != "score"]
        return cls(
            name=str(metric),
            score=float(corpus_scores["score"]),
            items=Items(ids, partial(caption_scores, "score")),
            parts={part_name: float(corpus_scores[part_name]) for part_name in part_names},
            part_items={part_name: Items(ids, partial(caption_scores, part_name)) for part_name in part_names},
            notes=notes,
            signature=signature,
            metric=metric,
            rows=rows,
        )

    @property
    def lower_is_better(self) -> bool:
        """Whether better captions have lower scores; scores of a metric that is not installed: no."""
        return self.metric is not None and self.metric.lower_is_better

    def select(self, rows: Sequence[int], ids: Ids) -> Scores:
        """The scores of the captions in these rows, which have these ids.

        Raises:
            InputError: the scores were read from a file without rows.
        """
        if self.metric is None or self.values is None:
            raise InputError(f"{self.name}: read from a file without the rows of captions; score the captions again")
        selected_positions = ids.positions
        notes = {reason: [id for id in noted if id in selected_positions] for reason, noted in self.notes.items()}
        selected_rows = PackedRows([self.values[list(rows)]])
        scores = Scores.from_rows(
            self.metric, ids, selected_rows, {k: v for k, v in notes.items() if v}, self.signature
        )
        return replace(
            scores, answers={id: answers for id, answers in self.answers.items() if id in selected_positions}
        )

    def score_resamples(self, weights: npt.NDArray[Any], clusters: Clusters) -> Floats:
        """The corpus score of each resample: (resamples).

        Args:
            weights: how often each cluster occurs in each resample (resamples, clusters).
            clusters: the captions grouped by image.

        Raises:
            InputError: the scores were read from a file without rows.
        """
        sums, counts = self.sum_by_cluster(clusters)
        return self.score_from_sums(weights @ sums, weights @ counts)

    def sum_by_cluster(self, clusters: Clusters) -> tuple[Floats, Floats]:
        """The rows summed within each cluster (clusters, columns), and the numbers of captions (clusters)."""
        if self.metric is None or self.values is None:
            raise InputError(f"{self.name}: read from a file without rows to resample; score the captions again")
        return clusters.sums(self.values), clusters.sums(np.ones(len(self.values)))

    def score_from_sums(self, sums: Floats, counts: Floats) -> Floats:
        """The corpus scores (...) from summed rows (..., columns) and numbers of captions (...)."""
        return self.parts_from_sums(sums, counts)["score"]

    def parts_from_sums(self, sums: Floats, counts: Floats) -> Mapping[str, Floats]:
        """The corpus scores as "score", and their parts."""
        if self.metric is None:
            raise InputError(f"{self.name}: read from a file without the rows of captions; score the captions again")
        return self.metric.from_sums(sums, counts)


class _CaptionScores:
    """The scores and parts of single captions, all computed when one of them is first used."""

    def __init__(self, metric: Metric, rows: PackedRows) -> None:
        self._metric, self._rows = metric, rows
        self._scores: Mapping[str, Floats] = {}

    def compute(self, block: Floats) -> Mapping[str, Floats]:
        """The scores of some rows, each of one caption."""
        return self._metric.from_sums(block, np.ones(len(block)))

    def __call__(self, name: str) -> Floats:
        if not self._scores:  # all at once: a caption without a score may get the mean of all others
            self._scores = self.compute(self._rows.array)
        return self._scores[name]
