"""Where a metric sees an error: the words of a caption that it blames most, compared with those that people flagged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.evidence import Evidence
from capmeter.evaluation.runner import Evaluation
from capmeter.judgments.prepared import Floats, Points, letters_and_digits

_BLAMED = ("hallucinated", "contradicted", "unsupported", "unmatched")


def blamed_words(evidence: Evidence) -> list[str]:
    """The words that a metric blames most, as letters and digits.

    They are those with the lowest score, of a metric that scores words; else those that it marks as hallucinated,
    contradicted, unsupported or unmatched, the first of these kinds that occurs.

    >>> blamed_words(Evidence(("a", "red", "dog", "."), (), word_scores=(0.9, 0.2, 0.8, 0.1)))
    ['red']
    """
    words = [letters_and_digits(token) for token in evidence.candidate]
    if evidence.word_scores:
        scores = [score for word, score in zip(words, evidence.word_scores, strict=True) if word]
        scored_words = zip(words, evidence.word_scores, strict=True)
        return [word for word, score in scored_words if word and score == min(scores)]
    for mark_kind in _BLAMED:
        word_positions = [
            word_position
            for mark in evidence.marks
            if mark.side == "candidate" and mark.kind == mark_kind
            for word_position in range(mark.start, mark.end)
        ]
        if marked_words := [words[word_position] for word_position in word_positions if words[word_position]]:
            return marked_words
    return []


def localisation_scores(judgments: Points, metric: Metric, settings: Settings) -> Floats:
    """For each caption the share of the blamed words that are flagged (captions,): 0 where none is blamed.

    Raises:
        InputError: the metric cannot explain its scores, or words were not flagged.
    """
    if not metric.can_explain:
        raise InputError(f"{metric} does not say which words it blames, so it has no localisation; leave it out")
    flagged_rows = [caption_index for caption_index, flagged in enumerate(judgments.flagged) if flagged]
    if not flagged_rows or judgments.owners is not None:
        raise InputError(f"{judgments.benchmark} has no flagged words under {judgments.protocol}")
    shares = np.zeros(len(judgments.flagged))
    evaluation = Evaluation((metric,), settings).with_collected_states(judgments.captions)
    parts = judgments.captions.select(flagged_rows).chunks(metric.PART_SIZE)
    explanations = [evidence for part in parts for evidence in evaluation.explain(part)[metric]]
    for caption_index, evidence in zip(flagged_rows, explanations, strict=True):
        shares[caption_index] = _share(blamed_words(evidence), judgments.flagged[caption_index])
    return shares


def _share(blamed: Sequence[str], flagged: Sequence[str]) -> float:
    return sum(word in flagged for word in blamed) / len(blamed) if blamed else 0.0
