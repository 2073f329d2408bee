"""Document frequencies of n-grams, the source of CIDEr's idf: collected, merged, saved and read back.

A document is the set of references of one caption.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.files import write_atomic
from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import AssetError, InputError
from capmeter.metrics.base import Context, Corpus
from capmeter.text.ngrams import NGrams, NGramTable
from capmeter.text.tokens import tokenizer_version

Floats = npt.NDArray[np.float64]
FORMAT = "capmeter document frequencies 1"
_BLOCK = 1 << 16


def _kind(documents: int) -> type[np.integer[Any]]:
    """The type of counts up to this number."""
    return np.uint32 if documents < 1 << 32 else np.int64


@dataclass(frozen=True, eq=False)
class DocumentFrequencies:
    """n-grams (sorted hashes) with the number of documents that contain each; `source` describes their origin."""

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
        many, few = (self, other) if len(self.hashes) >= len(other.hashes) else (other, self)
        place = np.searchsorted(many.hashes, few.hashes)
        known = place < len(many.hashes)
        known[known] = many.hashes[place[known]] == few.hashes[known]
        counts = many.counts.astype(_kind(self.documents + other.documents))
        counts[place[known]] += few.counts[known]
        hashes = np.insert(many.hashes, place[~known], few.hashes[~known])
        counts = np.insert(counts, place[~known], few.counts[~known].astype(counts.dtype))
        return DocumentFrequencies(hashes, counts, self.documents + other.documents, self.n, self.tokenizer, self.name)

    def idf(self, hashes: npt.NDArray[np.uint64]) -> Floats:
        """ln N − ln max(1, document frequency) of each n-gram."""
        found = np.minimum(np.searchsorted(self.hashes, hashes), max(len(self.hashes) - 1, 0))
        if not len(self.hashes):
            frequency = np.ones(len(hashes))
        else:
            frequency = np.where(self.hashes[found] == hashes, self.counts[found], 1).astype(np.float64)
        idf: Floats = np.log(max(float(self.documents), 1.0)) - np.log(frequency)
        return idf

    @cached_property
    def source(self) -> str:
        """The source as given in the signature: run or table name, number of documents, and a content hash."""
        digest = hashlib.sha256()
        for numbers, kind in ((self.hashes, "<u8"), (self.counts, "<i8")):
            for first in range(0, len(numbers), _BLOCK):
                digest.update(numbers[first : first + _BLOCK].astype(kind).tobytes())
        return f"{self.name}/{self.documents} documents/{digest.hexdigest()[:8]}"

    def save(self, path: str | Path) -> None:
        """Writes the table to a file that `idf="FILE"` reads (numpy's npz; it contains only numbers, no code)."""
        head = {"format": FORMAT, "documents": self.documents, "n": self.n, "tokenizer": self.tokenizer}
        buffer = io.BytesIO()
        encoded = np.frombuffer(json.dumps(head).encode(), np.uint8)
        np.savez_compressed(buffer, head=encoded, hashes=self.hashes, counts=self.counts.astype(np.int64))
        write_atomic(path, buffer.getvalue())

    @classmethod
    def read(cls, path: str | Path) -> DocumentFrequencies:
        """Reads a saved table; an `AssetError` if the file is damaged or of another kind."""
        from capmeter.arrays import read_npz  # which a run with its own frequencies does not need

        try:
            encoded, hashes, counts = read_npz(path, "head", "hashes", "counts")
            head = json.loads(bytes(encoded))
            if not isinstance(head, dict) or head.get("format") != FORMAT:
                raise ValueError(f"expected the format {FORMAT!r}")
            hashes, counts = hashes.astype(np.uint64), counts.astype(np.int64)
            if hashes.ndim != 1 or hashes.shape != counts.shape or np.any(hashes[1:] <= hashes[:-1]):
                raise ValueError("expected sorted hashes and equally many counts")
            documents, n, tokenizer = int(head["documents"]), int(head["n"]), str(head["tokenizer"])
            if documents < 0 or np.any(counts < 1) or np.any(counts > documents):
                raise ValueError("expected counts from 1 to the number of documents")
        except (ValueError, KeyError, TypeError) as problem:
            raise AssetError(f"{path}: not a table of document frequencies ({problem}); save it again") from problem
        return cls(hashes, counts, documents, n, tokenizer, Path(path).name)


@dataclass(frozen=True)
class References(Corpus):
    """Corpus: the document frequencies of this run's references."""

    n: int = 4
    tokenizer: str = "ptb"

    def collect(self, part: CaptionSet, context: Context) -> DocumentFrequencies:
        """The document frequencies of this part's references."""
        grams: NGramTable = part.pool.analyse(NGrams(self.n, self.tokenizer))
        hashes, counts = grams.documents(part.reference_sets, np.bincount(part.reference_set))
        counts = counts.astype(_kind(len(part)))
        return DocumentFrequencies(hashes, counts, len(part), self.n, tokenizer_version(self.tokenizer))


@cache
def _read(
    path: str, n: int, tokenizer: str, stamp: tuple[int, int], columns: tuple[tuple[str, str], ...]
) -> DocumentFrequencies:
    from capmeter.captions.io import load_references

    with Path(path).open("rb") as file:
        saved = file.read(2) == b"PK"
    if not saved:
        documents = load_references(path, columns=dict(columns))
        whole = CaptionSet.from_captions(Caption(image, image, "", texts) for image, texts in documents.items())
        collected = References(n, tokenizer).collect(whole, Context())
        return DocumentFrequencies(
            collected.hashes, collected.counts, collected.documents, n, collected.tokenizer, Path(path).name
        )
    table = DocumentFrequencies.read(path)
    if (table.n, table.tokenizer) != (n, tokenizer_version(tokenizer)):
        raise InputError(
            f"{path}: contains frequencies of n-grams up to {table.n} with tokenizer {table.tokenizer}; expected n={n} "
            f"and {tokenizer_version(tokenizer)}; save it again with these"
        )
    return table


def from_file(path: str, n: int, tokenizer: str, columns: Mapping[str, str] | None = None) -> DocumentFrequencies:
    """The document frequencies in a saved table, or of the references in a caption file (`columns` as in `load`)."""
    try:
        stat = Path(path).stat()
    except OSError as problem:
        raise InputError(
            f'idf="{path}": {problem.strerror}; expected `run` (the references of the run), a saved table, or captions'
        ) from problem
    return _read(path, n, tokenizer, (stat.st_mtime_ns, stat.st_size), tuple((columns or {}).items()))
