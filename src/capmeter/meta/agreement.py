"""Agreement with people: one value, interval and rank per metric, on one benchmark under one protocol.

>>> from capmeter.judgments.judged import Rated, points
>>> from capmeter.judgments.protocol import Protocol
>>> rows = [Rated(str(k), str(k), "a dog", ("a dog runs",), (k % 4,)) for k in range(40)]
>>> judgments = points("mine", rows, Protocol(name="p", statistic="tau-b"))
>>> scores = {"good": np.arange(40) % 4 + 0.1 * (np.arange(40) % 3), "none": np.arange(40) % 3}
>>> report = judge(judgments, scores, resamples=200)
>>> [(each.metric, round(each.value, 1), each.rank) for each in report.results]
[('good', 90.5, 1), ('none', 1.2, 2)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from capmeter import progress
from capmeter.captions.picture_files import with_picture_files, with_regions
from capmeter.errors import InputError
from capmeter.judgments.benchmarks import benchmark as named_benchmark
from capmeter.judgments.benchmarks import table as benchmarks
from capmeter.judgments.judged import Floats, Judgments, Pairs, Systems
from capmeter.judgments.protocol import Protocol
from capmeter.meta.coefficient import STATISTICS, statistic
from capmeter.meta.human_level import SCALE, HumanLevel, human_level
from capmeter.meta.published import Published, published
from capmeter.meta.scored import common_systems, given, measured
from capmeter.metrics.base import Metric
from capmeter.settings import Settings
from capmeter.stats.bootstrap import Clusters, Interval, difference, interval
from capmeter.stats.groups import MeanOfGroups
from capmeter.stats.pair_accuracy import PairAccuracy, TieCalibrated
from capmeter.stats.permutation import association, williams
from capmeter.stats.significance import Ranking


@dataclass(frozen=True)
class Agreement:
    """How well a metric agrees with people; values are x 100, as they are published.

    `rank` is the significance cluster: a new one begins with a metric that is significantly worse than the best of the
    previous cluster. `groups` has the value of each category; `p` (systems) is that of the permutation test; `tied`
    (pairs) is how many pairs the metric scores equally; `note`: remarks, such as why there is no value.
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
    """First minus second metric on the same resamples, in hundredths; p: two-sided, bootstrap (systems: Williams')."""

    first: str
    second: str
    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, eq=False)
class Report:
    """What `run` returns: results from best to worst, all paired differences, and the scores behind them; `human`: how
    well people agree with each other, where the benchmark has raw judgments.
    """

    benchmark: str
    protocol: Protocol
    unit: str
    results: tuple[Agreement, ...]
    differences: tuple[Difference, ...]
    judgments: Judgments
    items: Mapping[str, Floats]
    resamples: int
    seed: int
    level: float
    human: HumanLevel | None = None

    def __getitem__(self, metric: str) -> Agreement:
        for each in self.results:
            if each.metric == metric:
                return each
        raise InputError(
            f"no metric {metric!r} was evaluated; there are {', '.join(each.metric for each in self.results)}"
        )

    def difference(self, first: str, second: str) -> Difference:
        """First minus second, in whichever order they were ranked."""
        for each in self.differences:
            if (each.first, each.second) == (first, second):
                return each
            if (each.first, each.second) == (second, first):
                return Difference(first, second, -each.value, -each.high, -each.low, each.p)
        raise InputError(f"{first!r} and {second!r} were not both evaluated")

    def to_dict(self) -> dict[str, Any]:
        """Everything but the scores, as in the JSON output; values x 100."""
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
            "bootstrap": {"resamples": self.resamples, "seed": self.seed, "level": self.level, "clusters": "image"},
            **({} if self.human is None else {"human_level": vars(self.human)}),
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
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    images_root: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    regions: str | Path = "",
    settings: Settings | None = None,
) -> Report:
    """Evaluates metrics against a benchmark's human judgments.

    metrics: names or values, scored on the benchmark's captions under the protocol's reference rule.
    data: the benchmark's file. protocol: a preset's name, with changes in parentheses; None is the benchmark's default.
    scores: files of external scores by id (see `scores_file`), or metric → id → score.
    sample: accept a subset of the benchmark. resamples, seed, level: of the cluster bootstrap.
    images_root: the folder of the benchmark's pictures, for metrics that need them, found by image id.
    columns: other names of the file's columns, as in `capmeter.load`.
    regions: a folder or LMDB of the pictures' regions, for metrics that need them.
    settings: device, precision, threads and cache.
    """
    judgments = named_benchmark(benchmark).load(data, protocol, sample=sample, columns=columns)
    if images_root is not None:
        judgments = replace(judgments, captions=with_picture_files(judgments.captions, images_root))
    if regions:
        judgments = replace(judgments, captions=with_regions(judgments.captions, regions))
    values, signatures = measured(judgments, metrics, settings)
    for name, found in given(judgments, scores).items():
        if name in values:
            raise InputError(f"two sets of scores are named {name}; rename one of them")
        values[name] = found
    if isinstance(judgments, Systems):
        judgments, values = common_systems(judgments, values or dict(judgments.published_scores))
    if not values:
        raise InputError("there is nothing to evaluate: name metrics, or give files of scores")
    report = judge(judgments, values, signatures, resamples=resamples, seed=seed, level=level)
    return replace(report, human=human_level(judgments, resamples=resamples, seed=seed, level=level))


