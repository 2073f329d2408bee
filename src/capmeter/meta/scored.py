"""The scores to be evaluated: of metrics run on the judged captions, and external scores by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from capmeter._version import __version__
from capmeter.errors import InputError, ProtocolError
from capmeter.judgments.judged import Floats, Judgments, Systems
from capmeter.meta.baselines import BASELINES, Baseline
from capmeter.meta.baselines import parse as parse_baseline
from capmeter.meta.scores_file import read_scores
from capmeter.metrics.base import Metric
from capmeter.metrics.registry import parse_list
from capmeter.named import split_name, split_text
from capmeter.settings import Settings


def measured(
    judgments: Judgments, metrics: str | Iterable[str | Metric], settings: Settings | None = None
) -> tuple[dict[str, Floats], dict[str, str]]:
    """Each metric's scores of the judged captions (for systems: each system's corpus score), and its signature."""
    if not metrics:
        return {}, {}
    from capmeter.metrics.evaluation import score
    from capmeter.metrics.needs import with_required

    chosen, beside = named_metrics(metrics)
    if beside:
        found_scores, signatures = measured(judgments, chosen, settings)
        scores = {str(each): each.scores(judgments) for each in beside}
        signed = {name: f"{name}|capmeter:{__version__}" for name in scores}
        return {**found_scores, **scores}, {**signatures, **signed}
    if len(judgments.captions) == 0:
        raise InputError(
            f"{judgments.benchmark} has systems but no captions to score; give the systems' scores in a file (--scores)"
        )
    bare = int((judgments.captions.references.lengths == 0).sum())
    needing = [str(metric) for metric in with_required(chosen) if "references" in metric.needs]
    if bare and needing:
        raise ProtocolError(
            f"{judgments.benchmark} has no references for {bare:,} of {len(judgments.captions):,} captions, but "
            f"{', '.join(needing)} need them; exclude these captions (leave_out=unreferenced in the protocol)"
        )
    results = score(judgments.captions, metrics=chosen, settings=settings)
    values: dict[str, Floats] = {}
    for metric in chosen:
        found = results[str(metric)]
        if isinstance(judgments, Systems):
            table = np.asarray(found.values)
            rows = [table[members] for members in judgments.members]
            sums, counts = (
                np.stack([each.sum(axis=0) for each in rows]),
                np.asarray([len(each) for each in rows], float),
            )
            values[str(metric)] = np.asarray(metric.finish(sums, counts)["score"], np.float64)
        else:
            values[str(metric)] = judgments.per_caption(np.asarray(found.items.array, np.float64), str(metric))
    return values, {str(metric): str(results[str(metric)].signature) for metric in chosen}


def named_metrics(metrics: str | Iterable[str | Metric]) -> tuple[list[Metric], list[Baseline]]:
    """The metrics of captions among these names, and the baselines."""
    named = split_text(metrics, ",") if isinstance(metrics, str) else list(metrics)
    beside = [each for each in named if isinstance(each, str) and BASELINES.knows(split_name(each, "metric")[0])]
    others = [each for each in named if each not in beside]
    return parse_list(others) if others or not beside else [], [parse_baseline(each) for each in beside]


def given(
    judgments: Judgments, scores: str | Path | Iterable[str | Path] | Mapping[str, Mapping[str, float]]
) -> dict[str, Floats]:
    """External scores by the ids that `--export` writes (or by system), in the judgments' order."""
    ids = tuple(judgments.captions.ids) if judgments.owners is not None else judgments.ids
    if isinstance(judgments, Systems):
        ids = judgments.names
    if isinstance(scores, Mapping):
        tables: list[Mapping[str, Mapping[str, float]]] = [scores]
    else:
        paths = [scores] if isinstance(scores, str | Path) else list(scores)
        tables = [read_scores(path, ids, partial=isinstance(judgments, Systems)) for path in paths]
    values: dict[str, Floats] = {}
    for table in tables:
        for name, by_id in table.items():
            missing = [id for id in ids if id not in by_id]
            if missing and not isinstance(judgments, Systems):
                raise InputError(f"{name} has no score for {len(missing)} ids, the first are {missing[:5]}")
            if name in values:
                raise InputError(f"two sets of scores are named {name}; rename one of them")
            found = np.asarray([by_id.get(id, np.nan) for id in ids], np.float64)
            values[name] = found if isinstance(judgments, Systems) else judgments.per_caption(found, name)
    return values


def common_systems(judgments: Systems, scores: Mapping[str, Floats]) -> tuple[Systems, dict[str, Floats]]:
    """The systems for which every metric has a score, as many as the protocol expects; the others are counted in the
    notes.
    """
    have = [np.isfinite(values) for values in scores.values()]
    kept = [k for k in range(len(judgments.names)) if have and all(each[k] for each in have)]
    judgments.protocol.check(len(kept), judgments.benchmark, judgments.unit)
    if have and not kept:
        raise InputError(
            f"{judgments.benchmark} has no system with a score by every one of {', '.join(scores)}; metrics are "
            "evaluated on the systems that all of them have scored: evaluate them separately"
        )
    if len(kept) < len(judgments.names):
        lost = {"without scores": len(judgments.names) - len(kept)}
        judgments = replace(
            judgments,
            names=tuple(judgments.names[i] for i in kept),
            clusters=tuple(judgments.clusters[i] for i in kept),
            human=judgments.human[kept],
            notes={**judgments.notes, **lost},
        )
    return judgments, {name: values[kept] for name, values in scores.items()}
