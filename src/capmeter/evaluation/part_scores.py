"""Many captions: files in parts, and a folder with the scores of each part.

    parts = open_parts("captions/*.parquet")
    states = reduce(add, pool.map(collect, parts))               # document frequencies …, and ids
    pool.map(score, parts), each of which writes its rows        # those that are there are skipped
    sums of all rows → corpus scores, intervals

Every part gets one Parquet file, which is written whole: a row for each of its rows with `id`, `image_id`, `system`,
`candidate_hash`, `row` (its number in the file of captions), a score for each metric, what these are computed from
(`METRIC/COLUMN`), and the columns that are carried through; candidates that are left out have no scores. The file's
name ends in a digest of all that the scores depend on (the captions, their range, references, metrics with their
states, options, versions), so a part whose file is there is finished, and files of other parts are removed.
`corpus.json` has the scores of all.

Scores, corpus scores and intervals are bit for bit those of one process that reads all captions at once.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from capmeter._version import __version__
from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.containers import ROWS
from capmeter.captions.load_options import LoadOptions
from capmeter.captions.matching import find_matches, find_unused_references
from capmeter.captions.parts import (
    NUMBER,
    Numbers,
    Part,
    PartCaptions,
    join_types,
    open_parts,
    reference_paths,
    references_of,
)
from capmeter.core.assets import sha256
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count, list_names
from capmeter.core.output_files import atomic_writer, write_atomic
from capmeter.core.progress import task
from capmeter.core.ragged import differ
from capmeter.core.settings import Settings, home_path
from capmeter.evaluation.base import UNUSED, Floats, Metric
from capmeter.evaluation.pools import WorkerPool, make_pool, worker_settings
from capmeter.evaluation.registry import is_needed, parse_list, with_required
from capmeter.evaluation.results import Results, resample_sums
from capmeter.evaluation.runner import CorpusStates, Evaluation
from capmeter.stats.bootstrap import Clusters, percentile_interval

SUMMARY = "corpus.json"
"""The file with the scores of all parts together."""
MAX_IMAGES = 2_000_000
"""Images from which there are no intervals: they take a gigabyte, and an hour."""
NOTED_IDS = 5
"""Ids that are kept of each note."""
_METADATA = b"capmeter"
_HASH = "candidate_hash"  # of the image and the candidate: by it captions that parts repeat are found
_OF_FILES = ("images_by", "rows_without_image", "headings_read_without_case", "read_as_lines", "matched_by")
Notes = dict[str, tuple[int, list[str]]]


@dataclass(frozen=True)
class SetScores:
    """The scores of all captions of a system: `scores`, `parts`, `signatures` and `intervals` by metric, and `notes`:
    reason → number of captions and the first of their ids."""

    captions: int
    scores: dict[str, float]
    parts: dict[str, dict[str, float]]
    signatures: dict[str, str] = field(default_factory=dict)
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
    folder = home_path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    files = _name_files(parts, evaluation, folder)
    summary_path = folder / SUMMARY
    inputs = {*reference_paths(parts[0].options), *(part.source.path for part in parts)}
    if summary_path.exists() and any(map(summary_path.samefile, inputs)):
        raise InputError(f"the scores in {summary_path} would replace that file, which is read; name another folder")
    if options.references is not None and any(metric.counts_absent for metric in parsed):
        raise InputError(
            "as_released=true counts videos without results 0, which needs all captions: score without parts"
        )
    missing = [k for k, file in enumerate(files) if not (_about(file) or {}).get("has_scores")]
    if missing:
        work, numbered = _collect(parts, evaluation, pool)
        jobs = [(numbered[k], files[k]) for k in missing]
        with task("scoring parts", total=len(jobs)) as advance:
            for _ in pool.map(functools.partial(_write_part, work), jobs):
                advance(1)
    known = {*files, *(part.source.path for part in parts)}
    for file in folder.glob("*.parquet"):  # scores of other captions or metrics: the folder can be read as one table
        if file not in known and _about(file) is not None:
            file.unlink()
    systems = combine(files, parsed, resamples=resamples if intervals else 0, seed=seed, part=parts[0])
    scores = PartScores(systems, len(parts), len(parts) - len(missing))
    summary = {name: value for name, value in scores.to_dict().items() if name != "resumed"}  # the same in every run
    write_atomic(summary_path, json.dumps(summary, indent=1))
    return scores


@dataclass(frozen=True, eq=False)
class _Work:
    """What scoring a part needs of all parts.

    evaluation: of a system without corpus states.
    systems: the evaluation of each system, with its states.
    types: of the numbers of rows and of the carried columns (`join_types`).
    """

    evaluation: Evaluation
    systems: Mapping[str, Evaluation] = field(default_factory=dict)
    types: Mapping[str, set[type]] = field(default_factory=lambda: {NUMBER: {int}})

    def of_system(self, system: str) -> Evaluation:
        """The evaluation with this system's states."""
        return self.systems.get(system, self.evaluation)


