"""The captions of all systems as the page's data: every distinct sentence and set of references once.

The data are JSON, compressed with gzip and encoded in base64; the page decodes them with the browser's own
`DecompressionStream`. A column has one value per caption of the page, over all systems; texts, ids, images and sets of
references are numbered in order of first use.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.truncation import find_truncated
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats
from capmeter.evaluation.results import Results
from capmeter.meta.system_ranking import SystemRanking
from capmeter.report.page_table import system_letters

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


def page_data(systems: Mapping[str, Results], rankings: Mapping[str, SystemRanking]) -> PageData:
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
    scores = {name: np.concatenate([_items(results, name) for results in systems.values()]) for name in metrics}
    lower = {name for results in systems.values() for name, each in results.items() if each.lower_is_better}
    if np.isfinite(human_means).any():
        scores[HUMAN] = np.array(human_means, np.float64)
    letters = system_letters(list(systems))
    values = {
        "systems": list(systems),
        "letters": [letters.get(name, "") for name in systems],
        "metrics": [
            _describe_metric(name, each, human=name not in metrics, lower=name in lower)
            for name, each in scores.items()
        ],
        "scores": [round_digits(each) for each in scores.values()],
        "texts": list(sentence_numbers),
        "ids": list(caption_ids),
        "referenceSets": list(reference_sets),
        **columns,
        "notes": _notes(systems, first_row),
        "table": _score_cells(systems, rankings),
    }
    return PageData(values, first_row, metrics, image_files, list(images))


def pack_json(value: Any) -> str:
    """A JSON value, compressed, in ASCII characters that need no escaping in HTML."""
    # ASCII escapes keep lone surrogates, which UTF-8 cannot encode
    content = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode("ascii")


def decimals_for(largest: float) -> int:
    """The number of decimals that gives five digits for numbers of this size: 4 for 27.1, 5 for 0.3."""
    if largest == 0:
        return _DIGITS
    return int(np.clip(_DIGITS - np.ceil(np.log10(largest)), 0, 9))


def round_digits(values: Floats) -> list[float | None]:
    """Numbers rounded to five digits of the largest one, so that what the page shows is rounded only once, here; None
    for others.
    """
    unit = 10.0 ** _decimals(values)
    return [value if math.isfinite(value) else None for value in (np.round(values * unit) / unit).tolist()]


def _decimals(values: Floats) -> int:
    finite_values = values[np.isfinite(values)]
    return decimals_for(float(np.abs(finite_values).max()) if len(finite_values) else 1.0)


def _describe_metric(metric_name: str, values: Floats, *, human: bool, lower: bool) -> dict[str, Any]:
    shown_values = [value for value in round_digits(values) if value is not None]
    bounds = {"low": min(shown_values), "high": max(shown_values)}
    flags = {"human": human, "lower": lower}
    return {
        "name": metric_name,
        "decimals": _decimals(values),
        **bounds,
        **{flag_name: True for flag_name, on in flags.items() if on},
    }


def _scored_captions(system_name: str, results: Results) -> CaptionSet:
    """The captions of these results; rejects results without them, or with captions other than those scored."""
    if results.captions is None:
        raise InputError(
            f"the results of {system_name} contain no captions (streamed, or written by another program); score them "
            "again with `capmeter score --no-stream --output`, which stores the captions with the scores"
        )
    if list(results.captions.ids) != list(results.ids.names):
        raise InputError(f"{system_name}: the captions in the results are not those that were scored; score them again")
    return results.captions


def _items(results: Results, metric: str) -> Floats:
    if metric in set(results):
        return results[metric].items.array
    return np.full(len(results.ids.names), np.nan)


def _score_cells(systems: Mapping[str, Results], rankings: Mapping[str, SystemRanking]) -> list[dict[str, Any]]:
    score_cells = []
    for metric_index, metric in enumerate(rankings):
        for system_index, (system, results) in enumerate(systems.items()):
            if metric in set(results):
                low, high = rankings[metric].intervals.get(system, (None, None))
                score = results[metric].score
                score_cells.append(
                    {"system": system_index, "metric": metric_index, "score": score, "low": low, "high": high}
                )
    return score_cells


def _notes(systems: Mapping[str, Results], first_row: Mapping[str, int]) -> list[dict[str, Any]]:
    """The reasons for which metrics noted captions, each with the page's rows."""
    noted_rows: dict[str, dict[int, None]] = {}
    for system_name, results in systems.items():
        caption_positions = results.ids.positions
        metric_notes = [(reason, ids) for scores in results.values() for reason, ids in scores.notes.items()]
        truncated = [(TRUNCATED, find_truncated(_candidates(results)))]
        for reason, ids in [*results.notes.items(), *metric_notes, *truncated]:
            reason_rows = noted_rows.setdefault(reason.replace("_", " "), {})
            reason_rows.update(
                dict.fromkeys(first_row[system_name] + caption_positions[id] for id in ids if id in caption_positions)
            )
    return [{"reason": reason, "rows": list(reason_rows)} for reason, reason_rows in noted_rows.items() if reason_rows]


def _candidates(results: Results) -> dict[str, str]:
    """id → candidate."""
    captions = results.captions
    if captions is None:
        return {}
    return {caption_id: captions.pool[k] for caption_id, k in zip(captions.ids, captions.candidates, strict=True)}


def truncated_rows(systems: Mapping[str, Results]) -> list[tuple[int, str, str]]:
    """For each system with captions that end in a function word: its number, their count and share, and examples."""
    rows = []
    for system_index, results in enumerate(systems.values()):
        candidate_texts = _candidates(results)
        truncated_ids = find_truncated(candidate_texts)
        if truncated_ids:
            examples = dict.fromkeys(_last_words(candidate_texts[caption_id]) for caption_id in truncated_ids)
            count_text = (
                f"{len(truncated_ids):,} of {len(candidate_texts):,} ({len(truncated_ids) / len(candidate_texts):.1%})"
            )
            rows.append((system_index, count_text, "; ".join(list(examples)[:_EXAMPLES])))
    return rows


def _last_words(text: str) -> str:
    words: Sequence[str] = text.split()
    last_words = " ".join(words[-_WORDS:])
    return ("… " if len(words) > _WORDS or len(last_words) > 60 else "") + last_words[-60:]
