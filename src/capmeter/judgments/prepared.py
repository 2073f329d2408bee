"""Human judgments prepared for evaluation: which captions are scored, and which score is compared with which judgment.

A benchmark's file gives `RatedCaption` rows, `RatedPair` rows or `JudgedSystem` rows; a protocol turns them into
`Points` (a score
against a rating), `JudgedPairs` (which of two captions is better) or `Systems` (a system's score against its ranking).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import ProtocolError
from capmeter.judgments.protocol import Protocol
from capmeter.text.tokenization.token_tables import keep_letters_and_digits

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RatedCaption:
    """One caption with its ratings; `own`: it is among the references; `by_person`: a person wrote it for this
    image; `flagged`: its wrong words, as letters and digits.
    """

    id: str
    image_id: str
    candidate: str
    references: tuple[str, ...]
    ratings: tuple[float, ...]
    own: bool = False
    by_person: bool = False
    valid: bool = True
    groups: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    flagged: tuple[str, ...] = ()


@dataclass(frozen=True)
class RatedPair:
    """Two captions of one image; `better` is positive (a), negative (b) or 0 (a tie of the judges); its size may
    say how much better.

    `votes`: raw votes for a (1) and b (-1), where known; `by_votes`: `better` is their majority;
    `by_machine`, `by_person`: a machine, or a person, wrote one of them; `systems`: who wrote them, where known.
    """

    id: str
    image_id: str
    candidates: tuple[str, str]
    references: tuple[str, ...]
    better: float
    valid: bool = True
    identical: bool = False
    groups: Mapping[str, str] = field(default_factory=dict)
    votes: tuple[float, ...] = ()
    by_votes: bool = False
    by_machine: bool = False
    image: str | None = None
    by_person: bool = False
    systems: tuple[str, str] | None = None


@dataclass(frozen=True)
class JudgedSystem:
    """One system: its human score, and scores published with the judgments."""

    name: str
    human: float
    scores: Mapping[str, float] = field(default_factory=dict)
    baseline: bool = False


@dataclass(frozen=True)
class PreparedJudgments:
    """Captions to be scored once each, and how scores relate to judgments. See `Points`, `JudgedPairs` and
    `Systems`."""

    benchmark: str
    protocol: Protocol
    captions: CaptionSet
    clusters: tuple[str, ...]
    groups: tuple[str, ...] | None
    notes: Mapping[str, int]
    # with single references there is one caption per reference, and the scores are pooled by owner
    owners: Rows | None
    ids: tuple[str, ...]

    unit = "judgments"

    def __len__(self) -> int:
        return len(self.clusters)

    def per_caption(self, values: Floats, metric: str = "") -> Floats:
        """Scores of `captions` by this metric as one per id of `ids`.

        With single references, that is the mean over a caption's references, or the maximum, as the protocol says for
        this metric.
        """
        if self.owners is None:
            return values
        if self.protocol.takes_maximum(metric):
            largest_scores: Floats = np.full(len(self.ids), -np.inf)
            np.maximum.at(largest_scores, self.owners, values)
            return largest_scores
        score_sums = np.bincount(self.owners, values, len(self.ids))
        score_means: Floats = score_sums / np.bincount(self.owners, minlength=len(self.ids))
        return score_means


@dataclass(frozen=True)
class Points(PreparedJudgments):
    """Each point: the rating `human[i]` of the caption `rows[i]`.

    `ratings` has the raw ratings of each caption, `flagged` its wrong words where people marked them.
    """

    rows: Rows
    human: Floats
    ratings: tuple[tuple[float, ...], ...] = ()
    flagged: tuple[tuple[str, ...], ...] = ()

    unit = "judgments"


@dataclass(frozen=True)
class JudgedPairs(PreparedJudgments):
    """Each pair: captions `first[i]` and `second[i]`, of which the first is `better` (> 0) or the second (< 0).

    `votes`: each pair's raw votes (1 and -1), where all pairs have some; `by_votes`: `better` is their majority.
    `corpora`: rows of `captions` that are scored apart from the others, each a corpus; empty: all together.
    `systems`: who wrote each pair's captions, where all pairs say it.
    """

    first: Rows
    second: Rows
    better: Floats
    votes: tuple[tuple[float, ...], ...] = ()
    by_votes: bool = False
    corpora: tuple[Rows, ...] = ()
    systems: tuple[tuple[str, str], ...] = ()

    unit = "pairs"


@dataclass(frozen=True)
class Systems(PreparedJudgments):
    """Each system: its score by people, `human[i]`, and scores published with the judgments; captions are not known."""

    names: tuple[str, ...]
    human: Floats
    published_scores: Mapping[str, Floats]

    unit = "systems"


def _most_common(ratings: Sequence[float]) -> float:
    """The most common rating; if several are equally common, their mean."""
    rating_levels, level_counts = np.unique(np.asarray(ratings, np.float64), return_counts=True)
    return float(rating_levels[level_counts == level_counts.max()].mean())


def prepare_points(benchmark: str, rows: Iterable[RatedCaption], protocol: Protocol) -> Points:
    """Rated captions under a protocol.

    Args:
        benchmark, rows, protocol: its name, rated captions, and which of them count and how.
    """
    all_rows = list(rows)
    allowed_references = _references(all_rows, protocol, lambda row: [row.candidate], lambda row: row.by_person)
    drop_rules: dict[str, Callable[[RatedCaption], bool]] = {
        "own-captions": lambda row: row.own,
        "human-captions": lambda row: row.by_person,
        "invalid": lambda row: not row.valid,
        "unreferenced": lambda row: not allowed_references[row.id],
    }
    included_rows, notes = _exclude(benchmark, all_rows, drop_rules, protocol)
    combine_ratings: dict[str, Callable[[tuple[float, ...]], Sequence[float]]] = {
        "flatten": lambda ratings: ratings,
        "mean": lambda ratings: [sum(ratings) / len(ratings)],
        "median": lambda ratings: [float(np.median(ratings))],
        "mode": lambda ratings: [_most_common(ratings)],
    }
    rated_rows = [row for row in included_rows if row.ratings]
    if len(rated_rows) < len(included_rows):
        notes["without ratings"] = len(included_rows) - len(rated_rows)
    _some(rated_rows, benchmark, protocol, notes)
    combined_ratings = [combine_ratings[protocol.ratings](row.ratings) for row in rated_rows]
    point_rows = np.repeat(np.arange(len(rated_rows)), [len(ratings) for ratings in combined_ratings])
    protocol.check(len(point_rows), benchmark, Points.unit)
    captions, caption_owners = _captions(
        [(row.id, row.image_id, row.candidate, allowed_references[row.id], row.image) for row in rated_rows], protocol
    )
    return Points(
        benchmark=benchmark,
        protocol=protocol,
        captions=captions,
        clusters=tuple(rated_rows[i].image_id for i in point_rows),
        groups=_groups(benchmark, [rated_rows[i] for i in point_rows], protocol),
        notes=notes,
        owners=caption_owners,
        ids=tuple(row.id for row in rated_rows),
        rows=point_rows.astype(np.int64),
        human=np.asarray([rating for ratings in combined_ratings for rating in ratings], np.float64),
        ratings=tuple(row.ratings for row in rated_rows),
        flagged=tuple(row.flagged for row in rated_rows),
    )


def prepare_pairs(benchmark: str, rows: Iterable[RatedPair], protocol: Protocol) -> JudgedPairs:
    """Pairs of captions under a protocol; for accuracy, pairs on which the judges are tied are excluded and counted.

    Args:
        benchmark, rows, protocol: its name, pairs of captions, and which of them count and how.
    """
    all_rows = list(rows)
    allowed_references = _references(all_rows, protocol, lambda row: row.candidates, lambda row: False)
    drop_rules: dict[str, Callable[[RatedPair], bool]] = {
        "invalid": lambda row: not row.valid,
        "unreferenced": lambda row: not allowed_references[row.id],
        "identical": lambda row: row.identical,
        "machine-captions": lambda row: row.by_machine,
        "human-captions": lambda row: row.by_person,
    }
    included_rows, notes = _exclude(benchmark, all_rows, drop_rules, protocol)
    protocol.check(len(included_rows), benchmark, JudgedPairs.unit)
    decided_rows = [row for row in included_rows if row.better or protocol.statistic != "accuracy"]
    if len(decided_rows) < len(included_rows):
        notes["tied judgments"] = len(included_rows) - len(decided_rows)
    _some(decided_rows, benchmark, protocol, notes)
    caption_rows = [
        (f"{row.id}/{side}", row.image_id, candidate_text, allowed_references[row.id], row.image)
        for row in decided_rows
        for side, candidate_text in zip("ab", row.candidates, strict=True)
    ]
    captions, caption_owners = _captions(caption_rows, protocol)
    return JudgedPairs(
        benchmark=benchmark,
        protocol=protocol,
        captions=captions,
        clusters=tuple(row.image_id for row in decided_rows),
        groups=_groups(benchmark, decided_rows, protocol),
        notes=notes,
        owners=caption_owners,
        ids=tuple(side[0] for side in caption_rows),
        first=np.arange(0, len(caption_rows), 2),
        second=np.arange(1, len(caption_rows), 2),
        better=np.asarray([row.better for row in decided_rows], np.float64),
        votes=tuple(row.votes for row in decided_rows) if all(row.votes for row in decided_rows) else (),
        by_votes=all(row.by_votes for row in decided_rows),
        systems=tuple(row.systems for row in decided_rows if row.systems)
        if all(row.systems for row in decided_rows)
        else (),
    )


def prepare_systems(benchmark: str, rows: Iterable[JudgedSystem], protocol: Protocol) -> Systems:
    """Systems under a protocol; their number is checked once it is known which of them have scores.

    Args:
        benchmark, rows, protocol: its name, systems with their human scores, and which of them count and how.
    """
    included, notes = _exclude(benchmark, list(rows), {"baselines": lambda row: row.baseline}, protocol)
    names = tuple(row.name for row in included)
    metric_names = dict.fromkeys(metric_name for row in included for metric_name in row.scores)
    return Systems(
        benchmark=benchmark,
        protocol=protocol,
        captions=CaptionSet.from_captions(()),
        clusters=names,
        groups=None,
        notes=notes,
        owners=None,
        ids=names,
        names=names,
        human=np.asarray([row.human for row in included], np.float64),
        published_scores={
            metric_name: np.asarray([row.scores.get(metric_name, np.nan) for row in included], np.float64)
            for metric_name in metric_names
        },
    )


def _exclude(
    benchmark: str, rows: list[Any], drop_rules: Mapping[str, Callable[[Any], bool]], protocol: Protocol
) -> tuple[list[Any], dict[str, int]]:
    """The rows that the protocol keeps, and how many each exclusion removed."""
    notes: dict[str, int] = {}
    for rule in protocol.leave_out:
        if rule not in drop_rules:
            raise ProtocolError(f"leave_out={rule} does not apply to {benchmark}; it accepts {', '.join(drop_rules)}")
        row_count = len(rows)
        rows = [row for row in rows if not drop_rules[rule](row)]
        notes[rule] = row_count - len(rows)
    _some(rows, benchmark, protocol, notes)
    return rows, notes


def _some(rows: list[Any], benchmark: str, protocol: Protocol, notes: Mapping[str, int]) -> None:
    """A `ProtocolError` where no row is left."""
    if not rows:
        exclusion_reasons = ", ".join(f"{count:,} {reason}" for reason, count in notes.items() if count)
        left_out = f"all rows are excluded ({exclusion_reasons})" if exclusion_reasons else "the file is empty"
        raise ProtocolError(f"{benchmark} under {protocol} has no judgments left: {left_out}")


def _groups(benchmark: str, rows: Sequence[RatedCaption | RatedPair], protocol: Protocol) -> tuple[str, ...] | None:
    if protocol.by is None:
        return None
    if protocol.by == "image_id":
        return tuple(row.image_id for row in rows)
    missing_ids = [row.id for row in rows if protocol.by not in row.groups]
    if missing_ids:
        known_fields = ", ".join(dict.fromkeys(["image_id", *rows[0].groups]))
        raise ProtocolError(
            f"by={protocol.by} is not a field of {benchmark}'s rows; expected none or one of {known_fields}"
        )
    return tuple(row.groups[protocol.by] for row in rows)


def _references(
    rows: list[Any], protocol: Protocol, candidates: Callable[[Any], Sequence[str]], by_person: Callable[[Any], bool]
) -> dict[str, tuple[str, ...]]:
    """The references given to the metric, per row id; removal and sampling are the same for all rows of an image."""
    rule, reference_limit = protocol.references, protocol.reference_limit
    removed: dict[str, set[str]] = {}
    if rule in ("without-candidates", "without-human-candidate"):
        for row in rows:
            if rule == "without-candidates" or by_person(row):
                removed.setdefault(row.image_id, set()).update(
                    keep_letters_and_digits(text) for text in candidates(row)
                )
    allowed_references: dict[str, tuple[str, ...]] = {}
    references_of: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    random = np.random.default_rng(protocol.seed)
    for row in rows:
        reference_key = (row.image_id, row.references)
        if reference_key not in references_of:
            gone = removed.get(row.image_id, set())
            left = [text for text in row.references if not gone or keep_letters_and_digits(text) not in gone]
            if rule.startswith("draw-"):  # sampled even where there are few: the next image's sample must not change
                left = [left[i] for i in np.sort(random.permutation(len(left))[:reference_limit])]
            if rule == "at-least-2" and len(left) == 1:
                left *= 2
            references_of[reference_key] = tuple(left[:reference_limit])
        allowed_references[row.id] = references_of[reference_key]
    return allowed_references


def _captions(
    rows: Sequence[tuple[str, str, str, tuple[str, ...], str | None]], protocol: Protocol
) -> tuple[CaptionSet, Rows | None]:
    """The captions to be scored: one per row or, with single references, one per row and reference, with the row that
    each belongs to.
    """
    if protocol.texts == "letters":
        rows = [
            (row_id, image_id, _keep_letters(candidate), tuple(map(_keep_letters, references)), image)
            for row_id, image_id, candidate, references, image in rows
        ]
    if not protocol.single:
        return CaptionSet.from_captions(Caption(*row) for row in rows), None
    caption_owners = np.repeat(np.arange(len(rows)), [max(1, len(row[3])) for row in rows])
    single_captions = (
        Caption(f"{row_id}/{k}", image_id, candidate_text, (reference,) if reference is not None else (), image)
        for row_id, image_id, candidate_text, row_references, image in rows
        for k, reference in enumerate(row_references or (None,))
    )
    return CaptionSet.from_captions(single_captions), caption_owners.astype(np.int64)


def _keep_letters(text: str) -> str:
    return " ".join(re.sub("[^a-zA-Z]", " ", text).lower().split())
