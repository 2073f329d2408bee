"""The scene-graph parser's sentence encoder: the lower layers of a BERT (Devlin et al. 2019), a forward pass in numpy.

    x = norm(word + position)                                                               for every word
    y = norm(x + softmax(Q Kᵀ / √d) V W + b),   x ← norm(y + gelu(y W + b) W + b)            for every layer

A word's embedding is the mean of its pieces' embeddings, so that there is one hidden state per word. The sentences of
one call have the same number of words n, so that nothing is padded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capmeter.text.parsing.numpy_layers import Floats, Integers, Weights, attend_to_itself, load_linear, normalise
from capmeter.text.scene_graphs.word_piece_vocabulary import BEGIN_ID, END_ID, PAD_ID

LAYER_NORM_EPSILON = 1e-12  # BERT's
_SLOPE, _CUBE = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)
_ROWS_AT_ONCE = 128  # of the feed-forward layer, which then stays in the processor's cache


@dataclass(frozen=True)
class SentenceEncoderShape:
    """Sizes of the encoder.

    Args:
        layers: number of layers.
        heads: number of attention heads.
        places: number of positions: the largest number of words, with the begin and end of the sentence.
    """

    layers: int = 2
    heads: int = 12
    places: int = 42


class SentenceEncoder:
    """The trained encoder.

    Args:
        weights: the tensors of the module that is trained by name.
        shape: what the weights do not say.
    """

    def __init__(self, weights: Weights, shape: SentenceEncoderShape) -> None:
        arrays = {weight_name: np.ascontiguousarray(values, np.float32) for weight_name, values in weights.items()}
        self._pieces, self._positions = arrays["pieces"], arrays["places"]
        self.dim = self._pieces.shape[1]
        self._norm = LayerNorm(arrays, "norm")
        self._layers = [_Layer(arrays, f"layers.{layer_index}", shape.heads) for layer_index in range(shape.layers)]
        if len(self._positions) != shape.places:
            raise ValueError(f"weights for {len(self._positions)} places, expected {shape.places}")

    def embed_words(self, piece_ids: Integers) -> Floats:
        """Embeds words.

        Args:
            piece_ids: the ids of their pieces (words, pieces).

        Returns:
            The embeddings (words + 2, dim), those of the begin and end of a sentence last.
        """
        embeddings = np.zeros((len(piece_ids) + 2, self.dim), np.float32)
        for piece_column in piece_ids.T:
            embeddings[:-2] += self._pieces[piece_column] * (piece_column != PAD_ID)[:, None]
        embeddings[:-2] /= (piece_ids != PAD_ID).sum(axis=1, keepdims=True)
        embeddings[-2:] = self._pieces[[BEGIN_ID, END_ID]]
        return embeddings

    def encode(self, words: Integers, embeddings: Floats) -> Floats:
        """Encodes sentences.

        Args:
            words: indices of embedded words (sentences, n).
            embeddings: the result of `embed_words`.

        Returns:
            The embedding and then the hidden state of each word (sentences, n, 2 · dim).
        """
        sentence_count, sentence_length = words.shape
        begin_rows, end_rows = (np.full((sentence_count, 1), len(embeddings) - k) for k in (2, 1))
        embedded_words = embeddings[np.concatenate([begin_rows, words, end_rows], axis=1)]
        x = self._norm((embedded_words + self._positions[: sentence_length + 2]).reshape(-1, self.dim))
        for layer in self._layers:
            x = layer(x, sentence_count)
        states = x.reshape(sentence_count, sentence_length + 2, self.dim)
        return np.concatenate([embedded_words[:, 1:-1], states[:, 1:-1]], axis=2)


class LayerNorm:
    """Normalises rows (rows, dim) to mean 0 and variance 1, then scales and shifts them."""

    def __init__(self, weights: Weights, name: str) -> None:
        self.scale, self.shift = weights[f"{name}.weight"], weights[f"{name}.bias"]

    def __call__(self, x: Floats) -> Floats:
        """Returns the normalised rows."""
        normalised_rows = normalise(x, np.float32(LAYER_NORM_EPSILON))
        normalised_rows *= self.scale
        normalised_rows += self.shift
        return normalised_rows


class _Layer:
    """Self-attention and a feed-forward network, each residual and post-normalised."""

    def __init__(self, weights: Weights, name: str, heads: int) -> None:
        self.heads = heads
        self.qkv, self.attention_out = (load_linear(weights, f"{name}.{part}") for part in ("heads", "join"))
        self.ffn_up, self.ffn_down = (load_linear(weights, f"{name}.{part}") for part in ("widen", "narrow"))
        self.attention_norm, self.ffn_norm = (LayerNorm(weights, f"{name}.{part}") for part in ("joined", "narrowed"))

    def __call__(self, x: Floats, sentences: int) -> Floats:
        """Returns the hidden states (words, dim) after the layer."""
        y = self.attention_out(attend_to_itself(self.qkv(x), sentences, self.heads))
        y += x
        y = self.attention_norm(y)
        for block_start in range(0, len(y), _ROWS_AT_ONCE):
            block = y[block_start : block_start + _ROWS_AT_ONCE]
            block += self.ffn_down(gelu(self.ffn_up(block)))
        return self.ffn_norm(y)


def gelu(x: Floats) -> Floats:
    """Returns x (1 + tanh(√(2/π) (x + .044715 x³))) / 2, the approximation of x Φ(x) that the encoder was trained with.

    >>> [round(float(value), 4) for value in gelu(np.array([-1, 0, 1], np.float32))]
    [-0.1588, 0.0, 0.8412]
    """
    inner: Floats = x * x
    inner *= _SLOPE * _CUBE
    inner += _SLOPE
    inner *= x
    np.tanh(inner, out=inner)
    inner += np.float32(1)
    inner *= x
    inner *= np.float32(0.5)
    return inner
