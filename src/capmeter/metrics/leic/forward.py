"""The critic's forward pass in numpy, in the order of the paper: word vectors, LSTM, fusion, classifier.

    c = LSTM(E w₁ … E wₙ)       the state at the last step of at most 15; the same LSTM reads reference and candidate
    i = W_i f + b_i             the image's features f, projected to the width of c
    v = ReLU(W [i, c_ref, c] + b)   (Eq. 3), or compact bilinear pooling of [i, c_ref] and c (Eq. 4)
    P(human) = softmax(…)₀

Weights have the layout of the released code: kernels [in, out], an LSTM's gates in the order input, candidate, forget,
output, and 1 added to the forget gate. Names: `embedding`, `lstm.K.kernel` (rows: input, then state), `lstm.K.bias`,
`image.kernel`, `image.bias`, `hidden.K.kernel`, `hidden.K.bias`, `output.kernel`, `output.bias`.

The first dense layer is linear in image, reference and candidate, so each part's share of it is computed once per
sentence and picture, and pairs only add these shares. Pooling is linear in each of them too; where the classifier comes
right after it, both together are a bilinear form of context and candidate. Arithmetic is in the weights' precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.errors import InputError
from capmeter.metrics.leic.pooling import CountSketch, Reals, bilinear_form, convolved, spectrum
from capmeter.metrics.leic.shape import CriticShape, Part
from capmeter.progress import task
from capmeter.ragged import Ragged

_SENTENCES_AT_ONCE = 256
_NUMBERS_AT_ONCE = 1 << 22  # of all pairs' rows in one batch

Shares = Mapping[Part, Reals]
Pairs = Mapping[Part, npt.NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class _Lstm:
    """One layer, with its gates scaled so that one tanh serves all of them: σ(x) = (1 + tanh(x / 2)) / 2."""

    inner: Reals  # [in, 4 width]
    recurrent: Reals  # [width, 4 width]
    bias: Reals

    @classmethod
    def of(cls, kernel: Reals, bias: Reals, width: int) -> _Lstm:
        scale = np.repeat(np.array([0.5, 1.0, 0.5, 0.5], kernel.dtype), width)
        forget = np.repeat(np.array([0.0, 0.0, 1.0, 0.0], kernel.dtype), width)
        return cls(kernel[:-width] * scale, np.ascontiguousarray(kernel[-width:] * scale), (bias + forget) * scale)

    def read(self, gates: Reals, keep: bool) -> Reals:
        """The state after the last step, or after each (`keep`), from the input's share [steps, n, 4 width]."""
        width = len(self.recurrent)
        steps, n = gates.shape[:2]
        state = memory = np.zeros((n, width), gates.dtype)
        kept = np.empty((steps, n, width), gates.dtype) if keep else None
        half = gates.dtype.type(0.5)
        for step in range(steps):
            given = gates[step] if step == 0 else gates[step] + state @ self.recurrent
            given = np.tanh(given)
            enter, new, stay, leave = (given[:, k * width : (k + 1) * width] for k in range(4))
            memory = half * ((1 + stay) * memory + (1 + enter) * new)
            state = half * (1 + leave) * np.tanh(memory)
            if kept is not None:
                kept[step] = state
        return state if kept is None else kept


