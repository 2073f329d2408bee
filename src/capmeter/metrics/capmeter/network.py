"""The network of the metric `capmeter`, on frozen states of an encoder: candidates and references read each other.

x_i, y_j: word pieces of the candidate and of all references: their states in the sentence and what they mean alone
(`lexicon.py`), projected; each looks at the other side:

    a_i = Σ_j softmax_j(q(x_i) · k(y_j) + 5 cos_ij) y_j     u_i = relu(W [x_i, a_i, x_i ⊙ a_i, |x_i - a_i|, support_i])
    b_j = Σ_i softmax_i(q(x_i) · k(y_j) + 5 cos_ij) x_i     v_j = relu(W' [y_j, b_j, y_j ⊙ b_j, |y_j - b_j|, agreed_j])
    e_i, f_i = two convolutions each over the candidate's pieces alone and what `language_model.py` tells of them: how
               probable they are after one another, repetitions

support_i: the mean over the references, and the largest, of the piece's highest cosine there, in the sentence and
alone; the share of references that have the very piece, and whether any has. agreed_j: the piece's highest cosine in
the candidate, in the sentence and alone, whether the candidate has it, its mean highest cosines in the references, and
the share of these that have it.

Four logits come of it; g are cosines of sentence vectors, σ the logistic function, n_i how much a piece names a thing:

    right_i = w · [u_i, e_i]
    similarity = MLP([mean u, Σ α_i u_i, min log σ(right), mean log σ(right), g]) + MLP([mean v, Σ β_j v_j, g]) + w · g
    correctness = MLP([mean u, Σ α_i u_i, min log σ(right), mean log σ(right), g])
    coverage = MLP([mean v, Σ β_j v_j, g])
    fluency = MLP([mean f, max f])
    things = Σ n_i (highest cosine of x_i in the references) / max(Σ n_i, 1.5)
    score = similarity + λ_0 things + σ(correctness) (λ_1 + λ_2 σ(coverage) + λ_3 σ(fluency))

What is false gains nothing by being complete and well said: among captions of other photos similarity and the things
that are named decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid, relu

from capmeter.metrics.capmeter.language_model import FEATURES
from capmeter.metrics.capmeter.lexicon import DIRECTIONS

SIMILARITIES = 4
"""Cosines of sentence vectors that the network is given: see `capmeter.metrics.capmeter.inputs`."""
_SUPPORT = 6
_SCALE, _SCALE_ALONE = 8.0, 4.0  # unit vectors become numbers of the size that layers like
_ALIKE = 5.0  # at first pieces look at what is like them
_NEVER = -1e4
_THINGS = 1.5  # that a caption names at least, or they are missed
_COSINES, _AT_NO_COSINE = (2.0, 0.0, 4.0, 0.0), -4.0


@dataclass(frozen=True)
class Shape:
    """encoder: width of the states. alone: of what pieces mean alone. width: of the projections. heads: of attention.
    narrow: width of e and f. flow: how many numbers are told of each of the candidate's pieces (`language_model.py`).
    parts: λ, the weights of things, correctness, coverage and fluency in the score.
    """

    encoder: int
    alone: int = DIRECTIONS
    width: int = 96
    heads: int = 4
    narrow: int = 64
    flow: int = FEATURES
    parts: tuple[float, float, float, float] = (7.0, 2.0, 2.0, 3.0)


class Side(NamedTuple):
    """Word pieces of n captions, or of the references of n captions, padded: unit states [n, t, encoder], ids [n, t],
    owner [n, t], the number of the sentence, -1 for what is no word piece of it (begin, end, padding); alone [n, t, k],
    unit vectors of what they mean alone; things [n, t], how much they name things.
    """

    states: Tensor
    ids: Tensor
    owner: Tensor
    alone: Tensor
    things: Tensor


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

    >>> states, alone = torch.ones(1, 2, 3) / 3**0.5, torch.ones(1, 2, 4) / 2
    >>> one = Side(states, torch.tensor([[5, 6]]), torch.tensor([[0, 0]]), alone, torch.ones(1, 2))
    >>> network = Matcher(Shape(3, alone=4, width=8, heads=2, narrow=4)).eval()
    >>> told = network(one, one, torch.ones(1, SIMILARITIES), torch.zeros(1, 2, FEATURES))
    >>> tuple(told.score.shape), tuple(told.right.shape)
    ((1,), (1, 2))
    """

    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        width, narrow = shape.width, shape.narrow
        self.project, self.project_alone = nn.Linear(shape.encoder, width), nn.Linear(shape.alone, width, bias=False)
        self.norm = nn.Sequential(nn.LayerNorm(width), nn.Dropout(dropout))
        self.query, self.key = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.compare, self.compare_reference = (nn.Linear(4 * width + _SUPPORT, width) for _ in range(2))
        self.context, self.flow = (Context(shape.encoder + shape.flow, narrow) for _ in range(2))
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
        support, agreed, cosine, things = evidence(candidates, references)
        x, y = self._read(candidates), self._read(references)
        a, b = self._look(x, y, cosine, mine, theirs)
        u, v = _compared(self.compare, x, a, support), _compared(self.compare_reference, y, b, agreed)
        spoken = torch.cat([candidates.states * _SCALE, flow], dim=2)
        right = self.piece(torch.cat([u, self.context(spoken, mine)], dim=2))[:, :, 0]
        doubt = logsigmoid(right).masked_fill(~mine, 0.0)
        lowest, mean = doubt.amin(1, keepdim=True), _mean(doubt[:, :, None], mine)
        said = torch.cat([_mean(u, mine), _weighted(u, self.weigh, mine), lowest, mean, similar], dim=1)
        covered = torch.cat([_mean(v, theirs), _weighted(v, self.weigh_reference, theirs), similar], dim=1)
        similarity = (self.alike(said) + self.alike_reference(covered) + self.similar(similar))[:, 0]
        correctness, coverage = self.correctness(said)[:, 0], self.coverage(covered)[:, 0]
        fluency = self.said(candidates, flow)
        named, first, second, third = self.shape.parts
        bonus = first + second * coverage.sigmoid() + third * fluency.sigmoid()
        score = similarity + named * things + correctness.sigmoid() * bonus
        return Told(score, correctness, coverage, fluency, similarity, right)

    def _read(self, pieces: Side) -> Tensor:
        """The pieces' states and what they mean alone, projected."""
        both: Tensor = self.norm(self.project(pieces.states * _SCALE) + self.project_alone(pieces.alone * _SCALE_ALONE))
        return both

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


