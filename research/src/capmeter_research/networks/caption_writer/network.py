"""The writer's network: a Transformer (Vaswani et al. 2017) with normalisation before each layer and tied embeddings.

Shapes: B sources of S subwords, targets of T subwords. A source's padding is masked.
"""

from __future__ import annotations

from torch import Tensor, nn

from capmeter_research.common.transformer.decoding import PAD
from capmeter_research.common.transformer.network import CaptionTransformer, DecoderLayer, EncoderLayer, KeysValues
from capmeter_research.networks.caption_writer.reading import LONGEST_SOURCE, LONGEST_TARGET
from capmeter_research.networks.caption_writer.recipe import WriterShape


class WriterModule(CaptionTransformer):
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

    def read(self, sources: Tensor) -> tuple[list[KeysValues], Tensor]:
        """Each layer's keys and values of the sources [B, S], and their mask [B, 1, 1, S]."""
        source_mask = (sources != PAD)[:, None, None]
        states = self.embed(sources, self.read_places.weight[: sources.shape[1]])
        for layer in self.readers:
            states = layer(states, source_mask)
        states = self.read_norm(states)
        return [layer.pairs(states) for layer in self.decoder_layers()], source_mask

    def forward(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Scores [B, T, subwords] of the subword after each of the targets [B, T]."""
        return self.scores(self.read(sources), targets)

    def decoder_layers(self) -> list[DecoderLayer]:
        """See `CaptionTransformer`."""
        return [layer for layer in self.writers if isinstance(layer, DecoderLayer)]

    def target_places(self) -> Tensor:
        """See `CaptionTransformer`."""
        return self.written_places.weight

    def predict_tokens(self, states: Tensor) -> Tensor:
        """See `CaptionTransformer`."""
        return nn.functional.linear(self.written_norm(states), self.pieces.weight)
