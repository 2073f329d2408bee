"""The captions of all systems as the page's data: every distinct sentence and set of references once.

The data are JSON, compressed with gzip and encoded in base64; the page decodes them with the browser's own
`DecompressionStream`. A column has one value per caption of the page, over all systems; texts, ids, images and sets of
references are numbered in order of first use.

The table of scores has each score with its interval, the systems that it is significantly better than, and its notes. A
note names captions whose score may be misleading ("candidate is one of its own references": such a caption always gets
the full score). Its mark is printed next to the score, its text below the table.

Of the captions that the page explains the evidence is that of `explain --format json`, with the names of its fields
listed once (`PackedEvidence`).
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.text_checks import find_ids
from capmeter.captions.words import is_truncated
from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.core.progress import task
from capmeter.evaluation.base import Floats
from capmeter.evaluation.evidence import Evidence
from capmeter.evaluation.results import Results
from capmeter.evaluation.runner import Evaluation
from capmeter.meta.system_ranking import explain_untested
from capmeter.report.explain import explain_rows
from capmeter.report.score_table import lower_is_better_in, name_items, system_letters
from capmeter.report.tables import name_metrics
from capmeter.stats.significance import LEVEL, Ranking, significance_threshold

MARKS = "†‡§‖¶#"  # an asterisk is the best score in tables of text
_NO_SCORE = {"best": False, "value": "-inf", "text": "–", "worse": "", "worse_names": "", "interval": "", "notes": []}


def score_rows(systems: Mapping[str, Results], rankings: Mapping[str, Ranking]) -> dict[str, Any]:
    """The rows of the table of scores: systems, or for a single system its metrics."""
    letters, short_names = system_letters(list(systems)), name_metrics(rankings, lower_is_better_in(systems))
    noted = {
        (system, metric): _noted_captions(results, metric)
        for system, results in systems.items()
        for metric in rankings
        if metric in set(results)
    }
    marks = {
        reason: MARKS[k % len(MARKS)] * (k // len(MARKS) + 1)
        for k, reason in enumerate(dict.fromkeys(chain.from_iterable(noted.values())))
    }
    cells = {
        system: [
            _describe_cell(system, results, metric, rankings[metric], letters)
            | {
                "notes": [
                    (marks[reason], f"{reason}: {number:,} of {len(results.ids.names):,} captions")
                    for reason, number in noted[system, metric].items()
                ]
            }
            if (system, metric) in noted
            else _NO_SCORE
            for metric in rankings
        ]
        for system, results in systems.items()
    }
    heads, notes = [(str(short), full) for full, short in short_names.items()], list[str]()
    rows = [(name, name, letters.get(name, ""), row_cells) for name, row_cells in cells.items()]
    if len(systems) == 1:
        rows = [(*head, "", [cell]) for head, cell in zip(heads, *cells.values(), strict=True)]
        heads[:] = [("Score, 95% interval", "")]
    else:
        notes.append("Below each score: its 95% interval. Rows are in the order of the files; a heading sorts by it.")
    if len(systems) > 1 and any(metric_ranking.p for metric_ranking in rankings.values()):
        notes.append(
            "Bold: the best system of a column, and all that are not significantly worse. Small letters: the systems "
            f"that this one is significantly better than (paired permutation test by {name_items(systems.values())}, "
            f"Holm-corrected, p <  {significance_threshold(LEVEL):g})."
        )
    elif len(systems) > 1:
        notes.append(explain_untested(systems))
    if lower := [short for short in short_names.values() if short.lower_is_better]:
        notes.append(f"Lower is better: {', '.join(lower)}.")
    for reason, mark in marks.items():
        counts: dict[str, int] = {}
        for (system, _), numbers in noted.items():
            if reason in numbers:
                counts[system] = max(numbers[reason], counts.get(system, 0))
        shares = [
            f"{system} " * (len(systems) > 1) + f"{number:,} of {len(systems[system].ids.names):,}"
            for system, number in counts.items()
        ]
        notes.append(f"{mark} {reason}: {', '.join(shares)} captions.")
    return {
        "single": len(systems) == 1,
        "heads": heads,
        "rows": [dict(zip(("name", "full", "letter", "cells"), row, strict=True)) for row in rows],
        "table_notes": list(filter(None, notes)),
    }


def _describe_cell(
    system: str, results: Results, metric: str, ranking: Ranking, letters: Mapping[str, str]
) -> dict[str, Any]:
    score, interval = results[metric].score, ranking.intervals.get(system)
    worse_systems = [other for other in letters if other in ranking.significantly_worse(system)]
    return {
        "best": system in ranking.best(),
        "value": repr(score),
        "text": _signed(score),
        "worse": "".join(letters[other] for other in worse_systems),
        "worse_names": ", ".join(worse_systems),
        "interval": "" if interval is None else f"{_signed(interval.low)} – {_signed(interval.high)}",
    }


def _noted_captions(results: Results, metric: str) -> dict[str, int]:
    """The reasons for notes on captions of this score, each with the number of captions."""
    scores = results[metric]
    noted_ids: dict[str, set[str]] = {}
    # notes on the captions concern every metric that compares them with references
    compares = scores.metric is None or "references" in scores.metric.needs
    for reason, ids in [*(results.notes.items() if compares else ()), *scores.notes.items()]:
        scored_ids = results.ids.positions.keys() & set(ids)
        if scored_ids:
            noted_ids.setdefault(reason.replace("_", " "), set()).update(scored_ids)
    return {reason: len(ids) for reason, ids in noted_ids.items()}


def _signed(value: float) -> str:
    return f"{value:.4f}".replace("-", "−")


HUMAN = "human judgment"
TRUNCATED = "ends in a function word"
_DIGITS = 5
_EXAMPLES, _WORDS = 3, 6


class _Numbering(dict[Any, int]):
    """Distinct values, numbered in order of first use."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


