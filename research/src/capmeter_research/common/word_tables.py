"""Captions as words with vectors, for the metrics on word vectors: WEmbSim, MOWE, WMD.

`minilm` names vectors distilled from the default encoder: every word piece of its vocabulary is encoded on its own, the
mean vector of all pieces is subtracted (it carries no information), and a word's vector is the mean of its pieces'
vectors, normalised to unit length. The table is cached on disk. Any other name is a file (see
`capmeter_research.common.word_vectors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.core.arrays import read_arrays, write_arrays
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings, cache_folder
from capmeter.encoders import EncoderHandle, HiddenStates, PieceTable, StateTable, find_encoder, load_encoder
from capmeter.evaluation.base import MeanMetric, RunContext, note_captions
from capmeter.text.concepts import STOP_WORDS
from capmeter.text.tokenization.token_tables import Tokens, TokenTable, tokenizer_version
from capmeter_research.common.word_vectors import WordVectors, open_vectors

DISTILLED = "minilm"
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class DistilledVectors:
    """Word vectors from an encoder: the normalised mean of the static vectors of a word's pieces."""

    encoder: EncoderHandle
    label: str
    table: NDArray[np.float32]  # (vocabulary, width)
    settings: Settings

    @property
    def width(self) -> int:
        """The length of a vector."""
        return int(self.table.shape[1])

    def find(self, words: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Which words the tokenizer can represent, (words,), and their vectors (words, width), 0 for the others."""
        encoder = load_encoder(self.encoder, self.settings)
        piece_table = encoder.pieces(words)
        is_unknown = np.zeros(len(words), np.bool_)
        inner_lengths = piece_table.lengths - 2  # begin and end tokens are not part of the word
        word_vectors = np.zeros((len(words), self.width), np.float32)
        for word_index in np.flatnonzero(inner_lengths > 0).tolist():
            piece_ids = piece_table[word_index][1:-1]
            is_unknown[word_index] = bool((piece_ids == encoder.tokenizer.unknown_id).any())
            word_vectors[word_index] = self.table[piece_ids].mean(axis=0)
        in_vocabulary = (inner_lengths > 0) & ~is_unknown
        word_vectors[~in_vocabulary] = 0
        word_vectors /= np.maximum(np.linalg.norm(word_vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return in_vocabulary, word_vectors


def find_vectors(name: str, settings: Settings) -> WordVectors:
    """The word vectors of this name: `minilm`, distilled once from the default encoder, or a file."""
    return load_distilled(DISTILLED, settings) if name == DISTILLED else open_vectors(name)


@lru_cache(maxsize=1)
def load_distilled(name: str, settings: Settings) -> DistilledVectors:
    """The vectors distilled from this encoder, from the cache if they are there."""
    encoder_handle = find_encoder(name)
    cache_path = cache_folder("word-vectors", f"{name}-{encoder_handle.sha256[:16]}-3.index")
    cached_arrays = read_arrays(cache_path)
    if cached_arrays is not None and cached_arrays[0].keys() == {"table"}:
        vector_table = cached_arrays[0]["table"]
    else:
        vector_table = distil(encoder_handle, settings)
        with suppress(OSError):  # works without a writable cache
            write_arrays(cache_path, {"table": vector_table})
    return DistilledVectors(encoder_handle, f"distilled {encoder_handle.label}", vector_table, settings)


def distil(handle: EncoderHandle, settings: Settings) -> NDArray[np.float32]:
    """The vector of each word piece on its own minus the mean, (vocabulary, width), always in float32."""
    encoder = load_encoder(handle, replace(settings, precision="float32", engine="torch"))
    size = len(encoder.tokenizer)
    piece_table = PieceTable.from_rows([[encoder.begin_id, piece, encoder.end_id] for piece in range(size)])
    vector_table = np.empty((size, encoder.width), np.float32)
    for batch in encoder.encode_ids(piece_table, hidden=encoder.layers):
        if batch.hidden is not None:
            vector_table[batch.rows] = batch.hidden.mean(axis=1)
    vector_table /= np.linalg.norm(vector_table, axis=1, keepdims=True)
    pieces = encoder.tokenizer.pieces(range(size))
    words = [k for k, piece in enumerate(pieces) if not (piece.startswith("[") and len(piece) > 1)]
    centred_vectors: NDArray[np.float32] = vector_table - vector_table[words].mean(axis=0)
    return centred_vectors


@dataclass(frozen=True, eq=False)
class WordTable:
    """The content words of each sentence that have a vector."""

    words: Ragged  # row i: the words of sentence i, as indices into vectors and vocabulary
    vectors: NDArray[np.float64]  # (vocabulary, width)
    vocabulary: tuple[str, ...]

    @cached_property
    def unit(self) -> NDArray[np.float64]:
        """The vectors normalised to unit length."""
        vector_norms = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        unit: NDArray[np.float64] = self.vectors / np.maximum(vector_norms, _TINY)
        return unit

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """The mean of each sentence's vectors, (sentences, width); 0 if it has none."""
        vector_sums = np.zeros((len(self.words), self.vectors.shape[1]))
        nonempty = np.flatnonzero(self.words.lengths)
        if len(nonempty):
            word_vectors = self.vectors[self.words.values]
            vector_sums[nonempty] = np.add.reduceat(word_vectors, self.words.offsets[nonempty], axis=0)
        mean: NDArray[np.float64] = vector_sums / np.maximum(self.words.lengths, 1)[:, None]
        return mean


@dataclass(frozen=True)
class ContentWords:
    """Analysis: PTB tokens without NLTK's stop words and without words that have no vector.

    Attributes:
        vectors: name or file of the word vectors.
        deleted: characters removed from every token first (LCEval's code deletes `. , " '` for MOWE).
        settings: of the run.
    """

    vectors: str
    deleted: str = ""
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: SentencePool) -> WordTable:
        """The table of a pool."""
        token_table: TokenTable = pool.analyse(Tokens("ptb"))
        word_ids = np.unique(token_table.ids.values)
        deletion = str.maketrans("", "", self.deleted)
        normalised_words = [token_table.vocabulary.words[k].lower().translate(deletion) for k in word_ids.tolist()]
        distinct = sorted({word for word in normalised_words if word and word not in STOP_WORDS})
        has_vector, vectors = find_vectors(self.vectors, self.settings).find(distinct)
        vector_rows = {
            word: row for row, word in enumerate(w for w, has in zip(distinct, has_vector, strict=True) if has)
        }
        row_of = np.full(len(token_table.vocabulary), -1, np.int64)
        row_of[word_ids] = [vector_rows.get(word, -1) for word in normalised_words]
        flat_rows = row_of[token_table.ids.values]
        lengths = np.bincount(token_table.ids.rows[flat_rows >= 0], minlength=len(token_table.ids))
        words_of = Ragged.from_lengths(flat_rows[flat_rows >= 0], lengths)
        return WordTable(words_of, vectors[has_vector].astype(np.float64), tuple(vector_rows))


