"""Comparison: is one system's score really better than another's?

Systems that captioned the same images are scored on the same references, and for each metric and pair of systems:

* the *difference* of the corpus scores (of BLEU's own corpus statistic, not of means of captions),
* *p*, by a paired permutation test: under the null hypothesis system labels can be swapped within an image
  (`test="bootstrap"`: from the bootstrap resamples instead); with several pairs also with Holm's correction,
* the 95% *interval* of the difference, by a bootstrap that resamples images and keeps the systems paired,
* in how many captions each system *wins*, and the captions that *differ most*.

With three systems or more there is a ranking: a new rank begins where a system is significantly worse than the best of
the rank before it.

>>> references = [["a dog runs on grass"], ["two cats sleep"], ["a red ball"], ["a man rides"], ["a blue car"]]
>>> good = ["a dog runs on grass", "two cats sleep", "a red ball", "a man rides", "a blue car"]
>>> poor = ["a cow", "a cat", "a ball of wool", "someone", "a vehicle"]
>>> found = compare({"good": good, "poor": poor}, ["rouge-l"], references=references)
>>> (difference,) = found["rouge-l"].differences
>>> difference.first, difference.wins, difference.p  # all 2⁵ permutations are tried
('good', 5, 0.0625)
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from capmeter._version import __version__
from capmeter.captions.files import write_atomic
from capmeter.captions.io import load
from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.meta.significance_tests import PairedScores, Permutation, SignificanceTest
from capmeter.meta.significance_tests import parse as parse_test
from capmeter.metrics.base import Floats, Metric
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.registry import parse, parse_list
from capmeter.metrics.scores import Results, Scores
from capmeter.progress import task
from capmeter.settings import Settings
from capmeter.stats.bootstrap import Clusters, Interval, difference, percentile, resample_blocks
from capmeter.stats.significance import PERMUTATIONS, Ranking, resamples_for
from capmeter.stats.ties import preferred

System = CaptionSet | str | os.PathLike[str] | Mapping[Any, Any] | Sequence[Any]


@dataclass(frozen=True)
class Standing:
    """A system in a metric's ranking: its score with its interval, and its significance rank."""

    system: str
    score: float
    low: float
    high: float
    rank: int


@dataclass(frozen=True)
class Difference:
    """First minus second under one metric, tested; `p_holm` is p after Holm's correction over the metric's pairs.

    `wins`, `ties` and `losses` count captions by their own scores, from the first system's side; scores that agree to
    six digits tie.
    """

    first: str
    second: str
    first_score: float
    second_score: float
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    wins: int
    ties: int
    losses: int

    def turned(self) -> Difference:
        """The same difference from the second system's side."""
        return Difference(
            first=self.second,
            second=self.first,
            first_score=self.second_score,
            second_score=self.first_score,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
            p=self.p,
            p_holm=self.p_holm,
            wins=self.losses,
            ties=self.ties,
            losses=self.wins,
        )


@dataclass(frozen=True)
class Contrast:
    """One image's captions by two systems, with the metric's scores of both."""

    id: str
    image_id: str
    first: str
    second: str
    references: tuple[str, ...]
    first_score: float
    second_score: float


@dataclass(frozen=True)
class MetricComparison:
    """The result for one metric: `ranking`, best first, the `differences` of all pairs, and their significance."""

    metric: str
    ranking: list[Standing]
    differences: list[Difference]
    signature: str
    significance: Ranking

    def between(self, first: str | None = None, second: str | None = None) -> Difference:
        """The difference first minus second, in whichever order the pair is named; without names, of the first two."""
        if first is None or second is None:
            return self.differences[0]
        for each in self.differences:
            if (each.first, each.second) == (first, second):
                return each
            if (each.first, each.second) == (second, first):
                return each.turned()
        known = ", ".join(each.system for each in self.ranking)
        raise InputError(f"there is no pair {first!r} and {second!r}; the compared systems are {known}")


