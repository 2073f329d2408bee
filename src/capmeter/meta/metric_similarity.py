"""Similarity of images by a metric: each image's caption against the references of every other image."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import evaluate

_MAX_PAIRS = 4_000_000  # 2,000 images


def score_image_pairs(captions: CaptionSet, rows: npt.NDArray[np.intp], name: str) -> Floats:
    """The score of each row's candidate against the references of each row: float64[references, candidates]."""
    metric = parse(name)
    if len(rows) ** 2 > _MAX_PAIRS:
        raise InputError(
            f"the similarity {name} would score {len(rows) ** 2:,} pairs of images, which is too many; take at most "
            f"{int(_MAX_PAIRS**0.5):,} images, or the similarity tf-idf"
        )
    scores = evaluate(_ImagePairs(captions, rows), [metric], corpus=captions)[metric]
    return scores.items.array.reshape(len(rows), len(rows))


class _ImagePairs:
    """Every caption of some rows against the references of every other, one image's references a part."""

    def __init__(self, captions: CaptionSet, rows: npt.NDArray[np.intp]) -> None:
        self._captions, self._rows = captions, rows

    def __iter__(self) -> Iterator[CaptionSet]:
        captions, rows = self._captions, self._rows
        for row in rows.tolist():
            yield CaptionSet(
                ids=[f"{row} {candidate_row}" for candidate_row in rows.tolist()],
                image_ids=[captions.image_ids[row]] * len(rows),
                images=[captions.images[row]] * len(rows),
                pool=captions.pool,
                candidates=captions.candidates[rows],
                references=captions.references.take(np.full(len(rows), row)),
            )
