"""Many captions: files in parts, and a folder with the scores of each part.

    parts = open_parts("captions/*.parquet")
    states = reduce(add, pool.map(collect, parts))               # document frequencies …, and ids
    pool.map(score, parts), each of which writes its rows        # those that are there are skipped
    sums of all rows → corpus scores, intervals

Every part gets one Parquet file, which is written whole: a row for each of its rows with `id`, `image_id`, `system`,
`row` (its number in the file of captions), a score for each metric, what these are computed from (`METRIC/COLUMN`), and
the columns that are carried through; candidates that are left out have no scores. The file's name ends in a digest of
all that the scores depend on (the captions, their range, references, metrics with their states, options, versions), so
a part whose file is there is finished, and files of other parts are removed. `corpus.json` has the scores of all.

Scores, corpus scores and intervals are bit for bit those of one process that reads all captions at once.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.captions.containers.container import ROWS
from capmeter.captions.load_options import LoadOptions
from capmeter.captions.parts import (
    NUMBER,
    Numbers,
    Part,
    PartCaptions,
    hash_images,
    make_column,
    number_captions,
    open_parts,
    value_kind,
)
from capmeter.captions.rows import CaptionRow
from capmeter.core.assets import sha256
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names
from capmeter.core.output_files import atomic_writer, write_atomic
from capmeter.core.progress import task
from capmeter.core.settings import Settings
from capmeter.evaluation.base import UNUSED, Floats, Metric
from capmeter.evaluation.pools import WorkerPool, make_pool, worker_settings
from capmeter.evaluation.registry import is_needed, parse_list, with_required
from capmeter.evaluation.results import Results
from capmeter.evaluation.runner import CorpusStates, Evaluation
from capmeter.stats.bootstrap import percentile_interval, resample_blocks

SUMMARY = "corpus.json"
"""The file with the scores of all parts together."""
MAX_IMAGES = 2_000_000
"""Images from which there are no intervals: they take a gigabyte, and an hour."""
NOTED_IDS = 5
"""Ids that are kept of each note."""
_METADATA = b"capmeter"
_OF_FILES = ("images_by", "rows_without_image", "headings_read_without_case", "read_as_lines", "matched_by")
Notes = dict[str, tuple[int, list[str]]]


@dataclass(frozen=True)
class SetScores:
    """The scores of all captions of a system: `scores`, `parts`, `signatures` and `intervals` by metric, and `notes`:
    reason → number of captions and the first of their ids."""

    captions: int
    scores: dict[str, float]
    parts: dict[str, dict[str, float]]
    signatures: dict[str, str]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    notes: Notes = field(default_factory=dict)


@dataclass(frozen=True)
class PartScores:
    """The scores of each system ("" where rows name none), the number of parts, and of those that were there before."""

    systems: dict[str, SetScores]
    parts: int
    resumed: int

    def to_dict(self) -> dict[str, Any]:
        """The layout of `corpus.json`."""
        return {"capmeter": __version__, **asdict(self)}


def score_parts(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    metrics: str | Iterable[str | Metric],
    folder: str | os.PathLike[str],
    *,
    options: LoadOptions | None = None,
    rows: int = ROWS,
    keep: Sequence[str] = (),
    workers: int | WorkerPool = 1,
    intervals: bool = True,
    resamples: int = 1000,
    seed: int = 0,
    settings: Settings | None = None,
) -> PartScores:
    """Scores files of captions part by part; a run that was ended goes on with the parts that are missing.

    Args:
        source: a file, a pattern such as `captions/*.parquet`, or a list of files, read as one.
        metrics: names or metrics, in a list or one comma-separated text.
        folder: the folder of the scores; it is created.
        options: how the captions are read.
        rows: the number of captions of a part, of which each process holds one.
        keep: columns of the captions' files that the files of scores have, too.
        workers: the number of processes, or a pool (`capmeter.integrations.ray.RayPool`).
        intervals: whether corpus scores get 95% intervals.
        resamples: of the intervals.
        seed: of the intervals.
        settings: device, precision, threads, cache: as of `score`.

    Raises:
        InputError: no file matches, captions lack references, a file cannot be read, or two captions have one id.
    """
    parsed, pool = parse_list(metrics), make_pool(workers)
    options = options or LoadOptions()
    if not is_needed("references", parsed):
        options = replace(options, on_missing="keep" if options.on_missing == "error" else options.on_missing)
    parts = open_parts(source, options=options, rows=rows, keep=keep)
    evaluation = Evaluation(tuple(parsed), worker_settings(settings or Settings(), pool))
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    files = _name_files(parts, evaluation, folder)
    _refuse_inputs(parts, folder / SUMMARY)
    if options.references is not None and any(metric.counts_absent for metric in parsed):
        raise InputError(
            "as_released=true counts videos without results 0, which needs all captions: score without parts"
        )
    missing = [k for k, file in enumerate(files) if not _is_finished(file)]
    if missing:
        work, numbered = _collect(parts, evaluation, pool)
        jobs = [(numbered[k], files[k]) for k in missing]
        with task("scoring parts", total=len(jobs)) as advance:
            for _ in pool.map(functools.partial(_write_part, work), jobs):
                advance(1)
    _remove_others(folder, files, parts)
    systems = combine(files, parsed, resamples=resamples if intervals else 0, seed=seed)
    if parts[0].options.references is not None:
        systems = {name: _note_unused(name, scores, files, parts[0]) for name, scores in systems.items()}
    scores = PartScores(systems, len(parts), len(parts) - len(missing))
    summary = {name: value for name, value in scores.to_dict().items() if name != "resumed"}  # the same in every run
    write_atomic(folder / SUMMARY, json.dumps(summary, indent=1))
    return scores


@dataclass(frozen=True, eq=False)
class _Work:
    """What scoring a part needs of all parts.

    evaluation: of a system without corpus states.
    systems: the evaluation of each system, with its states.
    kinds: of each carried column the types of its values.
    """

    evaluation: Evaluation
    systems: Mapping[str, Evaluation] = field(default_factory=dict)
    kinds: Mapping[str, frozenset[type]] = field(default_factory=dict)

    def of_system(self, system: str) -> Evaluation:
        """The evaluation with this system's states."""
        return self.systems.get(system, self.evaluation)


