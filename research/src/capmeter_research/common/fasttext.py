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
        matrix_rows = [row]
        if self.longest > 0 and word != b"</s>":
            matrix_rows += [
                len(self.vocabulary) + ngram_hash % self.buckets
                for ngram_hash in ngram_hashes(word, self.shortest, self.longest)
            ]
        mean_vector: NDArray[np.float32] = self.matrix[matrix_rows].mean(axis=0)
        return mean_vector


def ngram_hashes(word: bytes, shortest: int, longest: int) -> list[int]:
    """Hashes the character n-grams of `<word>`, except single boundary marks."""
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
