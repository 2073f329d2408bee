"""Human judgments prepared for evaluation: which captions are scored, and which score is compared with which judgment.

A benchmark's file gives `Rated` rows, `Paired` rows or `System` rows; a protocol turns them into `Points` (a score
against a rating), `Pairs` (which of two captions is better) or `Systems` (a system's score against its ranking).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import ProtocolError
from capmeter.judgments.protocol import Protocol

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rated:
    """One caption with its ratings; `own`: it is among the references; `by_person`: a person wrote it for this
    image.
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


@dataclass(frozen=True)
class Paired:
    """Two captions of one image; `better` is 1 (a), -1 (b) or 0 (a tie of the judges).

    `votes`: raw votes for a (1) and b (-1), where known; `by_votes`: `better` is their majority;
    `by_machine`: a machine wrote one of them.
    """

    id: str
    image_id: str
    candidates: tuple[str, str]
    references: tuple[str, ...]
    better: int
    valid: bool = True
    identical: bool = False
    groups: Mapping[str, str] = field(default_factory=dict)
    votes: tuple[float, ...] = ()
    by_votes: bool = False
    by_machine: bool = False
    image: str | None = None


@dataclass(frozen=True)
class System:
    """One system: its human score, its captions where known, and scores published with the judgments."""

    name: str
    human: float
    captions: tuple[Caption, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    baseline: bool = False


@dataclass(frozen=True)
class Original:
    """A sentence that systems were given to rewrite, and every reference that the file has of it."""

    source: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class Judgments:
    """Captions to be scored once each, and how scores relate to judgments. See `Points`, `Pairs` and `Systems`."""

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
            largest: Floats = np.full(len(self.ids), -np.inf)
            np.maximum.at(largest, self.owners, values)
            return largest
        sums = np.bincount(self.owners, values, len(self.ids))
        means: Floats = sums / np.bincount(self.owners, minlength=len(self.ids))
        return means


@dataclass(frozen=True)
class Points(Judgments):
    """Each point: the rating `human[i]` of the caption `rows[i]`; `ratings` has the raw ratings of each caption."""

    rows: Rows
    human: Floats
    ratings: tuple[tuple[float, ...], ...] = ()

    unit = "judgments"


@dataclass(frozen=True)
class Pairs(Judgments):
    """Each pair: captions `first[i]` and `second[i]`, of which the first is `better` (1) or the second (-1).

    `votes`: each pair's raw votes (1 and -1), where all pairs have some; `by_votes`: `better` is their majority.
    """

    first: Rows
    second: Rows
    better: Floats
    votes: tuple[tuple[float, ...], ...] = ()
    by_votes: bool = False

    unit = "pairs"


@dataclass(frozen=True)
class Systems(Judgments):
    """Each system: the captions `members[i]` (possibly none), `human[i]`, and scores published with the judgments.

    `originals`: where captions rewrite sentences, these sentences by image id.
    """

    names: tuple[str, ...]
    members: tuple[Rows, ...]
    human: Floats
    published_scores: Mapping[str, Floats]
    originals: Mapping[str, Original] = field(default_factory=dict)

    unit = "systems"


def plain(text: str) -> str:
    """A caption's letters and digits only: two spellings of one sentence ("man's", "mans", "man 's") become equal."""
    return re.sub(r"[\W_]+", "", text.lower())


def most_common(ratings: Sequence[float]) -> float:
    """The most common rating; if several are equally common, their mean.

    >>> most_common([1, 2, 2]), most_common([1, 2, 4])
    (2.0, 2.3333333333333335)
    """
    levels, counts = np.unique(np.asarray(ratings, np.float64), return_counts=True)
    return float(levels[counts == counts.max()].mean())


def points(benchmark: str, rows: Iterable[Rated], protocol: Protocol) -> Points:
    """Rated captions under a protocol."""
    every = list(rows)
    allowed = _references(every, protocol, lambda row: [row.candidate], lambda row: row.by_person)
    drop: dict[str, Callable[[Rated], bool]] = {
        "own-captions": lambda row: row.own,
        "human-captions": lambda row: row.by_person,
        "invalid": lambda row: not row.valid,
        "unreferenced": lambda row: not allowed[row.id],
    }
    kept, notes = _kept(benchmark, every, drop, protocol)
    rate: dict[str, Callable[[tuple[float, ...]], Sequence[float]]] = {
        "flatten": lambda ratings: ratings,
        "mean": lambda ratings: [sum(ratings) / len(ratings)],
        "median": lambda ratings: [float(np.median(ratings))],
        "mode": lambda ratings: [most_common(ratings)],
    }
    rated = [row for row in kept if row.ratings]
    if len(rated) < len(kept):
        notes["without ratings"] = len(kept) - len(rated)
    _some(rated, benchmark, protocol, notes)
    values = [rate[protocol.ratings](row.ratings) for row in rated]
    index = np.repeat(np.arange(len(rated)), [len(ratings) for ratings in values])
    protocol.check(len(index), benchmark, Points.unit)
    captions, owners = _captions(
        [(row.id, row.image_id, row.candidate, allowed[row.id], row.image) for row in rated], protocol
    )
    return Points(
        benchmark=benchmark,
        protocol=protocol,
        captions=captions,
        clusters=tuple(rated[i].image_id for i in index),
        groups=_groups(benchmark, [rated[i] for i in index], protocol),
        notes=notes,
        owners=owners,
        ids=tuple(row.id for row in rated),
        rows=index.astype(np.int64),
        human=np.asarray([rating for ratings in values for rating in ratings], np.float64),
        ratings=tuple(row.ratings for row in rated),
    )


def pairs(benchmark: str, rows: Iterable[Paired], protocol: Protocol) -> Pairs:
    """Pairs of captions under a protocol; pairs on which the judges are tied are excluded and counted."""
    every = list(rows)
    allowed = _references(every, protocol, lambda row: row.candidates, lambda row: False)
    drop: dict[str, Callable[[Paired], bool]] = {
        "invalid": lambda row: not row.valid,
        "unreferenced": lambda row: not allowed[row.id],
        "identical": lambda row: row.identical,
        "machine-captions": lambda row: row.by_machine,
    }
    kept, notes = _kept(benchmark, every, drop, protocol)
    protocol.check(len(kept), benchmark, Pairs.unit)
    decided = [row for row in kept if row.better]
    if len(decided) < len(kept):
        notes["people are tied"] = len(kept) - len(decided)
    _some(decided, benchmark, protocol, notes)
    sides = [
        (f"{row.id}/{side}", row.image_id, text, allowed[row.id], row.image)
        for row in decided
        for side, text in zip("ab", row.candidates, strict=True)
    ]
    captions, owners = _captions(sides, protocol)
    return Pairs(
        benchmark=benchmark,
        protocol=protocol,
        captions=captions,
        clusters=tuple(row.image_id for row in decided),
        groups=_groups(benchmark, decided, protocol),
        notes=notes,
        owners=owners,
        ids=tuple(side[0] for side in sides),
        first=np.arange(0, len(sides), 2),
        second=np.arange(1, len(sides), 2),
        better=np.asarray([row.better for row in decided], np.float64),
        votes=tuple(row.votes for row in decided) if all(row.votes for row in decided) else (),
        by_votes=all(row.by_votes for row in decided),
    )


def systems(
    benchmark: str, rows: Iterable[System], protocol: Protocol, originals: Mapping[str, Original] | None = None
) -> Systems:
    """Systems under a protocol; their number is checked once it is known which of them have scores."""
    kept, notes = _kept(benchmark, list(rows), {"baselines": lambda row: row.baseline}, protocol)
    every = [caption for row in kept for caption in row.captions]
    captions, owners = _captions([(c.id, c.image_id, c.candidate, c.references, c.image) for c in every], protocol)
    ends = np.cumsum([0, *(len(row.captions) for row in kept)])
    columns = dict.fromkeys(name for row in kept for name in row.scores)
    return Systems(
        benchmark=benchmark,
        protocol=protocol,
        captions=captions,
        clusters=tuple(row.name for row in kept),
        groups=None,
        notes=notes,
        owners=owners,
        ids=tuple(caption.id for caption in every) or tuple(row.name for row in kept),
        names=tuple(row.name for row in kept),
        members=tuple(np.arange(start, end) for start, end in pairwise(ends)),
        human=np.asarray([row.human for row in kept], np.float64),
        published_scores={
            name: np.asarray([row.scores.get(name, np.nan) for row in kept], np.float64) for name in columns
        },
        originals=originals or {},
    )


def _kept(
    benchmark: str, rows: list[Any], drop: Mapping[str, Callable[[Any], bool]], protocol: Protocol
) -> tuple[list[Any], dict[str, int]]:
    """The rows that the protocol keeps, and how many each exclusion removed."""
    notes: dict[str, int] = {}
    for rule in protocol.leave_out:
        if rule not in drop:
            raise ProtocolError(f"leave_out={rule} does not apply to {benchmark}; it accepts {', '.join(drop)}")
        before = len(rows)
        rows = [row for row in rows if not drop[rule](row)]
        notes[rule] = before - len(rows)
    _some(rows, benchmark, protocol, notes)
    return rows, notes


def _some(rows: list[Any], benchmark: str, protocol: Protocol, notes: Mapping[str, int]) -> None:
    """A `ProtocolError` where no row is left."""
    if not rows:
        why = ", ".join(f"{count:,} {reason}" for reason, count in notes.items() if count)
        left_out = f"all rows are excluded ({why})" if why else "the file is empty"
        raise ProtocolError(f"{benchmark} under {protocol} has no judgments left: {left_out}")


def _groups(benchmark: str, rows: Sequence[Rated | Paired], protocol: Protocol) -> tuple[str, ...] | None:
    if protocol.by is None:
        return None
    if protocol.by == "image_id":
        return tuple(row.image_id for row in rows)
    missing = [row.id for row in rows if protocol.by not in row.groups]
    if missing:
        known = ", ".join(dict.fromkeys(["image_id", *rows[0].groups]))
        raise ProtocolError(f"by={protocol.by} is not a field of {benchmark}'s rows; expected none or one of {known}")
    return tuple(row.groups[protocol.by] for row in rows)


def _references(
    rows: list[Any],
    protocol: Protocol,
    candidates: Callable[[Any], Sequence[str]],
    by_person: Callable[[Any], bool],
) -> dict[str, tuple[str, ...]]:
    """The references given to the metric, per row id; removal and sampling are the same for all rows of an image."""
    rule, limit = protocol.references, protocol.reference_limit
    removed: dict[str, set[str]] = {}
    if rule in ("without-candidates", "without-human-candidate"):
        for row in rows:
            if rule == "without-candidates" or by_person(row):
                removed.setdefault(row.image_id, set()).update(plain(text) for text in candidates(row))
    allowed: dict[str, tuple[str, ...]] = {}
    chosen: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    random = np.random.default_rng(protocol.seed)
    for row in rows:
        key = (row.image_id, row.references)
        if key not in chosen:
            gone = removed.get(row.image_id, set())
            left = [text for text in row.references if not gone or plain(text) not in gone]
            if rule.startswith("draw-"):  # sampled even where there are few: the next image's sample must not change
                left = [left[i] for i in np.sort(random.permutation(len(left))[:limit])]
            chosen[key] = tuple(left[:limit])
        allowed[row.id] = chosen[key]
    return allowed


def _captions(
    rows: Sequence[tuple[str, str, str, tuple[str, ...], str | None]], protocol: Protocol
) -> tuple[CaptionSet, Rows | None]:
    """The captions to be scored: one per row or, with single references, one per row and reference, with the row that
    each belongs to.
    """
    if not protocol.single:
        return CaptionSet.from_captions(Caption(*row) for row in rows), None
    owners = np.repeat(np.arange(len(rows)), [max(1, len(row[3])) for row in rows])
    single = (
        Caption(f"{id}/{k}", image_id, text, (reference,) if reference is not None else (), image)
        for id, image_id, text, refs, image in rows
        for k, reference in enumerate(refs or (None,))
    )
    return CaptionSet.from_captions(single), owners.astype(np.int64)
