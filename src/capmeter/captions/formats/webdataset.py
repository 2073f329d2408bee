"""Tar shards in the layout of WebDataset: the files of one sample follow each other and share a key.

    000017.jpg  000017.json  000017.txt      →  the row 000017: the fields of the JSON object, and the text

The key, a name up to its first dot, is the image's id unless the object has an `image_id`. The text is the candidate
if the object has none (read as references: the reference). Other files of a sample are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from capmeter.captions.columns import Columns
from capmeter.captions.formats.native import native_rows
from capmeter.captions.rows import CaptionRow, Side
from capmeter.captions.sources import LONGEST_LINE, CaptionSource, decode
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe

if TYPE_CHECKING:
    import tarfile

_MAGIC_OFFSET, _MAGIC = 257, b"ustar"


def is_tar(head: bytes) -> bool:
    """Whether a file that begins so is a tar archive."""
    return head[_MAGIC_OFFSET : _MAGIC_OFFSET + len(_MAGIC)] == _MAGIC


def read(source: CaptionSource, side: Side, columns: Columns) -> Iterator[CaptionRow]:
    """The rows, one sample in memory at a time."""
    import tarfile  # which only archives need

    from capmeter.captions.formats.tar_shard import TarShard

    try:
        with source.open() as file, TarShard.open_stream(file) as archive:
            for sample_number, (sample_key, sample_texts) in enumerate(_samples(archive, source.name)):
                where = f"{source.name}/{sample_key}"
                yield from native_rows(
                    _fields(sample_key, sample_texts, where, side, columns), where, side, columns, sample_number
                )
    except tarfile.TarError as error:
        raise InputError(f"{source.name}: its tar data is cut off or damaged ({error}); fetch it again") from None


def _samples(archive: tarfile.TarFile, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each sample's key, and its texts by ending."""
    current_key, sample = "", dict[str, str]()
    for member in archive:
        if not member.isfile():
            continue
        folder, _, base_name = member.name.rpartition("/")
        file_stem, _, file_ending = base_name.partition(".")
        sample_key = f"{folder}/{file_stem}" if folder else file_stem
        if sample_key != current_key and sample:
            yield current_key, sample
            sample = {}
        current_key = sample_key
        if file_ending.lower() in ("json", "txt"):
            if member.size > LONGEST_LINE:
                raise InputError(f"{name}/{member.name}: more than {LONGEST_LINE >> 20:,} MiB, too long for a row")
            content = archive.extractfile(member)
            sample[file_ending.lower()] = decode(b"" if content is None else content.read(), f"{name}/{member.name}")
    if sample:
        yield current_key, sample


def _fields(sample_key: str, sample: Mapping[str, str], location: str, side: Side, columns: Columns) -> dict[Any, Any]:
    fields = decode_json(sample["json"], f"{location}.json") if "json" in sample else {}
    if not isinstance(fields, dict):
        raise InputError(f"{location}.json: {describe(fields)}, expected an object with the fields of a row")
    known_fields = {columns.field(field_name) for field_name in fields if isinstance(field_name, str)}
    if "image_id" not in known_fields:
        fields["image_id"] = sample_key
    text_field = "candidate" if side == "candidates" else "references"
    if "txt" in sample and text_field not in known_fields and "captions" not in fields:
        text = sample["txt"].removesuffix("\n")
        fields[text_field] = text if side == "candidates" else [text]
    return fields
