"""The layers of a Transformer (Vaswani et al. 2017), with normalisation before each layer.

Shapes: B sources of S states, targets of T subwords, H heads of width W / H. Whatever is added to the attention's
logits, or says what may be attended to, is a mask. For decoding, keys and values of what has been written are kept in a
`Cache`, so that a step costs one subword.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

Activation = Callable[[Tensor], Tensor]


class Sizes(Protocol):
    """The sizes of a layer: the width of the states and of the feed-forward part, heads, and the share of dropout."""

    @property
    def width(self) -> int:
        """The width of the states."""

    @property
    def hidden(self) -> int:
        """The width of the feed-forward part."""

    @property
    def heads(self) -> int:
        """The number of heads."""

    @property
    def dropout(self) -> float:
        """The share of values that are set to 0 in training."""


@dataclass(eq=False)
class Cache:
    """Keys and values of R rows: of their sources, and of what was written so far.

    Args:
        seen: mask of the sources [R, 1, 1, S].
        sources: for each layer, keys and values of the source [R, H, S, W / H].
        written: for each layer, keys and values of what was written [R, H, length, W / H].
    """

    seen: Tensor
    sources: list[tuple[Tensor, Tensor]]
    written: list[tuple[Tensor, Tensor]]

    @property
    def length(self) -> int:
        """The number of subwords written."""
        return self.written[0][0].shape[2]

    def take(self, rows: Tensor) -> Cache:
        """The cache of some of the rows."""
        sources = [(keys[rows], values[rows]) for keys, values in self.sources]
        return Cache(self.seen[rows], sources, self.written).reordered(rows)

    def reordered(self, rows: Tensor) -> Cache:
        """The cache with the same sources, and what was written taken from these rows."""
        return Cache(self.seen, self.sources, [(keys[rows], values[rows]) for keys, values in self.written])


class Attention(nn.Module):
    """Attention with several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.pair = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def pairs(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [B, H, n, W / H] of states [B, n, W]."""
        keys, values = self.pair(states).chunk(2, dim=-1)
        return self._split(keys), self._split(values)

    def forward(
        self, states: Tensor, pairs: tuple[Tensor, Tensor], mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """What the states [B, n, W] attend to among these keys and values: [B, n, W]."""
        found = scaled_dot_product_attention(self._split(self.query(states)), *pairs, attn_mask=mask, is_causal=causal)
        joined: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return joined

    def _split(self, states: Tensor) -> Tensor:
        return states.view(*states.shape[:-1], self.heads, -1).transpose(1, 2)


class Feed(nn.Module):
    """The feed-forward part of a layer."""

    def __init__(self, width: int, hidden: int, activation: Activation = gelu) -> None:
        super().__init__()
        self.activation = activation
        self.inner, self.out = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, states: Tensor) -> Tensor:
        """The layer's output [B, n, W]."""
        made: Tensor = self.out(self.activation(self.inner(states)))
        return made


class Encoding(nn.Module):
    """A layer that reads."""

    def __init__(self, shape: Sizes, activation: Activation = gelu) -> None:
        super().__init__()
        self.attention, self.feed = Attention(shape.width, shape.heads), Feed(shape.width, shape.hidden, activation)
        self.norms = nn.ModuleList(nn.LayerNorm(shape.width) for _ in range(2))
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """The next states [B, S, W]."""
        normed = self.norms[0](states)
        states = states + self.dropout(self.attention(normed, self.attention.pairs(normed), mask))
        read: Tensor = states + self.dropout(self.feed(self.norms[1](states)))
        return read


class Decoding(nn.Module):
    """A layer that writes."""

    def __init__(self, shape: Sizes, activation: Activation = gelu) -> None:
        super().__init__()
        self.own, self.source = Attention(shape.width, shape.heads), Attention(shape.width, shape.heads)
        self.feed = Feed(shape.width, shape.hidden, activation)
        self.norms = nn.ModuleList(nn.LayerNorm(shape.width) for _ in range(3))
        self.dropout = nn.Dropout(shape.dropout)

    def pairs(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of what was read [B, S, W]."""
        return self.source.pairs(states)

    def forward(self, states: Tensor, source: tuple[Tensor, Tensor], seen: Tensor) -> Tensor:
        """The next states [B, T, W] of whole targets."""
        normed = self.norms[0](states)
        states = states + self.dropout(self.own(normed, self.own.pairs(normed), causal=True))
        return self._rest(states, source, seen)

    def step(
        self, states: Tensor, source: tuple[Tensor, Tensor], seen: Tensor, written: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The next states [R, 1, W] of one more subword, and all keys and values with those of this subword."""
        normed = self.norms[0](states)
        key, value = self.own.pairs(normed)
        pairs = torch.cat([written[0], key], 2), torch.cat([written[1], value], 2)
        return self._rest(states + self.own(normed, pairs), source, seen), pairs

    def _rest(self, states: Tensor, source: tuple[Tensor, Tensor], seen: Tensor) -> Tensor:
        states = states + self.dropout(self.source(self.norms[1](states), source, seen))
        written: Tensor = states + self.dropout(self.feed(self.norms[2](states)))
        return written
