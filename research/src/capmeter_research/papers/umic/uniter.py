"""UNITER (Chen et al. 2020): one BERT over a caption's word pieces and a picture's regions, on published weights.

    word   = norm(E_word + E_position + E_type0)
    region = norm(norm(W f + b) + norm(W p + b) + E_type1)       f: features, p: box (x1, y1, x2, y2, w, h, w·h)
    x      = [words, regions] through BERT's layers,   pooled = tanh(W x_[CLS] + b)

The heads on top: `rank_output` (1 number, UMIC's) and `itm_output` (2 numbers: no match, match). A caption's words are
followed directly by its regions, and padding, if any, is masked, so that a pair's output does not depend on the rest of
its batch.

Chen, Li, Yu, El Kholy, Ahmed, Gan, Cheng, Liu: UNITER: UNiversal Image-TExt Representation Learning. ECCV 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from capmeter.encoders.text.layers import TransformerLayer, linear_of, transformer_layer

if TYPE_CHECKING:
    from torch import Tensor

KIND = "uniter"
"""The kind of its checkpoints (`capmeter.core.checkpoints`)."""
HEADS = {"itm_output": 2, "rank_output": 1}
"""The heads for scoring, and the number of values that each gives."""
EPSILON = 1e-12
BOX = 7  # x1, y1, x2, y2, width, height, area, relative to the picture
_WORDS, _PLACES, _TYPES = (f"uniter.embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type"))
_REGIONS = "uniter.img_embeddings."


@dataclass(frozen=True)
class UniterShape:
    """The sizes of a UNITER: word pieces, width, layers, heads, inner width, positions, and features per region."""

    vocabulary: int = 28996
    width: int = 768
    layers: int = 12
    heads: int = 12
    inner: int = 3072
    positions: int = 512
    features: int = 2048

    def to_dict(self) -> dict[str, int]:
        """The sizes by name."""
        return asdict(self)

    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight of the body, by name."""
        return dict(_shapes(self))


