"""Evidence for TBR's scores: which word pieces were combined, matched, cut and removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.evaluation.evidence import Evidence, Link, Mark
from capmeter.metrics.embedding.word_pieces import Pieces
from capmeter_research.papers.tbr.combination import Flags


def explain_combination(
    candidate: Pieces,
    references: Pieces,
    members: Flags,
    *,
    base: int | None,
    stop: Flags,
    threshold: float,
    order: Sequence[int],
    spell: Callable[[NDArray[Any]], Sequence[str]],
    facts: dict[str, float | str],
) -> Evidence:
    """The evidence of one caption.

    Marks on references: `base` and `combined` (added from another reference) make up the combined reference; `cut`
    marks its words without a match above the threshold in the candidate, `removed` its stop words. On the candidate:
    `removed`, and `unmatched` for words that no piece of the combined reference matched.

    Args:
        candidate, references: the pieces of this caption (n = 1), references in the order in which they are added.
        members: the pieces of the combined reference, (t,).
        base: the reference that the others are combined with; None if they are not combined.
        stop: which word pieces are removed, (vocabulary,).
        threshold: cosines up to this are cut.
        order: for each reference as added, its index among the caption's references.
        spell: the word pieces of ids.
        facts: of the evidence.
    """
    sentence_starts = np.searchsorted(references.sentence[0], np.arange(len(order)))
    piece_cosines = candidate.states[0] @ references.states[0].T
    piece_cosines[~candidate.word_mask[0]] = -2
    links, marks, matched_positions = [], [], set()
    for t in np.flatnonzero(members).tolist():
        sentence = int(references.sentence[0, t])
        piece_position = t - int(sentence_starts[sentence]) - 1  # without the begin token
        reference_span = (order[sentence], piece_position, piece_position + 1)
        if base is not None:
            marks.append(Mark("reference", *reference_span, "base" if sentence == base else "combined"))
        if stop[references.ids[0, t]]:
            marks.append(Mark("reference", *reference_span, "removed"))
        c = int(piece_cosines[:, t].argmax())
        if piece_cosines[c, t] > threshold:
            matched_positions.add(c - 1)
            links.append(
                Link((c - 1, c), reference_span[0], reference_span[1:], "embedding", float(piece_cosines[c, t]))
            )
        else:
            marks.append(Mark("reference", *reference_span, "cut", float(max(piece_cosines[c, t], -1.0))))
    candidate_ids = candidate.ids[0][candidate.word_mask[0]]
    for c, piece in enumerate(candidate_ids.tolist()):
        if stop[piece]:
            marks.append(Mark("candidate", None, c, c + 1, "removed"))
        if c not in matched_positions:
            marks.append(Mark("candidate", None, c, c + 1, "unmatched"))
    of_reference = [references.word_mask[0] & (references.sentence[0] == k) for k in np.argsort(order).tolist()]
    reference_words = tuple(tuple(spell(references.ids[0][mask])) for mask in of_reference)
    return Evidence(tuple(spell(candidate_ids)), reference_words, tuple(links), tuple(marks), facts)
