"""The scores to be evaluated: of metrics run on the judged captions, and external scores by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from capmeter._version import __version__
from capmeter.core.errors import CapmeterError, InputError, ProtocolError
from capmeter.core.messages import format_count
from capmeter.core.named import split_name, split_text
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import parse_list
from capmeter.judgments.prepared import Floats, JudgedPairs, Points, PreparedJudgments, Systems
from capmeter.judgments.protocol import Protocol
from capmeter.meta.baselines import BASELINES, Baseline
from capmeter.meta.baselines import parse as parse_baseline
from capmeter.meta.scores_file import read_scores

_JUDGING = ("scored_share", "consistency", "order_consistency", "input_tokens", "output_tokens")
"""The parts of judges that say how they were asked."""


class MetricScores(NamedTuple):
    """Scores of metrics and baselines, and what is said of their runs.

    values: of each its scores of the judged captions; for systems, each system's corpus score.
    signatures: of each, where it has one.
    judging: of each judge how it was asked, over all captions: parts such as `consistency` and `input_tokens`, and the
        `cost` of a caption, where prices are known.
    """

    values: dict[str, Floats]
    signatures: dict[str, str]
    judging: dict[str, dict[str, float]]


def score_judgments(
    judgments: PreparedJudgments, metrics: str | Iterable[str | Metric], settings: Settings | None = None
) -> MetricScores:
    """Runs these metrics and baselines on the judged captions."""
    caption_metrics, baselines = parse_metrics(metrics) if metrics else ([], [])
    scored = MetricScores({}, {}, {})
    if caption_metrics:
        scored = _score_captions(judgments, caption_metrics, settings)
    for each in baselines:
        scored.signatures[str(each)] = f"{each}|capmeter:{__version__}"
        scored.values[str(each)] = each.scores(judgments)
    return scored


def caption_lengths(judgments: PreparedJudgments) -> Floats | None:
    """The number of words of each caption, one per id (of systems, the mean of each); None without captions."""
    lengths = np.array([len(each.candidate.split()) for each in judgments.captions], np.float64)
    if not len(lengths):
        return None
    if isinstance(judgments, Systems):
        return np.array([lengths[members].mean() for members in judgments.members])
    return judgments.per_caption(lengths)


def orient_scores(name: str, scores: Floats, protocol: Protocol) -> Floats:
    """The scores, negated if they are of a metric for which lower is better.

    Args:
        name: the metric's text form, or a name of external scores.
        scores: of captions or systems; under a protocol of localisation, shares of words that are found.
        protocol: of the judgments.
    """
    if protocol.statistic == "localisation":
        return scores
    try:
        (metric,) = parse_list(name)
    except (CapmeterError, ValueError):
        return scores
    return -scores if metric.lower_is_better else scores


def parse_metrics(metrics: str | Iterable[str | Metric]) -> tuple[list[Metric], list[Baseline]]:
    """The metrics of captions among these names, and the baselines."""
    names = split_text(metrics, ",") if isinstance(metrics, str) else list(metrics)
    baselines = [each for each in names if isinstance(each, str) and split_name(each, "metric")[0] in BASELINES]
    others = [each for each in names if each not in baselines]
    return parse_list(others) if others or not baselines else [], [parse_baseline(each) for each in baselines]


def _score_captions(judgments: PreparedJudgments, metrics: Sequence[Metric], settings: Settings | None) -> MetricScores:
    from capmeter.evaluation.requirements import with_required
    from capmeter.evaluation.scoring import score

    if len(judgments.captions) == 0:
        raise InputError(
            f"{judgments.benchmark} has systems but no captions to score; give the systems' scores in a file (--scores)"
        )
    unreferenced = int((judgments.captions.references.lengths == 0).sum())
    needing = [str(metric) for metric in with_required(metrics) if "references" in metric.needs]
    if unreferenced and needing:
        raise ProtocolError(
            f"{judgments.benchmark} has no references for {unreferenced:,} of {len(judgments.captions):,} captions, "
            f"but {', '.join(needing)} need them; exclude these captions (leave_out=unreferenced in the protocol)"
        )
    if isinstance(judgments, Points) and judgments.protocol.statistic == "localisation":
        from capmeter.meta.localisation import localisation_scores

        chosen = settings or Settings()
        return MetricScores({str(each): localisation_scores(judgments, each, chosen) for each in metrics}, {}, {})
    if isinstance(judgments, JudgedPairs) and len(judgments.corpora) > 1:
        return _score_corpora(judgments, metrics, settings)
    results = score(judgments.captions, metrics=metrics, settings=settings)
    values: dict[str, Floats] = {}
    for metric in metrics:
        name, scores = str(metric), results[str(metric)]
        if isinstance(judgments, Systems):
            table = np.asarray(scores.values)
            rows = [table[members] for members in judgments.members]
            sums, counts = (
                np.stack([each.sum(axis=0) for each in rows]),
                np.asarray([len(each) for each in rows], float),
            )
            values[name] = np.asarray(metric.from_sums(sums, counts)["score"], np.float64)
        else:
            values[name] = judgments.per_caption(np.asarray(scores.items.array, np.float64), name)
    judging = {name: _judging(results[name].parts, settings) for name in values}
    signatures = {name: str(results[name].signature) for name in values}
    return MetricScores(values, signatures, {name: parts for name, parts in judging.items() if parts})


def _judging(parts: Mapping[str, float], settings: Settings | None) -> dict[str, float]:
    """How a judge was asked, from its parts; of other metrics nothing."""
    judging = {name: parts[name] for name in _JUDGING if name in parts}
    prices = settings.judging.prices if settings is not None else None
    if prices is not None and "input_tokens" in judging:
        judging["cost"] = (judging["input_tokens"] * prices[0] + judging["output_tokens"] * prices[1]) / 1e6
    return judging if "input_tokens" in judging else {}


def _score_corpora(judgments: JudgedPairs, metrics: Sequence[Metric], settings: Settings | None) -> MetricScores:
    """The scores of captions that are several corpora, each with document frequencies of its own."""
    from capmeter.evaluation.scoring import score

    table = {str(metric): np.zeros(len(judgments.captions)) for metric in metrics}
    signatures: dict[str, str] = {}
    for rows in judgments.corpora:
        results = score(judgments.captions.select(rows), metrics=metrics, settings=settings)
        for name, values in table.items():
            values[rows] = results[name].items.array
            signatures.setdefault(name, str(results[name].signature))
    return MetricScores({name: judgments.per_caption(each, name) for name, each in table.items()}, signatures, {})


def external_scores(
    judgments: PreparedJudgments, scores: str | Path | Iterable[str | Path] | Mapping[str, Mapping[str, float]]
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
    for name, by_id in (item for table in tables for item in table.items()):
        missing = [id for id in ids if id not in by_id]
        if missing and not isinstance(judgments, Systems):
            raise InputError(f"{name} has no score for {format_count(len(missing), 'id')}, the first are {missing[:5]}")
        if name in values:
            raise InputError(f"two sets of scores are named {name}; rename one of them")
        column = np.asarray([by_id.get(id, np.nan) for id in ids], np.float64)
        values[name] = column if isinstance(judgments, Systems) else judgments.per_caption(column, name)
    return values


def restrict_to_scored(judgments: Systems, scores: Mapping[str, Floats]) -> tuple[Systems, dict[str, Floats]]:
    """The systems for which every metric has a score, as many as the protocol expects; the others are counted in the
    notes.
    """
    scored = [np.isfinite(values) for values in scores.values()]
    rows = [k for k in range(len(judgments.names)) if scored and all(each[k] for each in scored)]
    judgments.protocol.check(len(rows), judgments.benchmark, judgments.unit)
    if scored and not rows:
        raise InputError(
            f"{judgments.benchmark} has no system with a score by every one of {', '.join(scores)}; metrics are "
            "evaluated on the systems that all of them have scored: evaluate them separately"
        )
    if len(rows) < len(judgments.names):
        judgments = replace(
            judgments,
            names=tuple(judgments.names[row] for row in rows),
            clusters=tuple(judgments.clusters[row] for row in rows),
            human=judgments.human[rows],
            notes={**judgments.notes, "without scores": len(judgments.names) - len(rows)},
        )
    return judgments, {name: values[rows] for name, values in scores.items()}
