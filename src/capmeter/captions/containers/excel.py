"""Workbooks of Excel: the first sheet, whose first row names the columns. Needs openpyxl (`capmeter[excel]`)."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from capmeter.captions.archives import zip_errors
from capmeter.captions.containers.container import WHOLE, Container, Records, Span
from capmeter.captions.containers.table import refuse_repeated
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.messages import describe_error, list_names


class Workbook(Container):
    """The rows of the first sheet."""

    kind = "xlsx"
    has_header_line = True
    empty = ""  # Excel does not store empty text

    def __init__(self, source: CaptionSource) -> None:
        super().__init__(source)
        with self._rows() as (sheet_rows, sheet_names):
            self.header = _names(next(sheet_rows, ()))
            self._other_sheets = sheet_names[1:]
        refuse_repeated(self.header, source.name)

    @property
    def notes(self) -> dict[str, str]:
        """The other sheets."""
        sheets = f"{self.source.name}: {list_names(self._other_sheets)}"
        return {"sheets_not_read": sheets} if self._other_sheets else {}

    def records(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The rows that are not empty."""
        with self._rows() as (sheet_rows, _):
            header = _names(next(sheet_rows, ()))
            for row_number in count(2):
                cells = next(sheet_rows, None)
                if cells is None:
                    return
                if any(cell is not None for cell in cells):
                    yield f"{self.source.name}, row {row_number}", dict(zip(header, cells, strict=False))

    @contextmanager
    def _rows(self) -> Iterator[tuple[Iterator[Any], list[str]]]:
        """The rows of the first sheet, and the names of all sheets; damage is an `InputError`."""
        name = self.source.name
        try:
            from openpyxl import load_workbook
        except ImportError:
            raise MissingBackend(
                f"{name}: workbooks need openpyxl; install it with: pip install 'capmeter[excel]', or save as CSV"
            ) from None
        damage: tuple[type[Exception], ...] = (*zip_errors(), SyntaxError, AttributeError)  # `SyntaxError`: of its XML
        try:
            with Path(self.source.path).open("rb") as file:  # of a path openpyxl looks at the ending, too
                with zipfile.ZipFile(file) as archive:
                    content_size = sum(member_info.file_size for member_info in archive.infolist())
                if content_size > self.source.max_content:
                    raise InputError(
                        f"{name}: the workbook unzips to more than {self.source.max_content / 2**30:.1f} GiB, which "
                        "captions never do"
                    )
                workbook = load_workbook(file, read_only=True, data_only=True)
                try:
                    yield workbook.worksheets[0].iter_rows(values_only=True), workbook.sheetnames
                finally:
                    workbook.close()
        except InputError:
            raise
        except damage as error:
            raise InputError(
                f"{name}: not a whole workbook ({describe_error(error)}); save it again, or as CSV"
            ) from None


def _names(cells: Any) -> list[str]:
    return ["" if cell is None else str(cell).strip() for cell in cells]
