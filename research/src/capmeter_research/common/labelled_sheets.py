"""Sheets of captions that a person labels in a spreadsheet."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from capmeter.captions.sources import read_text
from capmeter.core.errors import InputError


def labelled_rows(
    path: str | os.PathLike[str], columns: Sequence[str], command: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a labelled sheet, by their number in the file.

    Args:
        path: the sheet, as CSV.
        columns: those that it must have.
        command: the command that wrote the sheet, for the error message.

    Raises:
        InputError: a column is missing.
    """
    text = read_text(Path(path))
    header_line = text.partition("\n")[0]
    # European spreadsheets write semicolons
    reader = csv.DictReader(
        io.StringIO(text, newline=""), delimiter=";" if header_line.count(";") > header_line.count(",") else ","
    )
    missing_columns = [column_name for column_name in columns if column_name not in (reader.fieldnames or ())]
    if missing_columns:
        raise InputError(f"{path}: there is no column {missing_columns[0]!r}; expected what `{command}` writes")
    yield from enumerate(reader, 2)
