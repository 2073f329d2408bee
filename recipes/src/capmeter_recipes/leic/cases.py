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

    @property
    def nearer(self) -> float:
        """By how much the critic's rank is nearer to people's."""
        people, critic, other = self.ranks
        return abs(other - people) - abs(critic - people)


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
    rated = [row for row, ratings in enumerate(captions.humans) if ratings]
    if len(rated) < 2:
        raise InputError("cases need captions with human ratings (the field `human`); give such a file")
    rated_captions = captions.select(rated)
    evaluation = Evaluation((critic, other)).with_collected_states(rated_captions)
    results = evaluation.run(rated_captions)
    human = np.array([np.mean(each or (0.0,)) for each in rated_captions.humans])
    scores = [results[metric].items.array for metric in (critic, other)]
    people, first, second = (_ranks(values) for values in (human, *scores))
    nearer = np.abs(second - people) - np.abs(first - people)
    order = np.argsort(-nearer, kind="stable")
    better, worse = (_of_different_images(rated_captions, rows.tolist(), most) for rows in (order, order[::-1]))
    explained = (
        Evaluation((critic,))
        .with_collected_states(rated_captions)
        .explain(rated_captions.select([*better, *worse]))[critic]
    )

    def case(row: int, evidence: Evidence) -> RankDisagreement:
        values = float(scores[0][row]), float(scores[1][row])
        ranks = float(people[row]), float(first[row]), float(second[row])
        return RankDisagreement(rated_captions[rated_captions.ids[row]], float(human[row]), values, ranks, evidence)

    disagreements = [case(row, each) for row, each in zip([*better, *worse], explained, strict=True)]
    return Cases(
        str(critic),
        str(other),
        len(rated_captions),
        float((nearer > 0).mean() + (nearer == 0).mean() / 2),
        tuple(disagreements[: len(better)]),
        tuple(disagreements[len(better) :]),
    )


def _ranks(values: Floats) -> Floats:
    from scipy.stats import rankdata

    ranks: Floats = (rankdata(values) - 0.5) / len(values)
    return ranks


def _of_different_images(captions: CaptionSet, rows: list[int], most: int) -> list[int]:
    first_rows: dict[str, int] = {}
    for row in rows:
        first_rows.setdefault(captions.image_ids[row], row)
        if len(first_rows) == most:
            break
    return list(first_rows.values())
