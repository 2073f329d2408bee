"""The graph maker's network, its forward pass in numpy: reads a sentence and writes its facts.

The reader is `FactReader`. A writer is a decoder of the Transformer (Vaswani et al. 2017), normalised before each part.
What comes next is a token of the vocabulary or a word of the sentence: both are scored by one softmax, and a word that
can be written or copied has the sum of both probabilities (Gu et al. 2016). Of several writers the mean is taken.

What is written is searched for with beams: the likeliest beginnings are kept, if they are not far behind the best one,
and of what has ended the one with the highest mean log probability of a token wins. No token follows itself; a
thing that a sentence has once is not related to itself.

The sentences of one call have the same number of words, so nothing is padded.

J. Gu, Z. Lu, H. Li, V. Li. Incorporating Copying Mechanism in Sequence-to-Sequence Learning. ACL 2016.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.fact_reader import FactReader, ReaderShape
from capmeter.text.fact_vocabulary import NEXT_NUMBER, NOTHING_NUMBER, OPEN_NUMBER, OTHER_NUMBER, STOP_NUMBER
from capmeter.text.parser_network import Floats, Integers, Linear

READER = "reader."
WRITER = "writers.{}."
BEAMS = 2
_FURTHER = 4  # tokens within which a beginning must be able to win
_BEHIND = np.float32(2.0)  # how much less log probability a beginning may have than the likeliest of its sentence
_EPSILON = np.float32(1e-5)  # of the layer normalisation, as in torch
_LEAST = np.float32(1e-12)  # of a probability


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
        shape: the writers' sizes.
        writers: their number.
        predicates: the numbers of the tokens after which a fact's object begins.
    """

    def __init__(
        self,
        weights: Mapping[str, npt.NDArray[Any]],
        reader: ReaderShape,
        shape: WriterShape,
        writers: int = 1,
        predicates: Collection[int] = (),
    ) -> None:
        self.shape, self.predicates = shape, np.array(sorted(predicates), np.int64)
        self.reader = FactReader(_under(weights, READER), reader)
        self._writers = _Writers([_under(weights, WRITER.format(number)) for number in range(writers)], shape)

    def read(self, words: Integers, vectors: Floats) -> Floats:
        """What is read of words [B, n], positions in `vectors` (`FactReader.vectors`)."""
        return self.reader.read(words, vectors)

    def write(
        self,
        read: Floats,
        copied: Integers,
        most: int,
        single: Sequence[Collection[int]] = (),
        beams: int = BEAMS,
    ) -> list[list[int]]:
        """The tokens of each sentence, without the last (`STOP_NUMBER`).

        Args:
            read: from `read`.
            copied: the numbers of the words and of their base forms as tokens [B, 2n].
            most: tokens written at most.
            single: for each sentence the tokens that name one thing, which is not related to itself.
            beams: beginnings that are kept of a sentence; 1: the likeliest token is taken each time.
        """
        count, most = len(read), min(most, self.shape.steps)
        best, found = np.full(count, -np.inf), [list[int]() for _ in range(count)]
        begun = self._writers.begin(read, copied)
        sentences, values, last = np.arange(count), np.zeros(count, np.float32), np.full(count, NOTHING_NUMBER)
        written, subjects = np.zeros((count, 0), np.int64), np.full(count, NOTHING_NUMBER)
        for step in range(most):
            chances = self._writers.chances(last, step, begun)
            chances[np.arange(len(last)), last] = 0  # no token follows itself: loops would have high mean probabilities
            chances[np.arange(len(last)), subjects] = 0
            rows, last, values = _likeliest(chances, values, sentences, beams)
            before, sentences = sentences, sentences[rows]
            written = np.column_stack([written[rows], last])
            subjects = np.where(last == NEXT_NUMBER, NOTHING_NUMBER, subjects[rows])
            for row in np.flatnonzero(np.isin(last, self.predicates)).tolist() if single else ():
                subject = self._subject(written[row], copied.shape[1] // 2)
                subjects[row] = subject if subject in single[sentences[row]] else NOTHING_NUMBER
            ended = (last == STOP_NUMBER) | (step + 1 == most)
            for row in np.flatnonzero(ended).tolist():
                sentence, value = sentences[row], values[row] / (step + 1)
                if value > best[sentence]:
                    best[sentence], found[sentence] = value, written[row].tolist()
            going = np.flatnonzero(~ended & (values / (step + 1 + _FURTHER) > best[sentences]))
            if not len(going):
                break
            rows, sentences, subjects = rows[going], sentences[going], subjects[going]
            values, last, written = values[going], last[going], written[going]
            begun = begun.take(rows, same=np.array_equal(sentences, before))
        return [tokens[:-1] if tokens[-1:] == [STOP_NUMBER] else tokens for tokens in found]

    def _subject(self, tokens: Integers, length: int) -> int:
        """The last word of the subject of the fact that is being written about a sentence of this length."""
        fact = tokens[max(np.flatnonzero(tokens == NEXT_NUMBER), default=-1) + 1 :]
        verbs = self._writers.known + length  # base forms are behind the words
        end = int(np.argmax((fact >= verbs) | (fact == OPEN_NUMBER) | np.isin(fact, self.predicates)))
        return int(fact[end - 1]) if end else NOTHING_NUMBER


def _under(weights: Mapping[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): values for name, values in weights.items() if name.startswith(prefix)}


def _likeliest(chances: Floats, values: Floats, sentences: Integers, beams: int) -> tuple[Integers, Integers, Floats]:
    """The rows, tokens and values of the likeliest beginnings of each sentence, the rows in the sentences' order.

    Args:
        chances: probabilities of each next token after R beginnings [R, tokens].
        values: log probabilities of the beginnings.
        sentences: of the beginnings, ascending.
        beams: how many are kept of a sentence.
    """
    few = min(beams, chances.shape[1])
    tokens = np.argpartition(chances, -few, axis=1)[:, -few:] if few > 1 else chances.argmax(axis=1)[:, None]
    logs = np.log(np.take_along_axis(chances, tokens, axis=1) + _LEAST)
    values, tokens = (logs + values[:, None]).ravel(), tokens.ravel()
    rows = np.repeat(np.arange(len(chances)), few)
    order = np.lexsort((tokens, -values, sentences[rows]))
    of = sentences[rows[order]]
    first = np.searchsorted(of, of)
    kept = (np.arange(len(order)) - first < beams) & (values[order] > values[order[first]] - _BEHIND)
    order = order[kept]
    return rows[order], tokens[order], values[order]


class _Writers:
    """Decoders of one shape, which run side by side: the first axis is that of the writers, W."""

    def __init__(self, weights: Sequence[Mapping[str, npt.NDArray[Any]]], shape: WriterShape) -> None:
        self.shape = shape
        self._weights = {
            name: np.stack([np.asarray(each[name], np.float32) for each in weights]) for name in weights[0]
        }
        self._tokens, self._steps = self._weights["tokens.weight"], self._weights["steps.weight"]
        _, self.known, self.width = self._tokens.shape
        self._joined = self.linear("joined")
        self._joined_norm = self._weights["joined_norm.weight"][:, None], self._weights["joined_norm.bias"][:, None]
        self._layers = [_WriterLayer(self, f"layers.{k}") for k in range(shape.layers)]
        self._choice = self.normalised_linear("written", "choice")
        self._copy_query = self.normalised_linear("written", "copy_query")
        self._copy_key, self._copied = self.linear("copy_key"), self.linear("copied")
        if self._steps.shape[1] != shape.steps:
            raise ValueError(f"weights for {self._steps.shape[1]} steps, expected {shape.steps}")

    def linear(self, name: str) -> Linear:
        """The linear maps of this name."""
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return Linear(np.ascontiguousarray(weight.transpose(0, 2, 1)), bias[:, None])

    def normalised_linear(self, norm: str, name: str) -> Linear:
        """The linear maps with the scale and shift of the normalisation before them."""
        linear = self.linear(name)
        scale, shift = self._weights[f"{norm}.weight"], self._weights[f"{norm}.bias"]
        return Linear(scale[:, :, None] * linear.weight, linear.bias + shift[:, None] @ linear.weight)

    def begin(self, read: Floats, copied: Integers) -> _Begun:
        """What is kept of sentences, before anything is written."""
        count, _, width = read.shape
        scale, shift = self._joined_norm
        states = _normalised(self._joined(read.reshape(-1, width))) * scale + shift
        keys, words = (_twice(each(states), count) for each in (self._copy_key, self._copied))
        memories = [layer.memory(states, count) for layer in self._layers]
        return _Begun(memories, keys.swapaxes(2, 3) / np.sqrt(np.float32(self.width)), words, copied)

    def chances(self, last: Integers, step: int, begun: _Begun) -> Floats:
        """The mean probability of each token and each own word as the next one [R, tokens + 2n]."""
        rows, length = np.arange(len(last)), begun.copied.shape[1]
        x = self._tokens[:, np.where(last < self.known, last, OTHER_NUMBER)]
        own = np.flatnonzero(last >= self.known)
        x[:, own] = begun.words[:, own, last[own] - self.known]
        x += self._steps[:, step : step + 1]
        for layer, memory in zip(self._layers, begun.memories, strict=True):
            layer.add_to(x, memory)
        x = _normalised(x)
        chosen, copies = self._choice(x), (self._copy_query(x)[:, :, None, :] @ begun.keys)[:, :, 0, :]
        largest = np.maximum(chosen.max(axis=2), copies.max(axis=2))[:, :, None]
        np.exp(np.subtract(chosen, largest, out=chosen), out=chosen)
        np.exp(np.subtract(copies, largest, out=copies), out=copies)
        total = (chosen.sum(axis=2) + copies.sum(axis=2))[:, :, None] * np.float32(len(chosen))
        chosen /= total
        copies = (copies / total).sum(axis=0)
        found = np.zeros((len(last), self.known + length), np.float32)
        found[:, : self.known] = chosen.sum(axis=0)
        for place in range(length):
            found[rows, begun.copied[:, place]] += copies[:, place]
        found[:, [NOTHING_NUMBER, OTHER_NUMBER]] = 0
        return found


@dataclass(eq=False)
class _Begun:
    """What the writers keep of R beginnings.

    Args:
        memories: of each layer.
        keys: of the sentence's words and base forms, by which one is chosen [W, R, width, 2n].
        words: the same, as what was written last [W, R, 2n, width].
        copied: their numbers [R, 2n].
    """

    memories: list[_Memory]
    keys: Floats
    words: Floats
    copied: Integers

    def take(self, rows: Integers, *, same: bool) -> _Begun:
        """That of some beginnings. same: they are of the same sentences, in the same order."""
        memories = [memory.take(rows, same=same) for memory in self.memories]
        if same:
            return _Begun(memories, self.keys, self.words, self.copied)
        return _Begun(memories, self.keys[:, rows], self.words[:, rows], self.copied[rows])


@dataclass(eq=False)
class _Memory:
    """What a layer of the writers keeps: keys and values of what was read, and of the S tokens written so far.

    Args:
        read: [W, R, heads, width / heads, n] and [W, R, heads, n, width / heads].
        keys: [W, R, heads, width / heads, S].
        values: [W, R, heads, S, width / heads].
    """

    read: tuple[Floats, Floats]
    keys: Floats
    values: Floats

    def take(self, rows: Integers, *, same: bool) -> _Memory:
        """That of some beginnings. same: they are of the same sentences, in the same order."""
        if same and np.array_equal(rows, np.arange(self.keys.shape[1])):
            return self
        keys, values = self.read
        read = self.read if same else (keys[:, rows], values[:, rows])
        return _Memory(read, self.keys[:, rows], self.values[:, rows])


class _WriterLayer:
    """A layer of the writers, one step at a time."""

    def __init__(self, network: _Writers, name: str) -> None:
        self.heads = network.shape.heads
        self.width = network.width // self.heads
        self.split = network.normalised_linear(f"{name}.itself_norm", f"{name}.itself")
        self.itself_join = network.linear(f"{name}.itself_join")
        self.query = network.normalised_linear(f"{name}.read_norm", f"{name}.query")
        self.key_value = network.linear(f"{name}.key_value")
        self.read_join = network.linear(f"{name}.read_join")
        self.widen = network.normalised_linear(f"{name}.norm", f"{name}.widen")
        self.narrow = network.linear(f"{name}.narrow")

    def memory(self, states: Floats, count: int) -> _Memory:
        """The keys and values of what was read: the states of the words of `count` sentences [W, words, width]."""
        writers = len(states)
        both = self.key_value(states).reshape(writers, count, -1, 2, self.heads, self.width)
        keys = np.ascontiguousarray(both[:, :, :, 0].transpose(0, 1, 3, 4, 2))
        values = np.ascontiguousarray(both[:, :, :, 1].transpose(0, 1, 3, 2, 4))
        return _Memory((keys, values), keys[..., :0], values[..., :0, :])

    def add_to(self, x: Floats, memory: _Memory) -> None:
        """Adds this layer to what is written at this step [W, R, width], in place; the step joins the memory."""
        parts = self.split(_normalised(x)).reshape(*x.shape[:2], 3, self.heads, self.width)
        memory.keys = np.concatenate([memory.keys, parts[:, :, 1, :, :, None]], axis=4)
        memory.values = np.concatenate([memory.values, parts[:, :, 2, :, None, :]], axis=3)
        x += self.itself_join(self._gathered(parts[:, :, 0], memory.keys, memory.values))
        queries = self.query(_normalised(x)).reshape(*x.shape[:2], self.heads, self.width)
        x += self.read_join(self._gathered(queries, *memory.read))
        wide = self.widen(_normalised(x))
        x += self.narrow(np.maximum(wide, 0, out=wide))

    def _gathered(self, queries: Floats, keys: Floats, values: Floats) -> Floats:
        weights: Floats = (queries[..., None, :] @ keys) / np.sqrt(np.float32(self.width))
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.ascontiguousarray((weights @ values)[..., 0, :]).reshape(*queries.shape[:2], -1)


def _twice(x: Floats, count: int) -> Floats:
    """[W, B · n, 2 width] as [W, B, 2n, width]: what stands for the words, then what stands for their base forms."""
    return np.concatenate(np.split(x.reshape(len(x), count, -1, x.shape[2]), 2, axis=3), axis=2)


def _normalised(x: Floats) -> Floats:
    """Every row with mean 0 and variance 1."""
    centred: Floats = x - x.mean(axis=-1, keepdims=True)
    spread = np.einsum("...d,...d->...", centred, centred) / np.float32(x.shape[-1])
    centred /= np.sqrt(spread + _EPSILON)[..., None]
    return centred
