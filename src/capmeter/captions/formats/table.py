"""CSV and TSV with a header: one native row a line.

`references` is a JSON list in its cell (`["a dog", "a puppy"]`), or there is a column for each: `reference_1`,
`reference_2` … Empty cells mean "not given", save the candidate's, which is then an empty caption.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from capmeter.captions.files import text_lines
from capmeter.captions.formats.native import fields_of, native_rows
from capmeter.captions.jsontext import decode_json
from capmeter.captions.rows import Row, Side, named, shortened
from capmeter.errors import InputError

DELIMITERS = {"csv": ",", "tsv": "\t"}
_LONGEST_CELL = 1 << 28


def read(path: Path, name: str, side: Side, ignored: set[str], delimiter: str) -> Iterator[Row]:
    """The rows, one line in memory at a time."""
    if csv.field_size_limit() < _LONGEST_CELL:
        csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader((line for _, line in text_lines(path)), delimiter=delimiter, strict=True)
    cells = _cells(reader, name)
    header = [column.strip() for column in next(cells, [])]
    check_header(header, name)
    for values in cells:
        place = f"{name}, line {reader.line_num}"
        if len(values) != len(header):
            raise InputError(
                f"{place}: {len(values)} cells where the header has {len(header)}; put quotes around text that holds "
                f"{'a comma' if delimiter == ',' else 'a tab'}, a quote or a line break"
            )
        fields: dict[str, Any] = {}
        for column, value in zip(header, values, strict=True):
            if value or column in ("candidate", "caption", "image_id"):
                listed = column in ("references", "human")
                fields[column] = _listed(value, place, column) if listed else value
        yield from native_rows(fields, place, side, ignored)


def check_header(header: list[str], name: str) -> None:
    """Captions need an image and a text."""
    twice = {column for column in header if column and header.count(column) > 1}
    if twice:
        raise InputError(f"{name}: the column {named(sorted(twice))} stands twice in the header; keep one")
    captions = [c for c in header if c in ("candidate", "caption", "references") or c.startswith("reference")]
    if "image_id" not in header or not captions:
        raise InputError(
            f"{name}: the first line names the columns {named(header, 8)}; expected image_id with candidate (or "
            "caption) and references (or reference_1, reference_2, …); add a header line with these names"
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


class _Lines:
    """Takes csv's lines, which end in \\r\\n so that both are quoted inside a cell, and ends them with \\n."""

    def __init__(self, file: io.TextIOBase) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line[:-2] + "\n")


def write(rows: Iterable[Row], columns: Sequence[str], delimiter: str, file: BinaryIO) -> None:
    """These columns of the rows; the references are a JSON list."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        writer = csv.writer(_Lines(text), delimiter=delimiter, lineterminator="\r\n")
        writer.writerow(columns)
        for row in rows:
            fields = fields_of(row)
            for column in ("references", "human"):
                if column in fields:
                    fields[column] = json.dumps(fields[column], ensure_ascii=False)
            try:
                writer.writerow([fields.get(column, "") for column in columns])
            except csv.Error as error:  # Python 3.10 can write no NUL
                raise InputError(f"image {row.image_id!a}: no cell of a table can hold this ({error})") from None
        text.flush()
    finally:
        text.detach()
