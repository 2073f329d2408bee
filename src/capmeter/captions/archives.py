"""Zip archives of captions: which file in them is read, and what damage raises. Nothing is unpacked to disk."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from capmeter.core.errors import InputError
from capmeter.core.messages import describe_error

if TYPE_CHECKING:
    import zipfile

_CAPTION_SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")


@cache
def zip_errors() -> tuple[type[Exception], ...]:
    """What Python raises for a damaged archive, or one of a kind that it does not read."""
    import lzma
    import struct
    import zipfile

    damage = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, struct.error, MemoryError)
    return (*damage, NotImplementedError, RuntimeError, IndexError, KeyError, ValueError, TypeError, OverflowError)


@contextmanager
def open_member(file: BinaryIO, archive_name: str, member_name: str, max_content: int) -> Iterator[Any]:
    """The content of one file in this archive: `member_name`, or without a name the only one that holds captions.

    At most `max_content` bytes are unzipped; archives state the sizes of their members, and zipfile reads no more than
    that.
    """
    import zipfile  # which only archives need

    try:
        with zipfile.ZipFile(file) as archive:
            members = [
                member_info for member_info in archive.infolist() if member_info.filename and not member_info.is_dir()
            ]
            member = _select_member(members, archive_name, member_name)
            if member.file_size > max_content:
                raise InputError(
                    f"{archive_name}: {member.filename[:80]} in it unzips to more than "
                    f"{max_content / 2**30:.1f} GiB, which captions never do; unzip it yourself if it is intact"
                )
            if member.flag_bits & 1:
                raise InputError(
                    f"{archive_name}: {member.filename[:80]} in it is encrypted; unzip it with its password"
                )
            member_content = archive.open(member)
    except zip_errors() as error:
        raise InputError(
            f"{archive_name}: its zip data is cut off or damaged ({describe_error(error)}); fetch it again"
        ) from None
    with member_content:
        yield member_content


def is_workbook(path: Path) -> bool:
    """Whether a zip archive is a workbook of Excel, which is not unzipped."""
    import zipfile  # which only archives need

    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except zip_errors():
        return False  # opening the file reports why


def _select_member(members: list[zipfile.ZipInfo], archive_name: str, member_name: str) -> zipfile.ZipInfo:
    if member_name:
        selected = [member for member in members if member.filename == member_name]
        if len(selected) == 1:
            return selected[0]
        count_text = "several files" if selected else "no file"
        contents = _list_members(members)
        raise InputError(f"{archive_name}: {count_text} called {member_name[:80]} in this archive; it holds {contents}")
    if any(member.filename == "_journal/start.json" for member in members):
        raise InputError(
            f"{archive_name}: a log of Inspect in its own format; write it as JSON: inspect log convert --to json "
            f"--output-dir logs {archive_name}"
        )
    selected = [member for member in members if _may_hold_captions(member.filename)]
    if len(selected) != 1:
        contents = _list_members(selected or members)
        advice = f"; choose one, such as {archive_name}/{selected[0].filename[:80]}" if selected else ""
        raise InputError(
            f"{archive_name}: the archive holds {len(selected):,} files of captions ({contents}), expected one{advice}"
        )
    return selected[0]


def _list_members(members: list[zipfile.ZipInfo]) -> str:
    listed_names = ", ".join(member_info.filename[:80] for member_info in members[:5])
    return (listed_names + f" and {len(members) - 5:,} more" * (len(members) > 5)) or "nothing"


def _may_hold_captions(member_name: str) -> bool:
    """Whether a member's name ends as files of captions do, and macOS or an editor did not add it."""
    is_hidden = any(part.startswith((".", "__MACOSX")) and part != ".." for part in member_name.split("/"))
    return member_name.lower().endswith(_CAPTION_SUFFIXES) and not is_hidden


def largest_member(path: Path) -> int:
    """The bytes of the largest file in an archive; 0 if it cannot be read."""
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            return max((member_info.file_size for member_info in archive.infolist()), default=0)
    except zip_errors():
        return 0
