"""Scoring on a Ray cluster: files of captions, or a Ray Dataset.

    capmeter score --engine ray --shards 'captions/*.parquet' --metrics bleu-4,cider-d --output scores/

    from capmeter.integrations.ray import score, score_shards
    corpus = score_shards("captions/*.parquet", "bleu-4,cider-d", "scores/")        # files in, files out
    scored = score(dataset, "bleu-4,cider-d")                                       # a Dataset in, a Dataset out
    scored.corpus.scores["cider-d"], scored.dataset

Ray Data schedules (`map_batches` with a pool of actors), `Evaluation` does the work: actors collect what metrics need
of all captions (document frequencies), tasks merge it in a tree, and actors score. Everything that grows with the
captions stays in Ray's object store and in files; the calling process holds a few kilobytes per shard.

A network is loaded once per actor; `gpus` is the share of a GPU that each may use. The shards of a lost worker or node
are scored by others; a run that was killed resumes from its finished shards (`capmeter.integrations.shards`).

Ray is joined at `RAY_ADDRESS`, or started on this machine; on a cluster all nodes must find the files by the same path.
"""

from __future__ import annotations

import functools
import json
import logging
import math
import operator
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.fields import FieldMap
from capmeter.captions.load_options import LoadOptions
from capmeter.core.assets import sha256
from capmeter.core.errors import CapmeterError, InputError, MissingBackend
from capmeter.core.messages import format_count
from capmeter.core.progress import task
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.requirements import is_needed
from capmeter.evaluation.runner import CorpusStates, Evaluation
from capmeter.integrations import frames, shards
from capmeter.integrations.shard_records import Record, merge_notes
from capmeter.integrations.shards import MAX_RESAMPLED, Job, ShardedCaptions

_MERGED_AT_ONCE = 8  # states
Work = Callable[[Evaluation, Any], Any]
"""What an actor does with an Arrow table of inputs; it returns the columns of its outputs."""


@dataclass(frozen=True)
class Scored:
    """A Ray Dataset with a row of scores per caption, and the scores of all captions together."""

    dataset: Any
    corpus: ShardedCaptions


def score_shards(
    pattern: str,
    metrics: str | Iterable[str | Metric],
    output: str | os.PathLike[str],
    *,
    options: LoadOptions | None = None,
    keep: Sequence[str] = (),
    workers: int = 0,
    gpus: float = 0.0,
    intervals: bool = True,
    resamples: int = 1000,
    seed: int = 0,
    settings: Settings | None = None,
) -> ShardedCaptions:
    """Scores files of captions on Ray; every file gets one with its scores in the folder `output`.

    Args:
        pattern: the files, such as `captions/*.parquet`: rows in any format that can be streamed (docs/formats.md).
        metrics: names or metrics, in a list or one comma-separated text.
        output: the folder of the scores, of their records, and of `corpus.json`.
        options: how the captions are read; every worker holds the references that are in files of their own.
        keep: columns of the files of captions that the files of scores have, too.
        workers: number of actors; 0: one for each processor of the cluster, or for each share of its GPUs.
        gpus: the share of a GPU for each of them (.25: four share one), for neural metrics.
        intervals: whether corpus scores get 95% intervals, from `resamples` and `seed`, as `capmeter score` gives them;
            there are none from ten million captions on.
        settings: device, precision, cache of neural metrics; each worker has one thread.

    Returns:
        The corpus scores, which are those of one process.

    Raises:
        InputError: no file matches, captions lack references, a file cannot be read, the cluster lacks the GPUs.
        MissingBackend: Ray is not installed.
    """
    files = shards.find_shards(pattern, output, options, keep)
    ray, evaluation = join_ray(), _evaluation(metrics, settings)
    worker_pool = min(count_workers(workers, gpus), len(files)), gpus, 1
    source_digests = _run_tasks(sha256, [(Path(shard.source),) for shard in files], "checking")
    plan_arguments = evaluation.metrics, evaluation.settings, source_digests, files[0].options, keep
    (plan,) = _run_tasks(shards.plan_digest, [plan_arguments], "planning")
    jobs = [(shard, plan, digest) for shard, digest in zip(files, source_digests, strict=True)]
    records = _run_tasks(shards.check_record, jobs, "checking scores")
    missing = [shard_index for shard_index, record in enumerate(records) if isinstance(record, str)]
    rescored = {files[shard_index].target: records[shard_index] for shard_index in missing}
    if missing:
        every, some = (ray.data.from_items(list(at), override_num_blocks=len(at)) for at in (range(len(jobs)), missing))
        evaluation_ref = collect_states(evaluation, every, functools.partial(_collect_shard, jobs), worker_pool)
        scored_dataset = _map(some, functools.partial(_score_shard, jobs), evaluation_ref, worker_pool)
        for shard_index, record_block in zip(missing, _blocks(scored_dataset, "scoring", len(missing)), strict=True):
            records[shard_index] = Record(**json.loads(ray.get(record_block)["record"][0].as_py()))
    exact = sum(record.captions for record in records) < MAX_RESAMPLED
    signatures, merged_notes = shards.common_signatures(files, records), merge_notes(records)
    how = signatures, resamples if intervals else 0, seed, exact, merged_notes
    (combined_scores,) = _run_tasks(_combine, [(evaluation, [shard.target for shard in files], *how)], "corpus scores")
    return shards.write_summary(combined_scores, output, files, records, rescored)