@dataclass(frozen=True)
class ContextualWords:
    """Analysis: the word pieces of each sentence with their states at a layer of an encoder.

    Begin and end tokens, stop words (NLTK's) and pieces without a letter or digit are left out.
    """

    encoder: EncoderHandle
    layer: int
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: SentencePool) -> WordTable:
        """The table of a pool; its vocabulary has one entry per occurrence of a piece."""
        state_table: StateTable = pool.analyse(HiddenStates(self.encoder, self.layer, self.settings))
        tokenizer, piece_table = load_encoder(self.encoder, self.settings).tokenizer, state_table.pieces
        distinct_ids = np.unique(piece_table.ids)
        piece_words = [tokenizer.word_of(piece).lower() for piece in tokenizer.pieces(distinct_ids)]
        is_content = np.zeros(int(distinct_ids.max(initial=0)) + 1, np.bool_)
        is_content[distinct_ids] = [any(map(str.isalnum, word)) and word not in STOP_WORDS for word in piece_words]
        mask = is_content[piece_table.ids]
        starts, sentence_ends = piece_table.offsets[:-1], piece_table.offsets[1:] - 1
        mask[starts] = mask[sentence_ends] = False
        content_rows = np.flatnonzero(mask)
        word_counts = np.add.reduceat(mask, starts, dtype=np.int64) if len(starts) else np.zeros(0, np.int64)
        vocabulary = tokenizer.pieces(piece_table.ids[content_rows])
        words_of = Ragged.from_lengths(np.arange(len(content_rows)), word_counts)
        return WordTable(words_of, state_table.states[content_rows].astype(np.float64), tuple(vocabulary))


def note_missing_vectors(part: CaptionSet, table: WordTable) -> dict[str, list[str]]:
    """A note of the captions whose candidate, or all of whose references, have no content word with a vector."""
    is_empty = table.words.lengths == 0
    no_reference = np.ones(len(part), np.bool_)
    np.logical_and.at(no_reference, part.references.rows, is_empty[part.references.values])
    return note_captions(part, "out of vocabulary", is_empty[part.candidates] | no_reference)


def reference_cosines(part: CaptionSet, table: WordTable) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Cosine of the mean vectors of each reference and its candidate (flat, as `part.references.values`).

    The second array is false where one of them has no vector.
    """
    unit_means = table.means / np.maximum(np.linalg.norm(table.means, axis=1, keepdims=True), _TINY)
    candidates = part.candidates[part.references.rows]
    present = (table.words.lengths[candidates] > 0) & (table.words.lengths[part.references.values] > 0)
    cosine = np.einsum("id,id->i", unit_means[candidates], unit_means[part.references.values])
    return np.clip(cosine, -1, 1), present


@dataclass(frozen=True, kw_only=True)
class MeanVectors(MeanMetric):
    """The base of metrics on vectors of content words."""

    EXTRA: ClassVar[str | None] = "neural"
    PART_SIZE: ClassVar[int] = 2048
    FAMILY: ClassVar[str] = "Vectors of words and sentences"
    MISLEADS: ClassVar[str] = (
        'Rates words with similar contexts as similar, including opposites and colours ("red car", "blue car"). '
        "Differences between good systems are small on its scale."
    )

    vectors: Annotated[str, "word vectors: minilm, or a file"] = "minilm"

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The vectors' name and hash, the tokenizer and the stop words."""
        label = find_vectors(self.vectors, context.settings).label
        return {"vectors": label, "tokenizer": tokenizer_version("ptb"), "stop-words": "nltk-179"}
