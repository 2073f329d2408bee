"""A layer of a post-norm Transformer (Vaswani et al. 2017), as BERT and the models built on it have them.

    A = softmax(Q Kᵀ / √d),   y = norm(x + A V W + b),   x ← norm(y + gelu(y W + b) W + b)

Q, K and V are x W + b of each head, d is a head's width. Works on the weights directly, with or without gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    Norm = tuple[Tensor, Tensor]  # weight and bias, as of a linear map
    # weight and bias; in training, a low-rank change of the weight as well (`capmeter.encoders.adaptation`), A and B
    Linear = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Layer:
    """The weights of one layer, in order of use. heads: queries divided by √d, keys and values, side by side."""

    heads: Linear
    join: Linear
    joined: Norm
    widen: Linear
    narrow: Linear
    narrowed: Norm

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], at: str, heads: int) -> Layer:
        """The layer whose weights have BERT's names after the prefix `at` (`encoder.layer.0.`)."""
        import torch

        queries, keys, values = (linear_of(weights, f"{at}attention.self.{part}") for part in ("query", "key", "value"))
        scale = (queries[0].shape[0] // heads) ** -0.5
        split = [torch.cat([q * scale, k, v]) for q, k, v in zip(queries, keys, values, strict=True)]
        rest = ("attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense")
        return cls((split[0], split[1]), *(linear_of(weights, at + part) for part in (*rest, "output.LayerNorm")))


def linear_of(weights: Mapping[str, Tensor], name: str) -> Norm:
    """The weight and bias of this name."""
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def through(
    layer: Layer,
    x: Tensor,
    mask: Tensor | None,
    shape: tuple[int, int],
    epsilon: float,
    dropout: float = 0.0,
    approximate: str = "none",
) -> tuple[Tensor, Tensor]:
    """The states [b · t, width] after a layer, and the layer's attention maps [b, heads, t, t].

    mask: bool[b, t], true where positions may be attended to; None means everywhere. shape: b and the number of heads.
    dropout: of attention and of both sums, in training. approximate: gelu's form, as torch names it (`tanh` or `none`).
    """
    import torch
    from torch.nn.functional import dropout as drop
    from torch.nn.functional import gelu, layer_norm

    (b, heads), width = shape, x.shape[1]
    split = _linear(x, *layer.heads).view(b, -1, 3, heads, width // heads)
    queries, keys, values = split.permute(2, 0, 3, 1, 4).contiguous()
    fit = queries @ keys.transpose(2, 3)
    if mask is not None:
        fit = fit.masked_fill(~mask[:, None, None, :], torch.finfo(fit.dtype).min)
    attention = fit.softmax(dim=-1)
    seen = (drop(attention, dropout) if dropout else attention) @ values
    joined = _linear(seen.transpose(1, 2).reshape(x.shape), *layer.join)
    y = layer_norm((drop(joined, dropout) if dropout else joined).add_(x), (width,), *layer.joined, epsilon)
    narrow = _linear(gelu(_linear(y, *layer.widen), approximate=approximate), *layer.narrow)
    narrow = (drop(narrow, dropout) if dropout else narrow).add_(y)
    return layer_norm(narrow, (width,), *layer.narrowed, epsilon), attention


def _linear(x: Tensor, weight: Tensor, bias: Tensor, down: Tensor | None = None, up: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, and x Aᵀ Bᵀ, which needs no gradient of W."""
    from torch.nn.functional import linear

    made = linear(x, weight, bias)
    return made if down is None or up is None else made + linear(linear(x, down), up)
