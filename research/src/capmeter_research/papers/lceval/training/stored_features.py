"""Features of captions, computed once and stored in a folder.

The rows of a metric are stored by the hash of candidate and references, in one file per signature: when a parser or
word vectors change, only the metrics that use them run again. Metrics that depend on the whole corpus (CIDEr-D) run
each time. Blocks are stored as they are computed, so that an interrupted computation is resumed.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.output_files import atomic_file
from capmeter.core.progress import task
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Floats, Measurement, Metric, RunContext
from capmeter.evaluation.runner import Evaluation
from capmeter_research.papers.lceval.features import Features

_BLOCK = 4096
_DIGEST = 16

StoredRows = dict[bytes, Floats]
"""A metric's row (columns) by the digest of a caption and its references."""


def feature_matrix(
    captions: CaptionSet, features: Features, folder: Path | None = None, *, settings: Settings | None = None
) -> Floats:
    """The features, (captions, features), from the folder where they are stored, else computed and stored there.

    Args:
        captions: to measure.
        features: names and order.
        folder: None: nothing is stored.
        settings: where encoders run.
    """
    metrics = tuple(dict.fromkeys(features.metrics().values()))
    rows = measure_rows(captions, metrics, folder, settings=settings)
    context = RunContext(
        measurements={metric: Measurement(values) for metric, values in rows.items()},
        scores={metric: metric.from_sums(values, np.ones(len(values))) for metric, values in rows.items()},
    )
    return features.compute(captions, context)


def measure_rows(
    captions: CaptionSet, metrics: Sequence[Metric], folder: Path | None = None, *, settings: Settings | None = None
) -> dict[Metric, Floats]:
    """The rows that each metric measures, (captions, columns).

    Args:
        captions, folder, settings: as in `feature_matrix`.
        metrics: to measure.
    """
    evaluation = Evaluation(tuple(metrics), settings or Settings()).with_collected_states(captions)
    corpus_metrics = [metric for metric in metrics if metric.corpus_state() is not None]
    row_files = {
        metric: None if folder is None else _rows_file(folder, metric, evaluation.signature(metric))
        for metric in metrics
        if metric not in corpus_metrics
    }
    stored_rows = {metric: {} if row_file is None else _read_rows(row_file) for metric, row_file in row_files.items()}
    digests = [_digest(caption) for caption in captions]
    corpus_evaluation = Evaluation(tuple(corpus_metrics), evaluation.settings, evaluation.states)
    rows: dict[Metric, list[Floats]] = {metric: [] for metric in metrics}
    with task("features", total=len(captions)) as advance:
        for block_start in range(0, len(captions), _BLOCK):
            block_rows = range(block_start, min(block_start + _BLOCK, len(captions)))
            # caption sets per block: the parses of a large corpus would not all fit in memory
            block_captions = CaptionSet.from_captions(captions[captions.ids[row]] for row in block_rows)
            for metric, metric_rows in stored_rows.items():
                if _add_missing_rows(
                    metric_rows, metric, evaluation, block_captions, digests[block_rows.start : block_rows.stop]
                ):
                    _write_rows(row_files[metric], metric_rows)
                rows[metric].append(np.stack([metric_rows[digests[row]] for row in block_rows]))
            for metric, measurement in corpus_evaluation.measure(block_captions).items():
                if metric in rows:
                    rows[metric].append(measurement.values)
            advance(len(block_rows))
    return {metric: np.concatenate(row_parts) for metric, row_parts in rows.items()}


def _add_missing_rows(
    stored_rows: StoredRows,
    metric: Metric,
    evaluation: Evaluation,
    block_captions: CaptionSet,
    digests: Sequence[bytes],
) -> bool:
    """Measures the captions that are not stored yet; whether there were any."""
    missing_rows = list({digest: row for row, digest in enumerate(digests) if digest not in stored_rows}.values())
    if not missing_rows:
        return False
    metric_evaluation = Evaluation((metric,), evaluation.settings)
    for chunk in block_captions.select(missing_rows).chunks(metric.PART_SIZE):
        measured_rows = metric_evaluation.measure(chunk)[metric].values
        stored_rows.update((_digest(caption), row) for caption, row in zip(chunk, measured_rows, strict=True))
    return True


def _digest(caption: Caption) -> bytes:
    text = json.dumps([caption.candidate, *caption.references])
    return hashlib.blake2b(text.encode("ascii"), digest_size=_DIGEST).digest()


def _rows_file(folder: Path, metric: Metric, signature: str) -> Path:
    return folder / f"{metric.name}-{hashlib.sha256(signature.encode()).hexdigest()[:24]}.npz"


def _read_rows(path: Path) -> StoredRows:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {
                digest.tobytes(): feature_row
                for digest, feature_row in zip(arrays["names"], arrays["rows"], strict=True)
            }
    except (ValueError, OSError, EOFError, KeyError, BadZipFile):  # absent or damaged: computed again
        return {}


def _write_rows(path: Path | None, stored_rows: StoredRows) -> None:
    if path is None:
        return
    stored_rows = {**_read_rows(path), **stored_rows}  # another process may have added some
    content = io.BytesIO()
    digest_bytes = np.frombuffer(b"".join(stored_rows), np.uint8).reshape(-1, _DIGEST)
    np.savez(content, names=digest_bytes, rows=np.stack(list(stored_rows.values())))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        file.write(content.getvalue())
