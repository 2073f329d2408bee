"""The graph maker's network for training in torch; `capmeter.text.fact_network` is its forward pass in numpy.

The tensors' names are those of the shipped file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields

import torch
from torch import Tensor, nn
from torch.nn import functional

from capmeter.encoders.layers import Layer, through
from capmeter.text import fact_pieces
from capmeter.text.fact_network import WriterShape
from capmeter.text.fact_reader import EPSILON, ReaderShape
from capmeter.text.fact_vocabulary import NOTHING_NUMBER, OTHER_NUMBER, STOP_NUMBER

_IMPOSSIBLE = -1e9


class ReaderModule(nn.Module):
    """Reads a sentence: the lower layers of a BERT; `capmeter.text.fact_reader` is its forward pass in numpy.

    Args:
        pieces: number of word pieces.
        shape: layers, heads and places.
        width: of the states.
        hidden: width of the perceptrons.
        dropout: of attention and sums.
        word_dropout: of the words, each replaced by the unknown piece.
    """

    def __init__(
        self,
        pieces: int,
        shape: ReaderShape,
        width: int,
        hidden: int,
        *,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.shape, self.width, self.dropout, self.word_dropout = shape, width, dropout, word_dropout
        self.pieces = nn.Parameter(torch.randn(pieces, width) * 0.3)
        self.places = nn.Parameter(torch.randn(shape.places, width) * 0.1)
        self.norm = nn.LayerNorm(width, EPSILON)
        self.layers = nn.ModuleList(_ReaderLayer(width, hidden) for _ in range(shape.layers))

    def forward(self, rows: Tensor) -> Tensor:
        """The words' vectors and states [B, n, 2 width] from the numbers of their pieces [B, n, pieces]."""
        count, length, _ = rows.shape
        if self.training and self.word_dropout:
            hidden = torch.rand(count, length, 1, device=rows.device) < self.word_dropout
            first = torch.arange(rows.shape[2], device=rows.device) == 0
            rows = torch.where(hidden, (first * fact_pieces.UNKNOWN_NUMBER).to(rows.dtype), rows)
        nothing = fact_pieces.NOTHING_NUMBER
        words = functional.embedding_bag(rows.flatten(0, 1), self.pieces, mode="mean", padding_idx=nothing)
        words = words.view(count, length, self.width)
        begin, end = (self.pieces[k].expand(count, 1, -1) for k in (fact_pieces.BEGIN_NUMBER, fact_pieces.END_NUMBER))
        x = self.norm(torch.cat([begin, words, end], dim=1) + self.places[: length + 2]).flatten(0, 1)
        dropout = self.dropout if self.training else 0.0
        for layer in self.layers:
            shape = (count, self.shape.heads)
            x, _ = through(weights_of(layer), x, None, shape, EPSILON, dropout, approximate="tanh")
        return torch.cat([words, x.view(count, length + 2, -1)[:, 1:-1]], dim=2)


class _ReaderLayer(nn.Module):
    """The weights of a layer, in order of use."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.join, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)
        self.widen, self.narrow, self.narrowed = nn.Linear(width, hidden), nn.Linear(hidden, width), nn.LayerNorm(width)


def weights_of(layer: nn.Module) -> Layer:
    """A reader's layer as the encoders use it."""
    parts = (layer.get_submodule(each.name) for each in fields(Layer))
    return Layer(*((part.get_parameter("weight"), part.get_parameter("bias")) for part in parts))


