"""Scoring on a Ray cluster: files of captions, or a Ray Dataset.

    capmeter score --engine ray --shards 'captions/*.parquet' --metrics bleu-4,cider-d --output scores/

    from capmeter.integrations.ray import score, score_shards
    corpus = score_shards("captions/*.parquet", "bleu-4,cider-d", "scores/")        # files in, files out
    scored = score(dataset, "bleu-4,cider-d")                                       # a Dataset in, a Dataset out
    scored.corpus.scores["cider-d"], scored.dataset

Ray schedules; `Evaluation` does the work. What metrics need of all captions (document frequencies) is collected shard
by shard and merged in a tree, and stays in Ray's store: the process that calls holds a record of a few kilobytes per
shard, however many captions there are. Shards are then scored by actors, which keep a network's weights from one shard
to the next; `gpus` is the share of a GPU that each may use. A worker, an actor or a node that is lost is replaced, and
its shard scored again; a run that was killed and is started again goes on from its finished shards
(`capmeter.integrations.shards`).

Ray is joined where `RAY_ADDRESS` says, or started on this machine; on a cluster the files must be where every node
finds them by the same path.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.columns import Columns
from capmeter.captions.files import write_atomic
from capmeter.captions.model import CaptionSet
from capmeter.errors import CapmeterError, InputError, MissingBackend
from capmeter.integrations import frames, shards
from capmeter.integrations.shards import MOST_AT_ONCE, SUMMARY, Corpus, Record, Shard
from capmeter.metrics.base import Metric
from capmeter.metrics.evaluation import Evaluation, States
from capmeter.metrics.needs import needed
from capmeter.metrics.registry import parse_list
from capmeter.progress import task
from capmeter.settings import Settings

_WIDTH = 8  # states that are merged at once
_TRIES = 20  # for one shard, where its worker is lost again and again


@dataclass(frozen=True)
class Scored:
    """A Ray Dataset with a row of scores per caption, and the scores of all captions together."""

    dataset: Any
    corpus: Corpus


def score_shards(
    pattern: str,
    metrics: str | Iterable[str | Metric],
    output: str | os.PathLike[str],
    *,
    references: str | None = None,
    workers: int = 0,
    gpus: float = 0.0,
    intervals: bool = True,
    resamples: int = 1000,
    seed: int = 0,
    settings: Settings | None = None,
) -> Corpus:
    """Scores files of captions on Ray; every file gets one with its scores in the folder `output`.

    Args:
        pattern: the files, such as `captions/*.parquet`: rows in any format that can be streamed (docs/formats.md).
        metrics: names or metrics, in a list or one comma-separated text.
        output: the folder of the scores, of their records, and of `corpus.json`.
        references: a file of references, where they are not in the rows; every worker holds it.
        workers: number of actors; 0: one for each processor of the cluster.
        gpus: the share of a GPU for each of them, for neural metrics.
        intervals: whether corpus scores get 95% intervals, from `resamples` and `seed`, as `capmeter score` gives them;
            there are none from ten million captions on.
        settings: device, precision, cache of neural metrics; each worker has one thread.

    Returns:
        The corpus scores, which are those of one process.

    Raises:
        InputError: no file matches, captions lack references, a file cannot be read.
        MissingBackend: Ray is not installed.
    """
    ray = _ray()
    chosen = parse_list(metrics)
    files = shards.shards_of(pattern, output, None if references is None else str(Path(references).absolute()))
    evaluation = Evaluation(tuple(chosen), replace(settings or Settings(), threads=1))
    digests: list[str] = _all(ray, shards.digest_of, [(shard.source,) for shard in files], "checking")
    plan = shards.plan_of(chosen, evaluation.settings, digests)
    checked: list[Record | str] = _all(
        ray, shards.finished, [(s, plan, digest) for s, digest in zip(files, digests, strict=True)], "checking scores"
    )
    records = {k: each for k, each in enumerate(checked) if isinstance(each, Record)}
    redone = {files[k].target: each for k, each in enumerate(checked) if isinstance(each, str) and each}
    found = len(records)
    missing = [k for k in range(len(files)) if k not in records]
    if missing:
        known = _known(ray, evaluation, [partial(shards.collect, shard=shard) for shard in files])
        work = {k: (known, files[k], plan, digests[k]) for k in missing}
        for k, record in _by_actors(ray, work, workers, gpus):
            records[k] = record
    whole = None
    if sum(record.captions for record in records.values()) < MOST_AT_ONCE:
        whole = _got(ray, ray.remote(_whole).remote(files, chosen, resamples if intervals else 0, seed))
    corpus = shards.merged(chosen, (records[k] for k in range(len(files))), whole=whole, redone=redone, found=found)
    write_atomic(Path(output) / SUMMARY, json.dumps(corpus.to_dict(), indent=1))
    return corpus


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

    The dataset of scores has `id`, `image_id`, a column per metric and `METRIC/COLUMN`, the rows that scores are made
    of. The other arguments are those of `score_shards`; `columns` names other columns → fields.

    Raises:
        InputError: columns are not known or missing, captions lack references.
    """
    ray = _ray()
    chosen = parse_list(metrics)
    evaluation = Evaluation(tuple(chosen), replace(settings or Settings(), threads=1))
    dataset.context.execution_options.preserve_order = True  # the scores are in the order of the captions
    held = dataset.materialize()
    blocks = held.to_arrow_refs()
    named = dict(columns or {})
    known = _known(ray, evaluation, [partial(_collect_block, columns=named)] * len(blocks), blocks)
    wanted = workers or _processors(ray)
    scored = held.map_batches(
        _BatchScorer,
        fn_constructor_args=(known, named),
        batch_format="pyarrow",
        batch_size=min(metric.ROWS for metric in evaluation.order),
        num_gpus=gpus,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=wanted),
    ).materialize()
    tables = scored.to_arrow_refs()
    sums: list[Record] = _all(ray, _summed, [(known, table) for table in tables], "summing")
    whole = None
    if sum(each.captions for each in sums) < MOST_AT_ONCE:
        whole = _got(ray, ray.remote(_whole_of_blocks).remote(tables, chosen, resamples if intervals else 0, seed))
    return Scored(scored, shards.merged(chosen, [each for each in sums if each.captions], whole=whole))


