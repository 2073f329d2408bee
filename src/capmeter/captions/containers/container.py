"""What a file contains: one JSON document, rows of names and values, or lines of text; recognised by its first bytes.

>>> class Words(Container):
...     kind = "words"
...     def records(self, names=None):
...         return iter([("word 1", {"caption": "dog"})])
>>> list(Words(None).records())
[('word 1', {'caption': 'dog'})]
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, ClassVar

from capmeter.captions.sources import CaptionSource
from capmeter.core.json_text import decode_json

Records = Iterator[tuple[str, Any]]
"""Records with their places, for messages."""


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

    def records(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The records in their order.

        Args:
            names: the columns that are needed, for tables that are stored by column; None: all.
            span: which records, one of `spans`.
        """
        raise NotImplementedError

    def spans(self, rows: int) -> list[Span]:
        """The file in spans of at most so many records, where it can be read from within; else all of it."""
        return [WHOLE]

    @property
    def notes(self) -> dict[str, str]:
        """What of the file is not read."""
        return {}


class JsonLines(Container):
    """One JSON value a line."""

    kind = "jsonl"

    def records(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The values, one line in memory at a time."""
        for line_number, line in span.lines(self.source):
            if line.strip():
                value = decode_json(line.rstrip("\r\n"), self.source.name, line_number)
                yield f"{self.source.name}, line {line_number}", value

    def spans(self, rows: int) -> list[Span]:
        """Spans of lines that are not blank."""
        return split_lines(self.source, rows)


def split_lines(source: CaptionSource, rows: int, *, has_header: bool = False, quotes: bool = False) -> list[Span]:
    """The spans of a text file, of which each record is one or more lines that are not blank.

    Args:
        source: the file.
        rows: the number of records of each span but the last.
        has_header: whether the first record is a heading, which belongs to none.
        quotes: whether a record goes on until its quotation marks are closed.
    """
    record_count, line_number, offset = -1 if has_header else 0, 0, 0
    bounds = [] if has_header else [(0, 0, 0)]  # numbers of records and lines, and bytes, before each span
    is_open = is_blank = False
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