def norm_shapes(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The shapes of a norm's weight and bias."""
    yield from ((f"{name}.{part}", (width,)) for part in ("weight", "bias"))


def linear_shapes(name: str, out: int, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names and shapes of a linear layer's weight and bias.

    Args:
        name: of the layer.
        out, width: of outputs and inputs.
    """
    yield from ((f"{name}.weight", (out, width)), (f"{name}.bias", (out,)))


def head_shapes(shape: UniterShape, head: str) -> dict[str, tuple[int, ...]]:
    """The shapes of a head's weight and bias."""
    return dict(linear_shapes(head, HEADS[head], shape.width))


def _shapes(s: UniterShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from ((_WORDS, (s.vocabulary, s.width)), (_PLACES, (s.positions, s.width)), (_TYPES, (2, s.width)))
    yield from norm_shapes("uniter.embeddings.LayerNorm", s.width)
    yield from linear_shapes(f"{_REGIONS}img_linear", s.width, s.features)
    yield from linear_shapes(f"{_REGIONS}pos_linear", s.width, BOX)
    yield f"{_REGIONS}mask_embedding.weight", (2, s.features)
    for norm_name in ("img_layer_norm", "pos_layer_norm", "LayerNorm"):
        yield from norm_shapes(_REGIONS + norm_name, s.width)
    for layer_number in range(s.layers):
        layer_prefix = f"uniter.encoder.layer.{layer_number}."
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            yield from linear_shapes(f"{layer_prefix}attention.{part}", s.width, s.width)
        yield from norm_shapes(f"{layer_prefix}attention.output.LayerNorm", s.width)
        yield from linear_shapes(f"{layer_prefix}intermediate.dense", s.inner, s.width)
        yield from linear_shapes(f"{layer_prefix}output.dense", s.width, s.inner)
        yield from norm_shapes(f"{layer_prefix}output.LayerNorm", s.width)
    yield from linear_shapes("uniter.pooler.dense", s.width, s.width)


@dataclass(frozen=True, eq=False)
class PairLayout:
    """Where words and regions of a batch of pairs are: `index` [b, t] into [all words, all regions], and the mask.

    places: int64[words], each word's position in its caption. mask: bool[b, t], false at padding; None without any.
    """

    index: NDArray[np.int64]
    places: NDArray[np.int64]
    mask: NDArray[np.bool_] | None

    @classmethod
    def from_lengths(
        cls, words: NDArray[np.int64], regions: NDArray[np.int64], first: NDArray[np.int64] | None = None
    ) -> PairLayout:
        """The layout of pairs; padding repeats the first word.

        Args:
            words, regions: number of each pair, (pairs,).
            first: where each pair's regions begin in the table of regions, (pairs,); None: after those of the pair
                before. Pairs of one picture may share its regions.
        """
        pair_lengths = words + regions
        word_starts = np.cumsum(words) - words
        if first is None:
            first = np.cumsum(regions) - regions
        place = np.arange(int(pair_lengths.max(initial=0)))[None, :]
        in_words = place < words[:, None]
        index = np.where(in_words, word_starts[:, None] + place, words.sum() + first[:, None] + place - words[:, None])
        token_mask = place < pair_lengths[:, None]
        word_places = np.arange(words.sum()) - np.repeat(word_starts, words)
        return cls(np.where(token_mask, index, 0), word_places, None if token_mask.all() else token_mask)


class Uniter:
    """A UNITER on given weights, which may be parameters in training.

    weights: tensors by their published names, of the body and any heads. dropout: in training, after the embeddings, of
    attention, and in every layer.
    """

    def __init__(self, weights: Mapping[str, Tensor], shape: UniterShape, dropout: float = 0.0) -> None:
        self.shape, self.dropout = shape, dropout
        self.weights = weights
        self._stack = [
            TransformerLayer.from_weights(weights, f"uniter.encoder.layer.{layer_number}.", shape.heads)
            for layer_number in range(shape.layers)
        ]

    def words(self, ids: Tensor, places: Tensor) -> Tensor:
        """The embeddings [n, width] of word pieces at these positions of their captions."""
        weights = self.weights
        return self._embedded(
            weights[_WORDS][ids] + weights[_PLACES][places] + weights[_TYPES][0], "uniter.embeddings."
        )

    def regions(self, features: Tensor, boxes: Tensor) -> Tensor:
        """The embeddings [n, width] of regions with features [n, features] and boxes [n, 7]."""
        from torch.nn.functional import linear

        seen = self._normed(linear(features, *linear_of(self.weights, f"{_REGIONS}img_linear")), "img_layer_norm")
        placed = self._normed(linear(boxes, *linear_of(self.weights, f"{_REGIONS}pos_linear")), "pos_layer_norm")
        return self._embedded(seen + placed + self.weights[_TYPES][1], _REGIONS)

    def states(
        self, words: Tensor, regions: Tensor, index: Tensor, mask: Tensor | None, maps: list[Tensor] | None = None
    ) -> Tensor:
        """The last hidden states of pairs, (pairs, length, width).

        Args:
            words: embedded word pieces of all pairs, (words, width).
            regions: embedded regions, (regions, width).
            index, mask: of the pairs' `PairLayout`.
            maps: a list to which the attention maps of each layer are appended.
        """
        import torch

        b, t = index.shape
        x = torch.cat([words, regions])[index.flatten()]
        for layer in self._stack:
            x, attention = transformer_layer(layer, x, mask, (b, self.shape.heads), EPSILON, self.dropout)
            if maps is not None:
                maps.append(attention)
        return x.view(b, t, self.shape.width)

    def pooled(self, states: Tensor) -> Tensor:
        """tanh of [CLS] [b, width]."""
        from torch.nn.functional import linear

        return linear(states[:, 0], *linear_of(self.weights, "uniter.pooler.dense")).tanh()

    def head(self, pooled: Tensor, name: str) -> Tensor:
        """The output of a head (`rank_output` [b, 1], `itm_output` [b, 2]) before any sigmoid or softmax."""
        from torch.nn.functional import linear

        return linear(pooled, *linear_of(self.weights, name))

    def _embedded(self, x: Tensor, weight_prefix: str) -> Tensor:
        from torch.nn.functional import dropout, layer_norm

        x = layer_norm(x, (self.shape.width,), *linear_of(self.weights, f"{weight_prefix}LayerNorm"), EPSILON)
        return dropout(x, self.dropout) if self.dropout else x

    def _normed(self, x: Tensor, norm_name: str) -> Tensor:
        from torch.nn.functional import layer_norm

        return layer_norm(x, (self.shape.width,), *linear_of(self.weights, _REGIONS + norm_name), EPSILON)
