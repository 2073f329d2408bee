"""Files on disk: opened whether plain or compressed, written whole or not at all, every failure a sentence.

Whether a file is compressed (gzip, zstd, zip) is told by its first bytes when it is read, and by its name (`.gz`) when
it is written.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from capmeter.atomic import atomic_file
from capmeter.captions.archives import ZIP, member, split
from capmeter.captions.standard_input import regular
from capmeter.errors import InputError

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
LARGEST_DOCUMENT = 1 << 30
"""Bytes of a file that is read whole; JSON lines, tables and Parquet may be longer."""
LONGEST_LINE = 1 << 28
"""Bytes of one line, of a file that is read line by line."""
MOST_UNZIPPED = 100
"""A zipped file may unzip to this many times its size, or to `LARGEST_DOCUMENT` bytes if that is more."""
BOM = b"\xef\xbb\xbf"


@contextmanager
def open_bytes(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The file's bytes, unzipped where it is compressed or an archive; errors inside the block become an `InputError`.

    Of an archive the only file of captions is meant, or the one that `archive.zip/name` names (see `archives`).
    """
    path, inside = regular(path), ""
    try:
        path, inside = split(path)
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise InputError(
                f"{_shown(path)} is a pipe, a socket or a device, which cannot be read twice; write the captions to a "
                "file first, or pipe them in and name the file -"
            )
        with path.open("rb") as plain:
            first = plain.peek(len(ZIP))[: len(ZIP)]
            if first[:2] == GZIP:
                with gzip.GzipFile(fileobj=plain) as unzipped:
                    yield cast(BinaryIO, io.BufferedReader(_Bounded(unzipped, most_unzipped(path), path), 1 << 18))
            elif first == ZSTD:
                with _zstd(plain, path) as unzipped:
                    yield cast(BinaryIO, io.BufferedReader(_Bounded(unzipped, most_unzipped(path), path), 1 << 18))
            elif first == ZIP:
                with member(plain, _shown(path), inside, most_unzipped(path)) as content:
                    yield cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, content), 1 << 18))
            elif inside:
                raise NotADirectoryError
            else:
                yield plain
    except FileNotFoundError:
        raise InputError(f"{_shown(path)}: there is no such file; check the name and the folder") from None
    except IsADirectoryError:
        raise InputError(f"{_shown(path)} is a folder; name a file of captions in it") from None
    except NotADirectoryError:
        raise InputError(f"{_shown(path / inside)}: {_shown(path)} is a file and no folder or zip archive") from None
    except PermissionError:
        raise InputError(f"{_shown(path)}: no permission to read it; change its mode or copy it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{_shown(path)}: its gzip data is cut off or damaged ({error}); fetch it again") from None
    except OSError as error:
        raise InputError(f"{_shown(path)}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise _no_name(path, error) from None


@contextmanager
def _zstd(plain: BinaryIO, path: Path) -> Iterator[Any]:
    """The content of a file in the format of Zstandard."""
    import pyarrow

    try:
        with pyarrow.CompressedInputStream(pyarrow.PythonFile(plain, mode="r"), "zstd") as unzipped:
            yield unzipped
    except pyarrow.ArrowInvalid as error:
        raise InputError(f"{_shown(path)}: its zstd data is cut off or damaged ({error}); fetch it again") from None


def most_unzipped(path: Path) -> int:
    """The bytes that this file may unzip to: a small one can hold more than memory does."""
    return max(LARGEST_DOCUMENT, MOST_UNZIPPED * split(path)[0].stat().st_size)


class _Bounded(io.RawIOBase):
    """The content of a gzipped file, up to a limit: a small file can unzip to more than memory holds."""

    def __init__(self, unzipped: Any, most: int, path: Path) -> None:
        self._unzipped, self._left, self._most, self._path = unzipped, most, most, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = int(self._unzipped.readinto(buffer))
        self._left -= count
        if self._left < 0:
            raise InputError(
                f"{_shown(self._path)}: it unzips to more than {self._most / 2**30:.1f} GiB and {MOST_UNZIPPED} times "
                "its size, which captions never do; unzip it yourself if it is intact"
            )
        return count


def _no_name(path: Path, error: ValueError) -> Exception:
    """An `InputError` for a path that cannot be a file name; any other error unchanged."""
    if isinstance(error, UnicodeEncodeError):
        return InputError(f"{str(path)!a} is not a file name: it contains half of a surrogate pair")
    if "null" in str(error):
        return InputError(f"{str(path)!a} is not a file name: it contains a NUL character")
    return error


def read_text(path: str | os.PathLike[str]) -> str:
    """The whole file as text, without a byte order mark."""
    with open_bytes(path) as file:
        data = file.read(LARGEST_DOCUMENT + 1)
    if len(data) > LARGEST_DOCUMENT:
        raise InputError(
            f"{_shown(Path(path))}: more than {LARGEST_DOCUMENT / 2**30:.1f} GiB in one document; JSON lines, CSV and "
            "Parquet are read in parts: convert the captions to one of these"
        )
    return decode(data.removeprefix(BOM), str(path))


def text_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """The lines with their numbers from 1, read lazily. Only \\n ends a line (not \\r, not U+2028)."""
    with open_bytes(path) as file:
        for number, line in enumerate(_lines(file, path), 1):
            if number == 1:
                line = line.removeprefix(BOM)
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                text = decode(line, f"{path}, line {number}")  # which says what is wrong
            yield number, text


def _lines(file: BinaryIO, path: str | os.PathLike[str]) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"{_shown(Path(path))}: a line of more than {LONGEST_LINE >> 20:,} MiB, too long for a row"
            )
        yield line


