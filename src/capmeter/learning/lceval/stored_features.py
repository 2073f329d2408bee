"""Features of captions, computed once and kept in a folder.

What each metric measured is kept under the hash of the captions and the metric's signature: when a parser or a word
vector file changes, only the metrics that use it run again.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capmeter.atomic import atomic_file
from capmeter.captions.model import CaptionSet
from capmeter.metrics.base import Context, Floats, Measurement, Metric
from capmeter.metrics.evaluation import Evaluation
from capmeter.metrics.lceval.features import Features
from capmeter.settings import Settings

_BLOCK = 8192


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Captions in blocks that share no analyses, so that the parses of a large corpus are not all kept in memory."""

    captions: CaptionSet

    def __iter__(self) -> Iterator[CaptionSet]:
        for start in range(0, len(self.captions), _BLOCK):
            rows = range(start, min(start + _BLOCK, len(self.captions)))
            yield CaptionSet.from_captions(self.captions[self.captions.ids[row]] for row in rows)


def feature_matrix(
    captions: CaptionSet,
    features: Features,
    folder: Path | None = None,
    *,
    settings: Settings | None = None,
    workers: int = 1,
) -> Floats:
    """float64[captions, features.names]: from the folder where they are known, else computed and kept there."""
    metrics = tuple(dict.fromkeys(features.metrics().values()))
    rows = measured_rows(captions, metrics, folder, settings=settings, workers=workers)
    context = Context(
        measured={metric: Measurement(values) for metric, values in rows.items()},
        scores={metric: metric.finish(values, np.ones(len(values))) for metric, values in rows.items()},
    )
    return features.matrix(captions, context)


def measured_rows(
    captions: CaptionSet,
    metrics: Sequence[Metric],
    folder: Path | None = None,
    *,
    settings: Settings | None = None,
    workers: int = 1,
) -> dict[Metric, Floats]:
    """The rows that these metrics measure, kept in the folder."""
    blocks = _Blocks(captions)
    evaluation = Evaluation(tuple(metrics), settings or Settings()).collected(blocks, workers)
    digest = captions_digest(captions)
    places = {metric: _place(folder, metric, evaluation.signature(metric), digest) for metric in metrics}
    found = {metric: _read(place) for metric, place in places.items()}
    missing = tuple(metric for metric, values in found.items() if values is None)
    if missing:
        alone = Evaluation(missing, evaluation.settings, evaluation.states)
        results = alone.run(blocks, workers)
        for metric in missing:
            values = results[metric].values
            assert values is not None  # a run keeps its rows
            found[metric] = values
            _write(places[metric], values)
    return {metric: values for metric, values in found.items() if values is not None}


def captions_digest(captions: CaptionSet) -> str:
    """A hash of candidates and references, in order."""
    digest = hashlib.sha256()
    for each in captions:
        digest.update(json.dumps([each.candidate, *each.references]).encode("ascii"))
    return digest.hexdigest()


def _place(folder: Path | None, metric: Metric, signature: str, digest: str) -> Path | None:
    key = hashlib.sha256(f"{signature}\n{digest}".encode()).hexdigest()
    return None if folder is None else folder / f"{metric.name}-{key[:24]}.npy"


def _read(place: Path | None) -> Floats | None:
    if place is None or not place.is_file():
        return None
    try:
        values: Floats = np.load(place, allow_pickle=False)
    except (ValueError, OSError, EOFError):  # damaged: computed again
        return None
    return values


def _write(place: Path | None, values: Floats) -> None:
    if place is None:
        return
    content = io.BytesIO()
    np.save(content, values, allow_pickle=False)
    place.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(place) as file:
        file.write(content.getvalue())
