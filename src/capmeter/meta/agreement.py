"""Agreement with people: one value, interval and rank per metric, on one benchmark under one protocol.

>>> from capmeter.judgments.judged import Rated, points
>>> from capmeter.judgments.protocol import Protocol
>>> rows = [Rated(str(k), str(k), "a dog", ("a dog runs",), (k % 4,)) for k in range(40)]
>>> judgments = points("mine", rows, Protocol(name="p", statistic="tau-b"))
>>> scores = {"good": np.arange(40) % 4 + 0.1 * (np.arange(40) % 3), "none": np.arange(40) % 3}
>>> report = judge(judgments, scores, draws=200)
>>> [(each.metric, round(each.value, 1), each.rank) for each in report.results]
[('good', 90.5, 1), ('none', 1.2, 2)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from capmeter import progress
from capmeter.errors import InputError, ProtocolError
from capmeter.judgments.benchmarks import benchmark as named_benchmark
from capmeter.judgments.judged import Floats, Judgments, Pairs, Points, Systems
from capmeter.judgments.protocol import Protocol
from capmeter.meta.published import Published, published
from capmeter.meta.scores_file import read_scores
from capmeter.metrics.base import Metric
from capmeter.metrics.registry import parse_list
from capmeter.settings import Settings
from capmeter.stats.bootstrap import Clusters, Interval, difference, interval
from capmeter.stats.correlation import Pearson, Spearman
from capmeter.stats.groups import MeanOfGroups
from capmeter.stats.kendall import TauA, TauB, TauC
from capmeter.stats.pair_accuracy import PairAccuracy, TieCalibrated
from capmeter.stats.permutation import association, williams
from capmeter.stats.significance import Ranking

SCALE = 100
STATISTICS: dict[str, Callable[[Any, Any], Any]] = {
    "tau-a": TauA,
    "tau-b": TauB,
    "tau-c": TauC,
    "pearson": Pearson,
    "spearman": Spearman,
    "accuracy-eq": TieCalibrated,
}


@dataclass(frozen=True)
class Agreement:
    """How far a metric agrees with people; values are in hundredths, as they are published.

    `rank` counts clusters of significance: a metric opens the next where it is significantly worse than the best of
    the cluster before. `groups` has the value of each category; `p` (systems) that of the permutation test; `tied`
    (pairs) how many pairs the metric scores equal; `note`: what else must be known, such as why there is no value.
    """

    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    rank: int | None = None
    groups: Mapping[str, float] = field(default_factory=dict)
    p: float | None = None
    tied: int | None = None
    published: Published | None = None
    signature: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Difference:
    """First minus second metric on the same draws, in hundredths; p: two-sided, bootstrap (systems: Williams' test)."""

    first: str
    second: str
    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, eq=False)
class Report:
    """What `run` found: results from best to worst, all paired differences, and the scores they rest on."""

    benchmark: str
    protocol: Protocol
    unit: str
    results: tuple[Agreement, ...]
    differences: tuple[Difference, ...]
    judgments: Judgments
    items: Mapping[str, Floats]
    draws: int
    seed: int
    level: float

    def __getitem__(self, metric: str) -> Agreement:
        for each in self.results:
            if each.metric == metric:
                return each
        raise InputError(
            f"no metric {metric!r} was judged; there are {', '.join(each.metric for each in self.results)}"
        )

    def difference(self, first: str, second: str) -> Difference:
        """First minus second, whichever is better."""
        for each in self.differences:
            if (each.first, each.second) == (first, second):
                return each
            if (each.first, each.second) == (second, first):
                return Difference(first, second, -each.value, -each.high, -each.low, each.p)
        raise InputError(f"{first!r} and {second!r} were not both judged")

    def to_json(self) -> dict[str, Any]:
        """Everything but the scores, as JSON has it; values in hundredths."""
        results = []
        for each in self.results:
            entry = {key: value for key, value in vars(each).items() if value not in (None, {}) or key in KEPT}
            if each.published is not None:
                entry["published"] = vars(each.published)
            results.append(entry)
        return {
            "benchmark": self.benchmark,
            "protocol": str(self.protocol),
            "unit": self.unit,
            "scale": SCALE,
            "left_out": dict(self.judgments.notes),
            "bootstrap": {"draws": self.draws, "seed": self.seed, "level": self.level, "clusters": "image"},
            "results": results,
            "differences": [vars(each) for each in self.differences],
        }


KEPT = ("metric", "value", "low", "high", "n")