def judge(
    judgments: Judgments,
    scores: Mapping[str, Floats],
    signatures: Mapping[str, str] | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Report:
    """Evaluates existing scores (metric → one per id of the judgments, or per system)."""
    clusters = Clusters(judgments.clusters)
    made: list[tuple[Agreement, Interval | None]] = []
    with progress.task("judging", total=len(scores)) as advance:
        for name, values in scores.items():
            made.append(_agreement(judgments, name, values, clusters, resamples, seed, level, signatures or {}))
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
    # p is not corrected: a table of metrics is read pair by pair
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
        resamples=resamples,
        seed=seed,
        level=level,
    )


def _agreement(
    judgments: Judgments,
    name: str,
    values: Floats,
    clusters: Clusters,
    resamples: int,
    seed: int,
    level: float,
    signatures: Mapping[str, str],
) -> tuple[Agreement, Interval | None]:
    unchanged = is_preset(judgments.benchmark, judgments.protocol)
    known = published(judgments.benchmark, judgments.protocol.name, name) if unchanged else None
    shared: dict[str, Any] = {"published": known, "signature": signatures.get(name)}
    of = "system" if isinstance(judgments, Systems) else "caption"
    if not isinstance(judgments, Pairs) and len(set(values.tolist())) < 2:
        note = f"gives every {of} the same score, so no correlation is defined"
        if len(values) == 1:
            note = f"has a score for one {of} only; a correlation needs at least two"
        return Agreement(name, None, None, None, len(judgments), note=note, **shared), None
    made = statistic(judgments, values)
    found = interval(made, clusters, resamples, seed, level)
    groups: dict[str, float] = {}
    if isinstance(made, MeanOfGroups) and judgments.protocol.by != "image_id":
        groups = {group: SCALE * value for group, value in made.by_group().items()}
    if isinstance(made, TieCalibrated):
        best = made.best()
        drawn = "sampled " if best.sampled else ""
        shared["note"] = (
            f"is evaluated on {best.pairs:,} {drawn}pairs; differences of at most {best.epsilon:.4g} count as ties"
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


def is_preset(benchmark: str, protocol: Protocol) -> bool:
    """Whether this is one of the benchmark's protocols, unchanged."""
    return benchmark in benchmarks() and benchmarks()[benchmark].protocols.get(protocol.name) == protocol


def _difference(
    judgments: Judgments, scores: Mapping[str, Floats], first: str, second: str, found: Mapping[str, Interval]
) -> Difference:
    """The paired difference; for systems, which are few and independent, p comes from Williams' test."""
    gap, p = difference(found[first], found[second])
    kind = judgments.protocol.statistic
    if isinstance(judgments, Systems) and kind in ("pearson", "spearman") and len(judgments) > 3:
        between = float(np.clip(STATISTICS[kind](scores[first], scores[second])(), -1, 1))
        p = williams(found[first].value, found[second].value, between, len(judgments)).p
    return Difference(first, second, SCALE * gap.value, SCALE * gap.low, SCALE * gap.high, p)