def _collect(parts: Sequence[Part], evaluation: Evaluation, pool: WorkerPool) -> tuple[_Work, Sequence[Part]]:
    """What requires all parts, and the parts with the numbers of their rows without ids."""
    work, is_first = _Work(evaluation), True
    needs_rows = (len(parts) > 1 and not all(part.has_ids for part in parts)) or bool(parts[0].keep)
    while (is_first and needs_rows) or any(each.pending_states for each in work.systems.values() or [evaluation]):
        states: dict[str, CorpusStates] = {}
        kinds: dict[str, frozenset[type]] = {}
        images: list[Numbers] = []
        with task("collecting parts", total=len(parts)) as advance:
            for part_states, part_kinds, part_images in pool.map(functools.partial(_collect_part, work), parts):
                for system, each in part_states.items():
                    states[system] = states[system] + each if system in states else each
                kinds = {name: kinds.get(name, frozenset()) | part_kinds[name] for name in part_kinds}
                images.append(part_images)
                advance(1)
        if is_first:
            parts = [replace(part, numbers=each) for part, each in zip(parts, number_captions(images), strict=True)]
        systems = {system: work.of_system(system).with_states(each) for system, each in states.items()}
        work, is_first = _Work(evaluation, systems, kinds), False
        if not states:  # all captions are left out
            break
    return work, parts


def _collect_part(work: _Work, part: Part) -> tuple[dict[str, CorpusStates], dict[str, frozenset[type]], Numbers]:
    """The pending states of each system, the types in carried columns, and hashes of the images of rows without ids."""
    captions = part.read()
    states = {
        system: work.of_system(system).collect_all(system_captions)
        if work.of_system(system).pending_states
        else CorpusStates()
        for system, (_, system_captions) in captions.systems.items()
        if len(system_captions)  # else all of the part are left out
    }
    kinds = {
        name: frozenset({type(None), *(value_kind(row.kept[k], row.location, name) for row in captions.rows)})
        for k, name in enumerate(part.keep or ())
        if name != NUMBER
    }
    without_id = (f"{row.system or ''}\0{row.image_id}" for row in captions.rows if row.id is None)
    return states, kinds, hash_images(without_id)


def _write_part(work: _Work, job: tuple[Part, Path]) -> None:
    """Scores a part, and writes its file, whole or not at all."""
    from pyarrow import parquet

    part, file = job
    captions = part.read()
    results = {
        system: work.of_system(system).run(system_captions, is_whole=False)
        for system, (_, system_captions) in captions.systems.items()
        if len(system_captions)
    }
    about = {
        "signatures": {
            name: {metric: scores.signature for metric, scores in of.items()} for name, of in results.items()
        },
        "notes": {name: _count_notes(results[name]) for name in results},
        "has_scores": all(map(_has_scores, results.values())),  # else it is scored again by the next run
    }
    table = _make_table(work, part, captions, results)
    with atomic_writer(file) as open_file:
        parquet.write_table(table.replace_schema_metadata({_METADATA: json.dumps(about).encode()}), open_file)


