"""The caption parser's network, its forward pass in numpy.

A word's vector is the sum of its features' vectors, plus what a window of three words adds. Layers of self-attention
(Vaswani et al. 2017; normalised before each half, attention biased by the distance of two words) read the whole
sentence. After some of them the words' tags are predicted and fed to the following layers, so that the tree fits the
tags. Biaffine scores (Dozat and Manning 2017) say which word governs which; a small perceptron over a word and its
governor predicts the relation.

The sentences of one call have the same number of words, so nothing is padded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_EPSILON = np.float32(1e-5)  # of the layer normalisation, as in torch
_IMPOSSIBLE = np.float32(-1e9)


@dataclass(frozen=True)
class NetworkShape:
    """What cannot be inferred from the shapes of the weights.

    Args:
        heads: number of attention heads.
        layers: number of self-attention layers.
        tags_after: the number of layers before tags are predicted.
    """

    heads: int = 4
    layers: int = 4
    tags_after: int = 2


@dataclass(frozen=True, eq=False)
class Linear:
    """x ↦ xW + b."""

    weight: Floats
    bias: Floats

    def __call__(self, rows: Floats) -> Floats:
        """The rows, mapped."""
        result: Floats = rows @ self.weight
        result += self.bias
        return result


class ParserNetwork:
    """The trained network.

    Args:
        weights: the tensors of `capmeter.learning.parser.network.ParserModule` by name.
        shape: what they do not tell.
    """

    def __init__(self, weights: Mapping[str, npt.NDArray[np.floating]], shape: NetworkShape) -> None:
        self.shape = shape
        self._weights = {name: np.ascontiguousarray(values, np.float32) for name, values in weights.items()}
        self.width = self._weights["features.weight"].shape[1]
        window = self._linear("window")
        self._before, self._here, self._after = np.split(window.weight, 3)
        self._window_bias = window.bias
        self._layers = [_Layer(self, f"layers.{k}", shape.heads) for k in range(shape.layers)]
        self._tag = self._normalised_linear("tag_norm", "tag")
        self._dependent = self._normalised_linear("norm", "dependent")
        self._head = _Governors(self, "head")
        self._relation_dependent = self._normalised_linear("norm", "relation_dependent")
        self._relation_head = _Governors(self, "relation_head")
        self._relation = self._linear("relation")
        agreement = self._weights["agreement.weight"]
        self._agreement = np.ascontiguousarray(agreement.T / np.sqrt(np.float32(agreement.shape[0])))

    def _linear(self, name: str) -> Linear:
        bias = self._weights.get(f"{name}.bias")
        weight = np.ascontiguousarray(self._weights[f"{name}.weight"].T)
        return Linear(weight, np.zeros(weight.shape[1], np.float32) if bias is None else bias)

    def _normalised_linear(self, norm: str, name: str) -> Linear:
        """The linear map with the scale and shift of the normalisation before it."""
        linear = self._linear(name)
        scale, shift = self._weights[f"{norm}.weight"], self._weights[f"{norm}.bias"]
        return Linear(scale[:, None] * linear.weight, linear.bias + shift @ linear.weight)

    def vectors(self, rows: Integers) -> tuple[Floats, Floats]:
        """The vectors of distinct words from their features' numbers, shape [words, features].

        Returns:
            The vectors [words + 1, width], the last one zero (beyond a sentence's ends), and what each word adds to
            the word after it, to itself and to the word before it [3, words + 1, width].
        """
        embedded = self._weights["features.weight"]
        vectors = np.zeros((len(rows) + 1, self.width), np.float32)
        for column in rows.T:
            vectors[:-1] += embedded[column]
        return vectors, np.stack([vectors @ self._before, vectors @ self._here, vectors @ self._after])

    def read_words(self, words: Integers, vectors: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """The layers before tags are predicted.

        Args:
            words: shape [sentences, n], positions in `vectors`.
            vectors: the result of `vectors`.

        Returns:
            States [sentences, n, width] and the scores of every tag [sentences, n, tags].
        """
        own, shares = vectors
        count, length = words.shape
        beyond = np.full((count, 1), len(own) - 1, np.int64)
        around = np.concatenate([beyond, words, beyond], axis=1)
        seen = shares[1][words] + self._window_bias
        seen += shares[0][around[:, :-2]]
        seen += shares[2][around[:, 2:]]
        states = (own[words] + np.maximum(seen, 0, out=seen)).reshape(count * length, self.width)
        for layer in self._layers[: self.shape.tags_after]:
            layer.add_to(states, count, length)
        scores = self._tag(_normalised(states)).reshape(count, length, -1)
        return states.reshape(count, length, self.width), scores

    def read_tagged(self, states: Floats, tags: Integers) -> Floats:
        """The layers that know the tags [sentences, n]; the states behind trees and relations, normalised."""
        count, length, width = states.shape
        tagged = (states + self._weights["tag_vectors.weight"][tags]).reshape(count * length, width)
        for layer in self._layers[self.shape.tags_after :]:
            layer.add_to(tagged, count, length)
        return _normalised(tagged).reshape(count, length, width)

    def governors(self, states: Floats) -> Floats:
        """How well each word governs each, [sentences, n, n + 1]: (dependent, governor), governor 0 is the root."""
        length = states.shape[1]
        dependents = np.maximum(self._dependent(states), 0) @ self._agreement
        governors = np.maximum(self._head(states), 0)
        scores: Floats = dependents @ governors.transpose(0, 2, 1)
        scores += (governors @ self._weights["governor_bias.weight"][0])[:, None, :]
        distances = self._weights["distance"]
        scores += distances[_distances(length, len(distances) // 2)]
        place = np.arange(length)
        scores[:, place, place + 1] = _IMPOSSIBLE
        return scores

    def relations(self, states: Floats, heads: Integers) -> Floats:
        """The scores of every label for the arc from each word to its head, [sentences, n, labels]."""
        governors = np.take_along_axis(self._relation_head(states), heads[:, :, None], axis=1)
        governors += self._relation_dependent(states)
        return self._relation(np.maximum(governors, 0, out=governors))


class _Governors:
    """A linear map of the root's own vector and of all states, [sentences, n + 1, …]."""

    def __init__(self, network: ParserNetwork, name: str) -> None:
        self.root = network._linear(name)(network._weights["root"])
        self.words = network._normalised_linear("norm", name)

    def __call__(self, states: Floats) -> Floats:
        count, length, _ = states.shape
        mapped = np.empty((count, length + 1, len(self.root)), np.float32)
        mapped[:, 0] = self.root
        mapped[:, 1:] = self.words(states)
        return mapped


class _Layer:
    """Self-attention and a perceptron, each added to what it reads."""

    def __init__(self, network: ParserNetwork, name: str, heads: int) -> None:
        self.heads = heads
        self.width = network.width // heads
        self.attend = network._normalised_linear(f"{name}.attention_norm", f"{name}.attend")
        self.attend.weight[:, : network.width] /= np.sqrt(np.float32(self.width))
        self.attend.bias[: network.width] /= np.sqrt(np.float32(self.width))
        self.mix = network._linear(f"{name}.mix")
        self.widen = network._normalised_linear(f"{name}.perceptron_norm", f"{name}.widen")
        self.narrow = network._linear(f"{name}.narrow")
        self.distance = network._weights[f"{name}.distance"]

    def add_to(self, states: Floats, count: int, length: int) -> None:
        """Adds to the states, shape [sentences · n, width], in place."""
        width = self.heads * self.width
        parts = self.attend(_normalised(states)).reshape(count, length, 3, self.heads, self.width)
        query, key, value = (parts[:, :, k].transpose(0, 2, 1, 3) for k in range(3))
        weights = query @ key.transpose(0, 1, 3, 2)
        weights += self.distance[:, _distances(length, self.distance.shape[1] // 2)[:, 1:]]
        weights -= weights.max(axis=3, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=3, keepdims=True)
        states += self.mix((weights @ value).transpose(0, 2, 1, 3).reshape(count * length, width))
        wide = self.widen(_normalised(states))
        states += self.narrow(np.maximum(wide, 0, out=wide))


def _distances(length: int, reach: int) -> Integers:
    """Positions in a table of distances −reach … reach for each word and place 0 (the root), 1 … n."""
    place = np.arange(length + 1)
    distances: Integers = np.clip(place[None, :] - place[1:, None], -reach, reach) + reach
    return distances


def _normalised(states: Floats) -> Floats:
    """Every row with mean 0 and variance 1."""
    centred: Floats = states - states.mean(axis=1, keepdims=True)
    spread = np.einsum("td,td->t", centred, centred) / np.float32(states.shape[1])
    centred /= np.sqrt(spread + _EPSILON)[:, None]
    return centred
