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
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.load_options import LoadOptions, Source
from capmeter.captions.reading import open_rows
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
        kept_columns = tuple(dict.fromkeys(keep))
        numbered = self._options.references is None
        self._reader = open_rows(
            source, self._options.format, columns=self._options.columns, keep=kept_columns, numbered=numbered
        )
        column_kinds: list[set[type]] = [set() for _ in kept_columns]
        image_hashes: dict[str, array[int]] = {}
        are_numbered = False
        for caption_row in self._candidates():
            are_numbered = are_numbered or caption_row.id is None
            image_hashes.setdefault(self._system_of(caption_row), array("q")).append(hash(caption_row.image_id))
            for column_index, kept_value in enumerate(caption_row.kept):
                column_kinds[column_index].add(value_kind(kept_value, caption_row.location, kept_columns[column_index]))
        self._shared = {system: _repeated(system_hashes) for system, system_hashes in image_hashes.items()}
        known_names = self._reader.fields.names
        absent = [name for name in kept_columns if name not in known_names and name != NUMBER]
        if absent:
            raise InputError(
                f"{self._reader.name}: no row has the column {list_names(absent)} that --keep names; the columns are "
                f"{list_names(map(str, known_names), 12) or 'not named in this format'}"
            )
        self._positions = {name: column_index for column_index, name in enumerate(kept_columns) if name in known_names}
        self.kinds = {name: column_kinds[column_index] for name, column_index in self._positions.items()}
        if (are_numbered or NUMBER in kept_columns) and NUMBER not in self.kinds:
            self.kinds = {NUMBER: {int}, **self.kinds}

    @property
    def name(self) -> str:
        """What messages call the file."""
        return self._reader.name

    def read(self, system: str | None = None) -> Iterator[CaptionRow]:
        """The candidates (None: of the only system), each under its final id."""
        image_positions: Counter[str] = Counter()
        for caption_row in self._candidates():
            system_name = self._system_of(caption_row)
            if system is not None and system_name != system:
                continue
            if caption_row.id is None and hash(caption_row.image_id) in self._shared[system_name]:
                caption_row.id = f"{caption_row.image_id}#{image_positions[caption_row.image_id]}"
            elif caption_row.id is None:
                caption_row.id = caption_row.image_id
            image_positions[caption_row.image_id] += hash(caption_row.image_id) in self._shared[system_name]
            yield caption_row

    def columns(self, rows: Sequence[CaptionRow]) -> dict[str, Any]:
        """Number and carried values of these rows by column: masked arrays of numbers, or lists of texts and None."""
        carried_columns: dict[str, Any] = {}
        for column_name, column_kinds in self.kinds.items():
            column_position = self._positions.get(column_name)
            carried_columns[column_name] = make_column([_value(row, column_position) for row in rows], column_kinds)
        return carried_columns

    def _system_of(self, caption_row: CaptionRow) -> str:
        return caption_row.system or self._reader.label

    def _candidates(self) -> Iterator[CaptionRow]:
        """The rows of the system and the splits that the options choose, as `CaptionInputs.rows` gives them."""
        options = self._options
        splits = options.splits if options.references is None else ()
        for row_number, caption_row in enumerate(self._reader.rows("candidates")):
            if (options.system is None or caption_row.system == options.system) and (
                not splits or caption_row.split in splits
            ):
                caption_row.number = row_number if caption_row.number is None else caption_row.number
                caption_row.references = None  # most of what a row takes
                yield caption_row


def unify_columns(sources: Sequence[SourceRows]) -> None:
    """Gives the rows of several files the same columns of the same types."""
    shared_kinds: dict[str, set[type]] = {}
    for source in sources:
        for column_name, column_kinds in source.kinds.items():
            shared_kinds.setdefault(column_name, set()).update(column_kinds)
    for source in sources:
        source.kinds = dict(shared_kinds)


def _value(caption_row: CaptionRow, column_position: int | None) -> Any:
    """The carried value at this position (None: the row's number); None where the row has none."""
    if column_position is None:
        return caption_row.number
    return caption_row.kept[column_position] if caption_row.kept else None


def make_column(values: Sequence[Any], kinds: Collection[type]) -> Any:
    """Carried values, of types that `value_kind` gave: a masked array of numbers, or a list of texts and None."""
    column_type = _type_of(set(kinds))
    return [_text(value) for value in values] if column_type is str else _masked(values, column_type)


def value_kind(value: Any, location: str, column_name: str) -> type:
    """The type as which a value is written: a number's, or text; that of a missing value is `NoneType`."""
    if isinstance(value, bytes | bytearray):
        raise InputError(f"{location}: the column {column_name} holds bytes, which --keep does not carry; leave it out")
    if _is_no_number(value):
        return type(None)
    is_number = value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < _LARGEST)
    return type(value) if is_number else str


def _type_of(column_kinds: set[type]) -> type:
    column_kinds = column_kinds - {type(None)}
    if len(column_kinds) == 1:
        return next(iter(column_kinds))
    return float if column_kinds == {int, float} else str


def _masked(column_values: Sequence[Any], column_type: type) -> Any:
    mask = [value is None or (isinstance(value, float) and not math.isfinite(value)) for value in column_values]
    filled = [column_type() if is_absent else value for value, is_absent in zip(column_values, mask, strict=True)]
    return np.ma.MaskedArray(np.array(filled, {int: np.int64, float: np.float64, bool: np.bool_}[column_type]), mask)


def _text(kept_value: Any) -> str | None:
    """Text as it is, dates in ISO form, other values as JSON; None for what is missing, or no number."""
    if kept_value is None or _is_no_number(kept_value):
        return None
    if isinstance(kept_value, bool | int | float | list | tuple | dict):
        return json.dumps(kept_value, ensure_ascii=False, default=str)
    return str(kept_value.isoformat()) if hasattr(kept_value, "isoformat") else str(kept_value)


def _is_no_number(kept_value: Any) -> bool:
    """Whether this is infinite, or no number, or no time."""
    if isinstance(kept_value, float):
        return not math.isfinite(kept_value)
    return hasattr(kept_value, "isoformat") and bool(kept_value != kept_value)


def _repeated(hashes: array[int]) -> frozenset[int]:
    hash_values, hash_counts = np.unique(np.frombuffer(hashes, np.int64), return_counts=True)
    repeated_hashes: npt.NDArray[np.int64] = hash_values[hash_counts > 1]
    return frozenset(repeated_hashes.tolist())
