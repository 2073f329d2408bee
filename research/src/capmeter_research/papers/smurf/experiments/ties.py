"""Metrics' agreement with experts where ties play no role, compared with that of other people (SMURF, Table 4).

Two groups judged captions, in Flickr8k experts (1 to 4) and a crowd (yes or no). On the captions that both judged, the
crowd's mean agrees with the experts' to some degree: the inter-human bar. But both judge coarsely, and where people
tie, rank correlations reward metrics that tie too. So metrics and crowd are compared on the *tie-free pairs*: pairs of
captions that neither the experts nor the crowd tie. There

    τ = (concordant − discordant) / pairs

(a metric's own ties count as neither). That leaves out what the crowd could not decide, to the crowd's advantage:
the same τ is therefore also given on all pairs that the *experts* order, where a tie of the crowd counts as neither;
and so is τ-b on all pairs. The paper does not say how its tie-free subset was drawn; these values depend on no sampling
and no order. Intervals resample images.

>>> experts, crowd = np.array([1.0, 2, 2, 4]), np.array([0.0, 0.5, 1, 0.5])
>>> pairs = TieFree(experts, crowd)
>>> pairs.count, round(pairs.tau(np.array([0.1, 0.2, 0.9, 0.8])), 4)
(4, 0.5)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Floats, Metric
from capmeter.evaluation.runner import evaluate
from capmeter.stats.bootstrap import Clusters, Interval, Statistic, bootstrap_interval
from capmeter.stats.kendall import TauB

PEOPLE = "inter-human"
_ROWS = 1024  # points that are compared with all others at once


class TieFree:
    """The pairs of points that neither of two judgments ties."""

    def __init__(self, first: Floats, second: Floats) -> None:
        self._first, self._second = first, second
        self.count = int(sum(np.count_nonzero(mask) for _, _, mask in self._blocks())) // 2
        if not self.count:
            raise InputError("every pair of captions is tied by one of the two groups; nothing can be compared")

    def _blocks(self) -> Iterator[tuple[slice, Any, Any]]:
        """Some points against all: how the first judgment orders them (-1, 0, 1), and which pairs are kept."""
        for block_start in range(0, len(self._first), _ROWS):
            block = slice(block_start, block_start + _ROWS)
            pair_order = _order(self._first, block)
            yield block, pair_order, (pair_order != 0) & (_order(self._second, block) != 0)

    def tau(self, scores: Floats) -> float:
        """(C − D) / pairs, of scores against the first judgment."""
        return float(self.statistic(scores)(None))

    def statistic(self, scores: Floats) -> Statistic:
        """The same under weights [resamples, n] of the points."""

        def tau(weights: Any = None) -> Any:
            weight_table = np.ones((1, len(scores)), np.float32) if weights is None else np.asarray(weights, np.float32)
            agreement_sums, pair_sums = np.zeros(len(weight_table)), np.zeros(len(weight_table))
            for block, pair_order, untied_mask in self._blocks():
                agreement = np.where(untied_mask, pair_order * _order(scores, block), 0).astype(np.float32)
                for sums, matrix in ((agreement_sums, agreement), (pair_sums, untied_mask.astype(np.float32))):
                    sums += np.einsum("db,db->d", weight_table @ matrix.T, weight_table[:, block], dtype=np.float64)
            tau_values = agreement_sums / np.maximum(pair_sums, 1)
            return tau_values if weights is not None else float(tau_values[0])

        return tau


def _order(values: Floats, block: slice) -> Any:
    """Which of two points is the larger, those of a block against all: int8[block, n] of -1, 0, 1."""
    block_values = values[block, None]
    return (block_values > values[None]).astype(np.int8) - (block_values < values[None]).astype(np.int8)


@dataclass(frozen=True, eq=False)
class TieFreeAgreement:
    """One metric (or the crowd): τ on the tie-free pairs, on the pairs that the experts order, and τ-b on all."""

    name: str
    tie_free: Interval
    ordered: Interval
    tau_b: Interval


@dataclass(frozen=True, eq=False)
class Ties:
    """The study: how many captions and pairs (tie-free, ordered by the experts, all), the crowd's row first."""

    captions: int
    pairs: int
    ordered_pairs: int
    all_pairs: int
    rows: list[TieFreeAgreement]


def tie_free(
    experts: CaptionSet,
    crowd: CaptionSet,
    metrics: Sequence[Metric],
    *,
    resamples: int = 1000,
    seed: int = 0,
    settings: Settings | None = None,
) -> Ties:
    """Metrics and the crowd against the experts, on the captions that both judged."""
    crowd_ratings = {(caption.image_id, caption.candidate): _mean(caption.human) for caption in crowd}
    both = [k for k, caption in enumerate(experts) if _both(crowd_ratings, caption) is not None]
    if len(both) < 3:
        raise InputError(
            f"both groups judged {len(both)} captions; expected captions that are in both files, with `human` ratings"
        )
    captions = experts.select(both)
    systems = list(captions)
    expert_ratings = np.array([_mean(caption.human) for caption in systems])
    crowd_means = np.array([_both(crowd_ratings, caption) for caption in systems], float)
    tie_free_pairs, ordered_pairs = TieFree(expert_ratings, crowd_means), TieFree(expert_ratings, expert_ratings)
    # document frequencies are those of the whole set, whatever the crowd judged of it
    results = evaluate(captions, metrics, corpus=experts, settings=settings)
    scores_by_name = {PEOPLE: crowd_means} | {str(metric): results[metric].items.array for metric in metrics}
    images = Clusters(captions.image_ids)
    rows = [
        TieFreeAgreement(
            name,
            bootstrap_interval(tie_free_pairs.statistic(scores), images, resamples, seed),
            bootstrap_interval(ordered_pairs.statistic(scores), images, resamples, seed),
            bootstrap_interval(TauB(expert_ratings, scores), images, resamples, seed),
        )
        for name, scores in scores_by_name.items()
    ]
    return Ties(len(both), tie_free_pairs.count, ordered_pairs.count, len(both) * (len(both) - 1) // 2, rows)


def without_own(captions: CaptionSet) -> CaptionSet:
    """The captions that are not among their own references, as in the usual protocol of Flickr8k."""
    return captions.select([k for k, caption in enumerate(captions) if caption.candidate not in caption.references])


def _mean(ratings: tuple[float, ...] | None) -> float | None:
    return sum(ratings) / len(ratings) if ratings else None


def _both(votes: dict[tuple[str, str], float | None], caption: Any) -> float | None:
    return votes.get((caption.image_id, caption.candidate)) if caption.human else None
