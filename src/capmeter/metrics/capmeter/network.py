"""The network of the metric `capmeter`, on frozen states of an encoder: candidates and references read each other.

x_i, y_j: states of word pieces of the candidate and of all references, projected; each looks at the other side:

    a_i = Σ_j softmax_j(q(x_i) · k(y_j) + 5 cos_ij) y_j     u_i = relu(W [x_i, a_i, x_i ⊙ a_i, |x_i - a_i|, support_i])
    b_j = Σ_i softmax_i(q(x_i) · k(y_j) + 5 cos_ij) x_i     v_j = relu(W' [y_j, b_j, y_j ⊙ b_j, |y_j - b_j|, agreed_j])
    e_i = two convolutions over the candidate's pieces alone
    f_i = the same over these and what `bigrams.py` tells of them: how probable they are after one another, repetitions

support_i: the mean over the references, and the largest, of the piece's highest cosine there; the share of references
that have the very piece, and whether any has. agreed_j: the piece's highest cosine in the candidate, whether the
candidate has it, and its mean highest cosine in the references and the share of these that have it.

Four logits come of it; g are cosines of sentence vectors, σ the logistic function:

    right_i = w · [u_i, e_i]
    similarity = MLP([mean u, Σ α_i u_i, min log σ(right), mean log σ(right), g]) + MLP([mean v, Σ β_j v_j, g]) + w · g
    correctness = MLP([mean u, Σ α_i u_i, min log σ(right), mean log σ(right), g])
    coverage = MLP([mean v, Σ β_j v_j, g])
    fluency = MLP([mean f, max f])
    score = similarity + σ(correctness) (λ_1 + λ_2 σ(coverage) + λ_3 σ(fluency))

What is false gains nothing by being complete and well said: among captions of other photos similarity alone decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, relu

SIMILARITIES = 4
"""Cosines of sentence vectors that the network is given: see `capmeter.metrics.capmeter.inputs`."""
_SUPPORT = 4
_SCALE = 8.0  # unit vectors become numbers of the size that layers like
_ALIKE = 5.0  # at first pieces look at what is like them
_NEVER = -1e4
_COSINES, _AT_NO_COSINE = (2.0, 0.0, 4.0, 0.0), -4.0


@dataclass(frozen=True)
class Shape:
    """encoder: width of the states. width: of the projections. heads: of attention. narrow: width of e and f. flow: how
    many numbers are told of each of the candidate's pieces (`bigrams.py`). parts: λ, the
    weights of correctness, coverage and fluency in the score.
    """

    encoder: int
    width: int = 64
    heads: int = 4
    narrow: int = 48
    flow: int = 5
    parts: tuple[float, float, float] = (4.0, 1.0, 2.0)


class Side(NamedTuple):
    """Word pieces of n captions, or of the references of n captions, padded: unit states [n, t, encoder], ids [n, t],
    owner [n, t], the number of the sentence, -1 for what is no word piece of it (begin, end, padding).
    """

    states: Tensor
    ids: Tensor
    owner: Tensor


class Told(NamedTuple):
    """Logits: score, correctness, coverage, fluency, similarity [n]; right [n, t], of the candidate's pieces."""

    score: Tensor
    correctness: Tensor
    coverage: Tensor
    fluency: Tensor
    similarity: Tensor
    right: Tensor


