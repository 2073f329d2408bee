"""The caption parser's network: its forward pass in numpy.

A word's embedding is the sum of its features' embeddings, plus a projection of a window of three words. Layers of
self-attention (Vaswani et al. 2017; pre-normalised, attention biased by the distance of two words) encode the sentence.
After some of them the words' tags are predicted and fed to the following layers, so that the tree fits the tags.
Biaffine scores (Dozat and Manning 2017) say which word governs which; a perceptron over a word and its governor
predicts the relation.

The sentences of one call have the same number of words n, so that nothing is padded.

Layers of Transformers (Vaswani et al. 2017) in numpy: linear maps, normalisation, softmax, self-attention.

The networks that parse captions share them; recipes train their twins in torch. Arrays are float32.

Batches of sentences of equal length, processed by numpy on several threads.

Sentences of one batch have the same number of words, so that nothing is padded. The threads of one product of small
matrices mostly wait for each other; whole batches do not. There are as many threads as numpy's BLAS would use
(`OMP_NUM_THREADS` limits both), and meanwhile BLAS uses one in each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from capmeter.core.progress import task

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Weights = Mapping[str, npt.NDArray[Any]]

TORCH_EPSILON = np.float32(1e-5)  # of torch's layer normalisation


@dataclass(frozen=True, eq=False)
class Linear:
    """x ↦ xW + b."""

    weight: Floats  # (…, inputs, outputs)
    bias: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Maps rows (…, inputs) to (…, outputs)."""
        mapped_rows: Floats = rows @ self.weight
        mapped_rows += self.bias
        return mapped_rows


def load_linear(weights: Weights, name: str) -> Linear:
    """Reads a linear map as torch stores it, `name.weight` (outputs, inputs) and maybe `name.bias`."""
    bias: Floats | None = weights.get(f"{name}.bias")
    weight: Floats = np.ascontiguousarray(weights[f"{name}.weight"].T)
    return Linear(weight, np.zeros(weight.shape[1], np.float32) if bias is None else bias)


def _load_normalised_linear(weights: Weights, norm: str, name: str) -> Linear:
    """Reads a linear map and folds the scale and shift of the normalisation before it into it."""
    linear = load_linear(weights, name)
    scale: Floats = weights[f"{norm}.weight"]
    shift: Floats = weights[f"{norm}.bias"]
    return Linear(scale[:, None] * linear.weight, linear.bias + shift @ linear.weight)


def normalise(states: Floats, epsilon: np.float32 = TORCH_EPSILON) -> Floats:
    """Returns every row (…, dim) with mean 0 and variance 1."""
    centred_states: Floats = states - states.mean(axis=-1, keepdims=True)
    variance = np.einsum("...d,...d->...", centred_states, centred_states) / np.float32(states.shape[-1])
    centred_states /= np.sqrt(variance + epsilon)[..., None]
    return centred_states


