"""The graph maker's network, its forward pass in numpy: reads a sentence and writes its facts.

The reader is `FactReader`. The writer is a decoder of the Transformer (Vaswani et al.
2017), normalised before each part. What comes next is a token of the vocabulary or a word of the sentence: both are
scored by one softmax, and a word that can be written or copied has the sum of both probabilities (Gu et al. 2016).

The sentences of one call have the same number of words, so nothing is padded.

J. Gu, Z. Lu, H. Li, V. Li. Incorporating Copying Mechanism in Sequence-to-Sequence Learning. ACL 2016.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.fact_reader import FactReader, ReaderShape
from capmeter.text.fact_vocabulary import NOTHING_NUMBER, OTHER_NUMBER, STOP_NUMBER
from capmeter.text.parser_network import Floats, Integers, Linear

READER = "reader."
_EPSILON = np.float32(1e-5)  # of the layer normalisation, as in torch


@dataclass(frozen=True)
class WriterShape:
    """Sizes of the writer.

    Args:
        layers: their number.
        heads: attention heads.
        hidden: width of the perceptrons.
        steps: the largest number of tokens that are written.
    """

    layers: int = 2
    heads: int = 4
    hidden: int = 384
    steps: int = 96


class FactNetwork:
    """The trained network.

    Args:
        weights: the tensors of `capmeter.learning.factual.network.FactModule` by name.
        reader: the reader's sizes.
        shape: the writer's sizes.
    """

    def __init__(self, weights: Mapping[str, npt.NDArray[Any]], reader: ReaderShape, shape: WriterShape) -> None:
        self.shape = shape
        inside = {name.removeprefix(READER): values for name, values in weights.items() if name.startswith(READER)}
        self.reader = FactReader(inside, reader)
        self._weights = {
            name: np.ascontiguousarray(values, np.float32)
            for name, values in weights.items()
            if not name.startswith(READER)
        }
        self._tokens, self._steps = self._weights["tokens.weight"], self._weights["steps.weight"]
        self.width = self._tokens.shape[1]
        self._joined = self.linear("joined")
        self._writer = [_WriterLayer(self, f"writer.{k}") for k in range(shape.layers)]
        self._choice = self.normalised_linear("written", "choice")
        self._copy_query = self.normalised_linear("written", "copy_query")
        self._copy_key, self._copied = self.linear("copy_key"), self.linear("copied")
        self.known = len(self._tokens)
        if len(self._steps) != shape.steps:
            raise ValueError(f"weights for {len(self._steps)} steps, expected {shape.steps}")

    def linear(self, name: str) -> Linear:
        """The linear map of this name."""
        return Linear(np.ascontiguousarray(self._weights[f"{name}.weight"].T), self._weights[f"{name}.bias"])

    def normalised_linear(self, norm: str, name: str) -> Linear:
        """The linear map with the scale and shift of the normalisation before it."""
        linear = self.linear(name)
        scale, shift = self._weights[f"{norm}.weight"], self._weights[f"{norm}.bias"]
        return Linear(scale[:, None] * linear.weight, linear.bias + shift @ linear.weight)

    def read(self, words: Integers, vectors: Floats) -> Floats:
        """States [B, n, width] of words [B, n], positions in `vectors` (`FactReader.vectors`)."""
        both = self.reader.read(words, vectors)
        joined = _normalised(self._joined(both.reshape(-1, both.shape[2]))) * self._weights["joined_norm.weight"]
        joined += self._weights["joined_norm.bias"]
        return joined.reshape(*words.shape, self.width)

    def write(self, states: Floats, copied: Integers, most: int) -> list[list[int]]:
        """The tokens that are likeliest one after the other, for each sentence, without the last (`STOP_NUMBER`).

        Args:
            states: from `read`, [B, n, width].
            copied: the numbers of the words and of their base forms as tokens [B, 2n].
            most: tokens written at most.
        """
        count = len(states)
        found: list[list[int]] = [[] for _ in range(count)]
        rows, last = np.arange(count), np.full(count, NOTHING_NUMBER)
        memories = [layer.memory(states) for layer in self._writer]
        keys = _twice(self._copy_key(states)).transpose(0, 2, 1) / np.sqrt(np.float32(self.width))
        words = _twice(self._copied(states))
        for step in range(min(most, self.shape.steps)):
            last = self._likelihoods(last, step, memories, keys, words, copied).argmax(axis=1)
            going = last != STOP_NUMBER
            for row, token in zip(rows[going].tolist(), last[going].tolist(), strict=True):
                found[row].append(token)
            if not going.any():
                break
            if not going.all():
                rows, last, copied, keys, words = rows[going], last[going], copied[going], keys[going], words[going]
                memories = [memory.take(going) for memory in memories]
        return found

    def _likelihoods(
        self, last: Integers, step: int, memories: list[_Memory], keys: Floats, words: Floats, copied: Integers
    ) -> Floats:
        """The probability, times a constant of each row, of each token and each own word as the next one."""
        rows, length = np.arange(len(last)), copied.shape[1]
        x = self._tokens[np.where(last < self.known, last, OTHER_NUMBER)]
        own = np.flatnonzero(last >= self.known)
        x[own] = words[own, last[own] - self.known]
        x += self._steps[step]
        for layer, memory in zip(self._writer, memories, strict=True):
            layer.add_to(x, memory)
        x = _normalised(x)
        chosen, copies = self._choice(x), (self._copy_query(x)[:, None, :] @ keys)[:, 0, :]
        largest = np.maximum(chosen.max(axis=1), copies.max(axis=1))[:, None]
        found = np.zeros((len(last), self.known + length), np.float32)
        np.exp(chosen - largest, out=found[:, : self.known])
        np.exp(copies - largest, out=copies)
        for place in range(length):
            found[rows, copied[:, place]] += copies[:, place]
        found[:, [NOTHING_NUMBER, OTHER_NUMBER]] = 0
        return found


@dataclass(eq=False)
class _Memory:
    """What a layer of the writer keeps: keys and values of what was read, and of what was written so far."""

    read: tuple[Floats, Floats]  # [B, heads, width / heads, n], [B, heads, n, width / heads]
    keys: list[Floats]  # of each step [B, heads, width / heads]
    values: list[Floats]

    def take(self, going: npt.NDArray[np.bool_]) -> _Memory:
        """That of some of the sentences."""
        keys, values = self.read
        return _Memory(
            (keys[going], values[going]), [each[going] for each in self.keys], [each[going] for each in self.values]
        )


class _WriterLayer:
    """A layer of the writer, one step at a time."""

    def __init__(self, network: FactNetwork, name: str) -> None:
        self.heads = network.shape.heads
        self.width = network.width // self.heads
        self.split = network.normalised_linear(f"{name}.itself_norm", f"{name}.itself")
        self.itself_join = network.linear(f"{name}.itself_join")
        self.query = network.normalised_linear(f"{name}.read_norm", f"{name}.query")
        self.key_value = network.linear(f"{name}.key_value")
        self.read_join = network.linear(f"{name}.read_join")
        self.widen = network.normalised_linear(f"{name}.norm", f"{name}.widen")
        self.narrow = network.linear(f"{name}.narrow")

    def memory(self, states: Floats) -> _Memory:
        """The keys and values of what was read."""
        count, length, _ = states.shape
        both = self.key_value(states).reshape(count, length, 2, self.heads, self.width)
        keys = np.ascontiguousarray(both[:, :, 0].transpose(0, 2, 3, 1))
        return _Memory((keys, np.ascontiguousarray(both[:, :, 1].transpose(0, 2, 1, 3))), [], [])

    def add_to(self, x: Floats, memory: _Memory) -> None:
        """Adds this layer to what is written at this step [B, width], in place; the step joins the memory."""
        count = len(x)
        queries, keys, values = self.split(_normalised(x)).reshape(count, 3, self.heads, self.width).swapaxes(0, 1)
        memory.keys.append(keys)
        memory.values.append(values)
        gathered = self._gathered(queries, np.stack(memory.keys, axis=3), np.stack(memory.values, axis=2))
        x += self.itself_join(gathered)
        queries = self.query(_normalised(x)).reshape(count, self.heads, self.width)
        x += self.read_join(self._gathered(queries, *memory.read))
        wide = self.widen(_normalised(x))
        x += self.narrow(np.maximum(wide, 0, out=wide))

    def _gathered(self, queries: Floats, keys: Floats, values: Floats) -> Floats:
        weights: Floats = (queries[:, :, None, :] @ keys) / np.sqrt(np.float32(self.width))
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.ascontiguousarray((weights @ values)[:, :, 0]).reshape(len(queries), -1)


def _twice(x: Floats) -> Floats:
    """[B, n, 2 width] as [B, 2n, width]: what stands for the words, then what stands for their base forms."""
    return np.concatenate(np.split(x, 2, axis=2), axis=1)


def _normalised(x: Floats) -> Floats:
    """Every row with mean 0 and variance 1."""
    centred: Floats = x - x.mean(axis=1, keepdims=True)
    spread = np.einsum("td,td->t", centred, centred) / np.float32(x.shape[1])
    centred /= np.sqrt(spread + _EPSILON)[:, None]
    return centred