def _make_table(work: _Work, part: Part, captions: PartCaptions, results: Mapping[str, Results]) -> Any:
    """A row for each row of the part; those that are not scored have null scores."""
    import pyarrow

    rows, metrics = captions.rows, work.evaluation.metrics
    indices = np.full(len(rows), -1)
    ids: list[str] = [row.id or row.image_id for row in rows]
    scored_count = 0
    for system, of_system in results.items():
        positions, _ = captions.systems[system]
        indices[positions] = np.arange(scored_count, scored_count + len(positions))
        scored_count += len(positions)
        for position, id in zip(positions.tolist(), of_system.ids.names, strict=True):
            ids[position] = id
    columns: dict[str, Any] = {
        "id": pyarrow.array(ids, pyarrow.string()),
        "image_id": pyarrow.array([row.image_id for row in rows], pyarrow.string()),
        "system": pyarrow.array([row.system for row in rows], pyarrow.string()),
        NUMBER: pyarrow.array([row.number for row in rows], pyarrow.int64()),
    }
    order = pyarrow.array(indices, mask=indices < 0)
    for metric in metrics:
        scores = [of_system[metric] for of_system in results.values()]
        values: list[Any] = [np.zeros((0, len(metric.columns))), *(each.values for each in scores)]
        items = np.concatenate([np.zeros(0), *(each.items.array for each in scores)])
        columns[str(metric)] = pyarrow.array(items).take(order)
        for k, column in enumerate(metric.columns):
            columns[f"{metric}/{column}"] = pyarrow.array(np.concatenate(values)[:, k]).take(order)
    columns |= _carried_columns(work, part, rows, columns.keys())
    return pyarrow.table(columns)


def _carried_columns(work: _Work, part: Part, rows: Sequence[CaptionRow], others: Iterable[str]) -> dict[str, Any]:
    import pyarrow

    names = [name for name in part.keep or () if name != NUMBER]
    if shared_names := [name for name in names if name in set(others)]:
        raise InputError(
            f"{part.source.name}: the scores have a column {list_names(shared_names)}, too; rename the file's"
        )
    if absent := [name for name in names if work.kinds[name] == {type(None)}]:
        raise InputError(f"{part.source.name}: no row has the column {list_names(absent)} that --keep names")
    columns = {}
    for name in names:
        column = make_column([row.kept[(part.keep or ()).index(name)] for row in rows], work.kinds[name])
        columns[name] = pyarrow.array(column, pyarrow.string()) if isinstance(column, list) else pyarrow.array(column)
    return columns


def _has_scores(results: Results) -> bool:
    """Whether any caption has a score: of a judge that could not be asked, none has."""
    with suppress(InputError):
        for scores in results.values():
            assert scores.metric is not None and scores.values is not None
            scores.metric.check_sums(scores.values.sum(axis=0), len(scores.values), {})
        return True
    return False


def _count_notes(results: Results) -> Notes:
    noted = chain(results.notes.items(), *(scores.notes.items() for scores in results.values()))
    return {reason: (len(ids), list(ids[:NOTED_IDS])) for reason, ids in noted if ids and reason != UNUSED}


def _name_files(parts: Sequence[Part], evaluation: Evaluation, folder: Path) -> list[Path]:
    """The file of each part, whose name ends in a digest of what its scores depend on."""
    paths = list(dict.fromkeys(part.source.path for part in parts))
    references = [Path(path) for path in parts[0].options.reference_files]
    with ThreadPoolExecutor() as threads:
        digests = dict(zip([*paths, *references], threads.map(sha256, [*paths, *references]), strict=True))
    ordered_metrics = evaluation.ordered_metrics
    of_corpus = {each for each in ordered_metrics if any(map(_reads_corpus, with_required([each])))}
    plan = [__version__, *map(str, evaluation.metrics), evaluation.settings.precision]
    plan += [evaluation.signature(each) for each in ordered_metrics if each not in of_corpus]
    plan += [repr(replace(parts[0].options, references=None)), repr(parts[0].keep)]
    plan += [digests[path] for path in references]
    if of_corpus or not all(part.has_ids for part in parts) or parts[0].keep:
        plan += [digests[path] for path in paths]
    files = []
    for part in parts:
        about = json.dumps([*plan, digests[part.source.path], part.source.member, part.span.start, part.span.stop])
        files.append(folder / f"{part.name}-{hashlib.sha256(about.encode()).hexdigest()[:16]}.parquet")
    if len(set(files)) < len(files):
        raise InputError("two of the files of captions have one name and the same content; leave one out")
    return files


