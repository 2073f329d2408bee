"""The scene-graph parser in torch, for training; `forward.py` is its numpy twin.

The parameters' names (`reader` for the encoder, `writers` for the decoders …) are those of the bundled checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from capmeter.encoders.text.layers import STORED_NAMES, TransformerLayer, transformer_layer
from capmeter_research.networks.scene_graph_parser.forward import LAYER_NORM_EPSILON, DecoderShape, SentenceEncoderShape
from capmeter_research.networks.scene_graph_parser.triples import (
    BEGIN_PIECE,
    END_PIECE,
    PAD_ID,
    PAD_PIECE,
    UNKNOWN_ID,
    UNKNOWN_PIECE,
)

_MASKED = -1e9


class SentenceEncoderModule(nn.Module):
    """The lower layers of a BERT; `capmeter_research.networks.scene_graph_parser.forward` is its forward pass in numpy.

    Args:
        pieces: number of word pieces.
        shape: layers, heads and positions.
        width: of the states.
        hidden: width of the perceptrons.
        dropout: of attention and residuals.
        word_dropout: share of the words that are replaced by the unknown piece in training.
    """

    def __init__(
        self,
        pieces: int,
        shape: SentenceEncoderShape,
        width: int,
        hidden: int,
        *,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.shape, self.width, self.dropout, self.word_dropout = shape, width, dropout, word_dropout
        self.pieces = nn.Parameter(torch.randn(pieces, width) * 0.3)
        self.places = nn.Parameter(torch.randn(shape.places, width) * 0.1)  # position embeddings
        self.norm = nn.LayerNorm(width, LAYER_NORM_EPSILON)
        self.layers = nn.ModuleList(_EncoderLayer(width, hidden) for _ in range(shape.layers))

    def forward(self, pieces: Tensor) -> Tensor:
        """Embeddings and hidden states of words, concatenated: (batch, length, 2 width).

        Args:
            pieces: (batch, length, pieces per word), ids.
        """
        sentence_count, length, _ = pieces.shape
        if self.training and self.word_dropout:
            is_hidden = torch.rand(sentence_count, length, 1, device=pieces.device) < self.word_dropout
            is_first = torch.arange(pieces.shape[2], device=pieces.device) == 0
            pieces = torch.where(is_hidden, (is_first * UNKNOWN_PIECE).to(pieces.dtype), pieces)
        padding = PAD_PIECE
        word_embeddings = functional.embedding_bag(pieces.flatten(0, 1), self.pieces, mode="mean", padding_idx=padding)
        word_embeddings = word_embeddings.view(sentence_count, length, self.width)
        begin, end = (self.pieces[k].expand(sentence_count, 1, -1) for k in (BEGIN_PIECE, END_PIECE))
        x = self.norm(torch.cat([begin, word_embeddings, end], dim=1) + self.places[: length + 2]).flatten(0, 1)
        dropout = self.dropout if self.training else 0.0
        for layer in self.layers:
            shape, weights = (sentence_count, self.shape.heads), layer_weights(layer)
            x, _ = transformer_layer(weights, x, None, shape, LAYER_NORM_EPSILON, dropout, approximate="tanh")
        return torch.cat([word_embeddings, x.view(sentence_count, length + 2, -1)[:, 1:-1]], dim=2)


class _EncoderLayer(nn.Module):
    """The weights of a layer, by their stored names, in order of use."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.join, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)
        self.widen, self.narrow, self.narrowed = nn.Linear(width, hidden), nn.Linear(hidden, width), nn.LayerNorm(width)


def layer_weights(layer: nn.Module) -> TransformerLayer:
    """The weights of a `SentenceEncoderModule`'s layer, for `transformer_layer`."""
    stored_modules = (layer.get_submodule(stored_name) for stored_name in STORED_NAMES.values())
    return TransformerLayer(*((part.get_parameter("weight"), part.get_parameter("bias")) for part in stored_modules))


class SceneGraphModule(nn.Module):
    """A sentence encoder, and an ensemble of decoders.

    Args:
        encoder: of the sentences.
        decoders: at least one, with different initial weights.
    """

    def __init__(self, encoder: SentenceEncoderModule, decoders: Iterable[GraphDecoderModule]) -> None:
        super().__init__()
        self.reader, self.writers = encoder, nn.ModuleList(decoders)

    def encode(self, pieces: Tensor) -> Tensor:
        """The encoder's output (batch, length, 2 width) for ids (batch, length, pieces per word)."""
        encoded: Tensor = self.reader(pieces)
        return encoded

    def forward(self, encoded: Tensor, source_ids: Tensor, prefix: Tensor) -> list[Tensor]:
        """The logits of each decoder, as in `GraphDecoderModule`.

        Args:
            encoded: of the sources, as `encode` gives them.
            source_ids: word ids of the sources, (batch, length).
            prefix: token ids so far, (batch, tokens).
        """
        return [decoder(encoded, source_ids, prefix) for decoder in self.writers]


