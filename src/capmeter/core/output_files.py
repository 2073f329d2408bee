"""Files that are written whole or not at all, gzipped if their name ends in .gz; every failure is a sentence.

A file is written to a temporary file beside it (`atomic_file`), flushed to disk, and renamed into place on success. A
run that is killed leaves its temporary file behind; the next run that writes the same target removes it. A file that
another process is still writing is locked and is left alone.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     target = Path(folder) / "scores.txt"
...     with atomic_file(target) as file:
...         _ = file.write(b"0.5")
...     [each.name for each in Path(folder).iterdir()], target.read_text()
(['scores.txt'], '0.5')

The one CSV writer: every table that capmeter writes as CSV or TSV goes through it.

Lines end in \\n. A cell with a delimiter, a quote, \\n or \\r is quoted, so that any RFC 4180 reader gets every
text back unchanged, including ids with a carriage return. A cell that begins with `=`, `+`, `-` or `@` is written
unchanged: in these files `-0.5` is a number and every id must match. A spreadsheet reads such a cell as a formula;
import the columns as text if the captions come from an untrusted source.

>>> import io
>>> text = io.StringIO()
>>> rows = CsvWriter(text)
>>> rows.write(["id", "score"])
>>> rows.write(["a\\rb", -0.5])
>>> text.getvalue()
'id,score\\n"a\\rb",-0.5\\n'

Tables as files: Parquet, CSV, TSV or JSON lines, by the file's ending; written whole or not at all.

Texts come back unchanged from every kind. In CSV and TSV a list stands as JSON.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from capmeter.core.errors import InputError
from capmeter.core.messages import list_names

_TRIES = 20
_NAME_LENGTH = 80  # file systems allow names of 255 bytes


@contextmanager
def atomic_file(target: Path) -> Iterator[BinaryIO]:
    """A new file that is renamed to `target` when the block succeeds; otherwise an existing `target` is untouched.

    The permissions of an existing `target` are kept.

    Raises:
        OSError: the folder does not exist or cannot be written to, or the disk is full.
    """
    _remove_abandoned(target)
    temporary_path, file = _begin(target)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if target.exists():
                temporary_path.chmod(stat.S_IMODE(target.stat().st_mode))
            if sys.platform != "win32":  # before closing releases the lock; Windows renames closed files only
                temporary_path.replace(target)
        if sys.platform == "win32":
            temporary_path.replace(target)
    finally:
        with suppress(OSError):
            temporary_path.unlink()


def _begin(target: Path) -> tuple[Path, BinaryIO]:
    """A new, locked temporary file for the target."""
    import secrets  # which only writing needs

    for _ in range(_TRIES):
        temporary_path = target.with_name(f"{_prefix(target)}{secrets.token_hex(6)}.part")
        file = temporary_path.open("xb")
        with suppress(OSError):  # a file system without locks: no other process gets one either
            lock_file(file, wait=True)
        with suppress(OSError):
            if os.path.samestat(temporary_path.stat(), os.fstat(file.fileno())):
                return temporary_path, file
        file.close()  # another process took it for abandoned before it was locked
    raise OSError(f"cannot create a temporary file in {target.parent}")


def _remove_abandoned(target: Path) -> None:
    name_pattern = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{12}\.part")
    with suppress(OSError), os.scandir(target.parent) as entries:
        # links and pipes of such a name are not ours: opening them could touch another file, or wait for ever
        abandoned_entries = [
            entry for entry in entries if name_pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        ]
        for path in [Path(entry.path) for entry in abandoned_entries]:
            with suppress(OSError), path.open("r+b") as file:
                lock_file(file, wait=False)
                if sys.platform != "win32":
                    path.unlink()
            if sys.platform == "win32":
                with suppress(OSError):  # raised for a file that another process has open
                    path.unlink()


def _prefix(target: Path) -> str:
    return f".{target.name[:_NAME_LENGTH]}."


def lock_file(file: BinaryIO, wait: bool) -> None:
    """Locks an open file until it is closed, also by a crash; on Windows nothing is locked.

    Raises:
        OSError: another process holds the lock, and `wait` is false.
    """
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file, renamed into place on success (`atomic_file`); a device or a pipe is written directly.

    Raises:
        InputError: the file cannot be written.
    """
    path = Path(path)
    with _write_errors(path):
        target, is_device = _resolve_target(path)
        if is_device:
            with target.open("wb") as device:
                yield device
            return
        with atomic_file(target) as file:
            if target.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as gzip_file:
                    yield cast(BinaryIO, gzip_file)
            else:
                yield file


