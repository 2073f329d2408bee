"""The human level of a benchmark: inter-annotator agreement under the same protocol and coefficient as a metric's.

Rated captions: each rating against the mean of the others (see `capmeter.stats.human_level`), pooled, under the
protocol's statistic; also the same for every two ratings. Pairs: the majority of the direct votes against the
label; where the label is that majority itself, each vote against the majority of the others. Intervals resample images.
A benchmark with one rating per caption, with means only, or with systems has no human level.

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

from capmeter.judgments.prepared import JudgedPairs, Points, PreparedJudgments
from capmeter.meta.coefficient import SCALE, AgreementRow, category_values, make_coefficient, scale_interval
from capmeter.stats import human_level as annotators
from capmeter.stats.bootstrap import Interval, bootstrap_interval
from capmeter.stats.kendall import TauB, TauC
from capmeter.stats.pairs import GroupMean

HUMAN = "human"
"""The judge that is people."""


def human_level(
    judgments: PreparedJudgments, *, resamples: int = 1000, seed: int = 0, level: float = 0.95
) -> list[AgreementRow]:
    """The human level of these judgments and of their categories; no rows where nothing in the file was judged twice.

    The first line of the note says what was compared.
    """
    if isinstance(judgments, Points) and any(len(each) > 1 for each in judgments.ratings):
        return _rating_agreement(judgments, resamples, seed, level)
    if isinstance(judgments, JudgedPairs) and any(len(each) > 1 for each in judgments.votes):
        return _vote_agreement(judgments, resamples, seed, level)
    return []


def _rating_agreement(judgments: Points, resamples: int, seed: int, level: float) -> list[AgreementRow]:
    points = annotators.against_others(judgments.ratings)
    if len(set(points.first.tolist())) < 2 or len(set(points.second.tolist())) < 2:
        return []
    rows = points.rows.tolist()
    images, groups = _by_caption(judgments, judgments.clusters), None
    if judgments.groups is not None:
        group_of = _by_caption(judgments, judgments.groups)
        groups = [group_of[caption_index] for caption_index in rows]
    statistic = make_coefficient(judgments.protocol, points.second, points.first, groups)
    interval = bootstrap_interval(statistic, [images[caption_index] for caption_index in rows], resamples, seed, level)
    lines = ["one rating against the mean of the others", *_rating_notes(judgments)]
    return _human_rows(judgments, interval, len(points), lines, category_values(statistic, judgments))


def _human_rows(
    judgments: PreparedJudgments, interval: Interval, n: int, lines: Sequence[str], categories: Mapping[str, float]
) -> list[AgreementRow]:
    value, low, high = scale_interval(interval)
    statistic, note = judgments.protocol.statistic, "\n".join(lines)
    row = AgreementRow("human_level", HUMAN, statistic, value, low, high, n, note=note)
    return [row, *row.list_categories(categories)]


def _by_caption(judgments: Points, point_values: Sequence[str]) -> dict[int, str]:
    """The value of each caption, from those of its points."""
    return dict(zip(judgments.rows.tolist(), point_values, strict=True))


def _rating_notes(judgments: Points) -> list[str]:
    pairs = annotators.every_two(judgments.ratings)
    taus = ", ".join(f"{tau.symbol} {SCALE * tau(pairs.first, pairs.second)():.1f}" for tau in (TauB, TauC))
    return [f"every two ratings of a caption, both ways round: {taus}"]


def _vote_agreement(judgments: JudgedPairs, resamples: int, seed: int, level: float) -> list[AgreementRow]:
    if judgments.by_votes:
        what, agreement = "one vote against the majority of the others", annotators.vote_agreement(judgments.votes)
    else:
        what = "the majority of the direct votes against the label"
        agreement = annotators.majority_agreement(judgments.votes, judgments.better)
    statistic = GroupMean(agreement, judgments.groups)
    interval = bootstrap_interval(statistic, judgments.clusters, resamples, seed, level)
    lines = [what, _unanimity_note(judgments)]
    return _human_rows(judgments, interval, len(agreement), lines, category_values(statistic, judgments))


def _unanimity_note(judgments: JudgedPairs) -> str:
    unanimous = annotators.unanimous(judgments.votes).tolist()
    groups = judgments.groups or [""] * len(unanimous)
    pair_counts, agreed_counts = (
        Counter(groups),
        Counter(group for group, is_unanimous in zip(groups, unanimous, strict=True) if is_unanimous),
    )
    counts_text = ", ".join(
        f"{agreed_counts[group]:,} of {number:,}{' ' * bool(group)}{group}"
        for group, number in sorted(pair_counts.items())
    )
    return f"pairs on which all votes agree: {counts_text}"
