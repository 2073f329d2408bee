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
from typing import Any, ClassVar

from capmeter.captions.sources import CaptionSource
from capmeter.core.json_text import decode_json

Records = Iterator[tuple[str, Any]]
"""Records with their places, for messages."""


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

    def records(self, names: Collection[str] | None = None) -> Records:
        """The records in their order.

        Args:
            names: the columns that are needed, for tables that are stored by column; None: all.
        """
        raise NotImplementedError

    @property
    def notes(self) -> dict[str, str]:
        """What of the file is not read."""
        return {}


class JsonLines(Container):
    """One JSON value a line."""

    kind = "jsonl"

    def records(self, names: Collection[str] | None = None) -> Records:
        """The values, one line in memory at a time."""
        for line_number, line in self.source.lines():
            if line.strip():
                value = decode_json(line.rstrip("\r\n"), self.source.name, line_number)
                yield f"{self.source.name}, line {line_number}", value
