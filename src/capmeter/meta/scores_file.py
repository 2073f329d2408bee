"""External scores by id, so that a metric implemented elsewhere is evaluated under the same protocol.

Supported: what `capmeter score --output` writes; JSON {id: score}, {metric: {id: score}} or {id: {metric: score}};
JSON lines and JSON lists of objects with an `id`; CSV, TSV and Parquet with an `id` column. Every other field that
holds numbers is a metric. A file of scores alone is a metric named after the file. The official SPICE program's results
are read too, as the metric `spice`, by image id.

The ids of a benchmark's captions: the row's `id` if it has one, else its image's where that is unique, else
`image#k` for the image's k-th row (from 0); of pairs, `/a` and `/b` are added. `capmeter meta --export` writes them.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from capmeter.captions.csvtext import csv_lines
from capmeter.captions.files import open_bytes, read_text, text_lines
from capmeter.captions.jsontext import decode_json
from capmeter.errors import InputError
from capmeter.metrics.results_file import EXPECTED, is_results, systems_of
from capmeter.metrics.spice_results import is_spice, read_rows

Scores = dict[str, dict[str, float]]
NOT_SCORES = {"id", "image_id", "candidate", "references", "human", "system", "image", "team", "sent_id"}


def read_scores(path: str | Path, ids: Collection[str], *, partial: bool = False) -> Scores:
    """The scores in this file, metric → id → score; each of `ids` must have one (or some, if `partial`)."""
    path = Path(path)
    name = path.name.split(".")[0]
    suffix = [part for part in path.suffixes if part != ".gz"][-1:] or [""]
    if suffix[0] in (".csv", ".tsv"):
        found = _of_objects(_table(path, "\t" if suffix[0] == ".tsv" else ","), path, name)
    elif suffix[0] == ".parquet":
        found = _of_objects(_parquet(path), path, name)
    elif suffix[0] in (".jsonl", ".ndjson"):
        objects = (
            (f"{path}, line {n}", decode_json(line, str(path), n)) for n, line in text_lines(path) if line.strip()
        )
        found = _of_objects(objects, path, name)
    else:
        found = _of_json(decode_json(read_text(path), str(path)), path, name, ids)
    if not found:
        raise InputError(f'{path} has no scores; expected numbers by id, such as {{"{next(iter(ids), "id")}": 0.5}}')
    for metric, scores in found.items():
        missing = [id for id in ids if id not in scores]
        if len(missing) > (len(ids) - 1 if partial else 0):
            raise InputError(
                f"{path} has no {metric} score for {len(missing):,} of {len(ids):,} ids, the first are "
                f"{', '.join(map(repr, missing[:5]))}; the file has ids such as "
                f"{', '.join(map(repr, list(scores)[:3]))} "
                "(`capmeter meta --export FILE` writes the captions with their ids)"
            )
    return found


def _of_json(value: Any, path: Path, name: str, ids: Collection[str]) -> Scores:
    if is_spice(value):
        rows = read_rows(value, where=str(path))
        found = {row.image_id: row.counts["all"].f for row in rows}
        if len(found) < len(rows):
            raise InputError(f"{path}: {len(rows) - len(found)} duplicate image ids; scores are keyed by id")
        return {"spice": found}
    if is_results(value):
        systems = systems_of(value, str(path))
        if len(systems) > 1:
            raise InputError(f"{path}: contains {len(systems)} systems, {', '.join(systems)}; score one into a file")
        return {metric: _numbers(items, f"{path}, {metric}") for metric, items in _items(systems, path).items()}
    if isinstance(value, list):
        return _of_objects(((f"{path}, item {k}", entry) for k, entry in enumerate(value)), path, name)
    if not isinstance(value, Mapping):
        raise InputError(f"{path}: expected scores by id, but got {type(value).__name__}")
    if not any(isinstance(entry, Mapping) for entry in value.values()):
        return {name: _numbers(value, str(path))} if value else {}
    if any(key in ids for key in value):  # id → {metric: score}
        bare = [id for id, entry in value.items() if not isinstance(entry, Mapping)]
        if bare:
            raise InputError(f"{path}, {bare[0]!r}: expected scores by metric, as other ids of the file have")
        return _of_objects(((f"{path}, {id!r}", {**entry, "id": id}) for id, entry in value.items()), path, name)
    return {str(metric): _numbers(entry, f"{path}, {metric}") for metric, entry in value.items()}


def _items(systems: Mapping[str, Any], path: Path) -> dict[str, Any]:
    (system,) = systems.values()
    metrics = system.get("metrics") if isinstance(system, Mapping) else None
    if not isinstance(metrics, Mapping):
        raise InputError(f"{path}: not a results file of capmeter; {EXPECTED}")
    return {name: entry.get("items") if isinstance(entry, Mapping) else entry for name, entry in metrics.items()}


def _of_objects(objects: Iterable[tuple[str, Any]], path: Path, name: str) -> Scores:
    found: Scores = {}
    for place, entry in objects:
        if not isinstance(entry, Mapping):
            raise InputError(f"{place}: expected an object with an id and scores, but got {type(entry).__name__}")
        keys = [key for key in ("id", "image_id", "team", "system") if key in entry]
        if not keys:
            raise InputError(f"{place}: there is no id; expected a field id (fields: {', '.join(map(str, entry))})")
        id = str(entry[keys[0]])
        for key, value in entry.items():
            if key in NOT_SCORES or isinstance(value, list | Mapping | bool):
                continue
            number = _number(value)
            if number is None and isinstance(value, str):
                continue
            scores = found.setdefault(name if key == "score" else str(key), {})
            if id in scores:
                raise InputError(f"{place}: duplicate id {id!r}; scores are keyed by id")
            scores[id] = _checked(number, f"{place}, {key}")
    return found


def _table(path: Path, delimiter: str) -> Iterable[tuple[str, Any]]:
    for number, entry in enumerate(csv.DictReader(csv_lines(read_text(path)), delimiter=delimiter), 2):
        yield f"{path}, row {number}", {key: value for key, value in entry.items() if key is not None}


def _parquet(path: Path) -> Iterable[tuple[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    with open_bytes(path) as file:
        try:
            rows = pyarrow.parquet.read_table(file).to_pylist()
        except pyarrow.ArrowException as error:
            raise InputError(f"{path} is not a valid Parquet file: {error}") from None
    yield from ((f"{path}, row {k}", row) for k, row in enumerate(rows))


def _numbers(entry: Any, place: str) -> dict[str, float]:
    if not isinstance(entry, Mapping):
        raise InputError(f"{place}: expected scores by id, but got {type(entry).__name__}")
    return {str(id): _checked(_number(value), f"{place}, {id!r}") for id, value in entry.items()}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):  # an integer that no float holds
        return None


def _checked(number: float | None, place: str) -> float:
    if number is None or not math.isfinite(number):
        raise InputError(f"{place}: expected a finite number as score; omit metrics that have no score for a caption")
    return number
