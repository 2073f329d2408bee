"""The network of LCEval (Sharif et al. 2019, Eq. 7.1 to 7.5): from features to P(human).

    h_l = max(0, h_{l-1} W_l + b_l),        z = h_L W + b,        score = e^{z_1} / (e^{z_0} + e^{z_1})

z_0 and z_1 are the logits of "machine" and "human"; there are 0, 1 or 2 hidden layers. Arithmetic is in float64.

>>> network = FeedForwardNetwork((DenseLayer(np.array([[-1.0, 1.0]]), np.array([0.5, -0.5])),))
>>> network.logit(np.array([[0.5], [1.0]])).tolist(), network.score(np.array([[0.5]])).tolist()
([0.0, 1.0], [0.5])
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.core.checkpoints import Weights
from capmeter.core.errors import AssetError
from capmeter.evaluation.base import Floats

_RELEASED = ("out_layer/out/W_out", "out_layer/out/b_out")


@dataclass(frozen=True, eq=False)
class DenseLayer:
    """A linear layer."""

    weights: Floats  # (inputs, outputs)
    bias: Floats  # (outputs,)


@dataclass(frozen=True, eq=False)
class FeedForwardNetwork:
    """Linear layers with ReLU between them; the last has two outputs, machine and human."""

    layers: tuple[DenseLayer, ...]

    @property
    def inputs(self) -> int:
        """The number of features."""
        return int(self.layers[0].weights.shape[0])

    @property
    def linear(self) -> bool:
        """Whether there is no hidden layer."""
        return len(self.layers) == 1

    def logit(self, features: Floats) -> Floats:
        """z_1 - z_0 for features (..., k): (...)."""
        values = features
        for layer in self.layers[:-1]:
            values = np.maximum(values @ layer.weights + layer.bias, 0)
        output_layer = self.layers[-1]
        logit: Floats = values @ (output_layer.weights[:, 1] - output_layer.weights[:, 0]) + (
            output_layer.bias[1] - output_layer.bias[0]
        )
        return logit

    def score(self, features: Floats) -> Floats:
        """The probability of "human"."""
        return sigmoid(self.logit(features))

    def to_weights(self) -> dict[str, Floats]:
        """The arrays under their names in checkpoints."""
        return {
            array_name: values
            for k, layer in enumerate(self.layers)
            for array_name, values in ((f"weights-{k}", layer.weights), (f"bias-{k}", layer.bias))
        }

    @classmethod
    def from_weights(cls, weights: Weights) -> FeedForwardNetwork:
        """The network in a checkpoint.

        Raises:
            AssetError: arrays are missing or their shapes inconsistent.
        """
        layer_count = sum(name.startswith("weights-") for name in weights)
        try:
            layers = tuple(
                DenseLayer(weights[f"weights-{k}"].astype(np.float64), weights[f"bias-{k}"].astype(np.float64))
                for k in range(layer_count)
            )
        except KeyError as missing:
            raise AssetError(f"lceval: the checkpoint has no array {missing}; train it again") from None
        layer_shapes = [layer.weights.shape for layer in layers]
        shapes_fit = all(
            layer.weights.ndim == 2 and layer.bias.shape == layer.weights.shape[1:] and np.isfinite(layer.weights).all()
            for layer in layers
        )
        chained = all(one[-1] == other[0] for one, other in pairwise(layer_shapes))
        if not layers or not shapes_fit or not chained or layer_shapes[-1][-1] != 2:
            raise AssetError(f"lceval: the checkpoint's layers {layer_shapes} do not form a network with two outputs")
        return cls(layers)


def sigmoid(logit: Floats) -> Floats:
    """1 / (1 + e^-logit), without overflow."""
    half: Floats = 0.5 * (1 + np.tanh(0.5 * logit))
    return half


def read_released(path: Path) -> FeedForwardNetwork:
    """The network of the released code's weights, as JSON: {"out_layer/out/W_out": …, "out_layer/out/b_out": …}.

    An object of several steps ({"8010": {…}, "9990": {…}}) gives the last step. There is no hidden layer.

    Raises:
        AssetError: the file cannot be read, or has no such weights.
    """
    try:
        arrays: Any = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(arrays, Mapping) and _RELEASED[0] not in arrays:
            steps = [step for step in arrays if str(step).isdigit() and isinstance(arrays[step], Mapping)]
            arrays = arrays[max(steps, key=int)]
        weights, bias = (np.asarray(arrays[name], np.float64) for name in _RELEASED)
    except OSError as error:
        raise AssetError(f"lceval: cannot read {path} ({error.strerror or error})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise AssetError(
            f"lceval: {path} does not contain released weights: expected a JSON object with {' and '.join(_RELEASED)} "
            f"({error})"
        ) from error
    if weights.ndim != 2 or weights.shape[1] != 2 or bias.shape != (2,) or not np.isfinite(weights).all():
        raise AssetError(f"lceval: {path}: expected weights [features, 2] and a bias [2], but got {weights.shape}")
    return FeedForwardNetwork((DenseLayer(weights, bias),))