@dataclass(frozen=True, eq=False)
class Comparison(Mapping[str, MetricComparison]):
    """The results by metric name. `captions` and `results` hold the systems, their rows aligned."""

    verdicts: dict[str, MetricComparison] = field(repr=False)
    captions: dict[str, CaptionSet]
    results: dict[str, Results]
    test: SignificanceTest
    level: float
    resamples: int
    permutations: int
    seed: int

    def __getitem__(self, name: str | Metric) -> MetricComparison:
        found = self.verdicts.get(str(name)) or self.verdicts.get(str(parse(name)))
        if found is None:
            raise KeyError(f"{name} was not compared; the comparison has {', '.join(self.verdicts)}")
        return found

    def __iter__(self) -> Any:
        return iter(self.verdicts)

    def __len__(self) -> int:
        return len(self.verdicts)

    @property
    def systems(self) -> list[str]:
        """The systems, in the order given."""
        return list(self.captions)

    def most_different(
        self, metric: str | Metric, first: str | None = None, second: str | None = None, number: int = 10
    ) -> list[Contrast]:
        """The captions whose scores differ most, half won by the first system and half by the second.

        Without systems: the first two. Each half is sorted by the difference, the largest first.
        """
        one, two = first or self.systems[0], second or self.systems[1]
        for name in (one, two):
            if name not in self.captions:
                raise InputError(f"there is no system {name!r}; the compared systems are {', '.join(self.systems)}")
        scores = [self.results[name][metric].items.array for name in (one, two)]
        gap = np.where(preferred(*scores) == 0, 0.0, scores[0] - scores[1])
        order = np.argsort(-gap, kind="stable")
        best, worst = order[: (number + 1) // 2], order[::-1][: number // 2]
        rows = [row for row in best.tolist() if gap[row] > 0] + [row for row in worst.tolist() if gap[row] < 0]
        found = []
        for row in rows:
            mine, theirs = (_caption(self.captions[name], row) for name in (one, two))
            mine_score, theirs_score = float(scores[0][row]), float(scores[1][row])
            texts = mine.references
            found.append(
                Contrast(mine.id, mine.image_id, mine.candidate, theirs.candidate, texts, mine_score, theirs_score)
            )
        return found

    def to_dict(self, differing: int = 10) -> dict[str, Any]:
        """The comparison as in the JSON output, with this many of the most different captions of each pair."""
        return {
            "capmeter": __version__,
            "captions": len(next(iter(self.captions.values()))),
            "images": len(set(next(iter(self.captions.values())).image_ids)),
            "systems": self.systems,
            "test": str(self.test),
            "permutations": self.permutations,
            "resamples": self.resamples,
            "level": self.level,
            "seed": self.seed,
            "metrics": {
                name: {
                    "signature": verdict.signature,
                    "ranking": [asdict(each) for each in verdict.ranking],
                    "differences": [
                        {
                            **asdict(each),
                            "differing": [
                                asdict(one) for one in self.most_different(name, each.first, each.second, differing)
                            ],
                        }
                        for each in verdict.differences
                    ],
                }
                for name, verdict in self.verdicts.items()
            },
        }

    def save(self, path: str | os.PathLike[str], differing: int = 10) -> None:
        """Writes the comparison as JSON, whole or not at all."""
        write_atomic(path, json.dumps(self.to_dict(differing), indent=1) + "\n")


def compare(
    systems: Mapping[str, System],
    metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
    *,
    references: Any = None,
    test: str | SignificanceTest = "permutation",
    seed: int = 0,
    permutations: int | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    settings: Settings | None = None,
) -> Comparison:
    """Compares two systems or more, by name, on the same references.

    A system is a `CaptionSet`, or anything that `capmeter.load` reads together with `references`. All must caption
    the same images, with the same references; captions are paired by id, whatever their order. `test` is a
    significance test or its name, such as `permutation(permutations=2000)` or `bootstrap`; `permutations` overrides
    that number. With many systems, more permutations (with the bootstrap test, `resamples`) are used than asked for:
    their number limits how small p can be, and with too few nothing could be significant after Holm's correction.
    """
    chosen = parse_list(metrics)
    if len(systems) < 2:
        raise InputError(f"a comparison needs at least two systems, but got {len(systems)}: {', '.join(systems)}")
    tested = parse_test(test)
    if permutations is not None and isinstance(tested, Permutation):
        tested = replace(tested, permutations=permutations)
    tested = tested.for_systems(len(systems))
    if tested.USES_INTERVALS:
        resamples = resamples_for(resamples, len(systems))
    captions = aligned({name: _loaded(system, references) for name, system in systems.items()})
    results = {name: evaluate(one, chosen, settings=settings) for name, one in captions.items()}
    clusters = Clusters(next(iter(captions.values())).image_ids)
    verdicts: dict[str, MetricComparison] = {}
    with task("comparing", total=len(chosen)) as advance:
        for metric in chosen:
            scores = {name: found[metric] for name, found in results.items()}
            bounds = _intervals(scores, clusters, resamples, seed, level)
            p = tested.p(PairedScores(scores, clusters, bounds), seed)
            ranking = Ranking.of({name: each.score for name, each in scores.items()}, p, level=level)
            advance(1)
            verdicts[str(metric)] = MetricComparison(
                str(metric),
                _standings(bounds, ranking),
                [_difference(pair, scores, bounds, ranking) for pair in combinations(scores, 2)],
                next(iter(scores.values())).signature,
                ranking,
            )
    made = tested.permutations if isinstance(tested, Permutation) else permutations or PERMUTATIONS
    return Comparison(verdicts, captions, results, tested, level, resamples, made, seed)


def aligned(systems: Mapping[str, CaptionSet]) -> dict[str, CaptionSet]:
    """The systems with their captions in the first one's order, matched by id, else by image.

    Captions that only one system has, and different references, are an `InputError` that names the first five.
    """
    (first_name, first), *others = systems.items()
    result = {first_name: first}
    for name, captions in others:
        keys = [set(one.ids) for one in (first, captions)]
        places = {id: row for row, id in enumerate(captions.ids)}
        wanted: Sequence[str] = first.ids
        if keys[0] != keys[1] and _by_image(first, captions):
            places = {image: row for row, image in enumerate(captions.image_ids)}
            wanted = first.image_ids
        elif keys[0] != keys[1]:
            lacking = _first_five("only in", first_name, [id for id in first.ids if id not in keys[1]])
            beyond = _first_five("only in", name, [id for id in captions.ids if id not in keys[0]])
            raise InputError(
                f"{first_name!r} and {name!r} do not have the same captions: "
                f"{'; '.join(filter(None, (lacking, beyond)))}. "
                "Compare systems on the same images, with one caption per image from every system, or give ids that "
                "match captions to each other"
            )
        rows = np.array([places[id] for id in wanted], np.intp)
        result[name] = captions if (rows == np.arange(len(rows))).all() else captions.select(rows)
        unlike = [
            a.id for a, b in zip(first, result[name], strict=True) if sorted(a.references) != sorted(b.references)
        ]
        if unlike:
            raise InputError(
                f"{first_name!r} and {name!r} have different references for {_first_five('', '', unlike)}; compare "
                "them against the same ones: give the references separately (references=, --references)"
            )
    return result


def _by_image(first: CaptionSet, second: CaptionSet) -> bool:
    """Whether both have one caption of each of the same images, whatever its id."""
    images = [set(one.image_ids) for one in (first, second)]
    return images[0] == images[1] and len(first) == len(second) == len(images[0])


def _first_five(before: str, name: str, ids: Sequence[str]) -> str:
    if not ids:
        return ""
    more = f" and {len(ids) - 5:,} more" if len(ids) > 5 else ""
    where = f"{before} {name!r}: " if name else ""
    return f"{where}{', '.join(ids[:5])}{more}"


def _loaded(system: System, references: Any) -> CaptionSet:
    if not isinstance(system, CaptionSet):
        return load(system, references)
    if references is not None:
        raise InputError("a caption set already holds its references; omit references=, or pass it to load()")
    return system


def _intervals(
    scores: Mapping[str, Scores], clusters: Clusters, resamples: int, seed: int, level: float
) -> dict[str, Interval]:
    """Each system's corpus score with its bootstrap resamples, which are of the same images for all systems."""
    drawn: dict[str, list[Floats]] = {name: [] for name in scores}
    for weights in resample_blocks(len(clusters), resamples, seed):
        for name, one in scores.items():
            drawn[name].append(one.resampled(weights, clusters))
    found = {}
    for name, one in scores.items():
        values = np.concatenate(drawn[name])
        found[name] = Interval(one.score, *percentile(values, level), level, values)
    return found


def _difference(
    pair: tuple[str, str], scores: Mapping[str, Scores], bounds: Mapping[str, Interval], ranking: Ranking
) -> Difference:
    first, second = pair
    between, _ = difference(bounds[first], bounds[second])
    judged = preferred(scores[first].items.array, scores[second].items.array)
    return Difference(
        *(first, second, scores[first].score, scores[second].score),
        *(between.value, between.low, between.high, ranking.p[pair], ranking.corrected[pair]),
        *(int((judged > 0).sum()), int((judged == 0).sum()), int((judged < 0).sum())),
    )


def _standings(bounds: Mapping[str, Interval], ranking: Ranking) -> list[Standing]:
    """The systems from best to worst, with their ranks."""
    return [
        Standing(name, bounds[name].value, bounds[name].low, bounds[name].high, rank)
        for name, rank in ranking.ranks().items()
    ]


def _caption(captions: CaptionSet, row: int) -> Any:
    return captions[captions.ids[row]]
