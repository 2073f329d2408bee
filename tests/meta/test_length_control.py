"""Agreement and differences with the length of captions held constant."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import linregress, pearsonr

from capmeter.core.errors import ProtocolError
from capmeter.judgments.prepared import (
    JudgedSystem,
    RatedCaption,
    RatedPair,
    prepare_pairs,
    prepare_points,
    prepare_systems,
)
from capmeter.judgments.protocol import Protocol
from capmeter.meta.agreement import length_rows, measure_agreement
from capmeter.meta.comparison import compare
from capmeter.meta.length_control import control_length, with_equal_lengths


def rated(statistic: str, by: str | None = None) -> tuple[object, np.ndarray]:
    random = np.random.default_rng(0)
    lengths = random.integers(3, 40, 90)
    rows = [
        RatedCaption(str(k), str(k // 3), " ".join(["word"] * int(n)), ("a",), (float(n + random.normal(0, 8)),))
        for k, n in enumerate(lengths)
    ]
    protocol = Protocol(name="p", ratings="mean", statistic=statistic, by=by)  # type: ignore[arg-type]
    return prepare_points("mine", rows, protocol), lengths.astype(float)


def test_what_only_length_explains_is_gone() -> None:
    """Scores that are length and noise correlate with ratings that are length and noise, but not given length."""
    points, lengths = rated("pearson")
    scores = lengths + np.random.default_rng(1).normal(0, 8, 90)
    report = measure_agreement(points, {"m": scores}, resamples=100)  # type: ignore[arg-type]
    (inputs,) = control_length(report)
    assert inputs.value is not None and report["m"].value > 50 and abs(inputs.value) < 25 and inputs.n == 90
    human = points.human  # type: ignore[attr-defined]
    left = [values - np.polyval(np.polyfit(lengths, values, 1), lengths) for values in (human, scores)]
    assert inputs.value == pytest.approx(100 * pearsonr(*left).statistic)
    assert inputs.low < inputs.value < inputs.high


@pytest.mark.parametrize(
    ("statistic", "by"), [("tau-c", None), ("spearman", None), ("accuracy-eq", None), ("tau-b", "image_id")]
)
def test_every_correlation_has_a_partial_one_and_length_has_none(statistic: str, by: str | None) -> None:
    points, lengths = rated(statistic, by)
    report = measure_agreement(points, {"m": points.human, "length": lengths}, resamples=20)  # type: ignore
    values = {row.metric: row.value for row in control_length(report)}
    assert values == {"m": pytest.approx(100), "length": None}


def pairs(sides: list[tuple[int, int, int]]) -> object:
    """Pairs of captions of a and b words, of which people prefer a (1), b (-1) or neither."""
    rows = [
        RatedPair(str(k), str(k), (" ".join(["w"] * a), " ".join(["w"] * b)), ("r",), better)
        for k, (a, b, better) in enumerate(sides)
    ]
    return prepare_pairs("mine", rows, Protocol(name="p", statistic="agreement"))


def test_pairs_weigh_longer_and_shorter_alike() -> None:
    """Three pairs prefer the longer caption, one the shorter, one has no longer one, and one is a tie: the metric is
    right in 2 of 3 and in 0 of 1, so 100 · (2/3 + 0) / 2; length is right in 3 of 3 and 0 of 1."""
    judgments = pairs([(9, 3, 1), (9, 3, 1), (3, 9, -1), (9, 3, -1), (5, 5, 1), (9, 3, 0)])
    scores = np.array([2.0, 1, 1, 2, 1, 2, 2, 1, 1, 3, 1, 1])
    report = measure_agreement(judgments, {"m": scores}, resamples=50)  # type: ignore[arg-type]
    inputs, of_length = control_length(report.add(length_rows(judgments, resamples=50)))  # type: ignore[arg-type]
    assert inputs.value == pytest.approx(100 / 3) and inputs.n == 4
    assert of_length.metric == "length" and of_length.value == 50


def test_what_has_no_length_to_hold_constant_is_refused() -> None:
    systems = prepare_systems(
        "mine", [JudgedSystem(str(k), float(k)) for k in range(4)], Protocol(name="p", statistic="pearson")
    )
    with pytest.raises(ProtocolError, match="has no captions here"):
        control_length(measure_agreement(systems, {"m": np.arange(4.0)}, resamples=10))
    rows = [RatedCaption(str(k), str(k), "two words", ("r",), (float(k % 2),)) for k in range(6)]
    same = prepare_points("mine", rows, Protocol(name="p", ratings="mean"))
    with pytest.raises(ProtocolError, match="every caption of mine has 2 words"):
        control_length(measure_agreement(same, {"m": np.arange(6.0)}, resamples=10))
    points, lengths = rated("average-precision")
    points = type(points)(**{**vars(points), "human": np.arange(90) % 2})
    with pytest.raises(ProtocolError, match="no average-precision with length held constant is defined"):
        control_length(measure_agreement(points, {"m": lengths}, resamples=10))  # type: ignore[arg-type]


def test_difference_of_systems_between_captions_of_equal_length() -> None:
    """What is left is the intercept of scipy's regression of the score difference on the difference in words."""
    words = ["a", "brown", "dog", "runs", "on", "the", "green", "grass", "of", "a", "park"]
    references = [[" ".join(words)]] * 12
    long = [" ".join(words[: 6 + k % 5]) for k in range(12)]
    short = [" ".join(words[2 : 6 + k % 7]) for k in range(12)]
    comparison = with_equal_lengths(compare({"l": long, "s": short}, "rouge-l", references=references, resamples=50))
    (each,) = comparison.equal_lengths["rouge-l"]
    longer = np.array([len(a.split()) - len(b.split()) for a, b in zip(long, short, strict=True)])
    gaps = comparison.results["l"]["rouge-l"].items.array - comparison.results["s"]["rouge-l"].items.array
    assert each.at_equal_length == pytest.approx(linregress(longer, gaps).intercept)
    assert each.difference == pytest.approx(gaps.mean()) and each.words == pytest.approx(longer.mean())
    assert each.low <= each.at_equal_length <= each.high and not each.extrapolated
    saved = comparison.to_dict()["metrics"]["rouge-l"]["equal_lengths"]
    assert saved[0]["at_equal_length"] == each.at_equal_length


def test_the_same_difference_in_length_throughout_says_nothing() -> None:
    captions = {"l": ["a big dog", "a red cat"], "s": ["a dog", "a cat"]}
    comparison = with_equal_lengths(compare(captions, "rouge-l", references=[["a dog"], ["a cat"]], resamples=50))
    assert comparison.equal_lengths == {"rouge-l": ()}