class GraphDecoderModule(nn.Module):
    """Generates the triples of a sentence token by token, from a vocabulary or copied from the sentence.

    Args:
        encoded_width: of the encoder's output.
        width: of the decoder.
        tokens: size of the vocabulary.
        shape: the decoder's sizes.
        dropout: share of the decoder's activations that are dropped in training, the same for all steps of a sentence.
        token_dropout: share of the prefix's tokens that are hidden in training.
    """

    def __init__(
        self,
        encoded_width: int,
        width: int,
        tokens: int,
        shape: DecoderShape,
        *,
        dropout: float = 0.1,
        token_dropout: float = 0.05,
    ) -> None:
        super().__init__()
        self.width, self.shape = width, shape
        self.token_count, self.dropout, self.token_dropout = tokens, dropout, token_dropout
        self.joined, self.joined_norm = nn.Linear(encoded_width, width), nn.LayerNorm(width)
        self.tokens = nn.Embedding(tokens, width)
        self.steps = nn.Embedding(shape.steps, width)
        self.copied = nn.Linear(width, 2 * width)
        self.layers = nn.ModuleList(_DecoderLayer(width, shape, dropout) for _ in range(shape.layers))
        self.written = nn.LayerNorm(width)
        self.choice = nn.Linear(width, tokens)
        self.copy_query = nn.Linear(width, width)
        self.copy_key = nn.Linear(width, 2 * width)
        nn.init.normal_(self.tokens.weight, std=0.5)
        nn.init.normal_(self.steps.weight, std=0.1)

    def forward(self, encoded: Tensor, source_ids: Tensor, prefix: Tensor) -> Tensor:
        """Logits (batch, steps, tokens + 2 length) after each token of the prefix: of tokens, then of copied words.

        Args:
            encoded: (batch, length, encoded_width).
            source_ids: (batch, 2 length), the words and their base forms as tokens.
            prefix: (batch, steps), the tokens so far, `PAD_ID` first.
        """
        states = self.joined_norm(self.joined(_drop(encoded, self.dropout, self.training)))
        source_index = prefix - self.token_count  # negative for tokens of the vocabulary
        is_copied = source_index >= 0
        embeddings = self.tokens(prefix.masked_fill(is_copied, UNKNOWN_ID))
        gather_index = source_index.clamp(min=0)[:, :, None].expand(-1, -1, self.width)
        copied_states = torch.gather(_split_words_and_lemmas(self.copied(states)), 1, gather_index)
        x = torch.where(is_copied[:, :, None], copied_states, embeddings)
        if self.training and self.token_dropout:
            is_hidden = (torch.rand(prefix.shape, device=prefix.device) < self.token_dropout) & (prefix != PAD_ID)
            x = torch.where(is_hidden[:, :, None], self.tokens.weight[UNKNOWN_ID], x)
        x = x + self.steps.weight[: x.shape[1]]
        for layer in self.layers:
            x = layer(x, states)
        x = self.written(x)
        copy_keys = _split_words_and_lemmas(self.copy_key(states))
        copy_logits = self.copy_query(x) @ copy_keys.transpose(1, 2) / math.sqrt(self.width)
        return torch.cat([self.choice(x), copy_logits], dim=2)


def _split_words_and_lemmas(x: Tensor) -> Tensor:
    """(batch, length, 2 width) as (batch, 2 length, width): values for the words, then for their base forms."""
    return torch.cat(x.chunk(2, dim=2), dim=1)


def _drop(x: Tensor, share: float, training: bool) -> Tensor:
    """x (batch, steps, width) without a share of its dimensions, the same ones for all steps of a sentence."""
    if not training or not share:
        return x
    mask = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) > share
    return x * (mask / (1 - share))


def copy_loss(logits: Tensor, source_ids: Tensor, targets: Tensor) -> Tensor:
    """Mean negative log-probability of the targets, each generated or copied from any position.

    Targets that are `UNKNOWN_ID` or `PAD_ID` do not count.

    Args:
        logits: (batch, steps, tokens + 2 length).
        source_ids: (batch, 2 length).
        targets: (batch, steps).
    """
    token_count = logits.shape[2] - source_ids.shape[1]
    logits = logits.float()
    generated_logits = logits.gather(2, targets.clamp(max=token_count - 1)[..., None])[..., 0]
    generated_logits = generated_logits.masked_fill(targets >= token_count, _MASKED)
    is_target = source_ids[:, None, :] == targets[:, :, None]
    copied_logits = logits[:, :, token_count:].masked_fill(~is_target, _MASKED).logsumexp(dim=2)
    log_probability = torch.logaddexp(generated_logits, copied_logits) - logits.logsumexp(dim=2)
    is_counted = (targets != UNKNOWN_ID) & (targets != PAD_ID)
    return -(log_probability * is_counted).sum() / is_counted.sum().clamp(min=1)


class _DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention and a perceptron, with layer normalisation before each."""

    def __init__(self, width: int, shape: DecoderShape, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, dropout
        self.itself_norm, self.itself = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.itself_join = nn.Linear(width, width)
        self.read_norm, self.query = nn.LayerNorm(width), nn.Linear(width, width)
        self.key_value, self.read_join = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, shape.hidden), nn.Linear(shape.hidden, width)

    def forward(self, x: Tensor, states: Tensor) -> Tensor:
        """The next states (batch, steps, width), given those of the sentence (batch, length, width)."""
        attention = functional.scaled_dot_product_attention
        queries, keys, values = self._split_heads(self.itself(self.itself_norm(x)), 3)
        x = x + self._drop(self.itself_join(_join_heads(attention(queries, keys, values, is_causal=True))))
        (queries,) = self._split_heads(self.query(self.read_norm(x)), 1)
        keys, values = self._split_heads(self.key_value(states), 2)
        x = x + self._drop(self.read_join(_join_heads(attention(queries, keys, values))))
        next_states: Tensor = x + self._drop(self.narrow(functional.relu(self.widen(self.norm(x)))))
        return next_states

    def _drop(self, x: Tensor) -> Tensor:
        return _drop(x, self.dropout, self.training)

    def _split_heads(self, x: Tensor, parts: int) -> Tensor:
        """(parts, batch, heads, steps, width / heads)"""
        return x.view(*x.shape[:2], parts, self.heads, -1).permute(2, 0, 3, 1, 4)


def _join_heads(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)
