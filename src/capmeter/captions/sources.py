"""Files that captions are read from: where they are, how they are compressed, what can go wrong.

Gzip, Zstandard and zip are recognised by the first bytes, whatever the name. A path may lead into a zip archive:
`results.zip` stands for the only file of captions in it, `results.zip/inside.json` for one of several.
Nothing is unpacked to disk, so no name inside can lead out of a folder. Compressed content is bounded (`max_content`):
a small file can hold more than memory does.

Standard input is `-` or `/dev/stdin`. Captions are read more than once (in which format are they? which images have
several candidates?), so it is copied to a temporary file, which is removed when Python ends.

Pictures of images that name none are files of a folder, found by image id (`PictureFiles`): under its id as it is,
without the file's ending, or as a number: image 391895 of MS COCO is `COCO_val2014_000000391895.jpg` or
`000000391895.jpg`. A name that two files could mean finds neither.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = Path(folder, "COCO_val2014_000000391895.jpg").write_bytes(b"")
...     _ = Path(folder, "photo.png").write_bytes(b"")
...     files = PictureFiles(folder)
...     files.find("391895"), files.find("photo"), files.find("photo.png"), files.find("other")
('COCO_val2014_000000391895.jpg', 'photo.png', 'photo.png', None)
"""

from __future__ import annotations

import atexit
import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from capmeter.core.errors import InputError
from capmeter.core.messages import describe_error, list_names
from capmeter.core.output_files import display_path, file_name_error
from capmeter.core.settings import home_path

if TYPE_CHECKING:
    import zipfile


