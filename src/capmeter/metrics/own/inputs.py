"""The inputs of the networks of `capmeter`: word pieces of candidates and references, and cosines of sentence vectors.

Final punctuation is stripped: it says nothing about the picture.

>>> strip_final_punctuation("  Two dogs run. "), strip_final_punctuation("?")
('Two dogs run', '?')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import SentencePool
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import EncoderHandle, HiddenStates, PieceTable, SentenceVectors, StateTable, load_encoder
from capmeter.metrics.embedding.word_pieces import Pieces, caption_blocks
from capmeter.metrics.own.token_priors import PieceFeatures

if TYPE_CHECKING:
    from capmeter.metrics.own.network import PieceBatch


Block = tuple[NDArray[np.int64], Pieces, Pieces, NDArray[np.float32]]
"""Rows, candidates, references without begin and end, similarities."""
BLOCK_FLOATS = 1 << 22
"""Size of a block's references: what is computed from them stays in a processor's cache."""
_FINAL = ".!?… "


def strip_final_punctuation(sentence: str) -> str:
    """The sentence with single spaces and without final punctuation, unless it is nothing else."""
    text = " ".join(sentence.split())
    return text.rstrip(_FINAL) or text


def centroid_cosines(
    vectors: NDArray[np.float32], candidates: NDArray[np.int64], references: Ragged
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The cosine of each candidate with the mean of its references' unit vectors, and the length of that mean, (n,)."""
    reference_counts = references.lengths.astype(np.float32)
    centroid = np.add.reduceat(vectors[references.values], references.offsets[:-1], axis=0) / reference_counts[:, None]
    centroid_norms = np.linalg.norm(centroid, axis=1)
    return np.einsum("nd,nd->n", vectors[candidates], centroid) / np.maximum(centroid_norms, 1e-6), centroid_norms


@dataclass(frozen=True, eq=False)
class SentenceEncodings:
    """Word-piece states of some sentences, and their unit vectors (sentences, width).

    larger_pieces: the word pieces of a larger encoder, if there is one.
    """

    table: StateTable
    vectors: NDArray[np.float32]
    larger_pieces: PieceTable | None = None

    @classmethod
    def of(
        cls,
        sentences: Sequence[str],
        encoder: EncoderHandle,
        layer: int,
        settings: Settings,
        larger: EncoderHandle | None = None,
    ) -> SentenceEncodings:
        """The encodings of these sentences by a layer of an encoder, and the word pieces of a larger one."""
        pool = SentencePool(tuple(sentences))
        return cls(
            pool.analyse(HiddenStates(encoder, layer, settings)),
            pool.analyse(SentenceVectors(encoder, layer, settings)),
            None if larger is None else load_encoder(larger, settings).pieces(pool.sentences),
        )

    def similarities(self, candidates: NDArray[np.int64], references: Ragged) -> NDArray[np.float32]:
        """g, (n, 4): the largest and the mean cosine with a reference, the cosine with the references' mean vector, and
        the length of that mean, which is large if references agree.
        """
        reference_starts = references.offsets[:-1]
        reference_vectors = self.vectors[references.values]
        reference_cosines = np.einsum("nd,nd->n", self.vectors[candidates][references.rows], reference_vectors)
        to_centroid, centroid_norms = centroid_cosines(self.vectors, candidates, references)
        mean_cosine = np.add.reduceat(reference_cosines, reference_starts) / references.lengths.astype(np.float32)
        return np.stack(
            [np.maximum.reduceat(reference_cosines, reference_starts), mean_cosine, to_centroid, centroid_norms], axis=1
        ).astype(np.float32)

    def blocks(self, candidates: NDArray[np.int64], references: Ragged) -> Iterator[Block]:
        """Captions in blocks of bounded memory; candidates and references as indices of the sentences."""
        similarities = self.similarities(candidates, references)
        for rows, pieces, reference_pieces in piece_blocks(candidates, self.table, references):
            yield rows, pieces, reference_pieces, similarities[rows]


def piece_blocks(
    candidates: NDArray[np.int64], table: StateTable, references: Ragged
) -> Iterator[tuple[NDArray[np.int64], Pieces, Pieces]]:
    """Captions in blocks of bounded memory: rows, candidates, references without begin and end."""
    return caption_blocks(candidates, table, references, ends=False, floats=BLOCK_FLOATS)


def piece_batch(pieces: Pieces, features: PieceFeatures, device: str = "cpu") -> PieceBatch:
    """The pieces as tensors for the networks."""
    import torch

    from capmeter.metrics.own.network import PieceBatch

    static, noun_shares, associations, signs = features.on(device)
    sentence_spans = _positions(np.where(pieces.word_mask, pieces.sentence, -1))
    piece_arrays = pieces.states, pieces.ids.astype(np.int64), pieces.word_mask, sentence_spans
    states, ids, mask, positions = (torch.from_numpy(array).to(device) for array in piece_arrays)
    return PieceBatch(
        states,
        ids,
        mask,
        positions,
        static[ids] * mask[:, :, None],
        associations[ids] * mask[:, :, None],
        signs,
        noun_shares[ids] * mask,
    )


def _positions(sentence: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the pieces of each sentence of a row are, (n, sentences, longest): shorter ones are filled up with their
    first, those without pieces with -1.

    >>> _positions(np.array([[0, 0, 2, -1]])).tolist()
    [[[0, 1], [-1, -1], [2, 2]]]
    """
    piece_rows, piece_columns = np.nonzero(sentence >= 0)
    sentence_count = int(sentence.max(initial=0)) + 1
    sentence_indices = piece_rows * sentence_count + sentence[piece_rows, piece_columns]
    piece_counts = np.bincount(sentence_indices, minlength=len(sentence) * sentence_count)
    sentence_starts = np.cumsum(piece_counts) - piece_counts
    within_sentence = np.arange(len(sentence_indices)) - sentence_starts[sentence_indices]
    positions = np.full((len(piece_counts), int(piece_counts.max(initial=1))), -1, np.int64)
    positions[piece_counts > 0] = piece_columns[sentence_starts[piece_counts > 0]][:, None]
    positions[sentence_indices, within_sentence] = piece_columns
    return positions.reshape(len(sentence), sentence_count, -1)
