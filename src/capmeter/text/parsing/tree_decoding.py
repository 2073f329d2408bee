"""The best projective dependency tree of a sentence: one root, no cycle, no crossing arcs.

score(tree) = Σ over words d of s(d, head(d)). If the best heads of all words form such a tree, it is the best tree;
else Eisner's algorithm (1996) finds it in O(n³), here for many sentences of one length at once.

>>> scores = np.array([[[1.0, -9.0, 5.0], [1.0, 4.0, -9.0]]])  # each word prefers the other as its head
>>> best_trees(scores).tolist()
[[2, 0]]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Heads = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating]


def best_trees(scores: Scores) -> Heads:
    """Finds the best projective tree with one root of each sentence.

    Args:
        scores: of each governor of each word (sentences, n, n + 1): (d, h) is the score of word h (from 1; 0 is the
            root) as the governor of word d + 1.

    Returns:
        The heads (sentences, n), 0 for the root.
    """
    heads: Heads = scores.argmax(axis=2)
    malformed_rows = np.flatnonzero(~is_well_formed(heads))
    if malformed_rows.size:
        heads[malformed_rows] = _run_eisner(scores[malformed_rows].astype(np.float64))
    return heads


def is_well_formed(heads: Heads) -> npt.NDArray[np.bool_]:
    """Returns which rows of heads (sentences, n) are trees with one root and without crossing arcs."""
    sentence_count, word_count = heads.shape
    above = np.concatenate([np.zeros((sentence_count, 1), np.int64), heads], axis=1)
    for _ in range(max(1, int(word_count).bit_length())):
        above = np.take_along_axis(above, above, axis=1)
    has_one_root = ((heads == 0).sum(axis=1) == 1) & ~above.any(axis=1)
    word_positions = np.arange(1, word_count + 1)
    left, right = np.minimum(heads, word_positions), np.maximum(heads, word_positions)
    is_inside = (left[:, :, None] < left[:, None, :]) & (left[:, None, :] < right[:, :, None])
    is_crossing = (is_inside & (right[:, :, None] < right[:, None, :])).any(axis=(1, 2))
    return np.asarray(has_one_root & ~is_crossing)


def _run_eisner(scores: npt.NDArray[np.float64]) -> Heads:
    """Runs Eisner's algorithm over spans [first word, last word]; the head of a complete span is at one of its ends."""
    sentence_count, word_count, _ = scores.shape
    arc_scores = scores[:, :, 1:].transpose(0, 2, 1)  # [sentence, head, dependent]
    to_right = np.zeros((sentence_count, word_count, word_count))  # complete, headed by the first word
    to_left = np.zeros((sentence_count, word_count, word_count))  # complete, headed by the last word
    arc_right = np.zeros((sentence_count, word_count, word_count))  # the first word governs the last
    arc_left = np.zeros((sentence_count, word_count, word_count))  # the last word governs the first
    splits = np.zeros((4, sentence_count, word_count, word_count), np.int64)
    for span_width in range(1, word_count):
        first = np.arange(word_count - span_width)
        last = first + span_width
        split_points = first[:, None] + np.arange(span_width)  # [span, split]
        joined = to_right[:, first[:, None], split_points] + to_left[:, split_points + 1, last[:, None]]
        best_scores = joined.max(axis=2)
        splits[0][:, first, last] = splits[1][:, first, last] = joined.argmax(axis=2) + first
        arc_right[:, first, last] = best_scores + arc_scores[:, first, last]
        arc_left[:, first, last] = best_scores + arc_scores[:, last, first]
        joined = arc_right[:, first[:, None], split_points + 1] + to_right[:, split_points + 1, last[:, None]]
        to_right[:, first, last] = joined.max(axis=2)
        splits[2][:, first, last] = joined.argmax(axis=2) + first + 1
        joined = to_left[:, first[:, None], split_points] + arc_left[:, split_points, last[:, None]]
        to_left[:, first, last] = joined.max(axis=2)
        splits[3][:, first, last] = joined.argmax(axis=2) + first
    roots = (to_left[:, 0, :] + to_right[:, :, -1] + scores[:, :, 0]).argmax(axis=1)
    return np.array([_trace_back(splits[:, k], int(roots[k])) for k in range(sentence_count)], np.int64).reshape(
        sentence_count, word_count
    )


_ARC_RIGHT, _ARC_LEFT, _TO_RIGHT, _TO_LEFT = range(4)


def _trace_back(splits: npt.NDArray[np.int64], root: int) -> list[int]:
    """Reads the heads of one sentence's words from the best splits of its spans."""
    word_count = splits.shape[1]
    heads = [0] * word_count
    spans = [(_TO_LEFT, 0, root), (_TO_RIGHT, root, word_count - 1)]
    while spans:
        kind, first_word, last_word = spans.pop()
        if first_word == last_word:
            continue
        split_word = int(splits[kind, first_word, last_word])
        if kind == _TO_RIGHT:
            spans += [(_ARC_RIGHT, first_word, split_word), (_TO_RIGHT, split_word, last_word)]
        elif kind == _TO_LEFT:
            spans += [(_TO_LEFT, first_word, split_word), (_ARC_LEFT, split_word, last_word)]
        else:
            heads[last_word if kind == _ARC_RIGHT else first_word] = (
                first_word if kind == _ARC_RIGHT else last_word
            ) + 1
            spans += [(_TO_RIGHT, first_word, split_word), (_TO_LEFT, split_word + 1, last_word)]
    return heads
