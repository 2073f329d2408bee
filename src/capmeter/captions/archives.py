"""Zip archives as files: `results.zip` that holds one file of captions, or `results.zip/inside.json` for one of many.

Nothing is unpacked to disk, so no name inside can lead out of a folder. A member may unzip to as many bytes as a
gzipped file may: archives say the sizes of their members, and zipfile reads no more than was said.

An archive for the COCO leaderboard holds `captions_val2014_NAME_results.json` and
`captions_test2014_NAME_results.json`; the former is read, since the references of test2014 are not public.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from capmeter.captions.rows import named
from capmeter.errors import InputError

if TYPE_CHECKING:
    import zipfile

ZIP = b"PK\x03\x04"
_CAPTIONS = (".json", ".jsonl", ".csv", ".tsv", ".parquet")
_LEADERBOARD = re.compile(r"captions_(val|test)2014_.+_results\.json")


def split(path: Path) -> tuple[Path, str]:
    """The file that a path names, and the name inside it: empty, unless the path leads into a file."""
    if not path.exists():
        for above in path.parents:
            if above.is_file():
                return above, path.relative_to(above).as_posix()
    return path, ""


@contextmanager
def member(file: BinaryIO, shown: str, inside: str, most: int) -> Iterator[BinaryIO]:
    """The bytes of one file in this archive: the one named `inside`, or the only one that holds captions."""
    import zipfile  # which only archives need

    try:
        with zipfile.ZipFile(file) as archive:
            found = _chosen([each for each in archive.infolist() if not each.is_dir()], shown, inside)
            if found.file_size > most:
                raise InputError(
                    f"{shown}: {named([found.filename])} in it unzips to more than {most / 2**30:.1f} GiB, which "
                    "captions never do; unzip it yourself if it is intact"
                )
            if found.flag_bits & 1:
                raise InputError(f"{shown}: {named([found.filename])} in it is encrypted; unzip it with its password")
            with archive.open(found) as content:
                yield content  # type: ignore[misc]
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise InputError(f"{shown}: its zip data is cut off or damaged ({error}); fetch it again") from None


def _chosen(members: list[zipfile.ZipInfo], shown: str, inside: str) -> zipfile.ZipInfo:
    if inside:
        same = [each for each in members if each.filename == inside]
        if len(same) != 1:
            why = "no file" if not same else "several files"
            raise InputError(f"{shown}: {why} called {named([inside])} in this archive; it holds {_names(members)}")
        return same[0]
    found = [each for each in members if each.filename.lower().endswith(_CAPTIONS) and not _hidden(each.filename)]
    board = [each for each in found if _LEADERBOARD.fullmatch(each.filename.rpartition("/")[2])]
    if len(board) == len(found) == 2:
        found = [each for each in board if "captions_val2014_" in each.filename] or found
    if len(found) != 1:
        raise InputError(
            f"{shown}: the archive holds {len(found):,} files of captions ({_names(found or members)}), expected one; "
            f"name the one that is meant, such as {shown}/{found[0].filename if found else 'results.json'}"
        )
    return found[0]


def _hidden(name: str) -> bool:
    """What macOS and editors add."""
    return any(part.startswith((".", "__MACOSX")) and part != ".." for part in name.split("/"))


def _names(members: list[zipfile.ZipInfo]) -> str:
    return named([each.filename for each in members]) or "nothing"