def _collect(parts: Sequence[Part], evaluation: Evaluation, pool: WorkerPool) -> tuple[_Work, Sequence[Part]]:
    """What requires all parts, and the parts with the numbers of their rows."""
    work = _Work(evaluation)
    needs_rows = (len(parts) > 1 and not all(part.has_ids for part in parts)) or bool(parts[0].keep)
    while needs_rows or any(each.pending_states for each in work.systems.values() or [evaluation]):
        states: dict[str, CorpusStates] = {}
        types: list[dict[str, set[type]]] = []
        images: list[Numbers] = []
        with task("collecting parts", total=len(parts)) as advance:
            for part_states, part_types, part_images in pool.map(functools.partial(_collect_part, work), parts):
                for system, each in part_states.items():
                    states[system] = states[system] + each if system in states else each
                types.append(part_types)
                images.append(part_images)
                advance(1)
        parts = [replace(part, numbers=each) for part, each in zip(parts, number_captions(images), strict=True)]
        systems = {system: work.of_system(system).with_states(each) for system, each in states.items()}
        work = _Work(evaluation, systems, join_types(types, parts[0].keep or ()))
        needs_rows = False
        if not states:  # all captions are left out
            break
    return work, parts


def _collect_part(work: _Work, part: Part) -> tuple[dict[str, CorpusStates], dict[str, set[type]], Numbers]:
    """The pending states of each system, the types in columns, and hashes of the rows' images."""
    captions = part.read()
    states = {
        system: work.of_system(system).collect_all(system_captions)
        if work.of_system(system).pending_states
        else CorpusStates()
        for system, (_, system_captions) in captions.systems.items()
        if len(system_captions)  # else all of the part are left out
    }
    return states, captions.column_types(), hash_names(f"{row.system or ''}\0{row.image_id}" for row in captions.rows)


def number_captions(image_hashes: Sequence[Numbers]) -> list[Numbers]:
    """For the images of rows of each part, as hashes: the number of each among its equals in all parts, -1 if alone.

    >>> number_captions([hash_names(["7", "8"]), hash_names(["9", "7"])])
    [array([ 0, -1]), array([-1,  1])]
    """
    hashes = np.concatenate(image_hashes)
    order = np.argsort(hashes, kind="stable")
    starts = np.flatnonzero(differ(hashes[order]))
    counts = np.diff(starts, append=len(hashes))
    numbers = np.empty(len(hashes), np.int64)
    numbers[order] = np.arange(len(hashes)) - np.repeat(starts, counts)
    numbers[order[starts[counts == 1]]] = -1
    return np.split(numbers, np.cumsum([len(part_hashes) for part_hashes in image_hashes])[:-1])


def hash_names(names: Iterable[str]) -> Numbers:
    """64 bits of BLAKE2 of each name, which are the same in every process."""
    encoded = (name.encode("utf-8", "surrogatepass") for name in names)
    return np.frombuffer(b"".join(hashlib.blake2b(each, digest_size=8).digest() for each in encoded), np.int64)


def _write_part(work: _Work, job: tuple[Part, Path]) -> None:
    """Scores a part, and writes its file, whole or not at all."""
    from pyarrow import parquet

    part, file = job
    captions = part.read()
    without_id = next((row for row in captions.rows if row.id is None), None)
    if without_id is not None and part.has_ids and part.numbers is None:
        raise InputError(
            f"{without_id.location}: it has no id, which the first rows of the file have; give one to all rows or none"
        )
    results = {
        system: work.of_system(system).run(system_captions, is_whole=False)
        for system, (_, system_captions) in captions.systems.items()
        if len(system_captions)
    }
    about = {
        "signatures": {
            name: {metric: scores.signature for metric, scores in of.items()} for name, of in results.items()
        },
        "notes": {name: _count_notes(each, results.get(name)) for name, (_, each) in captions.systems.items()},
        "has_scores": all(map(_has_scores, results.values())),  # else it is scored again by the next run
    }
    table = _make_table(work, captions, results)
    with atomic_writer(file) as open_file:
        parquet.write_table(table.replace_schema_metadata({_METADATA: json.dumps(about).encode()}), open_file)


