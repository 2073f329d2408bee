"""The networks of the metric `capmeter`, on states of an encoder: candidates and references read each other.

x_i, y_j: word pieces of the candidate and of all references: their states in the sentence, what they mean alone
(`lexicon.py`) and what they are associated with (`associations.py`), projected; each looks at the other side, where
s_ij is 5 times the cosine of the states and, by head, a learned multiple of the association of i and j:

    a_i = Σ_j softmax_j(q(x_i) · k(y_j) + s_ij) y_j     u_i = relu(W [x_i, a_i, x_i ⊙ a_i, |x_i - a_i|, support_i])
    b_j = Σ_i softmax_i(q(x_i) · k(y_j) + s_ij) x_i     v_j = relu(W' [y_j, b_j, y_j ⊙ b_j, |y_j - b_j|, agreed_j])
    e_i, f_i = two convolutions each over the candidate's pieces alone and what `language_model.py` tells of them: how
               probable they are after one another, repetitions

support_i: the mean over the references, and the largest, of the piece's highest cosine there, in the sentence and
alone, and of its highest association; its mean association with all pieces, and that with itself; the share of
references that have the very piece, and whether any has. agreed_j: the piece's highest cosine in the candidate, in the
sentence and alone, and its highest association, the mean of the three in the references, its association with itself,
whether the candidate has it, and the share of the references that have it.

Three logits come of it; g are cosines of sentence vectors, and cos that with the mean of the references; σ is the
logistic function; n_i is how much a piece names a thing, 0 if it was said before, h_i its highest cosine in the
references, m_i the mean of those in each, and a_i that of its highest associations:

    c_i = Σ_j softmax_j(q'(u_i) · k'(v_j)) V v_j: what the references say, how far they agree and the candidate has it
    right_i = MLP([u_i, e_i, c_i])
    correctness = MLP([mean u, Σ α_i u_i, min log σ(right), mean log σ(right), g])
    coverage = MLP([mean v, Σ β_j v_j, g])
    fluency = MLP([mean f, max f])
    things = Σ n_i (h_i + m_i + a_i / 2) / max(Σ n_i, 1.5)
    true = σ(correctness)
    score = λ_0 cos + (1 - true) λ_1 things + true (λ_2 + λ_3 σ(coverage) + λ_4 σ(fluency)) + λ_5 σ(fluency + 8)

`Matcher` has all of it; `Judge`, which learns from words alone and reads a lower layer, ends with right_i.

Where a caption is false, the things that it names decide; where it is true, how complete and how well said it is, and
nothing is lost by naming what no reference names. What is no sentence at all loses λ_5 even where it is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid, relu

from capmeter.metrics.capmeter.associations import ASSOCIATED
from capmeter.metrics.capmeter.language_model import FEATURES
from capmeter.metrics.capmeter.lexicon import DIRECTIONS

SIMILARITIES = 4
"""Cosines of sentence vectors that the network is given: see `capmeter.metrics.capmeter.inputs`."""
_TOWARD = 2  # of them the one with the mean of the references
SCORED = ("correctness", "coverage", "fluency", "cosine", "things")
"""What `scored` is given."""
_SUPPORT, _AGREED = 10, 9
_SCALE, _SCALE_ALONE = 8.0, 4.0  # unit vectors become numbers of the size that layers like
_ALIKE = 5.0  # at first pieces look at what is like them
_SELDOM = 4.0  # an association so strong counts as 1
_NEVER = -1e4
_THINGS = 1.5  # that a caption names at least, or they are missed
_NO_SENTENCE = 8.0  # below minus so much fluency


@dataclass(frozen=True)
class JudgeShape:
    """encoder: width of the states. alone: of what pieces mean alone. associated: of what they are associated with.
    width: of the projections. heads: of attention. narrow: width of e, f and c. flow: how many numbers are told of each
    of the candidate's pieces (`language_model.py`).
    """

    encoder: int
    alone: int = DIRECTIONS
    associated: int = ASSOCIATED
    width: int = 96
    heads: int = 4
    narrow: int = 64
    flow: int = FEATURES


@dataclass(frozen=True)
class Shape(JudgeShape):
    """As `JudgeShape`. parts: λ, the weights in the score: of the cosine; of things, where the caption is false; of
    being true, coverage and fluency, where it is true; of being a sentence at all.
    """

    parts: tuple[float, float, float, float, float, float] = (24.0, 6.0, 12.0, 1.0, 2.0, 1.2)


class Side(NamedTuple):
    """Word pieces of n captions, or of the references of n captions, padded: unit states [n, t, encoder], ids [n, t],
    there [n, t], false for what is no word piece (begin, end, padding); places [n, sentences, longest], where those of
    each sentence are, one again where it has fewer, -1 where it has none; alone [n, t, k], unit vectors of what they
    mean alone; associated [n, t, k], whose products with signs [k] are associations; things [n, t], how much they name
    things.
    """

    states: Tensor
    ids: Tensor
    there: Tensor
    places: Tensor
    alone: Tensor
    associated: Tensor
    signs: Tensor
    things: Tensor


class Told(NamedTuple):
    """Logits: score, correctness, coverage, fluency [n]; cosine and things [n]; right [n, t], of the candidate's."""

    score: Tensor
    correctness: Tensor
    coverage: Tensor
    fluency: Tensor
    cosine: Tensor
    things: Tensor
    right: Tensor


