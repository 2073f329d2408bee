"""The writer's network: a Transformer (Vaswani et al. 2017) with normalisation before each layer and tied embeddings.

Shapes: B sources of S subwords, targets of T subwords. A source's padding is masked.
"""

from __future__ import annotations

from torch import Tensor, nn

from capmeter_research.common.transformer.decoding import PAD
from capmeter_research.common.transformer.network import DecoderCache, DecoderLayer, EncoderLayer
from capmeter_research.networks.caption_writer.reading import LONGEST_SOURCE, LONGEST_TARGET
from capmeter_research.networks.caption_writer.recipe import WriterShape


class WriterModule(nn.Module):
    """Reads a source and predicts the next subword of a target.

    Args:
        shape: sizes.
        pieces: number of subwords.
    """

    def __init__(self, shape: WriterShape, pieces: int) -> None:
        super().__init__()
        self.shape, self.longest = shape, LONGEST_TARGET
        self.pieces = nn.Embedding(pieces, shape.width, padding_idx=PAD)
        self.read_places = nn.Embedding(LONGEST_SOURCE, shape.width)
        self.written_places = nn.Embedding(LONGEST_TARGET, shape.width)
        self.readers = nn.ModuleList(EncoderLayer(shape) for _ in range(shape.read_layers))
        self.writers = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.write_layers))
        self.read_norm, self.written_norm = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        for embedding in (self.pieces, self.read_places, self.written_places):
            nn.init.normal_(embedding.weight, std=shape.width**-0.5)

    def read(self, sources: Tensor) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
        """Each layer's keys and values of the sources [B, S], and their mask [B, 1, 1, S]."""
        source_mask = (sources != PAD)[:, None, None]
        states = self._embedded(sources, self.read_places.weight[: sources.shape[1]])
        for layer in self.readers:
            states = layer(states, source_mask)
        states = self.read_norm(states)
        return [layer.pairs(states) for layer in self._written_by()], source_mask

    def forward(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Scores [B, T, subwords] of the subword after each of the targets [B, T]."""
        source_pairs, source_mask = self.read(sources)
        states = self._embedded(targets, self.written_places.weight[: targets.shape[1]])
        for layer, source in zip(self.writers, source_pairs, strict=True):
            states = layer(states, source, source_mask)
        return self._scores(states)

    def start(self, sources: Tensor) -> DecoderCache:
        """An empty cache for captions of these sources [B, S]."""
        source_pairs, source_mask = self.read(sources)
        return DecoderCache(
            source_mask, source_pairs, [(keys[:, :, :0], values[:, :, :0]) for keys, values in source_pairs]
        )

    def step(self, pieces: Tensor, cache: DecoderCache) -> Tensor:
        """Scores [R, subwords] of the subword after these [R], which are added to the cache."""
        position = cache.length
        states = self._embedded(pieces[:, None], self.written_places.weight[position : position + 1])
        for layer_index, layer in enumerate(self._written_by()):
            states, cache.target_pairs[layer_index] = layer.step(
                states, cache.source_pairs[layer_index], cache.source_mask, cache.target_pairs[layer_index]
            )
        return self._scores(states)[:, 0]

    def _written_by(self) -> list[DecoderLayer]:
        return [layer for layer in self.writers if isinstance(layer, DecoderLayer)]

    def _embedded(self, pieces: Tensor, places: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.pieces(pieces) * self.shape.width**0.5 + places)
        return embedded

    def _scores(self, states: Tensor) -> Tensor:
        return nn.functional.linear(self.written_norm(states), self.pieces.weight)