@dataclass(frozen=True)
class PageData:
    """The page's data without evidence and image sources, and what is needed to add them."""

    values: dict[str, Any]  # as JSON values
    first_row: dict[str, int]  # the page's row of each system's first caption
    metrics: list[str]
    image_files: dict[str, str]  # image id → path or address
    images: list[str]  # image ids in the order of their numbers


def page_data(systems: Mapping[str, Results], rankings: Mapping[str, Ranking]) -> PageData:
    """The data of these systems' captions and scores."""
    sentence_numbers, caption_ids, images, reference_sets = _Numbering(), _Numbering(), _Numbering(), _Numbering()
    columns: dict[str, list[int]] = {name: [] for name in ("system", "text", "id", "image", "references")}
    human_means: list[float] = []
    first_row: dict[str, int] = {}
    image_files: dict[str, str] = {}
    for system_index, (name, results) in enumerate(systems.items()):
        captions = _scored_captions(name, results)
        first_row[name] = len(human_means)
        text_numbers = [sentence_numbers[sentence] for sentence in captions.pool.sentences]
        columns["system"] += [system_index] * len(captions)
        columns["text"] += [text_numbers[k] for k in captions.candidates.tolist()]
        columns["id"] += [caption_ids[caption_id] for caption_id in captions.ids]
        columns["image"] += [images[image] for image in captions.image_ids]
        columns["references"] += [
            reference_sets[tuple(text_numbers[k] for k in captions.references[row].tolist())]
            for row in range(len(captions))
        ]
        for image, image_file in zip(captions.image_ids, captions.images, strict=True):
            if image_file is not None:
                image_files.setdefault(image, image_file)
        human_means += [float(np.mean(each)) if each else np.nan for each in captions.humans]
    metrics = list(rankings)
    scores = {
        name: np.concatenate(
            [
                results[name].items.array if name in set(results) else np.full(len(results.ids.names), np.nan)
                for results in systems.values()
            ]
        )
        for name in metrics
    }
    lower = lower_is_better_in(systems)
    if np.isfinite(human_means).any():
        scores[HUMAN] = np.array(human_means, np.float64)
    letters = system_letters(list(systems))
    short_names = name_metrics(metrics)
    values = {
        "systems": list(systems),
        "letters": [letters.get(name, "") for name in systems],
        "metrics": [
            _describe_metric(name, short_names.get(name, name), each, human=name not in metrics, lower=name in lower)
            for name, each in scores.items()
        ],
        "scores": [round_digits(each) for each in scores.values()],
        "texts": list(sentence_numbers),
        "ids": list(caption_ids),
        "referenceSets": list(reference_sets),
        **columns,
        "notes": _notes(systems, first_row),
        "table": [
            {
                "system": system_index,
                "metric": metric_index,
                "score": results[metric].score,
                **{end: getattr(ranking.intervals.get(system), end, None) for end in ("low", "high")},
            }
            for metric_index, (metric, ranking) in enumerate(rankings.items())
            for system_index, (system, results) in enumerate(systems.items())
            if metric in set(results)
        ],
    }
    return PageData(values, first_row, metrics, image_files, list(images))