class CriticNetwork:
    """The network of a critic.

    Args:
        weights: by name, as listed above.
        shape: its architecture.

    Raises:
        InputError: a weight is missing or has another shape.
    """

    def __init__(self, weights: Mapping[str, Reals], shape: CriticShape) -> None:
        self.shape = shape
        for name, size in weight_shapes(shape).items():
            found = weights[name].shape if name in weights else None
            if found is None or found != tuple(np.where(np.array(size) < 0, found[0], size) if found else size):
                raise InputError(f"critic: weight {name}: expected the shape {list(size)}, but got {found}")
        self.embedding = weights["embedding"]
        self._lstm = [
            _Lstm.of(weights[f"lstm.{k}.kernel"], weights[f"lstm.{k}.bias"], shape.width) for k in range(shape.layers)
        ]
        self._dense = [(weights[f"{name}.kernel"], weights[f"{name}.bias"]) for name, _, _ in shape.dense]
        self._image = (weights["image.kernel"], weights["image.bias"]) if shape.sees_image else None
        self._sketch: dict[Part, CountSketch] = {}
        self._form: dict[Part, Reals] = {}
        if shape.fusion == "bilinear":
            seeds, context = shape.sketches, shape.parts[:-1]
            whole = CountSketch.seeded(shape.width * len(context), shape.pooled, *seeds[:2])
            for k, part in enumerate(context):
                self._sketch[part] = whole.take(k * shape.width, (k + 1) * shape.width)
            self._sketch["candidate"] = CountSketch.seeded(shape.width, shape.pooled, *seeds[2:])
            if not shape.hidden:
                kernel, candidate = self._dense[0][0], self._sketch["candidate"]
                self._form = {part: bilinear_form(kernel, self._sketch[part], candidate) for part in context}

    def read(self, sentences: Ragged) -> Reals:
        """The LSTM's state at the end of each sentence of word numbers: [n, width]; 0 for one without words."""
        vectors = np.zeros((len(sentences), self.shape.width), self.embedding.dtype)
        used, flat = np.unique(sentences.values, return_inverse=True)
        first = self._lstm[0]
        table = self.embedding[used] @ first.inner + first.bias  # the input's share of every word that occurs
        lengths = sentences.lengths
        with task("LEIC", total=int((lengths > 0).sum())) as advance:
            for length in np.unique(lengths[lengths > 0]).tolist():
                rows = np.flatnonzero(lengths == length)
                for start in range(0, len(rows), _SENTENCES_AT_ONCE):
                    chosen = rows[start : start + _SENTENCES_AT_ONCE]
                    words = flat[sentences.offsets[chosen] + np.arange(length)[:, None]]  # [length, n]
                    vectors[chosen] = self._states(table[words])
                    advance(len(chosen))
        return vectors

    def _states(self, gates: Reals) -> Reals:
        for layer, following in zip(self._lstm, self._lstm[1:], strict=False):
            gates = layer.read(gates, keep=True) @ following.inner + following.bias
        return self._lstm[-1].read(gates, keep=False)

    def project(self, features: Reals) -> Reals:
        """Image features [n, image] projected to the width of sentences [n, width]."""
        if self._image is None:
            raise InputError(f"a critic with context={self.shape.context} has no image")
        kernel, bias = self._image
        projected: Reals = features.astype(kernel.dtype) @ kernel + bias
        return projected

    def shares(self, part: Part, vectors: Reals) -> Reals:
        """What each vector adds to the fusion: its share of the first dense layer or of the bilinear form, or the
        spectrum of its sketch.
        """
        if self._form:
            return vectors if part == "candidate" else np.tensordot(vectors, self._form[part], 1)
        if self.shape.fusion == "bilinear":
            return spectrum(self._sketch[part](vectors))
        width, place = self.shape.width, self.shape.parts.index(part)
        share: Reals = vectors @ self._dense[0][0][place * width : (place + 1) * width]
        return share

    def logits(self, shares: Shares, pairs: Pairs) -> Reals:
        """The classifier's outputs (human, machine) for pairs: [n, 2].

        Args:
            shares: from `shares`, for each of the shape's parts.
            pairs: which row of each part's shares makes each pair.
        """
        count = len(pairs["candidate"])
        widest = max(self.shape.fused if self.shape.fusion == "bilinear" else 0, *self.shape.hidden, 2)
        batch = max(1, _NUMBERS_AT_ONCE // widest)
        logits = np.empty((count, 2), self.embedding.dtype)
        for start in range(0, count, batch):
            rows = slice(start, start + batch)
            logits[rows] = self._classified(*(shares[part][pairs[part][rows]] for part in self.shape.parts))
        return logits

    def _classified(self, *fused: Reals) -> Reals:
        (kernel, bias), *others = self._dense
        *context, candidate = fused
        if self._form:
            both: Reals = np.einsum("nkd,nd->nk", sum(context[1:], context[0]), candidate) + bias
            return both
        if self.shape.fusion == "bilinear":
            pooled = convolved(sum(context[1:], context[0]), candidate, self.shape.pooled)
            values = pooled.astype(kernel.dtype) @ kernel + bias
        else:
            values = sum(context, candidate) + bias
        for kernel, bias in others:
            values = np.maximum(values, 0) @ kernel + bias
        return values


def human_probability(logits: Reals) -> npt.NDArray[np.float64]:
    """softmax(logits)₀, the probability of "written by a human", in float64."""
    odds = logits[:, 1].astype(np.float64) - logits[:, 0].astype(np.float64)
    probability: npt.NDArray[np.float64] = 0.5 - 0.5 * np.tanh(odds / 2)
    return probability


def weight_shapes(shape: CriticShape) -> dict[str, tuple[int, ...]]:
    """The shape of every weight by name; -1 for the size of the vocabulary."""
    width = shape.width
    found: dict[str, tuple[int, ...]] = {"embedding": (-1, shape.embedding)}
    for k in range(shape.layers):
        found[f"lstm.{k}.kernel"] = ((width if k else shape.embedding) + width, 4 * width)
        found[f"lstm.{k}.bias"] = (4 * width,)
    if shape.sees_image:
        found |= {"image.kernel": (shape.image, width), "image.bias": (width,)}
    for name, enters, leaves in shape.dense:
        found |= {f"{name}.kernel": (enters, leaves), f"{name}.bias": (leaves,)}
    return found


def as_weights(weights: Mapping[str, npt.NDArray[Any]], dtype: npt.DTypeLike = np.float32) -> dict[str, Reals]:
    """Weights as stored (often float16) in the precision to compute with."""
    return {name: np.asarray(values, dtype) for name, values in weights.items()}
