"""The layers of a BERT with low-rank adapters (`capmeter.encoders.text.lora`) that are trained; the BERT is frozen."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from capmeter.encoders.text.bert import Bert
from capmeter.encoders.text.layers import transformer_layer
from capmeter.encoders.text.lora import LORA_A, LORA_B, MATRICES, attach_factors


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
