"""Captions in many files (shards), scored file by file, in this process or by an engine (`capmeter.integrations.ray`).

Every file of captions gets a Parquet file of scores and a record (`NAME.json`) with the checksums of both and a digest
of the plan. A shard is finished if its record agrees with the plan and both files; every other one is scored again.
Files are renamed into place once complete, so nothing is lost or counted twice.

A file of scores has the columns `id`, `image_id`, one score per metric, and the rows that the scores are computed from
(`METRIC/COLUMN`); where columns are carried through or captions skipped, it has every row of its file, those without a
score with nulls.
"""

from __future__ import annotations

import functools
import hashlib
import json
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from capmeter._version import __version__
from capmeter.captions.load_options import LoadOptions, OnMissing
from capmeter.captions.source_rows import SourceRows
from capmeter.captions.streaming.stream import CaptionStream, stream
from capmeter.core.assets import sha256
from capmeter.core.errors import InputError
from capmeter.core.output_files import atomic_writer, write_atomic
from capmeter.core.progress import task
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.compact import PackedRows, PackedTexts
from capmeter.evaluation.requirements import check_needs, is_needed, with_required
from capmeter.evaluation.results import Ids, Results, Scores
from capmeter.evaluation.runner import Evaluation
from capmeter.integrations.shard_records import FORMAT, NOTED_IDS, Record, find_unused_references, merge_notes
from capmeter.report.per_caption import arrow_table, beside_source

SUMMARY = "corpus.json"
"""The file with the scores of all shards together."""
MAX_TRIES = 20
"""Workers that may be lost at one shard."""
MAX_RESAMPLED = 10_000_000
"""Captions from which there are no intervals: a thousand resamples of them take hours, and a gigabyte per metric."""


@dataclass(frozen=True)
class Shard:
    """A file of captions, the file that gets its scores, how it is read, and its columns that are carried through."""

    source: str
    target: str
    options: LoadOptions = LoadOptions()
    keep: tuple[str, ...] = ()

    @property
    def record(self) -> Path:
        """The file that says what the scores were computed from."""
        return Path(self.target).with_suffix(".json")

    def read(self, metrics: Sequence[Metric]) -> CaptionStream:
        """The captions, in parts; an `InputError` if they lack what a metric needs, or there are none."""
        on_missing: OnMissing = self.options.on_missing if is_needed("references", metrics) else "keep"
        captions = stream(self.source, options=replace(self.options, on_missing=on_missing))
        check_needs(captions, metrics)
        if not len(captions):
            raise InputError(f"{self.source} has no captions; leave it out")
        return captions


Job = tuple[Shard, str, str]
"""A shard, the digest of the plan, and the digest of its captions."""


