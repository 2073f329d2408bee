"""CSV and TSV with a header: one native row per line.

`references` is a JSON list in its cell (`["a dog", "a puppy"]`) or one text, or there is a column for each:
`reference_1`, `reference_2` … Empty cells mean "not given", except the candidate's, which is then an empty caption.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO

from capmeter.captions.columns import Columns, suggest_names
from capmeter.captions.formats.native import decode_cell, native_rows, row_fields
from capmeter.captions.layouts import OTHER_NAMES
from capmeter.captions.rows import CaptionRow, Side
from capmeter.captions.sources import CaptionSource
from capmeter.core.csv_text import CsvWriter
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names

DELIMITERS = {"csv": ",", "tsv": "\t"}
_DELIMITER_NAMES = {",": "a comma", "\t": "a tab", ";": "a semicolon", "|": "a vertical bar"}
_LONGEST_CELL = 1 << 28
_MOST_TRIED = 1000  # names of a header, by which its delimiter is found


def read(source: CaptionSource, side: Side, columns: Columns, *, delimiter: str) -> Iterator[CaptionRow]:
    """The rows, one line in memory at a time."""
    if csv.field_size_limit() < _LONGEST_CELL:
        csv.field_size_limit(_LONGEST_CELL)
    lines = (line for _, line in source.lines())
    first = next(lines, "")
    delimiter = _detect_delimiter(first, delimiter, columns)
    if delimiter == "|":  # Flickr30k's results.csv, whose captions hold quotes
        reader = csv.reader(chain([first], lines), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    cells = _cells(reader, source.name)
    header = [column.strip() for column in next(cells, [])]
    check_header(header, source.name, columns)
    columns.names.update(dict.fromkeys(header))
    fields_of_header = [columns.field(column) for column in columns.native(header)]
    may_be_empty = [field in ("candidate", "image_id") for field in fields_of_header]
    list_columns = [
        column
        for column, field in zip(header, fields_of_header, strict=True)
        if field == "human" or (column == "references" and column not in columns.mapping)
    ]
    for number, values in enumerate(cells):
        location = f"{source.name}, line {reader.line_num}"
        if delimiter == "|":
            values = _bar_cells(values, len(header))
        if len(values) != len(header):
            raise InputError(
                f"{location}: {len(values)} cells where the header has {len(header)}; put quotes around text that "
                f"holds {_DELIMITER_NAMES[delimiter]}, a quote or a line break"
            )
        fields: dict[str, Any] = {
            column: value
            for column, value, is_kept in zip(header, values, may_be_empty, strict=True)
            if value or is_kept
        }
        for column in list_columns:
            if column in fields:
                fields[column] = _list_cell(fields[column], location, column)
        yield from native_rows(fields, location, side, columns, number)


def _detect_delimiter(header: str, delimiter: str, columns: Columns) -> str:
    """A semicolon (as in files from Excel with decimal commas) or a bar if names are recognised only that way."""

    def count_known(separator: str) -> tuple[int, int]:
        names = [name.strip().strip('"') for name in header.rstrip("\r\n").split(separator)]
        scratch = Columns(columns.mapping)
        return sum(scratch.field(name) is not None for name in scratch.native(names[:_MOST_TRIED])), len(names)

    return max((delimiter, ";", "|"), key=count_known) if delimiter == "," else delimiter


def _bar_cells(cells: list[str], count: int) -> list[str]:
    """The cells without spaces around them; a row of Flickr30k's file lacks the bar after its number."""
    cells = [cell.strip() for cell in cells]
    number, space, text = cells[-1].partition(" ")
    return [*cells[:-1], number, text.strip()] if len(cells) == count - 1 and space and number.isdigit() else cells


def check_header(header: list[str], name: str, columns: Columns) -> None:
    """Raises if the columns are not those of captions: a candidate and references, or one of them and its image."""
    duplicates = {column for column, count in Counter(header).items() if column and count > 1}
    if duplicates:
        raise InputError(f"{name}: duplicate column {list_names(sorted(duplicates))} in the header; keep one")
    fields = {columns.field(column) for column in columns.native(header)}
    if "captions" in header:
        fields.add("references")
    texts = fields & {"candidate", "references"}
    if not texts or not (fields & {"image_id", "image", "id"} or len(texts) == 2):
        names = "the columns" if len(header) != 1 else "one column,"
        raise InputError(
            f"{name}: the first line names {names} {suggest_names(header)}; expected image_id with candidate (or "
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
            if "new-line character" in str(error):
                raise InputError(
                    f"{name}, line {reader.line_num}: a line ends in a carriage return alone; save the file with line "
                    "ends of Unix or Windows, or put quotes around text that holds one"
                ) from None
            raise InputError(
                f"{name}, line {reader.line_num}: not valid CSV or TSV: {error}; repair the quotes"
            ) from None
        if values:
            yield values


def _list_cell(cell: str, location: str, column: str) -> Any:
    is_text = column == "references" and not cell.lstrip().startswith("[")
    return cell if is_text else decode_cell(cell, location, column)


def write(rows: Iterable[CaptionRow], columns: Sequence[str], delimiter: str, file: BinaryIO) -> None:
    """These columns of the rows; the references are a JSON list."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        table = CsvWriter(text, delimiter)
        table.write(columns)
        for row in rows:
            fields = row_fields(row)
            for column in ("references", "human"):
                if column in fields:
                    fields[column] = json.dumps(fields[column], ensure_ascii=False)
            table.write([fields.get(column, "") for column in columns])
        text.flush()
    finally:
        text.detach()
