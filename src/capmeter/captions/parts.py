"""Captions that do not fit in memory: files in parts, each of which is read at once and by any process.

A part is a range of the records of a file: row groups of Parquet, lines of JSON lines, CSV and TSV. Every other file is
one part. Ids are those of all files read as one by `load`: a row without an id of its own has that of its image, or
`image#k` where the image has several candidates, for which `number_captions` counts the images of all parts.

>>> number_captions([hash_images(["7", "8"]), hash_images(["9", "7"])])
[array([ 0, -1]), array([-1,  1])]

`SourceRows` has all rows of a file in their order, for what is written beside their scores: each has its final id, its
number in the file, and its values of the columns that are carried through.

>>> source = [{"image_id": 7, "candidate": "a dog", "url": "u1"}, {"image_id": 7, "candidate": "a cat"}]
>>> [(row.id, row.number, row.kept) for row in SourceRows(source, keep=["url"]).read()]
[('7#0', 0, ('u1',)), ('7#1', 1, (None,))]
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.containers.container import ROWS, WHOLE, Span
from capmeter.captions.load import match_systems
from capmeter.captions.load_options import LoadOptions, Source
from capmeter.captions.matching import (
    ReferenceTable,
    final_ids,
    find_matches,
    find_unused_references,
    open_candidates,
    read_candidates,
    read_references,
)
from capmeter.captions.reading import RowReader
from capmeter.captions.rows import CaptionRow
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from capmeter.captions.load_options import LoadKeywords

Numbers = npt.NDArray[np.int64]
_SAMPLE = 100
NUMBER = "row"
"""The column of the row's number, counted from 0 without a header and blank lines."""
_LARGEST = 1 << 63


@dataclass(frozen=True, eq=False)
class PartCaptions:
    """The captions of a part.

    rows: all of its rows, in the file's order.
    systems: of each system ("" where rows name none) the rows that are scored, as positions in `rows`, and their set.
    """

    rows: Sequence[CaptionRow]
    systems: dict[str, tuple[Numbers, CaptionSet]]


@dataclass(frozen=True, eq=False)
class Part:
    """Some records of a file.

    source: the file.
    options: how it is read.
    span: which of its records.
    reader: what reads them, if the file is divided; else it is opened when the part is read.
    keep: the columns whose values the rows carry.
    has_ids: whether the file's rows have ids of their own, as far as a sample shows.
    numbers: int64[rows without an id]: the number of each among the candidates of its image, -1 where it is the only
        one; None: the part has all of them.
    """

    source: CaptionSource
    options: LoadOptions
    span: Span = WHOLE
    reader: RowReader | None = None
    keep: tuple[str, ...] | None = None
    has_ids: bool = True
    numbers: Numbers | None = None

    @property
    def name(self) -> str:
        """The name of the file, and the number of the part's first record."""
        return f"{self.source.label}-{self.span.start:09}"

    def read(self) -> PartCaptions:
        """The captions.

        Raises:
            InputError: they are not as expected; the message says where and how to correct them.
        """
        reader = self.reader or open_candidates(self.source, self.options, self.keep)
        rows = read_candidates(reader, self.options, self.span)
        numbers = iter(() if self.numbers is None else self.numbers.tolist())
        for row in rows if self.numbers is not None else ():
            if row.id is None:
                number = next(numbers)
                row.id = row.image_id if number < 0 else f"{row.image_id}#{number}"
        positions = {id(row): position for position, row in enumerate(rows)}
        is_part, table = self.span != WHOLE, _references_of(self.options)
        systems = match_systems(rows, reader, table, self.options, "", is_part=is_part) if rows else {}
        return PartCaptions(
            rows,
            {
                system: (np.array([positions[id(row)] for row in kept_rows], np.int64), captions)
                for system, (kept_rows, captions) in systems.items()
            },
        )

    def find_unused(self, image_ids: Collection[str]) -> list[str]:
        """The images with references, in the splits of these images, but without a candidate among them."""
        table = _references_of(self.options)
        return [] if table is None else find_unused_references(find_matches(image_ids, table.rows), table)


