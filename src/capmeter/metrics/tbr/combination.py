"""TBR's arithmetic on padded word pieces: the pieces of the combined reference, and its score.

Shapes: n rows (captions), at most B references per row, t pieces of all of a row's references concatenated, c pieces of
its candidate. The base caption is each reference in turn: axis B of a combination is its base.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capmeter.metrics.base import Floats
from capmeter.metrics.word_pieces import Pieces

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PieceComparison:
    """The candidate's matches for its references' pieces, and the weight of each piece.

    match: float32[n, t], Eq. 2's greedy pick, max over the candidate's words of the cosine, at least 0.
    match_kept: the same over the candidate's words that are not stop words. weight: float64[n, t] (idf).
    kept: bool[n, t], false for stop words. any_kept: bool[n], whether any word of the candidate is kept.
    """

    match: NDArray[np.float32]
    match_kept: NDArray[np.float32]
    weight: Floats
    kept: Flags


def compare(candidates: Pieces, references: Pieces, weights: Floats, stop: Flags) -> PieceComparison:
    """Compares candidates with all their references' pieces; `weights` and `stop` are by word-piece id."""
    similar = candidates.states @ references.states.transpose(0, 2, 1)  # [n, c, t]
    kept = candidates.word & ~stop[candidates.ids]
    return PieceComparison(
        match=np.where(candidates.word[:, :, None], similar, 0).max(axis=1, initial=0),
        match_kept=np.where(kept[:, :, None], similar, 0).max(axis=1, initial=0),
        weight=weights[references.ids],
        kept=~stop[references.ids],
    )


def own_words(references: Pieces) -> Flags:
    """bool[n, B, t]: which pieces are words of each reference."""
    number = int(references.owner.max(initial=0)) + 1
    return references.owned(number) & references.word[:, None, :]


def matching(references: Pieces, beta: float) -> Flags:
    """bool[n, t, t]: which words of the references match each other (cosine above beta)."""
    similar = references.states @ references.states.transpose(0, 2, 1)
    return np.asarray((similar > beta) & references.word[:, :, None] & references.word[:, None, :])


def combine(own: Flags, match: Flags) -> Flags:
    """bool[n, base, t], Section 3.3: every base with those pieces of the other references that it does not yet match.

    The references are added in order, each compared with the base and everything added before.
    """
    joined: Flags = own.copy()
    pairs = match.astype(np.float32)
    for reference in range(own.shape[1]):
        seen = joined.astype(np.float32) @ pairs > 0
        joined |= own[:, reference, None, :] & ~seen
    return joined


def combine_released(own: Flags, match: Flags) -> Flags:
    """bool[n, base, t], the pieces the released code appends to each base.

    It drops a piece of reference l that matches the base or any reference before l, whether in the combination or not.
    """
    by = own.astype(np.float32) @ match.astype(np.float32) > 0  # [n, reference that matches, t]
    added = np.zeros_like(own)
    number = own.shape[1]
    for base in range(number):
        earlier = by[:, base].copy()
        for reference in range(number):
            if reference != base:
                added[:, base] |= own[:, reference] & ~earlier
                earlier |= by[:, reference]
    return added


def recall(members: Flags, compared: PieceComparison, beta: float) -> Floats:
    """Eq. 3 of each combination: idf-weighted mean of the matches above beta; [n, combinations].

    If only pieces of weight 0 match, their unweighted mean; 0 if nothing matches.
    """
    matched = (members & (compared.match > beta)[:, None, :]).astype(np.float64)
    weight = compared.weight[:, None, :]
    total = (matched * weight).sum(axis=-1)
    weighted = np.where(total[..., None] > 0, weight, 1.0) * matched
    total = weighted.sum(axis=-1)
    found: Floats = (weighted * compared.match[:, None, :]).sum(axis=-1) / np.where(total > 0, total, 1.0)
    return found


def recall_without_stop_words(members: Flags, compared: PieceComparison, beta: float) -> Floats:
    """Eq. 5 of each combination: matches above beta over all its pieces that are not stop words; [n, combinations].

    1 if there are none: then there is nothing to compare, and Eq. 6 reduces to its first factor.
    """
    kept = (members & compared.kept[:, None, :]).astype(np.float64)
    match = np.where(compared.match_kept > beta, compared.match_kept, 0).astype(np.float64)
    count = kept.sum(axis=-1)
    found: Floats = np.where(count > 0, (kept * match[:, None, :]).sum(axis=-1) / np.maximum(count, 1), 1.0)
    return found


def released_recalls(
    references: Pieces, own: Flags, added: Flags, compared: PieceComparison, beta: float
) -> tuple[Floats, Floats]:
    """R_comb and R_rm of each base as the released code computes them; both [n, base].

    It appends the vector preceding the intended one, keeps the base's end token as a word and drops the last row. So
    the weight and stop-word status of the k-th appended word are combined with the vector preceding the (k-1)-th, those
    of the first with the base's end token. R_rm counts only pieces whose match exceeds beta.
    """
    n, number, size = own.shape
    place = np.arange(size)
    last = np.maximum.accumulate(np.where(added, place, -1), axis=-1)
    previous = np.concatenate([np.full((n, number, 1), -1), last[..., :-1]], axis=-1)  # the word appended before
    end = np.where(references.owned(number), place, -1).max(axis=-1, keepdims=True)  # each base's end token
    vector = np.where(own, place, np.where(previous >= 0, previous - 1, end))
    row = np.arange(n)[:, None, None]
    members = (own | added).astype(np.float64)

    match = compared.match[row, vector].astype(np.float64)
    counted = members * (match > beta) * compared.weight[:, None, :]
    total = counted.sum(axis=-1)
    comb: Floats = (counted * match).sum(axis=-1) / np.where(total > 0, total, 1.0)

    match = compared.match_kept[row, vector].astype(np.float64)
    counted = members * (match > beta) * compared.kept[:, None, :]
    total = counted.sum(axis=-1)
    removed: Floats = (counted * match).sum(axis=-1) / np.where(total > 0, total, 1.0)
    return comb, removed
