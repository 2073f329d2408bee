"""Agreement with human judgments: a value, interval and rank per metric, on one benchmark under one protocol.

Everything that is measured is a row of one long table: the values of metrics, of categories, of the length of captions
alone and of people; published values; paired differences; and what other modules add to it (length held constant,
ratings of systems). Tables, plots, JSON and files are made from these rows.

>>> from capmeter.judgments.prepared import RatedCaption, prepare_points
>>> from capmeter.judgments.protocol import Protocol
>>> rows = [RatedCaption(str(k), str(k), "a dog", ("a dog runs",), (k % 4,)) for k in range(40)]
>>> judgments = prepare_points("mine", rows, Protocol(name="p", statistic="tau-b"))
>>> scores = {"good": np.arange(40) % 4 + 0.1 * (np.arange(40) % 3), "none": np.arange(40) % 3}
>>> table = measure_agreement(judgments, scores, resamples=200)
>>> [(row.metric, round(row.value, 1), row.rank) for row in table.results]
[('good', 90.5, 1), ('none', 1.2, 2)]
>>> [(row.metric, row.other, round(row.value, 1)) for row in table.of("differences")]
[('good', 'none', 89.3)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.load_options import LoadOptions
from capmeter.core.assets import find_checkpoint
from capmeter.core.checkpoints import hash_texts, read_training
from capmeter.core.errors import InputError
from capmeter.core.progress import task
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import parse_list, with_required
from capmeter.images.reading import with_picture_files
from capmeter.judgments.benchmarks import all_benchmarks, find_benchmark
from capmeter.judgments.prepared import Floats, JudgedPairs, PreparedJudgments, Systems
from capmeter.judgments.protocol import Protocol
from capmeter.meta.coefficient import (
    CORRELATIONS,
    SCALE,
    STATISTICS,
    AgreementRow,
    category_values,
    make_statistic,
    scale_interval,
)
from capmeter.meta.human_level import human_level
from capmeter.meta.metric_scores import (
    caption_lengths,
    external_scores,
    orient_scores,
    restrict_to_scored,
    score_judgments,
)
from capmeter.meta.published import published
from capmeter.stats.bootstrap import Clusters, Interval, bootstrap_interval, paired_difference
from capmeter.stats.pairs import PairAccuracy, TieCalibrated
from capmeter.stats.permutation import association_test, williams_test
from capmeter.stats.significance import Ranking

LENGTH = "length"
"""The baseline that is shown beside every metric: the number of words of a caption."""


@dataclass(frozen=True, eq=False)
class AgreementTable:
    """What `run` returns: the rows, the judgments and the scores behind them (metric → one per id, or per system).

    `results` are the metrics' values, best first; their `rank` is the significance cluster: a new one begins with a
    metric that is significantly worse than the best of the previous cluster.
    """

    judgments: PreparedJudgments
    items: Mapping[str, Floats]
    rows: tuple[AgreementRow, ...]
    resamples: int
    seed: int
    level: float

    @property
    def benchmark(self) -> str:
        """The benchmark's name."""
        return self.judgments.benchmark

    @property
    def protocol(self) -> Protocol:
        """The protocol of the judgments."""
        return self.judgments.protocol

    @property
    def results(self) -> list[AgreementRow]:
        """The value of each metric, best first."""
        return self.of("results")

    def __getitem__(self, metric: str) -> AgreementRow:
        for row in self.results:
            if row.metric == metric:
                return row
        raise InputError(
            f"no metric {metric!r} was evaluated; there are {', '.join(row.metric for row in self.results)}"
        )

    def of(self, analysis: str, metric: str | None = None) -> list[AgreementRow]:
        """The rows of an analysis; of one metric, or of all."""
        return [row for row in self.rows if row.analysis == analysis and metric in (None, row.metric)]

    def find(self, analysis: str, metric: str) -> AgreementRow | None:
        """The row of a metric in an analysis that has one row for each metric; None if it has none."""
        return next(iter(self.of(analysis, metric)), None)

    def categories(self, metric: str) -> dict[str, float]:
        """The value of each category of the protocol."""
        return {row.subset: row.value for row in self.of("categories", metric) if row.value is not None}

    def add(self, rows: Iterable[AgreementRow]) -> AgreementTable:
        """The table with more rows."""
        return replace(self, rows=(*self.rows, *rows))

    def to_arrow(self) -> Any:
        """The rows as a `pyarrow.Table`, with the columns `benchmark` and `protocol`."""
        import pyarrow

        types = {"str": pyarrow.string(), "float": pyarrow.float64(), "int": pyarrow.int64()}
        columns = {each.name: types[str(each.type).split(" ")[0]] for each in fields(AgreementRow)}
        table = pyarrow.Table.from_pylist([asdict(row) for row in self.rows], schema=pyarrow.schema(columns.items()))
        for name in ("protocol", "benchmark"):
            table = table.add_column(0, name, pyarrow.array([str(getattr(self, name))] * len(table), pyarrow.string()))
        return table

    def to_dict(self) -> dict[str, Any]:
        """The table as in the JSON output: the rows of each analysis, without what they do not have."""
        analyses: dict[str, Any] = {}
        for row in self.rows:
            if row.analysis in ("length", "human_level"):  # one row
                analyses[row.analysis] = row.to_dict()
            else:
                analyses.setdefault(row.analysis, []).append(row.to_dict())
        return {
            "benchmark": self.benchmark,
            "protocol": str(self.protocol),
            "unit": self.judgments.unit,
            "scale": SCALE,
            "left_out": dict(self.judgments.notes),
            "bootstrap": {"resamples": self.resamples, "seed": self.seed, "level": self.level, "clusters": "image"},
            **analyses,
        }


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
) -> AgreementTable:
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
    columns = LoadOptions(columns=columns).columns  # which checks their type
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
    bootstrap: dict[str, Any] = {"resamples": resamples, "seed": seed, "level": level}
    table = measure_agreement(judgments, scores_by_metric, signatures, **bootstrap)
    baselines = [*length_rows(judgments, **bootstrap), *human_level(judgments, **bootstrap)]
    return table.add([*judging, *baselines, *training_rows(judgments, parse_list(metrics) if metrics else ())])


