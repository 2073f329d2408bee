"""A BERT whose layers are adapted (`capmeter.encoders.adaptation`), with the gradients of the adaptation alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from capmeter.encoders.adaptation import PARTS, with_factors
from capmeter.encoders.bert import Bert
from capmeter.encoders.layers import through


class AdaptedLayers(nn.Module):
    """The states of the first layers of an adapted encoder.

    Args:
        bert: the encoder, which stays as it is.
        rank: of the adaptation, which is 0 at first.
        depth: so many layers; none: all.
        dropout: of attention and sums, in training.
    """

    def __init__(self, bert: Bert, rank: int, depth: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.bert, self.dropout = bert, dropout
        self.layers = nn.ModuleList(
            nn.ModuleDict({part: _Factors(getattr(layer, part)[0], rank) for part in PARTS})
            for layer in bert.stack[:depth]
        )

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The last of these layers' states [b, t, width].

        ids: int64[b, t], begin and end included, padded. mask: bool[b, t], false for padding.
        """
        bert, shape = self.bert, (len(ids), self.bert.heads)
        x = bert.embed(ids).view(-1, bert.width)
        factors = dict(self.named_parameters())
        dropout = self.dropout if self.training else 0.0
        for number in range(len(self.layers)):
            layer = with_factors(bert.stack[number], factors, number)
            x, _ = through(layer, x, None if mask.all() else mask, shape, bert.epsilon, dropout)
        return x.float().view(*ids.shape, -1)

    def adaptation(self) -> list[nn.Parameter]:
        """What is trained of the encoder."""
        return list(self.layers.parameters())


class AdaptedBert(AdaptedLayers):
    """Sentence vectors of an adapted encoder, and the logistic function of their cosines.

    Args:
        bert, rank, dropout: see `AdaptedLayers`.
        slope, offset: of the logistic function.
    """

    def __init__(self, bert: Bert, rank: int, slope: float, offset: float, dropout: float = 0.0) -> None:
        super().__init__(bert, rank, dropout=dropout)
        self.logistic = nn.Parameter(torch.tensor([slope, offset]))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors [b, width]: the mean of the last layer's states; ids, mask: see `states`."""
        return normalize((self.states(ids, mask) * mask[:, :, None]).sum(1), dim=1)


class _Factors(nn.Module):
    """A and B of one matrix; B is 0 at first, so that the encoder begins as it is."""

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        outputs, inputs = weight.shape
        self.down = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5)
        self.up = nn.Parameter(torch.zeros(outputs, rank))
