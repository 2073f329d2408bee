"""What a regression head reads of a caption, and the head itself.

    x_r = [v, c, |v - c|, v ⊙ c, |r - c|, r ⊙ c, r', c', |r' - c'|, r' ⊙ c']           for every reference r   (`polos`)
    x   = [v, c, |v - c|, v ⊙ c]                                                        without references      (`pair`)
    y_r = [v · c, r · c, r' · c']                                                       y = [v · c]
    score = max_r σ(MLP([y_r, x_r]) + w · y_r)

v, c and r are the joint encoder's features of the picture, the candidate and a reference, of length 1; c' and r' unit
sentence vectors of a text encoder, if there is one. This is the shape of Polos (Wada et al. 2024), whose text encoder
is a RoBERTa that is tuned too, and whose features are as the encoder gives them; here the text encoder is frozen, and
the joint encoder frozen or tuned. Polos has no y: with it a head begins as what is known to work, the cosines, and
learns what is to be added. With a few thousand ratings a head without y stays below the cosine (docs/pictures.md).

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

from capmeter.checkpoints import Weights
from capmeter.errors import AssetError
from capmeter.metrics.base import Floats

Shape = Literal["polos", "pair", "infometic"]
SHAPES: tuple[Shape, ...] = ("polos", "pair", "infometic")


def joint_inputs(
    pictures: Floats, candidates: Floats, references: Floats | None = None, texts: tuple[Floats, Floats] | None = None
) -> Floats:
    """Unit features [n, width] of both sides (and a reference each) as a head reads them, the cosines first.

    texts: the candidates' and the references' unit sentence vectors of a text encoder.
    """
    return np.concatenate(joint_parts(pictures, candidates, references, texts), axis=1)


def joint_parts(pictures: Any, candidates: Any, references: Any = None, texts: tuple[Any, Any] | None = None) -> Any:
    """The parts of `joint_inputs` in order, of arrays or of tensors."""
    cosines = [_dots(pictures, candidates)]
    parts = [pictures, candidates, abs(pictures - candidates), pictures * candidates]
    if references is not None:
        cosines.append(_dots(references, candidates))
        parts += [abs(references - candidates), references * candidates]
    if texts is not None:
        mine, theirs = texts
        cosines.append(_dots(theirs, mine))
        parts += [theirs, mine, abs(theirs - mine), theirs * mine]
    return [*cosines, *parts]


def _dots(one: Any, other: Any) -> Any:
    return (one * other).sum(1)[:, None]


@dataclass(frozen=True, eq=False)
class Head:
    """A multilayer perceptron with tanh between its layers: weights [inputs, outputs] and biases; one output.

    mean, deviation: of the inputs, which are standardised. cosines: weights of the first inputs, beside the perceptron.
    """

    layers: tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]
    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]
    cosines: NDArray[np.float32]

    def scores(self, inputs: Floats) -> Floats:
        """σ of the output for inputs [n, k]: [n], 0 to 1."""
        values = (inputs - self.mean) / self.deviation
        beside = values[:, : len(self.cosines)] @ self.cosines.astype(np.float64)
        for k, (weights, bias) in enumerate(self.layers):
            values = values @ weights.astype(np.float64) + bias
            if k + 1 < len(self.layers):
                values = np.tanh(values)
        scores: Floats = 0.5 * (1 + np.tanh(0.5 * (values[:, 0] + beside)))
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
        return {**named, "mean": self.mean, "deviation": self.deviation, "cosines": self.cosines}

    @classmethod
    def from_weights(cls, weights: Weights) -> Head:
        """The head of a checkpoint's arrays; an `AssetError` if they do not fit each other."""
        try:
            count = sum(name.startswith("w-") for name in weights)
            layers = tuple((weights[f"w-{k}"], weights[f"b-{k}"]) for k in range(count))
            found = cls(layers, weights["mean"], weights["deviation"], weights["cosines"])
        except KeyError as missing:
            raise AssetError(f"regressor: the checkpoint has no array {missing}; train it again") from None
        widths = [array.shape for array, _ in layers]
        fits = bool(layers) and all(array.ndim == 2 and bias.shape == array.shape[1:] for array, bias in layers)
        if (
            not fits
            or widths[0][0] != len(found.mean)
            or found.mean.shape != found.deviation.shape
            or found.cosines.ndim != 1
            or len(found.cosines) > len(found.mean)
            or not (found.deviation > 0).all()
            or widths[-1][1] != 1
            or any(one[1] != other[0] for one, other in pairwise(widths))
        ):
            raise AssetError(f"regressor: the checkpoint's layers {widths} do not form a head; train it again")
        return found
