"""Layers of Transformers (Vaswani et al. 2017) in numpy: linear maps, normalisation, softmax, self-attention.

The networks that parse captions share them; recipes train their twins in torch. Arrays are float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Weights = Mapping[str, npt.NDArray[Any]]

TORCH_EPSILON = np.float32(1e-5)  # of torch's layer normalisation


@dataclass(frozen=True, eq=False)
class Linear:
    """x ↦ xW + b."""

    weight: Floats  # (…, inputs, outputs)
    bias: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Maps rows (…, inputs) to (…, outputs)."""
        mapped_rows: Floats = rows @ self.weight
        mapped_rows += self.bias
        return mapped_rows


def load_linear(weights: Weights, name: str) -> Linear:
    """Reads a linear map as torch stores it, `name.weight` (outputs, inputs) and maybe `name.bias`."""
    bias: Floats | None = weights.get(f"{name}.bias")
    weight: Floats = np.ascontiguousarray(weights[f"{name}.weight"].T)
    return Linear(weight, np.zeros(weight.shape[1], np.float32) if bias is None else bias)


def load_normalised_linear(weights: Weights, norm: str, name: str) -> Linear:
    """Reads a linear map and folds the scale and shift of the normalisation before it into it."""
    linear = load_linear(weights, name)
    scale: Floats = weights[f"{norm}.weight"]
    shift: Floats = weights[f"{norm}.bias"]
    return Linear(scale[:, None] * linear.weight, linear.bias + shift @ linear.weight)


def normalise(states: Floats, epsilon: np.float32 = TORCH_EPSILON) -> Floats:
    """Returns every row (…, dim) with mean 0 and variance 1."""
    centred_states: Floats = states - states.mean(axis=-1, keepdims=True)
    variance = np.einsum("...d,...d->...", centred_states, centred_states) / np.float32(states.shape[-1])
    centred_states /= np.sqrt(variance + epsilon)[..., None]
    return centred_states


def softmax(scores: Floats) -> Floats:
    """Applies the softmax over the last axis, in place."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def attend_to_itself(projections: Floats, sentences: int, heads: int, bias: Floats | None = None) -> Floats:
    """Multi-head self-attention over the words of sentences of one length n.

    Args:
        projections: queries, already scaled, keys and values (sentences · n, 3 · dim).
        sentences: number of sentences.
        heads: number of attention heads.
        bias: added to the attention logits (heads, n, n).

    Returns:
        The attended values (sentences · n, dim), before the output projection.
    """
    dim = projections.shape[1] // 3
    query, key, value = projections.reshape(sentences, -1, 3, heads, dim // heads).transpose(2, 0, 3, 1, 4)
    logits: Floats = query @ key.transpose(0, 1, 3, 2)
    if bias is not None:
        logits += bias
    attended_states: Floats = (softmax(logits) @ value).transpose(0, 2, 1, 3).reshape(-1, dim)
    return attended_states
