"""What a regression head reads of a caption, and the head itself.

    x_r = [v, c, |v - c|, v ⊙ c, |r - c|, r ⊙ c, r', c', |r' - c'|, r' ⊙ c']           for every reference r   (`polos`)
    x   = [v, c, |v - c|, v ⊙ c]                                                        without references      (`pair`)
    score = max_r σ(MLP(x_r))

v, c and r are the joint encoder's features of the picture, the candidate and a reference, as they are (not normalised);
c' and r' sentence vectors of a text encoder, if there is one. This is the shape of Polos (Wada et al. 2024), whose text
encoder is a RoBERTa that is tuned too; here encoders are frozen.

>>> joined = joint_inputs(np.ones((1, 2)), np.zeros((1, 2)), np.full((1, 2), 3.0))
>>> joined.tolist()
[[1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 3.0, 3.0, 0.0, 0.0]]

Wada, Kaneda, Saito, Sugiura: Polos: Multimodal Metric Learning from Human Feedback for Image Captioning. CVPR 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capmeter.checkpoints import Weights
from capmeter.errors import AssetError
from capmeter.metrics.base import Floats

Shape = Literal["polos", "pair"]
SHAPES: tuple[Shape, ...] = ("polos", "pair")


def joint_inputs(pictures: Floats, candidates: Floats, references: Floats | None = None) -> Floats:
    """Features [n, width] of both sides (and a reference each) as a head reads them."""
    parts = [pictures, candidates, np.abs(pictures - candidates), pictures * candidates]
    if references is not None:
        parts += [np.abs(references - candidates), references * candidates]
    return np.concatenate(parts, axis=1)


def text_inputs(candidates: Floats, references: Floats) -> Floats:
    """Sentence vectors [n, width] of both sides as a head reads them."""
    return np.concatenate([references, candidates, np.abs(references - candidates), references * candidates], axis=1)


@dataclass(frozen=True, eq=False)
class Head:
    """A multilayer perceptron with tanh between its layers: weights [inputs, outputs] and biases; one output."""

    layers: tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]
    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]

    def scores(self, inputs: Floats) -> Floats:
        """σ of the output for inputs [n, k]: [n], 0 to 1."""
        values = (inputs - self.mean) / self.deviation
        for k, (weights, bias) in enumerate(self.layers):
            values = values @ weights.astype(np.float64) + bias
            if k + 1 < len(self.layers):
                values = np.tanh(values)
        scores: Floats = 0.5 * (1 + np.tanh(0.5 * values[:, 0]))
        return scores

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return len(self.mean)

    def to_weights(self) -> dict[str, NDArray[np.float32]]:
        """The arrays by name, as a checkpoint holds them."""
        named = {
            f"{what}-{k}": array for k, pair in enumerate(self.layers) for what, array in zip("wb", pair, strict=True)
        }
        return {**named, "mean": self.mean, "deviation": self.deviation}

    @classmethod
    def from_weights(cls, weights: Weights) -> Head:
        """The head of a checkpoint's arrays; an `AssetError` if they do not fit each other."""
        try:
            count = sum(name.startswith("w-") for name in weights)
            layers = tuple((weights[f"w-{k}"], weights[f"b-{k}"]) for k in range(count))
            found = cls(layers, weights["mean"], weights["deviation"])
        except KeyError as missing:
            raise AssetError(f"regressor: the checkpoint has no array {missing}; train it again") from None
        widths = [array.shape for array, _ in layers]
        fits = bool(layers) and all(array.ndim == 2 and bias.shape == array.shape[1:] for array, bias in layers)
        if (
            not fits
            or widths[0][0] != len(found.mean)
            or found.mean.shape != found.deviation.shape
            or not (found.deviation > 0).all()
            or widths[-1][1] != 1
            or any(one[1] != other[0] for one, other in pairwise(widths))
        ):
            raise AssetError(f"regressor: the checkpoint's layers {widths} do not form a head; train it again")
        return found