def _reads_corpus(metric: Metric) -> bool:
    corpus_state = metric.corpus_state()
    return corpus_state is not None and corpus_state.AFFECTS_SCORES


def _refuse_inputs(parts: Sequence[Part], summary: Path) -> None:
    """Raises if the summary would replace a file that is read."""
    inputs = [*(part.source.path for part in parts), *map(Path, parts[0].options.reference_files)]
    if summary.exists() and any(path.exists() and path.samefile(summary) for path in inputs):
        raise InputError(f"the scores in {summary} would replace that file, which is read; name another folder")


def _about(file: Path) -> dict[str, Any] | None:
    """What a file of scores says of itself; None if it is none, or damaged."""
    from pyarrow import ArrowException, parquet

    try:
        content: dict[str, Any] = json.loads((parquet.read_schema(file).metadata or {})[_METADATA])
    except (OSError, ArrowException, KeyError, ValueError):
        return None
    return content


def _is_finished(file: Path) -> bool:
    about = _about(file)
    return about is not None and bool(about["has_scores"])


def _remove_others(folder: Path, files: Sequence[Path], parts: Sequence[Part]) -> None:
    """Removes scores of other captions or metrics, so that the folder can be read as one table."""
    known = {*files, *(part.source.path for part in parts)}
    for file in folder.glob("*.parquet"):
        if file not in known and _about(file) is not None:
            file.unlink()


def combine(files: Sequence[Path], metrics: Sequence[Metric], *, resamples: int, seed: int) -> dict[str, SetScores]:
    """The scores of all captions of each system, from the files of their parts, which are read one after the other.

    Args:
        files: in the order of the captions.
        metrics: whose scores they have.
        resamples: of the images, for intervals; 0: none.
        seed: determines the resamples.

    Raises:
        InputError: there is no caption, none has a score, or two have one id.
    """
    from pyarrow import parquet

    sums: dict[str, _Sums] = {}
    for file in files:
        table, about = parquet.read_table(file), _about(file)
        assert about is not None
        for name in table["system"].unique().to_pylist():
            of_system = table.filter(_equals(table["system"], name))
            if metrics:  # the rows that have scores
                of_system = of_system.filter(of_system[str(metrics[0])].is_valid())
            if of_system.num_rows:
                system = sums.setdefault(name or "", _Sums(metrics, resamples > 0))
                system.add(of_system, about["signatures"][name or ""], about["notes"][name or ""])
    if not sums:
        raise InputError("there is no caption to score; the files are empty")
    for system in sums.values():
        if repeated := system.repeated_hash():
            id = next(id for id in _ids(files) if hash(id) == repeated)
            raise InputError(
                f"duplicate id {id!a}; scores are keyed by id: give each candidate an id of its own, or leave ids out"
            )
    return {name: system.scores(metrics, resamples, seed) for name, system in sums.items()}


def _ids(files: Sequence[Path]) -> Iterator[str]:
    from pyarrow import parquet

    return chain.from_iterable(parquet.read_table(file, columns=["id"])["id"].to_pylist() for file in files)


def _equals(column: Any, name: str | None) -> Any:
    from pyarrow import compute

    return column.is_null() if name is None else compute.equal(column, name)


