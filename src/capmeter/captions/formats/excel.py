"""Workbooks of Excel: the first sheet, whose first row names the columns.

VLMEvalKit writes its predictions so. Needs openpyxl (`capmeter[excel]`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from capmeter.captions.archives import ZIP
from capmeter.captions.columns import Columns
from capmeter.captions.files import most_unzipped
from capmeter.captions.formats.native import native_rows
from capmeter.captions.formats.table import check_header
from capmeter.captions.rows import Row, Side
from capmeter.errors import InputError, MissingBackend


def is_workbook(path: Path) -> bool:
    """Whether this file is a workbook, and no other zip archive."""
    try:
        if not path.is_file():  # opening a pipe would wait for whoever writes into it
            return False
        with path.open("rb") as file:
            return file.read(len(ZIP)) == ZIP and _holds_workbook(file)
    except (OSError, ValueError):
        return False  # whoever opens the file says why


def _holds_workbook(archive: BinaryIO) -> bool:
    import zipfile  # which only archives need

    try:
        with zipfile.ZipFile(archive) as opened:
            return "xl/workbook.xml" in opened.namelist()
    except zipfile.BadZipFile:
        return False


def read(path: Path, name: str, side: Side, columns: Columns) -> Iterator[Row]:
    """The rows of the first sheet; empty cells are left out."""
    import zipfile

    try:
        from openpyxl import load_workbook
    except ImportError:
        raise MissingBackend(
            f"{name}: workbooks need openpyxl; install it with: pip install 'capmeter[excel]', or save as CSV"
        ) from None
    most = most_unzipped(path)
    with zipfile.ZipFile(path) as archive:
        if sum(each.file_size for each in archive.infolist()) > most:
            raise InputError(
                f"{name}: the workbook unzips to more than {most / 2**30:.1f} GiB, which captions never do"
            )
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        try:
            lines = book.worksheets[0].iter_rows(values_only=True)
            header = ["" if cell is None else str(cell).strip() for cell in next(lines, ())]
            check_header(header, name, columns)
            for number, cells in enumerate(lines, 2):
                if any(cell is not None for cell in cells):
                    yield from native_rows(_fields(header, cells, columns), f"{name}, row {number}", side, columns)
        finally:
            book.close()
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError, TypeError, SyntaxError, EOFError) as error:
        raise InputError(f"{name}: not a whole workbook ({error}); save it again, or as CSV") from None


def _fields(header: list[str], cells: tuple[Any, ...], columns: Columns) -> dict[str, Any]:
    """Excel keeps no empty text: an empty cell of a candidate is an empty caption."""
    held = dict(zip(header, cells, strict=False))
    native = dict(zip(header, columns.native(header), strict=True))
    texts = {name for name in header if columns.field(native[name]) == "candidate"}
    return {name: "" if value is None else value for name, value in held.items() if value is not None or name in texts}
