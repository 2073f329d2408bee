"""Scoring on a Ray cluster: files of captions, or a Ray Dataset.

    capmeter score --engine ray --shards 'captions/*.parquet' --metrics bleu-4,cider-d --output scores/

    from capmeter.integrations.ray import score, score_shards
    corpus = score_shards("captions/*.parquet", "bleu-4,cider-d", "scores/")        # files in, files out
    scored = score(dataset, "bleu-4,cider-d")                                       # a Dataset in, a Dataset out
    scored.corpus.scores["cider-d"], scored.dataset

Ray schedules; `Evaluation` does the work. Actors collect what metrics need of all captions (document frequencies) shard
by shard, merge it in a tree, and score shard by shard; each gets the shards that it has read and tokenised before
(`shards.Scorer` says what is kept of them), and others' when it has no more of its own. What was collected stays in
Ray's store: the process that calls holds a record of a few kilobytes per shard, however many captions there are.

A network is loaded once per actor; `gpus` is the share of a GPU that each may use. The shards of a worker or a node
that is lost are done by the others; a run that was killed and is started again goes on from its finished shards
(`capmeter.integrations.shards`).

Ray is joined where `RAY_ADDRESS` says, or started on this machine; on a cluster the files must be where every node
finds them by the same path.
"""

from __future__ import annotations

import functools
import json
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.columns import Columns
from capmeter.captions.files import write_atomic
from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.integrations import frames, shards
from capmeter.integrations.actors import Actor, Actors, Run, Work, by_tasks, got, joined, number_of
from capmeter.integrations.shards import MOST_AT_ONCE, SUMMARY, Corpus, Record, Shard
from capmeter.metrics.base import Metric
from capmeter.metrics.evaluation import Evaluation, States
from capmeter.metrics.needs import needed
from capmeter.metrics.registry import parse_list
from capmeter.settings import Settings

_WIDTH = 8  # states that are merged at once
_LOSSES = 20  # of nodes with what was collected


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
        workers: number of actors; 0: one for each processor of the cluster, or for each share of its GPUs.
        gpus: the share of a GPU for each of them (.25: four share one), for neural metrics.
        intervals: whether corpus scores get 95% intervals, from `resamples` and `seed`, as `capmeter score` gives them;
            there are none from ten million captions on.
        settings: device, precision, cache of neural metrics; each worker has one thread.

    Returns:
        The corpus scores, which are those of one process.

    Raises:
        InputError: no file matches, captions lack references, a file cannot be read, there are not so many GPUs.
        MissingBackend: Ray is not installed.
    """
    chosen = parse_list(metrics)
    files = shards.shards_of(pattern, output, None if references is None else str(Path(references).absolute()))
    evaluation = Evaluation(tuple(chosen), replace(settings or Settings(), threads=1))
    with Actors(_Worker, min(number_of(workers, gpus), len(files)), gpus) as actors:
        digests = _fetched(actors.run("digest", {shard: (shard,) for shard in files}, "checking"))
        plan = shards.plan_of(chosen, evaluation.settings, [digests[shard] for shard in files])
        each = {shard: (shard, plan, digests[shard]) for shard in files}
        checked: dict[Shard, Record | str] = _fetched(actors.run("finished", each, "checking scores"))
        records = {shard: record for shard, record in checked.items() if isinstance(record, Record)}
        redone = {shard.target: reason for shard in files if isinstance(reason := checked[shard], str) and reason}
        found = len(records)
        _score(actors, evaluation, each, records)
        whole = None
        if sum(record.captions for record in records.values()) < MOST_AT_ONCE:
            given = files, chosen, resamples if intervals else 0, seed
            whole = _fetched(actors.run("whole", {"whole": given}, "corpus scores"))["whole"]
    corpus = shards.merged(chosen, (records[shard] for shard in files), whole=whole, redone=redone, found=found)
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
    ray, run = joined(), by_tasks(_Worker)
    chosen = parse_list(metrics)
    evaluation = Evaluation(tuple(chosen), replace(settings or Settings(), threads=1))
    most = number_of(workers, gpus)
    dataset.context.execution_options.preserve_order = True  # the scores are in the order of the captions
    held = dataset.materialize()
    named = dict(columns or {})
    known = _known(
        run, evaluation, "collect_block", {k: (block, named) for k, block in enumerate(held.to_arrow_refs())}
    )
    scored = held.map_batches(
        _BatchScorer,
        fn_constructor_args=(known, named),
        batch_format="pyarrow",
        batch_size=min(metric.ROWS for metric in evaluation.order),
        num_gpus=gpus,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
    ).materialize()
    tables = scored.to_arrow_refs()
    sums = _fetched(run("sums_of_block", {k: (known, table) for k, table in enumerate(tables)}, "summing"))
    whole = None
    if sum(each.captions for each in sums.values()) < MOST_AT_ONCE:
        given = tables, chosen, resamples if intervals else 0, seed
        whole = _fetched(run("whole_of_blocks", {"whole": given}, "corpus scores"))["whole"]
    return Scored(scored, shards.merged(chosen, [each for each in sums.values() if each.captions], whole=whole))


def _fetched(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Results by key, which are small."""
    return {key: got(result) for key, result in pairs}


