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
    with ExitStack() as open_files:
        with _damage(name):
            file = open_files.enter_context(Path(source.path).open("rb"))  # of a path openpyxl looks at the ending, too
            with zipfile.ZipFile(file) as archive:
                content_size = sum(member_info.file_size for member_info in archive.infolist())
            if content_size > source.max_content:
                raise InputError(
                    f"{name}: the workbook unzips to more than {source.max_content / 2**30:.1f} GiB, which captions "
                    "never do"
                )
            workbook = load_workbook(file, read_only=True, data_only=True)
            open_files.callback(workbook.close)
            if other_sheets := workbook.sheetnames[1:]:
                columns.note("sheets_not_read", f"{name}: {list_names(other_sheets)}")
            sheet_rows = workbook.worksheets[0].iter_rows(values_only=True)
            header = ["" if cell is None else str(cell).strip() for cell in next(sheet_rows, ())]
        check_header(header, name, columns)
        for row_number in count(2):
            with _damage(name):
                row_cells = next(sheet_rows, None)
            if row_cells is None:
                return
            if any(cell is not None for cell in row_cells):
                fields = _fields(header, row_cells, columns)
                yield from native_rows(fields, f"{name}, row {row_number}", side, columns, row_number - 2)


@contextmanager
def _damage(source_name: str) -> Iterator[None]:
    """Errors of the block, while a workbook is read, become an `InputError`."""
    damage: tuple[type[Exception], ...] = (*zip_errors(), SyntaxError, AttributeError)  # `SyntaxError`: of its XML
    try:
        yield
    except InputError:
        raise
    except damage as error:
        raise InputError(
            f"{source_name}: not a whole workbook ({describe_error(error)}); save it again, or as CSV"
        ) from None


def _fields(header: list[str], row_cells: tuple[Any, ...], columns: Columns) -> dict[str, Any]:
    """Excel does not store empty text: an empty cell of a candidate is an empty caption."""
    cell_values = dict(zip(header, row_cells, strict=False))
    native_names = dict(zip(header, columns.native(header), strict=True))
    candidates = {column_name for column_name in header if columns.field(native_names[column_name]) == "candidate"}
    return {
        column_name: "" if cell_value is None else cell_value
        for column_name, cell_value in cell_values.items()
        if cell_value is not None or column_name in candidates
    }
