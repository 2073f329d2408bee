"""The results file: one JSON layout for one system or many, which `capmeter schema` describes.

    {"capmeter": version, "schema": 1, "systems": {SYSTEM: {"metrics": {NAME: {"score", "signature", "parts", "items",
    "notes", …}}}}}

A metric whose corpus score is not a mean of captions also has its "rows", so that intervals can be computed from the
file. A system has the "images" of its captions, its "notes", its "captions" unless streamed, and the "command".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capmeter._version import __version__
from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.layouts import is_results
from capmeter.core.errors import CapmeterError, InputError
from capmeter.core.messages import describe_failure
from capmeter.evaluation.base import Floats, Metric
from capmeter.evaluation.caption_serialization import captions_from_dict, captions_to_dict
from capmeter.evaluation.compact import PackedRows
from capmeter.evaluation.items import Ids, Items, Scores
from capmeter.evaluation.registry import parse

SCHEMA = 1
EXPECTED = "expected what `capmeter score --output` writes"


def load_json_schema() -> dict[str, Any]:
    """Loads the JSON Schema (2020-12) of the layout."""
    from importlib.resources import files

    schema: dict[str, Any] = json.loads((files("capmeter") / "data" / "results.schema.json").read_text("utf-8"))
    return schema


def enclose_systems(systems: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file with these systems: with the version and the schema."""
    return {"capmeter": __version__, "schema": SCHEMA, "systems": dict(systems)}


def check_systems(saved: Any, where: str) -> Mapping[str, Any]:
    """Returns the saved systems by name; an `InputError` if this is not a results file of this schema."""
    if not is_results(saved):
        raise InputError(f"{where}: not a results file of capmeter; {EXPECTED}")
    if saved.get("schema") != SCHEMA:
        raise InputError(
            f"{where}: its layout is schema {saved.get('schema')!r} (of capmeter {saved['capmeter']}), but this "
            f"version reads schema {SCHEMA}; score the captions again"
        )
    systems: Mapping[str, Any] = saved["systems"]
    if not systems:
        raise InputError(f"{where}: the results file holds no system")
    return systems


def system_to_dict(
    results: Mapping[str, Scores],
    ids: Ids,
    notes: dict[str, list[str]],
    captions: CaptionSet | None,
    command: str | None,
    references: Mapping[str, int] | None,
) -> dict[str, Any]:
    """The results of one system as JSON values; `references`: a digest of each image's references."""
    saved = {
        "metrics": {
            metric_name: {
                "score": scores.score,
                "signature": scores.signature,
                "parts": scores.parts,
                "items": _by_id(scores.items),
                "part_items": {part: _by_id(items) for part, items in scores.part_items.items()},
                "notes": scores.notes,
                **({"answers": scores.answers} if scores.answers else {}),
                **_rows_to_dict(scores),
            }
            for metric_name, scores in results.items()
        },
        "images": dict(zip(ids.names, ids.images, strict=True)),
        "notes": notes,
    }
    if captions is not None:
        saved["captions"] = captions_to_dict(captions)
    if references is not None:
        saved["references"] = {image: f"{digest:016x}" for image, digest in references.items()}  # 64 bits exceed JSON's
    return saved | ({} if command is None else {"command": command})


def _by_id(items: Items) -> dict[str, float]:
    return dict(zip(items.ids.names, items.array.tolist(), strict=True))


def _rows_to_dict(scores: Scores) -> dict[str, Any]:
    """The rows of a metric, unless they are the scores and parts of single captions."""
    if scores.metric is None or scores.values is None or scores.metric.is_mean:
        return {}
    return {"rows": dict(zip(scores.items.ids.names, scores.values.tolist(), strict=True))}


