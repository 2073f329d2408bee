"""The one CSV writer: every table that capmeter writes as CSV or TSV goes through it.

Lines end in \\n. A cell with a delimiter, a quote, \\n or \\r is quoted, so that any RFC 4180 reader gets every
text back unchanged, including ids with a carriage return. A cell that begins with `=`, `+`, `-` or `@` is written
unchanged: in these files `-0.5` is a number and every id must match. A spreadsheet reads such a cell as a formula;
import the columns as text if the captions come from an untrusted source.

>>> import io
>>> text = io.StringIO()
>>> rows = CsvWriter(text)
>>> rows.write(["id", "score"])
>>> rows.write(["a\\rb", -0.5])
>>> text.getvalue()
'id,score\\n"a\\rb",-0.5\\n'
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from capmeter.core.errors import InputError
from capmeter.core.messages import list_names


class _Lines:
    """Takes csv's lines, which end in \\r\\n so that both are quoted inside a cell, and ends them with \\n."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line[:-2] + "\n")


class CsvWriter:
    """Rows as lines of delimited cells."""

    def __init__(self, file: TextIO, delimiter: str = ",") -> None:
        self._writer = csv.writer(_Lines(file), delimiter=delimiter, lineterminator="\r\n")

    def write(self, cells: Sequence[Any]) -> None:
        """One row; None is an empty cell."""
        try:
            self._writer.writerow(cells)
        except csv.Error as error:  # Python 3.10 cannot write NUL
            raise InputError(f"a table cell cannot hold this ({error}): {list_names(map(str, cells))}") from None


def csv_lines(text: str) -> Iterable[str]:
    """The text's lines for `csv.reader`: U+2028 and its like, which `str.splitlines` cuts at, stay inside a cell."""
    return io.StringIO(text, newline="")
