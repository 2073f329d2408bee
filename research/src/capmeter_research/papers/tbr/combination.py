"""TBR's arithmetic on padded word pieces: the pieces of the combined reference, and its score.

Shapes: n rows (captions), at most B references per row, t pieces of all of a row's references concatenated, c pieces of
its candidate. The base caption is each reference in turn: axis B of a combination is its base.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capmeter.evaluation.base import Floats
from capmeter.metrics.embedding.word_pieces import Pieces

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PieceComparison:
    """The best match of each reference piece in the candidate, and the weight of each piece."""

    match: NDArray[np.float32]  # (n, t), Eq. 2: max over the candidate's words of the cosine, at least 0
    content_match: NDArray[np.float32]  # (n, t), the same over the candidate's words that are not stop words
    weight: Floats  # (n, t), idf
    content: Flags  # (n, t), false for stop words


def compare(candidates: Pieces, references: Pieces, weights: Floats, stop: Flags) -> PieceComparison:
    """Compares candidates with all their references' pieces.

    Args:
        candidates, references: states and ids of word pieces, a row per caption.
        weights: idf by word-piece id, (vocabulary,).
        stop: which word pieces are stop words, (vocabulary,).
    """
    piece_cosines = candidates.states @ references.states.transpose(0, 2, 1)  # (n, c, t)
    content_mask = candidates.word_mask & ~stop[candidates.ids]
    return PieceComparison(
        match=np.where(candidates.word_mask[:, :, None], piece_cosines, 0).max(axis=1, initial=0),
        content_match=np.where(content_mask[:, :, None], piece_cosines, 0).max(axis=1, initial=0),
        weight=weights[references.ids],
        content=~stop[references.ids],
    )


def reference_words(references: Pieces) -> Flags:
    """Which pieces are words of each reference, (n, B, t)."""
    reference_count = int(references.sentence.max(initial=0)) + 1
    return references.sentence_masks(reference_count) & references.word_mask[:, None, :]


def matching_words(references: Pieces, beta: float) -> Flags:
    """Which words of the references match each other (cosine above beta), (n, t, t)."""
    piece_cosines = references.states @ references.states.transpose(0, 2, 1)
    return np.asarray((piece_cosines > beta) & references.word_mask[:, :, None] & references.word_mask[:, None, :])


def combine(words: Flags, matches: Flags) -> Flags:
    """Section 3.3, (n, base, t): every base with those pieces of the other references that it does not yet match.

    The references are added in order, each compared with the base and everything added before.
    """
    members: Flags = words.copy()
    match_matrix = matches.astype(np.float32)
    for reference_index in range(words.shape[1]):
        is_matched = members.astype(np.float32) @ match_matrix > 0
        members |= words[:, reference_index, None, :] & ~is_matched
    return members


def combine_released(words: Flags, matches: Flags) -> Flags:
    """The pieces that the released code appends to each base, (n, base, t).

    It drops a piece of reference l that matches the base or any reference before l, whether in the combination or not.
    """
    matched_by = words.astype(np.float32) @ matches.astype(np.float32) > 0  # (n, reference that matches, t)
    appended = np.zeros_like(words)
    reference_count = words.shape[1]
    for base_index in range(reference_count):
        is_matched = matched_by[:, base_index].copy()
        for reference_index in range(reference_count):
            if reference_index != base_index:
                appended[:, base_index] |= words[:, reference_index] & ~is_matched
                is_matched |= matched_by[:, reference_index]
    return appended


def recall(members: Flags, comparison: PieceComparison, beta: float) -> Floats:
    """Eq. 3 of each combination: idf-weighted mean of the matches above beta, (n, combinations).

    If only pieces of weight 0 match, their unweighted mean; 0 if nothing matches.

    Args:
        members: the pieces of each combination, (n, combinations, pieces).
        comparison: of candidates and references.
        beta: cosine that a match exceeds.
    """
    matched_members = (members & (comparison.match > beta)[:, None, :]).astype(np.float64)
    piece_weights = comparison.weight[:, None, :]
    total_weight = (matched_members * piece_weights).sum(axis=-1)
    member_weights = np.where(total_weight[..., None] > 0, piece_weights, 1.0) * matched_members
    return _mean(member_weights * comparison.match[:, None, :], member_weights)


def recall_without_stop_words(members: Flags, comparison: PieceComparison, beta: float) -> Floats:
    """Eq. 5 of each combination: matches above beta over all its pieces that are not stop words, (n, combinations).

    1 if there are none: then there is nothing to compare, and Eq. 6 reduces to its first factor.

    Args:
        members, comparison, beta: as in `recall`.
    """
    content_members = (members & comparison.content[:, None, :]).astype(np.float64)
    content_matches = np.where(comparison.content_match > beta, comparison.content_match, 0).astype(np.float64)
    content_counts = content_members.sum(axis=-1)
    mean = (content_members * content_matches[:, None, :]).sum(axis=-1) / np.maximum(content_counts, 1)
    return np.asarray(np.where(content_counts > 0, mean, 1.0))


def released_recalls(
    references: Pieces, words: Flags, appended: Flags, comparison: PieceComparison, beta: float
) -> tuple[Floats, Floats]:
    """R_comb and R_rm of each base as the released code computes them, (n, base) each.

    It appends the vector preceding the intended one, keeps the base's end token as a word and drops the last row. So
    the weight and stop-word status of the k-th appended word are combined with the vector preceding the (k-1)-th, those
    of the first with the base's end token. R_rm counts only pieces whose match exceeds beta.

    Args:
        references: states and ids of word pieces.
        words: the words of each base, (n, bases, pieces).
        appended: what is appended to each base, (n, bases, pieces).
        comparison, beta: as in `recall`.
    """
    n, bases, size = words.shape
    index = np.arange(size)
    last = np.maximum.accumulate(np.where(appended, index, -1), axis=-1)
    previous = np.concatenate([np.full((n, bases, 1), -1), last[..., :-1]], axis=-1)  # the word appended before
    end = np.where(references.sentence_masks(bases), index, -1).max(axis=-1, keepdims=True)  # each base's end token
    vector_positions = np.where(words, index, np.where(previous >= 0, previous - 1, end))
    row_indices = np.arange(n)[:, None, None]
    members = (words | appended).astype(np.float64)

    piece_matches = comparison.match[row_indices, vector_positions].astype(np.float64)
    match_weights = members * (piece_matches > beta) * comparison.weight[:, None, :]
    content_match = comparison.content_match[row_indices, vector_positions].astype(np.float64)
    content_weights = members * (content_match > beta) * comparison.content[:, None, :]
    return _mean(match_weights * piece_matches, match_weights), _mean(content_weights * content_match, content_weights)


def _mean(weighted: Floats, weights: Floats) -> Floats:
    """Σ weighted / Σ weights over the last axis; 0 without weights."""
    total_weight = weights.sum(axis=-1)
    mean: Floats = weighted.sum(axis=-1) / np.where(total_weight > 0, total_weight, 1.0)
    return mean