@dataclass(frozen=True)
class ShardedCaptions:
    """The scores of all captions together.

    `scores`, `parts`, `signatures` and, unless left out, `intervals` by metric; `notes`: reason → number of captions
    and their first ids; `rescored`: the shards whose scores could not be used, and why; `resumed`: the number of shards
    that were finished before.
    """

    captions: int
    scores: dict[str, float]
    parts: dict[str, dict[str, float]]
    signatures: dict[str, str]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    shards: int = 0
    notes: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    rescored: dict[str, str] = field(default_factory=dict)
    resumed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The layout of `corpus.json`."""
        return {"capmeter": __version__, **asdict(self)}


def find_shards(
    pattern: str,
    output: str | os.PathLike[str],
    options: LoadOptions | None = None,
    keep: Sequence[str] = (),
) -> list[Shard]:
    """The shards of the files that match a pattern such as `captions/*.parquet`, by name; `output` is created.

    Raises:
        InputError: no file matches, two would get one name in `output`, or a file of `output` is one that is read.
    """
    matching_paths = glob(pattern, recursive=True)  # noqa: PTH207 (Path.glob takes no absolute pattern)
    sources_by_name: dict[str, str] = {Path(SUMMARY).stem: SUMMARY}
    for source in sorted(matching_path for matching_path in matching_paths if Path(matching_path).is_file()):
        name = Path(source).name.split(".")[0]
        if name in sources_by_name:
            raise InputError(f"{source} and {sources_by_name[name]} would both get the name {name}; rename one of them")
        sources_by_name[name] = source
    if len(sources_by_name) == 1:
        raise InputError(f"no file matches {pattern}; expected a pattern such as 'captions/*.parquet', in quotes")
    folder = Path(output).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    named = list(sources_by_name.items())[1:]
    options = options or LoadOptions()
    if options.reference_files:  # workers may start in another folder
        options = replace(options, references=[Path(each).absolute() for each in options.reference_files])
    found = [
        Shard(str(Path(path).absolute()), str(folder / f"{name}.parquet"), options, tuple(keep)) for name, path in named
    ]
    stats = {path: path.stat() for path in map(Path, [*(shard.source for shard in found), *options.reference_files])}
    read_files = {(file_status.st_dev, file_status.st_ino): path for path, file_status in stats.items()}
    for target in [folder / SUMMARY, *chain.from_iterable((Path(shard.target), shard.record) for shard in found)]:
        if target.exists() and (path := read_files.get((target.stat().st_dev, target.stat().st_ino))) is not None:
            raise InputError(f"the scores in {target} would replace {path}, which is read; name another folder")
    return found


def plan_digest(
    metrics: Sequence[Metric],
    settings: Settings,
    digests: Sequence[str],
    options: LoadOptions | None = None,
    keep: Sequence[str] = (),
) -> str:
    """A digest of what the scores of a shard depend on besides its own captions.

    That includes the digests of all files if a metric depends on the corpus (document frequencies), and the signatures
    of all others: with the hashes of files that they name, which may be edited.
    """
    evaluation, ordered_metrics = Evaluation(tuple(metrics), settings), with_required(metrics)
    of_corpus = {each for each in ordered_metrics if any(map(_reads_corpus, with_required([each])))}
    plan_parts = [FORMAT, __version__, *map(str, metrics), settings.precision, *(digests if of_corpus else [])]
    plan_parts += [evaluation.signature(each) for each in ordered_metrics if each not in of_corpus]
    if options is not None and options != LoadOptions():
        plan_parts += [sha256(Path(reference_file)) for reference_file in options.reference_files]
        plan_parts.append(repr(replace(options, references=None)))
    if keep:
        plan_parts.append(f"keep {list(keep)}")
    return hashlib.sha256(json.dumps(plan_parts).encode()).hexdigest()


def _reads_corpus(metric: Metric) -> bool:
    corpus_state = metric.corpus_state()
    return corpus_state is not None and corpus_state.AFFECTS_SCORES


def score_shard(evaluation: Evaluation, shard: Shard, plan: str, digest: str, workers: int = 1) -> Record:
    """Scores a shard and writes its file of scores and its record; nothing may be pending in the evaluation."""
    from pyarrow import parquet

    is_beside_source = shard.keep or shard.options.on_missing == "skip"
    source_rows = SourceRows(shard.source, shard.options, keep=shard.keep) if is_beside_source else None
    results = evaluation.run(shard.read(evaluation.ordered_metrics), workers, is_whole=False)
    make_columns = functools.partial(score_columns, results)
    score_blocks = [make_columns()] if source_rows is None else beside_source(results, source_rows, make_columns)
    with atomic_writer(shard.target) as file, ExitStack() as open_files:
        parquet_writer: Any = None
        for score_table in map(arrow_table, score_blocks):
            parquet_writer = parquet_writer or open_files.enter_context(parquet.ParquetWriter(file, score_table.schema))
            parquet_writer.write_table(score_table)
    signatures = {metric_name: metric_scores.signature for metric_name, metric_scores in results.items()}
    noted_reasons = chain(results.notes.items(), *(metric_scores.notes.items() for metric_scores in results.values()))
    notes = {reason: (len(noted_ids), list(noted_ids[:NOTED_IDS])) for reason, noted_ids in noted_reasons if noted_ids}
    image_count = len(set(results.ids.images))
    record = Record(plan, digest, sha256(Path(shard.target)), len(results.ids.names), signatures, notes, image_count)
    try:
        for metric_scores in results.values():
            if metric_scores.metric is not None and metric_scores.rows is not None:
                metric_scores.metric.check_sums(metric_scores.rows.sums(), len(metric_scores.rows), {})
    except InputError:  # no caption of this shard has a score: the next run asks again
        shard.record.unlink(missing_ok=True)
    else:
        write_atomic(shard.record, json.dumps(asdict(record)))
    return record


def score_shards(
    pattern: str,
    metrics: Sequence[Metric],
    output: str | os.PathLike[str],
    *,
    options: LoadOptions | None = None,
    keep: Sequence[str] = (),
    workers: int = 1,
    intervals: bool = True,
    resamples: int = 1000,
    seed: int = 0,
    settings: Settings | None = None,
) -> ShardedCaptions:
    """Scores files of captions one after the other; a run that was ended goes on with the shards that are missing.

    Args:
        pattern: the files, such as `captions/*.jsonl`.
        metrics: the metrics.
        output: the folder of the scores, of their records, and of `corpus.json`.
        options: how the captions are read.
        keep: columns of the files of captions that the files of scores have, too.
        workers: number of processes that share each file.
        intervals: whether corpus scores get 95% intervals, from `resamples` and `seed`.
        settings: device, precision, cache of neural metrics.

    Raises:
        InputError: no file matches, captions lack references, or a file cannot be read.
    """
    from pyarrow import parquet

    files = find_shards(pattern, output, options, keep)
    evaluation = Evaluation(tuple(metrics), settings or Settings())
    source_digests = [sha256(Path(shard.source)) for shard in files]
    plan = plan_digest(metrics, evaluation.settings, source_digests, files[0].options, keep)
    records = [check_record(shard, plan, digest) for shard, digest in zip(files, source_digests, strict=True)]
    missing_indices = [k for k, record in enumerate(records) if isinstance(record, str)]
    rescored = {files[k].target: str(records[k]) for k in missing_indices}
    while missing_indices and evaluation.pending_states:
        states = [evaluation.collect_all(shard.read(evaluation.ordered_metrics), workers) for shard in files]
        evaluation = evaluation.with_states(functools.reduce(operator.add, states))
    with task("scoring shards", total=len(missing_indices)) as advance:
        for k in missing_indices:
            records[k] = score_shard(evaluation, files[k], plan, source_digests[k], workers)
            advance(1)
    finished_records = [record for record in records if isinstance(record, Record)]
    exact = sum(record.captions for record in finished_records) < MAX_RESAMPLED
    score_tables = (parquet.read_table(shard.target) for shard in files)
    how = resamples if intervals else 0, seed, exact, merge_notes(finished_records)
    corpus_scores = combine_results(evaluation.metrics, score_tables, common_signatures(files, finished_records), *how)
    return write_summary(corpus_scores, output, files, finished_records, rescored)


def write_summary(
    corpus: ShardedCaptions,
    output: str | os.PathLike[str],
    files: Sequence[Shard],
    records: Sequence[Record],
    rescored: Mapping[str, str],
) -> ShardedCaptions:
    """Adds what is known of the shards to the scores of all captions, and writes them into the folder.

    Args:
        corpus: the scores.
        output: the folder.
        files, records: the shards.
        rescored: of the shards that were scored now, why ("" if they had not been scored).
    """
    corpus = replace(
        corpus,
        shards=len(records),
        notes=merge_notes(records) | find_unused_references([shard.target for shard in files], records),
        rescored={target: reason for target, reason in rescored.items() if reason},
        resumed=len(records) - len(rescored),
    )
    write_atomic(Path(output) / SUMMARY, json.dumps(corpus.to_dict(), indent=1))
    return corpus


@contextmanager
def counted_try(shard: Shard) -> Iterator[None]:
    """Counts the tries of a shard in a file; an `InputError` where workers were lost at it again and again."""
    tries_path = shard.record.with_suffix(".tries")
    with tries_path.open("ab") as tries_file:
        tries_file.write(b".")
        if tries_file.tell() > MAX_TRIES:
            raise InputError(f"{MAX_TRIES} workers were lost at {shard.source}; is there enough memory?")
    yield
    tries_path.unlink(missing_ok=True)


def check_record(shard: Shard, plan: str, digest: str) -> Record | str:
    """The record of a finished shard; else why the shard must be scored: "" if it was not, or what is wrong."""
    shard.record.with_suffix(".tries").unlink(missing_ok=True)
    if not shard.record.exists():
        return ""
    try:
        record = Record(**json.loads(shard.record.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as problem:
        return f"its record cannot be read ({problem})"
    if record.format != FORMAT or record.plan != plan:
        return "it was scored with other metrics, settings or captions"
    if record.input != digest:
        return "its captions have changed"
    try:
        return record if sha256(Path(shard.target)) == record.output else "its file of scores is damaged"
    except OSError as problem:
        return f"its scores cannot be read ({problem.strerror})"


def common_signatures(files: Sequence[Shard], records: Sequence[Record]) -> dict[str, str]:
    """The signatures of all shards, by metric.

    Raises:
        InputError: they differ, so that the scores have no common corpus score.
    """
    for shard, record in zip(files, records, strict=True):
        for metric_name, signature in records[0].signatures.items():
            if record.signatures.get(metric_name) != signature:
                other = record.signatures.get(metric_name)
                raise InputError(
                    f"{shard.target} was scored as {other}, but {files[0].target} as {signature}; remove the scores of "
                    "one of them and run again"
                )
    return records[0].signatures


def score_columns(results: Results, rows: slice = slice(None)) -> dict[str, Any]:
    """Ids, scores and rows of these captions as columns of a file of scores."""
    columns = results.to_columns(rows=rows)
    for name, scores in results.items():
        if scores.metric is not None and scores.values is not None:
            columns |= {f"{name}/{column}": scores.values[rows, k] for k, column in enumerate(scores.metric.columns)}
    return columns


def combine_results(
    metrics: Sequence[Metric],
    tables: Iterable[Any],
    signatures: Mapping[str, str],
    resamples: int,
    seed: int,
    exact: bool = True,
    notes: Mapping[str, tuple[int, list[str]]] | None = None,
) -> ShardedCaptions:
    """The scores of all captions, from Arrow tables with the columns of `score_columns`, read one after the other.

    They are those of one process to the last bit. With `exact` false only sums are held, in little memory, which give
    the same up to rounding, without intervals. `resamples`: of the images, for intervals; 0: none. `notes`: as of
    `merge_notes`.

    Raises:
        InputError: no caption has a score.
    """
    caption_ids, image_ids, caption_count = PackedTexts(), PackedTexts(), 0
    rows = {metric: PackedRows() for metric in metrics}
    for table in tables:
        if metrics:
            table = table.filter(table[f"{metrics[0]}/{metrics[0].columns[0]}"].is_valid())  # the scored rows
        caption_count += table.num_rows
        for metric, packed in rows.items():
            column_block = np.column_stack([table[f"{metric}/{column}"].to_numpy() for column in metric.columns])
            packed.add(column_block if exact else column_block.sum(axis=0, keepdims=True))
        if exact:
            caption_ids.add(table["id"].to_pylist())
            image_ids.add(table["image_id"].to_pylist())
    for metric, packed in rows.items():
        metric.check_sums(packed.sums(), caption_count, {reason: count for reason, (count, _) in (notes or {}).items()})
    ids = Ids(caption_ids, image_ids)
    corpus = {str(metric): metric.from_sums(rows[metric].sums(), np.float64(caption_count)) for metric in metrics}
    results = Results([Scores.from_rows(m, ids, rows[m], {}, "") for m in metrics if exact and resamples], ids)
    return ShardedCaptions(
        captions=caption_count,
        scores={name: float(parts["score"]) for name, parts in corpus.items()},
        parts={name: {part: float(parts[part]) for part in parts if part != "score"} for name, parts in corpus.items()},
        signatures=dict(signatures),
        intervals=results.intervals(resamples=resamples, seed=seed) if results else {},
    )