@contextmanager
def text_writer(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """`atomic_writer` for text: UTF-8, line endings unchanged."""
    with atomic_writer(path) as file:
        text_file = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
        try:
            yield text_file
            text_file.flush()
        finally:
            with suppress(OSError, ValueError):
                text_file.detach()


def write_atomic(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes this content, whole or not at all."""
    with atomic_writer(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


def check_targets(*paths: Path | None) -> None:
    """Raises what `atomic_writer` would for a wrong name or folder: a mistake is reported before the work, not after.

    Raises:
        InputError: one of the files cannot be written.
    """
    for path in filter(None, paths):
        with _write_errors(path):
            target, is_device = _resolve_target(path)
            if is_device:
                continue
            if not stat.S_ISDIR(target.parent.stat().st_mode):
                raise NotADirectoryError
            if not os.access(target.parent, os.W_OK):
                raise PermissionError


def is_same_file(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two paths name one file, behind links, too; devices and pipes are never one file."""
    with _write_errors(Path(path)):
        target, is_device = _resolve_target(Path(path), may_be_folder=True)
        if is_device:
            return False
        with suppress(OSError):
            return target.samefile(other)
        return os.path.realpath(target) == os.path.realpath(other)


def display_path(path: Path) -> str:
    """The path for a message: quoted if it holds control characters."""
    return str(path) if str(path).isprintable() else repr(str(path))


def file_name_error(path: Path, error: ValueError) -> Exception:
    """An `InputError` for a path that cannot be a file name; any other error unchanged."""
    if isinstance(error, UnicodeEncodeError):
        return InputError(f"{str(path)!a} is not a file name: it contains half of a surrogate pair")
    if "null" in str(error):
        return InputError(f"{str(path)!a} is not a file name: it contains a NUL character")
    return error


def _resolve_target(path: Path, *, may_be_folder: bool = False) -> tuple[Path, bool]:
    """The file that a path names, behind links, and whether it is a device or a pipe."""
    # before links are followed: /dev/stdout, where that is a pipe, leads to a name that no file has
    if path.exists() and not path.is_dir() and not stat.S_ISREG(path.stat().st_mode):
        return path, True
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise OSError("its symbolic links form a circle")
    if target.is_dir() and not may_be_folder:
        raise IsADirectoryError
    return target, False


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Errors in the block, while this file is written, become an `InputError`."""
    file_name = display_path(path)
    try:
        yield
    except FileNotFoundError:
        folder_name = display_path((Path(os.path.realpath(path)) if path.is_symlink() else path).parent)
        raise InputError(f"cannot write {file_name}: there is no folder {folder_name}; make it first") from None
    except (IsADirectoryError, NotADirectoryError):
        raise InputError(
            f"cannot write {file_name}: it is a folder, or one of its parents is a file; name a file"
        ) from None
    except PermissionError:
        raise InputError(f"cannot write {file_name}: no permission; choose another folder") from None
    except UnicodeEncodeError as error:
        if error.object == str(path):
            raise file_name_error(path, error) from None
        surrogate = ascii(error.object[error.start : error.end])
        raise InputError(
            f"cannot write {file_name}: {surrogate} is half of a surrogate pair, not text; nothing was written"
        ) from None
    except ValueError as error:
        raise file_name_error(path, error) from None
    except OSError as error:
        raise InputError(
            f"cannot write {file_name}: {error.strerror or error}; nothing was written, an earlier file is untouched"
        ) from None


class _Lines:
    """Takes csv's lines, which end in \\r\\n so that both are quoted inside a cell, and ends them with \\n."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line[:-2] + "\n")


class CsvWriter:
    """Rows as lines of delimited cells."""

    def __init__(self, file: TextIO, delimiter: str = ",") -> None:
        self._writer = csv.writer(_Lines(file), delimiter=delimiter, lineterminator="\r\n")

    def write(self, cells: Sequence[Any]) -> None:
        """One row; None is an empty cell."""
        try:
            self._writer.writerow(cells)
        except csv.Error as error:  # Python 3.10 cannot write NUL
            raise InputError(f"a table cell cannot hold this ({error}): {list_names(map(str, cells))}") from None


KINDS = (".parquet", ".csv", ".tsv", ".jsonl")


def table_kind(path: Path) -> str:
    """The format that the file's name ends with (before .gz); one that is not in `KINDS` is an `InputError`."""
    kind = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    if kind not in KINDS:
        raise InputError(f"{path}: expected a name that ends in {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    return kind


def write_table(tables: Any | Iterable[Any], path: Path) -> None:
    """Writes a table.

    Args:
        tables: a `pyarrow.Table`, or the parts of one, of the same columns, one after the other.
        path: the file.

    Raises:
        InputError: the ending is not one of `KINDS`, or the file cannot be written.
    """
    import pyarrow

    parts, kind = [tables] if isinstance(tables, pyarrow.Table) else tables, table_kind(path)
    with atomic_writer(path) as file:
        write_parts(parts, kind, file)


def write_parts(parts: Iterable[Any], kind: str, file: BinaryIO) -> None:
    """Writes the parts of a table to an open file in the format of this ending, one of `KINDS`.

    Args:
        parts: tables of the same columns.
        kind: the format.
        file: open for bytes.
    """
    with ExitStack() as open_files:
        if kind == ".parquet":
            from pyarrow.parquet import ParquetWriter

            writer: Any = None
            for part in parts:
                writer = writer or open_files.enter_context(ParquetWriter(file, part.schema))
                writer.write_table(part)
        elif kind == ".jsonl":
            for part in parts:
                file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in part.to_pylist())
        else:
            text_file = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
            open_files.callback(text_file.detach)
            rows = CsvWriter(text_file, "\t" if kind == ".tsv" else ",")
            for k, part in enumerate(parts):
                if k == 0:
                    rows.write(part.column_names)
                for row in part.to_pylist():
                    cells = (json.dumps(v, ensure_ascii=False) if isinstance(v, list) else v for v in row.values())
                    rows.write(list(cells))
