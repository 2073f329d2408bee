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

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from capmeter._version import __version__
from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.core.messages import describe, list_names
from capmeter.core.progress import task
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric, merge_notes
from capmeter.evaluation.registry import parse, parse_list
from capmeter.evaluation.results import Ids, Results, Scores
from capmeter.evaluation.runner import evaluate
from capmeter.meta.system_ranking import permutation_tests, score_intervals
from capmeter.stats.bootstrap import Interval, paired_difference
from capmeter.stats.pairs import sign_with_tolerance
from capmeter.stats.significance import PERMUTATIONS, Ranking, bootstrap_p_values, required_resamples

Test = Literal["permutation", "bootstrap"]
_SAME_IMAGES = "name each image alike in both, or omit the captions' ids"
_SAME_REFERENCES = "compare them against the same ones: give the references separately (references=, --references)"
System = CaptionSet | Results | str | os.PathLike[str] | Mapping[Any, Any] | Sequence[Any]


def _score_systems(
    systems: Mapping[str, System],
    captions: Mapping[str, CaptionSet],
    metrics: Sequence[Metric],
    settings: Settings | None,
) -> dict[str, Results]:
    """The scores of aligned captions.

    Of results, metrics with rows are taken as they are, unless the systems' signatures then differ (document
    frequencies of other images, another version): such metrics are computed for all.

    Args:
        systems: as given, by name.
        captions: those of each system, aligned.
        metrics: to be compared.
        settings: of what is computed.
    """
    ids = {name: Ids(each.ids, each.image_ids) for name, each in captions.items()}
    notes = {name: dict(each.notes) for name, each in captions.items()}
    stored_scores: dict[str, dict[str, Scores]] = {name: {} for name in captions}
    for name, stored in systems.items():
        if isinstance(stored, Results):
            rows = [stored.ids.positions[id] for id in ids[name].names]
            names = [metric for metric in map(str, metrics) if metric in set(stored)]
            usable = [metric for metric in names if stored[metric].values is not None]
            stored_scores[name] = {metric: stored[metric].select(rows, ids[name]) for metric in usable}
            left_out = stored.ids.positions.keys() - set(ids[name].names)
            kept = {reason: [each for each in noted if each not in left_out] for reason, noted in stored.notes.items()}
            notes[name] = merge_notes([notes[name], kept])
    scores = {name: dict(each) for name, each in stored_scores.items()}

    def compute(name: str, computed: Sequence[Metric]) -> None:
        if computed:
            results = evaluate(captions[name], computed, settings=settings)
            scores[name].update({metric: results[metric] for metric in results})
            notes[name].update(results.notes)

    for name in captions:
        compute(name, [metric for metric in metrics if str(metric) not in stored_scores[name]])
    differing = [metric for metric in metrics if len({each[str(metric)].signature for each in scores.values()}) > 1]
    for name in captions:
        compute(name, [metric for metric in differing if str(metric) in stored_scores[name]])
    return {
        name: Results([scores[name][str(metric)] for metric in metrics], ids[name], notes[name], captions=each)
        for name, each in captions.items()
    }


def align_captions(systems: Mapping[str, CaptionSet], *, common: bool = False) -> dict[str, CaptionSet]:
    """The systems with their captions in the first one's order, matched by id, else by image.

    Captions that only one system has, and different references, are an `InputError` that names the first five; with
    `common` captions that a system lacks are left out of all, and noted.
    """
    if common:
        systems = _select_common(systems)
    (first_name, first), *other_systems = systems.items()
    aligned_captions = {first_name: first}
    for system_name, captions in other_systems:
        matching_rows = _matching_rows(first_name, first, system_name, captions)
        aligned_captions[system_name] = (
            captions if (matching_rows == np.arange(len(matching_rows))).all() else captions.select(matching_rows)
        )
        caption_pairs = list(zip(first, aligned_captions[system_name], strict=True))
        other_images = [a.id for a, b in caption_pairs if a.image_id != b.image_id]
        differing = [a.id for a, b in caption_pairs if sorted(a.references) != sorted(b.references)]
        for what, ids, advice in (("images", other_images, _SAME_IMAGES), ("references", differing, _SAME_REFERENCES)):
            if ids:
                both = f"{first_name!r} and {system_name!r}"
                raise InputError(f"{both} have different {what} for {list_names(ids)}; {advice}")
    return aligned_captions