def pack_json(value: Any) -> str:
    """A JSON value, compressed, in ASCII characters that need no escaping in HTML."""
    # ASCII escapes keep lone surrogates, which UTF-8 cannot encode
    content = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode("ascii")


def round_digits(values: Floats) -> list[float | None]:
    """Numbers rounded to five digits of the largest one, so that what the page shows is rounded only once, here; None
    for others.
    """
    unit = 10.0 ** _decimals(values)
    return [value if math.isfinite(value) else None for value in (np.round(values * unit) / unit).tolist()]


def _decimals(values: Floats) -> int:
    """The number of decimals that gives five digits for numbers of this size: 4 for 27.1, 5 for 0.3."""
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return int(np.clip(_DIGITS - np.ceil(np.log10(largest or 1.0)), 0, 9))


def _describe_metric(full_name: str, name: str, values: Floats, *, human: bool, lower: bool) -> dict[str, Any]:
    shown_values = [value for value in round_digits(values) if value is not None]
    return {
        "name": name,
        "decimals": _decimals(values),
        "low": min(shown_values),
        "high": max(shown_values),
        **({} if name == full_name else {"full": full_name}),
        **({"human": True} if human else {}),
        **({"lower": True} if lower else {}),
    }


def _scored_captions(system_name: str, results: Results) -> CaptionSet:
    """The captions of these results; rejects results without them, or with captions other than those scored."""
    if results.captions is None:
        raise InputError(
            f"the results of {system_name} contain no captions (written by another program); score them "
            "again with `capmeter score --output`, which stores the captions with the scores"
        )
    if list(results.captions.ids) != list(results.ids.names):
        raise InputError(f"{system_name}: the captions in the results are not those that were scored; score them again")
    return results.captions


def _notes(systems: Mapping[str, Results], first_row: Mapping[str, int]) -> list[dict[str, Any]]:
    """The reasons for which metrics noted captions, each with the page's rows."""
    noted_rows: dict[str, dict[int, None]] = {}
    for system_name, results in systems.items():
        caption_positions = results.ids.positions
        metric_notes = [(reason, ids) for scores in results.values() for reason, ids in scores.notes.items()]
        truncated = [(TRUNCATED, _find_truncated(results))]
        for reason, ids in [*results.notes.items(), *metric_notes, *truncated]:
            reason_rows = noted_rows.setdefault(reason.replace("_", " "), {})
            reason_rows.update(
                dict.fromkeys(first_row[system_name] + caption_positions[id] for id in ids if id in caption_positions)
            )
    return [{"reason": reason, "rows": list(reason_rows)} for reason, reason_rows in noted_rows.items() if reason_rows]


def _find_truncated(results: Results) -> list[str]:
    """The ids of the captions that end in a function word."""
    return [] if results.captions is None else find_ids(results.captions, is_truncated)


def truncated_rows(systems: Mapping[str, Results]) -> list[tuple[int, str, str]]:
    """For each system with captions that end in a function word: its number, their count and share, and examples."""
    rows = []
    for system_index, results in enumerate(systems.values()):
        captions, truncated_ids = results.captions, _find_truncated(results)
        if captions is not None and truncated_ids:
            examples: dict[str, None] = {}
            for words in (captions[caption_id].candidate.split() for caption_id in truncated_ids):
                last_words = " ".join(words[-_WORDS:])
                is_cut = len(words) > _WORDS or len(last_words) > 60
                examples["… " * is_cut + last_words[-60:]] = None
            count_text = f"{len(truncated_ids):,} of {len(captions):,} ({len(truncated_ids) / len(captions):.1%})"
            rows.append((system_index, count_text, "; ".join(list(examples)[:_EXAMPLES])))
    return rows


MAX_CHARACTERS = 4000
"""Characters of a caption or reference that is explained: nobody reads every link of a longer one."""

Row = tuple[str, int]
"""A system and the position of one of its captions."""


