"""The scores to be evaluated: of metrics run on the judged captions, and external scores by id.

Under a protocol of localisation a metric's score of a caption is the share of its most blamed words that people
flagged.

Files of external scores: what `capmeter score --output` writes; JSON {id: score}, {metric: {id: score}} or
{id: {metric: score}}; JSON lines and JSON lists of objects with an `id`; CSV, TSV and Parquet with an `id` column.
Every other field that holds numbers is a metric. A file of scores alone is a metric named after the file. The official
SPICE program's results are read too, as the metric `spice`, by image id.

The ids of a benchmark's captions: the row's `id` if it has one, else its image's where that is unique, else
`image#k` for the image's k-th row (from 0); of pairs, `/a` and `/b` are added. `capmeter meta --export` writes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from capmeter.captions.layouts import is_results
from capmeter.captions.rows import MAX_NUMBER, is_finite
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import CapmeterError, InputError, ProtocolError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import format_count
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.evidence import Evidence
from capmeter.evaluation.registry import parse_list, with_required
from capmeter.evaluation.results import EXPECTED, check_systems
from capmeter.evaluation.runner import Evaluation, score
from capmeter.judgments.layouts import read_records
from capmeter.judgments.prepared import Floats, JudgedPairs, Points, PreparedJudgments, Systems
from capmeter.judgments.protocol import Protocol
from capmeter.meta.coefficient import AgreementRow
from capmeter.metrics.scene_graph.spice_results import is_spice, read_rows
from capmeter.text.tokenization.token_tables import keep_letters_and_digits

ScoresByMetric = dict[str, dict[str, float]]
"""Metric → id → score."""
NOT_SCORES = {"id", "image_id", "candidate", "references", "human", "system", "image", "team", "sent_id"}


def read_scores(path: str | Path, ids: Collection[str], *, partial: bool = False) -> ScoresByMetric:
    """The scores in this file, metric → id → score; each of `ids` must have one (or some, if `partial`).

    Args:
        path: the file.
        ids: of the benchmark.
        partial: whether some ids may lack a score.
    """
    path = Path(path)
    file_name = path.name.split(".")[0]
    first_line, second_line = CaptionSource.resolve(path).first_lines()
    are_lines = first_line[:1] == b"{" and first_line[-1:] == b"}" and (bool(second_line) or ".jsonl" in path.suffixes)
    if are_lines or first_line[:1] not in (b"{", b"["):
        scores = _read_objects(((row.place, row.fields) for row in read_records(path)), file_name)
    else:
        scores = _read_json(decode_json(CaptionSource.resolve(path).read_text(), str(path)), path, file_name, ids)
    if not scores:
        raise InputError(f'{path} has no scores; expected numbers by id, such as {{"{next(iter(ids), "id")}": 0.5}}')
    for metric_name, by_id in scores.items():
        missing_ids = [id for id in ids if id not in by_id]
        if len(missing_ids) > (len(ids) - 1 if partial else 0):
            raise InputError(
                f"{path} has no {metric_name} score for {len(missing_ids):,} of {len(ids):,} ids, the first are "
                f"{', '.join(map(repr, missing_ids[:5]))}; the file has ids such as "
                f"{', '.join(map(repr, list(by_id)[:3]))} "
                "(`capmeter meta --export FILE` writes the captions with their ids)"
            )
    return scores


def _read_json(value: Any, path: Path, file_name: str, ids: Collection[str]) -> ScoresByMetric:
    if is_spice(value):
        rows = read_rows(value, where=str(path))
        spice_scores = {row.image_id: row.counts["all"].f for row in rows}
        if len(spice_scores) < len(rows):
            raise InputError(
                f"{path}: {format_count(len(rows) - len(spice_scores), 'duplicate image id')}; scores are keyed by id"
            )
        return {"spice": spice_scores}
    if is_results(value):
        systems = check_systems(value, str(path))
        if len(systems) > 1:
            raise InputError(f"{path}: contains {len(systems)} systems, {', '.join(systems)}; score one into a file")
        (system,) = systems.values()
        metrics = system.get("metrics") if isinstance(system, Mapping) else None
        if not isinstance(metrics, Mapping):
            raise InputError(f"{path}: not a results file of capmeter; {EXPECTED}")
        items = {name: saved.get("items") if isinstance(saved, Mapping) else saved for name, saved in metrics.items()}
        return {metric: _numbers(by_id, f"{path}, {metric}") for metric, by_id in items.items()}
    if isinstance(value, list):
        return _read_objects(((f"{path}, item {k}", entry) for k, entry in enumerate(value)), file_name)
    if not isinstance(value, Mapping):
        raise InputError(f"{path}: expected scores by id, but got {type(value).__name__}")
    if not any(isinstance(entry, Mapping) for entry in value.values()):
        return {file_name: _numbers(value, str(path))} if value else {}
    if any(key in ids for key in value):  # id → {metric: score}
        single_ids = [id for id, entry in value.items() if not isinstance(entry, Mapping)]
        if single_ids:
            raise InputError(f"{path}, {single_ids[0]!r}: expected scores by metric, as other ids of the file have")
        return _read_objects(((f"{path}, {id!r}", {**entry, "id": id}) for id, entry in value.items()), file_name)
    return {str(metric): _numbers(entry, f"{path}, {metric}") for metric, entry in value.items()}


def _read_objects(objects: Iterable[tuple[str, Any]], file_name: str) -> ScoresByMetric:
    scores: ScoresByMetric = {}
    for where, entry in objects:
        if not isinstance(entry, Mapping):
            raise InputError(f"{where}: expected an object with an id and scores, but got {type(entry).__name__}")
        id_keys = [field_name for field_name in ("id", "image_id", "team", "system") if field_name in entry]
        if not id_keys:
            raise InputError(f"{where}: no id; expected a field id (fields: {', '.join(map(str, entry))})")
        item_id = str(entry[id_keys[0]])
        for field_name, value in entry.items():
            if field_name in NOT_SCORES or isinstance(value, list | Mapping | bool):
                continue
            number = _number(value)
            if number is None and isinstance(value, str):
                continue
            by_id = scores.setdefault(file_name if field_name == "score" else str(field_name), {})
            if item_id in by_id:
                raise InputError(f"{where}: duplicate id {item_id!r}; scores are keyed by id")
            by_id[item_id] = _check_finite(number, f"{where}, {field_name}")
    return scores


def _numbers(entry: Any, where: str) -> dict[str, float]:
    if not isinstance(entry, Mapping):
        raise InputError(f"{where}: expected scores by id, but got {type(entry).__name__}")
    return {str(id): _check_finite(_number(value), f"{where}, {id!r}") for id, value in entry.items()}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):  # an integer that no float holds
        return None


def _check_finite(number: float | None, where: str) -> float:
    if not is_finite(number, MAX_NUMBER):
        raise InputError(
            f"{where}: expected a finite number up to 1e100 as score; omit metrics that have no score for a caption"
        )
    return number


_JUDGING = ("scored_share", "consistency", "order_consistency", "input_tokens", "output_tokens")
"""The parts of judges that say how they were asked."""


class MetricScores(NamedTuple):
    """Scores of metrics, and what is said of their runs.

    values: of each its scores of the judged captions.
    signatures: of each, where it has one.
    judging: how each judge was asked, over all captions: `consistency`, `input_tokens` …, and the cost of a caption.
    """

    values: dict[str, Floats]
    signatures: dict[str, str]
    judging: list[AgreementRow]


def caption_lengths(judgments: PreparedJudgments) -> Floats | None:
    """The number of words of each caption, one per id; None without captions."""
    lengths = np.array([len(each.candidate.split()) for each in judgments.captions], np.float64)
    return judgments.per_caption(lengths) if len(lengths) else None


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


def score_judgments(
    judgments: PreparedJudgments, metrics: str | Iterable[str | Metric], settings: Settings | None = None
) -> MetricScores:
    """Runs metrics on the judged captions.

    Args:
        judgments: with the captions.
        metrics: names or values; empty: none.
        settings: device, precision, threads and cache.

    Raises:
        InputError: there are no captions.
        ProtocolError: a caption lacks the references that a metric needs.
    """
    if not metrics:
        return MetricScores({}, {}, [])
    metrics = parse_list(metrics)
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
            if unreferenced < len(judgments.captions)
            else f"{judgments.benchmark}: no caption has references, but {', '.join(needing)} need them; say which "
            "column holds them (--column references=NAME, in Python columns=), or choose metrics that need none"
        )
    if isinstance(judgments, Points) and judgments.protocol.statistic == "localisation":
        chosen = settings or Settings()
        return MetricScores({str(each): _localisation_scores(judgments, each, chosen) for each in metrics}, {}, [])
    # captions that are several corpora have document frequencies for each
    corpora: Any = judgments.corpora if isinstance(judgments, JudgedPairs) and len(judgments.corpora) > 1 else None
    values = {str(metric): np.zeros(len(judgments.captions)) for metric in metrics}
    signatures: dict[str, str] = {}
    for rows in corpora or [slice(None)]:
        captions = judgments.captions if corpora is None else judgments.captions.select(rows)
        results = score(captions, metrics=metrics, settings=settings)
        for metric_name, caption_scores in values.items():
            caption_scores[rows] = results[metric_name].items.array
            signatures.setdefault(metric_name, results[metric_name].signature)
    judged = {} if corpora else {name: results[name].parts for name in values}
    judging = [row for name, parts in judged.items() for row in _judging_rows(name, parts, settings)]
    values = {name: judgments.per_caption(caption_scores, name) for name, caption_scores in values.items()}
    return MetricScores(values, signatures, judging)


def _judging_rows(metric: str, parts: Mapping[str, float], settings: Settings | None) -> list[AgreementRow]:
    """How a judge was asked, from its parts; of other metrics nothing."""
    if "input_tokens" not in parts:
        return []
    judging = {part_name: parts[part_name] for part_name in _JUDGING if part_name in parts}
    prices = settings.judging.prices if settings is not None else None
    if prices is not None:
        judging["cost"] = (judging["input_tokens"] * prices[0] + judging["output_tokens"] * prices[1]) / 1e6
    return [AgreementRow("judging", metric, part_name, value) for part_name, value in judging.items()]


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
        paths = [scores] if isinstance(scores, str | Path) or not isinstance(scores, Iterable) else list(scores)
        tables = [read_scores(str(path), ids, partial=isinstance(judgments, Systems)) for path in paths]
    values: dict[str, Floats] = {}
    for metric_name, by_id in (item for table in tables for item in table.items()):
        missing = [id for id in ids if id not in by_id]
        if missing and not isinstance(judgments, Systems):
            raise InputError(
                f"{metric_name} has no score for {format_count(len(missing), 'id')}, the first are {missing[:5]}"
            )
        if metric_name in values:
            raise InputError(f"two sets of scores are named {metric_name}; rename one of them")
        score_column = np.asarray([by_id.get(id, np.nan) for id in ids], np.float64)
        values[metric_name] = (
            score_column if isinstance(judgments, Systems) else judgments.per_caption(score_column, metric_name)
        )
    return values


def restrict_to_scored(judgments: Systems, scores: Mapping[str, Floats]) -> tuple[Systems, dict[str, Floats]]:
    """The systems for which every metric has a score, as many as the protocol expects; the others are counted in the
    notes.
    """
    score_masks = [np.isfinite(values) for values in scores.values()]
    scored_rows = [k for k in range(len(judgments.names)) if score_masks and all(each[k] for each in score_masks)]
    judgments.protocol.check(len(scored_rows), judgments.benchmark, judgments.unit)
    if score_masks and not scored_rows:
        raise InputError(
            f"{judgments.benchmark} has no system with a score by every one of {', '.join(scores)}; metrics are "
            "evaluated on the systems that all of them have scored: evaluate them separately"
        )
    if len(scored_rows) < len(judgments.names):
        judgments = replace(
            judgments,
            names=tuple(judgments.names[row] for row in scored_rows),
            clusters=tuple(judgments.clusters[row] for row in scored_rows),
            human=judgments.human[scored_rows],
            notes={**judgments.notes, "without scores": len(judgments.names) - len(scored_rows)},
        )
    return judgments, {metric_name: values[scored_rows] for metric_name, values in scores.items()}


_ROUNDING = 1e-6  # of cosines in single precision
_BLAMED = ("hallucinated", "contradicted", "unsupported", "unmatched")


def blamed_words(evidence: Evidence) -> list[str]:
    """The words that a metric blames most, as letters and digits.

    They are those with the lowest score, of a metric that scores words; else those that it marks as hallucinated,
    contradicted, unsupported or unmatched, the first of these kinds that occurs. Scores that differ by rounding
    alone are equal.

    >>> blamed_words(Evidence(("a", "red", "dog", "."), (), word_scores=(0.9, 0.2, 0.8, 0.1)))
    ['red']
    >>> blamed_words(Evidence(("a", "dog"), (), word_scores=(1.0, 0.99999994)))
    ['a', 'dog']
    """
    words = [keep_letters_and_digits(token) for token in evidence.candidate]
    if evidence.word_scores:
        scored_words = [(word, score) for word, score in zip(words, evidence.word_scores, strict=True) if word]
        lowest = min((score for _, score in scored_words), default=0.0)
        return [word for word, score in scored_words if score <= lowest + _ROUNDING]
    for mark_kind in _BLAMED:
        word_positions = [
            word_position
            for mark in evidence.marks
            if mark.side == "candidate" and mark.kind == mark_kind
            for word_position in range(mark.start, mark.end)
        ]
        if marked_words := [words[word_position] for word_position in word_positions if words[word_position]]:
            return marked_words
    return []


def _localisation_scores(judgments: Points, metric: Metric, settings: Settings) -> Floats:
    """For each caption the share of the blamed words that are flagged (captions,): 0 where none is blamed.

    Raises:
        InputError: the metric cannot explain its scores, or words were not flagged.
    """
    if not metric.can_explain:
        raise InputError(f"{metric} does not say which words it blames, so it has no localisation; leave it out")
    flagged_rows = [caption_index for caption_index, flagged in enumerate(judgments.flagged) if flagged]
    if not flagged_rows or judgments.owners is not None:
        raise InputError(f"{judgments.benchmark} has no flagged words under {judgments.protocol}")
    shares = np.zeros(len(judgments.flagged))
    evaluation = Evaluation((metric,), settings).with_collected_states(judgments.captions)
    parts = judgments.captions.select(flagged_rows).chunks(metric.PART_SIZE)
    explanations = [evidence for part in parts for evidence in evaluation.explain(part)[metric]]
    for caption_index, evidence in zip(flagged_rows, explanations, strict=True):
        blamed, flagged = blamed_words(evidence), judgments.flagged[caption_index]
        shares[caption_index] = sum(word in flagged for word in blamed) / len(blamed) if blamed else 0.0
    return shares