def run(
    metrics: str | Iterable[str | Metric] = (),
    *,
    benchmark: str,
    data: str | Path,
    protocol: str | Protocol | None = None,
    scores: str | Path | Iterable[str | Path] | Mapping[str, Mapping[str, float]] = (),
    sample: bool = False,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    settings: Settings | None = None,
) -> Report:
    """Judges metrics by a benchmark's human judgments.

    metrics: names or values, scored on the benchmark's captions under the protocol's reference rule.
    data: the benchmark's file. protocol: a preset's name, with changes in brackets; None is the benchmark's default.
    scores: files of anyone's scores by id (see `scores_file`), or metric → id → score.
    sample: accept a part of the set. draws, seed, level: of the cluster bootstrap.
    settings: of this machine (device, precision …).
    """
    judgments = named_benchmark(benchmark).load(data, protocol, sample=sample)
    values, signatures = measured(judgments, metrics, settings)
    for name, found in given(judgments, scores).items():
        if name in values:
            raise InputError(f"there are two sets of scores named {name}; rename one of them")
        values[name] = found
    if isinstance(judgments, Systems):
        judgments, values = _scored(judgments, values or dict(judgments.published_scores))
    if not values:
        raise InputError("there is nothing to judge: name metrics, or give files of scores")
    return judge(judgments, values, signatures, draws=draws, seed=seed, level=level)


