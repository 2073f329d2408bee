"""Agreement with human judgments: a value, interval and rank per metric, on one benchmark under one protocol.

>>> from capmeter.judgments.prepared import RatedCaption, prepare_points
>>> from capmeter.judgments.protocol import Protocol
>>> rows = [RatedCaption(str(k), str(k), "a dog", ("a dog runs",), (k % 4,)) for k in range(40)]
>>> judgments = prepare_points("mine", rows, Protocol(name="p", statistic="tau-b"))
>>> scores = {"good": np.arange(40) % 4 + 0.1 * (np.arange(40) % 3), "none": np.arange(40) % 3}
>>> report = measure_agreement(judgments, scores, resamples=200)
>>> [(each.metric, round(each.value, 1), each.rank) for each in report.results]
[('good', 90.5, 1), ('none', 1.2, 2)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.image_files import with_picture_files
from capmeter.core.errors import InputError, ProtocolError
from capmeter.core.progress import task
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.judgments.benchmarks import all_benchmarks, find_benchmark
from capmeter.judgments.prepared import Floats, JudgedPairs, Points, PreparedJudgments, Systems
from capmeter.judgments.protocol import Protocol
from capmeter.meta.coefficient import CORRELATIONS, SCALE, STATISTICS, category_values, make_statistic, scale_interval
from capmeter.meta.human_level import HumanLevel, human_level
from capmeter.meta.metric_scores import (
    caption_lengths,
    external_scores,
    orient_scores,
    restrict_to_scored,
    score_judgments,
)
from capmeter.meta.published import PublishedValue, published, withheld_sources
from capmeter.stats.bootstrap import Clusters, Interval, bootstrap_interval, paired_difference
from capmeter.stats.pairs import PairAccuracy, TieCalibrated
from capmeter.stats.permutation import association_test, clustered_association_test, williams_test
from capmeter.stats.significance import Ranking


@dataclass(frozen=True)
class LengthControlled:
    """An agreement (x 100) with the length of captions held constant, and its number of judgments."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Agreement:
    """How well a metric agrees with human judgments; values are x 100, as they are published.

    `rank` is the significance cluster: a new one begins with a metric that is significantly worse than the best of the
    previous cluster. `groups` has the value of each category; `p` is that of the permutation test (always of
    systems; of rated captions by `with_p_values`); `tied` (pairs) is how many pairs the metric scores equally;
    `given_length`: see `with_length_control`; `note`: remarks, such as why there is no value; `judging`: how a judge
    was asked (`MetricScores`).
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
    published: PublishedValue | None = None
    signature: str | None = None
    note: str | None = None
    given_length: LengthControlled | None = None
    judging: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class MetricDifference:
    """First minus second metric on the same resamples, in hundredths; p: two-sided, bootstrap (systems: Williams')."""

    first: str
    second: str
    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, eq=False)
class AgreementReport:
    """What `run` returns: results from best to worst, all paired differences, and the scores behind them; `human`: the
    inter-annotator agreement, where the benchmark has raw judgments; `length`: the agreement of the length of captions;
    `controls_length`: results say what is left of them with length held constant.
    """

    benchmark: str
    protocol: Protocol
    unit: str
    results: tuple[Agreement, ...]
    differences: tuple[MetricDifference, ...]
    judgments: PreparedJudgments
    items: Mapping[str, Floats]
    resamples: int
    seed: int
    level: float
    human: HumanLevel | None = None
    length: Agreement | None = None
    controls_length: bool = False

    def __getitem__(self, metric: str) -> Agreement:
        for each in self.results:
            if each.metric == metric:
                return each
        raise InputError(
            f"no metric {metric!r} was evaluated; there are {', '.join(each.metric for each in self.results)}"
        )

    def difference(self, first: str, second: str) -> MetricDifference:
        """First minus second, in whichever order they were ranked."""
        for each in self.differences:
            if (each.first, each.second) == (first, second):
                return each
            if (each.first, each.second) == (second, first):
                return MetricDifference(first, second, -each.value, -each.high, -each.low, each.p)
        raise InputError(f"{first!r} and {second!r} were not both evaluated")

    @property
    def withheld(self) -> dict[str, list[str]]:
        """Metrics with a published value that is not printed, by source: no protocol tried reproduces it."""
        withheld_metrics: dict[str, list[str]] = {}
        if is_preset(self.benchmark, self.protocol):
            for agreement in self.results:
                for source in withheld_sources(self.benchmark, self.protocol.name, agreement.metric):
                    withheld_metrics.setdefault(source, []).append(agreement.metric)
        return withheld_metrics

    def to_dict(self) -> dict[str, Any]:
        """Everything but the scores, as in the JSON output; values x 100."""
        results = [_saved(each) for each in self.results]
        return {
            "benchmark": self.benchmark,
            "protocol": str(self.protocol),
            "unit": self.unit,
            "scale": SCALE,
            "left_out": dict(self.judgments.notes),
            "bootstrap": {"resamples": self.resamples, "seed": self.seed, "level": self.level, "clusters": "image"},
            **({} if self.human is None else {"human_level": vars(self.human)}),
            **({} if self.length is None else {"length": _saved(self.length)}),
            "results": results,
            "differences": [vars(each) for each in self.differences],
        }