def open_parts(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    references: Any = None,
    *,
    options: LoadOptions | None = None,
    rows: int = ROWS,
    keep: Sequence[str] | None = None,
    **keywords: Unpack[LoadKeywords],
) -> list[Part]:
    """Divides files of captions into parts; `part.read()` gives the captions of one.

    Args:
        source: a file, a pattern such as `captions/*.parquet`, or a list of files.
        references: their files, as of `load`.
        options: how the files are read.
        **keywords: fields of `options` that are replaced.
        rows: the number of records of a part, except where row groups of Parquet are larger or do not add up to it.
        keep: the columns whose values the rows carry, beside their numbers in the file; None: neither.

    Raises:
        InputError: no file matches, a file cannot be read, or `rows` is below 1.
    """
    options = LoadOptions.from_keywords(options, keywords, references)
    if rows < 1:
        raise InputError(f"rows is {rows}, expected a number of captions from 1")
    if options.on_absent == "empty":
        raise InputError("on_absent=empty needs all captions at once: score them without parts")
    if options.references is not None:
        if not options.reference_files:
            raise InputError(
                "references in memory do not reach the parts' processes: write them to a file, and name it"
            )
        # other processes may start in another folder
        options = replace(options, references=[Path(os.fspath(each)).absolute() for each in options.reference_files])
    carried = None if keep is None else tuple(dict.fromkeys(keep))
    return [part for path in _find_files(source) for part in _divide(path, options, rows, carried)]


def number_captions(image_hashes: Sequence[Numbers]) -> list[Numbers]:
    """For the images of rows of each part, as hashes: the number of each among its equals in all parts, -1 if alone."""
    hashes = np.concatenate(image_hashes)
    _, image_indices, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    order = np.argsort(image_indices, kind="stable")
    numbers = np.empty(len(hashes), np.int64)
    numbers[order] = np.arange(len(hashes)) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers[counts[image_indices] == 1] = -1
    return np.split(numbers, np.cumsum([len(part_hashes) for part_hashes in image_hashes])[:-1])


def hash_images(names: Iterable[str]) -> Numbers:
    """64 bits of BLAKE2 of each name, which are the same in every process."""
    encoded = (name.encode("utf-8", "surrogatepass") for name in names)
    return np.frombuffer(b"".join(hashlib.blake2b(each, digest_size=8).digest() for each in encoded), np.int64)


def _find_files(source: Any) -> list[CaptionSource]:
    if isinstance(source, list | tuple):
        return [CaptionSource.resolve(path) for path in source]
    if isinstance(source, CaptionSource) or not has_magic(os.fspath(source)) or Path(source).exists():
        return [source if isinstance(source, CaptionSource) else CaptionSource.resolve(source)]
    paths = sorted(path for path in glob(os.fspath(source), recursive=True) if Path(path).is_file())  # noqa: PTH207
    if not paths:
        raise InputError(f"no file matches {source}; expected a pattern such as 'captions/*.parquet', in quotes")
    repeated = [name for name, count in Counter(Path(path).name for path in paths).items() if count > 1]
    if repeated:
        raise InputError(f"two of the files are called {repeated[0]}, as their scores would be; rename one")
    return list(map(CaptionSource.resolve, paths))


def _divide(source: CaptionSource, options: LoadOptions, rows: int, keep: tuple[str, ...] | None) -> Iterator[Part]:
    source = replace(source, path=source.path.absolute())
    reader = open_candidates(source, options, keep)
    sample = list(islice(reader.rows("candidates"), _SAMPLE)) if reader.container else []
    part = Part(source, options, keep=keep, has_ids=bool(sample) and all(row.id is not None for row in sample))
    is_divided = reader.container is not None and not any(row.single_event for row in sample)
    spans = reader.container.spans(rows) if reader.container is not None and is_divided else [WHOLE]
    if len(spans) < 2:
        yield part
        return
    for span in spans:
        yield replace(part, span=span, reader=reader)


_tables: dict[Any, ReferenceTable | None] = {}  # this process's last references, which are the same for all parts


def _references_of(options: LoadOptions) -> ReferenceTable | None:
    files = [CaptionSource.resolve(path).path.stat() for path in options.reference_files]
    key = repr(options), *((status.st_size, status.st_mtime_ns) for status in files)
    if key not in _tables:
        _tables.clear()
        _tables[key] = read_references(options)
    return _tables[key]


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
