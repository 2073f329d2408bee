"""A BERT whose layers are adapted (`capmeter.encoders.adaptation`), with the gradients of the adaptation alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from capmeter.encoders.adaptation import PARTS, adapted
from capmeter.encoders.bert import Bert
from capmeter.encoders.layers import Layer, through


class AdaptedBert(nn.Module):
    """Sentence vectors of an adapted encoder, and the logistic function of their cosines.

    Args:
        bert: the encoder, which stays as it is.
        rank: of the adaptation, which is 0 at first.
        slope, offset: of the logistic function.
        dropout: of attention and sums, in training.
    """

    def __init__(self, bert: Bert, rank: int, slope: float, offset: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.bert, self.dropout = bert, dropout
        self.layers = nn.ModuleList(
            nn.ModuleDict({part: _Factors(getattr(layer, part)[0], rank) for part in PARTS}) for layer in bert.stack
        )
        self.logistic = nn.Parameter(torch.tensor([slope, offset]))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors [b, width]: the mean of the last layer's states.

        ids: int64[b, t], begin and end included, padded. mask: bool[b, t], false for padding.
        """
        bert, shape = self.bert, (len(ids), self.bert.heads)
        x = bert.embed(ids).view(-1, bert.width)
        for layer in self._stack():
            dropout = self.dropout if self.training else 0.0
            x, _ = through(layer, x, None if mask.all() else mask, shape, bert.epsilon, dropout)
        states = x.float().view(*ids.shape, -1) * mask[:, :, None]
        return normalize(states.sum(1), dim=1)

    def _stack(self) -> list[Layer]:
        factors = dict(self.named_parameters())
        return [adapted(layer, factors, number) for number, layer in enumerate(self.bert.stack)]

    def adaptation(self) -> list[nn.Parameter]:
        """What is trained of the encoder."""
        return list(self.layers.parameters())


class _Factors(nn.Module):
    """A and B of one matrix; B is 0 at first, so that the encoder begins as it is."""

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        outputs, inputs = weight.shape
        self.down = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5)
        self.up = nn.Parameter(torch.zeros(outputs, rank))
