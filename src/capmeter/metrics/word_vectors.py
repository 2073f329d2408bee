"""Captions as words with vectors, for the metrics on static word vectors: WEmbSim, MOWE, WMD.

`minilm` names vectors distilled from the default encoder: every word piece of its vocabulary is encoded on its own, the
mean vector of all pieces is subtracted (it carries no information), and a word's vector is the mean of its pieces'
vectors, normalised to unit length. The table is kept in the cache folder. Any other name is a file (see
capmeter.text.vectors).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.arrays import read_arrays, write_arrays
from capmeter.assets import cache_folder
from capmeter.captions.model import CaptionSet, Life, SentencePool
from capmeter.encoders import HiddenStates, PieceTable, StateTable, find_encoder, load_encoder
from capmeter.ragged import Ragged
from capmeter.settings import Settings
from capmeter.text.stopwords import STOP_WORDS
from capmeter.text.tokens import Tokens, TokenTable
from capmeter.text.vectors import WordVectors, open_vectors

DISTILLED = "minilm"
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class DistilledVectors:
    """Word vectors from an encoder: the normalised mean of the static vectors of a word's pieces."""

    encoder: str
    label: str
    table: NDArray[np.float32]
    settings: Settings

    @property
    def width(self) -> int:
        """Numbers per vector."""
        return int(self.table.shape[1])

    def find(self, words: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Which words the tokenizer can represent, and float32[words, width] with 0 for the others."""
        encoder = load_encoder(self.encoder, self.settings)
        pieces = encoder.pieces(words)
        unknown = np.zeros(len(words), np.bool_)
        inner = pieces.lengths - 2  # begin and end tokens are not part of the word
        vectors = np.zeros((len(words), self.width), np.float32)
        for k in np.flatnonzero(inner > 0).tolist():
            ids = pieces[k][1:-1]
            unknown[k] = bool((ids == encoder.tokenizer.unknown_id).any())
            vectors[k] = self.table[ids].mean(axis=0)
        known = (inner > 0) & ~unknown
        vectors[~known] = 0
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return known, vectors


def find_vectors(name: str, settings: Settings) -> WordVectors:
    """The word vectors of this name: `minilm`, distilled once from the default encoder, or a file."""
    return _distilled(DISTILLED, settings) if name == DISTILLED else open_vectors(name)


@lru_cache(maxsize=1)
def _distilled(name: str, settings: Settings) -> DistilledVectors:
    files = find_encoder(name)
    kept = cache_folder("word-vectors", f"{name}-{files.sha256[:16]}-2.index")
    saved = read_arrays(kept)
    if saved is not None and saved[0].keys() == {"table"}:
        return DistilledVectors(name, f"distilled {files.label}", saved[0]["table"], settings)
    table = distil(name, settings)
    with suppress(OSError):  # works without a writable cache
        write_arrays(kept, {"table": table})
    return DistilledVectors(name, f"distilled {files.label}", table, settings)


def distil(name: str, settings: Settings) -> NDArray[np.float32]:
    """float32[vocabulary, width]: the vector of each word piece on its own, minus the mean; always in float32."""
    encoder = load_encoder(name, replace(settings, precision="float32"))
    size = len(encoder.tokenizer)
    alone = PieceTable.of([[encoder.begin_id, piece, encoder.end_id] for piece in range(size)])
    table = np.empty((size, encoder.width), np.float32)
    for batch in encoder.encode_ids(alone, hidden=encoder.layers):
        if batch.hidden is not None:
            table[batch.rows] = batch.hidden.mean(axis=1)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    said = [k for k, piece in enumerate(encoder.tokens(range(size))) if not (piece.startswith("[") and len(piece) > 1)]
    centred: NDArray[np.float32] = table - table[said].mean(axis=0)
    return centred


@dataclass(frozen=True, eq=False)
class WordTable:
    """The content words of each sentence that have a vector.

    words: row i has the words of sentence i, as indices into `vectors` (float64[vocabulary, width]) and `vocabulary`.
    """

    words: Ragged
    vectors: NDArray[np.float64]
    vocabulary: tuple[str, ...]

    @cached_property
    def unit(self) -> NDArray[np.float64]:
        """The vectors normalised to unit length."""
        length = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        unit: NDArray[np.float64] = self.vectors / np.maximum(length, _TINY)
        return unit

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """float64[sentences, width]: the mean of each sentence's vectors; 0 if it has none."""
        total = np.zeros((len(self.words), self.vectors.shape[1]))
        filled = np.flatnonzero(self.words.lengths)
        if len(filled):
            flat = self.vectors[self.words.values]
            total[filled] = np.add.reduceat(flat, self.words.offsets[filled], axis=0)
        mean: NDArray[np.float64] = total / np.maximum(self.words.lengths, 1)[:, None]
        return mean


@dataclass(frozen=True)
class ContentWords:
    """Analysis: PTB tokens without NLTK's stop words and without words that have no vector.

    `deleted`: characters removed from every token first (LCEval's code deletes `. , " '` for MOWE).
    """

    vectors: str
    deleted: str = ""
    settings: Settings = field(default_factory=Settings)
    life: ClassVar[Life] = "part"

    def run(self, pool: SentencePool) -> WordTable:
        """The table of a pool."""
        tokens: TokenTable = pool.analyse(Tokens("ptb"))
        used = np.unique(tokens.ids.values)
        drop = str.maketrans("", "", self.deleted)
        spelled = [tokens.vocabulary.words[k].lower().translate(drop) for k in used.tolist()]
        content = np.array([bool(word) and word not in STOP_WORDS for word in spelled], np.bool_)
        distinct = sorted({word for word, kept in zip(spelled, content, strict=True) if kept})
        known, vectors = find_vectors(self.vectors, self.settings).find(distinct)
        rows = {word: row for row, word in enumerate(w for w, there in zip(distinct, known, strict=True) if there)}
        row_of = np.full(len(tokens.vocabulary), -1, np.int64)
        row_of[used] = [rows.get(word, -1) if kept else -1 for word, kept in zip(spelled, content, strict=True)]
        flat = row_of[tokens.ids.values]
        lengths = np.bincount(tokens.ids.rows[flat >= 0], minlength=len(tokens.ids))
        return WordTable(Ragged.from_lengths(flat[flat >= 0], lengths), vectors[known].astype(np.float64), tuple(rows))


@dataclass(frozen=True)
class ContextualWords:
    """Analysis: the word pieces of each sentence with their states at a layer of an encoder.

    Left out are begin and end tokens, pieces that are a stop word (NLTK's), and pieces without a letter or digit.
    """

    encoder: str
    layer: int
    settings: Settings = field(default_factory=Settings)
    life: ClassVar[Life] = "part"

    def run(self, pool: SentencePool) -> WordTable:
        """The table of a pool; its vocabulary is every piece where it stands."""
        states: StateTable = pool.analyse(HiddenStates(self.encoder, self.layer, self.settings))
        loaded, pieces = load_encoder(self.encoder, self.settings), states.pieces
        distinct = np.unique(pieces.ids)
        names = loaded.tokens(distinct)
        spelled = [loaded.word_of(name).lower() for name in names]
        content = np.zeros(int(distinct.max(initial=0)) + 1, np.bool_)
        content[distinct] = [any(map(str.isalnum, word)) and word not in STOP_WORDS for word in spelled]
        kept = content[pieces.ids]
        starts, ends = pieces.offsets[:-1], pieces.offsets[1:] - 1
        kept[starts] = kept[ends] = False
        rows = np.flatnonzero(kept)
        lengths = np.add.reduceat(kept, starts, dtype=np.int64) if len(starts) else np.zeros(0, np.int64)
        vocabulary = loaded.tokens(pieces.ids[rows])
        words = Ragged.from_lengths(np.arange(len(rows)), lengths)
        return WordTable(words, states.states[rows].astype(np.float64), tuple(vocabulary))


def without_vectors(part: CaptionSet, table: WordTable) -> dict[str, list[str]]:
    """A note of the captions whose candidate, or all of whose references, have no content word with a vector."""
    silent = table.words.lengths == 0
    alone = np.ones(len(part), np.bool_)
    np.logical_and.at(alone, part.references.rows, silent[part.references.values])
    rows = np.flatnonzero(silent[part.candidates] | alone).tolist()
    return {"out of vocabulary": [part.ids[row] for row in rows]} if rows else {}


def cosines(part: CaptionSet, table: WordTable) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Cosine of the mean vectors of each reference and its candidate (flat, as `part.references.values`).

    The second array is false where either of them has no vector.
    """
    means = table.means / np.maximum(np.linalg.norm(table.means, axis=1, keepdims=True), _TINY)
    candidates = part.candidates[part.references.rows]
    there = (table.words.lengths[candidates] > 0) & (table.words.lengths[part.references.values] > 0)
    cosine = np.einsum("id,id->i", means[candidates], means[part.references.values])
    return np.clip(cosine, -1, 1), there