class FactModule(nn.Module):
    """A reader, and writers that write together what it has read.

    Args:
        reader: whose word vectors and states are read.
        writers: at least one; all begin differently.
    """

    def __init__(self, reader: ReaderModule, writers: Iterable[WriterModule]) -> None:
        super().__init__()
        self.reader, self.writers = reader, nn.ModuleList(writers)

    def read(self, rows: Tensor) -> Tensor:
        """What the reader says of the words: [B, n, 2 · its width], from the numbers of their pieces."""
        read: Tensor = self.reader(rows)
        return read

    def forward(self, read: Tensor, copied: Tensor, before: Tensor) -> list[Tensor]:
        """The scores of each writer, as in `WriterModule`."""
        return [writer(read, copied, before) for writer in self.writers]

    def chances(self, read: Tensor, copied: Tensor, before: Tensor) -> Tensor:
        """The mean probability [B, tokens + 2n] of each token and each own word as the one after `before` [B, S]."""
        total = torch.zeros(1, device=copied.device)
        for scores in self(read, copied, before):
            known = scores.shape[2] - copied.shape[1]
            each = scores[:, -1].float().softmax(dim=1)
            found = torch.zeros_like(each)
            found[:, :known] = each[:, :known]
            total = total + found.scatter_add(1, copied, each[:, known:])
        total[:, [NOTHING_NUMBER, OTHER_NUMBER]] = 0
        return total / len(self.writers)


class WriterModule(nn.Module):
    """Writes the facts of a sentence token by token.

    Args:
        read: width of what is read.
        width: of the writer.
        tokens: number of tokens that can be written.
        shape: the writer's sizes.
        dropout: share of the writer's activations that are dropped in training, the same for all steps of a sentence.
        token_dropout: share of the tokens written so far that are hidden in training.
    """

    def __init__(
        self,
        read: int,
        width: int,
        tokens: int,
        shape: WriterShape,
        *,
        dropout: float = 0.1,
        token_dropout: float = 0.05,
    ) -> None:
        super().__init__()
        self.width, self.shape = width, shape
        self.known, self.dropout, self.token_dropout = tokens, dropout, token_dropout
        self.joined, self.joined_norm = nn.Linear(read, width), nn.LayerNorm(width)
        self.tokens = nn.Embedding(tokens, width)
        self.steps = nn.Embedding(shape.steps, width)
        self.copied = nn.Linear(width, 2 * width)
        self.layers = nn.ModuleList(_WriterLayer(width, shape, dropout) for _ in range(shape.layers))
        self.written = nn.LayerNorm(width)
        self.choice = nn.Linear(width, tokens)
        self.copy_query = nn.Linear(width, width)
        self.copy_key = nn.Linear(width, 2 * width)
        nn.init.normal_(self.tokens.weight, std=0.5)
        nn.init.normal_(self.steps.weight, std=0.1)

    def forward(self, read: Tensor, copied: Tensor, before: Tensor) -> Tensor:
        """Scores [B, S, tokens + 2n] of what follows each of the tokens `before` [B, S]: tokens, then what is copied.

        Args:
            read: from the reader, sentences of one length.
            copied: the numbers of the words and of their base forms as tokens [B, 2n].
            before: what was written, `NOTHING_NUMBER` first.
        """
        states = self.joined_norm(self.joined(_dropped(read, self.dropout, self.training)))
        own = before - self.known
        inputs = self.tokens(before.masked_fill(own >= 0, OTHER_NUMBER))
        words = torch.gather(_twice(self.copied(states)), 1, own.clamp(min=0)[:, :, None].expand(-1, -1, self.width))
        x = torch.where((own >= 0)[:, :, None], words, inputs)
        if self.training and self.token_dropout:
            hidden = (torch.rand(before.shape, device=before.device) < self.token_dropout) & (before != NOTHING_NUMBER)
            x = torch.where(hidden[:, :, None], self.tokens.weight[OTHER_NUMBER], x)
        x = x + self.steps.weight[: x.shape[1]]
        for layer in self.layers:
            x = layer(x, states)
        x = self.written(x)
        copies = self.copy_query(x) @ _twice(self.copy_key(states)).transpose(1, 2) / math.sqrt(self.width)
        return torch.cat([self.choice(x), copies], dim=2)