def evidence(candidates: Side, references: Side) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """support [n, c, 6], agreed [n, r, 6], the cosines of pieces [n, c, r], and things [n]; see the module."""
    mine, theirs = candidates.owner >= 0, references.owner >= 0
    number = max(int(references.owner.max()) + 1, 1)
    owned = [references.owner == k for k in range(number)]
    there = torch.stack([each.any(1) for each in owned], dim=1).float()[:, None]  # [n, 1, references]
    count = there.sum(2).clamp(min=1)  # a reference may have no word piece

    def highest_in_each(cosine: Tensor) -> Tensor:
        return torch.stack([cosine.masked_fill(~each[:, None], -1.0).amax(2) for each in owned], dim=2)

    def in_references(pieces: Side) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The pieces' cosines with those of the references, in the sentence and alone [n, t, r]; of each piece the
        highest in each reference, and whether it is there [n, t, references].
        """
        cosine = pieces.states @ references.states.transpose(1, 2)
        alone = pieces.alone @ references.alone.transpose(1, 2)
        same = pieces.ids[:, :, None] == references.ids[:, None]
        found = torch.stack([(same & each[:, None]).any(2) for each in owned], dim=2).float()
        return cosine, alone, highest_in_each(cosine), highest_in_each(alone), found

    def mean(each: Tensor) -> Tensor:
        return (each * there).sum(2) / count

    cosine, alone, highest, highest_alone, found = in_references(candidates)
    support = [mean(highest), highest.amax(2), mean(found), found.amax(2), mean(highest_alone)]
    support.append(highest_alone.amax(2))
    things = (candidates.things * highest.amax(2)).sum(1) / candidates.things.sum(1).clamp(min=_THINGS)
    _, _, highest, highest_alone, found = in_references(references)
    known = (candidates.ids[:, :, None] == references.ids[:, None]) & mine[:, :, None]
    best, best_alone = (each.masked_fill(~mine[:, :, None], -1.0).amax(1) for each in (cosine, alone))
    agreed = [best, known.any(1).float(), mean(highest), mean(found), best_alone, mean(highest_alone)]
    return torch.stack(support, 2) * mine[:, :, None], torch.stack(agreed, 2) * theirs[:, :, None], cosine, things


def _compared(layer: nn.Linear, own: Tensor, seen: Tensor, known: Tensor) -> Tensor:
    """relu(W [own, seen, own ⊙ seen, |own - seen|, known] + b), without the long vectors in one place."""
    each = own.shape[2]
    made = linear(known, layer.weight[:, 4 * each :], layer.bias)
    for number, values in enumerate((own, seen, own * seen, (own - seen).abs())):
        made = made + linear(values, layer.weight[:, number * each : (number + 1) * each])
    return relu(made)


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
