"""Candidates and references in any order, joined by image id on disk: neither is held in memory.

Both files are read once and written as columns; DuckDB joins them within a bound of memory, spilling the rest to the
same folder. The result is a file of native rows in the order of the candidates, which is read as a stream. Images are
matched by their id alone; `load` also tries file names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from capmeter.captions.reading import RowReader
from capmeter.captions.rows import CaptionRow, Side
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names

_BATCH = 8192
_TYPES = {**dict.fromkeys(("id", "image_id", "candidate", "image", "system"), "text"), "human": "numbers"}
# as in `ReferenceTable`: rows of one reference each add up, as files do; equal lists of a file count once
_JOIN = """
CREATE TEMP VIEW joined AS
WITH lists_of_files AS (
    SELECT image_id, file,
        CASE WHEN bool_or(part) THEN flatten(list(texts ORDER BY number)) ELSE first(texts ORDER BY number) END AS texts
    FROM reference_rows GROUP BY image_id, file
), lists AS (
    SELECT image_id, flatten(list(texts ORDER BY file)) AS texts FROM lists_of_files GROUP BY image_id
)
SELECT c.*, lists.texts FROM candidate_rows c LEFT JOIN lists USING (image_id)
"""
_DIFFERENT = """
SELECT image_id FROM reference_rows GROUP BY image_id, file
HAVING NOT bool_or(part) AND count(DISTINCT texts) > 1 ORDER BY min(number) LIMIT 1
"""
_SPLITS = """
SELECT image_id, min(split), max(split) FROM reference_rows GROUP BY image_id, file
HAVING count(DISTINCT split) > 1 ORDER BY min(number) LIMIT 1
"""
_COUNTS = "SELECT count(*) FILTER (texts IS NULL), count(*) FROM joined"
_FIRST_WITHOUT = "SELECT image_id FROM joined WHERE texts IS NULL ORDER BY number LIMIT 5"
_ROWS = f'SELECT {", ".join(_TYPES)}, texts AS "references" FROM joined ORDER BY number'


class HasEvents(Exception):
    """The rows describe events in time, which are not joined on disk."""


def join_on_disk(
    candidates: RowReader,
    references: Sequence[RowReader],
    folder: str | os.PathLike[str],
    *,
    on_missing: str,
) -> Path:
    """Writes the candidates with their references as a Parquet file in this folder.

    Args:
        candidates, references: what reads the files.
        folder: an empty folder.
        on_missing: "error", "skip" or "keep", as in `LoadOptions`.

    Raises:
        InputError: candidates without references (if `on_missing` is "error"), or a file that is damaged.
        HasEvents: there are events in time.
    """
    import duckdb

    folder = Path(folder)
    candidate_file, reference_file, joined_file = (
        folder / f"{file_stem}.parquet" for file_stem in ("candidates", "references", "joined")
    )
    _write_rows(_candidate_rows(candidates), {**_TYPES, "number": "int"}, candidate_file)
    types = {"image_id": "text", "texts": "texts", "part": "bool", "number": "int", "file": "int", "split": "text"}
    _write_rows(_reference_rows(references), types, reference_file)
    names = " and ".join(reference_reader.name for reference_reader in references)
    spill_folder = str(folder / "spill")
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1, "temp_directory": spill_folder}) as database:
        database.read_parquet(str(candidate_file)).create_view("candidate_rows")
        database.read_parquet(str(reference_file)).create_view("reference_rows")
        database.execute(_JOIN)
        for image_id, *both in database.execute(_SPLITS).fetchall():
            raise InputError(
                f"{names}: image {image_id!a} is of the splits {both[0]!a} and {both[1]!a}: two images with one id; "
                "choose one split (split=, --split)"
            )
        for (image_id,) in database.execute(_DIFFERENT).fetchall():
            raise InputError(f"{names}: image {image_id!a} has different references in two rows; give it one list")
        if on_missing == "error":
            _refuse_missing(database, candidates.name, names)
        database.sql(_ROWS).write_parquet(str(joined_file))
    for row_file in (candidate_file, reference_file):
        row_file.unlink()
    return joined_file


def _refuse_missing(database: Any, candidates: str, references: str) -> None:
    ((count, total),) = database.execute(_COUNTS).fetchall()
    if count:
        image_ids = list_names([image_id for (image_id,) in database.execute(_FIRST_WITHOUT).fetchall()])
        raise InputError(
            f"{candidates}: {count:,} of {total:,} candidates have no references in {references}: {image_ids}. Check "
            "that both name the images alike, or leave these candidates out (on_missing='skip', --on-missing skip)"
        )


def _without_events(reader: RowReader, side: Side) -> Iterator[CaptionRow]:
    for caption_row in reader.rows(side):
        if caption_row.events is not None or caption_row.reference_events:
            raise HasEvents
        yield caption_row


def _candidate_rows(reader: RowReader) -> Iterator[dict[str, Any]]:
    for row_number, caption_row in enumerate(_without_events(reader, "candidates")):
        yield {**{field_name: getattr(caption_row, field_name) for field_name in _TYPES}, "number": row_number}


def _reference_rows(readers: Sequence[RowReader]) -> Iterator[dict[str, Any]]:
    for file_number, reader in enumerate(readers):
        for row_number, row in enumerate(_without_events(reader, "references")):
            reference_texts = list(row.references or ())
            joined = {"image_id": row.image_id, "texts": reference_texts, "part": row.one_of_many, "split": row.split}
            yield {**joined, "number": row_number, "file": file_number}


def _write_rows(rows: Iterable[dict[str, Any]], column_types: dict[str, str], parquet_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    text = pyarrow.string()
    arrow_types = {"text": text, "int": pyarrow.int64(), "bool": pyarrow.bool_(), "texts": pyarrow.list_(text)}
    arrow_types["numbers"] = pyarrow.list_(pyarrow.float64())
    schema = pyarrow.schema([(column_name, arrow_types[type_name]) for column_name, type_name in column_types.items()])
    rows = iter(rows)
    with parquet.ParquetWriter(parquet_path, schema) as writer:
        while row_batch := list(islice(rows, _BATCH)):
            writer.write_table(pyarrow.Table.from_pylist(row_batch, schema=schema))
