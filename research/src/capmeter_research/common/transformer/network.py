"""The layers of a Transformer (Vaswani et al. 2017), with layer normalisation before each sublayer; and the layers of a
frozen BERT with low-rank adapters (`capmeter.encoders.text.layers`) that are trained.

Masks are boolean (true: attended to), or are added to the attention logits. In decoding, the keys and values of the
prefix are kept in a `DecoderCache`, so that a step costs one subword. The submodules' names are those of the bundled
checkpoints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from capmeter.encoders.text.bert import Bert
from capmeter.encoders.text.layers import LORA_A, LORA_B, MATRICES, attach_factors, transformer_layer

Activation = Callable[[Tensor], Tensor]
KeysValues = tuple[Tensor, Tensor]
"""Keys and values (batch, heads, length, width / heads)."""


class LayerSizes(Protocol):
    """The sizes of a layer."""

    @property
    def width(self) -> int:
        """The width of the states."""

    @property
    def hidden(self) -> int:
        """The width of the feed-forward sublayer."""

    @property
    def heads(self) -> int:
        """The number of attention heads."""

    @property
    def dropout(self) -> float:
        """The dropout probability."""


@dataclass(eq=False)
class DecoderCache:
    """Keys and values of sources and prefixes."""

    source_mask: Tensor  # (rows, 1, 1, source length)
    source_pairs: list[KeysValues]  # for each layer, keys and values of the sources
    target_pairs: list[KeysValues]  # for each layer, keys and values of the prefixes

    @property
    def length(self) -> int:
        """The length of the prefixes."""
        return self.target_pairs[0][0].shape[2]

    def take(self, rows: Tensor) -> DecoderCache:
        """The cache of some of the rows."""
        source_pairs = [(keys[rows], values[rows]) for keys, values in self.source_pairs]
        return DecoderCache(self.source_mask[rows], source_pairs, self.target_pairs).reordered(rows)

    def reordered(self, rows: Tensor) -> DecoderCache:
        """The cache with the same sources and the prefixes of these rows."""
        target_pairs = [(keys[rows], values[rows]) for keys, values in self.target_pairs]
        return DecoderCache(self.source_mask, self.source_pairs, target_pairs)


class Attention(nn.Module):
    """Multi-head attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.pair = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def pairs(self, states: Tensor) -> KeysValues:
        """Keys and values of states (batch, length, width)."""
        keys, values = self.pair(states).chunk(2, dim=-1)
        return self._split_heads(keys), self._split_heads(values)

    def forward(self, states: Tensor, pairs: KeysValues, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """The attention output, (batch, length, width).

        Args:
            states: what asks, (batch, length, width).
            pairs: keys and values, as `pairs` gives them.
            mask: which keys may be read, True: yes, broadcast to (batch, heads, length, keys); None: all.
            causal: whether a position reads none after it.
        """
        queries = self._split_heads(self.query(states))
        attended = scaled_dot_product_attention(queries, *pairs, attn_mask=mask, is_causal=causal)
        output: Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return output

    def _split_heads(self, states: Tensor) -> Tensor:
        return states.view(*states.shape[:-1], self.heads, -1).transpose(1, 2)


class FeedForward(nn.Module):
    """The feed-forward sublayer."""

    def __init__(self, width: int, hidden: int, activation: Activation = gelu) -> None:
        super().__init__()
        self.activation = activation
        self.inner, self.out = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, states: Tensor) -> Tensor:
        """The sublayer's output (batch, length, width)."""
        output: Tensor = self.out(self.activation(self.inner(states)))
        return output


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward sublayer."""

    def __init__(self, shape: LayerSizes, activation: Activation = gelu) -> None:
        super().__init__()
        self.attention = Attention(shape.width, shape.heads)
        self.feed = FeedForward(shape.width, shape.hidden, activation)
        self.norms = nn.ModuleList(nn.LayerNorm(shape.width) for _ in range(2))
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """The next states (batch, source length, width)."""
        normed_states = self.norms[0](states)
        states = states + self.dropout(self.attention(normed_states, self.attention.pairs(normed_states), mask))
        output: Tensor = states + self.dropout(self.feed(self.norms[1](states)))
        return output


class DecoderLayer(nn.Module):
    """Causal self-attention (`own`), cross-attention (`source`) and feed-forward sublayer."""

    def __init__(self, shape: LayerSizes, activation: Activation = gelu) -> None:
        super().__init__()
        self.own, self.source = Attention(shape.width, shape.heads), Attention(shape.width, shape.heads)
        self.feed = FeedForward(shape.width, shape.hidden, activation)
        self.norms = nn.ModuleList(nn.LayerNorm(shape.width) for _ in range(3))
        self.dropout = nn.Dropout(shape.dropout)

    def pairs(self, states: Tensor) -> KeysValues:
        """Keys and values of source states (batch, source length, width)."""
        return self.source.pairs(states)

    def forward(self, states: Tensor, source_pairs: KeysValues, source_mask: Tensor) -> Tensor:
        """The next states of complete targets, (batch, target length, width).

        Args:
            states: of the targets, (batch, target length, width).
            source_pairs: the sources' keys and values for this layer.
            source_mask: which source positions may be read.
        """
        normed_states = self.norms[0](states)
        states = states + self.dropout(self.own(normed_states, self.own.pairs(normed_states), causal=True))
        return self._after_self_attention(states, source_pairs, source_mask)

    def step(
        self, states: Tensor, source_pairs: KeysValues, source_mask: Tensor, target_pairs: KeysValues
    ) -> tuple[Tensor, KeysValues]:
        """The next states of one more token, (rows, 1, width), and all target keys and values including it.

        Args:
            states: of the token, (rows, 1, width).
            source_pairs, source_mask: as in `forward`.
            target_pairs: keys and values of the tokens before.
        """
        normed_states = self.norms[0](states)
        new_keys, new_values = self.own.pairs(normed_states)
        pairs = torch.cat([target_pairs[0], new_keys], 2), torch.cat([target_pairs[1], new_values], 2)
        return self._after_self_attention(states + self.own(normed_states, pairs), source_pairs, source_mask), pairs

    def _after_self_attention(self, states: Tensor, source_pairs: KeysValues, source_mask: Tensor) -> Tensor:
        states = states + self.dropout(self.source(self.norms[1](states), source_pairs, source_mask))
        output: Tensor = states + self.dropout(self.feed(self.norms[2](states)))
        return output


class CaptionTransformer(nn.Module, ABC):
    """An encoder-decoder that writes captions of a batch of sources: a tensor (batch, length), or pictures' regions.

    Attributes:
        pieces: the embeddings of tokens, (tokens, width).
        dropout: of embedded tokens.
        longest: the most tokens that are written.
    """

    pieces: nn.Embedding
    dropout: nn.Dropout
    longest: int

    @abstractmethod
    def read(self, sources: Any) -> tuple[list[KeysValues], Tensor]:
        """Each decoder layer's keys and values of the sources, and their mask (batch, 1, 1, source length)."""

    @abstractmethod
    def decoder_layers(self) -> list[DecoderLayer]:
        """The layers that write."""

    @abstractmethod
    def target_places(self) -> Tensor:
        """The embeddings of positions in a caption, (longest, width)."""

    @abstractmethod
    def predict_tokens(self, states: Tensor) -> Tensor:
        """Logits (…, tokens) of the next token, from the last layer's states (…, width)."""

    def embed(self, pieces: Tensor, places: Tensor) -> Tensor:
        """The embeddings of tokens at these positions."""
        embedded: Tensor = self.dropout(self.pieces(pieces) * self.pieces.embedding_dim**0.5 + places)
        return embedded

    def scores(self, read: tuple[list[KeysValues], Tensor], targets: Tensor, rows: Tensor | None = None) -> Tensor:
        """The logits of the token after each target token, (rows, length, tokens).

        Args:
            read: the sources as `read` gives them.
            targets: token ids, (rows, length).
            rows: the source of each row of targets, (rows,); None: they are in the same order.
        """
        source_pairs, source_mask = read
        if rows is not None:
            source_pairs, source_mask = [(keys[rows], values[rows]) for keys, values in source_pairs], source_mask[rows]
        states = self.embed(targets, self.target_places()[: targets.shape[1]])
        for layer, source in zip(self.decoder_layers(), source_pairs, strict=True):
            states = layer(states, source, source_mask)
        return self.predict_tokens(states)

    def start(self, sources: Any) -> DecoderCache:
        """An empty cache for captions of these sources."""
        source_pairs, source_mask = self.read(sources)
        target_pairs = [(keys[:, :, :0], values[:, :, :0]) for keys, values in source_pairs]
        return DecoderCache(source_mask, source_pairs, target_pairs)

    def step(self, pieces: Tensor, cache: DecoderCache) -> Tensor:
        """Logits (rows, tokens) of the token after these (rows), which are added to the cache."""
        position = cache.length
        states = self.embed(pieces[:, None], self.target_places()[position : position + 1])
        for layer_index, layer in enumerate(self.decoder_layers()):
            states, cache.target_pairs[layer_index] = layer.step(
                states, cache.source_pairs[layer_index], cache.source_mask, cache.target_pairs[layer_index]
            )
        return self.predict_tokens(states)[:, 0]


