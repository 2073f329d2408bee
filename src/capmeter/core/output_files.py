"""Files that are written whole or not at all, gzipped if their name ends in .gz; every failure is a sentence."""

from __future__ import annotations

import gzip
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from capmeter.core.atomic import atomic_file
from capmeter.core.errors import InputError


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
    try:
        # before links are followed: /dev/stdout, where that is a pipe, leads to a name that no file has
        if path.exists() and not path.is_dir() and not stat.S_ISREG(path.stat().st_mode):
            return path, True
        target = path.resolve() if path.is_symlink() else path
    except RuntimeError:  # what Python before 3.13 raises
        raise OSError("its symbolic links form a circle") from None
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
