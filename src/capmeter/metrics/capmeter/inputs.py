"""What the network of the metric `capmeter` is given: word pieces of both sides, and cosines of sentence vectors.

Sentences are read without their final punctuation, which says nothing of the picture.

>>> plain("  Two dogs run. "), plain("?")
('Two dogs run', '?')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.model import SentencePool
from capmeter.encoders import Encoder, HiddenStates, SentenceVectors, StateTable
from capmeter.metrics.capmeter.lexicon import Lexicon
from capmeter.metrics.word_pieces import Pieces, blocks
from capmeter.ragged import Ragged
from capmeter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from capmeter.metrics.capmeter.network import Side

_FINAL = ".!?… "


def plain(sentence: str) -> str:
    """The sentence with single spaces and without its final punctuation, unless it is nothing else."""
    text = " ".join(sentence.split())
    return text.rstrip(_FINAL) or text


@dataclass(frozen=True, eq=False)
class Encoded:
    """The word pieces' states and the vectors of some sentences."""

    table: StateTable
    vectors: NDArray[np.float32]

    @classmethod
    def of(cls, sentences: Sequence[str], encoder: str, layer: int, settings: Settings) -> Encoded:
        """The states of these sentences."""
        pool = SentencePool(tuple(sentences))
        return cls(
            pool.analyse(HiddenStates(encoder, layer, settings)),
            pool.analyse(SentenceVectors(encoder, layer, settings)),
        )

    def similar(self, candidates: NDArray[np.int64], references: Ragged) -> NDArray[np.float32]:
        """float32[n, 4]: the largest and the mean cosine with a reference, the cosine with the references' mean, and
        the length of that mean, which is large where references are alike.
        """
        starts = references.offsets[:-1]
        theirs = self.vectors[references.values]
        cosine = np.einsum("nd,nd->n", self.vectors[candidates][references.rows], theirs)
        number = references.lengths.astype(np.float32)
        centre = np.add.reduceat(theirs, starts, axis=0) / number[:, None]
        length = np.linalg.norm(centre, axis=1)
        toward = np.einsum("nd,nd->n", self.vectors[candidates], centre) / np.maximum(length, 1e-6)
        mean = np.add.reduceat(cosine, starts) / number
        return np.stack([np.maximum.reduceat(cosine, starts), mean, toward, length], axis=1).astype(np.float32)

    def batches(
        self, candidates: NDArray[np.int64], references: Ragged
    ) -> Iterator[tuple[NDArray[np.int64], Pieces, Pieces, NDArray[np.float32]]]:
        """Captions in blocks of bounded memory: (rows, candidates, references, similarities)."""
        similar = self.similar(candidates, references)
        for rows, mine, theirs in blocks(candidates, self.table, references):
            yield rows, mine, theirs, similar[rows]


@dataclass(frozen=True, eq=False)
class Words:
    """What word pieces mean alone, and how much they name things (`lexicon.py`): float32[V, directions], float32[V]."""

    vectors: NDArray[np.float32]
    things: NDArray[np.float32]

    @classmethod
    def of(cls, lexicon: Lexicon, encoder: Encoder) -> Words:
        """Those of an encoder's word pieces."""
        return cls(lexicon.vectors(encoder.embeddings()), lexicon.things)


def side(pieces: Pieces, words: Words, device: str = "cpu") -> Side:
    """The pieces as the network reads them."""
    import torch

    from capmeter.metrics.capmeter.network import Side

    owner = np.where(pieces.word, pieces.owner, -1)
    meant = words.vectors[pieces.ids] * pieces.word[:, :, None]
    things = words.things[pieces.ids] * pieces.word
    arrays = pieces.states, pieces.ids.astype(np.int64), owner, meant, things
    return Side(*(torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in arrays))
