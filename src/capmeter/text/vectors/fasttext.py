"""fastText's binary model format (versions 11 and 12): the parts that word vectors need.

Layout, little-endian: magic, version; 12 int32 of arguments and a double; five dictionary counts; per entry the word,
a NUL, an int64 count and an int8 type (0: word); pruned n-grams; a flag for quantised input; rows and columns (int64)
and the float32 input matrix, whose first rows are the words' own and whose others are buckets of character n-grams.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capmeter.core.errors import AssetError

FASTTEXT_MAGIC = 793712314


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
        rows = [row]
        if self.longest > 0 and word != b"</s>":
            rows += [
                len(self.vocabulary) + hashed % self.buckets
                for hashed in ngram_hashes(word, self.shortest, self.longest)
            ]
        mean: NDArray[np.float32] = self.matrix[rows].mean(axis=0)
        return mean


def ngram_hashes(word: bytes, shortest: int, longest: int) -> list[int]:
    """Hashes the character n-grams of `<word>`, except single boundary marks."""
    text = f"<{word.decode('utf-8', 'surrogateescape')}>"
    hashes = []
    for start in range(len(text)):
        for size in range(shortest, longest + 1):
            if start + size > len(text):
                break
            if size == 1 and start in (0, len(text) - 1):
                continue
            hashes.append(fnv(text[start : start + size].encode("utf-8", "surrogateescape")))
    return hashes


def fnv(text: bytes) -> int:
    """Computes fastText's 32-bit FNV-1a hash, which treats bytes as signed."""
    value = 2166136261
    for byte in text:
        signed = byte if byte < 128 else byte | 0xFFFFFF00
        value = ((value ^ signed) * 16777619) & 0xFFFFFFFF
    return value


def read_fasttext(path: Path, content: mmap.mmap) -> FastTextModel:
    """Reads the model in a memory-mapped file.

    Raises:
        AssetError: the file is damaged, quantised, or of another version.
    """
    try:
        _, version = struct.unpack_from("<2i", content, 0)
        arguments = struct.unpack_from("<12i", content, 8)
        if version not in (11, 12):
            raise AssetError(f"word vectors: {path} has fastText format {version}; expected 11 or 12")
        width, model, buckets, shortest, longest = arguments[0], arguments[7], *arguments[8:11]
        if version == 11 and model == 3:  # old supervised models have no character n-grams
            longest = 0
        offset = 8 + 12 * 4 + 8
        entries, _, _ = struct.unpack_from("<3i", content, offset)
        pruned = struct.unpack_from("<q", content, offset + 20)[0]
        offset += 28
        vocabulary = []
        for _ in range(entries):
            end = content.find(b"\0", offset)
            if end < 0:
                raise AssetError(f"word vectors: {path} is truncated in its dictionary; download it again")
            if content[end + 9] == 0:
                vocabulary.append(content[offset:end])
            offset = end + 10
        offset += 8 * max(pruned, 0)
        if content[offset]:
            raise AssetError(f"word vectors: {path} is a quantised fastText model; use the full .bin or the .vec file")
        rows, columns = struct.unpack_from("<2q", content, offset + 1)
        if columns != width or len(content) < offset + 17 + 4 * rows * columns:
            raise AssetError(
                f"word vectors: {path} is truncated or damaged in its matrix of {rows} × {columns}; download it again"
            )
    except (struct.error, IndexError) as error:
        raise AssetError(f"word vectors: {path} is truncated or damaged ({error}); download it again") from error
    # np.memmap rather than a view of `content`, which the caller may close
    matrix = np.memmap(path, "<f4", "r", offset + 17, (rows, columns))
    return FastTextModel(vocabulary, width, buckets, shortest, longest, matrix)
