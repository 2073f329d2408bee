"""Analyses a sentence pool memoises: word pieces (kept for the whole run) and hidden states (a chunk's at a time)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from capmeter.encoders.encoder import load_encoder
from capmeter.encoders.pieces import PieceTable

_SENTENCES_AT_ONCE = 4096


class Pool(Protocol):
    """Distinct sentences with memoised analyses (capmeter.captions.model.SentencePool)."""

    @property
    def sentences(self) -> Sequence[str]:
        """The sentences."""

    def analyse(self, analysis: Any) -> Any:
        """The table of an analysis, row i for sentence i."""


@dataclass(frozen=True)
class WordPieces:
    """Word-piece ids of every sentence: a PieceTable."""

    encoder: str = "minilm"
    compact = True

    def run(self, pool: Pool) -> PieceTable:
        """The table for all sentences of the pool."""
        return load_encoder(self.encoder).pieces(pool.sentences)


@dataclass(frozen=True, eq=False)
class StateTable:
    """Hidden states of n sentences: states float32[total pieces, width], laid out as pieces.ids is."""

    pieces: PieceTable
    states: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.pieces)

    def __getitem__(self, row: int) -> NDArray[np.float32]:
        return self.states[self.pieces.offsets[row] : self.pieces.offsets[row + 1]]


@dataclass(frozen=True)
class HiddenStates:
    """Hidden states of one layer for every sentence, each encoded once; of unit length per word piece if `unit`."""

    encoder: str = "minilm"
    layer: int = 6
    unit: bool = True
    compact = False

    def run(self, pool: Pool) -> StateTable:
        """The table for all sentences of the pool."""
        pieces: PieceTable = pool.analyse(WordPieces(self.encoder))
        states = load_encoder(self.encoder).hidden_states(pieces, self.layer)
        if self.unit:
            states /= np.maximum(np.linalg.norm(states, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return StateTable(pieces, states)


@dataclass(frozen=True)
class SentenceVectors:
    """One unit vector per sentence, float32[n, width]: the mean of its word pieces' states, begin and end included.

    This is how sentence-transformers models, `minilm` among them, make theirs.
    """

    encoder: str = "minilm"
    layer: int = 6
    compact = False

    def run(self, pool: Pool) -> NDArray[np.float32]:
        """The vectors of all sentences of the pool; no more than some thousand sentences' states at a time."""
        pieces: PieceTable = pool.analyse(WordPieces(self.encoder))
        encoder = load_encoder(self.encoder)
        vectors = np.empty((len(pieces), encoder.width), np.float32)
        for start in range(0, len(pieces), _SENTENCES_AT_ONCE):
            rows = np.arange(start, min(start + _SENTENCES_AT_ONCE, len(pieces)))
            part = pieces.take(rows)
            sums = np.add.reduceat(encoder.hidden_states(part, self.layer), part.offsets[:-1], axis=0)
            vectors[rows] = sums / part.lengths[:, None]
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return vectors
