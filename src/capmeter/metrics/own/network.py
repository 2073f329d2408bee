"""The networks of the metric `capmeter`: candidate and references attend to each other, on states of an encoder.

x_i, y_j: word pieces of the candidate and of all references. Each is the sum of three projections: of its state in the
sentence, of its static embedding and of its association vector (`inputs.py`). s_ij is 5 times the
cosine of the states plus, by head, a learned multiple of the association of i and j:

    a_i = Σ_j softmax_j(q(x_i) · k(y_j) + s_ij) y_j     u_i = relu(W [x_i, a_i, x_i ⊙ a_i, |x_i - a_i|, support_i])
    b_j = Σ_i softmax_i(q(x_i) · k(y_j) + s_ij) x_i     v_j = relu(W' [y_j, b_j, y_j ⊙ b_j, |y_j - b_j|, agreed_j])
    e_i, f_i = two convolutions each, over the candidate's pieces alone and their language-model features
               (`inputs.py`: log probabilities in context, repetitions)

support_i: mean over references and maximum of the piece's highest cosine in each, contextual and static, and of its
highest association; its mean association with all pieces, and with itself; the share of references that contain this
very piece, and whether any does. agreed_j: the piece's highest cosine in the candidate, contextual and static, and its
highest association; the mean of the three over the references; its association with itself; whether the candidate has
it, and the share of references that do.

The matcher outputs three logits. g are cosines of sentence vectors, cos the one with the references' mean; σ is the
logistic function; n_i is the share of a piece's occurrences that are in a noun, 0 if it occurred before; h_i is its
highest cosine in the references, m_i the mean of those in each, a_i that of its highest associations:

    c_i = Σ_j softmax_j(q'(u_i) · k'(v_j)) V v_j        (a second attention, to the compared pieces of the references)
    right_i = MLP([u_i, e_i, c_i])
    correctness = MLP([mean u, Σ α_i u_i, min log σ(right), mean log σ(right), g])
    coverage = MLP([mean v, Σ β_j v_j, g])
    fluency = MLP([mean f, max f])
    objects = Σ n_i (h_i + m_i + a_i / 2) / max(Σ n_i, 1.5)
    true = σ(correctness)
    score = λ_0 cos + (1 - true) λ_1 objects + true (λ_2 + λ_3 σ(coverage) + λ_4 σ(fluency)) + λ_5 σ(fluency + 8)

Where a caption is false, its objects decide; where it is true, coverage and fluency do, and objects absent from all
references are not penalised. Ungrammatical candidates lose λ_5, false ones too. A distilled matcher adds to the score
student = MLP(pooled), an estimate of what a larger encoder would add; pooled are the inputs of the other three.

`Matcher` computes all of this. `WordErrorTagger` ends with right_i; it is trained on words alone and uses a lower
layer of the encoder.

`matching_features` computes support, agreed and objects. Shapes: n captions, t pieces of either side, c of the
candidate, r of all references concatenated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid, relu

from capmeter.metrics.embedding.word_pieces import Pieces
from capmeter.metrics.own.inputs import ASSOCIATION_DIM, LM_DIM, STATIC_DIM, PieceFeatures

SIMILARITY_DIM = 4
"""Number of cosines of sentence vectors, g (`inputs.SentenceEncodings.similarities`)."""
_CENTROID = 2  # of these the cosine with the references' mean
SCORE_TERMS = ("correctness", "coverage", "fluency", "cosine", "objects")
"""The arguments of `score_logit`."""
_STATE_SCALE, _STATIC_SCALE = 8.0, 4.0  # unit vectors have small elements
_SIMILARITY_BIAS = 5.0  # attention starts at similar pieces
_FLUENCY_FLOOR = 8.0  # a fluency logit far below minus this marks an ungrammatical candidate
_Shape = TypeVar("_Shape", bound="TaggerShape")
_CHECKPOINT_KEYS = {
    "encoder_dim": "encoder",
    "static_dim": "alone",
    "association_dim": "associated",
    "bottleneck_dim": "narrow",
    "lm_dim": "flow",
    "component_weights": "parts",
}


@dataclass(frozen=True)
class TaggerShape:
    """Sizes of a network.

    Attributes:
        encoder_dim: width of the encoder's states.
        static_dim: width of the static embeddings.
        association_dim: width of the association vectors.
        width: of the projections x and y.
        heads: attention heads.
        bottleneck_dim: width of e, f and c.
        lm_dim: number of language-model features per word piece.
    """

    encoder_dim: int
    static_dim: int = STATIC_DIM
    association_dim: int = ASSOCIATION_DIM
    width: int = 96
    heads: int = 4
    bottleneck_dim: int = 64
    lm_dim: int = LM_DIM

    def to_parameters(self) -> dict[str, Any]:
        """The sizes under their names in checkpoints."""
        return {_CHECKPOINT_KEYS.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_parameters(cls: type[_Shape], parameters: Mapping[str, Any]) -> _Shape:
        """The sizes in a checkpoint; a `TypeError` if any is missing or unknown."""
        field_names = {key: name for name, key in _CHECKPOINT_KEYS.items()}
        return cls(**{field_names.get(key, key): value for key, value in parameters.items()})


@dataclass(frozen=True)
class MatcherShape(TaggerShape):
    """Sizes of a matcher, and the weights of its score.

    Attributes:
        component_weights: λ_0 … λ_5: of the cosine; of objects, where the caption is false; of being true, of coverage
            and of fluency, where it is true; of being grammatical.
        student_width: hidden units of the student; 0: the matcher is not distilled.
    """

    component_weights: tuple[float, float, float, float, float, float] = (24.0, 6.0, 12.0, 1.0, 2.0, 1.2)
    student_width: int = 0


class MatcherOutput(NamedTuple):
    """What the matcher outputs for n candidates of up to t word pieces."""

    score: Tensor  # (n,), logit
    correctness: Tensor  # (n,), logit
    coverage: Tensor  # (n,), logit
    fluency: Tensor  # (n,), logit
    cosine: Tensor  # (n,), -1 to 1
    objects: Tensor  # (n,), about 0 to 2.5
    right: Tensor  # (n, t), logit of each candidate piece
    pooled: Tensor  # (n, k), inputs of the student


class _ComparedPieces(NamedTuple):
    """Both sides' pieces after attention: c pieces of candidates, r of references."""

    candidates: Tensor  # u, (n, c, width)
    references: Tensor  # v, (n, r, width)
    right: Tensor  # (n, c), logits
    objects: Tensor  # (n,)


