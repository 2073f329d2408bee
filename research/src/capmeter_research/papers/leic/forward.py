"""The critic's forward pass in numpy, in the order of the paper: word vectors, LSTM, fusion, classifier.

    c = LSTM(E w₁ … E wₙ)       the state at the last step of at most 15; the same LSTM encodes reference and candidate
    i = W_i f + b_i             the image's features f, projected to the width of c
    v = ReLU(W [i, c_ref, c] + b)   (Eq. 3), or compact bilinear pooling of [i, c_ref] and c (Eq. 4)
    P(human) = softmax(…)₀

Weights have the layout of the released code: kernels [in, out], an LSTM's gates in the order input, candidate, forget,
output, and 1 added to the forget gate. Names: `embedding`, `lstm.K.kernel` (rows: input, then state), `lstm.K.bias`,
`image.kernel`, `image.bias`, `hidden.K.kernel`, `hidden.K.bias`, `output.kernel`, `output.bias`.

The first dense layer is linear in image, reference and candidate, so the term of each input is computed once per
sentence and image, and pairs only add these terms. Pooling is linear in each of them too; if the classifier follows
directly, both together are a bilinear form of context and candidate. Arithmetic is in the weights' precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError
from capmeter.core.progress import task
from capmeter.core.ragged import Ragged
from capmeter_research.papers.leic.pooling import CountSketch, Reals, bilinear_form, convolve, spectrum
from capmeter_research.papers.leic.shape import CriticInput, CriticShape

_SENTENCE_BATCH = 256
_BATCH_FLOATS = 1 << 22  # of all pairs' rows in one batch

Terms = Mapping[CriticInput, Reals]
Pairs = Mapping[CriticInput, npt.NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class _Lstm:
    """One layer, with its gates scaled so that one tanh serves all of them: σ(x) = (1 + tanh(x / 2)) / 2."""

    inner: Reals  # (inputs, 4 width)
    recurrent: Reals  # (width, 4 width)
    bias: Reals  # (4 width,)

    @classmethod
    def of(cls, kernel: Reals, bias: Reals, width: int) -> _Lstm:
        scale = np.repeat(np.array([0.5, 1.0, 0.5, 0.5], kernel.dtype), width)
        forget_bias = np.repeat(np.array([0.0, 0.0, 1.0, 0.0], kernel.dtype), width)
        return cls(kernel[:-width] * scale, np.ascontiguousarray(kernel[-width:] * scale), (bias + forget_bias) * scale)

    def run(self, inputs: Reals, *, all_steps: bool) -> Reals:
        """The state after the last step (n, width), or after each (steps, n, width).

        Args:
            inputs: the inputs' terms of the gates, (steps, n, 4 width).
            all_steps: whether to return all states.
        """
        width = len(self.recurrent)
        steps, n = inputs.shape[:2]
        state = cell = np.zeros((n, width), inputs.dtype)
        states = np.empty((steps, n, width), inputs.dtype) if all_steps else None
        half = inputs.dtype.type(0.5)
        for step in range(steps):
            gates = np.tanh(inputs[step] if step == 0 else inputs[step] + state @ self.recurrent)
            enter, candidate, forget, output = (gates[:, k * width : (k + 1) * width] for k in range(4))
            cell = half * ((1 + forget) * cell + (1 + enter) * candidate)
            state = half * (1 + output) * np.tanh(cell)
            if states is not None:
                states[step] = state
        return state if states is None else states


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
            actual = weights[name].shape if name in weights else None
            if actual is None or actual != tuple(np.where(np.array(size) < 0, actual[0], size) if actual else size):
                raise InputError(f"critic: weight {name}: expected the shape {list(size)}, but got {actual}")
        self.embedding = weights["embedding"]
        self._lstm = [
            _Lstm.of(weights[f"lstm.{k}.kernel"], weights[f"lstm.{k}.bias"], shape.width) for k in range(shape.layers)
        ]
        self._dense = [(weights[f"{name}.kernel"], weights[f"{name}.bias"]) for name, _, _ in shape.dense_layers]
        self._image = (weights["image.kernel"], weights["image.bias"]) if shape.sees_image else None
        self._sketch: dict[CriticInput, CountSketch] = {}
        self._form: dict[CriticInput, Reals] = {}
        if shape.fusion == "bilinear":
            sketch_seeds, context_inputs = shape.sketches, shape.inputs[:-1]
            joint_sketch = CountSketch.from_seeds(shape.width * len(context_inputs), shape.pooled, *sketch_seeds[:2])
            for k, name in enumerate(context_inputs):
                self._sketch[name] = joint_sketch.take(k * shape.width, (k + 1) * shape.width)
            self._sketch["candidate"] = CountSketch.from_seeds(shape.width, shape.pooled, *sketch_seeds[2:])
            if not shape.hidden:
                kernel, candidate_sketch = self._dense[0][0], self._sketch["candidate"]
                self._form = {
                    name: bilinear_form(kernel, self._sketch[name], candidate_sketch) for name in context_inputs
                }

    def encode(self, sentences: Ragged) -> Reals:
        """The LSTM's state at the end of each sentence of word ids, (n, width); 0 for one without words."""
        sentence_states = np.zeros((len(sentences), self.shape.width), self.embedding.dtype)
        used_ids, word_rows = np.unique(sentences.values, return_inverse=True)
        first = self._lstm[0]
        gate_terms = self.embedding[used_ids] @ first.inner + first.bias  # the gate terms of every word that occurs
        lengths = sentences.lengths
        with task("LEIC", total=int((lengths > 0).sum())) as advance:
            for length in np.unique(lengths[lengths > 0]).tolist():
                sentence_indices = np.flatnonzero(lengths == length)
                for batch_start in range(0, len(sentence_indices), _SENTENCE_BATCH):
                    batch = sentence_indices[batch_start : batch_start + _SENTENCE_BATCH]
                    batch_words = word_rows[sentences.offsets[batch] + np.arange(length)[:, None]]  # (length, n)
                    sentence_states[batch] = self._run_lstm(gate_terms[batch_words])
                    advance(len(batch))
        return sentence_states

    def _run_lstm(self, inputs: Reals) -> Reals:
        for layer, next_layer in zip(self._lstm, self._lstm[1:], strict=False):
            inputs = layer.run(inputs, all_steps=True) @ next_layer.inner + next_layer.bias
        return self._lstm[-1].run(inputs, all_steps=False)

    def project_image(self, features: Reals) -> Reals:
        """Image features (n, image) projected to the width of sentences: (n, width)."""
        if self._image is None:
            raise InputError(f"a critic with context={self.shape.context} has no image")
        kernel, bias = self._image
        projected: Reals = features.astype(kernel.dtype) @ kernel + bias
        return projected

    def fusion_terms(self, name: CriticInput, vectors: Reals) -> Reals:
        """The term of each vector in the fusion: in the first dense layer or bilinear form, or its sketch's spectrum.

        Args:
            name: which input the vectors are.
            vectors: sentences or projected images, (n, width).
        """
        if self._form:
            return vectors if name == "candidate" else np.tensordot(vectors, self._form[name], 1)
        if self.shape.fusion == "bilinear":
            return spectrum(self._sketch[name](vectors))
        width, input_index = self.shape.width, self.shape.inputs.index(name)
        term: Reals = vectors @ self._dense[0][0][input_index * width : (input_index + 1) * width]
        return term

    def logits(self, terms: Terms, pairs: Pairs) -> Reals:
        """The classifier's outputs (human, machine) for pairs, (n, 2).

        Args:
            terms: from `fusion_terms`, for each of the shape's inputs.
            pairs: for each input, the rows of its terms that make the pairs, (n,).
        """
        pair_count = len(pairs["candidate"])
        largest_width = max(self.shape.fused_width if self.shape.fusion == "bilinear" else 0, *self.shape.hidden, 2)
        batch_size = max(1, _BATCH_FLOATS // largest_width)
        logits = np.empty((pair_count, 2), self.embedding.dtype)
        for batch_start in range(0, pair_count, batch_size):
            batch_rows = slice(batch_start, batch_start + batch_size)
            logits[batch_rows] = self._classify(
                *(terms[input_name][pairs[input_name][batch_rows]] for input_name in self.shape.inputs)
            )
        return logits

    def _classify(self, *fused: Reals) -> Reals:
        (kernel, bias), *later_layers = self._dense
        *context, candidate = fused
        if self._form:
            logits: Reals = np.einsum("nkd,nd->nk", sum(context[1:], context[0]), candidate) + bias
            return logits
        if self.shape.fusion == "bilinear":
            pooled_product = convolve(sum(context[1:], context[0]), candidate, self.shape.pooled)
            values = pooled_product.astype(kernel.dtype) @ kernel + bias
        else:
            values = sum(context, candidate) + bias
        for kernel, bias in later_layers:
            values = np.maximum(values, 0) @ kernel + bias
        return values


def human_probability(logits: Reals) -> npt.NDArray[np.float64]:
    """softmax(logits)₀, the probability of "written by a human", in float64."""
    log_odds = logits[:, 1].astype(np.float64) - logits[:, 0].astype(np.float64)
    probability: npt.NDArray[np.float64] = 0.5 - 0.5 * np.tanh(log_odds / 2)
    return probability


def weight_shapes(shape: CriticShape) -> dict[str, tuple[int, ...]]:
    """The shape of every weight by name; -1 for the size of the vocabulary."""
    width = shape.width
    shapes: dict[str, tuple[int, ...]] = {"embedding": (-1, shape.embedding)}
    for k in range(shape.layers):
        shapes[f"lstm.{k}.kernel"] = ((width if k else shape.embedding) + width, 4 * width)
        shapes[f"lstm.{k}.bias"] = (4 * width,)
    if shape.sees_image:
        shapes |= {"image.kernel": (shape.image, width), "image.bias": (width,)}
    for layer_name, inputs, outputs in shape.dense_layers:
        shapes |= {f"{layer_name}.kernel": (inputs, outputs), f"{layer_name}.bias": (outputs,)}
    return shapes


def cast_weights(weights: Mapping[str, npt.NDArray[Any]], dtype: npt.DTypeLike = np.float32) -> dict[str, Reals]:
    """Weights as stored (often float16) in the precision to compute with."""
    return {weight_name: np.asarray(values, dtype) for weight_name, values in weights.items()}