def _matching_rows(first_name: str, first: CaptionSet, system_name: str, captions: CaptionSet) -> Any:
    """The row of each of the first system's captions among the other's: intp[captions]."""
    first_ids, ids = set(first.ids), set(captions.ids)
    first_images, images = set(first.image_ids), set(captions.image_ids)
    if first_ids == ids:
        keys, other_keys = first.ids, captions.ids
    elif first_images == images and len(first) == len(captions) == len(images):  # one caption of each image
        keys, other_keys = first.image_ids, captions.image_ids
    else:
        only_in = {
            first_name: [id for id in first.ids if id not in ids],
            system_name: [id for id in captions.ids if id not in first_ids],
        }
        missing = "; ".join(f"only in {system!r}: {list_names(each)}" for system, each in only_in.items() if each)
        raise InputError(
            f"{first_name!r} and {system_name!r} do not have the same captions: {missing}. "
            "Compare systems on the same images, with one caption per image from every system, give ids that match "
            "captions to each other, or compare only those that all systems have (common=True, --common)"
        )
    row_of = {key: row for row, key in enumerate(other_keys)}
    return np.array([row_of[key] for key in keys], np.intp)


def _select_common(systems: Mapping[str, CaptionSet]) -> dict[str, CaptionSet]:
    """The captions of each system that all have, by id, else by image."""
    keys = {system_name: list(captions.ids) for system_name, captions in systems.items()}
    if not set.intersection(*map(set, keys.values())):
        keys = {system_name: list(captions.image_ids) for system_name, captions in systems.items()}
    shared_keys = set.intersection(*map(set, keys.values()))
    if not shared_keys:
        raise InputError(f"{', '.join(systems)} have no image in common; are they of the same split?")
    selected_captions = {}
    for system_name, captions in systems.items():
        selected_rows = [row for row, key in enumerate(keys[system_name]) if key in shared_keys]
        left_out = [id for id, key in zip(captions.ids, keys[system_name], strict=True) if key not in shared_keys]
        notes = {**captions.notes, **({"left out, as another system lacks it": left_out} if left_out else {})}
        selected_captions[system_name] = captions.select(selected_rows).replace(notes=notes)
    return selected_captions


def load_system(name: str, system: System, references: Any) -> CaptionSet:
    """The captions of a system: those of results, a caption set, or what `capmeter.load` reads with `references`.

    Args:
        name: for messages.
        system: results, a caption set, or a source.
        references: of a source; None: they are in it.

    Raises:
        InputError: the results have no captions, or references are given twice.
    """
    if isinstance(system, Results):
        if system.captions is None:
            raise InputError(f"{name}: its captions are not in the results; score it from its captions")
        system = system.captions
    if not isinstance(system, CaptionSet):
        return load(system, references)
    if references is not None:
        raise InputError("a caption set already holds its references; omit references=, or pass it to load()")
    return system


@dataclass(frozen=True)
class SystemDifference:
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

    def swapped(self) -> SystemDifference:
        """The same difference from the second system's side."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            first_score=self.second_score,
            second_score=self.first_score,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
            wins=self.losses,
            losses=self.wins,
        )


@dataclass(frozen=True)
class EqualLengthDifference:
    """First minus second in the mean score of captions, and what of it is left between captions of equal length.

    `words`: the first's mean number of words minus the second's; `extrapolated`: one system's captions are always the
    longer, so that no image shows captions of equal length; `has_sign`: the interval of the difference is without 0, so
    that a share of it has a meaning. See `capmeter.meta.length_control`.
    """

    first: str
    second: str
    difference: float
    words: float
    at_equal_length: float
    low: float
    high: float
    extrapolated: bool
    has_sign: bool


@dataclass(frozen=True)
class MetricComparison:
    """The result for one metric: the `differences` of all pairs, and the systems' intervals and significance."""

    metric: str
    differences: list[SystemDifference]
    signature: str
    significance: Ranking

    @property
    def ranking(self) -> list[dict[str, Any]]:
        """The systems, best first: `system`, `score`, `low`, `high`, and the `rank` of significance."""
        return [
            {"system": system, "score": each.value, "low": each.low, "high": each.high, "rank": rank}
            for system, rank in self.significance.ranks().items()
            for each in [self.significance.intervals[system]]
        ]

    def between(self, first: str | None = None, second: str | None = None) -> SystemDifference:
        """The difference first minus second, in whichever order the pair is named; without names, of the first two."""
        if first is None or second is None:
            return self.differences[0]
        for each in self.differences:
            if (each.first, each.second) == (first, second):
                return each
            if (each.first, each.second) == (second, first):
                return each.swapped()
        compared_systems = ", ".join(self.significance.order())
        raise InputError(f"unknown pair {first!r} and {second!r}; the compared systems are {compared_systems}")


