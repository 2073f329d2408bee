"""The human level of a benchmark: inter-annotator agreement under the same protocol and coefficient as a metric's.

Rated captions: each rating against the mean of the caption's other ratings (leave-one-out), pooled, under the
protocol's statistic, as if a metric were one more rater; also the same for every two ratings, both ways round. Pairs:
the majority of the direct votes against the label; where the label is that majority itself, each vote against the
majority of the others. A split vote counts one half. Intervals resample images. A benchmark with one rating per
caption, with means only, or with systems has no human level.

>>> from capmeter.judgments.prepared import RatedCaption, prepare_points
>>> from capmeter.judgments.protocol import Protocol
>>> rows = [RatedCaption(str(k), str(k), "a dog", ("a dog runs",), (k % 4, k % 4 + k % 2)) for k in range(40)]
>>> (human,) = human_level(prepare_points("mine", rows, Protocol(name="p", statistic="tau-b")), resamples=100)
>>> human.note.splitlines()[0], round(human.value, 1)
('one rating against the mean of the others', 75.0)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np

from capmeter.judgments.prepared import Floats, JudgedPairs, Points, PreparedJudgments
from capmeter.meta.coefficient import SCALE, AgreementRow, category_values, make_coefficient, scale_interval
from capmeter.stats.bootstrap import Interval, bootstrap_interval
from capmeter.stats.kendall import TauB, TauC
from capmeter.stats.pairs import GroupMean

HUMAN = "human"
"""The judge that is people."""


def human_level(
    judgments: PreparedJudgments, *, resamples: int = 1000, seed: int = 0, level: float = 0.95
) -> list[AgreementRow]:
    """The human level of these judgments and of their categories.

    Args:
        judgments: with ratings or votes.
        resamples: number of resamples of images.
        seed: of the resamples.
        level: of the intervals, such as 0.95.

    Returns:
        The rows, of which the first line of the note says what was compared; none where nothing in the file was judged
        twice.
    """
    if isinstance(judgments, Points) and any(len(each) > 1 for each in judgments.ratings):
        return _rating_agreement(judgments, resamples, seed, level)
    if isinstance(judgments, JudgedPairs) and any(len(each) > 1 for each in judgments.votes):
        return _vote_agreement(judgments, resamples, seed, level)
    return []


def _rating_agreement(judgments: Points, resamples: int, seed: int, level: float) -> list[AgreementRow]:
    rated = [(row, ratings) for row, ratings in enumerate(judgments.ratings) if len(ratings) > 1]
    rows = [row for row, ratings in rated for _ in ratings]
    ratings = np.array([rating for _, of_caption in rated for rating in of_caption], np.float64)
    others = [(sum(of_caption) - rating) / (len(of_caption) - 1) for _, of_caption in rated for rating in of_caption]
    means = np.array(others, np.float64)
    if len(set(ratings.tolist())) < 2 or len(set(means.tolist())) < 2:
        return []
    image_of = dict(zip(judgments.rows.tolist(), judgments.clusters, strict=True))
    groups = None
    if judgments.groups is not None:
        group_of = dict(zip(judgments.rows.tolist(), judgments.groups, strict=True))
        groups = [group_of[row] for row in rows]
    statistic = make_coefficient(judgments.protocol, means, ratings, groups)
    interval = bootstrap_interval(statistic, [image_of[row] for row in rows], resamples, seed, level)
    first, second = zip(*(pair for _, of_caption in rated for pair in permutations(of_caption, 2)), strict=True)
    taus = ", ".join(f"{tau.symbol} {SCALE * tau(first, second)():.1f}" for tau in (TauB, TauC))
    lines = ["one rating against the mean of the others", f"every two ratings of a caption, both ways round: {taus}"]
    return _human_rows(judgments, interval, len(rows), lines, category_values(statistic, judgments))


def _human_rows(
    judgments: PreparedJudgments, interval: Interval, n: int, lines: Sequence[str], categories: Mapping[str, float]
) -> list[AgreementRow]:
    value, low, high = scale_interval(interval)
    statistic, note = judgments.protocol.statistic, "\n".join(lines)
    row = AgreementRow("human_level", HUMAN, statistic, value, low, high, n, note=note)
    return [row, *row.list_categories(categories)]


def _vote_agreement(judgments: JudgedPairs, resamples: int, seed: int, level: float) -> list[AgreementRow]:
    if judgments.by_votes:
        what, agreement = (
            "one vote against the majority of the others",
            np.array(
                [_credit([sum(votes) - vote for vote in votes], np.sign(votes)).mean() for votes in judgments.votes]
            ),
        )
    else:
        what = "the majority of the direct votes against the label"
        agreement = _credit([sum(votes) for votes in judgments.votes], judgments.better)
    statistic = GroupMean(agreement, judgments.groups)
    interval = bootstrap_interval(statistic, judgments.clusters, resamples, seed, level)
    lines = [what, _unanimity_note(judgments)]
    return _human_rows(judgments, interval, len(agreement), lines, category_values(statistic, judgments))


def _credit(sums: Sequence[float], expected: Floats) -> Floats:
    """1 where the majority of these sums of votes is as expected, ½ where the votes are split, else 0."""
    sides = np.sign(sums)
    credit: Floats = np.where(sides == 0, 0.5, (sides == expected).astype(float))
    return credit


def _unanimity_note(judgments: JudgedPairs) -> str:
    groups = judgments.groups or [""] * len(judgments.votes)
    agreed = Counter(group for group, votes in zip(groups, judgments.votes, strict=True) if len(set(votes)) == 1)
    counts = ", ".join(
        f"{agreed[group]:,} of {number:,}{' ' * bool(group)}{group}"
        for group, number in sorted(Counter(groups).items())
    )
    return f"pairs on which all votes agree: {counts}"
