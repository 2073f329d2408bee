"""Captions in many files, scored file by file: what an engine (`capmeter.integrations.ray`) schedules.

A *shard* is a file of captions and the Parquet file with its scores. Beside each file of scores lies a *record*
(`NAME.json`): the checksums of both files, the plan it was scored by, the sums of every metric's rows, and how many
captions have which note. A shard is finished if its record agrees with the plan and with both files; everything else
is done again. Files are renamed into place when they are whole, so that nothing is lost and nothing counts twice.

The file of scores has the columns `id`, `image_id`, a score per metric, and the rows that the scores are made of
(`METRIC/COLUMN`): corpus scores are computed from their sums, and intervals from their sums by image.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

from capmeter._version import __version__
from capmeter.captions.files import atomic_writer, write_atomic
from capmeter.captions.joining import OnMissing
from capmeter.captions.streaming import CaptionStream, stream
from capmeter.errors import InputError
from capmeter.metrics.base import Floats, Metric
from capmeter.metrics.evaluation import Evaluation, States
from capmeter.metrics.needs import check_needs, needed
from capmeter.metrics.scores import Results
from capmeter.stats.bootstrap import percentile, resample_blocks

FORMAT = 1
SUMMARY = "corpus.json"
"""The file with the scores of all shards together."""
MOST_AT_ONCE = 10_000_000
"""Captions from which there are no intervals: a thousand resamples of them take hours, and a gigabyte per metric."""
_FIRST = 5


@dataclass(frozen=True)
class Shard:
    """A file of captions, and the file that gets its scores; `references`: their file, where it is a separate one."""

    source: str
    target: str
    references: str | None = None

    @property
    def record(self) -> Path:
        """The file that says what the scores were made of."""
        return Path(self.target).with_suffix(".json")


@dataclass(frozen=True)
class Record:
    """What is known of a finished shard.

    `input` and `output` are SHA-256 of both files, `sums` each metric's rows summed, `notes` for each reason the number
    of captions and the first ids.
    """

    plan: str
    input: str
    output: str
    captions: int
    sums: dict[str, list[float]]
    signatures: dict[str, str]
    notes: dict[str, tuple[int, list[str]]]
    format: int = FORMAT


@dataclass(frozen=True)
class Corpus:
    """The scores of all shards together.

    `scores`, `parts` and `signatures` by metric; `intervals` where they were asked for; `notes`: reason → the number of
    captions and the first ids; `redone`: the shards that had scores which could not be used, and why; `found`: how many
    were finished before.
    """

    captions: int
    shards: int
    scores: dict[str, float]
    parts: dict[str, dict[str, float]]
    intervals: dict[str, tuple[float, float]]
    signatures: dict[str, str]
    notes: dict[str, tuple[int, list[str]]]
    redone: dict[str, str]
    found: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The layout of `corpus.json`."""
        return {"capmeter": __version__, **asdict(self)}


def shards_of(pattern: str, output: str | os.PathLike[str], references: str | None = None) -> list[Shard]:
    """The shards of the files that match a pattern such as `captions/*.parquet`, in the order of their names.

    Raises:
        InputError: no file matches, or two would get one name in `output`.
    """
    found = glob(pattern, recursive=True)  # noqa: PTH207 (Path.glob takes no absolute pattern)
    sources = sorted(each for each in found if Path(each).is_file())
    if not sources:
        raise InputError(f"no file matches {pattern}; expected a pattern such as 'captions/*.parquet', in quotes")
    names: dict[str, str] = {}
    for source in sources:
        name = Path(source).name.split(".")[0]
        if name in names or f"{name}.json" == SUMMARY:
            other = names.get(name, SUMMARY)
            raise InputError(f"{source} and {other} would both get the name {name}; rename one of them")
        names[name] = source
    folder = Path(output).absolute()
    return [
        Shard(str(Path(source).absolute()), str(folder / f"{name}.parquet"), references)
        for name, source in names.items()
    ]


