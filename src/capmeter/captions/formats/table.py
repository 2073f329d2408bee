"""CSV and TSV with a header: one native row per line.

`references` is a JSON list in its cell (`["a dog", "a puppy"]`), or there is a column for each: `reference_1`,
`reference_2` … Empty cells mean "not given", except the candidate's, which is then an empty caption.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from capmeter.captions.columns import OTHER_NAMES, Columns, nearest
from capmeter.captions.csvtext import CsvWriter
from capmeter.captions.files import text_lines
from capmeter.captions.formats.native import fields_of, native_rows
from capmeter.captions.jsontext import decode_json
from capmeter.captions.rows import Row, Side, named, shortened
from capmeter.errors import InputError

DELIMITERS = {"csv": ",", "tsv": "\t"}
_DELIMITER_NAMES = {",": "a comma", "\t": "a tab", ";": "a semicolon"}
_LONGEST_CELL = 1 << 28


def read(path: Path, name: str, side: Side, columns: Columns, delimiter: str) -> Iterator[Row]:
    """The rows, one line in memory at a time."""
    if csv.field_size_limit() < _LONGEST_CELL:
        csv.field_size_limit(_LONGEST_CELL)
    lines = (line for _, line in text_lines(path))
    first = next(lines, "")
    delimiter = _delimiter(first, delimiter, columns)
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    cells = _cells(reader, name)
    header = [column.strip() for column in next(cells, [])]
    check_header(header, name, columns)
    fields_of_header = [columns.field(column) for column in columns.native(header)]
    for values in cells:
        place = f"{name}, line {reader.line_num}"
        if len(values) != len(header):
            raise InputError(
                f"{place}: {len(values)} cells where the header has {len(header)}; put quotes around text that holds "
                f"{_DELIMITER_NAMES[delimiter]}, a quote or a line break"
            )
        fields: dict[str, Any] = {}
        for column, field, value in zip(header, fields_of_header, values, strict=True):
            if value or field in ("candidate", "image_id"):
                listed = field == "human" or (column == "references" and column not in columns.chosen)
                fields[column] = _listed(value, place, column) if listed else value
        yield from native_rows(fields, place, side, columns)


def _delimiter(header: str, delimiter: str, columns: Columns) -> str:
    """A semicolon if the header's names are recognised only that way, as in files from Excel with decimal commas."""

    def known(by: str) -> int:
        return sum(columns.field(column.strip().strip('"')) is not None for column in header.rstrip("\r\n").split(by))

    return ";" if delimiter == "," and known(";") > known(",") else delimiter


def check_header(header: list[str], name: str, columns: Columns) -> None:
    """Captions need an image and a text."""
    twice = {column for column in header if column and header.count(column) > 1}
    if twice:
        raise InputError(f"{name}: duplicate column {named(sorted(twice))} in the header; keep one")
    fields = {columns.field(column) for column in columns.native(header)}
    if "image_id" not in fields or not fields & {"candidate", "references"}:
        raise InputError(
            f"{name}: the first line names the columns {nearest(header)}; expected image_id with candidate (or "
            f"{', '.join(name for name, field in OTHER_NAMES.items() if field == 'candidate')}) and references (or "
            "reference, ground_truth, reference_1, reference_2, …); add a header line with these names, or say which "
            "column is which: --column image_id=NAME --column candidate=NAME --column references=NAME"
        )


def _cells(reader: Any, name: str) -> Iterator[list[str]]:
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{name}, line {reader.line_num}: not valid CSV or TSV: {error}; repair the quotes"
            ) from None
        if values:
            yield values


def _listed(cell: str, place: str, column: str) -> Any:
    if column == "references" and not cell.lstrip().startswith("["):
        raise InputError(
            f'{place}: references is the text {shortened(cell)}, expected a JSON list such as ["a dog", "a puppy"]; or '
            "use columns reference_1, reference_2, …"
        )
    try:
        return decode_json(cell, f"{place}, column {column}")
    except InputError as error:
        python = " (this looks like a Python list; write it with json.dumps)" if "'" in cell else ""
        raise InputError(f"{error}{python}") from None


def write(rows: Iterable[Row], columns: Sequence[str], delimiter: str, file: BinaryIO) -> None:
    """These columns of the rows; the references are a JSON list."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        table = CsvWriter(text, delimiter)
        table.write(columns)
        for row in rows:
            fields = fields_of(row)
            for column in ("references", "human"):
                if column in fields:
                    fields[column] = json.dumps(fields[column], ensure_ascii=False)
            table.write([fields.get(column, "") for column in columns])
        text.flush()
    finally:
        text.detach()
