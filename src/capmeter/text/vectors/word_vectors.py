"""Word vectors from files: GloVe text, word2vec text and binary, fastText text and binary.

A file is read in full once, to index the position of each word's vector; the index is cached under the file's path,
size and date. After that the file is memory-mapped and only the vectors of requested words are read, so that a 3.6 GB
file costs a run only a few megabytes. The format is detected from the content:

* text: an optional first line "words width", then a word and its numbers per line, separated by spaces. A word may
  contain spaces (some in GloVe 840B do): the last `width` fields are the numbers. The first of duplicate words counts.
* word2vec binary: the same first line, then word, space, `width` float32 (little-endian), optionally a line break.
* fastText binary (.bin of versions 11 and 12, not quantised): a word's vector is the mean of its own row and those of
  its character n-grams, as in fastText.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from capmeter.core.arrays import read_arrays, write_arrays
from capmeter.core.assets import cache_folder, sha256
from capmeter.core.errors import AssetError
from capmeter.text.vectors.fasttext import FASTTEXT_MAGIC, FastTextModel, read_fasttext

_FORMAT = 2


class WordVectors(Protocol):
    """A table of word vectors with a vocabulary."""

    @property
    def label(self) -> str:
        """Name and hash of the content, for a signature."""

    @property
    def width(self) -> int:
        """Number of dimensions."""

    def find(self, words: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Looks words up.

        Returns:
            Which words are in the vocabulary (words,), and their vectors (words, width), 0 for the others.
        """


@dataclass(frozen=True, eq=False)
class _Index:
    """The position of each word's vector in a file."""

    kind: str
    width: int
    sha256: str  # of the file
    hashes: NDArray[np.uint64]  # (words): sorted
    places: NDArray[np.int64]  # (words): byte offsets, of fastText rows


class FileVectors:
    """The word vectors of one file, as a `WordVectors`.

    Args:
        path: a file in one of the formats above.

    Raises:
        AssetError: the file is damaged or has another format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._index = _load_index(path)
        self.width = self._index.width
        self.label = f"{path.name}@{self._index.sha256[:12]}"
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._model: FastTextModel | None = None
        if self._index.kind == "fasttext":
            self._model = read_fasttext(path, self._bytes)

    def __len__(self) -> int:
        return len(self._index.hashes)

    def find(self, words: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Looks words up; see `WordVectors.find`."""
        in_file = np.zeros(len(words), np.bool_)
        vectors = np.zeros((len(words), self.width), np.float32)
        index = self._index
        hashes = np.array([_hash(word.encode()) for word in words], np.uint64)
        slots = np.searchsorted(index.hashes, hashes)
        for k, (word, slot) in enumerate(zip(words, slots.tolist(), strict=True)):
            if slot < len(index.hashes) and index.hashes[slot] == hashes[k]:
                in_file[k] = True
                try:
                    vectors[k] = self._vector(word.encode(), int(index.places[slot]))
                except ValueError as error:
                    raise AssetError(f"word vectors: {self.path}, word {word!r}: {error}; expected numbers") from error
                if not np.isfinite(vectors[k]).all():
                    raise AssetError(
                        f"word vectors: {self.path}, word {word!r}: its vector has numbers that are not finite; the "
                        f"file is damaged or its training diverged"
                    )
        return in_file, vectors

    def _vector(self, word: bytes, place: int) -> NDArray[np.float32]:
        if self._model is not None:
            return self._model.vector(word, place)
        start = place + len(word) + 1
        if self._index.kind == "binary":
            return np.frombuffer(self._bytes, "<f4", self.width, start).astype(np.float32)
        stop = self._bytes.find(b"\n", start)
        line = self._bytes[start : stop if stop >= 0 else len(self._bytes)]
        return np.array(line.split(), np.float32)


@lru_cache(maxsize=8)
def _open_file(path: Path, stamp: tuple[int, int]) -> FileVectors:
    return FileVectors(path)


def open_vectors(name: str) -> FileVectors:
    """Opens a file of word vectors, which is indexed on first use and opened once per process.

    Raises:
        AssetError: the file does not exist, is damaged or has another format.
    """
    path = Path(name).expanduser()
    try:
        stat = path.stat()
    except OSError as error:
        raise AssetError(
            f"word vectors: {name}: {error.strerror}; expected `minilm` or a file in the format of GloVe, word2vec or "
            f"fastText (unzipped)"
        ) from error
    return _open_file(path.resolve(), (stat.st_size, stat.st_mtime_ns))