def _make_table(work: _Work, captions: PartCaptions, results: Mapping[str, Results]) -> Any:
    """A row for each row of the part; those that are not scored have null scores."""
    import pyarrow

    rows, metrics = captions.rows, work.evaluation.metrics
    indices = np.full(len(rows), -1)
    scored_count = 0
    for system in results:
        positions, _ = captions.systems[system]
        indices[positions] = np.arange(scored_count, scored_count + len(positions))
        scored_count += len(positions)
    columns: dict[str, Any] = {
        name: pyarrow.array([getattr(row, field_name) for row in rows], pyarrow.string())
        for name, field_name in (("id", "final_id"), ("image_id", "image_id"), ("system", "system"))
    }
    columns[_HASH] = hash_names(f"{row.image_id}\0{row.candidate}" for row in rows)
    order = pyarrow.array(indices, mask=indices < 0)
    for metric in metrics:
        scores = [of_system[metric] for of_system in results.values()]
        values: list[Any] = [np.zeros((0, len(metric.columns))), *(each.values for each in scores)]
        items = np.concatenate([np.zeros(0), *(each.items.array for each in scores)])
        columns[str(metric)] = pyarrow.array(items).take(order)
        for k, column in enumerate(metric.columns):
            columns[f"{metric}/{column}"] = pyarrow.array(np.concatenate(values)[:, k]).take(order)
    return pyarrow.table(columns | captions.columns(rows, work.types, columns))


def _has_scores(results: Results) -> bool:
    """Whether any caption has a score: of a judge that could not be asked, none has."""
    with suppress(InputError):
        for scores in results.values():
            assert scores.metric is not None and scores.values is not None
            scores.metric.check_sums(scores.values.sum(axis=0), len(scores.values), {})
        return True
    return False


def _count_notes(captions: CaptionSet, results: Results | None) -> Notes:
    """The notes on captions, which may all be left out, and on their scores."""
    of_set = captions.notes if results is None else results.notes
    noted = chain(of_set.items(), *(scores.notes.items() for scores in (results or {}).values()))
    return {reason: (len(ids), list(ids[:NOTED_IDS])) for reason, ids in noted if ids and reason != UNUSED}


def _name_files(parts: Sequence[Part], evaluation: Evaluation, folder: Path) -> list[Path]:
    """The file of each part, whose name ends in a digest of what its scores depend on."""
    paths = list(dict.fromkeys(part.source.path for part in parts))
    references = reference_paths(parts[0].options)
    with ThreadPoolExecutor() as threads:
        digests = dict(zip([*paths, *references], threads.map(sha256, [*paths, *references]), strict=True))
    ordered_metrics = evaluation.ordered_metrics
    of_corpus = {
        each
        for each in ordered_metrics
        for corpus_state in (required.corpus_state() for required in with_required([each]))
        if corpus_state is not None and corpus_state.AFFECTS_SCORES
    }
    plan = [__version__, *map(str, evaluation.metrics), evaluation.settings.precision, evaluation.settings.engine]
    plan += [evaluation.signature(each) for each in ordered_metrics if each not in of_corpus]
    plan += [repr(replace(parts[0].options, references=None)), repr(parts[0].keep), _HASH]
    plan += [digests[path] for path in references] + [path.name for path in parts[0].options.reference_files]
    if of_corpus or not all(part.has_ids for part in parts) or parts[0].keep:
        plan += [digests[path] for path in paths]
    files = []
    for part in parts:
        about = json.dumps([*plan, digests[part.source.path], part.source.member, part.span.start, part.span.stop])
        files.append(folder / f"{part.name}-{hashlib.sha256(about.encode()).hexdigest()[:16]}.parquet")
    if len(set(files)) < len(files):
        raise InputError("two of the files of captions have one name and the same content; leave one out")
    return files


def _about(file: Path) -> dict[str, Any] | None:
    """What a file of scores says of itself; None if it is none, or damaged."""
    from pyarrow import ArrowException, parquet

    try:
        content: dict[str, Any] = json.loads((parquet.read_schema(file).metadata or {})[_METADATA])
    except (OSError, ArrowException, KeyError, ValueError):
        return None
    return content