def score(
    dataset: Any,
    metrics: str | Iterable[str | Metric],
    *,
    columns: Mapping[str, str] | None = None,
    workers: int = 0,
    gpus: float = 0.0,
    intervals: bool = True,
    resamples: int = 1000,
    seed: int = 0,
    settings: Settings | None = None,
) -> Scored:
    """Scores the rows of a Ray Dataset: a caption, its references, and an `image_id` or `id`, as in a file of rows.

    The dataset of scores has `id`, `image_id`, a column per metric and `METRIC/COLUMN`, the rows that scores are
    computed from. The other arguments are those of `score_shards`; `columns` names other columns → fields.

    Raises:
        InputError: columns are not recognised or missing, captions lack references.
    """
    evaluation, names = _evaluation(metrics, settings), dict(columns or {})
    worker_pool = count_workers(workers, gpus), gpus, min(metric.PART_SIZE for metric in evaluation.ordered_metrics)
    dataset.context.execution_options.preserve_order = True  # the scores are in the order of the captions
    input_dataset = dataset.materialize()
    evaluation_ref = collect_states(evaluation, input_dataset, functools.partial(_collect_rows, names), worker_pool)
    with _errors_of_workers():
        scored = _map(input_dataset, functools.partial(_score_rows, names), evaluation_ref, worker_pool).materialize()
    if not (caption_count := scored.count()):
        raise InputError("there is no caption to score; the dataset is empty")
    combine_arguments = None, resamples if intervals else 0, seed, caption_count < MAX_RESAMPLED
    (corpus,) = _run_tasks(_combine, [(evaluation_ref, scored.to_arrow_refs(), *combine_arguments)], "corpus scores")
    return Scored(scored, replace(corpus, shards=scored.num_blocks()))


def _evaluation(metrics: str | Iterable[str | Metric], settings: Settings | None) -> Evaluation:
    return Evaluation(tuple(parse_list(metrics)), replace(settings or Settings(), threads=1))


def collect_states(evaluation: Evaluation, inputs: Any, work: Work, pool: tuple[Any, ...]) -> Any:
    """A reference to the evaluation with all corpus states; they are merged in a tree and never reach this process."""
    ray = join_ray()
    evaluation_ref = ray.put(evaluation)
    merge, add_task = (ray.remote(each).options(max_retries=-1, num_cpus=0) for each in (_merge_states, _add_states))
    while evaluation.pending_states:
        states = list(_blocks(_map(inputs, work, evaluation_ref, pool), "collecting"))
        while len(states) > _MERGED_AT_ONCE:
            states = [merge.remote(*states[k : k + _MERGED_AT_ONCE]) for k in range(0, len(states), _MERGED_AT_ONCE)]
        evaluation_ref = add_task.remote(evaluation_ref, *states)
        evaluation = evaluation.with_states(CorpusStates(dict.fromkeys(evaluation.pending_states)))  # none are pending
    ray.wait([evaluation_ref])  # fetches a copy to this node: the states survive the loss of any other
    return evaluation_ref


