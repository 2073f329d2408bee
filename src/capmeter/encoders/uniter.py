"""UNITER (Chen et al. 2020): one BERT over a caption's word pieces and a picture's regions, on published weights.

    word   = norm(E_word + E_position + E_type0)
    region = norm(norm(W f + b) + norm(W p + b) + E_type1)       f: features, p: box (x1, y1, x2, y2, w, h, w·h)
    x      = [words, regions] through BERT's layers,   pooled = tanh(W x_[CLS] + b)

The heads on top: `rank_output` (1 number, UMIC's), `itm_output` (2 numbers: no match, match), and those of pretraining,
which are kept with a checkpoint but not run here. A caption's words are followed directly by its regions, and padding,
if any, is masked, so that a pair's output does not depend on the rest of its batch.

Chen, Li, Yu, El Kholy, Ahmed, Gan, Cheng, Liu: UNITER: UNiversal Image-TExt Representation Learning. ECCV 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from capmeter.encoders.layers import Layer, linear_of, through

if TYPE_CHECKING:
    from torch import Tensor

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

    def weights(self, labels: int | None = None) -> dict[str, tuple[int, ...]]:
        """The shape of every weight of the body by name; with `labels`, of the heads of pretraining too."""
        return dict(_shapes(self)) | ({} if labels is None else dict(_pretraining(self, labels)))


HEADS = {"itm_output": 2, "rank_output": 1}


def head_shapes(shape: UniterShape, head: str) -> dict[str, tuple[int, ...]]:
    """The shapes of a head's weight and bias."""
    return {f"{head}.weight": (HEADS[head], shape.width), f"{head}.bias": (HEADS[head],)}


def _norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from ((f"{name}.{part}", (width,)) for part in ("weight", "bias"))


def _linear(name: str, out: int, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from ((f"{name}.weight", (out, width)), (f"{name}.bias", (out,)))


def _shapes(s: UniterShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from ((_WORDS, (s.vocabulary, s.width)), (_PLACES, (s.positions, s.width)), (_TYPES, (2, s.width)))
    yield from _norm("uniter.embeddings.LayerNorm", s.width)
    yield from _linear(f"{_REGIONS}img_linear", s.width, s.features)
    yield from _linear(f"{_REGIONS}pos_linear", s.width, BOX)
    yield f"{_REGIONS}mask_embedding.weight", (2, s.features)
    for norm in ("img_layer_norm", "pos_layer_norm", "LayerNorm"):
        yield from _norm(_REGIONS + norm, s.width)
    for number in range(s.layers):
        at = f"uniter.encoder.layer.{number}."
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            yield from _linear(f"{at}attention.{part}", s.width, s.width)
        yield from _norm(f"{at}attention.output.LayerNorm", s.width)
        yield from _linear(f"{at}intermediate.dense", s.inner, s.width)
        yield from _linear(f"{at}output.dense", s.width, s.inner)
        yield from _norm(f"{at}output.LayerNorm", s.width)
    yield from _linear("uniter.pooler.dense", s.width, s.width)


def _pretraining(s: UniterShape, labels: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Masked words, masked regions' features and masked regions' labels."""
    yield from _linear("cls.predictions.transform.dense", s.width, s.width)
    yield from _norm("cls.predictions.transform.LayerNorm", s.width)
    yield from (("cls.predictions.decoder.weight", (s.vocabulary, s.width)), ("cls.predictions.bias", (s.vocabulary,)))
    yield from (("feat_regress.weight", (s.width, s.features)), ("feat_regress.bias", (s.features,)))
    for head in ("feat_regress", "region_classifier"):
        yield from _linear(f"{head}.net.0", s.width, s.width)
        yield from _norm(f"{head}.net.2", s.width)
    yield from _linear("region_classifier.net.3", labels, s.width)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where words and regions of a batch of pairs are: `index` [b, t] into [all words, all regions], and the mask.

    places: int64[words], each word's position in its caption. mask: bool[b, t], false at padding; None without any.
    """

    index: NDArray[np.int64]
    places: NDArray[np.int64]
    mask: NDArray[np.bool_] | None

    @classmethod
    def of(cls, words: NDArray[np.int64], regions: NDArray[np.int64], first: NDArray[np.int64] | None = None) -> Layout:
        """The layout of pairs with these numbers of words and of regions; padding repeats the first word.

        first: where each pair's regions begin in the table of regions (default: one pair's after another's). Pairs of
        one picture may share its regions.
        """
        total = words + regions
        begins = np.cumsum(words) - words
        if first is None:
            first = np.cumsum(regions) - regions
        place = np.arange(int(total.max(initial=0)))[None, :]
        in_words = place < words[:, None]
        index = np.where(in_words, begins[:, None] + place, words.sum() + first[:, None] + place - words[:, None])
        mask = place < total[:, None]
        places = np.arange(words.sum()) - np.repeat(begins, words)
        return cls(np.where(mask, index, 0), places, None if mask.all() else mask)


class Uniter:
    """A UNITER on given weights, which may be parameters in training.

    weights: tensors by their published names, of the body and any heads. dropout: in training, after the embeddings, of
    attention, and in every layer.
    """

    def __init__(self, weights: Mapping[str, Tensor], shape: UniterShape, dropout: float = 0.0) -> None:
        self.shape, self.dropout = shape, dropout
        self.weights = weights
        self._stack = [
            Layer.of(weights, f"uniter.encoder.layer.{number}.", shape.heads) for number in range(shape.layers)
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
        """The last hidden states [b, t, width] of pairs laid out by a `Layout`; attention maps are added to `maps`."""
        import torch

        b, t = index.shape
        x = torch.cat([words, regions])[index.flatten()]
        for layer in self._stack:
            x, attention = through(layer, x, mask, (b, self.shape.heads), EPSILON, self.dropout)
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

    def _embedded(self, x: Tensor, at: str) -> Tensor:
        from torch.nn.functional import dropout, layer_norm

        x = layer_norm(x, (self.shape.width,), *linear_of(self.weights, f"{at}LayerNorm"), EPSILON)
        return dropout(x, self.dropout) if self.dropout else x

    def _normed(self, x: Tensor, name: str) -> Tensor:
        from torch.nn.functional import layer_norm

        return layer_norm(x, (self.shape.width,), *linear_of(self.weights, _REGIONS + name), EPSILON)


def ranking_loss(scores: Tensor, margin: float) -> Tensor:
    """max(0, margin + negative - positive) [n, negatives] of scores [n, 1 + negatives], the positive first."""
    return (margin + scores[:, 1:] - scores[:, :1]).clamp(min=0)


def initial_weights(shape: UniterShape, seed: int, deviation: float = 0.02) -> dict[str, Any]:
    """Weights to train from: normal, with the authors' deviation unless another is given; biases 0, norms 1."""
    import torch

    random = torch.Generator().manual_seed(seed)
    made = {}
    for name, size in {
        **shape.weights(),
        **head_shapes(shape, "itm_output"),
        **head_shapes(shape, "rank_output"),
    }.items():
        if len(size) == 2:
            made[name] = torch.empty(size).normal_(0, deviation, generator=random)
        else:
            made[name] = torch.full(size, float("norm" in name.lower() and name.endswith("weight")))
    return made
