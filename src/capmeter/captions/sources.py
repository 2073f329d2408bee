"""Where captions are read from: a file, plain or compressed, a file in a zip archive, or standard input.

A `CaptionSource` is what a path names, resolved once. Whether it is compressed (gzip, zstd, zip) is decided by its
first bytes.

An archive `results.zip` stands for the only file of captions in it, `results.zip/inside.json` for one of several.
Nothing is unpacked to disk, so no name inside can lead out of a folder. Compressed content is bounded (`max_content`):
a small file can hold more than memory does.

Standard input is `-` or `/dev/stdin`. Captions are read more than once (in which format are they? which images have
several candidates?), so it is copied to a temporary file, which is removed when Python ends.
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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Literal, cast

from capmeter.captions.archives import is_workbook, largest_member, open_member, zip_errors
from capmeter.core.errors import InputError
from capmeter.core.messages import describe_error
from capmeter.core.output_files import display_path, file_name_error

Compression = Literal["gzip", "zstd", "zip"]
_SIGNATURES: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
LARGEST_DOCUMENT = 1 << 30
"""Bytes of a file that is read whole; JSON lines, tables and Parquet may be longer."""
LARGE = 1 << 28
"""Bytes above which a file is read in parts (a quarter of it for a compressed one)."""
LONGEST_LINE = 1 << 28
"""Bytes of one line, of a file that is read line by line."""
MAX_RATIO = 100
"""Compressed content may be this many times as large as the file, or `LARGEST_DOCUMENT` bytes if that is more."""
BOM = b"\xef\xbb\xbf"
_STANDARD_INPUT = "standard input"
_BUFFER = 1 << 18


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
        path_text = os.fsdecode(path)
        if not path_text:
            raise InputError("a file's name is empty; name a file of captions")
        is_pipe = path_text in ("-", "/dev/stdin")
        named_path = _copy_pipe(path_text) if is_pipe else Path(path_text)
        name = _STANDARD_INPUT if is_pipe else display_path(named_path)
        with _read_errors(name, named_path):
            file_path, member_name = _split_member(named_path)
            file_status = file_path.stat()
            if not stat.S_ISREG(file_status.st_mode) and not stat.S_ISDIR(file_status.st_mode):
                raise InputError(
                    f"{name} is a pipe, a socket or a device, which cannot be read twice; write the captions to a file "
                    "first, or pipe them in and name the file -"
                )
            with file_path.open("rb") as open_file:
                file_head = open_file.read(max(map(len, _SIGNATURES)))
        compression = next((kind for signature, kind in _SIGNATURES.items() if file_head.startswith(signature)), None)
        if compression == "zip" and not member_name and is_workbook(file_path):
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

    @property
    def is_large(self) -> bool:
        """Whether the file, or what it unzips to, is large enough to be read in parts."""
        return self.size > (LARGE // 4 if self.compression else LARGE) or self._stated_size > LARGE

    @property
    def _stated_size(self) -> int:
        """The bytes of the content, as a gzipped file (modulo 4 GiB) or a zip archive says; 0 for others."""
        if self.compression == "zip":
            return largest_member(self.path)
        with suppress(OSError), self.path.open("rb") as file:
            if self.compression == "gzip" and self.size > 4:
                file.seek(-4, os.SEEK_END)
                return int.from_bytes(file.read(4), "little")
        return 0

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The content, decompressed; errors inside the block become an `InputError`."""
        with _read_errors(self.name, self.path), self.path.open("rb") as file:
            if self.compression == "gzip":
                with gzip.GzipFile(fileobj=file) as content:
                    yield _buffered(_BoundedReader(content, self))
            elif self.compression == "zstd":
                with _open_zstd(file, self.name) as content:
                    yield _buffered(_BoundedReader(content, self))
            elif self.compression == "zip":
                archive_name = display_path(self.path) if self.member else self.name
                with open_member(file, archive_name, self.member, self.max_content) as content:
                    yield _buffered(_BoundedReader(content, self))
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
            first_line = line.removeprefix(BOM).strip() or next(later_lines, b"")
            return first_line, next(later_lines, b"")

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


def open_bytes(path: str | os.PathLike[str]) -> Any:
    """A context manager with the content of a file, see `CaptionSource.open`."""
    return CaptionSource.resolve(path).open()


def read_text(path: str | os.PathLike[str]) -> str:
    """The whole file as text, see `CaptionSource.read_text`."""
    return CaptionSource.resolve(path).read_text()


def text_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """The file's lines with their numbers, see `CaptionSource.lines`."""
    return CaptionSource.resolve(path).lines()


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
    except RuntimeError as error:
        if "Symlink loop" not in str(error):
            raise
        raise InputError(f"{source_name}: its symbolic links form a circle") from None
    except ValueError as error:
        raise file_name_error(file_path, error) from None


class _BoundedReader(io.RawIOBase):
    """The content of a compressed file, up to its `max_content`."""

    def __init__(self, content: Any, source: CaptionSource) -> None:
        self._content, self._source, self._bytes_left = content, source, source.max_content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            byte_count = int(self._content.readinto(buffer))
        except _zip_errors_of(self._source) as error:
            raise InputError(
                f"{self._source.name}: its zip data is cut off or damaged ({describe_error(error)}); fetch it again"
            ) from None
        self._bytes_left -= byte_count
        if self._bytes_left < 0:
            raise InputError(
                f"{self._source.name}: it unzips to more than {self._source.max_content / 2**30:.1f} GiB and "
                f"{MAX_RATIO} times its size, which captions never do; unzip it yourself if it is intact"
            )
        return byte_count


def _zip_errors_of(source: CaptionSource) -> tuple[type[Exception], ...]:
    return zip_errors() if source.compression == "zip" else ()


def _line_ends(file: BinaryIO) -> bytes:
    """The next line; of a long one its beginning and its end."""
    line = file.readline(_BUFFER)
    if len(line) < _BUFFER or line.endswith(b"\n"):
        return line
    line_start, line_end, line_size = line.rstrip(bytes(range(128, 256))), line, len(line)  # not within a character
    while not line_end.endswith(b"\n") and line_size < LARGEST_DOCUMENT and (next_part := file.readline(_BUFFER)):
        line_end, line_size = line_end[-1024:] + next_part, line_size + len(next_part)
    return line_start + b" " + line_end.rstrip()[-1:] + b"\n"


def _buffered(content: Any) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(content, _BUFFER))


@contextmanager
def _open_zstd(file: BinaryIO, source_name: str) -> Iterator[Any]:
    """The content of a file in the format of Zstandard."""
    import pyarrow

    try:
        with pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd") as content:
            yield content
    except pyarrow.ArrowInvalid as error:
        raise InputError(f"{source_name}: its zstd data is cut off or damaged ({error}); fetch it again") from None


def _split_member(path: Path) -> tuple[Path, str]:
    """The file that a path names, and the name inside it: empty, unless the path leads into a file."""
    if not path.exists():
        for parent_path in path.parents:
            if parent_path.is_file():
                return parent_path, path.relative_to(parent_path).as_posix()
    return path, ""


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
        atexit.register(_remove, copy_path)
        with os.fdopen(file_handle, "wb") as copy_file, os.fdopen(os.dup(file_descriptor), "rb") as pipe_file:
            shutil.copyfileobj(pipe_file, copy_file, 1 << 20)
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"{_STANDARD_INPUT} cannot be read ({error}); name a file instead") from None
    return Path(copy_path)


def _remove(file_name: str) -> None:
    with suppress(OSError):
        Path(file_name).unlink()
