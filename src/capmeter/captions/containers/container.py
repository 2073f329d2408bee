"""What a file contains: one JSON document, rows of names and values, or lines of text; recognised by its first bytes.

Here are those of lines: JSON lines; CSV and TSV with a heading, also with semicolons, as European Excel writes them, or
bars.

>>> class Words(Container):
...     kind = "words"
...     def items(self, names=None, span=WHOLE):
...         return iter([("word 1", "dog")])
...     def decode(self, item, location):
...         return {"caption": item}
>>> Words(None).sample()
[{'caption': 'dog'}]
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, ClassVar

from capmeter.captions.rows import spread
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import list_names

Records = Iterator[tuple[str, Any]]
"""Records with their places, for messages."""
_DELIMITER_NAMES = {",": "a comma", "\t": "a tab", ";": "a semicolon", "|": "a vertical bar"}
_LONGEST_CELL = 1 << 28


@dataclass(frozen=True)
class Span:
    """Consecutive records of a file.

    start: the number of the first, from 0.
    stop: the number of the record after the last; None: to the end.
    offset, first_line, last_line: in text, the bytes and the number of lines before the first record, and the number of
        the last line.
    """

    start: int = 0
    stop: int | None = None
    offset: int = 0
    first_line: int = 0
    last_line: int | None = None

    def lines(self, source: CaptionSource) -> Iterator[tuple[int, str]]:
        """The numbered lines of the records."""
        line_count = None if self.last_line is None else self.last_line - self.first_line
        return islice(source.lines(self.offset, self.first_line), line_count)


WHOLE = Span()
"""All records."""
ROWS = 100_000
"""Records of a part: some ten seconds of work for n-gram metrics, and half a gigabyte."""


class Container:
    """A file whose records are read as often as needed, a few in memory at a time.

    kind: the format's name.
    header: the names of the columns, of tables.
    has_header_line: whether they stand in the first line.
    empty: what an empty cell of a caption is.
    """

    kind: ClassVar[str] = ""
    header: list[str] | None = None
    has_header_line: ClassVar[bool] = False
    empty: ClassVar[Any] = None

    def __init__(self, source: CaptionSource) -> None:
        self.source = source

    def items(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The records in their order, with their places, as the file holds them.

        Args:
            names: the columns that are needed, for tables that are stored by column; None: all.
            span: which records, one of `spans`.
        """
        raise NotImplementedError

    def decode(self, item: Any, location: str) -> Any:
        """The record that one of `items` holds."""
        return item

    def records(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The records in their order, with their places; see `items`."""
        return ((location, self.decode(item, location)) for location, item in self.items(names, span))

    def sample(self, names: Collection[str] | None = None) -> list[Any]:
        """A hundred records or fewer, spread over all of them; no others are decoded."""
        return [self.decode(item, location) for location, item in spread(self.items(names))]

    def spans(self, rows: int) -> list[Span]:
        """The file in spans of at most so many records, where it can be read from within; else all of it."""
        return [WHOLE]

    @property
    def notes(self) -> dict[str, str]:
        """What of the file is not read."""
        return {}

    def refuse_repeated(self) -> None:
        """Raises if two columns have one name."""
        repeated = sorted(column for column, count in Counter(self.header).items() if column and count > 1)
        if repeated:
            raise InputError(f"{self.source.name}: duplicate column {list_names(repeated)} in the header; keep one")


class JsonLines(Container):
    """One JSON value a line."""

    kind = "jsonl"

    def items(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The numbered lines that are not blank."""
        lines = ((line_number, line) for line_number, line in span.lines(self.source) if line.strip())
        return ((f"{self.source.name}, line {line_number}", (line_number, line)) for line_number, line in lines)

    def decode(self, item: Any, location: str) -> Any:
        """The value of a line."""
        line_number, line = item
        return decode_json(line.rstrip("\r\n"), self.source.name, line_number)

    def spans(self, rows: int) -> list[Span]:
        """Spans of lines that are not blank."""
        return _split_lines(self.source, rows)


class DelimitedRows(Container):
    """Rows of cells under the names of a heading."""

    has_header_line = True
    empty = ""

    def __init__(self, source: CaptionSource, kind: str) -> None:
        super().__init__(source)
        self.kind = kind  # type: ignore[misc]
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
        first_line = next((line for _, line in source.lines()), "")
        self._delimiter = max((",", ";", "|") if kind == "csv" else ("\t",), key=first_line.count)
        _, heading = next(self._rows(), (0, list[str]()))
        self.header = [name.strip() for name in heading]
        self.refuse_repeated()

    def items(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The cells of the rows, one line in memory at a time."""
        rows = islice(self._rows(span), int(span.offset == 0), None)
        return ((f"{self.source.name}, line {line_number}", cells) for line_number, cells in rows)

    def decode(self, item: Any, location: str) -> dict[str, str]:
        """The cells by the names of their columns."""
        cells, header = item, self.header or []
        if self._delimiter == "|":
            cells = _bar_cells(cells, len(header))
        if len(cells) != len(header):
            raise InputError(
                f"{location}: {len(cells)} cells where the header has {len(header)}; put quotes around text that "
                f"holds {_DELIMITER_NAMES[self._delimiter]}, a quote or a line break"
            )
        return dict(zip(header, cells, strict=True))

    def spans(self, rows: int) -> list[Span]:
        """Spans of rows, which go on until their quotation marks are closed."""
        return _split_lines(self.source, rows, has_header=True, quotes=self._delimiter != "|")

    def _rows(self, span: Span = WHOLE) -> Iterator[tuple[int, list[str]]]:
        """The cells of each row that has any, and the number of its last line."""
        lines = (line for _, line in span.lines(self.source))
        has_bars = self._delimiter == "|"  # Flickr30k's results.csv, whose captions hold quotes
        options: dict[str, Any] = {"quoting": csv.QUOTE_NONE} if has_bars else {"strict": True}
        reader = csv.reader(lines, delimiter=self._delimiter, **options)
        try:
            for cells in reader:
                if cells:
                    yield span.first_line + reader.line_num, cells
        except csv.Error as error:
            location = f"{self.source.name}, line {span.first_line + reader.line_num}"
            if "new-line character" in str(error):
                raise InputError(
                    f"{location}: a line ends in a carriage return alone; save the file with line ends of Unix or "
                    "Windows, or put quotes around text that holds one"
                ) from None
            raise InputError(f"{location}: not valid CSV or TSV: {error}; repair the quotes") from None


def _bar_cells(cells: list[str], cell_count: int) -> list[str]:
    """The cells without spaces around them; a row of Flickr30k's file lacks the bar after its number."""
    cells = [cell.strip() for cell in cells]
    number, space, text = cells[-1].partition(" ")
    return [*cells[:-1], number, text.strip()] if len(cells) == cell_count - 1 and space and number.isdigit() else cells


def _split_lines(source: CaptionSource, rows: int, *, has_header: bool = False, quotes: bool = False) -> list[Span]:
    """The spans of a text file, of which each record is one or more lines that are not blank.

    Args:
        source: the file.
        rows: the number of records of each span but the last.
        has_header: whether the first record is a heading, which belongs to none.
        quotes: whether a record goes on until its quotation marks are closed.
    """
    record_count, line_number, offset = -1 if has_header else 0, 0, 0
    bounds = [] if has_header else [(0, 0, 0)]  # numbers of records and lines, and bytes, before each span
    is_open = False
    with source.open() as file:
        for line in file:
            line_number, offset = line_number + 1, offset + len(line)
            is_blank = not is_open and not line.strip()
            is_open = is_open != (quotes and line.count(b'"') % 2 == 1)
            if is_open or is_blank:
                continue
            record_count += 1
            if record_count % rows == 0:
                bounds.append((record_count, line_number, offset))
    if bounds and bounds[-1][0] < record_count:
        bounds.append((record_count, line_number, offset))
    spans = [Span(start, stop, begin, first, last) for (start, first, begin), (stop, last, _) in pairwise(bounds)]
    return spans or [WHOLE]