def _hash(word: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")


def _load_index(path: Path) -> _Index:
    stat = path.stat()
    key = hashlib.sha256(f"{_FORMAT} {path} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:32]
    cache_path = cache_folder("word-vectors", f"{key}.index")
    saved = read_arrays(cache_path)
    if saved is not None and saved[0].keys() == {"hashes", "places"}:
        arrays, properties = saved
        return _Index(**properties, hashes=arrays["hashes"], places=arrays["places"])
    index = _build_index(path)
    with suppress(OSError):  # works without a writable cache
        write_arrays(
            cache_path,
            {"hashes": index.hashes, "places": index.places},
            {"kind": index.kind, "width": index.width, "sha256": index.sha256},
        )
    return index


def _build_index(path: Path) -> _Index:
    if path.stat().st_size == 0:
        raise AssetError(f"word vectors: {path} is empty; download it again")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[:2] == b"\x1f\x8b":
            raise AssetError(f"word vectors: {path} is gzipped; unzip it first, so that it can be memory-mapped")
        entries: Iterator[tuple[bytes, int]]
        if content[:4] == struct.pack("<i", FASTTEXT_MAGIC):
            model = read_fasttext(path, content)
            kind, width = "fasttext", model.width
            entries = ((word, row) for row, word in enumerate(model.vocabulary))
        else:
            kind, width, entries = _detect_format(path, content)
        place_of_hash: dict[int, int] = {}
        for word, place in entries:
            place_of_hash.setdefault(_hash(word), place)
    hashes = np.fromiter(place_of_hash, np.uint64, len(place_of_hash))
    places = np.fromiter(place_of_hash.values(), np.int64, len(place_of_hash))
    order = np.argsort(hashes)
    return _Index(kind, width, sha256(path), hashes[order], places[order])


def _detect_format(path: Path, content: mmap.mmap) -> tuple[str, int, Iterator[tuple[bytes, int]]]:
    """Returns the format of a word2vec or GloVe file, its width, and its words with their byte offsets."""
    end = content.find(b"\n")
    first = content[: end if end >= 0 else len(content)].split()
    if len(first) == 2 and first[0].isdigit() and first[1].isdigit() and end >= 0:
        count, width = int(first[0]), int(first[1])
        stop = content.find(b"\n", end + 1, end + 1 + 4096 + 32 * width)
        second = content[end + 1 : stop if stop >= 0 else end + 1 + 4096 + 32 * width].rstrip()
        if _count_numbers(second.rsplit(b" ", width)[1:]) == width:
            return "text", width, _text_entries(path, content, end + 1, width, 2)
        return "binary", width, _binary_entries(path, content, end + 1, count, width)
    width = _count_numbers(first[1:])
    if width < 2:
        raise AssetError(
            f"word vectors: {path} begins with {content[:60]!r}; expected a word and its numbers, or `words width`"
        )
    return "text", width, _text_entries(path, content, 0, width, 1)


def _count_numbers(fields: list[bytes]) -> int:
    """Returns the number of fields if all are numbers, else 0."""
    try:
        for field in fields:
            float(field)
    except ValueError:
        return 0
    return len(fields)


def _text_entries(path: Path, content: mmap.mmap, start: int, width: int, number: int) -> Iterator[tuple[bytes, int]]:
    size = len(content)
    while start < size:
        stop = content.find(b"\n", start)
        stop = size if stop < 0 else stop
        line = content[start:stop].rstrip()
        if line:
            fields = line.rsplit(b" ", width)
            if len(fields) != width + 1 or (number < 100 and _count_numbers(fields[1:]) != width):
                raise AssetError(
                    f"word vectors: {path}, line {number}: expected a word and {width} numbers, but got {line[:80]!r}"
                )
            yield fields[0], start
        start, number = stop + 1, number + 1


def _binary_entries(path: Path, content: mmap.mmap, start: int, count: int, width: int) -> Iterator[tuple[bytes, int]]:
    for number in range(1, count + 1):
        while content[start : start + 1] == b"\n":
            start += 1
        blank = content.find(b" ", start, start + 4096)
        stop = blank + 1 + 4 * width
        if blank < 0 or stop > len(content):
            raise AssetError(
                f"word vectors: {path}, word {number} of {count}: expected a word, a space and {width} float32, but "
                f"the file ends or has other data at byte {start}; it is truncated or damaged"
            )
        yield content[start:blank], start
        start = stop
