"""Features of captions, computed once and kept in a folder.

What a metric measured of a caption is kept under the hash of candidate and references, in a file for the metric's
signature: when a parser or word vectors change, only the metrics that use them run again. Metrics that depend on the
whole corpus (CIDEr-D) run each time. Blocks are written as they are done, so that an interrupted computation goes on.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from capmeter.atomic import atomic_file
from capmeter.captions.model import Caption, CaptionSet
from capmeter.metrics.base import Context, Floats, Measurement, Metric
from capmeter.metrics.evaluation import Evaluation
from capmeter.metrics.lceval.features import Features
from capmeter.progress import task
from capmeter.settings import Settings

_BLOCK = 4096
_DIGEST = 16

Kept = dict[bytes, Floats]


def feature_matrix(
    captions: CaptionSet, features: Features, folder: Path | None = None, *, settings: Settings | None = None
) -> Floats:
    """float64[captions, features.names]: from the folder where they are known, else computed and kept there."""
    metrics = tuple(dict.fromkeys(features.metrics().values()))
    rows = measured_rows(captions, metrics, folder, settings=settings)
    context = Context(
        measured={metric: Measurement(values) for metric, values in rows.items()},
        scores={metric: metric.finish(values, np.ones(len(values))) for metric, values in rows.items()},
    )
    return features.matrix(captions, context)


def measured_rows(
    captions: CaptionSet, metrics: Sequence[Metric], folder: Path | None = None, *, settings: Settings | None = None
) -> dict[Metric, Floats]:
    """The rows that these metrics measure, [captions, columns] each."""
    evaluation = Evaluation(tuple(metrics), settings or Settings()).collected(captions)
    whole = [metric for metric in metrics if metric.corpus() is not None]
    places = {
        metric: None if folder is None else _place(folder, metric, evaluation.signature(metric))
        for metric in metrics
        if metric not in whole
    }
    kept = {metric: {} if place is None else _read(place) for metric, place in places.items()}
    names = [_digest(each) for each in captions]
    of_whole = Evaluation(tuple(whole), evaluation.settings, evaluation.states)
    rows: dict[Metric, list[Floats]] = {metric: [] for metric in metrics}
    with task("features", total=len(captions)) as advance:
        for start in range(0, len(captions), _BLOCK):
            block = range(start, min(start + _BLOCK, len(captions)))
            # sets of their own: the parses of a large corpus would not all stay in memory
            part = CaptionSet.from_captions(captions[captions.ids[row]] for row in block)
            for metric, known in kept.items():
                if _extend(known, metric, evaluation, part, names[block.start : block.stop]):
                    _write(places[metric], known)
                rows[metric].append(np.stack([known[names[row]] for row in block]))
            for metric, measured in of_whole.measure(part).items():
                if metric in rows:
                    rows[metric].append(measured.values)
            advance(len(block))
    return {metric: np.concatenate(parts) for metric, parts in rows.items()}


def _extend(known: Kept, metric: Metric, evaluation: Evaluation, part: CaptionSet, names: Sequence[bytes]) -> bool:
    """Measures the captions that are not known yet; whether there were any."""
    missing = list({name: row for row, name in enumerate(names) if name not in known}.values())
    if not missing:
        return False
    alone = Evaluation((metric,), evaluation.settings)
    for chunk in part.select(missing).chunks(metric.ROWS):
        values = alone.measure(chunk)[metric].values
        known.update((_digest(each), row) for each, row in zip(chunk, values, strict=True))
    return True


def _digest(caption: Caption) -> bytes:
    text = json.dumps([caption.candidate, *caption.references])
    return hashlib.blake2b(text.encode("ascii"), digest_size=_DIGEST).digest()


def _place(folder: Path, metric: Metric, signature: str) -> Path:
    return folder / f"{metric.name}-{hashlib.sha256(signature.encode()).hexdigest()[:24]}.npz"


def _read(place: Path) -> Kept:
    try:
        with np.load(place, allow_pickle=False) as saved:
            return {name.tobytes(): row for name, row in zip(saved["names"], saved["rows"], strict=True)}
    except (ValueError, OSError, EOFError, KeyError, BadZipFile):  # absent or damaged: computed again
        return {}


def _write(place: Path | None, known: Kept) -> None:
    if place is None:
        return
    known = {**_read(place), **known}  # another process may have added some
    content = io.BytesIO()
    names = np.frombuffer(b"".join(known), np.uint8).reshape(-1, _DIGEST)
    np.savez(content, names=names, rows=np.stack(list(known.values())))
    place.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(place) as file:
        file.write(content.getvalue())
