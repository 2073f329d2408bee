"""The inputs of a regression head, and the head itself: a multilayer perceptron beside weighted cosines.

    x_r = [v, c, |v - c|, v ⊙ c, |r - c|, r ⊙ c, r', c', |r' - c'|, r' ⊙ c']           for every reference r   (`polos`)
    x   = [v, c, |v - c|, v ⊙ c]                                                        without references      (`pair`)
    x_r = [r', c', |r' - c'|, r' ⊙ c']                                                  without an image        (`text`)
    y_r = [v · c, r · c, r' · c']                                                       y = [v · c]     y_r = [r' · c']
    score = max_r σ(MLP([y_r, x_r]) + w · y_r)

v, c and r are the joint encoder's features of the image, the candidate and a reference, normalised to length 1; c' and
r' unit sentence vectors of a text encoder, if there is one. This is the architecture of Polos (Wada et al. 2024), whose
text encoder is a RoBERTa that is fine-tuned too, and whose features are not normalised; here the text encoder is frozen
and the joint encoder frozen or fine-tuned. Polos has no y: with it a head starts from the cosines and learns a
correction. With a few thousand ratings a head without y stays below the cosine (docs/images.md).

>>> joined = joint_inputs(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([[0.6, 0.8]]))
>>> joined.tolist()
[[0.0, 0.8, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.6, 0.19999999999999996, 0.0, 0.8]]

Wada, Kaneda, Saito, Sugiura: Polos: Multimodal Metric Learning from Human Feedback for Image Captioning. CVPR 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from capmeter.core.checkpoints import Weights
from capmeter.core.errors import AssetError
from capmeter.core.messages import list_names
from capmeter.evaluation.base import Floats

Floats32 = NDArray[np.float32]
Shape = Literal["polos", "pair", "text", "infometic"]
SHAPES: tuple[Shape, ...] = ("polos", "pair", "text", "infometic")


def joint_inputs(
    images: Floats, candidates: Floats, references: Floats | None = None, texts: tuple[Floats, Floats] | None = None
) -> Floats:
    """The inputs of a head, (n, k), the cosines y first.

    Args:
        images, candidates, references: unit features, (n, width).
        texts: unit sentence vectors of candidates and references by a text encoder, (n, text width).
    """
    return np.concatenate(joint_parts(images, candidates, references, texts), axis=1)


def joint_parts(images: Any, candidates: Any, references: Any = None, texts: tuple[Any, Any] | None = None) -> Any:
    """The parts of `joint_inputs` in order, for arrays or tensors.

    Args:
        images, candidates, references, texts: as in `joint_inputs`, as arrays or tensors.
    """
    cosines = [_row_products(images, candidates)]
    parts = [images, candidates, abs(images - candidates), images * candidates]
    if references is not None:
        cosines.append(_row_products(references, candidates))
        parts += [abs(references - candidates), references * candidates]
    if texts is not None:
        candidate, reference = texts
        cosines.append(_row_products(reference, candidate))
        parts += [reference, candidate, abs(reference - candidate), reference * candidate]
    return [*cosines, *parts]


def _row_products(one: Any, other: Any) -> Any:
    return (one * other).sum(1)[:, None]


@dataclass(frozen=True, eq=False)
class RegressionHead:
    """A multilayer perceptron with tanh between its layers and one output; inputs are standardised first."""

    layers: tuple[tuple[Floats32, Floats32], ...]  # weights (inputs, outputs) and biases (outputs,)
    mean: Floats32  # (k,), of the inputs
    deviation: Floats32  # (k,)
    cosines: Floats32  # w, the weights of the first inputs

    def scores(self, inputs: Floats) -> Floats:
        """σ of the output for inputs (n, k): (n,), 0 to 1."""
        values = (inputs - self.mean) / self.deviation
        cosine_term = values[:, : len(self.cosines)] @ self.cosines.astype(np.float64)
        for k, (weights, bias) in enumerate(self.layers):
            values = values @ weights.astype(np.float64) + bias
            if k + 1 < len(self.layers):
                values = np.tanh(values)
        scores: Floats = 0.5 * (1 + np.tanh(0.5 * (values[:, 0] + cosine_term)))
        return scores

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return len(self.mean)

    def to_weights(self) -> dict[str, Floats32]:
        """The arrays under their names in checkpoints."""
        layers = {
            f"{name}-{k}": array for k, pair in enumerate(self.layers) for name, array in zip("wb", pair, strict=True)
        }
        return {**layers, "mean": self.mean, "deviation": self.deviation, "cosines": self.cosines}

    @classmethod
    def from_weights(cls, weights: Weights) -> RegressionHead:
        """The head in a checkpoint; an `AssetError` for missing or unknown arrays, or inconsistent shapes."""
        layer_count = sum(name.startswith("w-") for name in weights)
        expected_names = {"mean", "deviation", "cosines", *(f"{part}-{k}" for part in "wb" for k in range(layer_count))}
        if expected_names ^ weights.keys():
            inconsistent_names = list_names(sorted(expected_names ^ weights.keys()))
            raise AssetError(
                f"regressor: the checkpoint lacks the arrays {inconsistent_names}, or has too many; train it again"
            )
        layers = tuple((weights[f"w-{k}"], weights[f"b-{k}"]) for k in range(layer_count))
        head = cls(layers, weights["mean"], weights["deviation"], weights["cosines"])
        layer_shapes = [array.shape for array, _ in layers]
        shapes_fit = bool(layers) and all(array.ndim == 2 and bias.shape == array.shape[1:] for array, bias in layers)
        if (
            not shapes_fit
            or head.mean.shape != layer_shapes[0][:1]
            or head.mean.shape != head.deviation.shape
            or head.cosines.ndim != 1
            or len(head.cosines) > len(head.mean)
            or not (head.deviation > 0).all()
            or layer_shapes[-1][1] != 1
            or any(one[1] != other[0] for one, other in pairwise(layer_shapes))
        ):
            raise AssetError(f"regressor: the checkpoint's layers {layer_shapes} do not form a head; train it again")
        return head
