"""How sure a score of `capmeter` is: the probability that it is on the wrong side of .5.

    right = σ(a + b l + c d)        uncertainty = 1 - right where l ≥ 0, else right
    d = (m - 1) (l - mean l_k)

l is the logit of the calibrated score, m the number of references and l_k the logit without the k-th of them. d, the
jackknife's correction of bias (Quenouille 1949), estimates how much l would rise with further references: it is large
where references disagree, and 0 for a single one, which nothing can be left out of. The encoder does not run again;
the matcher does, once for each reference (of more than 50, for 50 of them). right is the probability that the caption
is a human caption of the photo and not a perturbed one, if both are equally frequent, as for the score itself; a, b and
c depend on m (`COEFFICIENTS`) and were fitted on perturbed captions of held-out photos (`benchmarks/uncertainty.py`).
The score does not depend on d, and was calibrated with several references, so an uncertainty can be above .5: the score
is then probably on the wrong side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Floats
from capmeter.metrics.learned.capmeter.encoded_part import EncodedPart, TrainedCapmeter

UNCERTAINTY = "uncertainty"
"""The name of the part."""
COEFFICIENTS = {1: (0.45, 0.55, 0.0), 2: (-0.13, 0.77, 0.71), 3: (-0.55, 0.91, 1.58), 4: (-0.62, 1.0, 1.85)}
"""a, b and c by number of references; those of four hold for more."""
MOST_LEFT_OUT = 50
"""Of more references than these, this many at even distances are left out in turn, so that time is linear in m."""
REFERENCES_AT_ONCE = 1 << 14
"""The number of references, repetitions included, whose vectors are in memory."""
_LOWEST = 1e-12  # probability, so that logits are finite


def estimate_uncertainties(part: EncodedPart, scores: Floats, trained: TrainedCapmeter, settings: Settings) -> Floats:
    """The probability that each caption's score is on the wrong side of .5, (captions,); 0 for an empty caption.

    Args:
        part: the captions.
        scores: their calibrated scores, (captions,).
        trained: the network that scored them.
        settings: where it runs.
    """
    errors = expected_errors(scores, reference_corrections(part, scores, trained, settings), part.references.lengths)
    errors[part.candidate_lengths == 0] = 0.0
    return errors


def expected_errors(scores: Floats, corrections: Floats, reference_counts: NDArray[np.int64]) -> Floats:
    """The probability that each score is on the wrong side of .5, (n,).

    Args:
        scores: 0 to 1, (n,).
        corrections: d of each, (n,).
        reference_counts: m of each, (n,), at least 1.

    >>> a, b, c = COEFFICIENTS[1]
    >>> expected_errors(np.array([0.5]), np.array([0.0]), np.array([1])).round(6) == np.round(1 / (1 + np.exp(a)), 6)
    array([ True])
    """
    coefficient_table = np.array([COEFFICIENTS[count] for count in sorted(COEFFICIENTS)])
    offset, slope, weight = coefficient_table[np.minimum(reference_counts, len(coefficient_table)) - 1].T
    logits = compute_logits(scores)
    right_probability = 0.5 * (1 + np.tanh(0.5 * (offset + slope * logits + weight * corrections)))
    errors: Floats = np.where(logits >= 0, 1 - right_probability, right_probability)
    return errors


def reference_corrections(
    part: EncodedPart,
    scores: Floats,
    trained: TrainedCapmeter,
    settings: Settings,
    most_left_out: int = MOST_LEFT_OUT,
) -> Floats:
    """d of each caption, (captions,); 0 with one reference, and for an empty caption.

    Args:
        part: the captions.
        scores: their calibrated scores, (captions,).
        trained: the network that scored them.
        settings: where it runs.
        most_left_out: the number of references of a caption that are left out in turn.
    """
    reference_counts = np.where(part.candidate_lengths > 0, part.references.lengths, 0)
    corrections, logits = np.zeros(len(scores)), compute_logits(scores)
    for count in np.unique(reference_counts[reference_counts > 1]).tolist():
        caption_rows = np.flatnonzero(reference_counts == count)
        reference_rows = part.references.take(caption_rows).values.reshape(-1, count)
        positions = np.linspace(0, count - 1, min(count, most_left_out)).astype(np.int64)
        left_out = np.zeros(len(caption_rows) * len(positions))  # k n + j: of row k without its reference positions[j]
        at_once = max(1, REFERENCES_AT_ONCE // count)
        for batch_start in range(0, len(left_out), at_once):
            batch = np.arange(batch_start, min(batch_start + at_once, len(left_out)))
            row_indices, omitted = np.divmod(batch, len(positions))
            remaining = reference_rows[row_indices][np.arange(count) != positions[omitted, None]]
            lengths = np.full(len(row_indices), count - 1)
            block = EncodedPart(
                part.encodings, part.candidates[caption_rows[row_indices]], Ragged.from_lengths(remaining, lengths)
            )
            probabilities = trained.probability("score", block.score_logits(trained, settings))
            left_out[batch_start : batch_start + len(row_indices)] = compute_logits(probabilities)
        left_out_logits = left_out.reshape(-1, len(positions))
        corrections[caption_rows] = jackknife_correction(logits[caption_rows], left_out_logits, count)
    return corrections


def jackknife_correction(values: Floats, left_out: Floats, count: int) -> Floats:
    """The jackknife's correction of the bias of values (n,), from what each is without one observation, (n, some).

    Args:
        values: of all observations, (n,).
        left_out: without one observation each, of all or of some observations.
        count: the number of observations.

    >>> jackknife_correction(np.array([2.0]), np.array([[1.0, 2.0, 1.5]]), 3)
    array([1.])
    """
    correction: Floats = (count - 1) * (values - left_out.mean(axis=1))
    return correction


def compute_logits(probabilities: Floats) -> Floats:
    """The logits of probabilities, of 0 and 1 as of 1e-12 and 1 - 1e-12."""
    clipped = np.clip(probabilities, _LOWEST, 1 - _LOWEST)
    logits: Floats = np.log(clipped) - np.log1p(-clipped)
    return logits
