"""Success and failure cases (Figure 10 of Cui et al.): captions on which a critic and another metric judge differently.

People's ratings and both metrics' scores are compared by rank: the share of captions that are rated lower, ties counted
half. A case speaks for the critic as far as its rank is nearer to people's than the other metric's is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats, Metric
from capmeter.evaluation.evidence import Evidence
from capmeter.evaluation.runner import Evaluation


@dataclass(frozen=True, eq=False)
class RankDisagreement:
    """A caption with the mean rating of people, both metrics' scores, and the three ranks in [0, 1].

    ranks: of people, the critic and the other metric. evidence: of the critic, with the words' contributions.
    """

    caption: Caption
    human: float
    scores: tuple[float, float]
    ranks: tuple[float, float, float]
    evidence: Evidence


@dataclass(frozen=True, eq=False)
class Cases:
    """The cases that speak most for the critic (`better`) and against it (`worse`), and the share of captions on which
    it is nearer to people.
    """

    critic: str
    other: str
    captions: int
    share: float
    better: tuple[RankDisagreement, ...]
    worse: tuple[RankDisagreement, ...]


def cases(captions: CaptionSet, critic: Metric, other: Metric, most: int = 5) -> Cases:
    """The cases among captions with human ratings; of each image at most one on each side.

    Raises:
        InputError: fewer than two captions have ratings.
    """
    rated_rows = [row for row, ratings in enumerate(captions.humans) if ratings]
    if len(rated_rows) < 2:
        raise InputError("cases need captions with human ratings (the field `human`); give such a file")
    rated_captions = captions.select(rated_rows)
    evaluation = Evaluation((critic, other)).with_collected_states(rated_captions)
    results = evaluation.run(rated_captions)
    human = np.array([np.mean(caption_ratings or (0.0,)) for caption_ratings in rated_captions.humans])
    metric_scores = [results[metric].items.array for metric in (critic, other)]
    human_ranks, critic_ranks, other_ranks = (_ranks(values) for values in (human, *metric_scores))
    rank_gain = np.abs(other_ranks - human_ranks) - np.abs(critic_ranks - human_ranks)
    order = np.argsort(-rank_gain, kind="stable")
    better_rows, worse_rows = (
        _of_different_images(rated_captions, rows.tolist(), most) for rows in (order, order[::-1])
    )
    explanations = (
        Evaluation((critic,))
        .with_collected_states(rated_captions)
        .explain(rated_captions.select([*better_rows, *worse_rows]))[critic]
    )

    def case(row: int, evidence: Evidence) -> RankDisagreement:
        values = float(metric_scores[0][row]), float(metric_scores[1][row])
        ranks = float(human_ranks[row]), float(critic_ranks[row]), float(other_ranks[row])
        return RankDisagreement(rated_captions[rated_captions.ids[row]], float(human[row]), values, ranks, evidence)

    disagreements = [case(row, each) for row, each in zip([*better_rows, *worse_rows], explanations, strict=True)]
    return Cases(
        str(critic),
        str(other),
        len(rated_captions),
        float((rank_gain > 0).mean() + (rank_gain == 0).mean() / 2),
        tuple(disagreements[: len(better_rows)]),
        tuple(disagreements[len(better_rows) :]),
    )


def _ranks(values: Floats) -> Floats:
    from scipy.stats import rankdata

    ranks: Floats = (rankdata(values) - 0.5) / len(values)
    return ranks


def _of_different_images(captions: CaptionSet, ordered_rows: list[int], most: int) -> list[int]:
    first_rows: dict[str, int] = {}
    for row in ordered_rows:
        first_rows.setdefault(captions.image_ids[row], row)
        if len(first_rows) == most:
            break
    return list(first_rows.values())
