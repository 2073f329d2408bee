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
from capmeter_research.common.fasttext import FASTTEXT_MAGIC, FastTextModel, read_fasttext

_FORMAT = 3


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
        file_index = self._index
        word_hashes = np.array([_hash(word.encode()) for word in words], np.uint64)
        hash_slots = np.searchsorted(file_index.hashes, word_hashes)
        for word_index, (word, hash_slot) in enumerate(zip(words, hash_slots.tolist(), strict=True)):
            if hash_slot < len(file_index.hashes) and file_index.hashes[hash_slot] == word_hashes[word_index]:
                in_file[word_index] = True
                try:
                    vectors[word_index] = self._vector(word.encode(), int(file_index.places[hash_slot]))
                except ValueError as error:
                    raise AssetError(f"word vectors: {self.path}, word {word!r}: {error}; expected numbers") from error
                if not np.isfinite(vectors[word_index]).all():
                    raise AssetError(
                        f"word vectors: {self.path}, word {word!r}: its vector has numbers that are not finite; the "
                        f"file is damaged or its training diverged"
                    )
        return in_file, vectors

    def _vector(self, word: bytes, byte_offset: int) -> NDArray[np.float32]:
        if self._model is not None:
            return self._model.vector(word, byte_offset)
        vector_start = byte_offset + len(word) + 1
        if self._index.kind == "binary":
            return np.frombuffer(self._bytes, "<f4", self.width, vector_start).astype(np.float32)
        vector_end = self._bytes.find(b"\n", vector_start)
        vector_text = self._bytes[vector_start : vector_end if vector_end >= 0 else len(self._bytes)]
        return np.array(vector_text.split(), np.float32)


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
        file_stat = path.stat()
    except OSError as error:
        raise AssetError(
            f"word vectors: {name}: {error.strerror}; expected `minilm` or a file in the format of GloVe, word2vec or "
            f"fastText (unzipped)"
        ) from error
    return _open_file(path.resolve(), (file_stat.st_size, file_stat.st_mtime_ns))


def _hash(word: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")


def _load_index(path: Path) -> _Index:
    file_stat = path.stat()
    key = hashlib.sha256(f"{_FORMAT} {path} {file_stat.st_size} {file_stat.st_mtime_ns}".encode()).hexdigest()[:32]
    cache_path = cache_folder("word-vectors", f"{key}.index")
    saved_index = read_arrays(cache_path)
    if saved_index is not None and saved_index[0].keys() == {"hashes", "places"}:
        arrays, properties = saved_index
        return _Index(**properties, hashes=arrays["hashes"], places=arrays["places"])
    vector_index = _build_index(path)
    with suppress(OSError):  # works without a writable cache
        write_arrays(
            cache_path,
            {"hashes": vector_index.hashes, "places": vector_index.places},
            {"kind": vector_index.kind, "width": vector_index.width, "sha256": vector_index.sha256},
        )
    return vector_index


def _build_index(path: Path) -> _Index:
    if path.stat().st_size == 0:
        raise AssetError(f"word vectors: {path} is empty; download it again")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[:2] == b"\x1f\x8b":
            raise AssetError(f"word vectors: {path} is gzipped; unzip it first, so that it can be memory-mapped")
        word_entries: Iterator[tuple[bytes, int]]
        if content[:4] == struct.pack("<i", FASTTEXT_MAGIC):
            fasttext_model = read_fasttext(path, content)
            file_kind, vector_width = "fasttext", fasttext_model.width
            word_entries = ((word, row) for row, word in enumerate(fasttext_model.vocabulary))
        else:
            file_kind, vector_width, word_entries = _detect_format(path, content)
        place_of_hash: dict[int, int] = {}
        for word, place in word_entries:
            place_of_hash.setdefault(_hash(word), place)
    hashes = np.fromiter(place_of_hash, np.uint64, len(place_of_hash))
    places = np.fromiter(place_of_hash.values(), np.int64, len(place_of_hash))
    hash_order = np.argsort(hashes)
    return _Index(file_kind, vector_width, sha256(path), hashes[hash_order], places[hash_order])


def _detect_format(path: Path, content: mmap.mmap) -> tuple[str, int, Iterator[tuple[bytes, int]]]:
    """Returns the format of a word2vec or GloVe file, its width, and its words with their byte offsets."""
    line_end = content.find(b"\n")
    first_fields = content[: line_end if line_end >= 0 else len(content)].split()
    if len(first_fields) == 2 and first_fields[0].isdigit() and first_fields[1].isdigit() and line_end >= 0:
        word_count, vector_width = int(first_fields[0]), int(first_fields[1])
        stop = content.find(b"\n", line_end + 1, line_end + 1 + 4096 + 32 * vector_width)
        second_line = content[line_end + 1 : stop if stop >= 0 else line_end + 1 + 4096 + 32 * vector_width].rstrip()
        if _count_numbers(second_line.rsplit(b" ", vector_width)[1:]) == vector_width:
            return "text", vector_width, _text_entries(path, content, line_end + 1, vector_width, 2)
        return "binary", vector_width, _binary_entries(path, content, line_end + 1, word_count, vector_width)
    vector_width = _count_numbers(first_fields[1:])
    if vector_width < 2:
        raise AssetError(
            f"word vectors: {path} begins with {content[:60]!r}; expected a word and its numbers, or `words width`"
        )
    return "text", vector_width, _text_entries(path, content, 0, vector_width, 1)


def _count_numbers(fields: list[bytes]) -> int:
    """Returns the number of fields if all are numbers, else 0."""
    try:
        for field in fields:
            float(field)
    except ValueError:
        return 0
    return len(fields)


def _text_entries(
    path: Path, content: mmap.mmap, line_start: int, width: int, number: int
) -> Iterator[tuple[bytes, int]]:
    content_size = len(content)
    while line_start < content_size:
        line_end = content.find(b"\n", line_start)
        line_end = content_size if line_end < 0 else line_end
        line = content[line_start:line_end].rstrip()
        if line:
            line_fields = line.rsplit(b" ", width)
            if len(line_fields) != width + 1 or (number < 100 and _count_numbers(line_fields[1:]) != width):
                raise AssetError(
                    f"word vectors: {path}, line {number}: expected a word and {width} numbers, but got {line[:80]!r}"
                )
            yield line_fields[0], line_start
        line_start, number = line_end + 1, number + 1


def _binary_entries(
    path: Path, content: mmap.mmap, word_start: int, count: int, width: int
) -> Iterator[tuple[bytes, int]]:
    for number in range(1, count + 1):
        while content[word_start : word_start + 1] == b"\n":
            word_start += 1
        blank_position = content.find(b" ", word_start, word_start + 4096)
        vector_end = blank_position + 1 + 4 * width
        if blank_position < 0 or vector_end > len(content):
            raise AssetError(
                f"word vectors: {path}, word {number} of {count}: expected a word, a space and {width} float32, but "
                f"the file ends or has other data at byte {word_start}; it is truncated or damaged"
            )
        yield content[word_start:blank_position], word_start
        word_start = vector_end
