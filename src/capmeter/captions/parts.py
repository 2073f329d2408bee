"""Captions that do not fit in memory: files in parts, each of which is read at once and by any process.

A part is a range of the records of a file: row groups of Parquet, lines of JSON lines, CSV and TSV. Every other file is
one part. Ids are those of all files read as one by `load`: a row without an id of its own has that of its image, or
`image#k` where the image has several candidates (`numbers` counts the images of all parts).

The rows of a part stand in their order, each with its final id, for what is written beside their scores: with `keep`
also its number in the file, and its values of the columns that are carried through.

>>> source = [{"image_id": 7, "candidate": "a dog", "url": "u1"}, {"image_id": 7, "candidate": "a cat"}]
>>> captions = Part(source, LoadOptions(on_missing="keep"), keep=("url",)).read()
>>> [(row.final_id, row.number, row.kept) for row in captions.rows]
[('7#0', 0, ('u1',)), ('7#1', 1, (None,))]
"""

from __future__ import annotations

import json
import math
import os
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.containers import ROWS, WHOLE, Span
from capmeter.captions.load_options import LoadOptions
from capmeter.captions.matching import CaptionLoader, ReferenceTable, read_references, refuse_absent_columns
from capmeter.captions.reading import RowReader
from capmeter.captions.rows import CaptionRow
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names
from capmeter.core.settings import home_path

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

    rows: all of its rows, in the file's order, each with its final id; then those of images that are scored as empty.
    systems: of each system ("" where rows name none) the rows that are scored, as positions in `rows`, and their set.
    part: whose captions these are.
    names: the columns of the file.
    """

    rows: Sequence[CaptionRow]
    systems: dict[str, tuple[Numbers, CaptionSet]]
    part: Part
    names: Collection[str]

    def column_types(self) -> dict[str, set[type]]:
        """Of each column of the file, and of the rows' numbers, the types of the values that are carried through."""
        kept: dict[str, set[type]] = {
            name: {type(row.kept[k]) for row in self.rows if row.kept}
            for k, name in enumerate(self.part.keep or ())
            if name in self.names
        }
        types: dict[str, set[type]] = {name: set() for name in self.names}
        return types | {NUMBER: {int}} | kept

    def columns(
        self, rows: Sequence[CaptionRow], types: Mapping[str, Collection[type]], others: Collection[str]
    ) -> dict[str, Any]:
        """Numbers and carried values of these rows by column, each a `pyarrow.Array` of numbers or texts.

        Args:
            rows: some of its rows.
            types: of the columns (`join_types`).
            others: the columns beside these.

        Raises:
            InputError: a carried column has the name of another.
        """
        if shared_names := [name for name in types if name in others]:
            raise InputError(
                f"{self.part.source.name}: the scores have a column {list_names(shared_names)}, too; rename the file's"
            )
        keep, columns = self.part.keep or (), {}
        for name, column_types in types.items():
            k = keep.index(name) if name in keep and (name != NUMBER or name in self.names) else None
            values = [row.number if k is None else row.kept[k] if row.kept else None for row in rows]
            columns[name] = _make_column(values, column_types)
        return columns


def join_types(parts: Iterable[Mapping[str, Collection[type]]], keep: Sequence[str]) -> dict[str, set[type]]:
    """The types of the rows' numbers and of the columns that are carried through, of parts or files together.

    Args:
        parts: the `column_types` of each.
        keep: the columns that are carried through.

    Raises:
        InputError: no part has a column.
    """
    types: dict[str, set[type]] = {}
    for name, column_types in (item for part in parts for item in part.items()):
        types.setdefault(name, set()).update(column_types)
    if absent := [name for name in keep if name not in types]:
        raise InputError(
            f"no row has the column {list_names(absent)} that --keep names; the columns are "
            f"{list_names([name for name in types if name != NUMBER], 12) or 'not named in this format'}"
        )
    return {name: types[name] for name in (NUMBER, *keep)}