def _map(input_dataset: Any, work: Work, evaluation_ref: Any, worker_pool: tuple[Any, ...]) -> Any:
    """The dataset of what a pool of actors returns for these inputs, in their order; a lost actor is started again.

    `worker_pool`: the number of actors, the share of a GPU for each, and the number of rows per call.
    """
    from ray.data import ActorPoolStrategy

    workers, gpus, batch_size = worker_pool
    input_dataset.context.execution_options.preserve_order = True  # sums are the same in every run
    input_dataset.context.raise_original_map_exception = True
    input_dataset.context.enable_progress_bars = input_dataset.context.print_on_execution_start = False
    return input_dataset.map_batches(
        _Worker,
        fn_constructor_args=(work, evaluation_ref),
        compute=ActorPoolStrategy(min_size=1, initial_size=workers, max_size=workers, max_tasks_in_flight_per_actor=1),
        batch_format="pyarrow",
        batch_size=batch_size,
        num_cpus=1,
        num_gpus=gpus or None,
    )


def _blocks(dataset: Any, what: str, block_count: int | None = None) -> Iterator[Any]:
    """References to the blocks of a dataset, Arrow tables, as they are finished."""
    with task(what, total=block_count) as advance, _errors_of_workers():
        for block_bundle in dataset.iter_internal_ref_bundles():
            yield from block_bundle.block_refs
            advance(len(block_bundle.block_refs))


class _Worker:
    """An actor with one kind of work; it keeps the evaluation, and the networks that it has loaded."""

    def __init__(self, work: Work, evaluation_ref: Any) -> None:
        self._work, self._evaluation = work, join_ray().get(evaluation_ref)

    def __call__(self, table: Any) -> Any:
        try:
            return self._work(self._evaluation, table)
        except CapmeterError as problem:
            raise RuntimeError(problem) from None  # Ray Data would add a paragraph to the message of `problem`


def _collect_shard(shard_jobs: Sequence[Job], evaluation: Evaluation, item_table: Any) -> dict[str, Any]:
    shard, _, _ = shard_jobs[item_table["item"][0].as_py()]
    with shards.counted_try(shard):
        return {"states": [pickle.dumps(evaluation.collect_all(shard.read(evaluation.ordered_metrics)))]}


def _score_shard(shard_jobs: Sequence[Job], evaluation: Evaluation, item_table: Any) -> dict[str, Any]:
    shard, plan, digest = shard_jobs[item_table["item"][0].as_py()]
    with shards.counted_try(shard):
        return {"record": [json.dumps(asdict(shards.score_shard(evaluation, shard, plan, digest)))]}


def _collect_rows(columns: Mapping[str, str], evaluation: Evaluation, row_table: Any) -> dict[str, Any]:
    return {"states": [pickle.dumps(evaluation.collect(_captions(row_table, columns, evaluation.ordered_metrics)))]}


def _score_rows(column_fields: Mapping[str, str], evaluation: Evaluation, row_table: Any) -> Any:
    import pyarrow

    captions = _captions(row_table, column_fields, evaluation.ordered_metrics)
    return pyarrow.table(shards.score_columns(evaluation.run(captions, is_whole=False)))


def _captions(row_table: Any, columns: Mapping[str, str], metrics: Sequence[Metric]) -> CaptionSet:
    """The captions of some rows of a dataset."""
    fields = FieldMap(columns, numbered=False)
    fields.learn(row_table.slice(0, 100).to_pylist())
    if fields.image_name is None:
        raise InputError(
            f"the dataset has the columns {', '.join(row_table.column_names)}; expected image_id or id among them, "
            "which group captions by image and identify them in the scores"
        )
    return frames.read(row_table, columns=columns, on_missing="error" if is_needed("references", metrics) else "keep")