Compression = Literal["gzip", "zstd", "zip"]
_SIGNATURES: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
LARGEST_DOCUMENT = 1 << 30
"""Bytes of a file that is read whole; JSON lines, tables and Parquet may be longer."""
LONGEST_LINE = 1 << 28
"""Bytes of one line, of a file that is read line by line."""
MAX_RATIO = 100
"""Compressed content may be this many times as large as the file, or `LARGEST_DOCUMENT` bytes if that is more."""
BOM = b"\xef\xbb\xbf"
_STANDARD_INPUT = "standard input"
_BUFFER = 1 << 18
_CAPTION_SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
_TEXT_SUFFIXES = (".txt", ".token", ".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class CaptionSource:
    """A file that captions are read from; make it with `resolve`.

    path: the file on disk, for standard input a copy of it.
    name: what the user calls it, for messages.
    label: the name of the system whose captions it holds, if they name none.
    size: its bytes on disk.
    member: the name inside the archive, "" if the path has none.
    """

    path: Path
    name: str
    label: str
    size: int
    compression: Compression | None
    member: str = ""

    @classmethod
    def resolve(cls, path: str | os.PathLike[str]) -> CaptionSource:
        """What this path names.

        Raises:
            InputError: there is no such file, or it cannot be read.
        """
        path_text = str(home_path(path))
        if not os.fspath(path):
            raise InputError("a file's name is empty; name a file of captions")
        is_pipe = path_text in ("-", "/dev/stdin")
        named_path = _copy_pipe(path_text) if is_pipe else Path(path_text)
        name = _STANDARD_INPUT if is_pipe else display_path(named_path)
        with _read_errors(name, named_path):
            file_path, member_name = named_path, ""
            if not named_path.exists():
                file_path = next((parent for parent in named_path.parents if parent.is_file()), named_path)
                member_name = "" if file_path == named_path else named_path.relative_to(file_path).as_posix()
            file_status = file_path.stat()
            if not stat.S_ISREG(file_status.st_mode) and not stat.S_ISDIR(file_status.st_mode):
                raise InputError(
                    f"{name} is a pipe, a socket or a device, which cannot be read twice; write the captions to a file "
                    "first, or pipe them in and name the file -"
                )
            with file_path.open("rb") as open_file:
                file_head = open_file.read(4)
        compression = next((kind for signature, kind in _SIGNATURES.items() if file_head.startswith(signature)), None)
        if compression == "zip" and not member_name and _is_workbook(file_path):
            compression = None
        if member_name and compression != "zip":
            raise InputError(f"{name}: {display_path(file_path)} is a file, not a folder or a zip archive")
        source_label = named_path.name.removesuffix(".gz").rpartition(".")[0] or named_path.name
        return cls(
            path=file_path,
            name=name,
            label=_STANDARD_INPUT if is_pipe else source_label,
            size=file_status.st_size,
            compression=compression,
            member=member_name,
        )

    @property
    def ending(self) -> str:
        """The ending of the file's name in lower case, without that of its compression."""
        return PurePath(re.sub(r"(?i)\.(gz|zst)$", "", self.member or self.path.name)).suffix.lower()

    @property
    def max_content(self) -> int:
        """The bytes that a compressed file may hold."""
        return max(LARGEST_DOCUMENT, MAX_RATIO * self.size)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The content, decompressed; errors inside the block become an `InputError`."""
        with _read_errors(self.name, self.path), self.path.open("rb") as file:
            if self.compression == "gzip":
                with gzip.GzipFile(fileobj=file) as content:
                    yield _bounded(content, self)
            elif self.compression == "zstd":
                import pyarrow

                with report_damage(self.name, "zstd", pyarrow.ArrowInvalid):
                    stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")
                    with stream as content:
                        yield _bounded(content, self)
            elif self.compression == "zip":
                with _open_member(file, self) as content:
                    yield _bounded(content, self)
            else:
                yield file

    def first_lines(self) -> tuple[bytes, bytes]:
        """The first two lines that are not blank, without white space around them, and of long ones the ends."""
        with self.open() as file:
            file_start = file.read(4)
            if file_start == b"PAR1":  # Parquet may have no line breaks
                return file_start, b""
            line = file_start if file_start.endswith(b"\n") else file_start + _line_ends(file)
            later_lines = filter(None, (line.strip() for line in iter(lambda: _line_ends(file), b"")))
            return line.removeprefix(BOM).strip() or next(later_lines, b""), next(later_lines, b"")

    def read_text(self) -> str:
        """The content as text, without a byte order mark."""
        with self.open() as file:
            data = file.read(LARGEST_DOCUMENT + 1)
        if len(data) > LARGEST_DOCUMENT:
            raise InputError(
                f"{self.name}: more than {LARGEST_DOCUMENT / 2**30:.1f} GiB in one document; JSON lines, CSV and "
                "Parquet are read in parts: convert the captions to one of these"
            )
        return decode(data.removeprefix(BOM), self.name)

    def lines(self, offset: int = 0, line_number: int = 0) -> Iterator[tuple[int, str]]:
        """The lines with their numbers from 1, read lazily. Only \\n ends a line (not \\r, not U+2028).

        Args:
            offset: the bytes of the content before the first line that is read.
            line_number: the number of lines in these bytes.
        """
        with self.open() as file:
            if self.compression is None:
                file.seek(offset)
            while self.compression is not None and offset > 0 and (skipped := file.read(min(offset, _BUFFER))):
                offset -= len(skipped)
            while line_bytes := file.readline(LONGEST_LINE + 1):
                line_number += 1
                if len(line_bytes) > LONGEST_LINE:
                    raise InputError(f"{self.name}: a line of more than {LONGEST_LINE >> 20:,} MiB, too long for a row")
                if line_number == 1:
                    line_bytes = line_bytes.removeprefix(BOM)
                try:
                    line_text = line_bytes.decode("utf-8")
                except UnicodeDecodeError:
                    line_text = decode(line_bytes, f"{self.name}, line {line_number}")  # which raises with a reason
                yield line_number, line_text


def decode(data: bytes, name: str) -> str:
    """UTF-8 bytes as text; other bytes are an `InputError`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if data[:1] == b"\x80":
            raise InputError(
                f"{name.partition(', line ')[0]}: a Python pickle, which is never loaded, since it can run any code; "
                "write its content as JSON (document frequencies are made by: capmeter idf REFERENCES)"
            ) from None
        line_number = data.count(b"\n", 0, error.start) + 1
        error_location = f"{name}, line {line_number}" if line_number > 1 else name
        hint = "it looks like UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "it may be Latin-1 or binary"
        raise InputError(
            f"{error_location}: byte 0x{data[error.start]:02x} is not UTF-8 ({hint}); save the file as UTF-8"
        ) from None


@contextmanager
def _read_errors(source_name: str, file_path: Path) -> Iterator[None]:
    """Errors in the block, while this file is read, become an `InputError`."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{source_name}: there is no such file; check the name and the folder") from None
    except IsADirectoryError:
        raise InputError(f"{source_name} is a folder; name a file of captions in it") from None
    except PermissionError:
        raise InputError(f"{source_name}: no permission to read it; change its mode or copy it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{source_name}: its gzip data is cut off or damaged ({error}); fetch it again") from None
    except OSError as error:
        raise InputError(f"{source_name}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise file_name_error(file_path, error) from None


@contextmanager
def report_damage(name: str, kind: str, *errors: type[Exception]) -> Iterator[None]:
    """Raises errors of damaged data as an `InputError`.

    Args:
        name: of the file.
        kind: what the data should be, such as "gzip".
        errors: the types of errors that damaged data raise.
    """
    try:
        yield
    except InputError:
        raise
    except errors as error:
        message = f"{name}: its {kind} data is cut off or damaged ({describe_error(error)}); fetch it again"
        raise InputError(message) from None


class _BoundedReader(io.RawIOBase):
    """The content of a compressed file, up to its `max_content`."""

    def __init__(self, content: Any, source: CaptionSource) -> None:
        self._content, self._source, self._bytes_left = content, source, source.max_content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with report_damage(self._source.name, "zip", *(zip_errors() if self._source.compression == "zip" else ())):
            byte_count = int(self._content.readinto(buffer))
        self._bytes_left -= byte_count
        if self._bytes_left < 0:
            raise too_large(self._source, self._source.name)
        return byte_count


def _bounded(content: Any, source: CaptionSource) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_BoundedReader(content, source), _BUFFER))


def too_large(source: CaptionSource, name: str) -> InputError:
    """The error of a compressed file that holds too much."""
    return InputError(
        f"{name}: it unzips to more than {source.max_content / 2**30:.1f} GiB and {MAX_RATIO} times its size, which "
        "captions never do; unzip it yourself if it is intact"
    )


def _line_ends(file: BinaryIO) -> bytes:
    """The next line; of a long one its beginning and its end."""
    line = file.readline(_BUFFER)
    if len(line) < _BUFFER or line.endswith(b"\n"):
        return line
    line_start, line_end, line_size = line.rstrip(bytes(range(128, 256))), line, len(line)  # not within a character
    while not line_end.endswith(b"\n") and line_size < LARGEST_DOCUMENT and (next_part := file.readline(_BUFFER)):
        line_end, line_size = line_end[-1024:] + next_part, line_size + len(next_part)
    return line_start + b" " + line_end.rstrip()[-1:] + b"\n"


@cache
def zip_errors() -> tuple[type[Exception], ...]:
    """What Python raises for a damaged archive, or one of a kind that it does not read."""
    from capmeter.core.arrays import ZIP_ERRORS  # which captions in memory do not need

    return ZIP_ERRORS


@contextmanager
def _open_member(file: BinaryIO, source: CaptionSource) -> Iterator[Any]:
    """The content of one file in this archive: that of the path, or the only one that holds captions."""
    import zipfile  # which only archives need

    name = display_path(source.path) if source.member else source.name
    with report_damage(name, "zip", *zip_errors()), zipfile.ZipFile(file) as archive:
        members = [member for member in archive.infolist() if member.filename and not member.is_dir()]
        member = _select_member(members, name, source.member)
        if member.file_size > source.max_content:
            raise too_large(source, f"{name}: {member.filename[:80]}")
        if member.flag_bits & 1:
            raise InputError(f"{name}: {member.filename[:80]} in it is encrypted; unzip it with its password")
        member_content = archive.open(member)
    with member_content:
        yield member_content


def _is_workbook(path: Path) -> bool:
    """Whether a zip archive is a workbook of Excel, which is not unzipped."""
    import zipfile  # which only archives need

    with suppress(*zip_errors()), zipfile.ZipFile(path) as archive:  # opening the file reports what is wrong
        return "xl/workbook.xml" in archive.namelist()
    return False


def _select_member(members: list[zipfile.ZipInfo], archive_name: str, member_name: str) -> zipfile.ZipInfo:
    contents = list_names([member.filename for member in members], length=80) or "nothing"
    if member_name:
        selected = [member for member in members if member.filename == member_name]
        if len(selected) == 1:
            return selected[0]
        found = "several files" if selected else "no file"
        raise InputError(f"{archive_name}: {found} called {member_name[:80]} in this archive; it holds {contents}")
    if any(member.filename == "_journal/start.json" for member in members):
        raise InputError(
            f"{archive_name}: a log of Inspect in its own format; write it as JSON: inspect log convert --to json "
            f"--output-dir logs {archive_name}"
        )
    selected = [member for member in members if _may_hold_captions(member.filename, _CAPTION_SUFFIXES)]
    selected = selected or [member for member in members if _may_hold_captions(member.filename, _TEXT_SUFFIXES)]
    if len(selected) != 1:
        contents = list_names([member.filename for member in selected], length=80) or contents
        advice = f"; choose one, such as {archive_name}/{selected[0].filename[:80]}" if selected else ""
        raise InputError(
            f"{archive_name}: the archive holds {len(selected):,} files of captions ({contents}), expected one{advice}"
        )
    return selected[0]


def _may_hold_captions(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a member's name ends as files of captions do, and macOS or an editor did not add it."""
    is_hidden = any(part.startswith((".", "__MACOSX")) and part != ".." for part in name.split("/"))
    return name.lower().endswith(suffixes) and "readme" not in name.lower() and not is_hidden


@cache
def _copy_pipe(path_text: str) -> Path:
    """A copy of what comes through standard input."""
    import shutil  # which only pipes need
    import tempfile

    try:
        file_descriptor = sys.stdin.fileno()
        if os.isatty(file_descriptor):
            raise InputError(f"{_STANDARD_INPUT} is a terminal; pipe captions in, or name a file")
        file_handle, copy_path = tempfile.mkstemp(prefix="capmeter-", suffix=".captions")
        atexit.register(Path(copy_path).unlink, missing_ok=True)
        with os.fdopen(file_handle, "wb") as copy_file, os.fdopen(os.dup(file_descriptor), "rb") as pipe_file:
            shutil.copyfileobj(pipe_file, copy_file, 1 << 20)
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"{_STANDARD_INPUT} cannot be read ({error}); name a file instead") from None
    return Path(copy_path)


ENDINGS = {".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".avif"}
_NUMBER = re.compile(r"(?:.*_)?0*(\d+)")


class PictureFiles:
    """The pictures in a folder (not in folders inside it); the folder is listed once, when first asked."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = home_path(folder)

    def find(self, image_id: str) -> str | None:
        """The name of the image's file in the folder, or None."""
        return self._files.get(image_id)

    @cached_property
    def _files(self) -> dict[str, str]:
        """Files by their name, by their name without its ending, and by number; none where two have the same."""
        names: list[str] = []
        with suppress(OSError, ValueError):
            entries = os.scandir(self.folder)
            names = sorted(entry.name for entry in entries if Path(entry.name).suffix.lower() in ENDINGS)
        stems = {name: Path(name).stem for name in names}
        numbers = {name: match[1] for name, stem in stems.items() if (match := _NUMBER.fullmatch(stem)) is not None}
        files: dict[str, str] = {}
        for keys in (numbers, stems):
            counts = Counter(keys.values())
            files |= {key: name for name, key in keys.items() if counts[key] == 1}
        return files | {name: name for name in names}
