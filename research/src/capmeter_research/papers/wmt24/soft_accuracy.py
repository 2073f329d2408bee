"""How well a metric ranks systems, as WMT's metrics task of 2024 measures it: soft pairwise accuracy, and ties.

* Pairwise accuracy: the share of pairs of systems whose mean scores have the same order as their mean ratings.
* Soft pairwise accuracy: metrics should also be as certain as people are. With p(a, b) the one-sided p of a paired
  permutation test of "a is better than b",

      SPA = 1 - mean over pairs of |p_human(a, b) - p_metric(a, b)|

  so that a pair which people cannot tell apart costs about a half at most, whichever way round the metric has it.
* `acc-eq`: of the captions of an image, the share of pairs ordered or tied as by people, where scores that differ by
  at most ε are ties, and ε is chosen in the metric's favour (see `capmeter.stats.pairs.TieCalibrated`).

Those captions count whose image has one of every system. Scores are of captions, and a system's is their mean, for
metrics of a corpus as well (the mean BLEU of captions, not BLEU). p is the share of 1,000 permutations in which the
difference of sums is as large as the one found, or larger; all pairs see the same ones, which come from seed 4 as in
the released program. That sums in single precision, so that of equal differences some count as smaller.

>>> human = np.array([[4.0, 3, 5, 4], [3, 3, 4, 4], [1, 2, 1, 2]])  # 3 systems × 4 images
>>> soft_pairwise_accuracy(human, human), soft_pairwise_accuracy(human, human[::-1]) < 0.5
(1.0, True)

Thompson, Mathur, Deutsch, Khayrallah: Improving Statistical Significance in Human Evaluation of Automatic Metrics via
Soft Pairwise Accuracy. WMT 2024. Deutsch, Foster, Freitag: Ties Matter. EMNLP 2023. research/docs/system-ranking.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Floats, Metric
from capmeter.evaluation.runner import evaluate
from capmeter.meta.comparison import align_captions
from capmeter.stats.pairs import TieCalibrated
from capmeter_research.common.study_table import Part, StudyRow

COLUMNS = ("spa", "pairwise", "acc-eq", "epsilon")
PERMUTATIONS, SEED = 1000, 4
_ROUNDING = 1e-12


def superiority_p_values(scores: Floats, permutations: int = PERMUTATIONS, seed: int = SEED) -> Floats:
    """One-sided p of each pair of systems (a before b) that a is better than b.

    Args:
        scores: of each system's captions (systems, images).
        permutations: their number.
        seed: of the permutations.

    Returns:
        The pairs (0, 1), (0, 2) … (1, 2) … in order.
    """
    first, second = np.triu_indices(len(scores), 1)
    differences = scores[first] - scores[second]
    keep = np.rint(np.random.default_rng(seed).random((permutations, scores.shape[1]), np.float32))
    permuted_sums = (2 * keep.astype(np.float64) - 1) @ differences.T
    p_values: Floats = (permuted_sums >= differences.sum(axis=1) - _ROUNDING * np.abs(scores).sum()).mean(axis=0)
    return p_values


def soft_pairwise_accuracy(human: Floats, scores: Floats, permutations: int = PERMUTATIONS, seed: int = SEED) -> float:
    """SPA of scores, of which higher is better.

    Args:
        human: ratings of each system's captions (systems, images).
        scores: of the same captions.
        permutations, seed: as in `superiority_p_values`.
    """
    human_p, metric_p = (superiority_p_values(table, permutations, seed) for table in (human, scores))
    return float(1 - np.abs(human_p - metric_p).mean())


def pairwise_accuracy(human: Floats, scores: Floats) -> float:
    """The share of pairs of systems whose means have the same order; means that are equal in one alone count as wrong.

    Args:
        human, scores: as in `soft_pairwise_accuracy`.
    """
    first, second = np.triu_indices(len(human), 1)
    human_order, metric_order = (np.sign(m[first] - m[second]) for m in (human.mean(axis=1), scores.mean(axis=1)))
    return float((human_order == metric_order).mean())


def measure_rankings(
    systems: Mapping[str, CaptionSet], metrics: Sequence[Metric], settings: Settings | None = None
) -> Part:
    """The measures of each metric, the best SPA first.

    Args:
        systems: name → captions with their ratings; a caption's is their mean, captions without are left out.
        metrics: which give each caption a score.
        settings: of the run.

    Raises:
        InputError: one system, or no images with rated captions of all; metrics without scores of captions.
    """
    rated = {
        name: captions.select([row for row, ratings in enumerate(captions.humans) if ratings])
        for name, captions in sorted(systems.items())
    }
    if len(rated) < 2 or not all(map(len, rated.values())):
        counts = ", ".join(f"{name} {len(captions)}" for name, captions in rated.items())
        raise InputError(f"ranking needs rated captions of two systems at least, but got {counts}")
    aligned = align_captions(rated, common=True)
    human = np.array([[np.mean(ratings or ()) for ratings in captions.humans] for captions in aligned.values()])
    results = [evaluate(captions, metrics, settings=settings) for captions in aligned.values()]
    images = [*next(iter(aligned.values())).image_ids] * len(aligned)
    rows = []
    for metric in metrics:
        scores = np.stack([result[metric].items.array for result in results])
        scores = -scores if metric.lower_is_better else scores
        tied = TieCalibrated(human.ravel(), scores.ravel(), images).best()
        spa, hard = soft_pairwise_accuracy(human, scores), pairwise_accuracy(human, scores)
        rows.append(StudyRow(str(metric), dict(zip(COLUMNS, (spa, hard, tied.accuracy, tied.epsilon), strict=True))))
    rows.sort(key=lambda row: -row.found["spa"])
    return Part(f"rankings of {len(human)} systems by {human.shape[1]} captions of each", COLUMNS, tuple(rows))
