"""Workbooks of Excel: the first sheet, whose first row names the columns.

VLMEvalKit writes such predictions. Needs openpyxl (`capmeter[excel]`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from capmeter.captions.archives import zip_errors
from capmeter.captions.columns import Columns
from capmeter.captions.formats.native import native_rows
from capmeter.captions.formats.table import check_header
from capmeter.captions.rows import CaptionRow, Side
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.messages import describe_error, list_names


def is_workbook(start: bytes) -> bool:
    """Whether a file that begins so is a workbook; other zip archives are unzipped."""
    return start.startswith(b"PK\x03\x04")


def read(source: CaptionSource, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """The rows of the first sheet; empty cells are left out."""
    import zipfile

    name = source.name
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise MissingBackend(
            f"{name}: workbooks need openpyxl; install it with: pip install 'capmeter[excel]', or save as CSV"
        ) from None
    with ExitStack() as opened:
        with _damage(name):
            file = opened.enter_context(Path(source.path).open("rb"))  # of a path openpyxl looks at the ending, too
            with zipfile.ZipFile(file) as archive:
                size = sum(each.file_size for each in archive.infolist())
            if size > source.max_content:
                raise InputError(
                    f"{name}: the workbook unzips to more than {source.max_content / 2**30:.1f} GiB, which captions "
                    "never do"
                )
            book = load_workbook(file, read_only=True, data_only=True)
            opened.callback(book.close)
            if others := book.sheetnames[1:]:
                columns.note("sheets_not_read", f"{name}: {list_names(others)}")
            lines = book.worksheets[0].iter_rows(values_only=True)
            header = ["" if cell is None else str(cell).strip() for cell in next(lines, ())]
        check_header(header, name, columns)
        for number in count(2):
            with _damage(name):
                cells = next(lines, None)
            if cells is None:
                return
            if any(cell is not None for cell in cells):
                fields = _fields(header, cells, columns)
                yield from native_rows(fields, f"{name}, row {number}", side, columns, number - 2)


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """Errors of the block, while a workbook is read, become an `InputError`."""
    damage: tuple[type[Exception], ...] = (*zip_errors(), SyntaxError, AttributeError)  # `SyntaxError`: of its XML
    try:
        yield
    except InputError:
        raise
    except damage as error:
        raise InputError(f"{name}: not a whole workbook ({describe_error(error)}); save it again, or as CSV") from None


def _fields(header: list[str], cells: tuple[Any, ...], columns: Columns) -> dict[str, Any]:
    """Excel does not store empty text: an empty cell of a candidate is an empty caption."""
    values = dict(zip(header, cells, strict=False))
    native = dict(zip(header, columns.native(header), strict=True))
    candidates = {name for name in header if columns.field(native[name]) == "candidate"}
    return {
        name: "" if value is None else value
        for name, value in values.items()
        if value is not None or name in candidates
    }
