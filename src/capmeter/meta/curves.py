"""How a metric's agreement with people grows with the number of references it sees.

For each number k, k references of each image are sampled (the same for all its captions), and the metrics are scored
and evaluated again; `repeats` samples show how much the choice of references matters. Sample r takes the first k of one
permutation per image, so that larger samples contain the smaller ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter import progress
from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.judgments.judged import Floats, Judgments, Original, Systems
from capmeter.meta.coefficient import statistic
from capmeter.meta.human_level import SCALE
from capmeter.meta.scored import measured, named_metrics
from capmeter.metrics.base import Metric
from capmeter.ragged import Ragged
from capmeter.settings import Settings
from capmeter.stats.groups import MeanOfGroups
from capmeter.stats.pair_accuracy import PairAccuracy


@dataclass(frozen=True, eq=False)
class Curve:
    """Agreement by number of references: `values[metric]` is float64[len(numbers), repeats], x 100.

    `groups[metric][group]` is the same of each category, where the protocol has categories.
    """

    benchmark: str
    protocol: str
    statistic: str
    numbers: tuple[int, ...]
    values: dict[str, Floats]
    seed: int
    groups: dict[str, dict[str, Floats]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The curve as in the JSON output."""
        return {
            "numbers": list(self.numbers),
            "seed": self.seed,
            "metrics": {name: _rows(values) for name, values in self.values.items()},
            "groups": {
                name: {group: _rows(values) for group, values in groups.items()} for name, groups in self.groups.items()
            },
        }


def _rows(values: Floats) -> list[dict[str, float]]:
    return [{"mean": float(row.mean()), "low": float(row.min()), "high": float(row.max())} for row in values]


def numbers_up_to(most: int) -> tuple[int, ...]:
    """1 to `most`, and no more than a dozen numbers: larger ranges are spaced geometrically."""
    if most <= 12:
        return tuple(range(1, most + 1))
    return tuple(sorted({round(each) for each in np.geomspace(1, most, 12)}))


def numbers_of(text: str) -> tuple[int, ...]:
    """Parses numbers of references: `5` means 1 to 5, `1,5,20` these three.

    >>> numbers_of("3"), numbers_of("20, 5,1")
    ((1, 2, 3), (1, 5, 20))
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"{text!r} is not a number of references; expected one, such as 5, or several, such as 1,5,20")
    numbers = tuple(sorted({int(part) for part in parts}))
    return numbers_up_to(numbers[0]) if len(parts) == 1 else numbers


def reference_curve(
    judgments: Judgments,
    metrics: str | Iterable[str | Metric],
    numbers: Sequence[int] = (1, 2, 3, 4, 5),
    *,
    repeats: int = 5,
    seed: int = 0,
    settings: Settings | None = None,
) -> Curve:
    """Evaluates the metrics and baselines with each of these `numbers` of references, `repeats` times each."""
    chosen, beside = named_metrics(metrics)
    most = min(
        [int(judgments.captions.references.lengths.max(initial=0))] * bool(chosen)
        + [each.most_references(judgments) for each in beside],
        default=0,
    )
    if judgments.owners is not None:
        raise InputError(
            f"a curve over references needs all of them at once, but the protocol has "
            f"references={judgments.protocol.references}"
        )
    if not numbers or min(numbers) < 1 or max(numbers) > most:
        raise InputError(
            f"expected numbers of references from 1 to {most}, as many as "
            f"{', '.join(map(str, [*chosen, *beside]))} can see, but got {numbers}"
        )
    values = {str(metric): np.empty((len(numbers), repeats)) for metric in [*chosen, *beside]}
    groups: dict[str, dict[str, Floats]] = {}
    with progress.task("references", total=repeats * len(numbers)) as advance:
        for repeat in range(repeats):
            generator = np.random.default_rng([seed, repeat])
            order, originals = _orders(judgments.captions, generator), _shuffled(judgments, generator)
            for place, number in enumerate(numbers):
                drawn = replace(judgments, captions=_first(judgments.captions, order, number))
                if isinstance(drawn, Systems):
                    cut = {key: replace(each, references=each.references[:number]) for key, each in originals.items()}
                    drawn = replace(drawn, originals=cut)
                scores, _ = measured(drawn, metrics, settings)
                for name, found in scores.items():
                    made = statistic(drawn, found)
                    values[name][place, repeat] = SCALE * made()
                    for group, value in _by_group(made, drawn).items():
                        tables = groups.setdefault(name, {})
                        empty = np.full((len(numbers), repeats), np.nan)
                        tables.setdefault(group, empty)[place, repeat] = SCALE * value
                advance(1)
    protocol = judgments.protocol
    return Curve(judgments.benchmark, str(protocol), protocol.statistic, tuple(numbers), values, seed, groups)


def _by_group(made: Any, judgments: Judgments) -> dict[str, float]:
    """The value of each category; empty without categories, or where each image is its own group."""
    if judgments.groups is None or judgments.protocol.by == "image_id":
        return {}
    if isinstance(made, PairAccuracy):
        return dict(zip(made.groups, made.by_group()[0].tolist(), strict=True))
    return made.by_group() if isinstance(made, MeanOfGroups) else {}


def _orders(captions: CaptionSet, random: np.random.Generator) -> list[npt.NDArray[Any]]:
    """Each caption's references in random order, the same for all captions of an image with the same references."""
    drawn: dict[tuple[str, bytes], npt.NDArray[Any]] = {}
    orders = []
    for row, image in enumerate(captions.image_ids):
        references = captions.references[row]
        key = (image, references.tobytes())
        if key not in drawn:
            drawn[key] = random.permutation(references)
        orders.append(drawn[key])
    return orders


def _shuffled(judgments: Judgments, random: np.random.Generator) -> dict[str, Original]:
    """The sentences that systems rewrote, each with its references in random order."""
    originals = judgments.originals if isinstance(judgments, Systems) else {}
    return {
        key: replace(each, references=tuple(each.references[k] for k in random.permutation(len(each.references))))
        for key, each in originals.items()
    }


def _first(captions: CaptionSet, orders: Sequence[npt.NDArray[Any]], number: int) -> CaptionSet:
    """The same captions with their first references; the pool and its analyses are kept."""
    return CaptionSet(
        ids=captions.ids,
        image_ids=captions.image_ids,
        pool=captions.pool,
        candidates=captions.candidates,
        references=Ragged.from_rows([order[:number].tolist() for order in orders], np.int32),
        images=captions.images,
        systems=captions.systems,
        humans=captions.humans,
    )
