"""What metrics on contextual word pieces share: padded pieces in blocks of captions, frequencies, signature facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import (
    EncoderHandle,
    HiddenStates,
    PieceTable,
    StateTable,
    WordPieces,
    find_encoder,
    load_encoder,
)
from capmeter.evaluation.base import CorpusState, Floats, RunContext, empty_candidates, note_captions, note_truncated

_BLOCK_FLOATS = 1 << 23  # references' vectors per block: 32 MB

UNREADABLE = (
    "more than half of the word pieces unknown to the encoder, or single letters of another alphabet, as in a language "
    "that it was not trained on; sbert(encoder=use-multilingual) reads sixteen languages, see docs/languages.md"
)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Word pieces of n rows, each row one sentence or several concatenated, padded to the longest row t."""

    states: NDArray[np.float32]  # (n, t, width), unit vectors, 0 in the padding
    ids: NDArray[np.int32]  # (n, t)
    sentence: NDArray[np.int64]  # (n, t), index of a piece's sentence in its row; -1 in the padding
    word_mask: NDArray[np.bool_]  # (n, t), false for begin, end and padding
    positions: NDArray[np.int64]  # (n, t), a piece's index in the table; -1 in the padding

    @classmethod
    def lay_out(cls, table: StateTable, sentences: Ragged, *, ends: bool = True) -> Pieces:
        """The pieces of rows of sentences.

        Args:
            table: word pieces and their states.
            sentences: of each row, as indices into the table.
            ends: whether to include begin and end tokens.
        """
        sentence_indices = sentences.values.astype(np.int64)
        skipped_ends = int(not ends)
        piece_counts = table.pieces.lengths[sentence_indices] - 2 * skipped_ends
        of_sentence = np.repeat(np.arange(len(sentence_indices)), piece_counts)
        within_sentence = np.arange(len(of_sentence)) - np.repeat(np.cumsum(piece_counts) - piece_counts, piece_counts)
        table_positions = table.pieces.offsets[sentence_indices][of_sentence] + skipped_ends + within_sentence
        row_indices = sentences.rows[of_sentence]
        row_lengths = np.bincount(row_indices, minlength=len(sentences))
        column_indices = np.arange(len(row_indices)) - np.repeat(np.cumsum(row_lengths) - row_lengths, row_lengths)
        shape = (len(sentences), int(row_lengths.max(initial=1)))
        positions, sentence = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
        ids, word_mask = np.zeros(shape, np.int32), np.zeros(shape, np.bool_)
        positions[row_indices, column_indices] = table_positions
        ids[row_indices, column_indices] = table.pieces.ids[table_positions]
        sentence[row_indices, column_indices] = of_sentence - sentences.offsets[row_indices]
        word_mask[row_indices, column_indices] = not ends or (
            (within_sentence > 0) & (within_sentence < piece_counts[of_sentence] - 1)
        )
        return cls(table.unit(positions), ids, sentence, word_mask, positions)

    @property
    def mask(self) -> NDArray[np.bool_]:
        """(n, t), false for padding."""
        return self.sentence >= 0

    def sentence_masks(self, sentences: int) -> NDArray[np.bool_]:
        """Which pieces (words or not) belong to each sentence of a row, (n, sentences, t)."""
        return np.asarray(self.sentence[:, None, :] == np.arange(sentences)[None, :, None])


def caption_blocks(
    candidates: NDArray[Any], table: StateTable, references: Ragged, *, ends: bool = True, floats: int = _BLOCK_FLOATS
) -> Iterator[tuple[NDArray[np.int64], Pieces, Pieces]]:
    """Captions in blocks of bounded memory, grouped by size: (rows, candidates, references).

    Args:
        candidates, references: of each caption, as indices into the table.
        table: word pieces and their states.
        ends: whether references have begin and end tokens.
        floats: maximum size of a block's reference states.
    """
    piece_counts = table.pieces.lengths
    total_pieces = np.zeros(len(candidates), np.int64)
    np.add.at(total_pieces, references.rows, piece_counts[references.values])
    size_order = np.argsort(total_pieces, kind="stable")
    width = table.states.shape[1]
    block_start = 0
    while block_start < len(size_order):
        block_end = block_start + 1
        while (
            block_end < len(size_order)
            and (block_end + 1 - block_start) * total_pieces[size_order[block_end]] * width <= floats
        ):
            block_end += 1
        rows = size_order[block_start:block_end]
        single_candidates = Ragged(candidates[rows], np.arange(len(rows) + 1, dtype=np.int64))
        yield rows, Pieces.lay_out(table, single_candidates), Pieces.lay_out(table, references.take(rows), ends=ends)
        block_start = block_end


