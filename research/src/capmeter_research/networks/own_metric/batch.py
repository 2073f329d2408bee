"""The captions of a training step with their labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from capmeter_research.networks.own_metric.examples import PerturbedCaption, Rows

_CANDIDATE_COST = 3  # of a candidate's piece, in those of a reference's


class BatchRow(NamedTuple):
    """A candidate with its references and labels."""

    candidate: int  # sentence index
    references: Rows  # (references), sentence indices
    target: float = float("nan")  # of a pair with the references of another photo
    perturbation: PerturbedCaption | None = None
    original: int = -1  # row of the unperturbed caption, also of itself; -1 for a pair
    photo: int = -1  # of the candidate or its original; -1 if unknown


class CaptionBatch:
    """The captions of a training step."""

    def __init__(self, rows: Iterable[BatchRow] = ()) -> None:
        self.rows = list(rows)

    @property
    def candidates(self) -> list[int]:
        """The candidates' sentence indices."""
        return [row.candidate for row in self.rows]

    @property
    def references(self) -> list[Rows]:
        """The references' sentence indices, by candidate."""
        return [row.references for row in self.rows]

    @property
    def photos(self) -> list[int]:
        """The photo of each candidate."""
        return [row.photo for row in self.rows]

    def add_with_perturbations(
        self, caption: int, references: Rows, perturbations: Iterable[PerturbedCaption], photo: int = -1
    ) -> None:
        """Adds a caption of a photo, and its perturbations.

        Args:
            caption: index of its sentence.
            references: indices of their sentences.
            perturbations: of the caption.
            photo: number of the photo; -1: unknown.
        """
        original_row = len(self.rows)
        self.rows.append(BatchRow(caption, references, original=original_row, photo=photo))
        for perturbed in perturbations:
            row = BatchRow(perturbed.sentence, references, perturbation=perturbed, original=original_row, photo=photo)
            self.rows.append(row)

    def split_by_length(self, piece_counts: Rows, groups: int) -> Iterator[CaptionBatch]:
        """Groups of rows of similar length, which saves padding.

        A perturbed caption and its original may be in different groups.

        Args:
            piece_counts: (sentences), number of word pieces.
            groups: number of groups.
        """
        row_costs = [
            _CANDIDATE_COST * int(piece_counts[row.candidate]) + int(piece_counts[row.references].sum())
            for row in self.rows
        ]
        for group_rows in np.array_split(np.argsort(row_costs, kind="stable"), groups):
            yield CaptionBatch(self.rows[k] for k in group_rows.tolist())
