"""Tar shards in the layout of WebDataset: the files of one sample follow each other and share a key.

    000017.jpg  000017.json  000017.txt      →  {"__key__": "000017", "json": {…}, "txt": "…"}

The key is a name up to its first dot. Other files of a sample are skipped.
"""

from __future__ import annotations

import tarfile
from collections.abc import Collection
from typing import Any

from capmeter.captions.containers.container import WHOLE, Container, Records, Span
from capmeter.captions.sources import LONGEST_LINE, decode
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json

_MAGIC_OFFSET, _MAGIC = 257, b"ustar"


def is_tar(head: bytes) -> bool:
    """Whether a file that begins so is a tar archive."""
    return head[_MAGIC_OFFSET : _MAGIC_OFFSET + len(_MAGIC)] == _MAGIC


class TarShard(Container):
    """The samples of a tar archive, one in memory at a time."""

    kind = "webdataset"

    def records(self, names: Collection[str] | None = None, span: Span = WHOLE) -> Records:
        """A record for each sample that has a JSON object or a text."""
        sample: dict[str, Any] = {}
        finished_keys: set[int] = set()
        try:
            with self.source.open() as file, tarfile.open(fileobj=file, mode="r|") as archive:
                for member in archive:
                    folder, _, base_name = member.name.removeprefix("./").rpartition("/")
                    stem, _, ending = base_name.partition(".")
                    key, ending = f"{folder}/{stem}" if folder else stem, ending.lower()
                    if ending not in ("json", "txt") or member.isdir():
                        continue
                    if sample and sample["__key__"] != key:
                        yield f"{self.source.name}/{sample['__key__']}", sample
                        finished_keys.add(hash(sample["__key__"]))
                        sample = {}
                    if ending in sample or hash(key) in finished_keys:
                        raise InputError(
                            f"{self.source.name}/{member.name}: a second file of the sample {key} after its first; "
                            "each sample has one .json and one .txt, which follow each other: write the shard again"
                        )
                    sample |= {"__key__": key, ending: self._content(archive, member, ending)}
        except tarfile.TarError as error:
            raise InputError(
                f"{self.source.name}: its tar data is cut off or damaged ({error}); fetch it again"
            ) from None
        if sample:
            yield f"{self.source.name}/{sample['__key__']}", sample

    def _content(self, archive: tarfile.TarFile, member: tarfile.TarInfo, ending: str) -> Any:
        location = f"{self.source.name}/{member.name}"
        if not member.isfile():
            raise InputError(f"{location}: a link or a device, not a file; write the shard with the files themselves")
        if member.size > LONGEST_LINE:
            raise InputError(f"{location}: more than {LONGEST_LINE >> 20:,} MiB, too long for a row")
        content = archive.extractfile(member)
        text = decode(b"" if content is None else content.read(), location)
        return decode_json(text, location) if ending == "json" else text.removesuffix("\n")
