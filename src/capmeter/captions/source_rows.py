"""The rows of a file of captions in their order, for what is written beside their scores.

Each has its final id, its number in the file, and its values of the columns that are carried through.

>>> source = [{"image_id": 7, "candidate": "a dog", "url": "u1"}, {"image_id": 7, "candidate": "a cat"}]
>>> [(row.id, row.number, row.kept) for row in SourceRows(source, keep=["url"]).read()]
[('7#0', 0, ('u1',)), ('7#1', 1, (None,))]
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from capmeter.captions.load_options import LoadOptions, Source
from capmeter.captions.matching import final_ids, open_candidates, read_candidates
from capmeter.captions.rows import CaptionRow
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names

NUMBER = "row"
"""The column of the row's number, counted from 0 without a header and blank lines."""
_LARGEST = 1 << 63


class SourceRows:
    """The candidates of a file that is read with these options.

    Args:
        source: the file.
        options: how it was read when it was scored.
        keep: the columns that are carried through.

    Raises:
        InputError: a column is in no row, or its values cannot be written.
    """

    def __init__(self, source: Source, options: LoadOptions | None = None, *, keep: Sequence[str] = ()) -> None:
        options, kept_columns = options or LoadOptions(), tuple(dict.fromkeys(keep))
        reader = open_candidates(source, options, kept_columns)
        self.name = reader.name
        """What messages call the file."""
        self._systems: dict[str, list[CaptionRow]] = {}
        column_kinds: list[set[type]] = [set() for _ in kept_columns]
        are_numbered = False
        for number, row in enumerate(read_candidates(reader, options)):
            self._systems.setdefault(row.system or reader.label, []).append(row)
            row.number = number if row.number is None else row.number
            row.references = None  # most of what a row takes
            are_numbered = are_numbered or row.id is None
            for kinds, value, column in zip(column_kinds, row.kept, kept_columns, strict=False):
                kinds.add(value_kind(value, row.location, column))
        for rows in self._systems.values():
            for row, id in zip(rows, final_ids(rows, Counter(row.image_id for row in rows)), strict=True):
                row.id = id
        known_names = reader.fields.names
        if absent := [name for name in kept_columns if name not in known_names and name != NUMBER]:
            raise InputError(
                f"{self.name}: no row has the column {list_names(absent)} that --keep names; the columns are "
                f"{list_names(map(str, known_names), 12) or 'not named in this format'}"
            )
        self._positions = {name: k for k, name in enumerate(kept_columns) if name in known_names}
        self.kinds = {name: column_kinds[k] for name, k in self._positions.items()}
        if (are_numbered or NUMBER in kept_columns) and NUMBER not in self.kinds:
            self.kinds = {NUMBER: {int}, **self.kinds}

    def read(self, system: str | None = None) -> list[CaptionRow]:
        """The candidates (None: of the only system), each under its final id."""
        return next(iter(self._systems.values())) if system is None else self._systems.get(system, [])

    def columns(self, rows: Sequence[CaptionRow]) -> dict[str, Any]:
        """Number and carried values of these rows by column: masked arrays of numbers, or lists of texts and None."""
        columns: dict[str, Any] = {}
        for name, kinds in self.kinds.items():
            k = self._positions.get(name)
            values = [row.number if k is None else row.kept[k] if row.kept else None for row in rows]
            columns[name] = make_column(values, kinds)
        return columns


def unify_columns(sources: Sequence[SourceRows]) -> None:
    """Gives the rows of several files the same columns of the same types."""
    shared_kinds: dict[str, set[type]] = {}
    for source in sources:
        for column_name, column_kinds in source.kinds.items():
            shared_kinds.setdefault(column_name, set()).update(column_kinds)
    for source in sources:
        source.kinds = dict(shared_kinds)


def make_column(values: Sequence[Any], kinds: Collection[type]) -> Any:
    """Carried values, of types that `value_kind` gave: a masked array of numbers, or a list of texts and None."""
    number_kinds = set(kinds) - {type(None)}
    column_type = number_kinds.pop() if len(number_kinds) == 1 else float if number_kinds == {int, float} else str
    if column_type is str:
        return [None if _is_absent(value) else _text(value) for value in values]
    mask = [_is_absent(value) for value in values]
    filled = [column_type() if absent else value for value, absent in zip(values, mask, strict=True)]
    return np.ma.MaskedArray(np.array(filled, {int: np.int64, float: np.float64, bool: np.bool_}[column_type]), mask)


def value_kind(value: Any, location: str, column_name: str) -> type:
    """The type as which a value is written: a number's, or text; that of a missing value is `NoneType`.

    Args:
        value: of a column that is carried through.
        location, column_name: of the value, for messages.

    Raises:
        InputError: bytes, which `--keep` does not carry.
    """
    if isinstance(value, bytes | bytearray):
        raise InputError(f"{location}: the column {column_name} holds bytes, which --keep does not carry; leave it out")
    if _is_absent(value):
        return type(None)
    is_number = isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < _LARGEST)
    return type(value) if is_number else str


def _text(value: Any) -> str:
    """Text as it is, dates in ISO form, other values as JSON."""
    if isinstance(value, bool | int | float | list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def _is_absent(value: Any) -> bool:
    """Whether this is None, infinite, or no number, or no time."""
    if isinstance(value, float):
        return not math.isfinite(value)
    return value is None or (hasattr(value, "isoformat") and bool(value != value))