def digest_of(path: str | Path) -> str:
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def plan_of(metrics: Sequence[Metric], settings: Any, digests: Sequence[str]) -> str:
    """What the scores of a shard depend on besides its own captions, as one digest.

    Where a metric needs something of all captions (document frequencies), every file is part of it.
    """
    whole = list(digests) if any(_depends(metric) for metric in metrics) else []
    told = [FORMAT, __version__, *map(str, metrics), settings.precision, *whole]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _depends(metric: Metric) -> bool:
    return metric.corpus() is not None or any(map(_depends, metric.requires()))


class Scorer:
    """Collects and scores shards, one after the other: what a worker of an engine does.

    A shard is read once. What was read and tokenised for collecting stays in a temporary file, which scoring reads and
    removes; it is not kept where that would fill the disk (of the temporary folder, `TMPDIR`) above nine tenths, nor
    with a separate file of references, which would be in memory once for each shard.
    """

    def __init__(self) -> None:
        self._read: dict[Shard, CaptionStream] = {}

    def collect(self, evaluation: Evaluation, shard: Shard) -> States:
        """What is pending, of this shard's captions."""
        states: States | None = None
        captions = self._captions(shard, evaluation.order)
        for part in captions:
            for piece in part.chunks(min(metric.ROWS for metric in evaluation.order)):
                found = evaluation.collect(piece)
                states = found if states is None else states + found
        if states is None:
            raise InputError(f"{shard.source} has no captions; leave it out")
        disk = shutil.disk_usage(tempfile.gettempdir())
        if shard.references is None and disk.used < 0.9 * (disk.used + disk.free):
            self._read[shard] = captions
        return states

    def score(self, evaluation: Evaluation, shard: Shard, plan: str, digest: str) -> Record:
        """Scores a shard and writes its file and its record; everything pending must be known."""
        results = evaluation.run(self._captions(shard, evaluation.order))
        write_scores(results, shard.target)
        record = Record(
            plan=plan,
            input=digest,
            output=digest_of(shard.target),
            captions=len(results.ids.names),
            sums=sums_of(results),
            signatures={name: each.signature for name, each in results.items()},
            notes=counted(results),
        )
        write_atomic(shard.record, json.dumps(asdict(record)))
        return record

    def _captions(self, shard: Shard, metrics: Sequence[Metric]) -> CaptionStream:
        """The captions of a shard, in parts: as they were read before, or from its file."""
        if shard in self._read:
            return self._read.pop(shard)
        missing: OnMissing = "error" if needed("references", metrics) else "keep"
        captions = stream(shard.source, shard.references, on_missing=missing)
        check_needs(captions, metrics)
        return captions


def sums_of(results: Results) -> dict[str, list[float]]:
    """Each metric's rows, summed."""
    return {name: _rows(each.values).sum(axis=0).tolist() for name, each in results.items()}


def columns_of(results: Results) -> dict[str, Any]:
    """Ids, scores and rows as columns."""
    columns = results.to_columns()
    for name, each in results.items():
        kinds = each.metric.columns if each.metric is not None else ()
        columns |= {f"{name}/{kind}": _rows(each.values)[:, k] for k, kind in enumerate(kinds)}
    return columns


def write_scores(results: Results, path: str) -> None:
    """The file of scores, whole or not at all."""
    import pyarrow
    from pyarrow import parquet

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic_writer(path) as file:
        parquet.write_table(pyarrow.table(columns_of(results)), file)


def _rows(values: Floats | None) -> Floats:
    if values is None:
        raise InputError("these results were read from a file without the rows of captions; score the captions again")
    return values


def counted(results: Results) -> dict[str, tuple[int, list[str]]]:
    """For each note how many captions have it, and the first of them."""
    notes: dict[str, tuple[int, list[str]]] = {}
    for reason, ids in [*results.notes.items(), *(note for each in results.values() for note in each.notes.items())]:
        if ids:
            notes[reason] = len(ids), list(ids[:_FIRST])
    return notes