def measured(
    judgments: Judgments, metrics: str | Iterable[str | Metric], settings: Settings | None = None
) -> tuple[dict[str, Floats], dict[str, str]]:
    """Each metric's scores of the judgments' captions (of systems: each system's corpus score), and its signature."""
    if not metrics:
        return {}, {}
    from capmeter.metrics.evaluation import score, with_required

    chosen = parse_list(metrics)
    if len(judgments.captions) == 0:
        raise InputError(
            f"{judgments.benchmark} has no captions to score, only systems; give their scores in a file (--scores)"
        )
    bare = int((judgments.captions.references.lengths == 0).sum())
    needing = [str(metric) for metric in with_required(chosen) if "references" in metric.needs]
    if bare and needing:
        raise ProtocolError(
            f"{judgments.benchmark} has no references for {bare:,} of {len(judgments.captions):,} captions, but "
            f"{', '.join(needing)} need them; leave those out (leave_out=unreferenced in the protocol's brackets)"
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
            values[str(metric)] = judgments.per_caption(np.asarray(found.items.array, np.float64))
    return values, {str(metric): str(results[str(metric)].signature) for metric in chosen}


def given(
    judgments: Judgments, scores: str | Path | Iterable[str | Path] | Mapping[str, Mapping[str, float]]
) -> dict[str, Floats]:
    """Scores that came from elsewhere, by the ids that `--export` writes (or by system), in the judgments' order."""
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
                raise InputError(f"there are two sets of scores named {name}; rename one of them")
            found = np.asarray([by_id.get(id, np.nan) for id in ids], np.float64)
            values[name] = found if isinstance(judgments, Systems) else judgments.per_caption(found)
    return values


def judge(
    judgments: Judgments,
    scores: Mapping[str, Floats],
    signatures: Mapping[str, str] | None = None,
    *,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Report:
    """Judges scores (metric → one per id of the judgments, or per system) that are already there."""
    clusters = Clusters(judgments.clusters)
    made: list[tuple[Agreement, Interval | None]] = []
    with progress.task("judging", total=len(scores)) as advance:
        for name, values in scores.items():
            made.append(_agreement(judgments, name, values, clusters, draws, seed, level, signatures or {}))
            advance(1)
    made.sort(key=lambda pair: -np.inf if pair[0].value is None else pair[0].value, reverse=True)
    found = {each.metric: drawn for each, drawn in made if drawn is not None}
    names = list(found)
    differences = [
        _difference(judgments, scores, first, second, found)
        for k, first in enumerate(names)
        for second in names[k + 1 :]
    ]
    p = {(each.first, each.second): each.p for each in differences}
    # p of each pair as it is: a table of metrics is read pair by pair
    ranking = Ranking.of({name: found[name].value for name in names}, p, level=level, correct=False)
    ranks = ranking.ranks()
    return Report(
        benchmark=judgments.benchmark,
        protocol=judgments.protocol,
        unit=judgments.unit,
        results=tuple(replace(each, rank=ranks.get(each.metric)) for each, _ in made),
        differences=tuple(differences),
        judgments=judgments,
        items=dict(scores),
        draws=draws,
        seed=seed,
        level=level,
    )


def statistic(judgments: Judgments, values: Floats) -> Any:
    """The protocol's statistic of these scores, ready for any weights of the judgments."""
    protocol = judgments.protocol
    if isinstance(judgments, Pairs):
        if protocol.statistic != "accuracy":
            raise ProtocolError(
                f"{judgments.benchmark} has pairs, which {protocol.statistic} cannot judge: accuracy can"
            )
        gaps = values[judgments.first] - values[judgments.second]
        return PairAccuracy(gaps, judgments.better, judgments.groups, protocol.ties, protocol.seed)
    if protocol.statistic == "accuracy":
        raise ProtocolError(f"{judgments.benchmark} has ratings, which accuracy cannot judge: accuracy-eq can")
    human, judged = _sides(judgments, values)
    if protocol.statistic == "accuracy-eq":
        return TieCalibrated(human, judged, judgments.groups)
    make = STATISTICS[protocol.statistic]
    return MeanOfGroups(make, human, judged, judgments.groups) if judgments.groups else make(human, judged)


def _sides(judgments: Judgments, values: Floats) -> tuple[Floats, Floats]:
    if isinstance(judgments, Points):
        return judgments.human, values[judgments.rows]
    if isinstance(judgments, Systems):
        return judgments.human, values
    raise ProtocolError(f"{judgments.benchmark} has no ratings")


def _agreement(
    judgments: Judgments,
    name: str,
    values: Floats,
    clusters: Clusters,
    draws: int,
    seed: int,
    level: float,
    signatures: Mapping[str, str],
) -> tuple[Agreement, Interval | None]:
    preset = named_benchmark(judgments.benchmark).protocols if judgments.benchmark in _benchmarks() else {}
    unchanged = preset.get(judgments.protocol.name) == judgments.protocol
    known = published(judgments.benchmark, judgments.protocol.name, name) if unchanged else None
    shared: dict[str, Any] = {"published": known, "signature": signatures.get(name)}
    of = "system" if isinstance(judgments, Systems) else "caption"
    if not isinstance(judgments, Pairs) and len(set(values.tolist())) < 2:
        note = f"gives every {of} the same score, so that nothing correlates with it"
        if len(values) == 1:
            note = f"has the score of one {of} alone; a correlation needs two"
        return Agreement(name, None, None, None, len(judgments), note=note, **shared), None
    made = statistic(judgments, values)
    found = interval(made, clusters, draws, seed, level)
    groups: dict[str, float] = {}
    if isinstance(made, MeanOfGroups) and judgments.protocol.by != "image_id":
        groups = {group: SCALE * value for group, value in made.by_group().items()}
    if isinstance(made, TieCalibrated):
        best = made.best()
        drawn = "drawn " if best.sampled else ""
        shared["note"] = (
            f"is judged on {best.pairs:,} {drawn}pairs, and ties what differs by at most {best.epsilon:.4g}"
        )
    if isinstance(made, PairAccuracy):
        shared["tied"] = made.tied
        if judgments.groups is not None:
            groups = dict(zip(made.groups, (SCALE * made.by_group()[0]).tolist(), strict=True))
    if isinstance(judgments, Systems):
        kind = judgments.protocol.statistic.split("-")[0]
        shared["p"] = association(judgments.human, values, kind, seed=seed).p
    agreement = Agreement(
        name, SCALE * found.value, SCALE * found.low, SCALE * found.high, len(judgments), groups=groups, **shared
    )
    return agreement, found


def _benchmarks() -> Iterable[str]:
    from capmeter.judgments.benchmarks import table

    return table()


def _difference(
    judgments: Judgments, scores: Mapping[str, Floats], first: str, second: str, found: Mapping[str, Interval]
) -> Difference:
    """The paired difference; among systems, which are few and independent, its p is that of Williams' test."""
    gap, p = difference(found[first], found[second])
    kind = judgments.protocol.statistic
    if isinstance(judgments, Systems) and kind in ("pearson", "spearman") and len(judgments) > 3:
        between = float(np.clip(STATISTICS[kind](scores[first], scores[second])(), -1, 1))
        p = williams(found[first].value, found[second].value, between, len(judgments)).p
    return Difference(first, second, SCALE * gap.value, SCALE * gap.low, SCALE * gap.high, p)


def _scored(judgments: Systems, scores: Mapping[str, Floats]) -> tuple[Systems, dict[str, Floats]]:
    """The systems that all metrics have a score of, as many as the protocol expects; the others are noted."""
    have = [np.isfinite(values) for values in scores.values()]
    kept = [k for k in range(len(judgments.names)) if have and all(each[k] for each in have)]
    judgments.protocol.check(len(kept), judgments.benchmark, judgments.unit)
    if have and not kept:
        raise InputError(
            f"{judgments.benchmark} has no system with a score of each of {', '.join(scores)}; metrics are judged on "
            "the systems that all of them have scored: judge them apart"
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
