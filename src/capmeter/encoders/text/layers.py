"""A layer of a post-norm Transformer (Vaswani et al. 2017), as BERT and the models built on it have them.

    A = softmax(Q Kᵀ / √d),   y = norm(x + A V W + b),   x ← norm(y + gelu(y W + b) W + b)

Q, K and V are x W + b of each head, d is a head's width. Works on the weights directly, with or without gradients.

Low-rank adapters of a BERT (LoRA): small checkpoints that change the layers of an encoder.

    W ← W + B A

for the four matrices W of each layer (`MATRICES`), or of the first layers, where A [rank, inputs] and B [outputs, rank]
are trained and W is frozen. The sum is computed once, when the encoder is loaded: an adapted encoder is as fast as its
base.

A checkpoint of the kind `encoder` names its base encoder and the hash of that one's weights. Its name or folder is an
encoder's name: `sbert(encoder=minilm-captions)`. A metric's checkpoint may contain an adapter for that metric alone,
under names with a prefix.

Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang, Chen: LoRA: Low-Rank Adaptation of Large Language Models. ICLR 2022.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from capmeter.core.assets import CHECKPOINT, checkpoint_stamp
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    Norm = tuple[Tensor, Tensor]  # weight and bias, as of a linear map
    # weight (outputs, inputs) and bias (outputs,); in training, a low-rank change of the weight as well:
    # A (rank, inputs) and B (outputs, rank)
    Linear = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor, Tensor]

Module = TypeVar("Module", bound="nn.Module")


def load_module(build: Callable[[], Module], weights: Mapping[str, NDArray[Any]]) -> Module:
    """The network that `build` makes, with these weights, in evaluation mode.

    Args:
        build: makes the network; called twice, first on a device without memory.
        weights: all of the network's, by name.

    Raises:
        ValueError: a weight is missing, unknown or of another shape.
    """
    import torch

    with torch.device("meta"):
        weight_shapes = {weight_name: tuple(weight.shape) for weight_name, weight in build().state_dict().items()}
    check_shapes(weight_shapes, weights)
    module = build()
    module.load_state_dict(
        {weight_name: torch.from_numpy(np.asarray(weight, np.float32)) for weight_name, weight in weights.items()}
    )
    return module.eval()


def check_shapes(shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, Any]) -> None:
    """Checks that there are weights of these names and shapes, and no others.

    Raises:
        ValueError: names the first that is missing, unknown or of another shape.
    """
    for weight_name in [*shapes, *weights]:
        expected_shape = list(shapes[weight_name]) if weight_name in shapes else "none"
        actual_shape = list(weights[weight_name].shape) if weight_name in weights else "none"
        if expected_shape != actual_shape:
            raise ValueError(f"weight {weight_name}: expected the shape {expected_shape}, but got {actual_shape}")


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
    def from_weights(cls, weights: Mapping[str, Tensor], prefix: str, heads: int) -> TransformerLayer:
        """The layer whose weights have BERT's names after this prefix (`encoder.layer.0.`).

        Args:
            weights: of the encoder.
            prefix: of the layer's names.
            heads: number of attention heads.
        """
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
    import torch

    queries, keys, values = attention_inputs(layer, x, shape)
    logits = queries @ keys.transpose(2, 3)
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        logits = logits.masked_fill(~mask[:, None, None, :], torch.finfo(logits.dtype).min)
    attention = logits.softmax(dim=-1)
    return finish_layer(layer, x, attention, values, epsilon, dropout, approximate), attention


def attention_inputs(layer: TransformerLayer, x: Tensor, shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of hidden states, (batch, heads, tokens, head width) each; see `transformer_layer`.

    Args:
        layer: the layer.
        x: hidden states (batch · tokens, width).
        shape: batch and heads.
    """
    (batch_size, heads), width = shape, x.shape[1]
    qkv = _linear(x, *layer.qkv).to(x.dtype).view(batch_size, -1, 3, heads, width // heads)
    queries, keys, values = qkv.permute(2, 0, 3, 1, 4).contiguous().unbind()
    return queries, keys, values


def finish_layer(
    layer: TransformerLayer,
    x: Tensor,
    attention: Tensor,
    values: Tensor,
    epsilon: float,
    dropout: float = 0.0,
    approximate: str = "none",
) -> Tensor:
    """The hidden states (batch · tokens, width) after a layer, from its attention; see `transformer_layer`.

    Args:
        layer, x, epsilon, dropout, approximate: as there.
        attention: (batch, heads, tokens, attended).
        values: of what is attended to, (batch, heads, attended, head width).
    """
    from torch.nn.functional import dropout as drop
    from torch.nn.functional import gelu, layer_norm

    width = x.shape[1]
    mixed_values = (drop(attention, dropout) if dropout else attention) @ values
    attended = _linear(mixed_values.transpose(1, 2).reshape(x.shape), *layer.attn_out)
    y = layer_norm(_add(drop(attended, dropout) if dropout else attended, x), (width,), *layer.attn_norm, epsilon)
    ffn_output = _linear(gelu(_linear(y, *layer.ffn_up), approximate=approximate), *layer.ffn_down)
    ffn_output = _add(drop(ffn_output, dropout) if dropout else ffn_output, y)
    return layer_norm(ffn_output, (width,), *layer.ffn_norm, epsilon)


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


KIND = "encoder"
MATRICES = {matrix: STORED_NAMES[matrix] for matrix in ("qkv", "attn_out", "ffn_up", "ffn_down")}
"""The adapted matrices of a `TransformerLayer`, and their names in checkpoints."""
LORA_A, LORA_B = "down", "up"
"""The names of both factors in checkpoints."""
LAYERS = "layers."
"""Prefix of the names of factors: `layers.0.heads.down`."""


@dataclass(frozen=True)
class Adapter:
    """A low-rank adapter in a checkpoint.

    Attributes:
        folder: of the checkpoint.
        sha256: the checkpoint's hash.
        prefix: of the names of its arrays, in a metric's checkpoint.
        encoder, encoder_sha256: the encoder that it was trained on and its hash, where the checkpoint says so.
    """

    folder: Path
    sha256: str
    prefix: str = ""
    encoder: str = ""
    encoder_sha256: str = ""

    def factors(self) -> dict[str, NDArray[Any]]:
        """A [rank, inputs] and B [outputs, rank] of each matrix, by name without the prefix."""
        layer_prefix = self.prefix + LAYERS
        weights = Checkpoint.read(self.folder).weights
        return {
            name.removeprefix(self.prefix): array for name, array in weights.items() if name.startswith(layer_prefix)
        }


def find_adapter(name: str) -> Adapter | None:
    """The adapter with this name or in this folder; None if no checkpoint of that name adapts an encoder.

    Raises:
        AssetError: the checkpoint is damaged, or does not name its encoder.
    """
    stamp = checkpoint_stamp(name)
    return None if stamp is None else _read_adapter(*stamp)


@lru_cache(maxsize=16)
def _read_adapter(folder: Path, modified_time: int) -> Adapter | None:
    try:
        checkpoint_kind = json.loads((folder / CHECKPOINT).read_bytes())["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise AssetError(f"checkpoint {folder}: cannot read {CHECKPOINT} ({error})") from error
    if checkpoint_kind != KIND:
        return None
    checkpoint = Checkpoint.read(folder, KIND)
    encoder_name, encoder_digest = (
        checkpoint.parameters.get(parameter_name) for parameter_name in ("encoder", "encoder_sha256")
    )
    if not isinstance(encoder_name, str) or not isinstance(encoder_digest, str):
        raise AssetError(f"checkpoint {folder}: does not name the encoder that it adapts; train it again")
    return Adapter(folder, checkpoint.sha256, encoder=encoder_name, encoder_sha256=encoder_digest)


def merge_adapter(stack: list[TransformerLayer], factors: Mapping[str, Tensor]) -> list[TransformerLayer]:
    """The layers of an encoder with the factors of an adapter added to the first ones.

    Raises:
        ValueError: a factor is missing, unknown or of another shape than its matrix.
    """
    layer_count = _count_layers(factors)
    if layer_count > len(stack):
        raise ValueError(f"it adapts {layer_count} layers of an encoder with {len(stack)}")
    factor_shapes: dict[str, tuple[int, ...]] = {}
    for layer_number, layer in enumerate(stack[:layer_count]):
        for matrix, stored_name in MATRICES.items():
            output_dim, input_dim = getattr(layer, matrix)[0].shape
            factor_prefix = f"{LAYERS}{layer_number}.{stored_name}."
            rank = len(factors[factor_prefix + LORA_A])
            factor_shapes |= {factor_prefix + LORA_A: (rank, input_dim), factor_prefix + LORA_B: (output_dim, rank)}
    check_shapes(factor_shapes, factors)
    return [
        _merge_factors(layer, factors, layer_number) for layer_number, layer in enumerate(stack[:layer_count])
    ] + stack[layer_count:]


def _merge_factors(layer: TransformerLayer, factors: Mapping[str, Tensor], number: int) -> TransformerLayer:
    """The layer of this number (from 0) with W + B A for each adapted W; `factors`: A and B by name."""
    merged_matrices = {}
    for matrix in MATRICES:
        weight, bias = getattr(layer, matrix)
        lora_a, lora_b = _factors_of(factors, number, matrix)
        merged_matrices[matrix] = weight + lora_b @ lora_a, bias
    return replace(layer, **merged_matrices)


def attach_factors(layer: TransformerLayer, factors: Mapping[str, Tensor], number: int) -> TransformerLayer:
    """The layer with A and B next to W, for training: W needs no gradient.

    Args:
        layer: the layer.
        factors: A and B of all layers by name.
        number: the layer's.
    """
    attached = {matrix: (*getattr(layer, matrix), *_factors_of(factors, number, matrix)) for matrix in MATRICES}
    return replace(layer, **attached)


def _count_layers(factors: Mapping[str, Any]) -> int:
    """The number of adapted layers, the first ones of an encoder.

    >>> _count_layers({"layers.0.heads.down": 0, "layers.2.heads.down": 0})
    3
    """
    if not factors:
        raise ValueError("its adapter has no factors of any layer")
    return max(int(factor_name.removeprefix(LAYERS).partition(".")[0]) + 1 for factor_name in factors)


def _factors_of(factors: Mapping[str, Tensor], layer_number: int, matrix: str) -> tuple[Tensor, Tensor]:
    """A and B of one matrix of one layer."""
    factor_prefix = f"{LAYERS}{layer_number}.{MATRICES[matrix]}"
    return factors[f"{factor_prefix}.{LORA_A}"], factors[f"{factor_prefix}.{LORA_B}"]
