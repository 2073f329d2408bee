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
    """Compares candidates with all their references' pieces; `weights` and `stop` are by word-piece id."""
    cosine = candidates.states @ references.states.transpose(0, 2, 1)  # (n, c, t)
    content = candidates.word_mask & ~stop[candidates.ids]
    return PieceComparison(
        match=np.where(candidates.word_mask[:, :, None], cosine, 0).max(axis=1, initial=0),
        content_match=np.where(content[:, :, None], cosine, 0).max(axis=1, initial=0),
        weight=weights[references.ids],
        content=~stop[references.ids],
    )


def reference_words(references: Pieces) -> Flags:
    """Which pieces are words of each reference, (n, B, t)."""
    count = int(references.sentence.max(initial=0)) + 1
    return references.sentence_masks(count) & references.word_mask[:, None, :]


def matching_words(references: Pieces, beta: float) -> Flags:
    """Which words of the references match each other (cosine above beta), (n, t, t)."""
    cosine = references.states @ references.states.transpose(0, 2, 1)
    return np.asarray((cosine > beta) & references.word_mask[:, :, None] & references.word_mask[:, None, :])


def combine(words: Flags, matches: Flags) -> Flags:
    """Section 3.3, (n, base, t): every base with those pieces of the other references that it does not yet match.

    The references are added in order, each compared with the base and everything added before.
    """
    members: Flags = words.copy()
    pairs = matches.astype(np.float32)
    for reference in range(words.shape[1]):
        matched = members.astype(np.float32) @ pairs > 0
        members |= words[:, reference, None, :] & ~matched
    return members


def combine_released(words: Flags, matches: Flags) -> Flags:
    """The pieces that the released code appends to each base, (n, base, t).

    It drops a piece of reference l that matches the base or any reference before l, whether in the combination or not.
    """
    matched_by = words.astype(np.float32) @ matches.astype(np.float32) > 0  # (n, reference that matches, t)
    appended = np.zeros_like(words)
    count = words.shape[1]
    for base in range(count):
        matched = matched_by[:, base].copy()
        for reference in range(count):
            if reference != base:
                appended[:, base] |= words[:, reference] & ~matched
                matched |= matched_by[:, reference]
    return appended


def recall(members: Flags, comparison: PieceComparison, beta: float) -> Floats:
    """Eq. 3 of each combination: idf-weighted mean of the matches above beta, (n, combinations).

    If only pieces of weight 0 match, their unweighted mean; 0 if nothing matches.
    """
    matched = (members & (comparison.match > beta)[:, None, :]).astype(np.float64)
    weight = comparison.weight[:, None, :]
    total = (matched * weight).sum(axis=-1)
    weighted = np.where(total[..., None] > 0, weight, 1.0) * matched
    return _mean(weighted * comparison.match[:, None, :], weighted)


def recall_without_stop_words(members: Flags, comparison: PieceComparison, beta: float) -> Floats:
    """Eq. 5 of each combination: matches above beta over all its pieces that are not stop words, (n, combinations).

    1 if there are none: then there is nothing to compare, and Eq. 6 reduces to its first factor.
    """
    content = (members & comparison.content[:, None, :]).astype(np.float64)
    match = np.where(comparison.content_match > beta, comparison.content_match, 0).astype(np.float64)
    count = content.sum(axis=-1)
    mean = (content * match[:, None, :]).sum(axis=-1) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, mean, 1.0))


def released_recalls(
    references: Pieces, words: Flags, appended: Flags, comparison: PieceComparison, beta: float
) -> tuple[Floats, Floats]:
    """R_comb and R_rm of each base as the released code computes them, (n, base) each.

    It appends the vector preceding the intended one, keeps the base's end token as a word and drops the last row. So
    the weight and stop-word status of the k-th appended word are combined with the vector preceding the (k-1)-th, those
    of the first with the base's end token. R_rm counts only pieces whose match exceeds beta.
    """
    n, bases, size = words.shape
    index = np.arange(size)
    last = np.maximum.accumulate(np.where(appended, index, -1), axis=-1)
    previous = np.concatenate([np.full((n, bases, 1), -1), last[..., :-1]], axis=-1)  # the word appended before
    end = np.where(references.sentence_masks(bases), index, -1).max(axis=-1, keepdims=True)  # each base's end token
    vector = np.where(words, index, np.where(previous >= 0, previous - 1, end))
    row = np.arange(n)[:, None, None]
    members = (words | appended).astype(np.float64)

    match = comparison.match[row, vector].astype(np.float64)
    weight = members * (match > beta) * comparison.weight[:, None, :]
    content_match = comparison.content_match[row, vector].astype(np.float64)
    content = members * (content_match > beta) * comparison.content[:, None, :]
    return _mean(weight * match, weight), _mean(content * content_match, content)


def _mean(weighted: Floats, weights: Floats) -> Floats:
    """Σ weighted / Σ weights over the last axis; 0 without weights."""
    total = weights.sum(axis=-1)
    mean: Floats = weighted.sum(axis=-1) / np.where(total > 0, total, 1.0)
    return mean
