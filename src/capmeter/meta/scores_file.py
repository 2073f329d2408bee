"""External scores by id, so that a metric implemented elsewhere is evaluated under the same protocol.

Supported: what `capmeter score --output` writes; JSON {id: score}, {metric: {id: score}} or {id: {metric: score}};
JSON lines and JSON lists of objects with an `id`; CSV, TSV and Parquet with an `id` column. Every other field that
holds numbers is a metric. A file of scores alone is a metric named after the file. The official SPICE program's results
are read too, as the metric `spice`, by image id.

The ids of a benchmark's captions: the row's `id` if it has one, else its image's where that is unique, else
`image#k` for the image's k-th row (from 0); of pairs, `/a` and `/b` are added. `capmeter meta --export` writes them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from capmeter.captions.layouts.programs import is_results
from capmeter.captions.sources import read_text
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import format_count
from capmeter.evaluation.results import EXPECTED, check_systems
from capmeter.judgments.rows import read_records
from capmeter.metrics.scene_graph.spice_results import is_spice, read_rows

ScoresByMetric = dict[str, dict[str, float]]
"""Metric → id → score."""
NOT_SCORES = {"id", "image_id", "candidate", "references", "human", "system", "image", "team", "sent_id"}


def read_scores(path: str | Path, ids: Collection[str], *, partial: bool = False) -> ScoresByMetric:
    """The scores in this file, metric → id → score; each of `ids` must have one (or some, if `partial`)."""
    path = Path(path)
    file_name = path.name.split(".")[0]
    suffix = [part for part in path.suffixes if part != ".gz"][-1:] or [""]
    if suffix[0] in (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson"):
        scores = _read_objects(((row.place, row.fields) for row in read_records(path)), file_name)
    else:
        scores = _read_json(decode_json(read_text(path), str(path)), path, file_name, ids)
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
        return {metric: _numbers(items, f"{path}, {metric}") for metric, items in _saved_items(systems, path).items()}
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


def _saved_items(systems: Mapping[str, Any], path: Path) -> dict[str, Any]:
    (system,) = systems.values()
    metrics = system.get("metrics") if isinstance(system, Mapping) else None
    if not isinstance(metrics, Mapping):
        raise InputError(f"{path}: not a results file of capmeter; {EXPECTED}")
    return {name: entry.get("items") if isinstance(entry, Mapping) else entry for name, entry in metrics.items()}


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
    if number is None or not math.isfinite(number):
        raise InputError(f"{where}: expected a finite number as score; omit metrics that have no score for a caption")
    return number