class Matcher(nn.Module):
    """The network.

    >>> one = Side(torch.ones(1, 2, 3) / 3**0.5, torch.tensor([[5, 6]]), torch.tensor([[0, 0]]))
    >>> network = Matcher(Shape(3, width=8, heads=2, narrow=4)).eval()
    >>> told = network(one, one, torch.ones(1, SIMILARITIES), torch.zeros(1, 2, 5))
    >>> tuple(told.score.shape), tuple(told.right.shape)
    ((1,), (1, 2))
    """

    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        width, narrow = shape.width, shape.narrow
        self.project = nn.Sequential(nn.Linear(shape.encoder, width), nn.LayerNorm(width), nn.Dropout(dropout))
        self.query, self.key = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.compare, self.compare_reference = (nn.Linear(4 * width + _SUPPORT, width) for _ in range(2))
        self.context = Context(shape.encoder, narrow)
        self.flow = Context(shape.encoder + shape.flow, narrow)
        self.piece = nn.Linear(width + narrow, 1)
        self.weigh, self.weigh_reference = (nn.Linear(width, 1) for _ in range(2))
        self.alike, self.correctness = (_head(2 * width + 2 + SIMILARITIES, width, dropout) for _ in range(2))
        self.alike_reference, self.coverage = (_head(2 * width + SIMILARITIES, width, dropout) for _ in range(2))
        self.fluency = _head(2 * narrow, narrow, 0.0)
        self.similar = nn.Linear(SIMILARITIES, 1)
        with torch.no_grad():  # at first similarity is that of sentences: heads learn what is to be added
            for head in (self.alike, self.alike_reference):
                for parameter in head[-1].parameters():
                    parameter.zero_()
            self.similar.weight.copy_(torch.tensor(_COSINES))
            self.similar.bias.fill_(_AT_NO_COSINE)

    def forward(self, candidates: Side, references: Side, similar: Tensor, flow: Tensor) -> Told:
        """Everything that is said of n captions; similar: [n, SIMILARITIES]; flow: [n, t, shape.flow]."""
        mine, theirs = candidates.owner >= 0, references.owner >= 0
        support, agreed, cosine = evidence(candidates, references)
        x, y = self.project(candidates.states * _SCALE), self.project(references.states * _SCALE)
        a, b = self._look(x, y, cosine, mine, theirs)
        u = relu(self.compare(torch.cat([x, a, x * a, (x - a).abs(), support], dim=2)))
        v = relu(self.compare_reference(torch.cat([y, b, y * b, (y - b).abs(), agreed], dim=2)))
        right = self.piece(torch.cat([u, self.context(candidates.states * _SCALE, mine)], dim=2))[:, :, 0]
        doubt = logsigmoid(right).masked_fill(~mine, 0.0)
        lowest, mean = doubt.amin(1, keepdim=True), _mean(doubt[:, :, None], mine)
        said = torch.cat([_mean(u, mine), _weighted(u, self.weigh, mine), lowest, mean, similar], dim=1)
        covered = torch.cat([_mean(v, theirs), _weighted(v, self.weigh_reference, theirs), similar], dim=1)
        similarity = (self.alike(said) + self.alike_reference(covered) + self.similar(similar))[:, 0]
        correctness, coverage = self.correctness(said)[:, 0], self.coverage(covered)[:, 0]
        fluency = self.said(candidates, flow)
        first, second, third = self.shape.parts
        bonus = first + second * coverage.sigmoid() + third * fluency.sigmoid()
        score = similarity + correctness.sigmoid() * bonus
        return Told(score, correctness, coverage, fluency, similarity, right)

    def _look(self, x: Tensor, y: Tensor, cosine: Tensor, mine: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
        """What each side sees in the other."""
        heads = self.shape.heads
        each = x.shape[2] // heads

        def by_head(values: Tensor) -> Tensor:
            return values.view(*values.shape[:2], heads, each).transpose(1, 2)

        keys, queries = by_head(self.key(y)), by_head(self.query(x))
        alike = queries @ keys.transpose(2, 3) / each**0.5 + _ALIKE * cosine[:, None]
        to_theirs = alike.masked_fill(~theirs[:, None, None], _NEVER).softmax(3)
        to_mine = alike.masked_fill(~mine[:, None, :, None], _NEVER).softmax(2).transpose(2, 3)
        seen = to_theirs @ by_head(y)
        seen_back = to_mine @ by_head(x)
        return seen.transpose(1, 2).flatten(2), seen_back.transpose(1, 2).flatten(2)

    def said(self, candidates: Side, flow: Tensor) -> Tensor:
        """The logit of fluency [n], which does not look at references."""
        mine = candidates.owner >= 0
        f = self.flow(torch.cat([candidates.states * _SCALE, flow], dim=2), mine)
        logit: Tensor = self.fluency(torch.cat([_mean(f, mine), f.amax(1)], dim=1))[:, 0]
        return logit


class Context(nn.Module):
    """What word pieces are beside their neighbours: two convolutions, each added to what it reads."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.read = nn.Linear(inputs, width)
        self.near, self.far = (nn.Conv1d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, inputs: Tensor, there: Tensor) -> Tensor:
        """[n, t, width] of inputs [n, t, k]; 0 for pieces that are not there."""
        f = relu(self.read(inputs)) * there[:, :, None]
        for layer in (self.near, self.far):
            f = f + relu(layer(f.transpose(1, 2))).transpose(1, 2) * there[:, :, None]
        return f


def evidence(candidates: Side, references: Side) -> tuple[Tensor, Tensor, Tensor]:
    """support [n, c, 4], agreed [n, r, 4] and the cosines of pieces [n, c, r]; see the module."""
    mine, theirs = candidates.owner >= 0, references.owner >= 0
    number = max(int(references.owner.max()) + 1, 1)
    owned = [references.owner == k for k in range(number)]
    there = torch.stack([each.any(1) for each in owned], dim=1).float()[:, None]  # [n, 1, references]
    count = there.sum(2).clamp(min=1)  # a reference may have no word piece

    def in_references(states: Tensor, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of each piece its highest cosine in each reference, and whether it is there: [n, t, references]."""
        cosine = states @ references.states.transpose(1, 2)
        same = ids[:, :, None] == references.ids[:, None]
        highest = torch.stack([cosine.masked_fill(~each[:, None], -1.0).amax(2) for each in owned], dim=2)
        found = torch.stack([(same & each[:, None]).any(2) for each in owned], dim=2).float()
        return cosine, highest, found

    cosine, highest, found = in_references(candidates.states, candidates.ids)
    support = torch.stack([(highest * there).sum(2) / count, highest.amax(2), found.sum(2) / count, found.amax(2)], 2)
    _, highest, found = in_references(references.states, references.ids)
    known = (candidates.ids[:, :, None] == references.ids[:, None]) & mine[:, :, None]
    best = cosine.masked_fill(~mine[:, :, None], -1.0).amax(1)
    agreed = torch.stack([best, known.any(1).float(), (highest * there).sum(2) / count, found.sum(2) / count], dim=2)
    return support * mine[:, :, None], agreed * theirs[:, :, None], cosine


def _head(inputs: int, width: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 1))


def _mean(values: Tensor, there: Tensor) -> Tensor:
    """The mean over the pieces that are there: [n, k] of [n, t, k]."""
    return (values * there[:, :, None]).sum(1) / there.sum(1, keepdim=True).clamp(min=1)


def _weighted(values: Tensor, weigh: nn.Linear, there: Tensor) -> Tensor:
    """The mean over the pieces with learned weights."""
    shares: Tensor = weigh(values).masked_fill(~there[:, :, None], _NEVER).softmax(1)
    weighted: Tensor = (shares * values).sum(1)
    return weighted
