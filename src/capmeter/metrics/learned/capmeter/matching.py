"""How the word pieces of a candidate match those of its references: features of the networks of `capmeter`.

`network.py` gives the formulas of support, agreed and objects. Shapes: n captions, t pieces of either side, c of the
candidate, r of all references concatenated.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

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
