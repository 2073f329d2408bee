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
from capmeter.encoders import HiddenStates, SentenceVectors, StateTable
from capmeter.metrics.word_pieces import Pieces, blocks
from capmeter.ragged import Ragged
from capmeter.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from capmeter.metrics.capmeter.network import Side

Block = tuple[NDArray[np.int64], Pieces, Pieces, NDArray[np.float32]]
"""Rows, candidates, references without begin and end, similarities."""
_FINAL = ".!?… "
_BLOCK_FLOATS = 1 << 22  # of the references in a block: what is made of them stays in a processor's cache


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

    def batches(self, candidates: NDArray[np.int64], references: Ragged) -> Iterator[Block]:
        """Captions in blocks of bounded memory."""
        similar = self.similar(candidates, references)
        for rows, mine, theirs in read_blocks(candidates, self.table, references):
            yield rows, mine, theirs, similar[rows]


def read_blocks(
    candidates: NDArray[np.int64], table: StateTable, references: Ragged
) -> Iterator[tuple[NDArray[np.int64], Pieces, Pieces]]:
    """Captions in blocks of bounded memory: rows, candidates, references without begin and end."""
    return blocks(candidates, table, references, ends=False, floats=_BLOCK_FLOATS)


@dataclass(frozen=True, eq=False)
class Words:
    """What word pieces mean alone, and how much they name things (`lexicon.py`): float32[V, directions], float32[V];
    with what else they are said of a photo (`associations.py`): float32[V, directions] and float32[directions].
    """

    vectors: NDArray[np.float32]
    things: NDArray[np.float32]
    associated: NDArray[np.float32]
    signs: NDArray[np.float32]


def side(pieces: Pieces, words: Words, device: str = "cpu") -> Side:
    """The pieces as the network reads them."""
    import torch

    from capmeter.metrics.capmeter.network import Side

    owner = np.where(pieces.word, pieces.owner, -1)
    each = pieces.word[:, :, None]
    alone, associated = words.vectors[pieces.ids] * each, words.associated[pieces.ids] * each
    things = words.things[pieces.ids] * pieces.word
    ids = pieces.ids.astype(np.int64)
    arrays = pieces.states, ids, pieces.word, _places(owner), alone, associated, words.signs, things
    return Side(*(torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in arrays))


def _places(owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the pieces of each sentence of a row are: int64[n, sentences, longest], its first one again where it has
    fewer; -1 where a sentence has none.

    >>> _places(np.array([[0, 0, 2, -1]])).tolist()
    [[[0, 1], [-1, -1], [2, 2]]]
    """
    row, column = np.nonzero(owner >= 0)
    sentences = int(owner.max(initial=0)) + 1
    of = row * sentences + owner[row, column]
    counts = np.bincount(of, minlength=len(owner) * sentences)
    first = np.cumsum(counts) - counts
    within = np.arange(len(of)) - first[of]
    places = np.full((len(counts), int(counts.max(initial=1))), -1, np.int64)
    places[counts > 0] = column[first[counts > 0]][:, None]
    places[of, within] = column
    return places.reshape(len(owner), sentences, -1)
