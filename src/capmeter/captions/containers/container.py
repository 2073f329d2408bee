"""What a file contains: one JSON document, rows of names and values, or lines of text; recognised by its first bytes.

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

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, TypeVar

from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names

Records = Iterator[tuple[str, Any]]
"""Records with their places, for messages."""
Item = TypeVar("Item")


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


def spread(items: Iterable[Item], most: int = 100) -> list[Item]:
    """Every item, or every second, fourth, eighth … so that there are at most so many.

    >>> spread(range(10), most=4)
    [0, 4, 8]
    """
    chosen: list[Item] = []
    step = 1
    for position, item in enumerate(items):
        if position % step == 0:
            chosen.append(item)
            if len(chosen) > most:
                chosen, step = chosen[::2], 2 * step
    return chosen