@dataclass(frozen=True, eq=False)
class Part:
    """Some records of a file.

    source: the file.
    options: how it is read.
    span: which of its records.
    reader: what reads them, if the file is divided; else it is opened when the part is read.
    keep: the columns whose values the rows carry, beside their numbers in the file; None: neither.
    has_ids: whether the file's rows have ids of their own, as far as a sample of one of several parts shows.
    numbers: int64[rows]: the number of each among the candidates of its image, -1 where it is the only one; None: the
        part has all of them.
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
            InputError: they are not as expected, or bytes are to be carried; the message says where.
        """
        reader = self.reader or CaptionLoader.open(self.source, self.options, self.keep).reader
        loader = CaptionLoader(reader, self.options, self.span)
        rows = loader.read()
        for row, number in zip(rows, () if self.numbers is None else self.numbers.tolist(), strict=False):
            if row.id is None:
                row.id = row.image_id if number < 0 else f"{row.image_id}#{number}"
        for position, row in enumerate(rows):
            if self.keep is not None and row.number is None:  # of a document, which is one part
                row.number = position
            row.kept = tuple(map(_carried_value, row.kept, repeat(row.location), self.keep or ()))
        loader.table = references_of(self.options)
        matched = loader.match_systems(rows, "")
        positions = {id(row): position for position, row in enumerate(rows)}
        for system, (kept_rows, _) in matched.items():
            for row in kept_rows:
                if id(row) not in positions:  # its image has no candidate, and is scored as empty
                    row.system, positions[id(row)] = system or None, len(rows)
                    rows.append(row)
        systems = {
            system: (np.array([positions[id(row)] for row in kept_rows], np.int64), captions)
            for system, (kept_rows, captions) in matched.items()
        }
        return PartCaptions(rows, systems, self, reader.fields.names)


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
    if not isinstance(rows, int) or rows < 1:
        raise InputError(f"rows is {rows}, expected a number of captions from 1")
    if options.on_absent == "empty":
        raise InputError("on_absent=empty needs all captions at once: score them without parts")
    if options.references is not None:
        if not options.reference_files:
            raise InputError("references in memory do not reach other processes: write them to a file, and name it")
        # other processes may start in another folder
        options = replace(options, references=[Path(os.fspath(each)).absolute() for each in options.reference_files])
        references_of(options)  # what is wrong with them is said here, before any part is read
    kept_columns = None if keep is None else tuple(map(str, keep if isinstance(keep, Iterable) else [keep]))
    sources = _find_files(source)
    return [part for each in sources for part in _divide(each, options, rows, kept_columns, len(sources) == 1)]


def _find_files(source: Any) -> list[CaptionSource]:
    paths = source if isinstance(source, list | tuple) else [source]
    if paths == [source] and has_magic(pattern := str(home_path(source))) and not Path(pattern).exists():
        paths = sorted(path for path in glob(pattern, recursive=True) if Path(path).is_file())  # noqa: PTH207
    if not paths:
        raise InputError(f"no file matches {source}; expected a pattern such as 'captions/*.parquet', in quotes")
    return list(map(CaptionSource.resolve, paths))


def _divide(
    source: CaptionSource, options: LoadOptions, rows: int, keep: tuple[str, ...] | None, is_alone: bool
) -> list[Part]:
    source = replace(source, path=source.path.absolute())
    reader = CaptionLoader.open(source, options, keep).reader
    if not is_alone and (reader.format == "list" or reader.fields.image_name == ""):
        raise InputError(f"{source.name}: its rows name no image; among several files each needs an image_id")
    sample = list(islice(reader.rows("candidates"), _SAMPLE)) if reader.container else []
    spans = [] if reader.container is None or any(row.single_event for row in sample) else reader.container.spans(rows)
    has_ids = (len(spans) > 1 or not is_alone) and bool(sample) and all(row.id is not None for row in sample)
    part = Part(source, options, keep=keep, has_ids=has_ids)
    if len(spans) < 2:
        return [part]
    table = references_of(options)
    readers = [reader, *(table.readers if table is not None else ())]
    if set(options.columns or ()).difference(*(each.fields.used for each in readers)):  # they may stand in other rows
        deque(reader.rows("candidates"), maxlen=0)
    refuse_absent_columns(readers, options)
    return [replace(part, span=span, reader=reader) for span in spans]


def reference_paths(options: LoadOptions) -> list[Path]:
    """The files of the references; that of an archive, if they are in one."""
    return [CaptionSource.resolve(each).path for each in options.reference_files]


_tables: dict[Any, ReferenceTable | None] = {}  # this process's last references, which are the same for all parts


def references_of(options: LoadOptions) -> ReferenceTable | None:
    """The references of these options, which a process reads once."""
    files = [path.stat() for path in reference_paths(options)]
    key = repr(options), *((status.st_size, status.st_mtime_ns) for status in files)
    if key not in _tables:
        _tables.clear()
        _tables[key] = read_references(options)
    return _tables[key]


def _make_column(values: Sequence[Any], types: Collection[type]) -> Any:
    """Carried values, of these types, as a `pyarrow.Array` of numbers or texts."""
    import pyarrow

    value_types = set(types) - {type(None)}
    column_type = value_types.pop() if len(value_types) == 1 else float if value_types == {int, float} else str
    arrow_type = {int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_(), str: pyarrow.string()}
    if column_type is str:
        values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    elif column_type is float:  # large integers are rounded
        values = [None if value is None else float(value) for value in values]
    return pyarrow.array(values, arrow_type[column_type])


def _carried_value(value: Any, location: str, column_name: str) -> Any:
    """A value as it is written: a number or text (dates in ISO form, lists and objects as JSON), None if it is missing.

    Args:
        value: of a column that is carried through.
        location, column_name: of the value, for messages.

    Raises:
        InputError: bytes, which `--keep` does not carry.
    """
    if isinstance(value, bytes | bytearray):
        raise InputError(f"{location}: the column {column_name} holds bytes, which --keep does not carry; leave it out")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | str) or (isinstance(value, int) and abs(value) < _LARGEST):
        return value
    if hasattr(value, "isoformat"):
        return str(value.isoformat()) if value == value else None  # a time that is none differs from itself
    is_json = isinstance(value, int | list | tuple | dict)
    return json.dumps(value, ensure_ascii=False, default=str) if is_json else str(value)
