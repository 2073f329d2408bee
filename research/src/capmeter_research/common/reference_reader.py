"""An encoder that reads a candidate together with its references, which each layer attends to.

    A = softmax([Q Kᵀ / √d + R,  Q K_rᵀ / √d + c]),   y = norm(x + A [V, V_r] W + b)

in every layer of a BERT (`bert.py`): K_r and V_r are the keys and values of all word pieces of the references in that
layer, c is a learned number of each layer and head. References are read separately, so that their keys and values serve
all candidates. With s the sum of a candidate's states in the last layer, and r the mean direction of the references':

    logit = slope · cos(s, r) + w · norm(s) + offset

norm is a layer norm without weights. A checkpoint of the kind `encoder` (`layers.py`) with the arrays of
`ReaderWeights` reads like this; `capmeter train text-encoder --reads-references` makes one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError
from capmeter.core.progress import task
from capmeter.core.ragged import Ragged, gather, row_offsets
from capmeter.core.settings import Settings
from capmeter.encoders.handle import EncoderHandle
from capmeter.encoders.text.bert import Bert
from capmeter.encoders.text.encoder import load_encoder, load_errors
from capmeter.encoders.text.layers import TransformerLayer, attention_inputs, check_shapes, finish_layer
from capmeter.encoders.text.tokenizer import PieceTable

if TYPE_CHECKING:
    from torch import Tensor

Rows = NDArray[np.int64]
PREFIX = "reader."
"""Prefix of the arrays of `ReaderWeights` in a checkpoint."""
_BLOCK_PIECES = 8192  # word pieces of distinct references whose states are in memory together
_CONTEXT_PIECES = 1 << 15  # word pieces of references that candidates of one length attend to together
_BLOCK_CAPTIONS = 1024


@dataclass(frozen=True, eq=False)
class ReaderWeights:
    """What a reader has beside the layers of its encoder.

    Attributes:
        attention: c, (layers, heads).
        direction: w, (width,).
        logistic: slope and offset, (2,).
    """

    attention: Tensor
    direction: Tensor
    logistic: Tensor

    @classmethod
    def from_weights(cls, weights: Mapping[str, NDArray[Any]], bert: Bert, device: str) -> ReaderWeights:
        """Those of a checkpoint.

        Args:
            weights: of the checkpoint.
            bert: the encoder.
            device: a torch device's name.

        Raises:
            ValueError: an array is missing, unknown or of another shape.
        """
        import torch

        shapes = {"attention": (bert.layers, bert.heads), "direction": (bert.width,), "logistic": (2,)}
        own = {name.removeprefix(PREFIX): array for name, array in weights.items() if name.startswith(PREFIX)}
        check_shapes(shapes, own)
        return cls(*(torch.from_numpy(np.asarray(own[name], np.float32)).to(device) for name in shapes))


@dataclass(frozen=True, eq=False)
class ReferenceReader:
    """A BERT that reads candidates together with their references.

    Attributes:
        bert: the encoder.
        stack: its layers, adapted.
        weights: of the reader.
        device: a torch device.
        dropout: in training.
    """

    bert: Bert
    stack: Sequence[TransformerLayer]
    weights: ReaderWeights
    device: str
    dropout: float = 0.0

    def score(self, pieces: PieceTable, candidates: Rows, references: Ragged) -> NDArray[np.float32]:
        """The logit of each caption, (captions,), in blocks of bounded memory.

        Args:
            pieces: the word pieces of all sentences.
            candidates: (captions,), rows of `pieces`.
            references: rows of `pieces`, at least one of each caption.
        """
        import torch

        logits = np.zeros(len(candidates), np.float32)
        with task("reading captions with their references", total=len(candidates)) as advance:
            for rows in caption_blocks(pieces.lengths, references):
                with torch.inference_mode():
                    block_logits = self.read(pieces, candidates[rows], references.take(rows))
                logits[rows] = block_logits.float().cpu().numpy()
                advance(len(rows))
        return logits

    def read(self, pieces: PieceTable, candidates: Rows, references: Ragged) -> Tensor:
        """The logits, (captions,), of captions whose references are in memory together; see `score`.

        Args:
            pieces: of all sentences.
            candidates: of each caption, as an index of a sentence.
            references: of each caption, as indices of sentences.
        """
        cosines, projections = self._read_terms(pieces, candidates, references)
        slope, offset = self.weights.logistic
        logits: Tensor = slope * cosines + projections + offset
        return logits

    def _read_terms(self, pieces: PieceTable, candidates: Rows, references: Ragged) -> tuple[Tensor, Tensor]:
        """cos(s, r) and w · norm(s), (captions,) each."""
        import torch
        from torch.nn.functional import layer_norm, normalize

        sentences, sentence_rows = np.unique(references.values, return_inverse=True)
        reference_groups = list(self._groups(pieces, sentences, len(sentences)))
        read_order = np.concatenate([group.rows for group in reference_groups])
        context = self._context(pieces.lengths[sentences], read_order, sentence_rows, references.offsets)
        rows_at_once = max(1, _CONTEXT_PIECES // max(1, context.shape[1]))
        candidate_groups = list(self._groups(pieces, candidates, rows_at_once))
        for number, layer in enumerate(self.stack):
            self._apply(layer, self.weights.attention[number], reference_groups, candidate_groups, context)

        vectors = torch.cat([normalize(group.sums(), dim=1) for group in reference_groups])
        vectors = vectors[self._tensor(np.argsort(read_order)[sentence_rows])]
        centroids = vectors.new_zeros(len(references), self.bert.width)
        centroids = normalize(centroids.index_add(0, self._tensor(references.rows), vectors), dim=1)
        cosines, projections = [], []
        for group in candidate_groups:
            sums = group.sums()
            cosines.append((normalize(sums, dim=1) * centroids[self._tensor(group.rows)]).sum(1))
            projections.append(layer_norm(sums / group.length, sums.shape[1:]) @ self.weights.direction)
        caption_order = self._tensor(np.argsort(np.concatenate([group.rows for group in candidate_groups])))
        return torch.cat(cosines)[caption_order], torch.cat(projections)[caption_order]

    def _apply(
        self,
        layer: TransformerLayer,
        bias: Tensor,
        references: Sequence[_Group],
        candidates: Sequence[_Group],
        context: Tensor,
    ) -> None:
        """A layer on the states of all groups: the candidates' attend to the references', by rows of these.

        Args:
            layer: the layer.
            bias: c of the layer, (heads,).
            references, candidates: the groups, whose states are replaced.
            context: see `_context`.
        """
        import torch

        epsilon, dropout = self.bert.epsilon, self.dropout
        key_parts, value_parts = [], []
        for group in references:
            queries, keys, values = attention_inputs(layer, group.states, group.shape)
            key_parts.append(keys.transpose(1, 2).flatten(0, 1))
            value_parts.append(values.transpose(1, 2).flatten(0, 1))
            attention = group.logits(queries, keys).softmax(dim=-1)
            group.states = finish_layer(layer, group.states, attention, values, epsilon, dropout)
        all_keys, all_values = (torch.cat([*each, torch.zeros_like(each[0][:1])]) for each in (key_parts, value_parts))
        for group in candidates:
            queries, keys, values = attention_inputs(layer, group.states, group.shape)
            logits, positions = group.logits(queries, keys), context[self._tensor(group.rows)]
            context_keys, context_values = (each[positions].transpose(1, 2) for each in (all_keys, all_values))
            context_logits = queries @ context_keys.transpose(2, 3) + bias.to(keys.dtype)[:, None, None]
            is_padding = (positions >= len(all_keys) - 1)[:, None, None, :]
            context_logits = context_logits.masked_fill(is_padding, torch.finfo(logits.dtype).min)
            attention = torch.cat([logits, context_logits], dim=3).softmax(dim=-1)
            attended = torch.cat([values, context_values], dim=2)
            group.states = finish_layer(layer, group.states, attention, attended, epsilon, dropout)

    def _groups(self, pieces: PieceTable, sentences: Rows, most: int) -> Iterator[_Group]:
        """Sentences of one length at a time, no more than `most`, before the first layer."""
        lengths = pieces.lengths[sentences]
        for length in np.unique(lengths).tolist():
            same_length = np.flatnonzero(lengths == length)
            for rows in np.split(same_length, range(most, len(same_length), most)):
                ids = self._tensor(pieces.take(sentences[rows]).ids.astype(np.int64).reshape(len(rows), length))
                states = self.bert.embed(ids).view(-1, self.bert.width)
                yield _Group(rows, states, (len(rows), self.bert.heads), self.bert.attention_bias(length))

    def _context(self, lengths: Rows, read_order: Rows, sentence_rows: Rows, caption_offsets: Rows) -> Tensor:
        """For each caption the word pieces of its references, as rows of all pieces in the order of reading.

        Args:
            lengths: pieces of each distinct reference.
            read_order: the distinct references, in the order of reading.
            sentence_rows: the distinct reference of each of the captions' references.
            caption_offsets: where each caption's references begin, (captions + 1,).

        Returns:
            int64 (captions, most pieces); the number of all pieces is padding.
        """
        offsets = row_offsets(lengths[read_order])
        positions, piece_offsets = gather(offsets, np.argsort(read_order)[sentence_rows])
        return self._tensor(_pad(positions, piece_offsets[caption_offsets], padding=int(offsets[-1])))

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        import torch

        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


@dataclass(eq=False)
class _Group:
    """Sentences of one length on their way through the layers.

    Attributes:
        rows: which sentences these are, (n,).
        states: (n · length, width).
        shape: n, and the number of heads.
        bias: of attention, (heads, length, length), if the encoder has one.
    """

    rows: Rows
    states: Tensor
    shape: tuple[int, int]
    bias: Tensor | None

    @property
    def length(self) -> int:
        """Word pieces of each sentence."""
        return len(self.states) // len(self.rows)

    def logits(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The logits of each piece's attention to those of its sentence, (n, heads, length, length)."""
        logits: Tensor = queries @ keys.transpose(2, 3)
        return logits if self.bias is None else logits + self.bias

    def sums(self) -> Tensor:
        """The sum of each sentence's states, (n, width)."""
        sums: Tensor = self.states.float().view(len(self.rows), self.length, -1).sum(1)
        return sums


