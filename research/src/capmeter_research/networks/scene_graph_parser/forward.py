"""The scene-graph parser's network: its forward pass in numpy, which reads a sentence and writes linearised triples.

The encoder is `_SentenceEncoder`. A decoder is that of a Transformer (Vaswani et al. 2017), pre-normalised. The next
token is one of the vocabulary or a word of the sentence: one softmax scores both, and a word that can be generated or
copied has the sum of both probabilities (Gu et al. 2016). Several decoders are an ensemble: their probabilities are
averaged.

Beam search; hypotheses more than 2 nats below the best are pruned, and of the finished ones that with the highest mean
log probability per token wins. No token repeats the previous one, and an object that a sentence mentions once is not
related to itself.

The sentences of one call have the same number of words n, so that nothing is padded. Arrays of the decoders begin with
the axis of the decoders, D; the hypotheses of all sentences share one axis, H.

J. Gu, Z. Lu, H. Li, V. Li. Incorporating Copying Mechanism in Sequence-to-Sequence Learning. ACL 2016.

The scene-graph parser's sentence encoder: the lower layers of a BERT (Devlin et al. 2019), a forward pass in numpy.

    x = norm(word + position)                                                               for every word
    y = norm(x + softmax(Q Kᵀ / √d) V W + b),   x ← norm(y + gelu(y W + b) W + b)            for every layer

A word's embedding is the mean of its pieces' embeddings, so that there is one hidden state per word. The sentences of
one call have the same number of words n, so that nothing is padded.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.text.parsing.network import (
    Floats,
    Integers,
    Linear,
    Weights,
    attend_to_itself,
    load_linear,
    normalise,
    softmax,
)
from capmeter_research.networks.scene_graph_parser.triples import (
    BEGIN_PIECE,
    END_PIECE,
    NEXT_ID,
    OPEN_ID,
    PAD_ID,
    PAD_PIECE,
    STOP_ID,
    UNKNOWN_ID,
)

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


class _SentenceEncoder:
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
            embeddings[:-2] += self._pieces[piece_column] * (piece_column != PAD_PIECE)[:, None]
        embeddings[:-2] /= (piece_ids != PAD_PIECE).sum(axis=1, keepdims=True)
        embeddings[-2:] = self._pieces[[BEGIN_PIECE, END_PIECE]]
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


ENCODER_PREFIX = "reader."
DECODER_PREFIX = "writers.{}."
BEAM_SIZE = 2
_LOOK_AHEAD = 4  # tokens within which a hypothesis must be able to win
_BEAM_MARGIN = np.float32(2.0)  # difference of log probability to the best hypothesis of the sentence
_MIN_PROBABILITY = np.float32(1e-12)


@dataclass(frozen=True)
class DecoderShape:
    """Sizes of a decoder.

    Args:
        layers: number of layers.
        heads: number of attention heads.
        hidden: width of the feed-forward networks.
        steps: the largest number of tokens.
    """

    layers: int = 2
    heads: int = 4
    hidden: int = 384
    steps: int = 96


class SceneGraphNetwork:
    """The trained network.

    Args:
        weights: the tensors of the module that is trained by name.
        encoder_shape: the encoder's sizes.
        shape: the decoders' sizes.
        decoders: number of decoders.
        predicate_end_ids: the ids of the tokens after which a triple's object begins.
    """

    def __init__(
        self,
        weights: Weights,
        encoder_shape: SentenceEncoderShape,
        shape: DecoderShape,
        decoders: int = 1,
        predicate_end_ids: Collection[int] = (),
    ) -> None:
        self.shape = shape
        self.encoder = _SentenceEncoder(_select(weights, ENCODER_PREFIX), encoder_shape)
        self._decoders = _Decoders(
            [_select(weights, DECODER_PREFIX.format(decoder_index)) for decoder_index in range(decoders)], shape
        )
        self._is_predicate_end = np.zeros(self._decoders.vocabulary_size + 1, np.bool_)  # the last: copied tokens
        self._is_predicate_end[list(predicate_end_ids)] = True

    def decode(
        self,
        encoded: Floats,
        source_ids: Integers,
        max_tokens: int,
        unique_ids: Sequence[Collection[int]] = (),
        beam_size: int = BEAM_SIZE,
    ) -> list[list[int]]:
        """Decodes sentences.

        Args:
            encoded: the result of the encoder (sentences, n, dim).
            source_ids: the ids of the sentences' words and of their base forms as tokens (sentences, 2n).
            max_tokens: the largest number of tokens to write.
            unique_ids: for each sentence the ids of words that name one object, which is not related to itself.
            beam_size: the largest number of hypotheses per sentence; 1: greedy search.

        Returns:
            The token ids of each sentence, without the last (`STOP_ID`).
        """
        count, max_tokens = len(encoded), min(max_tokens, self.shape.steps)
        best_scores, best_ids = np.full(count, -np.inf), [list[int]() for _ in range(count)]
        decoder_state = self._decoders.start(encoded, source_ids)
        sentences, hypothesis_scores, last_ids = np.arange(count), np.zeros(count, np.float32), np.full(count, PAD_ID)
        hypotheses, subjects = np.zeros((count, 0), np.int64), _Subjects.start(count)
        first_verb = self._decoders.vocabulary_size + source_ids.shape[1] // 2  # base forms follow the words
        for step in range(max_tokens):
            probabilities = self._decoders.next_probabilities(last_ids, step, decoder_state)
            probabilities[np.arange(len(last_ids)), last_ids] = 0  # no loops, whose mean probabilities are high
            probabilities[np.arange(len(last_ids)), subjects.unrelated] = 0
            parent_rows, last_ids, hypothesis_scores = _top_hypotheses(
                probabilities, hypothesis_scores, sentences, beam_size
            )
            previous_sentences, sentences = sentences, sentences[parent_rows]
            hypotheses = np.column_stack([hypotheses[parent_rows], last_ids])
            subjects = self._next_subjects(subjects.take(parent_rows), last_ids, first_verb)
            for hypothesis_index in np.flatnonzero(subjects.ended).tolist() if unique_ids else ():
                is_unique = subjects.words[hypothesis_index] in unique_ids[sentences[hypothesis_index]]
                subjects.unrelated[hypothesis_index] = subjects.words[hypothesis_index] if is_unique else PAD_ID
            finished = (last_ids == STOP_ID) | (step + 1 == max_tokens)
            for hypothesis_index in np.flatnonzero(finished).tolist():
                sentence, mean_score = sentences[hypothesis_index], hypothesis_scores[hypothesis_index] / (step + 1)
                if mean_score > best_scores[sentence]:
                    best_scores[sentence], best_ids[sentence] = mean_score, hypotheses[hypothesis_index].tolist()
            active = np.flatnonzero(~finished & (hypothesis_scores / (step + 1 + _LOOK_AHEAD) > best_scores[sentences]))
            if not len(active):
                break
            parent_rows, sentences, subjects = parent_rows[active], sentences[active], subjects.take(active)
            hypothesis_scores, last_ids, hypotheses = hypothesis_scores[active], last_ids[active], hypotheses[active]
            decoder_state = decoder_state.take(parent_rows, same=np.array_equal(sentences, previous_sentences))
        return [token_ids[:-1] if token_ids[-1:] == [STOP_ID] else token_ids for token_ids in best_ids]

    def _next_subjects(self, subjects: _Subjects, last_ids: Integers, first_verb: int) -> _Subjects:
        """The subjects after these tokens; base forms of verbs have ids from `first_verb`."""
        is_next, is_end = (
            last_ids == NEXT_ID,
            self._is_predicate_end[np.minimum(last_ids, len(self._is_predicate_end) - 1)],
        )
        ends_subject = (last_ids >= first_verb) | (last_ids == OPEN_ID) | is_end
        return _Subjects(
            words=np.where(is_next, PAD_ID, np.where(subjects.complete | ends_subject, subjects.words, last_ids)),
            complete=(subjects.complete | ends_subject) & ~is_next,
            unrelated=np.where(is_next, PAD_ID, subjects.unrelated),
            ended=is_end,
        )


@dataclass(eq=False)
class _Subjects:
    """The subjects of the triples that H hypotheses are writing."""

    words: Integers  # their last words so far, PAD_ID without one
    complete: npt.NDArray[np.bool_]
    unrelated: Integers  # words that the triple may not end in, or PAD_ID
    ended: npt.NDArray[np.bool_]  # whether the last token ended a predicate

    @classmethod
    def start(cls, count: int) -> _Subjects:
        """Those before the first token."""
        return cls(*(np.full(count, initial_value) for initial_value in (PAD_ID, False, PAD_ID, False)))

    def take(self, rows: Integers) -> _Subjects:
        """Selects hypotheses."""
        return _Subjects(self.words[rows], self.complete[rows], self.unrelated[rows], self.ended[rows])


def _select(weights: Weights, prefix: str) -> Weights:
    return {
        name.removeprefix(prefix): weight_values for name, weight_values in weights.items() if name.startswith(prefix)
    }


def _top_hypotheses(
    probabilities: Floats, hypothesis_scores: Floats, sentences: Integers, beam_size: int
) -> tuple[Integers, Integers, Floats]:
    """Extends hypotheses by one token each and selects the most probable of each sentence.

    Args:
        probabilities: of each next token (H, tokens).
        hypothesis_scores: log probabilities of the hypotheses (H,).
        sentences: of the hypotheses, ascending (H,).
        beam_size: the largest number of hypotheses per sentence.

    Returns:
        The extended hypotheses, their tokens and log probabilities, in the order of the sentences.
    """
    beam_width = min(beam_size, probabilities.shape[1])
    if beam_width > 1:
        token_ids = np.argpartition(probabilities, -beam_width, axis=1)[:, -beam_width:]
    else:
        token_ids = probabilities.argmax(axis=1)[:, None]
    log_probabilities = np.log(np.take_along_axis(probabilities, token_ids, axis=1) + _MIN_PROBABILITY)
    hypothesis_scores, token_ids = (log_probabilities + hypothesis_scores[:, None]).ravel(), token_ids.ravel()
    parent_rows = np.repeat(np.arange(len(probabilities)), beam_width)
    order = np.lexsort((token_ids, -hypothesis_scores, sentences[parent_rows]))
    ordered_sentences = sentences[parent_rows[order]]
    first_positions = np.searchsorted(ordered_sentences, ordered_sentences)
    in_beam = np.arange(len(order)) - first_positions < beam_size
    order = order[in_beam & (hypothesis_scores[order] > hypothesis_scores[order[first_positions]] - _BEAM_MARGIN)]
    return parent_rows[order], token_ids[order], hypothesis_scores[order]


class _Decoders:
    """Decoders of one shape, evaluated together."""

    def __init__(self, weights: Sequence[Weights], shape: DecoderShape) -> None:
        self.shape = shape
        self._weights = {
            weight_name: np.stack([np.asarray(decoder_weights[weight_name], np.float32) for decoder_weights in weights])
            for weight_name in weights[0]
        }
        self._tokens, self._steps = self._weights["tokens.weight"], self._weights["steps.weight"]
        _, self.vocabulary_size, self.dim = self._tokens.shape
        self._memory = self.linear("joined")
        self._memory_norm = self._weights["joined_norm.weight"][:, None], self._weights["joined_norm.bias"][:, None]
        self._layers = [_DecoderLayer(self, f"layers.{layer_index}") for layer_index in range(shape.layers)]
        self._token_logits = self.normalised_linear("written", "choice")
        self._copy_query = self.normalised_linear("written", "copy_query")
        self._copy_key, self._copy_embedding = self.linear("copy_key"), self.linear("copied")
        if self._steps.shape[1] != shape.steps:
            raise ValueError(f"weights for {self._steps.shape[1]} steps, expected {shape.steps}")

    def linear(self, name: str) -> Linear:
        """Reads the linear maps of this name."""
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return Linear(np.ascontiguousarray(weight.transpose(0, 2, 1)), bias[:, None])

    def normalised_linear(self, norm: str, name: str) -> Linear:
        """Reads linear maps and folds the scale and shift of the normalisation before them into them."""
        linear = self.linear(name)
        scale, shift = self._weights[f"{norm}.weight"], self._weights[f"{norm}.bias"]
        return Linear(scale[:, :, None] * linear.weight, linear.bias + shift[:, None] @ linear.weight)

    def start(self, encoded: Floats, source_ids: Integers) -> _DecoderState:
        """Returns the state before the first token."""
        sentence_count, _, width = encoded.shape
        scale, shift = self._memory_norm
        memory = normalise(self._memory(encoded.reshape(-1, width))) * scale + shift
        copy_keys, copies = (
            _split_words_and_lemmas(linear(memory), sentence_count) for linear in (self._copy_key, self._copy_embedding)
        )
        layer_caches = [layer.start(memory, sentence_count) for layer in self._layers]
        return _DecoderState(layer_caches, copy_keys.swapaxes(2, 3) / np.sqrt(np.float32(self.dim)), copies, source_ids)

    def next_probabilities(self, last_ids: Integers, step: int, state: _DecoderState) -> Floats:
        """Computes the mean probability of each token and each source token as the next one (H, tokens + 2n)."""
        hypothesis_rows, source_length, size = np.arange(len(last_ids)), state.source_ids.shape[1], self.vocabulary_size
        x = self._tokens[:, np.where(last_ids < size, last_ids, UNKNOWN_ID)]
        copied_rows = np.flatnonzero(last_ids >= size)
        x[:, copied_rows] = state.copies[:, copied_rows, last_ids[copied_rows] - size]
        x += self._steps[:, step : step + 1]
        for layer, layer_cache in zip(self._layers, state.caches, strict=True):
            layer.add_to(x, layer_cache)
        x = normalise(x)
        generate, copy = self._token_logits(x), (self._copy_query(x)[:, :, None, :] @ state.copy_keys)[:, :, 0, :]
        largest_logits = np.maximum(generate.max(axis=2), copy.max(axis=2))[:, :, None]
        np.exp(np.subtract(generate, largest_logits, out=generate), out=generate)
        np.exp(np.subtract(copy, largest_logits, out=copy), out=copy)
        total_scores = (generate.sum(axis=2) + copy.sum(axis=2))[:, :, None] * np.float32(len(generate))
        generate /= total_scores
        copy = (copy / total_scores).sum(axis=0)
        probabilities = np.zeros((len(last_ids), size + source_length), np.float32)
        probabilities[:, :size] = generate.sum(axis=0)
        np.add.at(probabilities, (hypothesis_rows[:, None], state.source_ids), copy)
        probabilities[:, [PAD_ID, UNKNOWN_ID]] = 0
        return probabilities


@dataclass(eq=False)
class _DecoderState:
    """The state of the decoders for H hypotheses."""

    caches: list[_LayerCache]  # per layer
    copy_keys: Floats  # (D, H, dim, 2n): attention keys of the source tokens
    copies: Floats  # (D, H, 2n, dim): embeddings of the source tokens
    source_ids: Integers  # (H, 2n)

    def take(self, rows: Integers, *, same: bool) -> _DecoderState:
        """Selects hypotheses; same: they are of the same sentences, in the same order."""
        layer_caches = [layer_cache.take(rows, same=same) for layer_cache in self.caches]
        if same:
            return _DecoderState(layer_caches, self.copy_keys, self.copies, self.source_ids)
        return _DecoderState(layer_caches, self.copy_keys[:, rows], self.copies[:, rows], self.source_ids[rows])


@dataclass(eq=False)
class _LayerCache:
    """Attention keys and values of the encoded words, and of the S tokens so far; dim is that of a head."""

    memory: tuple[Floats, Floats]  # keys (D, H, heads, dim, n), values (D, H, heads, n, dim)
    keys: Floats  # (D, H, heads, dim, S)
    values: Floats  # (D, H, heads, S, dim)

    def take(self, rows: Integers, *, same: bool) -> _LayerCache:
        """Selects hypotheses; same: they are of the same sentences, in the same order."""
        if same and np.array_equal(rows, np.arange(self.keys.shape[1])):
            return self
        keys, values = self.memory
        memory = self.memory if same else (keys[:, rows], values[:, rows])
        return _LayerCache(memory, self.keys[:, rows], self.values[:, rows])


class _DecoderLayer:
    """A layer of the decoders, one step at a time."""

    def __init__(self, decoders: _Decoders, name: str) -> None:
        self.heads = decoders.shape.heads
        self.dim = decoders.dim // self.heads
        self.qkv = decoders.normalised_linear(f"{name}.itself_norm", f"{name}.itself")
        self.self_attention_out = decoders.linear(f"{name}.itself_join")
        self.query = decoders.normalised_linear(f"{name}.read_norm", f"{name}.query")
        self.key_value = decoders.linear(f"{name}.key_value")
        self.cross_attention_out = decoders.linear(f"{name}.read_join")
        self.ffn_up = decoders.normalised_linear(f"{name}.norm", f"{name}.widen")
        self.ffn_down = decoders.linear(f"{name}.narrow")

    def start(self, memory: Floats, sentences: int) -> _LayerCache:
        """Computes keys and values of the encoded words (D, sentences · n, dim)."""
        keys_and_values = self.key_value(memory).reshape(len(memory), sentences, -1, 2, self.heads, self.dim)
        keys = np.ascontiguousarray(keys_and_values[:, :, :, 0].transpose(0, 1, 3, 4, 2))
        values = np.ascontiguousarray(keys_and_values[:, :, :, 1].transpose(0, 1, 3, 2, 4))
        return _LayerCache((keys, values), keys[..., :0], values[..., :0, :])

    def add_to(self, x: Floats, cache: _LayerCache) -> None:
        """Adds this layer to the states of this step (D, H, dim), in place; the step joins the cache."""
        qkv_parts = self.qkv(normalise(x)).reshape(*x.shape[:2], 3, self.heads, self.dim)
        cache.keys = np.concatenate([cache.keys, qkv_parts[:, :, 1, :, :, None]], axis=4)
        cache.values = np.concatenate([cache.values, qkv_parts[:, :, 2, :, None, :]], axis=3)
        x += self.self_attention_out(self._attend(qkv_parts[:, :, 0], cache.keys, cache.values))
        queries = self.query(normalise(x)).reshape(*x.shape[:2], self.heads, self.dim)
        x += self.cross_attention_out(self._attend(queries, *cache.memory))
        hidden_states = self.ffn_up(normalise(x))
        x += self.ffn_down(np.maximum(hidden_states, 0, out=hidden_states))

    def _attend(self, queries: Floats, keys: Floats, values: Floats) -> Floats:
        attention_weights = softmax((queries[..., None, :] @ keys) / np.sqrt(np.float32(self.dim)))
        return np.ascontiguousarray((attention_weights @ values)[..., 0, :]).reshape(*queries.shape[:2], -1)


def _split_words_and_lemmas(x: Floats, sentences: int) -> Floats:
    """Reshapes (D, sentences · n, 2 dim) to (D, sentences, 2n, dim): the words' vectors, then their base forms'."""
    return np.concatenate(np.split(x.reshape(len(x), sentences, -1, x.shape[2]), 2, axis=3), axis=2)
