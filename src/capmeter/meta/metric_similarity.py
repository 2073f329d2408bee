"""Similarity of images by a metric: each image's caption against the references of every other image."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import Floats
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.registry import parse

_PAIRS = 4_000_000  # a metric is asked at most as many times: 2,000 images


def scores_between(captions: CaptionSet, rows: npt.NDArray[np.intp], name: str) -> Floats:
    """The metric's score of each of these rows' candidates against each one's references: float64[references, rows]."""
    metric = parse(name)
    if len(rows) ** 2 > _PAIRS:
        raise InputError(
            f"the similarity {name} would score {len(rows) ** 2:,} pairs of images, which is too many; take at most "
            f"{int(_PAIRS**0.5):,} images, or the similarity tf-idf"
        )
    pairs = evaluate(_Pairs(captions, rows), [metric], corpus=captions)[metric]
    return pairs.items.array.reshape(len(rows), len(rows))


class _Pairs:
    """Every caption of some rows against the references of every other, one image's references a part."""

    def __init__(self, captions: CaptionSet, rows: npt.NDArray[np.intp]) -> None:
        self._captions, self._rows = captions, rows

    def __iter__(self) -> Iterator[CaptionSet]:
        captions, rows = self._captions, self._rows
        for row in rows.tolist():
            yield CaptionSet(
                ids=[f"{row} {other}" for other in rows.tolist()],
                image_ids=[captions.image_ids[row]] * len(rows),
                images=[captions.images[row]] * len(rows),
                pool=captions.pool,
                candidates=captions.candidates[rows],
                references=captions.references.take(np.full(len(rows), row)),
            )