def _score(
    actors: Actors, evaluation: Evaluation, each: Mapping[Shard, tuple[Any, ...]], records: dict[Shard, Record]
) -> None:
    """Adds the records of the shards that are not yet scored, which lie in files from then on."""
    from ray.exceptions import ObjectLostError

    losses = 0
    while len(records) < len(each):
        try:
            known = _known(actors.run, evaluation, "collect", {shard: (shard,) for shard in each})
            work = {shard: (known, *given) for shard, given in each.items() if shard not in records}
            for shard, record in actors.run("score", work, "scoring"):
                records[shard] = got(record)
        except ObjectLostError:  # what was collected was on a node that is gone; most of it is quickly collected again
            losses += 1
            if losses == _LOSSES:
                raise


def _known(run: Run, evaluation: Evaluation, collect: str, given: Work) -> Any:
    """A reference to the evaluation that knows all corpus states, which are merged in a tree and never come here."""
    import ray

    known = ray.put(evaluation)
    while evaluation.pending:
        states = _in_order(run(collect, {key: (known, *each) for key, each in given.items()}, "collecting"), given)
        while len(states) > _WIDTH:
            several = {k: tuple(states[k : k + _WIDTH]) for k in range(0, len(states), _WIDTH)}
            states = _in_order(run("merge", several, "merging"), several)
        (known,) = _in_order(run("know", {"known": (known, *states)}, "merging"), ["known"])
        evaluation = evaluation.knowing(States(dict.fromkeys(evaluation.pending)))  # what is known, not the states
    return known


def _in_order(pairs: Iterable[tuple[Any, Any]], keys: Iterable[Any]) -> list[Any]:
    """Results in the order of the keys and not of their end, so that their sum is the same in every run."""
    found = dict(pairs)
    return [found[key] for key in keys]


class _Worker(Actor):
    """What is done on a node; an actor keeps what it has read from collecting to scoring, and networks."""

    def __init__(self) -> None:
        self._scorer = shards.Scorer()

    def digest(self, shard: Shard) -> str:
        return shards.digest_of(shard.source)

    def finished(self, shard: Shard, plan: str, digest: str) -> Record | str:
        return shards.finished(shard, plan, digest)

    def collect(self, evaluation: Evaluation, shard: Shard) -> States:
        return self._scorer.collect(evaluation, shard)

    def merge(self, *states: States) -> States:
        return functools.reduce(operator.add, states)

    def know(self, evaluation: Evaluation, *states: States) -> Evaluation:
        return evaluation.knowing(self.merge(*states))

    def score(self, evaluation: Evaluation, shard: Shard, plan: str, digest: str) -> Record:
        return self._scorer.score(evaluation, shard, plan, digest)

    def whole(self, files: Sequence[Shard], metrics: Sequence[Metric], resamples: int, seed: int) -> Any:
        return shards.whole_of(metrics, shards.tables_of(files, metrics), resamples=resamples, seed=seed)

    # the same of blocks

    def collect_block(self, evaluation: Evaluation, table: Any, columns: Mapping[str, str]) -> States:
        return evaluation.collect(_captions(table, columns, evaluation.order))

    def sums_of_block(self, evaluation: Evaluation, table: Any) -> Record:
        sums = {
            str(metric): [float(np.sum(table[f"{metric}/{kind}"].to_numpy())) for kind in metric.columns]
            for metric in (evaluation.metrics if table.num_rows else ())
        }
        signatures = {str(metric): evaluation.signature(metric) for metric in evaluation.metrics}
        return Record("", "", "", table.num_rows, sums, signatures, {})

    def whole_of_blocks(self, tables: Sequence[Any], metrics: Sequence[Metric], resamples: int, seed: int) -> Any:
        blocks = (table for table in map(got, tables) if table.num_rows)  # fetched one by one
        return shards.whole_of(metrics, blocks, resamples=resamples, seed=seed)


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


__all__ = ["Corpus", "Scored", "score", "score_shards"]