def _twice(x: Tensor) -> Tensor:
    """[B, n, 2 width] as [B, 2n, width]: what stands for the words, then what stands for their base forms."""
    return torch.cat(x.chunk(2, dim=2), dim=1)


def _dropped(x: Tensor, share: float, training: bool) -> Tensor:
    """x [B, S, width] without a share of its places, the same ones for all steps of a sentence."""
    if not training or not share:
        return x
    kept = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) > share
    return x * (kept / (1 - share))


def loss_of(scores: Tensor, copied: Tensor, after: Tensor) -> Tensor:
    """Mean negative log probability of the tokens `after` [B, S]: of a token, or of its word copied from anywhere.

    Tokens that are `OTHER_NUMBER` or `NOTHING_NUMBER` do not count.
    """
    known = scores.shape[2] - copied.shape[1]
    scores = scores.float()
    chosen = scores.gather(2, after.clamp(max=known - 1)[..., None])[..., 0].masked_fill(after >= known, _IMPOSSIBLE)
    same = copied[:, None, :] == after[:, :, None]
    copies = scores[:, :, known:].masked_fill(~same, _IMPOSSIBLE).logsumexp(dim=2)
    likelihood = torch.logaddexp(chosen, copies) - scores.logsumexp(dim=2)
    counts = (after != OTHER_NUMBER) & (after != NOTHING_NUMBER)
    return -(likelihood * counts).sum() / counts.sum().clamp(min=1)


class _WriterLayer(nn.Module):
    """A layer of a decoder, normalised before each part: what was written, what was read, a perceptron."""

    def __init__(self, width: int, shape: WriterShape, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, dropout
        self.itself_norm, self.itself = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.itself_join = nn.Linear(width, width)
        self.read_norm, self.query = nn.LayerNorm(width), nn.Linear(width, width)
        self.key_value, self.read_join = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, shape.hidden), nn.Linear(shape.hidden, width)

    def forward(self, x: Tensor, states: Tensor) -> Tensor:
        """What is written, after this layer."""
        attention = functional.scaled_dot_product_attention
        queries, keys, values = self._by_head(self.itself(self.itself_norm(x)), 3)
        x = x + self._dropped(self.itself_join(_joined(attention(queries, keys, values, is_causal=True))))
        (queries,) = self._by_head(self.query(self.read_norm(x)), 1)
        keys, values = self._by_head(self.key_value(states), 2)
        x = x + self._dropped(self.read_join(_joined(attention(queries, keys, values))))
        result: Tensor = x + self._dropped(self.narrow(functional.relu(self.widen(self.norm(x)))))
        return result

    def _dropped(self, x: Tensor) -> Tensor:
        return _dropped(x, self.dropout, self.training)

    def _by_head(self, x: Tensor, parts: int) -> Tensor:
        """[parts, B, heads, S, width / heads]"""
        return x.view(*x.shape[:2], parts, self.heads, -1).permute(2, 0, 3, 1, 4)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


@torch.no_grad()
def write(module: FactModule, rows: Tensor, copied: Tensor, most: int) -> list[list[int]]:
    """The tokens that are likeliest one after the other.

    Args:
        module: the network in evaluation mode.
        rows, copied: as in `FactModule`.
        most: tokens written at most.

    Returns:
        For each sentence the tokens without the last (`STOP_NUMBER`).
    """
    read = module.read(rows)
    tokens = torch.full((len(rows), 1), NOTHING_NUMBER, device=rows.device)
    ended = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    for _ in range(most):
        chances = module.chances(read, copied, tokens).scatter(1, tokens[:, -1:], 0.0)  # no token follows itself
        last = chances.argmax(dim=1).masked_fill(ended, NOTHING_NUMBER)
        tokens = torch.cat([tokens, last[:, None]], dim=1)
        ended |= last == STOP_NUMBER
        if bool(ended.all()):
            break
    return [[token for token in row[1:] if token not in (STOP_NUMBER, NOTHING_NUMBER)] for row in tokens.tolist()]
