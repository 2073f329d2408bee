"""Tar shards in the layout of WebDataset: the files of one sample follow each other and share a key.

    000017.jpg  000017.json  000017.txt      →  the row 000017: the fields of the JSON object, and the text

The key, a name up to its first dot, is the image's id unless the object has an `image_id`. The text is the candidate
where the object has none (read as references: the reference). Other files of a sample are passed over, unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.captions.columns import Columns
from capmeter.captions.files import LONGEST_LINE, decode, open_bytes
from capmeter.captions.formats.native import native_rows
from capmeter.captions.jsontext import decode_json
from capmeter.captions.rows import Row, Side, described
from capmeter.errors import InputError

if TYPE_CHECKING:
    import tarfile

_PLACE, _MAGIC = 257, b"ustar"


def is_tar(head: bytes) -> bool:
    """Whether a file that begins so is a tar archive."""
    return head[_PLACE : _PLACE + len(_MAGIC)] == _MAGIC


def read(path: Path, name: str, side: Side, columns: Columns) -> Iterator[Row]:
    """The rows, one sample in memory at a time."""
    import tarfile  # which only archives need

    try:
        with open_bytes(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for key, sample in _samples(archive, name):
                yield from native_rows(
                    _fields(key, sample, f"{name}/{key}", side, columns), f"{name}/{key}", side, columns
                )
    except tarfile.TarError as error:
        raise InputError(f"{name}: its tar data is cut off or damaged ({error}); fetch it again") from None


def _samples(archive: tarfile.TarFile, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each sample's key, and its texts by ending."""
    now, sample = "", dict[str, str]()
    for member in archive:
        if not member.isfile():
            continue
        folder, _, base = member.name.rpartition("/")
        stem, _, ending = base.partition(".")
        key = f"{folder}/{stem}" if folder else stem
        if key != now and sample:
            yield now, sample
            sample = {}
        now = key
        if ending.lower() in ("json", "txt"):
            if member.size > LONGEST_LINE:
                raise InputError(f"{name}/{member.name}: more than {LONGEST_LINE >> 20:,} MiB, too long for a row")
            content = archive.extractfile(member)
            sample[ending.lower()] = decode(b"" if content is None else content.read(), f"{name}/{member.name}")
    if sample:
        yield now, sample


def _fields(key: str, sample: Mapping[str, str], place: str, side: Side, columns: Columns) -> dict[Any, Any]:
    held = decode_json(sample["json"], f"{place}.json") if "json" in sample else {}
    if not isinstance(held, dict):
        raise InputError(f"{place}.json: {described(held)}, expected an object with the fields of a row")
    known = {columns.field(name) for name in held if isinstance(name, str)}
    fields = dict(held)
    if "image_id" not in known:
        fields["image_id"] = key
    wanted = "candidate" if side == "candidates" else "references"
    if "txt" in sample and wanted not in known and "captions" not in held:
        text = sample["txt"].removesuffix("\n")
        fields[wanted] = text if side == "candidates" else [text]
    return fields
