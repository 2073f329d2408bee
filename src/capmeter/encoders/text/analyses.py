"""Analyses that a sentence pool memoises: word pieces (for the whole run) and hidden states (one part at a time).

Each carries the settings it runs with, so that a pool keeps results computed in different precisions apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from capmeter.core.settings import Settings
from capmeter.encoders.handle import EncoderHandle
from capmeter.encoders.pieces import PieceTable
from capmeter.encoders.text.encoder import load_encoder

_TINY = np.finfo(np.float32).tiny


class MemoisingPool(Protocol):
    """Distinct sentences with memoised analyses (capmeter.captions.caption_set.SentencePool)."""

    @property
    def sentences(self) -> Sequence[str]:
        """The sentences."""

    def analyse(self, analysis: Any) -> Any:
        """The table of an analysis, row i for sentence i."""


@dataclass(frozen=True)
class WordPieces:
    """Word-piece ids of every sentence: a PieceTable."""

    encoder: EncoderHandle
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: MemoisingPool) -> PieceTable:
        """The table for all sentences of the pool."""
        return load_encoder(self.encoder, self.settings).pieces(pool.sentences)


@dataclass(frozen=True, eq=False)
class StateTable:
    """Hidden states of n sentences: states [total pieces, width], float32 or float16, laid out like pieces.ids."""

    pieces: PieceTable
    states: NDArray[Any]

    def __len__(self) -> int:
        return len(self.pieces)

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.states[self.pieces.offsets[row] : self.pieces.offsets[row + 1]]

    def unit(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """The states at these flat positions, normalised to unit length; 0 where a position is -1."""
        unit_states: NDArray[np.float32] = self.states.take(positions, axis=0).astype(np.float32, copy=False)
        unit_states *= np.where(positions >= 0, self._scale[positions], np.float32(0))[..., None]
        return unit_states

    @cached_property
    def _scale(self) -> NDArray[np.float32]:
        """The reciprocal of each state's length."""
        state_lengths = np.sqrt(np.einsum("td,td->t", self.states, self.states, dtype=np.float32))
        state_scale: NDArray[np.float32] = 1 / np.maximum(state_lengths, _TINY)
        return state_scale

    def unit_row(self, row: int) -> NDArray[np.float32]:
        """One sentence's states, normalised to unit length."""
        return self.unit(np.arange(self.pieces.offsets[row], self.pieces.offsets[row + 1]))


@dataclass(frozen=True)
class HiddenStates:
    """Hidden states of one layer for every sentence, each encoded once: a StateTable."""

    encoder: EncoderHandle
    layer: int
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: MemoisingPool) -> StateTable:
        """The table for all sentences of the pool."""
        pieces: PieceTable = pool.analyse(WordPieces(self.encoder, self.settings))
        return StateTable(pieces, load_encoder(self.encoder, self.settings).hidden_states(pieces, self.layer))


@dataclass(frozen=True)
class SentenceVectors:
    """One unit vector per sentence, float32[n, width]: the mean of its word pieces' states, begin and end included.

    This is how sentence-transformers models, including `minilm`, compute sentence vectors.
    """

    encoder: EncoderHandle
    layer: int
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: MemoisingPool) -> NDArray[np.float32]:
        """The vectors of all sentences of the pool."""
        import torch
        from torch.nn.functional import embedding_bag  # thirty times as fast as numpy's sums of unequal groups

        state_table: StateTable = pool.analyse(HiddenStates(self.encoder, self.layer, self.settings))
        if not len(state_table):
            return np.zeros((0, state_table.states.shape[1]), np.float32)
        state_tensor, starts = torch.from_numpy(state_table.states), torch.from_numpy(state_table.pieces.offsets[:-1])
        mean_states = embedding_bag(torch.arange(len(state_tensor)), state_tensor, starts, mode="mean").numpy()
        unit_vectors = mean_states / np.maximum(np.linalg.norm(mean_states, axis=1, keepdims=True), _TINY)
        vectors: NDArray[np.float32] = unit_vectors.astype(np.float32)
        return vectors