def training_rows(judgments: PreparedJudgments, metrics: Iterable[Metric]) -> list[AgreementRow]:
    """Metrics whose networks were trained on texts of the benchmark, or chosen by their agreement with it.

    Args:
        judgments: with the captions.
        metrics: of which the checkpoints that they name, or that have their names, are looked at.
    """
    rows, hashes = [], hash_texts(judgments.captions.pool.sentences)
    for metric in metrics:
        names = [text for each in with_required([metric]) for text in (each.name, *each.parameters().values())]
        for folder in {find_checkpoint(name): None for name in names if isinstance(name, str)}:
            data, selection = ((), "") if folder is None else read_training(folder)
            for each in data:
                if share := each.share_of(hashes):
                    note = f"was trained on about {share:.0%} of the texts of this benchmark ({each.name})"
                    rows.append(AgreementRow("training", str(metric), "texts", SCALE * share, note=note))
            if f"{judgments.benchmark} under " in selection:
                note = f"was chosen by its agreement with this benchmark ({selection.partition('(')[0]})"
                rows.append(AgreementRow("training", str(metric), "selection", note=note))
    return rows


def length_rows(judgments: PreparedJudgments, **bootstrap: Any) -> list[AgreementRow]:
    """The agreement of the number of words of a caption alone; where errors are to be found, longer counts as worse.

    None: there are no captions, or length says nothing about what is asked (localisation).
    """
    statistic, lengths = judgments.protocol.statistic, caption_lengths(judgments)
    if lengths is None or statistic == "localisation":
        return []
    lengths = -lengths if statistic == "average-precision" else lengths
    table = measure_agreement(judgments, {LENGTH: lengths}, **bootstrap)
    return [replace(table[LENGTH], analysis="length", rank=None), *table.of("categories")]


