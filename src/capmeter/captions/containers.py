"""Containers: how a file becomes records with their places; what these mean, `layouts` and `fields` know.

JSON lines; CSV and TSV with a heading, also with semicolons, as European Excel writes them, or bars; workbooks of
Excel, of which the first sheet is read (openpyxl, `capmeter[excel]`); Parquet; and tar shards of WebDataset, in which
the files of one sample follow each other and share a key, a name up to its first dot:

    000017.jpg  000017.json  000017.txt      →  {"__key__": "000017", "txt": "…", and the fields of the JSON object}

Parquet is read in batches of the columns that are needed. A small file can hold more than memory does: pages are
compressed, and a repeated text is stored once. Texts are therefore read as Parquet stores them, and their size is
computed before they are decoded: like a gzipped file, one may hold `LARGEST_DOCUMENT` bytes, or `MAX_RATIO` times its
own size if that is more.

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
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from capmeter.captions.rows import spread
from capmeter.captions.sources import (
    BOM,
    LONGEST_LINE,
    MAX_RATIO,
    CaptionSource,
    decode,
    report_damage,
    too_large,
    zip_errors,
)
from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.json_text import decode_json
from capmeter.core.messages import list_names

if TYPE_CHECKING:
    import tarfile

Records = Iterator[tuple[str, Any]]
"""Records with their places, for messages."""
_DELIMITER_NAMES = {",": "a comma", "\t": "a tab", ";": "a semicolon", "|": "a vertical bar"}
_LONGEST_CELL = 1 << 28
_BATCH = 4096
_BLOCK_BYTES = 1 << 26  # of text that is decoded into rows at a time


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
    heading: where they stand, if the file begins with them: "line" or "row".
    empty: what an empty cell of a caption is.
    notes: what of the file is not read.
    """

    kind: ClassVar[str] = ""
    header: list[str] | None = None
    heading: ClassVar[str] = ""
    empty: ClassVar[Any] = None

    def __init__(self, source: CaptionSource) -> None:
        self.source = source
        self.notes: dict[str, str] = {}

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
        return _split_lines(self.source, rows, partial(filter, str.strip))


