"""Candidates and references in any order, joined by image id on disk: neither is held in memory.

Both files are read once and written as columns; DuckDB joins them within a bound of memory, spilling what is more to
the same folder. What comes out is a file of native rows in the order of the candidates, which is read as a stream.
Images are matched by their id alone; `load` also tries file names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from capmeter.captions.formats import Reading
from capmeter.captions.rows import named
from capmeter.errors import InputError

_BATCH = 8192
_CANDIDATES = ("id", "image_id", "candidate", "image", "system")


def joined_on_disk(
    candidates: Reading, references: Reading, folder: str | os.PathLike[str], *, on_missing: str, memory: str = "512MB"
) -> Path:
    """Writes the candidates with their references as Parquet in this folder.

    Raises:
        InputError: candidates without references (unless `on_missing` is `skip` or `keep`), or a file that is damaged.
    """
    import duckdb

    place = Path(folder)
    if "'" in str(place):
        raise InputError(f"{place}: a folder without ' in its name is needed for large files; set TMPDIR to another")
    said, told, both = (place / f"{name}.parquet" for name in ("candidates", "references", "joined"))
    _write(_candidate_rows(candidates), {**dict.fromkeys(_CANDIDATES, "text"), "number": "int"}, said)
    _write(_reference_rows(references), {"image_id": "text", "texts": "texts", "part": "bool", "number": "int"}, told)
    with duckdb.connect(config={"memory_limit": memory, "threads": 1, "temp_directory": str(place / "spill")}) as base:
        # as `ReferenceTable` has it: rows of one reference each add up, equal lists count once
        several = (
            "CASE WHEN bool_or(part) THEN flatten(list(texts ORDER BY number)) ELSE first(texts ORDER BY number) END"
        )
        lists = f"SELECT image_id, {several} AS texts FROM read_parquet('{told}') GROUP BY image_id"
        _refuse_different(base, told, references.name)
        rows = f"SELECT c.*, r.texts FROM read_parquet('{said}') c LEFT JOIN ({lists}) r USING (image_id)"
        if on_missing == "error":
            _refuse(base, rows, candidates.name, references.name)
        kept = "WHERE texts IS NOT NULL" if on_missing == "skip" else ""
        columns = ", ".join(_CANDIDATES)
        base.execute(
            f'COPY (SELECT {columns}, texts AS "references" FROM ({rows}) {kept} ORDER BY number) '
            f"TO '{both}' (FORMAT parquet)"
        )
    for path in (said, told):
        path.unlink()
    return both


def _refuse(base: Any, rows: str, said: str, told: str) -> None:
    count, total = base.execute(f"SELECT count(*) FILTER (texts IS NULL), count(*) FROM ({rows})").fetchone()
    if count:
        found = base.execute(f"SELECT image_id FROM ({rows}) WHERE texts IS NULL ORDER BY number LIMIT 5").fetchall()
        raise InputError(
            f"{said}: {count:,} of {total:,} candidates have no references in {told}: "
            f"{named([each for (each,) in found])}. Check that both name the images alike, or leave these candidates "
            "out (on_missing='skip', --on-missing skip)"
        )


def _refuse_different(base: Any, told: Path, name: str) -> None:
    found = base.execute(
        f"SELECT image_id FROM read_parquet('{told}') GROUP BY image_id "
        "HAVING NOT bool_or(part) AND count(DISTINCT texts) > 1 ORDER BY min(number) LIMIT 1"
    ).fetchone()
    if found:
        raise InputError(f"{name}: image {found[0]!a} has different references in two rows; give it one list")


def _candidate_rows(reading: Reading) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(reading.rows("candidates")):
        yield {**{name: getattr(row, name) for name in _CANDIDATES}, "number": number}


def _reference_rows(reading: Reading) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(reading.rows("references")):
        yield {
            "image_id": row.image_id,
            "texts": list(row.references or ()),
            "part": row.one_of_many,
            "number": number,
        }


def _write(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    text = pyarrow.string()
    kinds = {"text": text, "int": pyarrow.int64(), "bool": pyarrow.bool_(), "texts": pyarrow.list_(text)}
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
    rows = iter(rows)
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := list(islice(rows, _BATCH)):
            writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))
