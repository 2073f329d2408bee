"""The human level of a benchmark: how well people agree with each other under the same protocol and coefficient.

Rated captions: each rating against the mean of the others (see `capmeter.stats.human_level`), pooled, under the
protocol's statistic; also the same for every two ratings. Pairs: the majority of the direct votes against the
label; where the label is that majority itself, each vote against the majority of the others. Intervals resample images.
A benchmark with one rating per caption, with means only, or with systems has no human level.

>>> from capmeter.judgments.judged import Rated, points
>>> from capmeter.judgments.protocol import Protocol
>>> rows = [Rated(str(k), str(k), "a dog", ("a dog runs",), (k % 4, k % 4 + k % 2)) for k in range(40)]
>>> found = human_level(points("mine", rows, Protocol(name="p", statistic="tau-b")), resamples=100)
>>> found.what, round(found.value, 1)
('one rating against the mean of the others', 75.0)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from capmeter.judgments.judged import Judgments, Pairs, Points
from capmeter.meta.coefficient import coefficient
from capmeter.stats import human_level as people
from capmeter.stats.bootstrap import Interval, interval
from capmeter.stats.groups import MeanOfGroups
from capmeter.stats.kendall import TauB, TauC
from capmeter.stats.pair_accuracy import GroupMean

SCALE = 100
# benchmark: what the papers print as the human level, and how it comes out
PUBLISHED = {
    "flickr8k-expert": (
        73.6,
        "Cui et al. 2018, Table 1, and Yi et al. 2020, Table 3,",
    )
}


@dataclass(frozen=True)
class HumanLevel:
    """How well people agree with each other: what was compared, its value and interval (x 100), and notes."""

    what: str
    value: float
    low: float
    high: float
    n: int
    groups: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def human_level(
    judgments: Judgments, *, resamples: int = 1000, seed: int = 0, level: float = 0.95
) -> HumanLevel | None:
    """The human level of these judgments; None where nothing in the file was judged twice."""
    if isinstance(judgments, Points) and any(len(each) > 1 for each in judgments.ratings):
        return _of_ratings(judgments, resamples, seed, level)
    if isinstance(judgments, Pairs) and any(len(each) > 1 for each in judgments.votes):
        return _of_votes(judgments, resamples, seed, level)
    return None


def _of_ratings(judgments: Points, resamples: int, seed: int, level: float) -> HumanLevel | None:
    points = people.against_others(judgments.ratings)
    if len(set(points.first.tolist())) < 2 or len(set(points.second.tolist())) < 2:
        return None
    images, groups = _of_rows(judgments, judgments.clusters), None
    if judgments.groups is not None:
        of_row = _of_rows(judgments, judgments.groups)
        groups = [of_row[row] for row in points.rows.tolist()]
    made = coefficient(judgments.protocol, points.second, points.first, groups)
    found = interval(made, [images[row] for row in points.rows.tolist()], resamples, seed, level)
    by_group = {}
    if isinstance(made, MeanOfGroups) and judgments.protocol.by != "image_id":
        by_group = {group: SCALE * value for group, value in made.by_group().items()}
    return _level(
        "one rating against the mean of the others", found, len(points), by_group, tuple(_rating_notes(judgments))
    )


def _of_rows(judgments: Points, values: Sequence[str]) -> dict[int, str]:
    """The value of each caption, from those of its points."""
    return dict(zip(judgments.rows.tolist(), values, strict=True))


def _rating_notes(judgments: Points) -> list[str]:
    two = people.every_two(judgments.ratings)
    pair = ", ".join(f"{made.symbol} {SCALE * made(two.first, two.second)():.1f}" for made in (TauB, TauC))
    notes = [f"every two ratings of a caption, both ways round: {pair}"]
    if people.sorted_in_rows(judgments.ratings):
        columns = people.columns_tau_b(judgments.ratings)
        each = ", ".join(f"{SCALE * value:.2f}" for value in columns)
        told = (
            f"the ratings of every caption are sorted in this file, so raters have no identity; taken as raters, the "
            f"sorted columns would agree with a mean tau-b of {SCALE * float(np.mean(columns)):.2f} ({each}), which is "
            "inflated by the sorting"
        )
        if judgments.benchmark in PUBLISHED:
            value, source = PUBLISHED[judgments.benchmark]
            told += f"; the inter-human {value:g} of {source} is such a mean"
        notes.append(told)
    return notes


def _of_votes(judgments: Pairs, resamples: int, seed: int, level: float) -> HumanLevel:
    if judgments.by_votes:
        what, agreed = "one vote against the majority of the others", people.vote_agreement(judgments.votes)
    else:
        what = "the majority of the direct votes against the label"
        agreed = people.majority_agreement(judgments.votes, judgments.better)
    made = GroupMean(agreed, judgments.groups)
    found = interval(made, judgments.clusters, resamples, seed, level)
    by_group = {}
    if judgments.groups is not None:
        by_group = dict(zip(made.groups, (SCALE * made.by_group()[0]).tolist(), strict=True))
    return _level(what, found, len(agreed), by_group, (_unanimous(judgments),))


def _unanimous(judgments: Pairs) -> str:
    alike = people.unanimous(judgments.votes).tolist()
    groups = judgments.groups or [""] * len(alike)
    all_of, of = Counter(groups), Counter(group for group, same in zip(groups, alike, strict=True) if same)
    each = ", ".join(
        f"{of[group]:,} of {number:,}{' ' * bool(group)}{group}" for group, number in sorted(all_of.items())
    )
    return f"pairs on which all votes agree: {each}"


def _level(what: str, found: Interval, n: int, groups: Mapping[str, float], notes: tuple[str, ...]) -> HumanLevel:
    return HumanLevel(what, SCALE * found.value, SCALE * found.low, SCALE * found.high, n, groups, notes)