class Compared(NamedTuple):
    """u [n, c, width], v [n, r, width]; right [n, c], logits; things [n]."""

    candidates: Tensor
    references: Tensor
    right: Tensor
    things: Tensor


class Comparison(nn.Module):
    """How both sides read each other, up to which of the candidate's pieces are right.

    readings: e alone, or e and f.
    """

    context: Context
    flow: Context

    def __init__(self, shape: JudgeShape, dropout: float, readings: int) -> None:
        super().__init__()
        self.heads = shape.heads
        width, narrow = shape.width, shape.narrow
        self.project = nn.Linear(shape.encoder, width)
        self.project_alone, self.project_associated = (
            nn.Linear(each, width, bias=False) for each in (shape.alone, shape.associated)
        )
        self.associated = nn.Parameter(torch.full((shape.heads, 1, 1), 0.5))
        self.norm = nn.Sequential(nn.LayerNorm(width), nn.Dropout(dropout))
        self.query, self.key = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.compare, self.compare_reference = (nn.Linear(4 * width + each, width) for each in (_SUPPORT, _AGREED))
        for name in ("context", "flow")[:readings]:
            self.add_module(name, Context(shape.encoder + shape.flow, narrow))
        self.query_again, self.key_again, self.value_again = (nn.Linear(width, narrow, bias=False) for _ in range(3))
        self.piece = nn.Sequential(nn.Linear(width + 2 * narrow, narrow), nn.ReLU(), nn.Linear(narrow, 1))

    def compared(self, candidates: Side, references: Side, flow: Tensor) -> Compared:
        """Both sides' pieces after they have looked at each other."""
        mine, theirs = candidates.there, references.there
        support, agreed, cosine, association, things = evidence(candidates, references)
        x, y = self._read(candidates), self._read(references)
        a, b = self._look(x, y, _ALIKE * cosine[:, None] + self.associated * association[:, None], mine, theirs)
        u, v = _compared(self.compare, x, a, support), _compared(self.compare_reference, y, b, agreed)
        spoken = self.context(torch.cat([candidates.states * _SCALE, flow], dim=2), mine)
        right = self.piece(torch.cat([u, spoken, self._look_again(u, v, theirs)], dim=2))[:, :, 0]
        return Compared(u, v, right, things)

    def _read(self, pieces: Side) -> Tensor:
        """The pieces' states, what they mean alone and what they are associated with, projected."""
        read = linear(pieces.states, self.project.weight * _SCALE, self.project.bias)
        _add_linear(read, pieces.alone, self.project_alone.weight * _SCALE_ALONE)
        _add_linear(read, pieces.associated, self.project_associated.weight)
        normed: Tensor = self.norm(read)
        return normed

    def _look(self, x: Tensor, y: Tensor, like: Tensor, mine: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
        """What each side sees in the other; like: [n, heads, c, r]."""
        theirs_seen, mine_seen = self._by_head(y), self._by_head(x)
        alike = _products(self._by_head(self.query(x)), self._by_head(self.key(y))) + like
        to_theirs = alike.masked_fill(~theirs[:, None, None], _NEVER).softmax(3)
        to_mine = alike.masked_fill(~mine[:, None, :, None], _NEVER).softmax(2).transpose(2, 3)
        return _joined(to_theirs @ theirs_seen), _joined(to_mine @ mine_seen)

    def _look_again(self, u: Tensor, v: Tensor, theirs: Tensor) -> Tensor:
        """What the candidate's pieces see in the compared ones of the references."""
        query, key, value = (
            self._by_head(layer(each))
            for layer, each in ((self.query_again, u), (self.key_again, v), (self.value_again, v))
        )
        alike = _products(query, key).masked_fill(~theirs[:, None, None], _NEVER)
        return _joined(alike.softmax(3) @ value)

    def _by_head(self, values: Tensor) -> Tensor:
        """[n, heads, t, width of a head] of [n, t, width]."""
        return values.view(*values.shape[:2], self.heads, -1).transpose(1, 2)


class Judge(Comparison):
    """Which of a candidate's word pieces are right, by a network that learns nothing else.

    >>> states, alone, there = torch.ones(1, 2, 3) / 3**0.5, torch.ones(1, 2, 4) / 2, torch.ones(1, 2).bool()
    >>> ids, places = torch.tensor([[5, 6]]), torch.tensor([[[0, 1]]])
    >>> one = Side(states, ids, there, places, alone, alone, torch.ones(4), torch.ones(1, 2))
    >>> judge = Judge(JudgeShape(3, alone=4, associated=4, width=8, heads=2, narrow=4)).eval()
    >>> tuple(judge(one, one, torch.zeros(1, 2, FEATURES)).shape)
    (1, 2)
    """

    def __init__(self, shape: JudgeShape, dropout: float = 0.0) -> None:
        super().__init__(shape, dropout, readings=1)
        self.shape = shape

    def forward(self, candidates: Side, references: Side, flow: Tensor) -> Tensor:
        """The logits [n, c] of being right; flow: [n, c, shape.flow]."""
        return self.compared(candidates, references, flow).right


class Matcher(Comparison):
    """The network.

    >>> states, alone, there = torch.ones(1, 2, 3) / 3**0.5, torch.ones(1, 2, 4) / 2, torch.ones(1, 2).bool()
    >>> ids, places = torch.tensor([[5, 6]]), torch.tensor([[[0, 1]]])
    >>> one = Side(states, ids, there, places, alone, alone, torch.ones(4), torch.ones(1, 2))
    >>> network = Matcher(Shape(3, alone=4, associated=4, width=8, heads=2, narrow=4)).eval()
    >>> told = network(one, one, torch.ones(1, SIMILARITIES), torch.zeros(1, 2, FEATURES))
    >>> tuple(told.score.shape), tuple(told.right.shape)
    ((1,), (1, 2))
    """

    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__(shape, dropout, readings=2)
        self.shape = shape
        width, narrow = shape.width, shape.narrow
        self.weigh, self.weigh_reference = (nn.Linear(width, 1) for _ in range(2))
        self.correctness = _head(2 * width + 2 + SIMILARITIES, width, dropout)
        self.coverage = _head(2 * width + SIMILARITIES, width, dropout)
        self.fluency = _head(2 * narrow, narrow, 0.0)

    def forward(self, candidates: Side, references: Side, similar: Tensor, flow: Tensor) -> Told:
        """Everything that is said of n captions; similar: [n, SIMILARITIES]; flow: [n, t, shape.flow]."""
        mine, theirs = candidates.there, references.there
        u, v, right, things = self.compared(candidates, references, flow)
        doubt = logsigmoid(right).masked_fill(~mine, 0.0)
        lowest, mean = doubt.amin(1, keepdim=True), _mean(doubt[:, :, None], mine)
        said = torch.cat([_mean(u, mine), _weighted(u, self.weigh, mine), lowest, mean, similar], dim=1)
        covered = torch.cat([_mean(v, theirs), _weighted(v, self.weigh_reference, theirs), similar], dim=1)
        correctness, coverage = self.correctness(said)[:, 0], self.coverage(covered)[:, 0]
        fluency = self.said(candidates, flow)
        parts = correctness, coverage, fluency, similar[:, _TOWARD], things
        return Told(scored(*parts, parts=self.shape.parts), *parts, right)

    def said(self, candidates: Side, flow: Tensor) -> Tensor:
        """The logit of fluency [n], which does not look at references."""
        mine = candidates.there
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


def scored(
    correctness: Tensor, coverage: Tensor, fluency: Tensor, cosine: Tensor, things: Tensor, *, parts: Sequence[float]
) -> Tensor:
    """The logit of the score [n] of what is told of n captions, by the weights λ of the parts.

    >>> none, one = torch.zeros(1), torch.ones(1)
    >>> [scored(sign * one, none, none, one, one, parts=[16, 3, 6, 1, 2, 0]).item() for sign in (40, -40)]
    [23.5, 19.0]
    """
    alike, named, right, complete, well_said, sentence = parts
    true = correctness.sigmoid()
    if_true = right + complete * coverage.sigmoid() + well_said * fluency.sigmoid()
    either = true * if_true + (1 - true) * named * things
    return alike * cosine + either + sentence * (fluency + _NO_SENTENCE).sigmoid()


def evidence(candidates: Side, references: Side) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """support [n, c, 10], agreed [n, r, 9]; of pairs of pieces cosines, associations [n, c, r]; things [n]."""
    mine, theirs = candidates.there, references.there
    number, longest = references.places.shape[1:]
    columns = references.places.clamp(min=0).flatten(1)[:, None]
    there = (references.places[:, None, :, 0] >= 0).float()  # a reference may have no word piece
    count, pieces = there.sum(2).clamp(min=1), theirs.sum(1)[:, None].clamp(min=1)

    def in_each(values: Tensor) -> Tensor:
        """The highest in each reference, [n, t, references] of [n, t, r]."""
        found = values.gather(2, columns.expand(-1, values.shape[1], -1))
        return found.view(*values.shape[:2], number, longest).amax(3)

    def mean(each: Tensor) -> Tensor:
        return (each * there).sum(2) / count

    def largest(each: Tensor) -> Tensor:
        return each.masked_fill(there == 0, _NEVER).amax(2) * there.amax(2)

    def best(values: Tensor) -> Tensor:
        """The highest in the candidate, [n, r] of [n, c, r]."""
        return values.masked_fill(~mine[:, :, None], _NEVER).amax(1) * mine.any(1, keepdim=True)

    def pairs(pieces: Side) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Cosines in the sentence and alone, associations, and which are the same, [n, t, r]."""
        return (
            pieces.states @ references.states.transpose(1, 2),
            pieces.alone @ references.alone.transpose(1, 2),
            (pieces.associated * (pieces.signs / _SELDOM)) @ references.associated.transpose(1, 2),
            (pieces.ids[:, :, None] == references.ids[:, None]).float(),
        )

    def with_itself(pieces: Side) -> Tensor:
        return pieces.associated.square() @ (pieces.signs / _SELDOM)

    cosine, alone, association, known = pairs(candidates)
    highest, highest_alone, strongest, found = map(in_each, (cosine, alone, association, known))
    any_piece = (association * theirs[:, None]).sum(2) / pieces
    support = [mean(highest), largest(highest), mean(found), (found * there).amax(2), mean(highest_alone)]
    support += [largest(highest_alone), mean(strongest), largest(strongest), any_piece, with_itself(candidates)]
    named = candidates.things * _said_first(candidates)
    near = largest(highest) + mean(highest) + mean(strongest) / 2
    things = (named * near).sum(1) / named.sum(1).clamp(min=_THINGS)

    highest, highest_alone, strongest, found = map(in_each, pairs(references))
    agreed = [best(cosine), best(known), mean(highest), mean(found), best(alone), mean(highest_alone)]
    agreed += [best(association), mean(strongest), with_itself(references)]
    told = torch.stack(support, 2) * mine[:, :, None], torch.stack(agreed, 2) * theirs[:, :, None]
    return *told, cosine, association, things


def _products(queries: Tensor, keys: Tensor) -> Tensor:
    """Of each head, [n, heads, c, r]."""
    products: Tensor = queries @ keys.transpose(2, 3) / queries.shape[3] ** 0.5
    return products


def _joined(seen: Tensor) -> Tensor:
    """The heads side by side: [n, t, width] of [n, heads, t, width of a head]."""
    return seen.transpose(1, 2).flatten(2)


def _said_first(pieces: Side) -> Tensor:
    """bool [n, t]: which pieces are not said earlier in the sentence as well."""
    same = (pieces.ids[:, :, None] == pieces.ids[:, None]) & pieces.there[:, None]
    return ~same.tril(-1).any(2)


def _compared(layer: nn.Linear, own: Tensor, seen: Tensor, known: Tensor) -> Tensor:
    """relu(W [own, seen, own ⊙ seen, |own - seen|, known] + b), without the long vectors in one place."""
    each = own.shape[2]
    made = linear(known, layer.weight[:, 4 * each :], layer.bias)
    for number, values in enumerate((own, seen, own * seen, (own - seen).abs())):
        _add_linear(made, values, layer.weight[:, number * each : (number + 1) * each])
    return relu(made)


def _add_linear(made: Tensor, values: Tensor, weight: Tensor) -> None:
    """made += values weightᵀ, in place."""
    made.flatten(0, 1).addmm_(values.flatten(0, 1), weight.t())


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