class DelimitedRows(Container):
    """Rows of cells under the names of a heading."""

    heading = "line"
    empty = ""

    def __init__(self, source: CaptionSource, kind: str) -> None:
        super().__init__(source)
        self.kind = kind  # type: ignore[misc]
        csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
        first_line = next((line for _, line in source.lines() if line.strip()), "")
        self._delimiter = max((",", ";", "|") if kind == "csv" else ("\t",), key=first_line.count)
        self._has_blanks = f"{self._delimiter} " in first_line
        _, heading = next(self._rows(line for _, line in source.lines()), (0, list[str]()))
        self.header = [name.strip() for name in heading]
        self.refuse_repeated()

    def items(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The cells of the rows, one line in memory at a time."""
        rows = self._rows((line for _, line in span.lines(self.source)), span.first_line)
        rows = islice(rows, int(span.offset == 0), None)
        return ((f"{self.source.name}, line {line_number}", cells) for line_number, cells in rows)

    def decode(self, item: Any, location: str) -> dict[str, str]:
        """The cells by the names of their columns."""
        cells, header = item, self.header or []
        if self._delimiter == "|":
            cells = [cell.strip() for cell in cells]
            number, space, text = cells[-1].partition(" ")
            if len(cells) == len(header) - 1 and space and number.isdigit():  # Flickr30k: no bar after the number
                cells[-1:] = number, text.strip()
        if self._delimiter == "\t" and any("\n" in cell and "\t" in cell for cell in cells):
            raise InputError(
                f"{location}: a quoted text with tabs and line breaks, as of quotes that are not doubled; double those "
                "in texts, and put quotes around these texts"
            )
        if len(cells) != len(header):
            raise InputError(
                f"{location}: {len(cells)} cells where the header has {len(header)}; put quotes around text that "
                f"holds {_DELIMITER_NAMES[self._delimiter]}, a quote or a line break"
            )
        return dict(zip(header, cells, strict=True))

    def spans(self, rows: int) -> list[Span]:
        """Spans of rows, which go on until their quotation marks are closed."""
        return _split_lines(self.source, rows, self._rows, has_header=True)

    def _rows(self, lines: Iterable[str], first_line: int = 0) -> Iterator[tuple[int, list[str]]]:
        """The cells of each row that has any, and the number of its last line; `first_line` precede these lines."""
        has_bars = self._delimiter == "|"  # Flickr30k's results.csv, whose captions hold quotes
        options: dict[str, Any] = {"quoting": csv.QUOTE_NONE} if has_bars else {"strict": True}
        options["skipinitialspace"] = self._has_blanks
        reader, last_line = csv.reader(lines, delimiter=self._delimiter, **options), 0
        try:
            for cells in reader:
                last_line = reader.line_num
                if cells:
                    yield first_line + reader.line_num, cells
        except csv.Error as error:
            location = f"{self.source.name}, line {first_line + last_line + 1}"
            if "new-line character" in str(error):
                raise InputError(
                    f"{location}: a line ends in a carriage return alone; save the file with line ends of Unix or "
                    "Windows, or put quotes around text that holds one"
                ) from None
            raise InputError(f"{location}: not valid CSV or TSV: {error}; repair the quotes") from None


def _split_lines(
    source: CaptionSource, rows: int, read: Callable[[Iterator[str]], Iterable[Any]], *, has_header: bool = False
) -> list[Span]:
    """The spans of a text file, of which each record is one or more lines.

    Args:
        source: the file.
        rows: the number of records of each span but the last.
        read: the records of lines, of which it takes no more than the next record needs.
        has_header: whether the first record is a heading, which belongs to none.
    """
    line_number, offset = 0, 0

    def read_lines() -> Iterator[str]:
        nonlocal line_number, offset
        with source.open() as file:
            for line in file:
                line_number, offset = line_number + 1, offset + len(line)
                yield line.removeprefix(BOM if line_number == 1 else b"").decode("utf-8", "replace")

    record_count = 0
    bounds = [] if has_header else [(0, 0, 0)]  # numbers of records and lines, and bytes, before each span
    for record_count, _ in enumerate(read(read_lines()), start=0 if has_header else 1):
        if record_count % rows == 0:
            bounds.append((record_count, line_number, offset))
    if bounds and bounds[-1][0] < record_count:
        bounds.append((record_count, line_number, offset))
    spans = [Span(start, stop, begin, first, last) for (start, first, begin), (stop, last, _) in pairwise(bounds)]
    return spans or [WHOLE]


class ParquetRows(Container):
    """The rows of a Parquet file, whose row groups can be read each by itself."""

    kind = "parquet"

    def __init__(self, source: CaptionSource) -> None:
        super().__init__(source)
        self._checked: set[str] = set()  # columns whose sizes are known to be possible
        with self._open() as file:
            self.schema, self.header = file.schema_arrow, file.schema_arrow.names
            group_rows = (file.metadata.row_group(k).num_rows for k in range(file.num_row_groups))
            self._group_bounds = list(accumulate(group_rows, initial=0))
        self.refuse_repeated()

    def spans(self, rows: int) -> list[Span]:
        """Spans of as many whole row groups as have at most so many rows; a larger one is divided."""
        bounds, row_count = [0], self._group_bounds[-1]
        while bounds[-1] < row_count:
            last_row = bounds[-1] + rows
            whole_groups = [bound for bound in self._group_bounds if bounds[-1] < bound <= last_row]
            bounds.append(whole_groups[-1] if whole_groups else min(last_row, row_count))
        return [Span(start, stop) for start, stop in pairwise(bounds)] or [WHOLE]

    def sample(self, names: Collection[str] | None = None) -> list[Any]:
        """Rows of some row groups."""
        starts = spread(self._group_bounds[:-1], 9)
        spans = (Span(start, min(start + 100 // len(starts), self._group_bounds[-1])) for start in starts)
        return [record for span in spans for _, record in self.records(names, span)]

    def items(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The rows, a few thousand in memory at a time."""
        total_size = 0
        last_row = self._group_bounds[-1] if span.stop is None else span.stop
        columns = [name for name in self.header or () if names is None or name in names]
        with self._open(columns) as file:
            for row_group, (row_number, group_stop) in enumerate(pairwise(self._group_bounds)):
                if row_number >= last_row or group_stop <= span.start:
                    continue
                # one group at a time: pyarrow joins no lists of two
                batch_size = min(_BATCH, last_row - row_number)
                for batch in file.iter_batches(batch_size=batch_size, columns=columns, row_groups=[row_group]):
                    if row_number >= last_row:
                        break
                    batch_bytes = sum(map(_text_size, batch.columns))
                    total_size += batch_bytes
                    self._refuse_size(total_size)
                    slice_rows = max(1, batch.num_rows * _BLOCK_BYTES // max(batch_bytes, _BLOCK_BYTES))
                    for first_row in range(0, batch.num_rows, slice_rows):
                        for record in batch.slice(first_row, slice_rows).to_pylist():
                            if span.start <= row_number < last_row:
                                yield f"{self.source.name}, row {row_number}", record
                            row_number += 1

    @contextmanager
    def _open(self, names: Collection[str] = ()) -> Iterator[Any]:
        """The file, whose metadata are checked, and the sizes of these columns."""
        import pyarrow
        from pyarrow import parquet

        source = self.source
        with source.open() as file:
            try:
                content = pyarrow.BufferReader(file.read()) if source.compression else file
                metadata = parquet.read_metadata(content)
                groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
                self._refuse_size(sum(group.total_byte_size for group in groups))
                paths = [metadata.schema.column(k).path for k in range(metadata.num_columns)]
                wanted = [k for k, path in enumerate(paths) if path.partition(".")[0] in names]
                if not self._checked.issuperset(names):
                    # pyarrow ends the process when it shows a damaged column's metadata; reading through it is an error
                    parquet.ParquetFile(content, metadata=metadata).scan_contents(wanted)
                    chunks = [group.column(k) for group in groups for k in wanted]
                    self._refuse_size(sum(max(each.total_uncompressed_size, each.num_values) for each in chunks))
                    self._checked.update(names)
                texts = [paths[k] for k in wanted if metadata.schema.column(k).physical_type == "BYTE_ARRAY"]
                yield parquet.ParquetFile(content, metadata=metadata, read_dictionary=texts)
            except UnicodeDecodeError as error:
                raise InputError(f"{source.name}: text that is not UTF-8 ({error}); write it again") from None
            except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
                raise InputError(f"{source.name}: not a whole Parquet file: {error}; write or copy it again") from None

    def _refuse_size(self, size: int) -> None:
        if size > self.source.max_content:
            raise InputError(
                f"{self.source.name}: it holds more than {self.source.max_content / 2**30:.1f} GiB and {MAX_RATIO} "
                "times its size, which captions never do; write it as JSON lines if it is intact"
            )


def _text_size(column: Any) -> int:
    """The bytes that a column's texts take once they are decoded."""
    import pyarrow
    from pyarrow import compute

    while pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type):
        column = column.flatten()
    if not pyarrow.types.is_dictionary(column.type):
        return int(column.nbytes)
    text_lengths = compute.cast(compute.binary_length(column.dictionary), pyarrow.int64())
    return int(compute.sum(text_lengths.take(column.indices)).as_py() or 0)


class TarShard(Container):
    """The samples of a tar archive, one in memory at a time."""

    kind = "webdataset"

    def items(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The files of each sample that are a JSON object or a text: ending → name and bytes."""
        import tarfile  # which other files do not need

        name, key, files, finished_keys = self.source.name, "", dict[str, tuple[str, bytes]](), set[int]()
        others = set[str]()
        with (
            report_damage(name, "tar", tarfile.TarError),
            self.source.open() as file,
            tarfile.open(fileobj=file, mode="r|" if self.source.compression else "r:") as archive,  # ":" skips pictures
        ):
            for member in archive:
                folder, _, base_name = member.name.removeprefix("./").rpartition("/")
                stem, _, ending = base_name.partition(".")
                member_key, ending = f"{folder}/{stem}" if folder else stem, ending.lower()
                ending = "txt" if ending in ("caption", "text", "caption.txt") else ending
                if ending not in ("json", "txt"):
                    others.add(f".{ending[:20]}" if ending else base_name[:20])
                    continue
                if files and member_key != key:
                    yield f"{name}/{key}", (key, files)
                    finished_keys.add(hash(key))
                    files = {}
                key = member_key
                if ending in files or hash(key) in finished_keys:
                    raise InputError(
                        f"{name}/{member.name}: a second file of the sample {key} after its first; each sample has "
                        "one .json and one .txt, which follow each other: write the shard again"
                    )
                files[ending] = member.name, self._content(archive, member)
            padding = archive.fileobj.read(LONGEST_LINE) if archive.fileobj else b""
            if not padding or padding.strip(b"\0"):  # after the first block of zeros comes another, and nothing else
                raise InputError(
                    f"{name}: it ends or is damaged after {member_key or 'its beginning'}, without the end of an "
                    "archive, or goes on in a second archive; fetch it again, or write it as one archive"
                )
        if files:
            yield f"{name}/{key}", (key, files)
        elif not finished_keys:
            raise InputError(
                f"{name}: expected KEY.json or KEY.txt of each sample, found {list_names(sorted(others)) or 'nothing'}"
                "; unpack the archive if it holds a file of captions"
            )

    def decode(self, item: Any, location: str) -> dict[str, Any]:
        """The sample's key, the fields of its JSON object and its text, which come before fields of the same name."""
        sample: dict[str, Any] = {"__key__": item[0]}
        for ending, (member_name, content) in item[1].items():
            text = decode(content, member_location := f"{self.source.name}/{member_name}")
            value = decode_json(text, member_location) if ending == "json" else text.removesuffix("\n")
            sample = {**value, **sample} if isinstance(value, dict) else {**sample, ending: value}
        return sample

    def _content(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
        location = f"{self.source.name}/{member.name}"
        if not member.isfile():
            raise InputError(
                f"{location}: a folder, link or device, not a file; write the shard with the files themselves"
            )
        if member.size > LONGEST_LINE:
            raise InputError(f"{location}: more than {LONGEST_LINE >> 20:,} MiB, too long for a row")
        content = archive.extractfile(member)
        return b"" if content is None else content.read()


class Workbook(Container):
    """The rows of the first sheet."""

    kind = "xlsx"
    heading = "row"
    empty = ""  # Excel does not store empty text

    def __init__(self, source: CaptionSource) -> None:
        super().__init__(source)
        with self._rows() as (sheet_rows, sheet_names):
            heading = next(sheet_rows, ())
            if len(sheet_names) > 1:
                self.notes["sheets_not_read"] = f"{source.name}: {list_names(sheet_names[1:])}"
        self.header = ["" if cell is None else str(cell).strip() for cell in heading]
        self.refuse_repeated()

    def items(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The rows that are not empty."""
        with self._rows() as (sheet_rows, _):
            for row_number, cells in enumerate(sheet_rows, 1):
                if row_number > 1 and any(cell is not None for cell in cells):
                    yield f"{self.source.name}, row {row_number}", dict(zip(self.header or (), cells, strict=False))

    @contextmanager
    def _rows(self) -> Iterator[tuple[Iterator[Any], list[str]]]:
        """The rows of the first sheet, and the names of all sheets; damage is an `InputError`."""
        import zipfile  # which other files do not need

        name = self.source.name
        try:
            from openpyxl import load_workbook
        except ImportError:
            raise MissingBackend(
                f"{name}: workbooks need openpyxl; install it with: pip install 'capmeter[excel]', or save as CSV"
            ) from None
        # of a path openpyxl looks at the ending, too
        with report_damage(name, "Excel", *zip_errors()), Path(self.source.path).open("rb") as file:
            with zipfile.ZipFile(file) as archive:
                content_size = sum(member_info.file_size for member_info in archive.infolist())
            if content_size > self.source.max_content:
                raise too_large(self.source, name)
            workbook = load_workbook(file, read_only=True, data_only=True)
            try:
                yield workbook.worksheets[0].iter_rows(values_only=True), workbook.sheetnames
            finally:
                workbook.close()