class AdaptedLayers(nn.Module):
    """The first layers of an encoder with adapters; B is 0 at first, so that the encoder starts unchanged.

    Args:
        bert: the encoder, which is not changed.
        rank: of the adapters.
        depth: number of layers; None means all.
        dropout: of attention and of both sums, in training.
    """

    def __init__(self, bert: Bert, rank: int, depth: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.bert, self.dropout = bert, dropout
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {name: _initial_factors(getattr(layer, matrix)[0], rank) for matrix, name in MATRICES.items()}
            )
            for layer in bert.stack[:depth]
        )

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The last layer's hidden states, (batch, tokens, width).

        Args:
            ids: int64 (batch, tokens), begin and end tokens included, padded.
            mask: bool (batch, tokens), false for padding.
        """
        bert, shape = self.bert, (len(ids), self.bert.heads)
        x = bert.embed(ids).view(-1, bert.width)
        adapter_factors = dict(self.named_parameters())
        dropout, attention_bias = self.dropout if self.training else 0.0, bert.attention_bias(ids.shape[1])
        padding_mask = None if mask.all() else mask  # a GPU waits for this
        for layer_number in range(len(self.layers)):
            layer = attach_factors(bert.stack[layer_number], adapter_factors, layer_number)
            x, _ = transformer_layer(layer, x, padding_mask, shape, bert.epsilon, dropout, bias=attention_bias)
        return x.float().view(*ids.shape, -1)

    def adapter_parameters(self) -> list[nn.Parameter]:
        """A and B of all layers."""
        return list(self.layers.parameters())


def _initial_factors(weight: Tensor, rank: int) -> nn.ParameterDict:
    """A and B of a matrix (outputs, inputs): random and 0."""
    outputs, inputs = weight.shape
    return nn.ParameterDict({LORA_A: torch.randn(rank, inputs) / inputs**0.5, LORA_B: torch.zeros(outputs, rank)})