def combine(
    files: Sequence[Path], metrics: Sequence[Metric], *, resamples: int, seed: int, part: Part | None = None
) -> dict[str, SetScores]:
    """The scores of all captions of each system, from the files of their parts, of which one column is held at a time.

    Args:
        files: in the order of the captions.
        metrics: whose scores they have.
        resamples: of the images, for intervals; 0: none.
        seed: determines the resamples.
        part: one of the captions; images that have references in its options, but no candidate in any part, are noted.

    Raises:
        InputError: there is no caption, none has a score, or two have one id.
    """
    from pyarrow import dataset

    described = [about for about in map(_about, files) if about is not None]
    rows = dataset.dataset(list(map(str, files)), format="parquet")
    systems = {}
    for name in dict.fromkeys(name for about in described for name in about["notes"]):
        signatures = next((about["signatures"][name] for about in described if name in about["signatures"]), None)
        if signatures is None:
            raise InputError(f"there is no caption to score{f' of {name}' * bool(name)}: none has references")
        notes: Notes = {}
        for about in described:
            _merge_notes(notes, about["notes"].get(name, {}))
        system = dataset.field("system")
        is_own = system == name if name else system.is_null() | (system == "")
        scored = rows.filter(is_own & dataset.field(str(metrics[0])).is_valid())
        scores = _score_rows(scored, metrics, {reason: count for reason, (count, _) in notes.items()}, resamples, seed)
        hashes = scored.to_table(columns=[_HASH])[_HASH].to_numpy()
        if len(repeated := np.flatnonzero(number_captions([hashes])[0] > 0)):
            ids = scored.take(repeated[:NOTED_IDS], columns=["id"])["id"].to_pylist()
            notes["repeated_candidates"] = len(repeated), ids
        if part is not None and (table := references_of(part.options)) is not None:
            images, scored_images = (
                each.to_table(columns=["image_id"])["image_id"].unique().to_pylist()
                for each in (rows.filter(is_own), scored)
            )
            matching = find_matches(dict.fromkeys(images), table.rows)
            if unmatched := [image_id for image_id in scored_images if image_id not in matching.rows]:
                raise InputError(
                    f"{format_count(len(unmatched), 'image')} ({list_names(unmatched)}) match references within a part "
                    "alone: among all images their names are ambiguous; use the same ids in both files"
                )
            if unused := find_unused_references(matching, table):
                notes[UNUSED] = len(unused), unused[:NOTED_IDS]
        systems[name] = replace(scores, signatures=signatures, notes=notes)
    if not systems:
        raise InputError("there is no caption to score: no row is of the system or split that was chosen")
    return systems


def _score_rows(
    rows: Any, metrics: Sequence[Metric], counts: Mapping[str, int], resamples: int, seed: int
) -> SetScores:
    """The scores of rows of a system, to the last bit those of one array of them.

    Args:
        rows: a dataset of rows that have scores.
        metrics: whose scores they have.
        counts: reason → number of noted captions.
        resamples, seed: as of `combine`.
    """

    def read_column(name: str) -> Any:
        from pyarrow import dataset

        return rows.to_table(columns={name: dataset.field(name)})[name]

    ids, images = (
        np.concatenate(
            [np.fromiter(map(hash, each.to_pylist()), np.int64, len(each)) for each in read_column(name).chunks]
        )
        for name in ("id", "image_id")  # one after the other: of ten million captions each takes a third of a gigabyte
    )
    if not differ(np.sort(ids)).all():
        id = read_column("id")[int(np.argmax(number_captions([ids])[0] > 0))].as_py()
        raise InputError(
            f"duplicate id {id!a}; scores are keyed by id: give each candidate an id of its own, or leave ids out"
        )
    clusters = Clusters(images) if resamples and len(np.unique(images)) <= MAX_IMAGES else None
    scores: dict[str, Mapping[str, Floats]] = {}
    by_image: dict[str, tuple[Metric, Floats, Floats]] = {}
    for metric in metrics:
        totals, sums = [], []
        for column in metric.columns:
            values = read_column(f"{metric}/{column}").to_numpy()
            # numpy adds one column in pairs, several row after row
            totals.append(values.sum() if len(metric.columns) == 1 else np.add.accumulate(values)[-1])
            sums += [] if clusters is None else [clusters.sums(values)]
        metric.check_sums(np.array(totals), len(ids), counts)
        scores[str(metric)] = metric.from_sums(np.array(totals), np.float64(len(ids)))
        if clusters is not None:
            by_image[str(metric)] = metric, np.column_stack(sums), clusters.sums(np.ones(len(ids)))
    resampled = {} if clusters is None else resample_sums(by_image, len(clusters), resamples, seed)
    return SetScores(
        captions=len(ids),
        scores={name: float(values["score"]) for name, values in scores.items()},
        parts={
            name: {part: float(values[part]) for part in values if part != "score"} for name, values in scores.items()
        },
        intervals={name: percentile_interval(parts["score"], 0.95) for name, parts in resampled.items()},
    )


def _merge_notes(notes: Notes, added: Mapping[str, Sequence[Any]]) -> None:
    """Adds the notes of a part: numbers of captions and first ids; of how files were read, what is new."""
    for reason, (note_count, noted_ids) in added.items():
        total_count, first_ids = notes.get(reason, (0, []))
        if reason in _OF_FILES:
            entries = list(dict.fromkeys([*first_ids, *noted_ids]))
            notes[reason] = max(len(entries), total_count, note_count), entries[:NOTED_IDS]
        else:
            notes[reason] = total_count + note_count, [*first_ids, *noted_ids][:NOTED_IDS]