def _merge_states(*state_blocks: Any) -> CorpusStates:
    """The sum of states, or of those in blocks."""
    states: list[CorpusStates] = []
    for value in state_blocks:
        states += [value] if isinstance(value, CorpusStates) else map(pickle.loads, value["states"].to_pylist())
    return functools.reduce(operator.add, states)


def _add_states(evaluation: Evaluation, *state_blocks: Any) -> Evaluation:
    return evaluation.with_states(_merge_states(*state_blocks))


def _combine(
    evaluation: Evaluation, score_sources: Sequence[Any], signatures: dict[str, str] | None, *how: Any
) -> ShardedCaptions:
    """The corpus scores of files of scores, or of blocks, which are fetched one by one."""
    from pyarrow import parquet

    signatures = signatures or {str(metric): evaluation.signature(metric) for metric in evaluation.metrics}
    tables = (parquet.read_table(each) if isinstance(each, str) else join_ray().get(each) for each in score_sources)
    return shards.combine_results(evaluation.metrics, (table for table in tables if table.num_rows), signatures, *how)


def _run_tasks(function: Callable[..., Any], argument_tuples: Sequence[tuple[Any, ...]], what: str) -> list[Any]:
    """What a function returns for each tuple of arguments, in tasks that are repeated where they are lost."""
    remote_function = join_ray().remote(function).options(max_retries=-1)
    results = []
    with task(what, total=len(argument_tuples)) as advance, _errors_of_workers():
        for result_ref in [remote_function.remote(*arguments) for arguments in argument_tuples]:
            results.append(join_ray().get(result_ref))
            advance(1)
    return results


@contextmanager
def _errors_of_workers() -> Iterator[None]:
    """Raises capmeter's errors as a worker raised them."""
    try:
        yield
    except join_ray().exceptions.RayTaskError as problem:
        for cause in (problem.cause, *problem.cause.args[:1]):
            if isinstance(cause, CapmeterError):
                raise cause from None
        raise


def join_ray() -> Any:
    """Ray, of the cluster that `RAY_ADDRESS` names, or started on this machine."""
    try:
        import ray.data
    except ImportError:
        raise MissingBackend("the engine ray needs Ray: pip install 'capmeter[ray]'") from None
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS")
        ray.init(**({"address": address} if address else {"include_dashboard": False}), log_to_driver=False)
        logging.getLogger("ray.data").handlers.clear()  # it would report every stage and error on the console
    return ray


def count_workers(workers: int, gpus: float) -> int:
    """The number of actors with a processor and `gpus` of a GPU: `workers`, or 0: as many as the cluster has room for.

    Raises:
        InputError: the cluster lacks the GPUs; Ray would wait for them for ever.
    """
    if gpus < 0 or (gpus > 1 and gpus % 1):
        raise InputError(f"gpus={gpus:g}: expected a share of one GPU, such as 0.25, or a whole number of GPUs")
    node_resources = [node["Resources"] for node in join_ray().nodes() if node["Alive"]]
    have = [node.get("GPU", 0) for node in node_resources]
    # a share is never split across two GPUs
    slots = [each // gpus if gpus >= 1 else int(each) * int(1 / gpus + 1e-9) if gpus else math.inf for each in have]
    room = sum(int(min(node.get("CPU", 0), slot_count)) for node, slot_count in zip(node_resources, slots, strict=True))
    if gpus and room < max(workers, 1):
        cluster = f"{format_count(int(sum(have)), 'GPU')} (on {format_count(len(node_resources), 'node')})"
        raise InputError(
            f"the cluster has {cluster}, which is room for {format_count(room, 'worker')} with {gpus:g} each, and not "
            f"for {max(workers, 1)}; ask for fewer workers or a smaller share, leave --gpus out to use processors, or "
            "start nodes with GPUs"
        )
    return workers or max(room, 1)


__all__ = ["Scored", "ShardedCaptions", "score", "score_shards"]
