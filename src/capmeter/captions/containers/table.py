"""CSV and TSV with a heading; also with semicolons, as European Excel writes them, or bars."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

from capmeter.captions.containers.container import WHOLE, Container, Records, Span, split_lines
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names

DELIMITERS = {"csv": ",", "tsv": "\t"}
_DELIMITER_NAMES = {",": "a comma", "\t": "a tab", ";": "a semicolon", "|": "a vertical bar"}
_LONGEST_CELL = 1 << 28


class DelimitedRows(Container):
    """Rows of cells under the names of a heading."""

    has_header_line = True
    empty = ""

    def __init__(self, source: CaptionSource, kind: str) -> None:
        super().__init__(source)
        self.kind = kind  # type: ignore[misc]
        if csv.field_size_limit() < _LONGEST_CELL:
            csv.field_size_limit(_LONGEST_CELL)
        first_line = next((line for _, line in source.lines()), "")
        delimiters = (",", ";", "|") if kind == "csv" else ("\t",)
        self._delimiter = max(delimiters, key=first_line.count)
        self.header = [name.strip() for name in next(self._cells(self._reader()), [])]
        refuse_repeated(self.header, source.name)

    def records(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The rows, one line in memory at a time."""
        assert self.header is not None
        header, reader = self.header, self._reader(span)
        rows = self._cells(reader, span.first_line)
        if span.offset == 0:
            next(rows, None)
        for cells in rows:
            location = f"{self.source.name}, line {span.first_line + reader.line_num}"
            if self._delimiter == "|":
                cells = _bar_cells(cells, len(header))
            if len(cells) != len(header):
                raise InputError(
                    f"{location}: {len(cells)} cells where the header has {len(header)}; put quotes around text that "
                    f"holds {_DELIMITER_NAMES[self._delimiter]}, a quote or a line break"
                )
            yield location, dict(zip(header, cells, strict=True))

    def spans(self, rows: int) -> list[Span]:
        """Spans of rows, which go on until their quotation marks are closed."""
        return split_lines(self.source, rows, has_header=True, quotes=self._delimiter != "|")

    def _reader(self, span: Span = WHOLE) -> Any:
        lines = (line for _, line in span.lines(self.source))
        if self._delimiter == "|":  # Flickr30k's results.csv, whose captions hold quotes
            return csv.reader(lines, delimiter="|", quoting=csv.QUOTE_NONE)
        return csv.reader(chain(lines), delimiter=self._delimiter, strict=True)

    def _cells(self, reader: Any, first_line: int = 0) -> Iterator[list[str]]:
        name = self.source.name
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "new-line character" in str(error):
                    raise InputError(
                        f"{name}, line {first_line + reader.line_num}: a line ends in a carriage return alone; save "
                        "the file with line ends of Unix or Windows, or put quotes around text that holds one"
                    ) from None
                raise InputError(
                    f"{name}, line {first_line + reader.line_num}: not valid CSV or TSV: {error}; repair the quotes"
                ) from None
            if cells:
                yield cells


def refuse_repeated(header: list[str], name: str) -> None:
    """Raises if two columns have one name."""
    repeated = sorted(column for column, count in Counter(header).items() if column and count > 1)
    if repeated:
        raise InputError(f"{name}: duplicate column {list_names(repeated)} in the header; keep one")


def _bar_cells(cells: list[str], cell_count: int) -> list[str]:
    """The cells without spaces around them; a row of Flickr30k's file lacks the bar after its number."""
    cells = [cell.strip() for cell in cells]
    number, space, text = cells[-1].partition(" ")
    return [*cells[:-1], number, text.strip()] if len(cells) == cell_count - 1 and space and number.isdigit() else cells