def finished(shard: Shard, plan: str, digest: str) -> Record | str:
    """The record of a finished shard, or why it must be scored: "" if it was not, else what is wrong."""
    if not shard.record.exists():
        return ""
    try:
        saved = json.loads(shard.record.read_text(encoding="utf-8"))
        record = Record(**{**saved, "notes": {reason: (n, ids) for reason, (n, ids) in saved["notes"].items()}})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        return f"its record cannot be read ({problem})"
    if record.format != FORMAT or record.plan != plan:
        return "it was scored with other metrics, settings or captions"
    if record.input != digest:
        return "its captions have changed"
    try:
        whole = digest_of(shard.target) == record.output
    except OSError as problem:
        return f"its scores cannot be read ({problem.strerror})"
    return record if whole else "its file of scores is damaged"


def merged(
    metrics: Sequence[Metric],
    records: Iterable[Record],
    *,
    whole: tuple[Mapping[str, list[float]], Mapping[str, tuple[float, float]]] | None = None,
    redone: Mapping[str, str] | None = None,
    found: int = 0,
) -> Corpus:
    """The corpus scores from what is known of the `whole`, else from the shards' sums (the same up to rounding)."""
    sums: dict[str, Floats] = {}
    notes: dict[str, tuple[int, list[str]]] = {}
    signatures: dict[str, str] = {}
    captions = shards = 0
    for record in records:
        captions, shards, signatures = captions + record.captions, shards + 1, record.signatures
        for name, values in record.sums.items():
            sums[name] = sums[name] + np.array(values) if name in sums else np.array(values)
        for reason, (number, ids) in record.notes.items():
            total, first = notes.get(reason, (0, []))
            notes[reason] = total + number, [*first, *ids][:_FIRST]
    scores, parts = {}, {}
    for metric in metrics:
        summed = sums[str(metric)] if whole is None else np.array(whole[0][str(metric)])
        finished = metric.finish(summed, np.float64(captions))
        scores[str(metric)] = float(finished["score"])
        parts[str(metric)] = {part: float(value) for part, value in finished.items() if part != "score"}
    bounds = {} if whole is None else dict(whole[1])
    return Corpus(captions, shards, scores, parts, bounds, signatures, notes, dict(redone or {}), found)


def whole_of(
    metrics: Sequence[Metric], tables: Iterable[Any], *, resamples: int, seed: int
) -> tuple[dict[str, list[float]], dict[str, tuple[float, float]]]:
    """Each metric's rows summed, and its corpus score's 95% interval, from all tables of scores together.

    They are those of one process to the last bit: the same numbers are added in the same order. With `resamples` 0
    there are no intervals. Images are resampled with all their captions.
    """
    place: dict[str, int] = {}
    codes: list[Any] = []
    blocks: dict[Metric, list[Floats]] = {metric: [] for metric in metrics}
    for table in tables:
        images = table["image_id"].to_pylist()
        codes.append(np.fromiter((place.setdefault(image, len(place)) for image in images), np.int64, len(images)))
        for metric, found in blocks.items():
            found.append(np.column_stack([table[f"{metric}/{kind}"].to_numpy() for kind in metric.columns]))
    values = {metric: np.concatenate(found) for metric, found in blocks.items()}
    sums = {str(metric): rows.sum(axis=0).tolist() for metric, rows in values.items()}
    if not resamples:
        return sums, {}
    image, number = np.concatenate(codes), len(place)
    counts = np.bincount(image, minlength=number).astype(np.float64)
    by_image = {
        metric: np.stack([np.bincount(image, column, minlength=number) for column in rows.T], axis=1)
        for metric, rows in values.items()
    }
    drawn: dict[Metric, list[Floats]] = {metric: [] for metric in metrics}
    for block in resample_blocks(number, resamples, seed):
        weights = block.astype(np.float64)
        for metric, rows in by_image.items():
            drawn[metric].append(metric.finish(weights @ rows, weights @ counts)["score"])
    return sums, {str(metric): percentile(np.concatenate(found)) for metric, found in drawn.items()}


def tables_of(shards: Iterable[Shard], metrics: Sequence[Metric]) -> Iterator[Any]:
    """The rows in each shard's file of scores."""
    from pyarrow import parquet

    columns = ["image_id", *(f"{metric}/{kind}" for metric in metrics for kind in metric.columns)]
    for shard in shards:
        yield parquet.read_table(shard.target, columns=columns)
