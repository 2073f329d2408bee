"""Tar shards in the layout of WebDataset, and workbooks of Excel, which need openpyxl (`capmeter[excel]`).

The files of one sample of a shard follow each other and share a key, a name up to its first dot:

    000017.jpg  000017.json  000017.txt      →  {"__key__": "000017", "json": {…}, "txt": "…"}

Other files of a sample are skipped. Of a workbook the first sheet is read, whose first row names the columns.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from capmeter.captions.containers.container import WHOLE, Container, Records, Span
from capmeter.captions.sources import LONGEST_LINE, CaptionSource, decode, report_damage, zip_errors
from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.json_text import decode_json
from capmeter.core.messages import list_names


class TarShard(Container):
    """The samples of a tar archive, one in memory at a time."""

    kind = "webdataset"

    def records(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """A record for each sample that has a JSON object or a text."""
        sample: dict[str, Any] = {}
        finished_keys: set[int] = set()
        name = self.source.name
        with (
            report_damage(name, "tar", tarfile.TarError),
            self.source.open() as file,
            tarfile.open(fileobj=file, mode="r|") as archive,
        ):
            for member in archive:
                folder, _, base_name = member.name.removeprefix("./").rpartition("/")
                stem, _, ending = base_name.partition(".")
                key, ending = f"{folder}/{stem}" if folder else stem, ending.lower()
                if ending not in ("json", "txt") or member.isdir():
                    continue
                if sample and sample["__key__"] != key:
                    yield f"{name}/{sample['__key__']}", sample
                    finished_keys.add(hash(sample["__key__"]))
                    sample = {}
                if ending in sample or hash(key) in finished_keys:
                    raise InputError(
                        f"{name}/{member.name}: a second file of the sample {key} after its first; each sample has "
                        "one .json and one .txt, which follow each other: write the shard again"
                    )
                sample |= {"__key__": key, ending: self._content(archive, member, ending)}
        if sample:
            yield f"{name}/{sample['__key__']}", sample

    def sample(self, names: Collection[str] | None = None) -> list[Any]:
        """The first samples: between others stand pictures, which take long to pass."""
        return [record for _, record in islice(self.records(), 100)]

    def _content(self, archive: tarfile.TarFile, member: tarfile.TarInfo, ending: str) -> Any:
        location = f"{self.source.name}/{member.name}"
        if not member.isfile():
            raise InputError(f"{location}: a link or a device, not a file; write the shard with the files themselves")
        if member.size > LONGEST_LINE:
            raise InputError(f"{location}: more than {LONGEST_LINE >> 20:,} MiB, too long for a row")
        content = archive.extractfile(member)
        text = decode(b"" if content is None else content.read(), location)
        return decode_json(text, location) if ending == "json" else text.removesuffix("\n")


class Workbook(Container):
    """The rows of the first sheet."""

    kind = "xlsx"
    has_header_line = True
    empty = ""  # Excel does not store empty text

    def __init__(self, source: CaptionSource) -> None:
        super().__init__(source)
        with self._rows() as (sheet_rows, sheet_names):
            heading = next(sheet_rows, ())
            self._other_sheets = sheet_names[1:]
        self.header = ["" if cell is None else str(cell).strip() for cell in heading]
        self.refuse_repeated()

    @property
    def notes(self) -> dict[str, str]:
        """The other sheets."""
        sheets = f"{self.source.name}: {list_names(self._other_sheets)}"
        return {"sheets_not_read": sheets} if self._other_sheets else {}

    def records(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """The rows that are not empty."""
        with self._rows() as (sheet_rows, _):
            for row_number, cells in enumerate(sheet_rows, 1):
                if row_number > 1 and any(cell is not None for cell in cells):
                    yield f"{self.source.name}, row {row_number}", dict(zip(self.header or (), cells, strict=False))

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
        # `SyntaxError`: of its XML; of a path openpyxl looks at the ending, too
        with (
            report_damage(name, "Excel", *zip_errors(), SyntaxError, AttributeError),
            Path(self.source.path).open("rb") as file,
        ):
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
