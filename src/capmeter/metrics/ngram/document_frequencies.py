"""Document frequencies of n-grams, the source of CIDEr's idf: collected, merged, saved and read back.

A document is the set of references of one caption.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.assets import file_stamp
from capmeter.core.errors import AssetError, InputError
from capmeter.core.output_files import write_atomic
from capmeter.evaluation.base import CorpusState, RunContext
from capmeter.text.ngrams import NGrams, NGramTable
from capmeter.text.tokenization.token_tables import tokenizer_version

Floats = npt.NDArray[np.float64]
FORMAT = "capmeter document frequencies 1"
_BLOCK = 1 << 16


def _count_type(documents: int) -> type[np.integer[Any]]:
    """The integer type for counts up to this number."""
    return np.uint32 if documents < 1 << 32 else np.int64


@dataclass(frozen=True, eq=False)
class DocumentFrequencies:
    """n-grams with the number of documents that contain each.

    Attributes:
        hashes: of the k n-grams, (k,), ascending.
        counts: (k,).
        documents: N.
        n: longest n-gram.
        tokenizer: its version.
        name: of the source: `run`, or a file.
    """

    hashes: npt.NDArray[np.uint64]
    counts: npt.NDArray[np.integer[Any]]
    documents: int
    n: int
    tokenizer: str
    name: str = "run"

    def __add__(self, other: DocumentFrequencies) -> DocumentFrequencies:
        if (self.n, self.tokenizer) != (other.n, other.tokenizer):
            raise InputError("document frequencies of different n-grams or tokenizers cannot be added")
        # the smaller table is merged into the larger, so that adding part after part costs little more than copying
        large, small = (self, other) if len(self.hashes) >= len(other.hashes) else (other, self)
        documents = self.documents + other.documents
        insertion_points = np.searchsorted(large.hashes, small.hashes)
        is_shared = insertion_points < len(large.hashes)
        is_shared[is_shared] = large.hashes[insertion_points[is_shared]] == small.hashes[is_shared]
        merged_counts = large.counts.astype(_count_type(documents))
        merged_counts[insertion_points[is_shared]] += small.counts[is_shared]
        merged_hashes = np.insert(large.hashes, insertion_points[~is_shared], small.hashes[~is_shared])
        merged_counts = np.insert(
            merged_counts, insertion_points[~is_shared], small.counts[~is_shared].astype(merged_counts.dtype)
        )
        return DocumentFrequencies(merged_hashes, merged_counts, documents, self.n, self.tokenizer, self.name)

    def idf(self, hashes: npt.NDArray[np.uint64]) -> Floats:
        """ln N − ln max(1, document frequency) of each n-gram."""
        frequency = np.ones(len(hashes))
        if len(self.hashes):
            index = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            frequency = np.where(self.hashes[index] == hashes, self.counts[index], 1).astype(np.float64)
        idf: Floats = np.log(max(float(self.documents), 1.0)) - np.log(frequency)
        return idf

    @cached_property
    def source(self) -> str:
        """The source for signatures: `run` or file name, number of documents, and a content hash."""
        digest = hashlib.sha256()
        for array, dtype in ((self.hashes, "<u8"), (self.counts, "<i8")):
            for block_start in range(0, len(array), _BLOCK):
                digest.update(array[block_start : block_start + _BLOCK].astype(dtype).tobytes())
        return f"{self.name}/{self.documents} documents/{digest.hexdigest()[:8]}"

    def save(self, path: str | Path) -> None:
        """Writes the table to a file that `idf="FILE"` reads (numpy's npz; it contains only numbers, no code)."""
        header = {"format": FORMAT, "documents": self.documents, "n": self.n, "tokenizer": self.tokenizer}
        buffer = io.BytesIO()
        encoded_header = np.frombuffer(json.dumps(header).encode(), np.uint8)
        np.savez_compressed(buffer, head=encoded_header, hashes=self.hashes, counts=self.counts.astype(np.int64))
        write_atomic(path, buffer.getvalue())

    @classmethod
    def read(cls, path: str | Path) -> DocumentFrequencies:
        """Reads a saved table.

        Raises:
            AssetError: the file is damaged or of another kind.
        """
        from capmeter.core.arrays import read_npz

        try:
            encoded_header, hashes, counts = read_npz(path, "head", "hashes", "counts")
            header = json.loads(bytes(encoded_header))
            if not isinstance(header, dict) or header.get("format") != FORMAT:
                raise ValueError(f"expected the format {FORMAT!r}")
            hashes, counts = hashes.astype(np.uint64), counts.astype(np.int64)
            if hashes.ndim != 1 or hashes.shape != counts.shape or np.any(hashes[1:] <= hashes[:-1]):
                raise ValueError("expected sorted hashes and equally many counts")
            documents, n, tokenizer = int(header["documents"]), int(header["n"]), str(header["tokenizer"])
            if documents < 0 or np.any(counts < 1) or np.any(counts > documents):
                raise ValueError("expected counts from 1 to the number of documents")
        except (ValueError, KeyError, TypeError) as problem:
            raise AssetError(f"{path}: not a table of document frequencies ({problem}); save it again") from problem
        return cls(hashes, counts, documents, n, tokenizer, Path(path).name)


@dataclass(frozen=True)
class DocumentFrequencyState(CorpusState):
    """The document frequencies of this run's references."""

    n: int = 4
    tokenizer: str = "ptb"

    def collect(self, part: CaptionSet, context: RunContext) -> DocumentFrequencies:
        """The document frequencies of this part's references."""
        ngram_table: NGramTable = part.pool.analyse(NGrams(self.n, self.tokenizer))
        hashes, document_counts = ngram_table.document_frequencies(
            part.reference_sets, np.bincount(part.reference_set_indices)
        )
        document_counts = document_counts.astype(_count_type(len(part)))
        return DocumentFrequencies(hashes, document_counts, len(part), self.n, tokenizer_version(self.tokenizer))


def _is_table(path: str) -> bool:
    """Whether a file is a saved table (a zip of arrays) rather than captions, which may be zipped or a workbook."""
    with suppress(OSError), Path(path).open("rb") as file:  # what cannot be read is said where captions are
        start = file.read(64)  # with the name of the first member
        return start.startswith(b"PK") and (b".npy" in start or not start.startswith(b"PK\x03\x04"))
    return False


@cache
def _read(
    paths: tuple[str, ...],
    n: int,
    tokenizer: str,
    stamps: tuple[tuple[int, int], ...],
    columns: tuple[tuple[str, str], ...],
) -> DocumentFrequencies:
    from capmeter.captions.load import load_references

    path, table_paths = paths[0], [file_path for file_path in paths if _is_table(file_path)]
    if table_paths and len(paths) > 1:
        raise InputError(
            f"{table_paths[0]}: a saved table of document frequencies, which cannot be joined with other files; name "
            "it alone, or files of captions alone"
        )
    if not table_paths:
        documents = load_references([Path(file_path) for file_path in paths], columns=dict(columns))
        captions = CaptionSet.from_captions(
            Caption(image_id, image_id, "", reference_texts) for image_id, reference_texts in documents.items()
        )
        collected_frequencies = DocumentFrequencyState(n, tokenizer).collect(captions, RunContext())
        return DocumentFrequencies(
            collected_frequencies.hashes,
            collected_frequencies.counts,
            collected_frequencies.documents,
            n,
            collected_frequencies.tokenizer,
            "+".join(Path(file_path).name for file_path in paths),
        )
    frequency_table = DocumentFrequencies.read(path)
    if (frequency_table.n, frequency_table.tokenizer) != (n, tokenizer_version(tokenizer)):
        raise InputError(
            f"{path}: contains frequencies of n-grams up to {frequency_table.n} with tokenizer "
            f"{frequency_table.tokenizer}; expected n={n} and {tokenizer_version(tokenizer)}; save it again with these"
        )
    return frequency_table


def read_frequencies(
    path: str, n: int, tokenizer: str, columns: Mapping[str, str] | None = None, others: Sequence[str] = ()
) -> DocumentFrequencies:
    """The document frequencies in a saved table, or of the references in a caption file.

    Args:
        path: of either.
        others: more files of captions, whose references are joined with the first's, image by image.
        n: longest n-gram.
        tokenizer: how references are split into words.
        columns: of the caption file, as in `load`.

    Raises:
        InputError: the file cannot be read, or the table is of other n-grams or of another tokenizer.
    """
    paths = (path, *others)
    expected_source = "expected `run` (the references of the run), a saved table, or captions"
    stamps = tuple(file_stamp("idf", str(file_path), expected_source) for file_path in paths)
    return _read(paths, n, tokenizer, stamps, tuple((columns or {}).items()))