LENGTH = "length"
"""The baseline that is shown beside every metric: the number of words of a caption."""
_ALWAYS_SAVED = ("metric", "value", "low", "high", "n")


def _saved(agreement: Agreement) -> dict[str, Any]:
    """What is known, as JSON values."""
    entry = {key: value for key, value in vars(agreement).items() if value not in (None, {}) or key in _ALWAYS_SAVED}
    parts = {"published": agreement.published, "given_length": agreement.given_length}
    return entry | {key: vars(part) for key, part in parts.items() if part is not None}


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
) -> AgreementReport:
    """Evaluates metrics against a benchmark's human judgments.

    Args:
        metrics: names or values, scored on the benchmark's captions under the protocol's reference rule.
        benchmark: its name (`capmeter meta --list`).
        data: the benchmark's file.
        protocol: a preset's name, with changes in parentheses; None is the benchmark's default.
        scores: files of external scores by id (see `scores_file`), or metric → id → score.
        sample: accept a subset of the benchmark.
        resamples: number of resamples of images (or systems) for intervals.
        seed: of the resamples.
        level: of the intervals, such as 0.95.
        images_root: the folder of the benchmark's images, for metrics that need them, found by image id.
        columns: other names of the file's columns, as in `capmeter.load`.
        regions: a folder or LMDB of the images' regions, for metrics that need them.
        settings: device, precision, threads and cache.

    Raises:
        ProtocolError: the file is not what the protocol expects.
        InputError: neither metrics nor scores, or two sets of scores with one name.
    """
    judgments = find_benchmark(benchmark).load(data, protocol, sample=sample, columns=columns)
    if images_root is not None:
        judgments = replace(judgments, captions=with_picture_files(judgments.captions, images_root))
    if regions:
        judgments = replace(judgments, captions=judgments.captions.replace(regions=str(regions)))
    scores_by_metric, signatures, judging = score_judgments(judgments, metrics, settings)
    for metric_name, external_values in external_scores(judgments, scores).items():
        if metric_name in scores_by_metric:
            raise InputError(f"two sets of scores are named {metric_name}; rename one of them")
        scores_by_metric[metric_name] = external_values
    if isinstance(judgments, Systems):
        judgments, scores_by_metric = restrict_to_scored(
            judgments, scores_by_metric or dict(judgments.published_scores)
        )
    if not scores_by_metric:
        raise InputError("nothing to evaluate: name metrics, or give files of scores")
    report = measure_agreement(judgments, scores_by_metric, signatures, resamples=resamples, seed=seed, level=level)
    report = replace(
        report, results=tuple(replace(each, judging=judging.get(each.metric, {})) for each in report.results)
    )
    bootstrap: dict[str, Any] = {"resamples": resamples, "seed": seed, "level": level}
    length = length_agreement(judgments, **bootstrap)
    return replace(report, human=human_level(judgments, **bootstrap), length=length)


def length_agreement(judgments: PreparedJudgments, **bootstrap: Any) -> Agreement | None:
    """The agreement of the number of words of a caption alone; where errors are to be found, longer counts as worse.

    None: there are no captions, or length says nothing about what is asked (localisation).
    """
    statistic, lengths = judgments.protocol.statistic, caption_lengths(judgments)
    if lengths is None or statistic == "localisation":
        return None
    lengths = -lengths if statistic == "average-precision" else lengths
    return measure_agreement(judgments, {LENGTH: lengths}, **bootstrap).results[0]