class _Sums:
    """The sums of the rows of one system's captions, added in their order: to the last bit those of one array."""

    def __init__(self, metrics: Sequence[Metric], with_images: bool) -> None:
        self.count, self.notes, self.signatures = 0, Notes(), dict[str, str]()
        self._ids: list[npt.NDArray[np.int64]] = []
        self._totals: dict[Metric, Floats] = {}
        self._columns: dict[Metric, list[Floats]] = {metric: [] for metric in metrics if len(metric.columns) == 1}
        self._images: dict[str, int] | None = {} if with_images else None
        self._by_image = {metric: np.zeros((0, len(metric.columns))) for metric in metrics}
        self._image_counts = np.zeros(0)

    def add(self, table: Any, signatures: dict[str, str], notes: Notes) -> None:
        """Adds the scored rows of a part."""
        self.signatures = self.signatures or signatures
        _merge_notes(self.notes, notes)
        self.count += table.num_rows
        ids = table["id"].to_pylist()
        self._ids.append(np.fromiter(map(hash, ids), np.int64, len(ids)))
        images = self._number_images(table["image_id"].to_pylist())
        for metric in self._by_image:
            values = np.column_stack([table[f"{metric}/{column}"].to_numpy() for column in metric.columns])
            if metric in self._columns:  # numpy adds one column in pairs, several row after row
                self._columns[metric].append(values)
            else:
                total = self._totals.get(metric, values[:0])
                self._totals[metric] = np.add.reduce(np.concatenate([np.atleast_2d(total), values]))
            if self._images is not None:
                self._by_image[metric] = _add_at(self._by_image[metric], images, values, len(self._images))
        if self._images is not None:
            self._image_counts = _add_at(self._image_counts, images, 1.0, len(self._images))

    def _number_images(self, image_ids: list[str]) -> npt.NDArray[np.int64]:
        numbers = self._images
        if numbers is None:
            return np.zeros(0, np.int64)
        images = np.fromiter((numbers.setdefault(id, len(numbers)) for id in image_ids), np.int64, len(image_ids))
        if len(numbers) > MAX_IMAGES:
            self._images = None
        return images

    def repeated_hash(self) -> int:
        """The hash of an id that several captions have; 0: there is none."""
        hashes = np.sort(np.concatenate(self._ids))
        repeated = np.flatnonzero(hashes[1:] == hashes[:-1])
        return int(hashes[repeated[0]]) if len(repeated) else 0

    def scores(self, metrics: Sequence[Metric], resamples: int, seed: int) -> SetScores:
        """The scores of all rows that were added."""
        totals = self._totals | {metric: np.concatenate(blocks).sum(axis=0) for metric, blocks in self._columns.items()}
        counts = {reason: count for reason, (count, _) in self.notes.items()}
        scores: dict[str, Mapping[str, Floats]] = {}
        for metric in metrics:
            metric.check_sums(totals[metric], self.count, counts)
            scores[str(metric)] = metric.from_sums(totals[metric], np.float64(self.count))
        return SetScores(
            captions=self.count,
            scores={name: float(values["score"]) for name, values in scores.items()},
            parts={
                name: {part: float(values[part]) for part in values if part != "score"}
                for name, values in scores.items()
            },
            signatures=self.signatures,
            intervals={} if self._images is None else self._intervals(resamples, seed),
            notes=self.notes,
        )

    def _intervals(self, resamples: int, seed: int) -> dict[str, tuple[float, float]]:
        resampled: dict[str, list[Floats]] = {str(metric): [] for metric in self._by_image}
        for block in resample_blocks(len(self._image_counts), resamples, seed):
            weights = block.astype(np.float64)
            for metric, sums in self._by_image.items():
                block_scores = metric.from_sums(weights @ sums, weights @ self._image_counts)
                resampled[str(metric)].append(block_scores["score"])
        return {name: percentile_interval(np.concatenate(values), 0.95) for name, values in resampled.items()}


def _add_at(sums: Floats, indices: npt.NDArray[np.int64], values: Any, length: int) -> Floats:
    """The sums, of which there are `length` now, with these values added one after the other."""
    longer = np.concatenate([sums, np.zeros((length - len(sums), *sums.shape[1:]))])
    np.add.at(longer, indices, values)
    return longer


def _merge_notes(notes: Notes, added: Mapping[str, Sequence[Any]]) -> None:
    """Adds the notes of a part: numbers of captions and first ids; of how files were read, what is new."""
    for reason, (note_count, noted_ids) in added.items():
        total_count, first_ids = notes.get(reason, (0, []))
        if reason in _OF_FILES:
            entries = list(dict.fromkeys([*first_ids, *noted_ids]))
            notes[reason] = max(len(entries), total_count, note_count), entries[:NOTED_IDS]
        else:
            notes[reason] = total_count + note_count, [*first_ids, *noted_ids][:NOTED_IDS]


def _note_unused(name: str, scores: SetScores, files: Sequence[Path], part: Part) -> SetScores:
    """The scores with a note on the images that have references, but no candidate in any part."""
    from pyarrow import parquet

    images: dict[str, None] = {}
    for file in files:
        table = parquet.read_table(file, columns=["image_id", "system"])
        images |= dict.fromkeys(table.filter(_equals(table["system"], name or None))["image_id"].unique().to_pylist())
    unused = part.find_unused(images)
    noted: Notes = {UNUSED: (len(unused), unused[:NOTED_IDS])} if unused else {}
    return replace(scores, notes={**scores.notes, **noted})