class PackedEvidence:
    """`Evidence.to_dict()` of captions, without the words of matches, which the page's script takes from their places.

    A list of mappings with the same names is `{kind: [a list of values for each name]}`, and the names of a kind stand
    once in a table; so do sequences of words, whose place there is `{"words": number}`. One mapping is `{"one": list}`.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, ...], int] = {}
        self._sequences: dict[tuple[str, ...], int] = {}
        self._records: list[list[Any]] = []

    def add(self, metric: int, row: int, evidence: Evidence) -> None:
        """Adds the evidence of metric number `metric` for the caption in row `row` of the page.

        Args:
            metric: its number.
            row: of the caption on the page.
            evidence: of this metric for this caption.
        """
        self._records.append([metric, row, self._pack(evidence.to_dict())])

    def _pack(self, value: Any) -> Any:
        if isinstance(value, Mapping) and value:
            return {"one": self._pack([value])}
        if isinstance(value, list) and value:
            if all(isinstance(each, str) for each in value):
                return {"words": self._sequences.setdefault(tuple(value), len(self._sequences))}
            kinds = {tuple(each) if isinstance(each, Mapping) else () for each in value}
            if len(kinds) > 1 or () in kinds:
                return list(map(self._pack, value))
            (names,) = kinds
            if "reference_words" in names:
                names = tuple(name for name in names if name not in ("words", "reference_words"))
            kind = self._kinds.setdefault(names, len(self._kinds))
            return {kind: [[self._pack(each[name]) for each in value] for name in names]}
        return _short(value) if isinstance(value, float) else value

    def to_dict(self) -> dict[str, Any]:
        """The table as JSON values."""
        return {"kinds": list(self._kinds), "sequences": list(self._sequences), "records": self._records}


def _short(value: float) -> float:
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() else rounded


def extremes(systems: Mapping[str, Results], most: int) -> list[Row]:
    """At most `most` captions to explain: the worst and the best by each metric in each system, the most extreme
    of all of them before the second most extreme. Captions that are not `is_explainable` are skipped.
    """
    is_eligible = {system: is_explainable(results) for system, results in systems.items()}
    caption_orders = [
        (system, caption_order[is_eligible[system][caption_order]])
        for system, results in systems.items()
        for scores in results.values()
        for ascending in [np.argsort(scores.items.array, kind="stable")]
        for caption_order in (ascending, ascending[::-1])
    ]

    def turns() -> Iterator[Row]:
        for k in count():
            turn = [
                (system, int(caption_order[k])) for system, caption_order in caption_orders if k < len(caption_order)
            ]
            if not turn:
                return
            yield from turn

    return list(islice(dict.fromkeys(islice(turns(), 50 * most)), most)) if caption_orders else []


def is_explainable(results: Results) -> npt.NDArray[np.bool_]:
    """For each caption whether it and its references are short enough to be explained on a page."""
    captions = results.captions
    if captions is None:
        return np.ones(len(results.ids.names), np.bool_)
    is_short = np.array([len(sentence) <= MAX_CHARACTERS for sentence in captions.pool.sentences], np.bool_)
    references = [bool(is_short[captions.references[row]].all()) for row in range(len(captions))]
    candidates: npt.NDArray[np.bool_] = is_short[captions.candidates]
    return candidates & np.array(references, np.bool_)


def collect_evidence(
    systems: Mapping[str, Results], rows: Sequence[Row], metrics: Sequence[str]
) -> tuple[dict[Row, list[tuple[int, Evidence]]], list[str]]:
    """The evidence for these captions with its metric's number, and a sentence for each metric without evidence.

    Args:
        systems: results with captions.
        rows: the captions.
        metrics: the names of metrics, in the order of their numbers.
    """
    evidence: dict[Row, list[tuple[int, Evidence]]] = {row: [] for row in rows}
    notes: dict[str, None] = {}
    with task("explaining", total=len(systems) * len(metrics)) as advance:
        for system, results in systems.items():
            positions = [position for name, position in rows if name == system]
            evaluation = Evaluation(())
            for metric_index, name in enumerate(metrics):
                advance(1)
                if not positions or results.captions is None or name not in set(results):
                    continue
                metric = results[name].metric
                if metric is None or not metric.can_explain:
                    notes[f"{name} has no explanations."] = None
                    continue
                try:
                    evaluation = replace(evaluation, metrics=(metric,)).with_collected_states(results.captions)
                    metric_evidence = explain_rows(results.captions, metric, positions, evaluation, results[name])
                except (MissingBackend, AssetError, InputError) as problem:
                    notes[f"{name} could not be explained: {problem}"] = None
                    continue
                for position, caption_evidence in zip(positions, metric_evidence, strict=True):
                    evidence[system, position].append((metric_index, caption_evidence))
    return evidence, list(notes)