def load_reader(handle: EncoderHandle, settings: Settings) -> ReferenceReader:
    """The reader of an adapted encoder.

    Raises:
        AssetError: it was not trained to read references.
    """
    encoder = load_encoder(handle, settings)
    weights = _stored_arrays(handle.adapters[-1].folder, handle.adapters[-1].sha256) if handle.adapters else {}
    if not isinstance(encoder.model, Bert) or not weights:
        raise AssetError(
            f"encoder {handle.name!r} does not read references; train one that does: capmeter train text-encoder "
            "--reads-references"
        )
    with load_errors(handle):
        reader_weights = ReaderWeights.from_weights(weights, encoder.model, encoder.device)
    return ReferenceReader(encoder.model, encoder.model.stack, reader_weights, encoder.device)


@lru_cache(maxsize=4)
def _stored_arrays(folder: Path, sha256: str) -> dict[str, NDArray[Any]]:
    """The arrays of a reader in the checkpoint with this hash, read once; none where it has no reader."""
    weights = Checkpoint.read(folder).weights
    return {name: array for name, array in weights.items() if name.startswith(PREFIX)}


def caption_blocks(lengths: Rows, references: Ragged) -> Iterator[Rows]:
    """Rows of captions whose references have a bounded number of word pieces; captions of the same references together.

    Args:
        lengths: word pieces of each sentence, (sentences,).
        references: of each caption, as sentences.

    >>> references = Ragged.from_rows([[0, 1], [0, 1], [2]], np.int64)
    >>> [rows.tolist() for rows in caption_blocks(np.array([5000, 3000, 500]), references)]
    [[0, 1], [2]]
    """
    rows: list[int] = []
    block_sentences: set[int] = set()
    piece_count = 0
    for row in range(len(references)):
        new_sentences = set(references[row].tolist()) - block_sentences
        new_pieces = int(lengths[list(new_sentences)].sum())
        if rows and (piece_count + new_pieces > _BLOCK_PIECES or len(rows) == _BLOCK_CAPTIONS):
            yield np.array(rows)
            rows, block_sentences, piece_count = [], set(), 0
            new_sentences = set(references[row].tolist())
            new_pieces = int(lengths[list(new_sentences)].sum())
        rows.append(row)
        block_sentences |= new_sentences
        piece_count += new_pieces
    if rows:
        yield np.array(rows)


def _pad(values: Rows, offsets: Rows, padding: int) -> Rows:
    """Rows of different lengths, which begin at the offsets, beside each other.

    >>> _pad(np.array([7, 8, 9, 4]), np.array([0, 3, 4]), padding=99).tolist()
    [[7, 8, 9], [4, 99, 99]]
    """
    counts = np.diff(offsets)
    is_value = np.arange(int(counts.max(initial=0))) < counts[:, None]
    padded = np.full(is_value.shape, padding, np.int64)
    padded[is_value] = values
    return padded
