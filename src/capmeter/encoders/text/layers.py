"""A layer of a post-norm Transformer (Vaswani et al. 2017), as BERT and the models built on it have them.

    A = softmax(Q Kᵀ / √d),   y = norm(x + A V W + b),   x ← norm(y + gelu(y W + b) W + b)

Q, K and V are x W + b of each head, d is a head's width. Works on the weights directly, with or without gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Norm = tuple[Tensor, Tensor]  # weight and bias, as of a linear map
    # weight (outputs, inputs) and bias (outputs,); in training, a low-rank change of the weight as well
    # (`capmeter.encoders.text.lora`): A (rank, inputs) and B (outputs, rank)
    Linear = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor, Tensor]

STORED_NAMES = {
    "qkv": "heads",
    "attn_out": "join",
    "attn_norm": "joined",
    "ffn_up": "widen",
    "ffn_down": "narrow",
    "ffn_norm": "narrowed",
}
"""The names of a layer's weights in capmeter's own checkpoints."""


@dataclass(frozen=True, eq=False)
class TransformerLayer:
    """The weights of one layer, in order of use.

    Attributes:
        qkv: queries divided by √d, keys and values, concatenated: (3 · width, width).
        attn_out, attn_norm: output projection of attention (width, width), and the norm of the sum.
        ffn_up, ffn_down, ffn_norm: feed-forward (inner, width) and (width, inner), and the norm of the sum.
    """

    qkv: Linear
    attn_out: Linear
    attn_norm: Norm
    ffn_up: Linear
    ffn_down: Linear
    ffn_norm: Norm

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], prefix: str, heads: int) -> TransformerLayer:
        """The layer whose weights have BERT's names after this prefix (`encoder.layer.0.`)."""
        import torch

        projections = [linear_of(weights, f"{prefix}attention.self.{name}") for name in ("query", "key", "value")]
        scale = (projections[0][0].shape[0] // heads) ** -0.5
        qkv_weight, qkv_bias = (torch.cat([q * scale, k, v]) for q, k, v in zip(*projections, strict=True))
        weight_names = ("attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense")
        output_weights = (linear_of(weights, prefix + name) for name in (*weight_names, "output.LayerNorm"))
        return cls((qkv_weight, qkv_bias), *output_weights)

    def with_products_in(self, dtype: torch.dtype) -> TransformerLayer:
        """The layer with the matrices of its products in this type; biases and norms stay as they are."""
        products = {name: getattr(self, name) for name in ("qkv", "attn_out", "ffn_up", "ffn_down")}
        return replace(self, **{name: (weight.to(dtype), bias) for name, (weight, bias) in products.items()})


@dataclass(frozen=True, eq=False)
class AttentionContext:
    """What each sequence of a batch attends to beside itself.

    Attributes:
        keys, values: (batch, heads, others, head width).
        mask: bool (batch, others), false for padding.
        bias: added to the logits of these, (heads,).
    """

    keys: Tensor
    values: Tensor
    mask: Tensor
    bias: Tensor


def linear_of(weights: Mapping[str, Tensor], name: str) -> Norm:
    """The weight and bias of this name."""
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def transformer_layer(
    layer: TransformerLayer,
    x: Tensor,
    mask: Tensor | None,
    shape: tuple[int, int],
    epsilon: float,
    dropout: float = 0.0,
    approximate: str = "none",
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Apply a layer.

    Args:
        layer: its weights.
        x: hidden states (batch · tokens, width).
        mask: bool (batch, tokens), true where positions may be attended to; None means everywhere.
        shape: batch size and number of heads.
        epsilon: of the norms.
        dropout: of attention and of both sums, in training.
        approximate: form of gelu, as torch names it (`tanh` or `none`).
        bias: added to the logits of attention, (heads, tokens, tokens); None for nothing.

    Returns:
        The hidden states (batch · tokens, width) after the layer, and its attention (batch, heads, tokens, tokens).
    """
    inputs = attention_inputs(layer, x, shape)
    return finish_layer(layer, x, inputs, mask, epsilon, dropout, approximate, bias)


def attention_inputs(layer: TransformerLayer, x: Tensor, shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of hidden states, (batch, heads, tokens, head width) each; see `transformer_layer`."""
    (batch_size, heads), width = shape, x.shape[1]
    qkv = _linear(x, *layer.qkv).to(x.dtype).view(batch_size, -1, 3, heads, width // heads)
    queries, keys, values = qkv.permute(2, 0, 3, 1, 4).contiguous()
    return queries, keys, values


def finish_layer(
    layer: TransformerLayer,
    x: Tensor,
    inputs: tuple[Tensor, Tensor, Tensor],
    mask: Tensor | None,
    epsilon: float,
    dropout: float = 0.0,
    approximate: str = "none",
    bias: Tensor | None = None,
    context: AttentionContext | None = None,
) -> tuple[Tensor, Tensor]:
    """Apply a layer to states whose queries, keys and values are known; see `transformer_layer`.

    Args:
        layer, x, mask, epsilon, dropout, approximate, bias: as there.
        inputs: of `attention_inputs`.
        context: what is attended to beside the sequence itself.
    """
    import torch
    from torch.nn.functional import dropout as drop
    from torch.nn.functional import gelu, layer_norm

    (queries, keys, values), width = inputs, x.shape[1]
    logits = queries @ keys.transpose(2, 3)
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        logits = logits.masked_fill(~mask[:, None, None, :], torch.finfo(logits.dtype).min)
    if context is not None:
        context_logits = queries @ context.keys.transpose(2, 3) + context.bias[:, None, None]
        context_mask = context.mask[:, None, None, :]
        context_logits = context_logits.masked_fill(~context_mask, torch.finfo(logits.dtype).min)
        logits, values = torch.cat([logits, context_logits], dim=3), torch.cat([values, context.values], dim=2)
    attention = logits.softmax(dim=-1)
    mixed_values = (drop(attention, dropout) if dropout else attention) @ values
    attended = _linear(mixed_values.transpose(1, 2).reshape(x.shape), *layer.attn_out)
    y = layer_norm(_add(drop(attended, dropout) if dropout else attended, x), (width,), *layer.attn_norm, epsilon)
    ffn_output = _linear(gelu(_linear(y, *layer.ffn_up), approximate=approximate), *layer.ffn_down)
    ffn_output = _add(drop(ffn_output, dropout) if dropout else ffn_output, y)
    return layer_norm(ffn_output, (width,), *layer.ffn_norm, epsilon), attention


def _add(output: Tensor, residual: Tensor) -> Tensor:
    """Their sum in the residual's type, in place if it is the output's."""
    return output.add_(residual) if output.dtype == residual.dtype else output + residual


def _linear(
    x: Tensor, weight: Tensor, bias: Tensor, lora_a: Tensor | None = None, lora_b: Tensor | None = None
) -> Tensor:
    """x Wᵀ + b, and x Aᵀ Bᵀ, which needs no gradient of W; in W's type if that is bfloat16."""
    import torch
    from torch.nn.functional import linear

    if weight.dtype == torch.bfloat16:
        x, bias = x.bfloat16(), bias.bfloat16()
    output = linear(x, weight, bias)
    return output if lora_a is None or lora_b is None else output + linear(linear(x, lora_a), lora_b)