def measure_agreement(
    judgments: PreparedJudgments,
    scores: Mapping[str, Floats],
    signatures: Mapping[str, str] | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> AgreementTable:
    """Evaluates existing scores (metric → one per id of the judgments, or per system).

    Scores of metrics for which lower is better are negated, so that agreement is positive for every good metric.

    Args:
        judgments: of captions, pairs or systems.
        scores: metric → one score per id, or per system.
        signatures: of metrics that have one.
        resamples, seed, level: of the intervals.
    """
    clusters = Clusters(judgments.clusters)
    results: list[AgreementRow] = []
    details: list[AgreementRow] = []
    intervals: dict[str, Interval] = {}
    known_benchmark = all_benchmarks().get(judgments.benchmark)
    protocol = judgments.protocol
    is_preset = known_benchmark is not None and known_benchmark.protocols.get(protocol.name) == protocol
    with task("judging", total=len(scores)) as advance:
        for metric_name, metric_scores in scores.items():
            signature = (signatures or {}).get(metric_name, "")
            row = AgreementRow("results", metric_name, protocol.statistic, n=len(judgments), signature=signature)
            if _varies(judgments, metric_scores):
                oriented_scores = orient_scores(metric_name, metric_scores, protocol)
                statistic = make_statistic(judgments, oriented_scores)
                intervals[metric_name] = bootstrap_interval(statistic, clusters, resamples, seed, level)
                value, low, high = scale_interval(intervals[metric_name])
                p = None  # of captions; systems are few and independent
                if isinstance(judgments, Systems):
                    p = association_test(judgments.human, oriented_scores, protocol.statistic.split("-")[0], seed=seed)
                row = replace(row, value=value, low=low, high=high, p=p, note=_calibration_note(statistic))
                details += row.list_categories(category_values(statistic, judgments))
                if isinstance(statistic, PairAccuracy):
                    details.append(AgreementRow("equal_scores", metric_name, "pairs", float(statistic.tied)))
            else:
                row = replace(row, note=_constant_note(judgments, metric_scores))
            results.append(row)
            if is_preset:
                details += _published_rows(judgments, metric_name)
            advance(1)
    results.sort(key=lambda row: -np.inf if row.value is None else row.value, reverse=True)
    metric_names = [row.metric for row in results if row.metric in intervals]
    differences = [_difference(judgments, scores, pair, intervals) for pair in combinations(metric_names, 2)]
    # p is not corrected: a table of metrics is read pair by pair
    p_values = {(row.metric, row.other): row.p or 0.0 for row in differences}
    values = {name: intervals[name].value for name in metric_names}
    ranks = Ranking.from_p_values(values, p_values, level=level, correct=False).ranks()
    results = [replace(row, rank=ranks.get(row.metric)) for row in results]
    return AgreementTable(judgments, dict(scores), (*results, *details, *differences), resamples, seed, level)


def _published_rows(judgments: PreparedJudgments, metric: str) -> list[AgreementRow]:
    """The published value of a metric under an unchanged protocol, and those of its categories.

    A value made with another encoder, or with one that is not stated, is of the analysis `published_otherwise`.
    """
    found = published(judgments.benchmark, judgments.protocol.name, metric)
    if found is None:
        return []
    source = found.source if found.agrees else f"{found.made_with}, {found.source}"
    analysis = "published" if found.agrees else "published_otherwise"
    row = AgreementRow(analysis, metric, judgments.protocol.statistic, found.value, source=source, note=found.note)
    return [row, *(replace(row, subset=group, value=value, note="") for group, value in found.groups.items())]


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


def _calibration_note(statistic: Any) -> str:
    if not isinstance(statistic, TieCalibrated):
        return ""
    best = statistic.best()
    sampled = "sampled " if best.sampled else ""
    return f"is evaluated on {best.pairs:,} {sampled}pairs; differences of at most {best.epsilon:.4g} count as ties"


def _difference(
    judgments: PreparedJudgments, scores: Mapping[str, Floats], pair: tuple[str, str], intervals: Mapping[str, Interval]
) -> AgreementRow:
    """First minus second metric on the same resamples; p: two-sided, bootstrap (systems: Williams')."""
    first, second = pair
    interval, p = paired_difference(intervals[first], intervals[second])
    statistic = judgments.protocol.statistic
    if isinstance(judgments, Systems) and statistic in ("pearson", "spearman") and len(judgments) > 3:
        oriented_scores = (orient_scores(metric_name, scores[metric_name], judgments.protocol) for metric_name in pair)
        metric_correlation = float(np.clip(STATISTICS[statistic](*oriented_scores)(), -1, 1))
        p = williams_test(intervals[first].value, intervals[second].value, metric_correlation, len(judgments))
    value, low, high = scale_interval(interval)
    return AgreementRow("differences", first, statistic, value, low, high, len(judgments), other=second, p=p)