def measure_agreement(
    judgments: PreparedJudgments,
    scores: Mapping[str, Floats],
    signatures: Mapping[str, str] | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> AgreementReport:
    """Evaluates existing scores (metric → one per id of the judgments, or per system).

    Scores of metrics for which lower is better are negated, so that agreement is positive for every good metric.
    """
    clusters = Clusters(judgments.clusters)
    results: list[Agreement] = []
    intervals: dict[str, Interval] = {}
    with task("judging", total=len(scores)) as advance:
        for metric_name, metric_scores in scores.items():
            if _varies(judgments, metric_scores):
                statistic = make_statistic(judgments, orient_scores(metric_name, metric_scores, judgments.protocol))
                intervals[metric_name] = bootstrap_interval(statistic, clusters, resamples, seed, level)
                agreement = _agreement(judgments, metric_name, metric_scores, statistic, intervals[metric_name], seed)
            else:
                agreement = Agreement(
                    metric_name, None, None, None, len(judgments), note=_constant_note(judgments, metric_scores)
                )
            preset = is_preset(judgments.benchmark, judgments.protocol)
            published_value = published(judgments.benchmark, judgments.protocol.name, metric_name) if preset else None
            results.append(replace(agreement, published=published_value, signature=(signatures or {}).get(metric_name)))
            advance(1)
    results.sort(key=lambda each: -np.inf if each.value is None else each.value, reverse=True)
    metric_names = [each.metric for each in results if each.metric in intervals]
    differences = [_difference(judgments, scores, pair, intervals) for pair in combinations(metric_names, 2)]
    p_values = {(each.first, each.second): each.p for each in differences}
    # p is not corrected: a table of metrics is read pair by pair
    metric_ranks = Ranking.of(
        {metric_name: intervals[metric_name].value for metric_name in metric_names},
        p_values,
        level=level,
        correct=False,
    ).ranks()
    return AgreementReport(
        benchmark=judgments.benchmark,
        protocol=judgments.protocol,
        unit=judgments.unit,
        results=tuple(replace(each, rank=metric_ranks.get(each.metric)) for each in results),
        differences=tuple(differences),
        judgments=judgments,
        items=dict(scores),
        resamples=resamples,
        seed=seed,
        level=level,
    )


def with_p_values(report: AgreementReport, permutations: int = 1000) -> AgreementReport:
    """The report with the p of each coefficient: could a metric without association reach it?

    Images exchange the scores of their captions as a whole (`clustered_association_test`), seeded as the report is. Of
    coefficients around 0 the test is two-sided; of those that are positive, such as average precision, one-sided.

    Raises:
        ProtocolError: the benchmark has no rated captions, or the protocol is of localisation, which has no null.
    """
    judgments = report.judgments
    if not isinstance(judgments, Points):
        raise ProtocolError(f"{report.benchmark}: p-values are of coefficients with ratings; it has {report.unit}")
    if judgments.protocol.statistic == "localisation":
        raise ProtocolError(f"{report.benchmark}: a share of words that are found has no p-value; leave out --p-values")
    image_of = dict(zip(judgments.rows.tolist(), judgments.clusters, strict=True))
    image_ids = [image_of.get(caption_index, id) for caption_index, id in enumerate(judgments.ids)]

    def coefficient(scores: Floats) -> float:
        return float(make_statistic(judgments, scores)(None))

    results = []
    with task("permutations", total=len(report.results)) as advance:
        for each in report.results:
            if each.value is not None:
                metric_scores = orient_scores(each.metric, report.items[each.metric], judgments.protocol)
                test_result = clustered_association_test(
                    coefficient, metric_scores, image_ids, permutations, report.seed
                )
                each = replace(each, p=test_result.p)
            results.append(each)
            advance(1)
    return replace(report, results=tuple(results))


def is_preset(benchmark: str, protocol: Protocol) -> bool:
    """Whether this is one of the benchmark's protocols, unchanged."""
    benchmarks = all_benchmarks()
    return benchmark in benchmarks and benchmarks[benchmark].protocols.get(protocol.name) == protocol


def _varies(judgments: PreparedJudgments, metric_scores: Floats) -> bool:
    """Whether the coefficient is defined: a correlation needs two different scores."""
    statistic = judgments.protocol.statistic
    is_accuracy = isinstance(judgments, JudgedPairs) and statistic not in CORRELATIONS
    return is_accuracy or statistic in ("localisation", "auc") or len(set(metric_scores.tolist())) > 1


def _constant_note(judgments: PreparedJudgments, metric_scores: Floats) -> str:
    unit = "system" if isinstance(judgments, Systems) else "caption"
    if len(metric_scores) == 1:
        return f"has a score for one {unit} only; a correlation needs at least two"
    return f"gives every {unit} the same score, so no correlation is defined"


def _agreement(
    judgments: PreparedJudgments, metric_name: str, metric_scores: Floats, statistic: Any, interval: Interval, seed: int
) -> Agreement:
    note, p = None, None
    if isinstance(statistic, TieCalibrated):
        best = statistic.best()
        sampled = "sampled " if best.sampled else ""
        note = f"is evaluated on {best.pairs:,} {sampled}pairs; differences of at most {best.epsilon:.4g} count as ties"
    if isinstance(judgments, Systems):
        coefficient_name = judgments.protocol.statistic.split("-")[0]
        p = association_test(
            judgments.human, orient_scores(metric_name, metric_scores, judgments.protocol), coefficient_name, seed=seed
        ).p
    return Agreement(
        metric_name,
        *scale_interval(interval),
        len(judgments),
        groups=category_values(statistic, judgments),
        p=p,
        tied=statistic.tied if isinstance(statistic, PairAccuracy) else None,
        note=note,
    )


def _difference(
    judgments: PreparedJudgments,
    scores: Mapping[str, Floats],
    pair: tuple[str, str],
    intervals: Mapping[str, Interval],
) -> MetricDifference:
    """The paired difference; for systems, which are few and independent, p comes from Williams' test."""
    first, second = pair
    interval, p = paired_difference(intervals[first], intervals[second])
    coefficient_name = judgments.protocol.statistic
    if isinstance(judgments, Systems) and coefficient_name in ("pearson", "spearman") and len(judgments) > 3:
        oriented_scores = (orient_scores(metric_name, scores[metric_name], judgments.protocol) for metric_name in pair)
        metric_correlation = float(np.clip(STATISTICS[coefficient_name](*oriented_scores)(), -1, 1))
        p = williams_test(intervals[first].value, intervals[second].value, metric_correlation, len(judgments)).p
    return MetricDifference(first, second, *scale_interval(interval), p)