def read_system(saved: Any, where: str) -> dict[str, Any]:
    """Reads what `system_to_dict` returned: the arguments of `Results`.

    Raises:
        InputError: the values are not as expected; `where` says where they are from.
    """
    location = where
    try:
        metrics = saved["metrics"]
        if not metrics:
            raise InputError(f"{where}: the results file has no metrics; score the captions again")
        if not all("items" in saved_metric for saved_metric in metrics.values()):
            raise InputError(
                f"{where}: it lacks the scores of single captions (`items`), as `--format json` prints; {EXPECTED}"
            )
        if not all(_are_answers(saved_metric.get("answers", {})) for saved_metric in metrics.values()):
            raise InputError(f"{where}: its answers are not texts by caption and question; score the captions again")
        images = {id: str(image) for id, image in saved.get("images", {}).items()}
        ids = Ids([], [])
        scores = []
        for metric_name, saved_metric in metrics.items():
            location = f"{where}, {metric_name}"
            if list(saved_metric["items"]) != ids.names:
                caption_ids = list(saved_metric["items"])
                ids = Ids(caption_ids, [images.get(id, id) for id in caption_ids])
            scores.append(_read_scores(metric_name, saved_metric, ids))
        location = where
        captions = digests = None
        if saved.get("captions") is not None:
            captions = captions_from_dict(saved["captions"], ids.names, ids.images)
        if saved.get("references") is not None:
            digests = np.array([int(saved["references"][image], 16) for image in ids.images], np.uint64)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as problem:
        raise InputError(
            f"{location}: not a results file of capmeter ({describe_failure(problem)}); {EXPECTED}"
        ) from problem
    details = {"captions": captions, "command": saved.get("command"), "reference_digests": digests}
    return {"scores": scores, "ids": ids, "notes": saved.get("notes"), **details}


def _are_answers(saved: Any) -> bool:
    """Whether these are a judge's answers: by caption, texts by question."""
    if not isinstance(saved, Mapping) or not all(isinstance(each, Mapping) for each in saved.values()):
        return False
    return all(isinstance(text, str) for each in saved.values() for text in each.values())


def _read_scores(metric_name: str, saved_metric: Mapping[str, Any], ids: Ids) -> Scores:
    items = Items(ids, _read_numbers(saved_metric["items"], ids.names))
    part_items = {
        part: Items(ids, _read_numbers(saved_items, ids.names))
        for part, saved_items in saved_metric.get("part_items", {}).items()
    }
    part_names = list(saved_metric["parts"])
    metric, values = _read_rows(metric_name, saved_metric, [items, *part_items.values()])
    return Scores(
        name=metric_name,
        score=float(_read_numbers(saved_metric, ["score"])[0]),
        items=items,
        parts=dict(zip(part_names, _read_numbers(saved_metric["parts"], part_names).tolist(), strict=True)),
        part_items=part_items,
        notes=saved_metric["notes"],
        signature=saved_metric["signature"],
        answers={
            caption_id: {str(question_label): answer_text for question_label, answer_text in answers.items()}
            for caption_id, answers in saved_metric.get("answers", {}).items()
        },
        metric=metric,
        rows=None if values is None else PackedRows([values]),
    )


def _read_rows(
    metric_name: str, saved_metric: Mapping[str, Any], items: Sequence[Items]
) -> tuple[Metric | None, Floats | None]:
    """The metric and its rows (captions, columns); None if this installation lacks the metric, or the file the rows."""
    try:
        metric = parse(metric_name)
    except CapmeterError:
        return None, None
    if metric.is_mean:
        is_complete = len(items) == 1 + len(saved_metric["parts"])
        return (metric, np.column_stack([part_items.array for part_items in items])) if is_complete else (None, None)
    if "rows" not in saved_metric:
        return None, None
    return metric, _read_numbers(saved_metric["rows"], items[0].ids.names)


def _read_numbers(saved: Mapping[str, Any], caption_ids: Sequence[str]) -> Floats:
    """The numbers saved under these ids, in order; a `KeyError` or `ValueError` if one is missing or not finite."""
    numbers: Floats = np.array([saved[caption_id] for caption_id in caption_ids], np.float64)
    for caption_id, number in zip(caption_ids, numbers, strict=True):
        if not np.isfinite(number).all():
            raise ValueError(f"{caption_id} has no finite number")
    return numbers