def decode(data: bytes, where: str) -> str:
    """UTF-8 bytes as text; other bytes are an `InputError`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        place = f"{where}, line {line}" if line > 1 else where
        hint = "it looks like UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "it may be Latin-1 or binary"
        raise InputError(
            f"{place}: byte 0x{data[error.start]:02x} is not UTF-8 ({hint}); save the file as UTF-8"
        ) from None


@contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file, renamed into place on success (`atomic_file`); a device or a pipe is written directly.

    What goes wrong is an `InputError`.
    """
    path = Path(path)
    with _write_errors(path):
        target, is_device = _target(path)
        if is_device:
            with target.open("wb") as device:
                yield device
            return
        with atomic_file(target) as file:
            if target.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as zipped:
                    yield cast(BinaryIO, zipped)
            else:
                yield file


def check_targets(*paths: Path | None) -> None:
    """Raises what `atomic_writer` would for a wrong name or folder, so that the mistake is reported before the work,
    not after.
    """
    for path in filter(None, paths):
        with _write_errors(path):
            target, is_device = _target(path)
            if is_device:
                continue
            if not stat.S_ISDIR(target.parent.stat().st_mode):
                raise NotADirectoryError
            if not os.access(target.parent, os.W_OK):
                raise PermissionError


def _target(path: Path) -> tuple[Path, bool]:
    """The file that a path means, behind links, and whether it is a device or a pipe."""
    target = path.resolve() if path.is_symlink() else path
    if target.is_dir():
        raise IsADirectoryError
    return target, target.exists() and not stat.S_ISREG(target.stat().st_mode)


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Errors in the block, while this file is written, become an `InputError`."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(
            f"cannot write {_shown(path)}: there is no folder {_shown(path.parent)}; make it first"
        ) from None
    except (IsADirectoryError, NotADirectoryError):
        raise InputError(f"cannot write {_shown(path)}: it is a folder, or lies under a file; name a file") from None
    except PermissionError:
        raise InputError(f"cannot write {_shown(path)}: no permission; choose another folder") from None
    except UnicodeEncodeError as error:
        if error.object == str(path):
            raise _no_name(path, error) from None
        half = ascii(error.object[error.start : error.end])
        raise InputError(
            f"cannot write {_shown(path)}: {half} is half of a surrogate pair, not text; nothing was written"
        ) from None
    except ValueError as error:
        raise _no_name(path, error) from None
    except OSError as error:
        raise InputError(
            f"cannot write {_shown(path)}: {error.strerror or error}; nothing was written, an earlier file is untouched"
        ) from None


@contextmanager
def text_writer(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """`atomic_writer` for text: UTF-8, line endings unchanged."""
    with atomic_writer(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
        try:
            yield text
            text.flush()
        finally:
            with suppress(OSError, ValueError):
                text.detach()


def write_atomic(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes this content, whole or not at all."""
    with atomic_writer(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


def _shown(path: Path) -> str:
    return str(path) if str(path).isprintable() else repr(str(path))