class _CrossAttention(nn.Module):
    """Both sides attend to each other; the base of both networks.

    Args:
        shape: the sizes.
        dropout: of the projections.
        contexts: 1 for e alone, 2 for e and f.
    """

    context: _LocalContext
    flow: _LocalContext

    def __init__(self, shape: TaggerShape, dropout: float, contexts: int) -> None:
        super().__init__()
        self.heads = shape.heads
        width, bottleneck = shape.width, shape.bottleneck_dim
        self.project = nn.Linear(shape.encoder_dim, width)
        self.project_alone, self.project_associated = (
            nn.Linear(inputs, width, bias=False) for inputs in (shape.static_dim, shape.association_dim)
        )
        self.associated = nn.Parameter(torch.full((shape.heads, 1, 1), 0.5))
        self.norm = nn.Sequential(nn.LayerNorm(width), nn.Dropout(dropout))
        self.query, self.key = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.compare, self.compare_reference = (
            nn.Linear(4 * width + features, width) for features in (SUPPORT_DIM, AGREED_DIM)
        )
        for name in ("context", "flow")[:contexts]:
            self.add_module(name, _LocalContext(shape.encoder_dim + shape.lm_dim, bottleneck))
        self.query_again, self.key_again, self.value_again = (
            nn.Linear(width, bottleneck, bias=False) for _ in range(3)
        )
        self.piece = nn.Sequential(nn.Linear(width + 2 * bottleneck, bottleneck), nn.ReLU(), nn.Linear(bottleneck, 1))

    def _compare_pieces(self, candidates: PieceBatch, references: PieceBatch, lm_features: Tensor) -> _ComparedPieces:
        """u, v and right_i; lm_features: (n, c, lm_dim)."""
        support, agreed, cosine, association, objects = matching_features(candidates, references)
        x, y = self._project_pieces(candidates), self._project_pieces(references)
        bias = _SIMILARITY_BIAS * cosine[:, None] + self.associated * association[:, None]
        a, b = self._cross_attend(x, y, bias, candidates.mask, references.mask)
        u, v = _compare(self.compare, x, a, support), _compare(self.compare_reference, y, b, agreed)
        e = self.context(torch.cat([candidates.states * _STATE_SCALE, lm_features], dim=2), candidates.mask)
        c = self._second_cross_attend(u, v, references.mask)
        return _ComparedPieces(u, v, self.piece(torch.cat([u, e, c], dim=2))[:, :, 0], objects)

    def _project_pieces(self, pieces: PieceBatch) -> Tensor:
        """x or y, (n, t, width)."""
        projected = linear(pieces.states, self.project.weight * _STATE_SCALE, self.project.bias)
        _add_linear(projected, pieces.static, self.project_alone.weight * _STATIC_SCALE)
        _add_linear(projected, pieces.associations, self.project_associated.weight)
        normalised: Tensor = self.norm(projected)
        return normalised

    def _cross_attend(
        self, x: Tensor, y: Tensor, bias: Tensor, candidate_mask: Tensor, reference_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """a and b, (n, c, width) and (n, r, width); bias: (n, heads, c, r); masks of candidates and references."""
        candidate_values, reference_values = self._split_heads(x), self._split_heads(y)
        attention_logits = _scaled_products(self._split_heads(self.query(x)), self._split_heads(self.key(y))) + bias
        to_references = attention_logits.masked_fill(~reference_mask[:, None, None], MASKED).softmax(3)
        to_candidates = (
            attention_logits.masked_fill(~candidate_mask[:, None, :, None], MASKED).softmax(2).transpose(2, 3)
        )
        return _join_heads(to_references @ reference_values), _join_heads(to_candidates @ candidate_values)

    def _second_cross_attend(self, u: Tensor, v: Tensor, reference_mask: Tensor) -> Tensor:
        """c, (n, c, bottleneck_dim)."""
        query, key, value = (
            self._split_heads(layer(inputs))
            for layer, inputs in ((self.query_again, u), (self.key_again, v), (self.value_again, v))
        )
        attention_logits = _scaled_products(query, key).masked_fill(~reference_mask[:, None, None], MASKED)
        return _join_heads(attention_logits.softmax(3) @ value)

    def _split_heads(self, values: Tensor) -> Tensor:
        """(n, t, width) → (n, heads, t, width / heads)."""
        return values.view(*values.shape[:2], self.heads, -1).transpose(1, 2)


class WordErrorTagger(_CrossAttention):
    """Which of a candidate's word pieces are right.

    >>> states, static, mask = torch.ones(1, 2, 3) / 3**0.5, torch.ones(1, 2, 4) / 2, torch.ones(1, 2).bool()
    >>> ids, positions = torch.tensor([[5, 6]]), torch.tensor([[[0, 1]]])
    >>> pieces = PieceBatch(states, ids, mask, positions, static, static, torch.ones(4), torch.ones(1, 2))
    >>> shape = TaggerShape(3, static_dim=4, association_dim=4, width=8, heads=2, bottleneck_dim=4)
    >>> tuple(WordErrorTagger(shape).eval()(pieces, pieces, torch.zeros(1, 2, LM_DIM)).shape)
    (1, 2)
    """

    def __init__(self, shape: TaggerShape, dropout: float = 0.0) -> None:
        super().__init__(shape, dropout, contexts=1)
        self.shape = shape

    def forward(self, candidates: PieceBatch, references: PieceBatch, lm_features: Tensor) -> Tensor:
        """The logits (n, c) of being right; lm_features: (n, c, lm_dim).

        Args:
            candidates, references: their word pieces.
            lm_features: (n, c, lm_dim).
        """
        return self._compare_pieces(candidates, references, lm_features).right


class Matcher(_CrossAttention):
    """Correctness, coverage and fluency of candidates, and their score.

    >>> states, static, mask = torch.ones(1, 2, 3) / 3**0.5, torch.ones(1, 2, 4) / 2, torch.ones(1, 2).bool()
    >>> ids, positions = torch.tensor([[5, 6]]), torch.tensor([[[0, 1]]])
    >>> pieces = PieceBatch(states, ids, mask, positions, static, static, torch.ones(4), torch.ones(1, 2))
    >>> network = Matcher(MatcherShape(3, static_dim=4, association_dim=4, width=8, heads=2, bottleneck_dim=4)).eval()
    >>> output = network(pieces, pieces, torch.ones(1, SIMILARITY_DIM), torch.zeros(1, 2, LM_DIM))
    >>> tuple(output.score.shape), tuple(output.right.shape)
    ((1,), (1, 2))
    """

    def __init__(self, shape: MatcherShape, dropout: float = 0.0) -> None:
        super().__init__(shape, dropout, contexts=2)
        self.shape = shape
        width, bottleneck = shape.width, shape.bottleneck_dim
        self.weigh, self.weigh_reference = (nn.Linear(width, 1) for _ in range(2))
        self.correctness = _head(2 * width + 2 + SIMILARITY_DIM, width, dropout)
        self.coverage = _head(2 * width + SIMILARITY_DIM, width, dropout)
        self.fluency = _head(2 * bottleneck, bottleneck, 0.0)
        pooled = 4 * width + 2 * bottleneck + 2 + SIMILARITY_DIM
        self.student = _head(pooled, shape.student_width, 0.0) if shape.student_width else None

    def forward(
        self, candidates: PieceBatch, references: PieceBatch, similarities: Tensor, lm_features: Tensor
    ) -> MatcherOutput:
        """All outputs for n captions.

        Args:
            candidates, references: their word pieces.
            similarities: g, (n, SIMILARITY_DIM).
            lm_features: (n, c, lm_dim).
        """
        candidate_mask, reference_mask = candidates.mask, references.mask
        u, v, right, objects = self._compare_pieces(candidates, references, lm_features)
        log_right = logsigmoid(right).masked_fill(~candidate_mask, 0.0)
        lowest_right, mean_right = log_right.amin(1, keepdim=True), _masked_mean(log_right[:, :, None], candidate_mask)
        pooled = _masked_mean(u, candidate_mask), _attention_pool(u, self.weigh, candidate_mask)
        pooled_references = _masked_mean(v, reference_mask), _attention_pool(v, self.weigh_reference, reference_mask)
        candidate_side = torch.cat([*pooled, lowest_right, mean_right, similarities], dim=1)
        coverage = self.coverage(torch.cat([*pooled_references, similarities], dim=1))[:, 0]
        flow = self.pool_flow(candidates, lm_features)
        correctness, fluency = self.correctness(candidate_side)[:, 0], self.fluency(flow)[:, 0]
        score_terms = correctness, coverage, fluency, similarities[:, _CENTROID], objects
        score = score_logit(*score_terms, weights=self.shape.component_weights)
        all_pooled = torch.cat([candidate_side, *pooled_references, flow], dim=1)
        score = score if self.student is None else score + self.student(all_pooled)[:, 0]
        return MatcherOutput(score, *score_terms, right, all_pooled)

    def pool_flow(self, candidates: PieceBatch, lm_features: Tensor) -> Tensor:
        """Mean and maximum of f, (n, 2 bottleneck_dim), the input of fluency: of the candidates alone."""
        f = self.flow(torch.cat([candidates.states * _STATE_SCALE, lm_features], dim=2), candidates.mask)
        return torch.cat([_masked_mean(f, candidates.mask), f.amax(1)], dim=1)


class _LocalContext(nn.Module):
    """Local context: two residual convolutions."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.read = nn.Linear(inputs, width)
        self.near, self.far = (nn.Conv1d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """(n, t, inputs) → (n, t, width), 0 where masked; mask: (n, t)."""
        f = relu(self.read(inputs)) * mask[:, :, None]
        for layer in (self.near, self.far):
            f = f + relu(layer(f.transpose(1, 2))).transpose(1, 2) * mask[:, :, None]
        return f


def score_logit(
    correctness: Tensor, coverage: Tensor, fluency: Tensor, cosine: Tensor, objects: Tensor, *, weights: Sequence[float]
) -> Tensor:
    """The logit of the score, (n,), from the matcher outputs, all (n,); weights: λ_0 … λ_5.

    Args:
        correctness, coverage, fluency, cosine, objects: (n,) each.
        weights: λ_0 … λ_5.

    >>> zero, one = torch.zeros(1), torch.ones(1)
    >>> [score_logit(sign * one, zero, zero, one, one, weights=[16, 3, 6, 1, 2, 0]).item() for sign in (40, -40)]
    [23.5, 19.0]
    """
    cosine_weight, object_weight, true_weight, coverage_weight, fluency_weight, grammar_weight = weights
    true_probability = correctness.sigmoid()
    if_true = true_weight + coverage_weight * coverage.sigmoid() + fluency_weight * fluency.sigmoid()
    expected_terms = true_probability * if_true + (1 - true_probability) * object_weight * objects
    return cosine_weight * cosine + expected_terms + grammar_weight * (fluency + _FLUENCY_FLOOR).sigmoid()


def _scaled_products(queries: Tensor, keys: Tensor) -> Tensor:
    """Attention logits of each head, (n, heads, c, r)."""
    products: Tensor = queries @ keys.transpose(2, 3) / queries.shape[3] ** 0.5
    return products


def _join_heads(values: Tensor) -> Tensor:
    """(n, heads, t, width / heads) → (n, t, width)."""
    return values.transpose(1, 2).flatten(2)


def _compare(layer: nn.Linear, values: Tensor, attended: Tensor, features: Tensor) -> Tensor:
    """relu(W [values, attended, values ⊙ attended, |values - attended|, features] + b), without concatenating them."""
    width = values.shape[2]
    output = linear(features, layer.weight[:, 4 * width :], layer.bias)
    for k, part in enumerate((values, attended, values * attended, (values - attended).abs())):
        _add_linear(output, part, layer.weight[:, k * width : (k + 1) * width])
    return relu(output)


def _add_linear(output: Tensor, values: Tensor, weight: Tensor) -> None:
    """output += values weightᵀ, in place."""
    output.flatten(0, 1).addmm_(values.flatten(0, 1), weight.t())


def _head(inputs: int, width: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 1))


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """(n, t, k) → (n, k)."""
    return (values * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def _attention_pool(values: Tensor, weigh: nn.Linear, mask: Tensor) -> Tensor:
    """The mean over pieces with learned weights, (n, t, k) → (n, k)."""
    shares: Tensor = weigh(values).masked_fill(~mask[:, :, None], MASKED).softmax(1)
    pooled: Tensor = (shares * values).sum(1)
    return pooled


SUPPORT_DIM, AGREED_DIM = 10, 9
MASKED = -1e4
"""The logit of what is masked."""
_ASSOCIATION_SCALE = 4.0  # an association of this strength counts as 1
_MIN_OBJECTS = 1.5  # a caption that names less loses
_MAX_FILLING = 8  # sentences are filled up to the longest if they then have at most this many times their pieces


class PieceBatch(NamedTuple):
    """The word pieces of n candidates, or of all references of n captions in one row each, padded to t."""

    states: Tensor  # (n, t, encoder_dim), unit vectors
    ids: Tensor  # (n, t)
    mask: Tensor  # (n, t), bool: false for begin, end and padding
    positions: Tensor  # (n, sentences, longest): of each sentence's pieces; its first fills up, -1 if it has none
    static: Tensor  # (n, t, static_dim), unit vectors
    associations: Tensor  # (n, t, association_dim)
    association_signs: Tensor  # (association_dim,): Σ_d signs_d a_d b_d is the association of two pieces
    noun_shares: Tensor  # (n, t), 0 to 1


def matching_features(candidates: PieceBatch, references: PieceBatch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """support (n, c, 10), agreed (n, r, 9); cosines and associations of all pairs (n, c, r); objects (n,)."""
    candidate_mask, reference_mask = candidates.mask, references.mask
    is_present = (references.positions[:, None, :, 0] >= 0).float()  # a reference may have no word piece
    reference_count, piece_count = is_present.sum(2).clamp(min=1), reference_mask.sum(1)[:, None].clamp(min=1)

    def max_by_reference(values: Tensor) -> Tensor:
        return _max_by_sentence(values, references.positions)

    def mean(values: Tensor) -> Tensor:
        return (values * is_present).sum(2) / reference_count

    def largest(values: Tensor) -> Tensor:
        return values.masked_fill(is_present == 0, MASKED).amax(2) * is_present.amax(2)

    def max_in_candidate(values: Tensor) -> Tensor:
        """(n, c, r) → (n, r)."""
        return values.masked_fill(~candidate_mask[:, :, None], MASKED).amax(1) * candidate_mask.any(1, keepdim=True)

    def pairs(pieces: PieceBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Contextual and static cosines, associations, and which pieces are the same, (n, t, r) each."""
        return (
            pieces.states @ references.states.transpose(1, 2),
            pieces.static @ references.static.transpose(1, 2),
            (pieces.associations * (pieces.association_signs / _ASSOCIATION_SCALE))
            @ references.associations.transpose(1, 2),
            (pieces.ids[:, :, None] == references.ids[:, None]).float(),
        )

    def self_association(pieces: PieceBatch) -> Tensor:
        return pieces.associations.square() @ (pieces.association_signs / _ASSOCIATION_SCALE)

    cosine, static, association, same = pairs(candidates)
    highest, highest_static, strongest, matched = map(max_by_reference, (cosine, static, association, same))
    mean_association = (association * reference_mask[:, None]).sum(2) / piece_count
    support = [mean(highest), largest(highest), mean(matched), (matched * is_present).amax(2), mean(highest_static)]
    support += [largest(highest_static), mean(strongest), largest(strongest), mean_association]
    support.append(self_association(candidates))
    noun_weights = candidates.noun_shares * _first_occurrences(candidates)
    piece_similarity = largest(highest) + mean(highest) + mean(strongest) / 2
    objects = (noun_weights * piece_similarity).sum(1) / noun_weights.sum(1).clamp(min=_MIN_OBJECTS)

    highest, highest_static, strongest, matched = map(max_by_reference, pairs(references))
    agreed = [max_in_candidate(cosine), max_in_candidate(same), mean(highest), mean(matched), max_in_candidate(static)]
    agreed += [mean(highest_static), max_in_candidate(association), mean(strongest), self_association(references)]
    features = torch.stack(support, 2) * candidate_mask[:, :, None], torch.stack(agreed, 2) * reference_mask[:, :, None]
    return *features, cosine, association, objects


def _max_by_sentence(values: Tensor, positions: Tensor) -> Tensor:
    """The largest value among the pieces of each sentence, (n, t, r) → (n, t, sentences).

    If one sentence is much longer than the others, filling them up would take many times the memory of the values.
    """
    sentence_count, longest = positions.shape[1:]
    piece_count = values.shape[2]
    columns = positions.flatten(1)
    if columns.shape[1] <= _MAX_FILLING * piece_count:
        gathered = values.gather(2, columns.clamp(min=0)[:, None].expand(-1, values.shape[1], -1))
        return gathered.view(*values.shape[:2], sentence_count, longest).amax(3)
    numbers = torch.arange(sentence_count, device=columns.device).repeat_interleave(longest).expand_as(columns)
    # one more column takes the positions that are none, one more sentence the pieces of none
    sentences = columns.new_full((len(columns), piece_count + 1), sentence_count)
    sentences.scatter_(1, columns.where(columns >= 0, piece_count), numbers)
    largest = values.new_zeros(*values.shape[:2], sentence_count + 1)
    pieces = sentences[:, None, :piece_count].expand_as(values)
    return largest.scatter_reduce(2, pieces, values, "amax", include_self=False)[:, :, :sentence_count]


def _first_occurrences(pieces: PieceBatch) -> Tensor:
    """Which pieces do not occur earlier in the sentence, (n, t), bool."""
    is_same = (pieces.ids[:, :, None] == pieces.ids[:, None]) & pieces.mask[:, None]
    return ~is_same.tril(-1).any(2)


def piece_batch(pieces: Pieces, features: PieceFeatures, device: str = "cpu") -> PieceBatch:
    """The pieces as tensors for the networks.

    Args:
        pieces: of one side of some captions.
        features: of the vocabulary's pieces.
        device: a torch device's name.
    """
    static, noun_shares, associations, signs = features.on(device)
    sentence_spans = _positions(np.where(pieces.word_mask, pieces.sentence, -1))
    piece_arrays = pieces.states, pieces.ids.astype(np.int64), pieces.word_mask, sentence_spans
    states, ids, mask, positions = (torch.from_numpy(array).to(device) for array in piece_arrays)
    return PieceBatch(
        states,
        ids,
        mask,
        positions,
        static[ids] * mask[:, :, None],
        associations[ids] * mask[:, :, None],
        signs,
        noun_shares[ids] * mask,
    )


def _positions(sentence: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the pieces of each sentence of a row are, (n, sentences, longest): shorter ones are filled up with their
    first, those without pieces with -1.

    >>> _positions(np.array([[0, 0, 2, -1]])).tolist()
    [[[0, 1], [-1, -1], [2, 2]]]
    """
    piece_rows, piece_columns = np.nonzero(sentence >= 0)
    sentence_count = int(sentence.max(initial=0)) + 1
    sentence_indices = piece_rows * sentence_count + sentence[piece_rows, piece_columns]
    piece_counts = np.bincount(sentence_indices, minlength=len(sentence) * sentence_count)
    sentence_starts = np.cumsum(piece_counts) - piece_counts
    within_sentence = np.arange(len(sentence_indices)) - sentence_starts[sentence_indices]
    positions = np.full((len(piece_counts), int(piece_counts.max(initial=1))), -1, np.int64)
    positions[piece_counts > 0] = piece_columns[sentence_starts[piece_counts > 0]][:, None]
    positions[sentence_indices, within_sentence] = piece_columns
    return positions.reshape(len(sentence), sentence_count, -1)