@dataclass(frozen=True, eq=False)
class SystemComparison(Mapping[str, MetricComparison]):
    """The results by metric name. `captions` and `results` hold the systems, their rows aligned; `equal_lengths`: see
    `with_equal_lengths`.
    """

    comparisons: dict[str, MetricComparison] = field(repr=False)
    captions: dict[str, CaptionSet]
    results: dict[str, Results]
    test: Test
    level: float
    resamples: int
    permutations: int
    seed: int
    equal_lengths: Mapping[str, tuple[EqualLengthDifference, ...]] = field(default_factory=dict)

    def __getitem__(self, name: str | Metric) -> MetricComparison:
        comparison = self.comparisons.get(str(name)) or self.comparisons.get(str(parse(name)))
        if comparison is None:
            raise KeyError(f"{name} was not compared; the comparison has {', '.join(self.comparisons)}")
        return comparison

    def __iter__(self) -> Iterator[str]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    @property
    def systems(self) -> list[str]:
        """The systems, in the order given."""
        return list(self.captions)

    def most_different(
        self, metric: str | Metric, first: str | None = None, second: str | None = None, number: int = 10
    ) -> list[dict[str, Any]]:
        """The captions whose scores differ most, half won by the first system and half by the second.

        Without systems: the first two. Each half is sorted by the difference, the largest first.

        Args:
            metric: of the comparison.
            first, second: systems; None: the first two.
            number: of captions.

        Returns:
            `id`, `image_id`, the captions `first` and `second`, `references`, `first_score` and `second_score`.
        """
        first_system, second_system = first or self.systems[0], second or self.systems[1]
        for name in (first_system, second_system):
            if name not in self.captions:
                raise InputError(f"unknown system {name!r}; the compared systems are {', '.join(self.systems)}")
        first_scores, second_scores = (self.results[name][metric].items.array for name in (first_system, second_system))
        score_gaps = np.where(sign_with_tolerance(first_scores, second_scores) == 0, 0.0, first_scores - second_scores)
        if self.results[first_system][metric].lower_is_better:
            score_gaps = -score_gaps
        row_order = np.argsort(-score_gaps, kind="stable").tolist()
        won_rows = [row for row in row_order[: (number + 1) // 2] if score_gaps[row] > 0]
        lost_rows = [row for row in row_order[::-1][: number // 2] if score_gaps[row] < 0]
        first_captions, second_captions = self.captions[first_system], self.captions[second_system]
        return [
            {
                "id": a.id,
                "image_id": a.image_id,
                "first": a.candidate,
                "second": second_captions[second_captions.ids[row]].candidate,
                "references": a.references,
                "first_score": float(first_scores[row]),
                "second_score": float(second_scores[row]),
            }
            for row in won_rows + lost_rows
            for a in [first_captions[first_captions.ids[row]]]
        ]

    def to_dict(self, differing: int = 10) -> dict[str, Any]:
        """The comparison as in the JSON output, with this many of the most different captions of each pair."""
        captions = next(iter(self.captions.values()))
        metrics: dict[str, Any] = {}
        for metric_name, comparison in self.comparisons.items():
            differences = []
            for each in comparison.differences:
                contrasts = self.most_different(metric_name, each.first, each.second, differing)
                differences.append({**asdict(each), "differing": contrasts})
            metrics[metric_name] = {
                "signature": comparison.signature,
                "ranking": comparison.ranking,
                "differences": differences,
            }
            if metric_name in self.equal_lengths:
                metrics[metric_name]["equal_lengths"] = [asdict(each) for each in self.equal_lengths[metric_name]]
        return {
            "capmeter": __version__,
            "captions": len(captions),
            "images": len(set(captions.image_ids)),
            "systems": self.systems,
            "test": self.test,
            "permutations": self.permutations,
            "resamples": self.resamples,
            "level": self.level,
            "seed": self.seed,
            "metrics": metrics,
        }


def compare(
    systems: Mapping[str, System],
    metrics: str | Iterable[str | Metric] = ("bleu-4", "rouge-l", "cider-d"),
    *,
    references: Any = None,
    test: Test = "permutation",
    seed: int = 0,
    permutations: int = PERMUTATIONS,
    resamples: int = 1000,
    level: float = 0.95,
    common: bool = False,
    settings: Settings | None = None,
) -> SystemComparison:
    """Compares two systems or more, by name, on the same references.

    Of results (`capmeter.score`, or read from a file) metrics that all of them have with one signature are not
    computed again.

    With many systems, more permutations (with the bootstrap test, `resamples`) are used than asked for: their number
    limits how small p can be, and with too few nothing could be significant after Holm's correction.

    Args:
        systems: name → a `CaptionSet`, results, or anything that `capmeter.load` reads together with `references`. All
            must caption the same images, with the same references; captions are paired by id, whatever their order.
        metrics: names or values.
        references: the references of systems that are not caption sets.
        test: where p comes from: `permutation`, or `bootstrap`, the intervals' resamples.
        seed: of resamples and permutations.
        permutations: their number.
        resamples: number of bootstrap resamples of images.
        level: of intervals and significance, such as 0.95.
        common: compare only the captions that all systems have.
        settings: device, precision, threads and cache.

    Raises:
        InputError: fewer than two systems, or systems with other captions or references; an unknown test.
    """
    parsed_metrics = parse_list(metrics)
    if not isinstance(systems, Mapping) or len(systems) < 2:
        raise InputError(f"a comparison needs at least two systems, {{name: captions}}, but got {describe(systems)}")
    if test not in get_args(Test) or not isinstance(permutations, int) or permutations < 1:
        raise InputError(
            f"expected the test {' or '.join(get_args(Test))}, with one permutation at least, but got {test!r} with "
            f"{permutations}"
        )
    if test == "bootstrap":
        resamples = required_resamples(resamples, len(systems))
    else:
        permutations = required_resamples(permutations, len(systems))
    loaded_systems = {name: load_system(name, system, references) for name, system in systems.items()}
    captions = align_captions(loaded_systems, common=common)
    results = _score_systems(systems, captions, parsed_metrics, settings)
    intervals = score_intervals(results, resamples, seed, level)
    with task("comparing", total=1) as advance:
        p = (
            permutation_tests(results, permutations, seed)
            if test == "permutation"
            else {metric_name: bootstrap_p_values(each) for metric_name, each in intervals.items()}
        )
        advance(1)
    comparisons = {
        name: _compare_scores(
            name, {system: each[name] for system, each in results.items()}, intervals[name], p[name], level
        )
        for name in map(str, parsed_metrics)
    }
    return SystemComparison(comparisons, captions, results, test, level, resamples, permutations, seed)


def _compare_scores(
    metric: str,
    scores: Mapping[str, Scores],
    intervals: Mapping[str, Interval],
    p: Mapping[tuple[str, str], float],
    level: float,
) -> MetricComparison:
    """The result for one metric: systems from best to worst, and the differences of all pairs."""
    lower_is_better = any(system_scores.lower_is_better for system_scores in scores.values())
    corpus_scores = {name: system_scores.score for name, system_scores in scores.items()}
    significance = Ranking.from_p_values(
        corpus_scores, p, level=level, lower_is_better=lower_is_better, intervals=intervals
    )
    differences = [_difference(pair, scores, significance) for pair in combinations(scores, 2)]
    return MetricComparison(metric, differences, next(iter(scores.values())).signature, significance)


def _difference(pair: tuple[str, str], scores: Mapping[str, Scores], significance: Ranking) -> SystemDifference:
    first_name, second_name = pair
    interval, _ = paired_difference(*(significance.intervals[name] for name in pair))
    signs = sign_with_tolerance(scores[first_name].items.array, scores[second_name].items.array)
    if significance.lower_is_better:
        signs = -signs
    return SystemDifference(
        *(first_name, second_name, scores[first_name].score, scores[second_name].score),
        *(interval.value, interval.low, interval.high, significance.p[pair], significance.corrected[pair]),
        *(int((signs > 0).sum()), int((signs == 0).sum()), int((signs < 0).sum())),
    )