def softmax(scores: Floats) -> Floats:
    """Applies the softmax over the last axis, in place."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def attend_to_itself(projections: Floats, sentences: int, heads: int, bias: Floats | None = None) -> Floats:
    """Multi-head self-attention over the words of sentences of one length n.

    Args:
        projections: queries, already scaled, keys and values (sentences · n, 3 · dim).
        sentences: number of sentences.
        heads: number of attention heads.
        bias: added to the attention logits (heads, n, n).

    Returns:
        The attended values (sentences · n, dim), before the output projection.
    """
    dim = projections.shape[1] // 3
    query, key, value = projections.reshape(sentences, -1, 3, heads, dim // heads).transpose(2, 0, 3, 1, 4)
    logits: Floats = query @ key.transpose(0, 1, 3, 2)
    if bias is not None:
        logits += bias
    attended_states: Floats = (softmax(logits) @ value).transpose(0, 2, 1, 3).reshape(-1, dim)
    return attended_states


_MASKED = np.float32(-1e9)


@dataclass(frozen=True)
class ParserShape:
    """What cannot be inferred from the shapes of the weights.

    Args:
        heads: number of attention heads.
        layers: number of self-attention layers.
        tags_after: number of layers before tags are predicted.
    """

    heads: int = 4
    layers: int = 4
    tags_after: int = 2


class ParserNetwork:
    """The trained network.

    Args:
        weights: the tensors of the module that is trained by name.
        shape: what the weights do not say.
    """

    def __init__(self, weights: Weights, shape: ParserShape) -> None:
        self.shape = shape
        self._weights = {
            weight_name: np.ascontiguousarray(weight_values, np.float32)
            for weight_name, weight_values in weights.items()
        }
        self._features = self._weights["features.weight"]
        self.dim = self._features.shape[1]
        window_layer = load_linear(self._weights, "window")
        self._windows, self._window_bias = np.split(window_layer.weight, 3), window_layer.bias
        self._layers = [
            _Layer(self._weights, f"layers.{layer_index}", shape.heads) for layer_index in range(shape.layers)
        ]
        self._tag = _load_normalised_linear(self._weights, "tag_norm", "tag")
        self._dependent = _load_normalised_linear(self._weights, "norm", "dependent")
        self._head = _GovernorMap(self._weights, "head")
        self._relation_dependent = _load_normalised_linear(self._weights, "norm", "relation_dependent")
        self._relation_head = _GovernorMap(self._weights, "relation_head")
        self._relation = load_linear(self._weights, "relation")
        agreement_weight = self._weights["agreement.weight"]
        self._agreement = np.ascontiguousarray(agreement_weight.T / np.sqrt(np.float32(agreement_weight.shape[0])))

    def embed_words(self, feature_ids: Integers) -> tuple[Floats, Floats]:
        """Embeds distinct words.

        Args:
            feature_ids: the ids of their features (words, features).

        Returns:
            The embeddings (words + 1, dim), the last one zero (beyond a sentence's ends), and what each word adds to
            the word after it, to itself and to the word before it (3, words + 1, dim).
        """
        embeddings = np.zeros((len(feature_ids) + 1, self.dim), np.float32)
        for feature_column in feature_ids.T:
            embeddings[:-1] += self._features[feature_column]
        return embeddings, np.stack([embeddings @ window for window in self._windows])

    def read_words(self, words: Integers, embedded: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """Runs the layers before tags are predicted.

        Args:
            words: indices of embedded words (sentences, n).
            embedded: the result of `embed_words`.

        Returns:
            Hidden states (sentences, n, dim) and the scores of every tag (sentences, n, tags).
        """
        embeddings, window_shares = embedded
        sentence_count, sentence_length = words.shape
        boundary_ids = np.full((sentence_count, 1), len(embeddings) - 1, np.int64)
        padded_words = np.concatenate([boundary_ids, words, boundary_ids], axis=1)
        window_states = window_shares[1][words] + self._window_bias
        window_states += window_shares[0][padded_words[:, :-2]]
        window_states += window_shares[2][padded_words[:, 2:]]
        states = (embeddings[words] + np.maximum(window_states, 0, out=window_states)).reshape(
            sentence_count * sentence_length, self.dim
        )
        for layer in self._layers[: self.shape.tags_after]:
            layer.add_to(states, sentence_count)
        tag_scores = self._tag(normalise(states)).reshape(sentence_count, sentence_length, -1)
        return states.reshape(sentence_count, sentence_length, self.dim), tag_scores

    def read_tagged(self, states: Floats, tags: Integers) -> Floats:
        """Runs the other layers, which know the tags (sentences, n).

        Returns:
            Normalised hidden states (sentences, n, dim), from which trees and relations are scored.
        """
        tagged_states = (states + self._weights["tag_vectors.weight"][tags]).reshape(-1, self.dim)
        for layer in self._layers[self.shape.tags_after :]:
            layer.add_to(tagged_states, len(states))
        return normalise(tagged_states).reshape(states.shape)

    def score_governors(self, states: Floats) -> Floats:
        """Scores each governor of each word (sentences, n, n + 1): (dependent, governor), governor 0 is the root."""
        sentence_length = states.shape[1]
        dependents = np.maximum(self._dependent(states), 0) @ self._agreement
        governors = np.maximum(self._head(states), 0)
        governor_scores: Floats = dependents @ governors.transpose(0, 2, 1)
        governor_scores += (governors @ self._weights["governor_bias.weight"][0])[:, None, :]
        distance_bias = self._weights["distance"]
        governor_scores += distance_bias[_distances(sentence_length, len(distance_bias) // 2)]
        word_positions = np.arange(sentence_length)
        governor_scores[:, word_positions, word_positions + 1] = _MASKED
        return governor_scores

    def score_relations(self, states: Floats, heads: Integers) -> Floats:
        """Scores every label for the arc from each word to its head (sentences, n, labels)."""
        relation_states = np.take_along_axis(self._relation_head(states), heads[:, :, None], axis=1)
        relation_states += self._relation_dependent(states)
        return self._relation(np.maximum(relation_states, 0, out=relation_states))


class _GovernorMap:
    """A linear map of the root's own vector and of all states: (sentences, n, dim) to (sentences, n + 1, outputs)."""

    def __init__(self, weights: Weights, name: str) -> None:
        self.root = load_linear(weights, name)(weights["root"])
        self.words = _load_normalised_linear(weights, "norm", name)

    def __call__(self, states: Floats) -> Floats:
        sentence_count, sentence_length, _ = states.shape
        mapped_states = np.empty((sentence_count, sentence_length + 1, len(self.root)), np.float32)
        mapped_states[:, 0] = self.root
        mapped_states[:, 1:] = self.words(states)
        return mapped_states


class _Layer:
    """Self-attention and a feed-forward network, each pre-normalised and residual."""

    def __init__(self, weights: Weights, name: str, heads: int) -> None:
        self.heads = heads
        self.qkv = _load_normalised_linear(weights, f"{name}.attention_norm", f"{name}.attend")
        dim = self.qkv.weight.shape[0]
        self.qkv.weight[:, :dim] /= np.sqrt(np.float32(dim // heads))
        self.qkv.bias[:dim] /= np.sqrt(np.float32(dim // heads))
        self.attention_out = load_linear(weights, f"{name}.mix")
        self.ffn_up = _load_normalised_linear(weights, f"{name}.perceptron_norm", f"{name}.widen")
        self.ffn_down = load_linear(weights, f"{name}.narrow")
        self.distance = weights[f"{name}.distance"]

    def add_to(self, states: Floats, sentences: int) -> None:
        """Adds to the states (sentences · n, dim), in place."""
        distance_ids = _distances(len(states) // sentences, self.distance.shape[1] // 2)[:, 1:]
        qkv = self.qkv(normalise(states))
        states += self.attention_out(attend_to_itself(qkv, sentences, self.heads, self.distance[:, distance_ids]))
        hidden_states = self.ffn_up(normalise(states))
        states += self.ffn_down(np.maximum(hidden_states, 0, out=hidden_states))


def _distances(sentence_length: int, reach: int) -> Integers:
    """Returns indices into a table of distances −reach … reach, for each word and place 0 (the root), 1 … n."""
    word_places = np.arange(sentence_length + 1)
    distances: Integers = np.clip(word_places[None, :] - word_places[1:, None], -reach, reach) + reach
    return distances


Item = TypeVar("Item")
Result = TypeVar("Result")
_blas_limit = Lock()  # BLAS's number of threads is process-wide


def group_by_length(sentences: Sequence[Sized], batch_size: Callable[[int], int]) -> list[list[int]]:
    """Groups sentences of equal length; empty sentences are in no group.

    Args:
        sentences: in any order.
        batch_size: the largest number of sentences of a length in a group (at least one is).

    Returns:
        The indices of each group's sentences, the longest sentences first, which take longest.

    >>> group_by_length(["ab", "", "c", "de", "fg"], lambda length: 4 // length)
    [[0, 3], [4], [2]]
    """
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for sentence_index, sentence in enumerate(sentences):
        by_length[len(sentence)].append(sentence_index)
    by_length.pop(0, None)
    return [
        indices[group_start : group_start + group_size]
        for sentence_length, indices in sorted(by_length.items(), reverse=True)
        for group_size in (max(1, batch_size(sentence_length)),)
        for group_start in range(0, len(indices), group_size)
    ]


def map_batches(
    work: Callable[[list[int]], Sequence[Result]],
    sentences: Sequence[Sized],
    batch_size: Callable[[int], int],
    title: str,
) -> list[Result]:
    """Processes sentences in batches of equal length, on several threads, with a progress bar.

    Args:
        work: returns the results of the sentences with these indices.
        sentences: none of them empty.
        batch_size: see `group_by_length`.
        title: of the progress bar.

    Returns:
        The result of each sentence.
    """
    batches = group_by_length(sentences, batch_size)
    results: dict[int, Result] = {}
    with task(title, total=len(sentences)) as advance:
        for batch_indices, batch_results in zip(batches, _map_in_threads(work, batches), strict=True):
            results.update(zip(batch_indices, batch_results, strict=True))
            advance(len(batch_indices))
    return [results[sentence_index] for sentence_index in range(len(sentences))]


def _map_in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yields `work(item)` for each item, in order.

    A concurrent call from another thread uses no threads of its own or waits for its turn.
    """
    blas_controller = _load_blas()
    threads = min(len(items), max((library_info["num_threads"] for library_info in blas_controller.info()), default=1))
    if threads < 2:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor  # loads logging

    with _blas_limit, blas_controller.limit(limits=1), ThreadPoolExecutor(threads) as thread_pool:
        yield from thread_pool.map(work, items)


@lru_cache(maxsize=1)
def _load_blas() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def index_words(sentences: Sequence[Sequence[str]]) -> tuple[list[list[int]], list[str]]:
    """Returns each sentence's words as indices into the distinct words, and these.

    >>> index_words([["a", "dog"], ["a", "cat"]])
    ([[0, 1], [0, 2]], ['a', 'dog', 'cat'])
    """
    word_ids: defaultdict[str, int] = defaultdict()
    word_ids.default_factory = word_ids.__len__
    return [[word_ids[word] for word in sentence] for sentence in sentences], list(word_ids)


def split_long_sentence(words: list[str], max_words: int) -> list[list[str]]:
    """Splits a sentence of more than `max_words` words into pieces of nearly equal length.

    >>> split_long_sentence(["a", "dog", "on", "grass", "runs"], 3)
    [['a', 'dog'], ['on', 'grass', 'runs']]
    """
    piece_count = -(-len(words) // max_words)
    piece_edges = [len(words) * piece_index // piece_count for piece_index in range(piece_count + 1)]
    return [words[piece_start:piece_end] for piece_start, piece_end in pairwise(piece_edges)]
