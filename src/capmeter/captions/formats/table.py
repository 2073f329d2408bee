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

from capmeter.captions.columns import IN_PYTHON, Columns, suggest_names
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
    source_lines = (line for _, line in source.lines())
    first_line = next(source_lines, "")
    delimiter = _detect_delimiter(first_line, delimiter, columns)
    if delimiter == "|":  # Flickr30k's results.csv, whose captions hold quotes
        reader = csv.reader(chain([first_line], source_lines), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(chain([first_line], source_lines), delimiter=delimiter, strict=True)
    cell_rows = _cells(reader, source.name)
    header = [column_name.strip() for column_name in next(cell_rows, [])]
    check_header(header, source.name, columns)
    columns.names.update(dict.fromkeys(header))
    fields_of_header = [columns.field(column_name) for column_name in columns.native(header)]
    may_be_empty = [field_name in ("candidate", "image_id") for field_name in fields_of_header]
    list_columns = [
        column_name
        for column_name, field_name in zip(header, fields_of_header, strict=True)
        if field_name == "human" or (column_name == "references" and column_name not in columns.mapping)
    ]
    for row_number, row_cells in enumerate(cell_rows):
        location = f"{source.name}, line {reader.line_num}"
        if delimiter == "|":
            row_cells = _bar_cells(row_cells, len(header))
        if len(row_cells) != len(header):
            raise InputError(
                f"{location}: {len(row_cells)} cells where the header has {len(header)}; put quotes around text that "
                f"holds {_DELIMITER_NAMES[delimiter]}, a quote or a line break"
            )
        fields: dict[str, Any] = {
            column_name: cell_value
            for column_name, cell_value, is_kept in zip(header, row_cells, may_be_empty, strict=True)
            if cell_value or is_kept
        }
        for column_name in list_columns:
            if column_name in fields:
                fields[column_name] = _list_cell(fields[column_name], location, column_name)
        yield from native_rows(fields, location, side, columns, row_number)


def _detect_delimiter(header_line: str, delimiter: str, columns: Columns) -> str:
    """A semicolon (as in files from Excel with decimal commas) or a bar if names are recognised only that way."""

    def count_known(separator: str) -> tuple[int, int]:
        column_names = [column_name.strip().strip('"') for column_name in header_line.rstrip("\r\n").split(separator)]
        scratch = Columns(columns.mapping)
        return sum(
            scratch.field(column_name) is not None for column_name in scratch.native(column_names[:_MOST_TRIED])
        ), len(column_names)

    return max((delimiter, ";", "|"), key=count_known) if delimiter == "," else delimiter


def _bar_cells(cells: list[str], cell_count: int) -> list[str]:
    """The cells without spaces around them; a row of Flickr30k's file lacks the bar after its number."""
    cells = [cell.strip() for cell in cells]
    number, space, text = cells[-1].partition(" ")
    return [*cells[:-1], number, text.strip()] if len(cells) == cell_count - 1 and space and number.isdigit() else cells


def check_header(header: list[str], name: str, columns: Columns) -> None:
    """Raises if the columns are not those of captions: a candidate and references, or one of them and its image."""
    duplicate_columns = {
        column_name for column_name, column_count in Counter(header).items() if column_name and column_count > 1
    }
    if duplicate_columns:
        raise InputError(f"{name}: duplicate column {list_names(sorted(duplicate_columns))} in the header; keep one")
    native_fields = {columns.field(column_name) for column_name in columns.native(header)}
    if "captions" in header:
        native_fields.add("references")
    text_fields = native_fields & {"candidate", "references"}
    if not text_fields or not (native_fields & {"image_id", "image", "id"} or len(text_fields) == 2):
        names = "the columns" if len(header) != 1 else "one column,"
        raise InputError(
            f"{name}: the first line names {names} {suggest_names(header)}; expected image_id with candidate (or "
            f"{', '.join(name for name, field in OTHER_NAMES.items() if field == 'candidate')}) and references (or "
            "reference, ground_truth, reference_1, reference_2, …); add a header line with these names, or say which "
            f"column is which: --column image_id=NAME --column candidate=NAME --column references=NAME {IN_PYTHON}"
        )


def _cells(reader: Any, name: str) -> Iterator[list[str]]:
    while True:
        try:
            row_cells = next(reader)
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
        if row_cells:
            yield row_cells


def _list_cell(cell: str, location: str, column: str) -> Any:
    is_text = column == "references" and not cell.lstrip().startswith("[")
    return cell if is_text else decode_cell(cell, location, column)


def write(rows: Iterable[CaptionRow], columns: Sequence[str], delimiter: str, file: BinaryIO) -> None:
    """These columns of the rows; the references are a JSON list."""
    text_file = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        csv_writer = CsvWriter(text_file, delimiter)
        csv_writer.write(columns)
        for caption_row in rows:
            fields = row_fields(caption_row)
            for column in ("references", "human"):
                if column in fields:
                    fields[column] = json.dumps(fields[column], ensure_ascii=False)
            csv_writer.write([fields.get(column, "") for column in columns])
        text_file.flush()
    finally:
        text_file.detach()
