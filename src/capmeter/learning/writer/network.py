"""The writer's network: a Transformer (Vaswani et al. 2017) with normalisation before each layer and tied embeddings.

Shapes: B sources of S subwords, targets of T subwords, H heads of width W / H. A source's padding is masked. For
decoding, keys and values of what has been written are kept in a `Cache`, so that a step costs one subword.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from capmeter.learning.writer.reading import LONGEST_SOURCE, LONGEST_TARGET
from capmeter.learning.writer.shape import WriterShape
from capmeter.learning.writer.subwords import PAD


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

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, states: Tensor) -> Tensor:
        """The layer's output [B, n, W]."""
        made: Tensor = self.out(gelu(self.inner(states)))
        return made


class Encoding(nn.Module):
    """A layer that reads."""

    def __init__(self, shape: WriterShape) -> None:
        super().__init__()
        self.attention, self.feed = Attention(shape.width, shape.heads), Feed(shape.width, shape.hidden)
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

    def __init__(self, shape: WriterShape) -> None:
        super().__init__()
        self.own, self.source = Attention(shape.width, shape.heads), Attention(shape.width, shape.heads)
        self.feed = Feed(shape.width, shape.hidden)
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


class WriterModule(nn.Module):
    """Reads a source and predicts the next subword of a target.

    Args:
        shape: sizes.
        pieces: number of subwords.
    """

    def __init__(self, shape: WriterShape, pieces: int) -> None:
        super().__init__()
        self.shape = shape
        self.pieces = nn.Embedding(pieces, shape.width, padding_idx=PAD)
        self.read_places = nn.Embedding(LONGEST_SOURCE, shape.width)
        self.written_places = nn.Embedding(LONGEST_TARGET, shape.width)
        self.readers = nn.ModuleList(Encoding(shape) for _ in range(shape.read_layers))
        self.writers = nn.ModuleList(Decoding(shape) for _ in range(shape.write_layers))
        self.read_norm, self.written_norm = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        for table in (self.pieces, self.read_places, self.written_places):
            nn.init.normal_(table.weight, std=shape.width**-0.5)

    def read(self, sources: Tensor) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
        """Each layer's keys and values of the sources [B, S], and their mask [B, 1, 1, S]."""
        seen = (sources != PAD)[:, None, None]
        states = self._embedded(sources, self.read_places.weight[: sources.shape[1]])
        for layer in self.readers:
            states = layer(states, seen)
        states = self.read_norm(states)
        return [layer.pairs(states) for layer in self._written_by()], seen

    def forward(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Scores [B, T, subwords] of the subword after each of the targets [B, T]."""
        pairs, seen = self.read(sources)
        states = self._embedded(targets, self.written_places.weight[: targets.shape[1]])
        for layer, source in zip(self.writers, pairs, strict=True):
            states = layer(states, source, seen)
        return self._scores(states)

    def start(self, sources: Tensor) -> Cache:
        """An empty cache for captions of these sources [B, S]."""
        pairs, seen = self.read(sources)
        return Cache(seen, pairs, [(keys[:, :, :0], values[:, :, :0]) for keys, values in pairs])

    def step(self, pieces: Tensor, cache: Cache) -> Tensor:
        """Scores [R, subwords] of the subword after these [R], which are added to the cache."""
        at = cache.length
        states = self._embedded(pieces[:, None], self.written_places.weight[at : at + 1])
        for number, layer in enumerate(self._written_by()):
            states, cache.written[number] = layer.step(states, cache.sources[number], cache.seen, cache.written[number])
        return self._scores(states)[:, 0]

    def _written_by(self) -> list[Decoding]:
        return [layer for layer in self.writers if isinstance(layer, Decoding)]

    def _embedded(self, pieces: Tensor, places: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.pieces(pieces) * self.shape.width**0.5 + places)
        return embedded

    def _scores(self, states: Tensor) -> Tensor:
        return nn.functional.linear(self.written_norm(states), self.pieces.weight)
