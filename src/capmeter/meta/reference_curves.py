"""How a metric's agreement with human judgments grows with the number of references it sees.

For each number k, k references of each image are sampled (the same for all its captions), and the metrics are scored
and evaluated again; `repeats` samples show how much the choice of references matters. Sample r takes the first k of one
permutation per image, so that larger samples contain the smaller ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.progress import task
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.judgments.prepared import PreparedJudgments, SourceSentence, Systems
from capmeter.meta.coefficient import SCALE, AgreementRow, category_values, make_statistic
from capmeter.meta.metric_scores import orient_scores, parse_metrics, score_judgments


def numbers_up_to(most: int) -> tuple[int, ...]:
    """1 to `most`, and no more than a dozen numbers: larger ranges are spaced geometrically."""
    if most <= 12:
        return tuple(range(1, most + 1))
    return tuple(sorted({round(each) for each in np.geomspace(1, most, 12)}))


def parse_numbers(text: str) -> tuple[int, ...]:
    """Parses numbers of references: `5` means 1 to 5, `1,5,20` these three.

    >>> parse_numbers("3"), parse_numbers("20, 5,1")
    ((1, 2, 3), (1, 5, 20))
    """
    number_texts = [number_text.strip() for number_text in text.split(",")]
    if not all(number_text.isdecimal() and int(number_text) > 0 for number_text in number_texts):
        raise InputError(f"{text!r} is not a number of references; expected one, such as 5, or several, such as 1,5,20")
    numbers = tuple(sorted({int(number_text) for number_text in number_texts}))
    return numbers_up_to(numbers[0]) if len(number_texts) == 1 else numbers


def reference_curve(
    judgments: PreparedJudgments,
    metrics: str | Iterable[str | Metric],
    numbers: Sequence[int] = (1, 2, 3, 4, 5),
    *,
    repeats: int = 5,
    seed: int = 0,
    settings: Settings | None = None,
) -> list[AgreementRow]:
    """Evaluates the metrics and baselines with each of these `numbers` of references, `repeats` times each: the mean
    over the samples, with their range, of every metric and its categories.

    Raises:
        InputError: more references than a metric can see, or a protocol that gives one reference at a time.
    """
    _check_numbers(judgments, metrics, numbers)
    protocol = judgments.protocol
    values: dict[tuple[str, str], dict[int, list[float]]] = {}  # metric and category → number → values
    with task("references", total=repeats * len(numbers)) as advance:
        for repeat in range(repeats):
            generator = np.random.default_rng([seed, repeat])
            orders = _reference_orders(judgments.captions, generator)
            originals = _shuffle_originals(judgments, generator)
            for number in numbers:
                sampled_judgments = _with_references(judgments, orders, originals, number)
                scores, *_ = score_judgments(sampled_judgments, metrics, settings)
                for metric_name, metric_scores in scores.items():
                    statistic = make_statistic(sampled_judgments, orient_scores(metric_name, metric_scores, protocol))
                    categories = {} if protocol.by == "image_id" else category_values(statistic, sampled_judgments)
                    for subset, value in {"all": SCALE * statistic(), **categories}.items():
                        values.setdefault((metric_name, subset), {}).setdefault(number, []).append(value)
                advance(1)
    return [
        AgreementRow(
            "references_curve",
            metric_name,
            protocol.statistic,
            float(np.mean(samples)),
            min(samples),
            max(samples),
            len(samples),
            subset=subset,
            references=number,
        )
        for (metric_name, subset), by_number in values.items()
        for number, samples in by_number.items()
    ]


def _check_numbers(judgments: PreparedJudgments, metrics: str | Iterable[str | Metric], numbers: Sequence[int]) -> None:
    """An `InputError` unless all metrics and baselines can see these numbers of references."""
    caption_metrics, baselines = parse_metrics(metrics)
    names = [str(each) for each in (*caption_metrics, *baselines)]
    reference_limits = [each.max_references(judgments) for each in baselines]
    if caption_metrics:
        reference_limits.append(int(judgments.captions.references.lengths.max(initial=0)))
    if judgments.owners is not None:
        raise InputError(
            f"a curve over references needs all of them at once, but the protocol has "
            f"references={judgments.protocol.references}"
        )
    reference_limit = min(reference_limits, default=0)
    if not numbers or min(numbers) < 1 or max(numbers) > reference_limit:
        raise InputError(
            f"expected numbers of references from 1 to {reference_limit}, as many as {', '.join(names)} can see, "
            f"but got {numbers}"
        )


def _reference_orders(captions: CaptionSet, random: np.random.Generator) -> list[npt.NDArray[Any]]:
    """Each caption's references in random order, the same for all captions of an image with the same references."""
    order_of: dict[tuple[str, bytes], npt.NDArray[Any]] = {}
    orders = []
    for caption_index, image_id in enumerate(captions.image_ids):
        references = captions.references[caption_index]
        reference_key = (image_id, references.tobytes())
        if reference_key not in order_of:
            order_of[reference_key] = random.permutation(references)
        orders.append(order_of[reference_key])
    return orders


def _shuffle_originals(judgments: PreparedJudgments, random: np.random.Generator) -> dict[str, SourceSentence]:
    """The sentences that systems rewrote, each with its references in random order."""
    originals = judgments.originals if isinstance(judgments, Systems) else {}
    return {
        key: replace(each, references=tuple(each.references[k] for k in random.permutation(len(each.references))))
        for key, each in originals.items()
    }


def _with_references(
    judgments: PreparedJudgments,
    orders: Sequence[npt.NDArray[Any]],
    originals: Mapping[str, SourceSentence],
    reference_count: int,
) -> PreparedJudgments:
    """The judgments with `reference_count` references of each caption, the first; pool and analyses are shared."""
    references = Ragged.from_rows([order[:reference_count].tolist() for order in orders], np.int32)
    sampled_judgments = replace(judgments, captions=judgments.captions.replace(references=references))
    if isinstance(sampled_judgments, Systems):
        shortened = {
            key: replace(each, references=each.references[:reference_count]) for key, each in originals.items()
        }
        return replace(sampled_judgments, originals=shortened)
    return sampled_judgments
