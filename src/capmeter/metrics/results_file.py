"""The file of results: one layout of JSON for one system or many, which `capmeter schema` describes.

    {"capmeter": version, "schema": 1, "systems": {SYSTEM: {"metrics": {NAME: {"score", "signature", "parts", "items",
    "notes", …}}}}}

A metric whose corpus score is no mean of captions has its "rows" beside, so that intervals can be drawn from the file;
a system has the "images" of its captions, its "notes", its "captions" where they are known, and the "command".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from capmeter._version import __version__
from capmeter.captions.model import CaptionSet
from capmeter.captions.reference_digests import Digests
from capmeter.captions.saved import captions_from_dict, captions_to_dict
from capmeter.errors import CapmeterError, InputError
from capmeter.metrics.base import Floats, Metric
from capmeter.metrics.held import Rows
from capmeter.metrics.items import Ids, Items, Scores
from capmeter.metrics.registry import parse

SCHEMA = 1
EXPECTED = "expected what `capmeter score --output` writes"


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the layout."""
    from importlib.resources import files

    found: dict[str, Any] = json.loads(files("capmeter.metrics").joinpath("results.schema.json").read_text("utf-8"))
    return found


def enclosed(systems: Mapping[str, Any]) -> dict[str, Any]:
    """Systems under the head that every file has."""
    return {"capmeter": __version__, "schema": SCHEMA, "systems": dict(systems)}


def is_results(saved: Any) -> bool:
    """Whether this JSON claims to be a file of results."""
    return isinstance(saved, Mapping) and "capmeter" in saved and isinstance(saved.get("systems"), Mapping)


def systems_of(saved: Any, where: str) -> Mapping[str, Any]:
    """The systems as the file holds them, of a version of the layout that is known."""
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


def saved_system(
    scores: Mapping[str, Scores],
    ids: Ids,
    notes: dict[str, list[str]],
    captions: CaptionSet | None,
    command: str | None,
    references: Mapping[str, int] | None,
) -> dict[str, Any]:
    """One system as the file holds it."""
    return {
        "metrics": {
            name: {
                "score": each.score,
                "signature": each.signature,
                "parts": each.parts,
                "items": _by_id(each.items),
                "part_items": {part: _by_id(items) for part, items in each.part_items.items()},
                "notes": each.notes,
                **_saved_rows(each),
            }
            for name, each in scores.items()
        },
        "images": dict(zip(ids.names, ids.images, strict=True)),
        "notes": notes,
        **({} if captions is None else {"captions": captions_to_dict(captions)}),
        **({} if references is None else {"references": _hexadecimal(references)}),
        **({} if command is None else {"command": command}),
    }


def _hexadecimal(digests: Mapping[str, int]) -> dict[str, str]:
    return {image: f"{digest:016x}" for image, digest in digests.items()}  # JSON's numbers hold 53 bits


def _by_id(items: Items) -> dict[str, float]:
    return dict(zip(items.ids.names, items.array.tolist(), strict=True))


def _saved_rows(scores: Scores) -> dict[str, Any]:
    """The rows that a corpus score is made of, where scores and parts of single captions are not these rows."""
    if scores.metric is None or scores.values is None or scores.metric.is_mean:
        return {}
    return {"rows": dict(zip(scores.items.ids.names, scores.values.tolist(), strict=True))}


class SavedSystem(NamedTuple):
    """What a file holds of one system."""

    scores: list[Scores]
    ids: Ids
    notes: dict[str, list[str]] | None
    captions: CaptionSet | None
    command: str | None
    references: Digests | None


def read_system(saved: Any, where: str) -> SavedSystem:
    """What `saved_system` gave; a wrong shape is an `InputError`."""
    try:
        metrics = saved["metrics"]
        if not metrics:
            raise InputError(f"{where}: the results file has no metrics; score the captions again")
        if not all("items" in each for each in metrics.values()):
            raise InputError(f"{where}: holds no captions' scores (`items`), as `--format json` prints; {EXPECTED}")
        images = {id: str(image) for id, image in saved.get("images", {}).items()}
        ids = Ids([], [])
        scores = []
        for name, each in metrics.items():
            if list(each["items"]) != ids.names:
                names = list(each["items"])
                ids = Ids(names, [images.get(one, one) for one in names])
            scores.append(_scores(name, each, ids))
        captions = None
        if saved.get("captions") is not None:
            captions = captions_from_dict(saved["captions"], ids.names, ids.images)
        references = None
        if saved.get("references") is not None:
            digests = [int(saved["references"][image], 16) for image in ids.images]
            references = np.array(digests, np.uint64)
        return SavedSystem(scores, ids, saved.get("notes"), captions, saved.get("command"), references)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as problem:
        raise InputError(
            f"{where}: not a results file of capmeter ({type(problem).__name__}: {problem}); {EXPECTED}"
        ) from problem


def _scores(name: str, saved: Mapping[str, Any], ids: Ids) -> Scores:
    items = Items(ids, _read_numbers(saved["items"], ids.names))
    part_items = {
        part: Items(ids, _read_numbers(each, ids.names)) for part, each in saved.get("part_items", {}).items()
    }
    named = list(saved["parts"].keys())
    metric, values = _read_rows(name, saved, [items, *part_items.values()])
    return Scores(
        name=name,
        score=float(_read_numbers(saved, ["score"])[0]),
        items=items,
        parts=dict(zip(named, _read_numbers(saved["parts"], named).tolist(), strict=True)),
        part_items=part_items,
        notes=saved["notes"],
        signature=saved["signature"],
        metric=metric,
        rows=None if values is None else Rows([values]),
    )


def _read_rows(name: str, saved: Mapping[str, Any], items: Sequence[Items]) -> tuple[Metric | None, Floats | None]:
    """The metric and its rows, so that intervals can be drawn; nothing where this installation lacks the metric."""
    try:
        metric = parse(name)
    except CapmeterError:
        return None, None
    if metric.is_mean:
        whole = len(items) == 1 + len(saved["parts"])
        return (metric, np.column_stack([each.array for each in items])) if whole else (None, None)
    if "rows" not in saved:
        return None, None
    return metric, _read_numbers(saved["rows"], items[0].ids.names)


def _read_numbers(saved: Mapping[str, Any], ids: Sequence[str]) -> Floats:
    """The numbers saved under these ids, in their order; a `ValueError` where one is missing or is not finite."""
    numbers: Floats = np.array([saved[id] for id in ids], np.float64)
    for id, number in zip(ids, numbers, strict=True):
        if not np.isfinite(number).all():
            raise ValueError(f"{id} has no finite number")
    return numbers
