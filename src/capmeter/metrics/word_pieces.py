"""Shared by the metrics on contextual word pieces: padded blocks, piece frequencies, notes of truncated captions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.model import CaptionSet
from capmeter.encoders import HiddenStates, PieceTable, StateTable, WordPieces, find_encoder, load_encoder, software
from capmeter.metrics.base import Context, Corpus, Floats
from capmeter.ragged import Ragged
from capmeter.settings import Settings

_BLOCK_FLOATS = 1 << 23  # references' vectors per block: 32 MB


@dataclass(frozen=True, eq=False)
class Pieces:
    """Word pieces of n rows, each row one sentence or several concatenated, padded to the longest row.

    states: float32[n, t, width], unit vectors, 0 in the padding. ids: int32[n, t].
    owner: int64[n, t], the index of a piece's sentence in its row; -1 in the padding.
    word: bool[n, t], true except for padding, begin and end tokens.
    at: int64[n, t], where a piece is in the table; -1 in the padding.
    """

    states: NDArray[np.float32]
    ids: NDArray[np.int32]
    owner: NDArray[np.int64]
    word: NDArray[np.bool_]
    at: NDArray[np.int64]

    @classmethod
    def lay_out(cls, table: StateTable, sentences: Ragged, *, ends: bool = True) -> Pieces:
        """The pieces of rows of sentences, given as indices into the table; begin and end tokens if `ends`."""
        chosen = sentences.values.astype(np.int64)
        before = int(not ends)
        lengths = table.pieces.lengths[chosen] - 2 * before
        of_sentence = np.repeat(np.arange(len(chosen)), lengths)
        within = np.arange(len(of_sentence)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        source = table.pieces.offsets[chosen][of_sentence] + before + within
        row = sentences.rows[of_sentence]
        counts = np.bincount(row, minlength=len(sentences))
        column = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (len(sentences), int(counts.max(initial=1)))
        at, owner = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
        ids, word = np.zeros(shape, np.int32), np.zeros(shape, np.bool_)
        at[row, column] = source
        ids[row, column] = table.pieces.ids[source]
        owner[row, column] = of_sentence - sentences.offsets[row]
        word[row, column] = not ends or ((within > 0) & (within < lengths[of_sentence] - 1))
        return cls(table.unit(at), ids, owner, word, at)

    @property
    def real(self) -> NDArray[np.bool_]:
        """bool[n, t], true except for padding."""
        return self.owner >= 0

    def owned(self, sentences: int) -> NDArray[np.bool_]:
        """bool[n, sentences, t]: which pieces (words or not) belong to each sentence of a row."""
        return np.asarray(self.owner[:, None, :] == np.arange(sentences)[None, :, None])


def blocks(
    candidates: NDArray[Any],
    table: StateTable,
    references: Ragged,
    *,
    ends: bool = True,
    floats: int = _BLOCK_FLOATS,
) -> Iterator[tuple[NDArray[np.int64], Pieces, Pieces]]:
    """Captions in blocks of bounded memory, grouped by size: (rows, candidates, references).

    candidates, references: of each caption, as indices into the table. ends: whether references have begin and end
    tokens. floats: of the references' vectors in a block.
    """
    lengths = table.pieces.lengths
    total = np.zeros(len(candidates), np.int64)
    np.add.at(total, references.rows, lengths[references.values])
    order = np.argsort(total, kind="stable")
    width = table.states.shape[1]
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * total[order[stop]] * width <= floats:
            stop += 1
        rows = order[start:stop]
        alone = Ragged(candidates[rows], np.arange(len(rows) + 1, dtype=np.int64))
        yield rows, Pieces.lay_out(table, alone), Pieces.lay_out(table, references.take(rows), ends=ends)
        start = stop


def hidden_states(part: CaptionSet, encoder: str, layer: int, settings: Settings) -> StateTable:
    """The hidden states of all sentences of the part, each distinct sentence encoded once."""
    table: StateTable = part.pool.analyse(HiddenStates(encoder, layer, settings))
    return table


@dataclass(frozen=True, eq=False)
class PieceFrequencies:
    """The number of sentences (duplicates included) that contain each word piece. counts: int64[vocabulary]."""

    counts: NDArray[np.int64]
    documents: int

    def __add__(self, other: PieceFrequencies) -> PieceFrequencies:
        return PieceFrequencies(self.counts + other.counts, self.documents + other.documents)

    def smoothed(self) -> Floats:
        """ln((N + 1) / (df + 1)) of every piece: bert-score's idf."""
        return np.log((self.documents + 1) / (self.counts + 1.0))

    def plain(self) -> Floats:
        """-lg(df / N) of every piece (Yi et al.); 0 for a piece that occurs in no document."""
        frequency = np.where(self.counts > 0, self.counts, self.documents)
        return np.abs(np.log10(frequency / max(self.documents, 1)))


@dataclass(frozen=True)
class PieceDocuments(Corpus):
    """Corpus: the frequencies of word pieces in all references, and optionally in all candidates too."""

    encoder: str
    candidates: bool = False

    def collect(self, part: CaptionSet, context: Context) -> PieceFrequencies:
        """The frequencies in this part."""
        pieces: PieceTable = part.pool.analyse(WordPieces(self.encoder, context.settings))
        said = np.bincount(part.references.values, minlength=len(part.pool))
        if self.candidates:
            said = said + np.bincount(part.candidates, minlength=len(part.pool))
        size = vocabulary_size(self.encoder, context.settings)
        sentence = np.repeat(np.arange(len(pieces)), pieces.lengths)
        distinct = np.unique(sentence * size + pieces.ids)
        counts = np.bincount(distinct % size, weights=said[distinct // size], minlength=size)
        return PieceFrequencies(counts.astype(np.int64), int(said.sum()))


@cache
def vocabulary_size(encoder: str, settings: Settings) -> int:
    """The size of the encoder's vocabulary."""
    return len(load_encoder(encoder, settings).tokenizer)


def truncation_note(part: CaptionSet, encoder: str, settings: Settings) -> dict[str, list[str]]:
    """A note of the captions with a sentence that was truncated because it is too long for the encoder."""
    pieces: PieceTable = part.pool.analyse(WordPieces(encoder, settings))
    if not pieces.truncated.any():
        return {}
    long = pieces.truncated[part.candidates].copy()
    np.logical_or.at(long, part.references.rows, pieces.truncated[part.references.values])
    return {"cut": [part.ids[row] for row in np.flatnonzero(long).tolist()]}


def encoder_facts(encoder: str, layer: int, settings: Settings) -> dict[str, str]:
    """Everything about the encoder that affects scores, for signatures."""
    facts = {"weights": find_encoder(encoder).sha256[:12], "layer": str(layer), "software": software(encoder)}
    return facts | {"precision": settings.precision}