def _ray() -> Any:
    """Ray, which is running."""
    try:
        import ray
    except ImportError:
        raise MissingBackend("the engine ray needs Ray: pip install 'capmeter[ray]'") from None
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS")
        ray.init(**({"address": address} if address else {"include_dashboard": False}), log_to_driver=False)
    return ray


def _processors(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _got(ray: Any, reference: Any) -> Any:
    """A task's result; its error, if it is one of capmeter's, as it was raised there."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as problem:
        if isinstance(problem.cause, CapmeterError):
            raise problem.cause from None
        raise


def _all(ray: Any, work: Callable[..., Any], each: Sequence[tuple[Any, ...]], what: str) -> list[Any]:
    """`work` of each, in order; what is lost with a worker is done again."""
    remote = ray.remote(work).options(max_retries=-1)
    results = []
    with task(what, total=len(each)) as advance:
        for reference in [remote.remote(*given) for given in each]:
            results.append(_got(ray, reference))
            advance(1)
    return results


def _known(
    ray: Any, evaluation: Evaluation, collects: Sequence[Callable[..., States]], given: Sequence[Any] = ()
) -> Any:
    """A reference to the evaluation that knows all corpus states, which are merged in a tree and never come here."""
    known, pending = ray.put(evaluation), bool(evaluation.pending)
    collect, merge = (ray.remote(work).options(max_retries=-1) for work in (_collected, _merged))
    know = ray.remote(_knowing).options(max_retries=-1, num_returns=2)
    while pending:
        states = [collect.remote(work, known, *given[k : k + 1]) for k, work in enumerate(collects)]
        while len(states) > 1:
            states = [merge.remote(*states[k : k + _WIDTH]) for k in range(0, len(states), _WIDTH)]
        known, still = know.remote(known, states[0])
        pending = _got(ray, still)
    return known


def _collected(work: Callable[..., States], evaluation: Evaluation, *given: Any) -> States:
    return work(evaluation, *given)


def _merged(first: States, *others: States) -> States:
    for other in others:
        first = first + other
    return first


def _knowing(evaluation: Evaluation, states: States) -> tuple[Evaluation, bool]:
    known = evaluation.knowing(states)
    return known, bool(known.pending)


class _Scorer:
    """An actor: scores one shard after the other, with the networks that the first of them loaded."""

    def score(self, evaluation: Evaluation, shard: Shard, plan: str, digest: str) -> Record:
        """Scores a shard and writes its files."""
        return shards.score(evaluation, shard, plan, digest)


def _by_actors(
    ray: Any, work: Mapping[int, tuple[Any, ...]], workers: int, gpus: float
) -> Iterator[tuple[int, Record]]:
    """The record of each shard, as it is finished."""
    kind = ray.remote(_Scorer).options(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)
    idle = [kind.remote() for _ in range(min(workers or _processors(ray), len(work)))]
    waiting: list[int] = list(reversed(list(work)))
    running: dict[Any, tuple[Any, int]] = {}
    tries = dict.fromkeys(work, 0)
    try:
        with task("scoring", total=len(work)) as advance:
            while waiting or running:
                while waiting and idle:
                    actor, k = idle.pop(), waiting.pop()
                    running[actor.score.remote(*work[k])] = actor, k
                while idle:  # nothing is left for it: its processor is free for one that waits to be started again
                    ray.kill(idle.pop())
                (done,), _ = ray.wait(list(running), num_returns=1)
                actor, k = running.pop(done)
                try:
                    record = _got(ray, done)
                except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as problem:
                    tries[k] += 1
                    if tries[k] == _TRIES:
                        raise InputError(f"the worker of {work[k][1].source} was lost {_TRIES} times") from problem
                    waiting.append(k)
                    actor = kind.remote()
                else:
                    advance(1)
                    yield k, record
                idle.append(actor)
    finally:
        for actor in [*idle, *(actor for actor, _ in running.values())]:
            ray.kill(actor)


def _whole(files: Sequence[Shard], metrics: Sequence[Metric], resamples: int, seed: int) -> Any:
    return shards.whole_of(metrics, shards.tables_of(files, metrics), resamples=resamples, seed=seed)


# what is done with the blocks of a dataset


def _captions(table: Any, columns: Mapping[str, str], metrics: Sequence[Metric]) -> CaptionSet:
    """The captions of a block."""
    known = Columns(columns)
    fields = {known.field(name): name for name in table.column_names}
    if "image_id" not in fields:
        if "id" not in fields:
            raise InputError(
                f"the dataset has the columns {', '.join(table.column_names)}; expected image_id or id among them, "
                "which say what belongs together and find a caption again"
            )
        table = table.append_column("image_id", table[fields["id"]])
    return frames.read(table, columns=columns, on_missing="error" if needed("references", metrics) else "keep")


def _collect_block(evaluation: Evaluation, table: Any, columns: Mapping[str, str]) -> States:
    return evaluation.collect(_captions(table, columns, evaluation.order))


class _BatchScorer:
    """Scores the batches of a dataset."""

    def __init__(self, evaluation: Any, columns: Mapping[str, str]) -> None:
        import ray

        self._evaluation = ray.get(evaluation) if isinstance(evaluation, ray.ObjectRef) else evaluation
        self._columns = columns

    def __call__(self, batch: Any) -> Any:
        import pyarrow

        results = self._evaluation.run(_captions(batch, self._columns, self._evaluation.order))
        return pyarrow.table(shards.columns_of(results))


def _summed(evaluation: Evaluation, table: Any) -> Record:
    """The sums of a block of scores."""
    sums = {
        str(metric): [float(np.sum(table[f"{metric}/{kind}"].to_numpy())) for kind in metric.columns]
        for metric in (evaluation.metrics if table.num_rows else ())
    }
    signatures = {str(metric): evaluation.signature(metric) for metric in evaluation.metrics}
    return Record("", "", "", table.num_rows, sums, signatures, {})


def _whole_of_blocks(tables: Sequence[Any], metrics: Sequence[Metric], resamples: int, seed: int) -> Any:
    import ray

    held: Iterator[Any] = map(ray.get, tables)
    blocks = (table for table in held if table.num_rows)
    return shards.whole_of(metrics, blocks, resamples=resamples, seed=seed)


__all__ = ["Corpus", "Scored", "score", "score_shards"]