def encode_sentences(part: CaptionSet, encoder: EncoderHandle, layer: int, settings: Settings) -> StateTable:
    """The hidden states of all sentences of the part, each distinct sentence encoded once.

    Args:
        part: the captions.
        encoder, layer: what reads them.
        settings: where it runs.
    """
    state_table: StateTable = part.pool.analyse(HiddenStates(encoder, layer, settings))
    return state_table


@dataclass(frozen=True, eq=False)
class PieceFrequencies:
    """Number of sentences (duplicates included) that contain each word piece."""

    counts: NDArray[np.int64]  # (vocabulary,)
    documents: int

    def __add__(self, other: PieceFrequencies) -> PieceFrequencies:
        return PieceFrequencies(self.counts + other.counts, self.documents + other.documents)

    def smoothed_idf(self) -> Floats:
        """ln((N + 1) / (df + 1)) of every piece, as in the bert-score package."""
        return np.log((self.documents + 1) / (self.counts + 1.0))

    def idf(self) -> Floats:
        """-lg(df / N) of every piece (Yi et al.); 0 for a piece that occurs in no document."""
        document_frequency = np.where(self.counts > 0, self.counts, self.documents)
        return np.abs(np.log10(document_frequency / max(self.documents, 1)))


@dataclass(frozen=True)
class PieceFrequencyState(CorpusState):
    """The frequencies of word pieces in all references of the run, and optionally in all candidates too."""

    encoder: str
    candidates: bool = False

    def collect(self, part: CaptionSet, context: RunContext) -> PieceFrequencies:
        """The frequencies in this part."""
        encoder_handle = find_encoder(self.encoder)
        piece_table: PieceTable = part.pool.analyse(WordPieces(encoder_handle, context.settings))
        occurrences = np.bincount(part.references.values, minlength=len(part.pool))
        if self.candidates:
            occurrences = occurrences + np.bincount(part.candidates, minlength=len(part.pool))
        size = vocabulary_size(encoder_handle, context.settings)
        sentence_indices = np.repeat(np.arange(len(piece_table)), piece_table.lengths)
        distinct_keys = np.unique(sentence_indices * size + piece_table.ids)
        document_counts = np.bincount(distinct_keys % size, weights=occurrences[distinct_keys // size], minlength=size)
        return PieceFrequencies(document_counts.astype(np.int64), int(occurrences.sum()))


@cache
def vocabulary_size(encoder: EncoderHandle, settings: Settings) -> int:
    """The size of the encoder's vocabulary."""
    return len(load_encoder(encoder, settings).tokenizer)


def note_sentences(part: CaptionSet, encoder: EncoderHandle, settings: Settings) -> dict[str, list[str]]:
    """Notes of the captions with a sentence that is too long for the encoder, and of those that it cannot read.

    Args:
        part: the captions.
        encoder: what reads them.
        settings: where it runs.
    """
    piece_table: PieceTable = part.pool.analyse(WordPieces(encoder, settings))
    is_truncated = piece_table.truncated
    is_unreadable = find_unreadable(piece_table, encoder, settings)
    truncated_notes = note_truncated(part, is_truncated[part.candidates], is_truncated[part.references.values])
    return truncated_notes | note_captions(part, UNREADABLE, is_unreadable[part.candidates] & ~empty_candidates(part))


def find_unreadable(pieces: PieceTable, encoder: EncoderHandle, settings: Settings) -> NDArray[np.bool_]:
    """Whether more than half of each sentence's word pieces are unknown to the encoder, or single letters.

    Args:
        pieces: of the sentences.
        encoder: whose they are.
        settings: where it runs.
    """
    is_uninformative = load_encoder(encoder, settings).tokenizer.uninformative[pieces.ids]
    unknown_counts = np.add.reduceat(is_uninformative.astype(np.int64), pieces.offsets[:-1])
    is_unreadable: NDArray[np.bool_] = 2 * unknown_counts > pieces.lengths - 2  # without begin and end tokens
    return is_unreadable


def encoder_facts(encoder: EncoderHandle, layer: int, settings: Settings) -> dict[str, str]:
    """Everything about the encoder that affects scores, for signatures.

    Args:
        encoder, layer: what reads the captions.
        settings: where it runs.
    """
    facts = {"weights": encoder.sha256[:12], "layer": str(layer), "software": encoder.software(settings)}
    return facts | {"precision": settings.precision}
