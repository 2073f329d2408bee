"""The rows of a file of captions in their order, for what is written beside their scores.

Each has its final id, its number in the file, and its values of the columns that are carried through. The file is read
again for this, so that nothing of it is held while its captions are scored.

>>> source = [{"image_id": 7, "candidate": "a dog", "url": "u1"}, {"image_id": 7, "candidate": "a cat"}]
>>> [(row.id, row.number, row.kept) for row in SourceRows(source, keep=["url"]).read()]
[('7#0', 0, ('u1',)), ('7#1', 1, (None,))]
"""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.formats import open_rows
from capmeter.captions.load_options import LoadOptions, Source
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
        self._options = options or LoadOptions()
        columns = tuple(dict.fromkeys(keep))
        self._reader = open_rows(source, self._options.format, columns=self._options.columns, keep=columns)
        self._reader.columns.numbered = self._options.references is None
        kinds: list[set[type]] = [set() for _ in columns]
        hashes: dict[str, array[int]] = {}
        are_numbered = False
        for row in self._candidates():
            are_numbered = are_numbered or row.id is None
            hashes.setdefault(self._system_of(row), array("q")).append(hash(row.image_id))
            for k, value in enumerate(row.kept):
                kinds[k].add(_kind(value, row.location, columns[k]))
        self._shared = {system: _repeated(values) for system, values in hashes.items()}
        names = self._reader.columns.names
        absent = [name for name in columns if name not in names and name != NUMBER]
        if absent:
            raise InputError(
                f"{self._reader.name}: no row has the column {list_names(absent)} that --keep names; the columns are "
                f"{list_names(map(str, names), 12) or 'not named in this format'}"
            )
        self._positions = {name: k for k, name in enumerate(columns) if name in names}
        self.kinds = {name: kinds[k] for name, k in self._positions.items()}
        if (are_numbered or NUMBER in columns) and NUMBER not in self.kinds:
            self.kinds = {NUMBER: {int}, **self.kinds}

    @property
    def name(self) -> str:
        """What messages call the file."""
        return self._reader.name

    def read(self, system: str | None = None) -> Iterator[CaptionRow]:
        """The candidates (None: of the only system), each under its final id."""
        positions: Counter[str] = Counter()
        for row in self._candidates():
            name = self._system_of(row)
            if system is not None and name != system:
                continue
            if row.id is None and hash(row.image_id) in self._shared[name]:
                row.id = f"{row.image_id}#{positions[row.image_id]}"
            elif row.id is None:
                row.id = row.image_id
            positions[row.image_id] += hash(row.image_id) in self._shared[name]
            yield row

    def columns(self, rows: Sequence[CaptionRow]) -> dict[str, Any]:
        """Number and carried values of these rows by column: masked arrays of numbers, or lists of texts and None."""
        columns: dict[str, Any] = {}
        for name, kinds in self.kinds.items():
            kind, position = _type_of(kinds), self._positions.get(name)
            values = [_value(row, position) for row in rows]
            columns[name] = [_text(value) for value in values] if kind is str else _masked(values, kind)
        return columns

    def _system_of(self, row: CaptionRow) -> str:
        return row.system or self._reader.label

    def _candidates(self) -> Iterator[CaptionRow]:
        """The rows of the system and the splits that the options choose, as `CaptionInputs.rows` gives them."""
        options = self._options
        splits = options.splits if options.references is None else ()
        for number, row in enumerate(self._reader.rows("candidates")):
            if (options.system is None or row.system == options.system) and (not splits or row.split in splits):
                row.number = number if row.number is None else row.number
                row.references = None  # most of what a row takes
                yield row


def unify_columns(sources: Sequence[SourceRows]) -> None:
    """Gives the rows of several files the same columns of the same types."""
    kinds: dict[str, set[type]] = {}
    for source in sources:
        for name, each in source.kinds.items():
            kinds.setdefault(name, set()).update(each)
    for source in sources:
        source.kinds = dict(kinds)


def _value(row: CaptionRow, position: int | None) -> Any:
    """The carried value at this position (None: the row's number); None where the row has none."""
    if position is None:
        return row.number
    return row.kept[position] if row.kept else None


def _kind(value: Any, location: str, column: str) -> type:
    """The type as which a value is written: a number's, or text; that of a missing value is `NoneType`."""
    if isinstance(value, bytes | bytearray):
        raise InputError(f"{location}: the column {column} holds bytes, which --keep does not carry; leave it out")
    if _is_no_number(value):
        return type(None)
    is_number = value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < _LARGEST)
    return type(value) if is_number else str


def _type_of(kinds: set[type]) -> type:
    kinds = kinds - {type(None)}
    if len(kinds) == 1:
        return next(iter(kinds))
    return float if kinds == {int, float} else str


def _masked(values: Sequence[Any], kind: type) -> Any:
    mask = [value is None or (isinstance(value, float) and not math.isfinite(value)) for value in values]
    filled = [kind() if is_absent else value for value, is_absent in zip(values, mask, strict=True)]
    return np.ma.MaskedArray(np.array(filled, {int: np.int64, float: np.float64, bool: np.bool_}[kind]), mask)


def _text(value: Any) -> str | None:
    """Text as it is, dates in ISO form, other values as JSON; None for what is missing, or no number."""
    if value is None or _is_no_number(value):
        return None
    if isinstance(value, bool | int | float | list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def _is_no_number(value: Any) -> bool:
    """Whether this is infinite, or no number, or no time."""
    if isinstance(value, float):
        return not math.isfinite(value)
    return hasattr(value, "isoformat") and bool(value != value)


def _repeated(hashes: array[int]) -> frozenset[int]:
    values, counts = np.unique(np.frombuffer(hashes, np.int64), return_counts=True)
    repeated: npt.NDArray[np.int64] = values[counts > 1]
    return frozenset(repeated.tolist())
