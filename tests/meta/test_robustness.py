"""Robustness curves: the arithmetic by hand, what is degraded, and that bands and seeds are honest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import AdditiveMetric, CapmeterWarning, MeanMetric, Measurement, RunContext
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import evaluate
from capmeter.meta.robustness import leave_one_out, robustness

REFERENCES = {
    f"image{k}": [f"a {colour} {animal} runs", f"the {animal} is {colour}", f"one {colour} {animal} that {verb}"]
    for k, (colour, animal, verb) in enumerate(
        (colour, animal, verb)
        for colour in ("red", "blue", "green")
        for animal in ("dog", "cat", "cow", "duck")
        for verb in ("sleeps", "sits")
    )
}


@dataclass(frozen=True, kw_only=True)
class Words(MeanMetric):
    """The number of words of the candidate, less a constant."""

    NAME = "words"
    SUMMARY = "length"
    less: float = 0.0

    @property
    def columns(self) -> tuple[str, ...]:
        return ("score",)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        return Measurement(np.array([[len(caption.candidate.split()) - self.less] for caption in part], float))


@dataclass(frozen=True, kw_only=True)
class Ratio(AdditiveMetric):
    """Words found in the references over words: a score of sums."""

    NAME = "ratio"
    SUMMARY = "precision"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("found", "words")

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        rows = []
        for caption in part:
            words, names = caption.candidate.split(), set(" ".join(caption.references).split())
            rows.append([sum(word in names for word in words), len(words)])
        return Measurement(np.array(rows, float))

    def from_sums(self, sums: Any, counts: Any) -> dict[str, Any]:
        return {"score": sums[..., 0] / np.maximum(sums[..., 1], 1)}


def _four_words() -> CaptionSet:
    rows = [Caption(f"i{k}", f"i{k // 2}", f"one two three four{k}", ("one two", "three")) for k in range(8)]
    return CaptionSet.from_captions(rows)


def test_a_curve_and_its_area_by_hand() -> None:
    # four words; removal leaves 4, 2 (γ = .5) and 1 (γ = 1): relative 1, .5, .25; trapezia .375 + .1875
    result = robustness(_four_words(), [Words()], ["removal"], strengths=[0, 0.5, 1], resamples=50)
    (curve,) = result
    assert curve.scores.tolist() == [4, 2, 1]
    assert curve.normalised.tolist() == [1, 0.5, 0.25]
    assert curve.area.value == pytest.approx(0.5625, abs=1e-15)
    assert (curve.area.low, curve.area.high) == pytest.approx((0.5625, 0.5625))  # every caption is alike
    assert curve.preferred.tolist() == [0, 1, 1]
    assert curve.tied.tolist() == [1, 0, 0]
    assert result.unchanged["removal"].tolist() == [1, 0, 0]
    some = robustness(_four_words(), [Words()], ["removal"], strengths=[1], resamples=20, images=2)
    assert len(some.captions) == 4 and some.examples["removal"][0] == next(iter(some.captions)).candidate


def test_an_uneven_grid_and_one_that_does_not_reach_1() -> None:
    (curve,) = robustness(_four_words(), [Words()], ["repetition"], strengths=[0.25, 1.0], resamples=20)
    assert curve.strengths.tolist() == [0, 0.25, 1]
    assert curve.normalised.tolist() == [1, 1.25, 2]
    assert curve.area.value == pytest.approx(0.25 * 1.125 + 0.75 * 1.625)
    assert curve.preferred.tolist() == [0, 0, 0]  # a longer caption scores more here
    (half,) = robustness(_four_words(), [Words()], ["repetition"], strengths=[0.5], resamples=20)
    assert half.area.value == pytest.approx((1 + 1.5) / 2)


def test_corpus_scores_are_the_metrics_own_not_means_of_captions() -> None:
    rows = [Caption("a", "a", "x", ("x y z",)), Caption("b", "b", "p q x y r", ("p q", "r"))]
    (curve,) = robustness(CaptionSet.from_captions(rows), [Ratio()], ["repetition"], strengths=[1], resamples=20)
    assert curve.scores[0] == pytest.approx(4 / 6)  # the mean of captions would be (1 + 3/5) / 2


@pytest.mark.parametrize("name", ["bleu-2", "cider-d", "rouge-l"])
def test_every_point_is_what_scoring_its_captions_gives(name: str) -> None:
    metric = parse(name)
    captions = leave_one_out(REFERENCES, seed=4)
    result = robustness(captions, [metric], ["replacement", "rc"], strengths=[0.4, 1], resamples=20, seed=4)
    from capmeter.transforms.degradations import parse as degradation

    assert result[0].scores[0] == pytest.approx(evaluate(captions, [metric])[metric].score, rel=1e-12)
    for curve in result:
        degrade = degradation(curve.degradation).fit(captions, seed=4)
        rows = [
            Caption(each.id, each.image_id, degrade(row, 0.4), each.references) for row, each in enumerate(captions)
        ]
        scores = evaluate(CaptionSet.from_captions(rows), [metric])[metric]
        assert curve.scores[1] == pytest.approx(scores.score, rel=1e-12)
        untouched = evaluate(captions, [metric])[metric].items.array
        assert curve.preferred[1] == (untouched > scores.items.array).mean()


def test_bands_are_the_bootstrap_of_the_ratio_by_image() -> None:
    random = np.random.default_rng(0)
    rows = [Caption(f"{k}", f"{k // 2}", " ".join(["w"] * random.integers(2, 12)), ("w",)) for k in range(60)]
    (curve,) = robustness(
        CaptionSet.from_captions(rows), [Words()], ["removal"], strengths=[0.5], resamples=4000, seed=5
    )
    before = np.array([len(each.candidate.split()) for each in rows], float)
    after = before - np.maximum(1, np.floor(before * 0.5 + 0.5))
    pairs = np.stack([before, after]).reshape(2, 30, 2).sum(axis=2)
    picks = np.random.default_rng(99).integers(30, size=(4000, 30))
    ratio = pairs[1][picks].sum(axis=1) / pairs[0][picks].sum(axis=1)
    low, high = np.quantile(ratio, [0.025, 0.975])
    assert curve.normalised[1] == pytest.approx(after.sum() / before.sum())
    assert curve.low[1] == pytest.approx(low, abs=0.004)
    assert curve.high[1] == pytest.approx(high, abs=0.004)
    assert curve.low[0] == curve.high[0] == 1


def test_a_metric_that_does_not_see_order_is_flat_under_permutation_and_another_is_not() -> None:
    result = robustness(REFERENCES, ["bleu-1", "bleu-2"], ["wp"], strengths=[0, 0.5, 1], resamples=20)
    assert result.curve("bleu-1", "T_WP").normalised == pytest.approx([1, 1, 1])
    assert result.curve("bleu-2", "permutation").normalised[2] < 0.8
    assert (result.metrics, result.degradations) == (["bleu-1", "bleu-2"], ["permutation"])
    with pytest.raises(InputError, match="rouge-l under permutation was not measured; this study has bleu-1, bleu-2"):
        result.curve("rouge-l", "wp")


def test_the_same_seed_gives_the_same_study_and_another_another() -> None:
    first, again, other = (
        robustness(REFERENCES, ["bleu-2"], ["wp", "rw", "rc"], strengths=[0.5], resamples=50, seed=seed).to_dict()
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first["curves"] != other["curves"]


def test_the_order_of_the_images_moves_no_score() -> None:
    turned = dict(reversed(REFERENCES.items()))
    one, two = (
        robustness(each, ["cider-d"], ["wp", "rw", "rc"], strengths=[0.5], resamples=20)
        for each in (REFERENCES, turned)
    )
    for a, b in zip(one, two, strict=True):
        assert a.scores == pytest.approx(b.scores, rel=1e-12)


class TestLeaveOneOut:
    def test_the_candidate_is_one_of_the_references_and_taken_out_of_them(self) -> None:
        for caption in leave_one_out(REFERENCES):
            texts = REFERENCES[caption.image_id]
            assert caption.candidate in texts
            assert sorted([caption.candidate, *caption.references]) == sorted(texts)

    def test_every_reference_has_its_turn(self) -> None:
        selection = {leave_one_out(REFERENCES, seed=seed)["image0"].candidate for seed in range(60)}
        assert selection == set(REFERENCES["image0"])

    def test_the_choice_for_an_image_does_not_depend_on_the_others(self) -> None:
        alone = leave_one_out({"image5": REFERENCES["image5"]}, seed=3)
        assert alone["image5"].candidate == leave_one_out(REFERENCES, seed=3)["image5"].candidate

    def test_references_of_the_same_wording_go_with_it(self) -> None:
        captions = leave_one_out({"1": ["a dog", "a dog ", "a cat"], "2": ["one", "two", " "]})
        assert all(each.candidate.strip() not in map(str.strip, each.references) for each in captions)
        assert len(captions["2"].references) == 1

    def test_images_that_have_none_left_are_noted(self) -> None:
        captions = leave_one_out({"1": ["a dog"], "2": ["a", "a"], "3": [], "4": ["a dog", "a cat"]})
        assert captions.ids == ("4",)
        assert captions.notes == {"images with less than two different references": ["1", "2", "3"]}
        with pytest.raises(InputError, match="none of the 2 images has two different references"):
            leave_one_out({"1": ["a dog"], "2": []})

    def test_drawn_images_stay_in_order_and_a_larger_draw_holds_the_smaller(self) -> None:
        ten, twelve = (leave_one_out(REFERENCES, images=number).ids for number in (10, 12))
        assert len(ten) == 10
        assert set(ten) < set(twelve)
        assert list(ten) == [image for image in REFERENCES if image in set(ten)]
        assert leave_one_out(REFERENCES, images=10, seed=1).ids != ten


def test_a_file_of_references_and_the_saved_study(tmp_path: Path) -> None:
    file = tmp_path / "refs.json"
    file.write_text(json.dumps(REFERENCES))
    result = robustness(file, "bleu-1,rouge-l", "removal", strengths=[0.5, 1], resamples=20)
    saved = json.loads(json.dumps(result.to_dict()))
    assert saved["captions"] == saved["images"] == 24
    assert [curve["metric"] for curve in saved["curves"]] == ["bleu-1", "rouge-l"]
    assert saved["curves"][0]["normalised"][0] == 1


@pytest.mark.parametrize(
    ("strengths", "message"),
    [
        ([0.5, 2], "numbers from 0"),
        ([], "numbers from 0"),
        ([0], "numbers from 0"),
        ([float("nan"), 1], "from 0"),
        ("x", "from 0"),
        (None, "from 0"),
    ],
)
def test_wrong_strengths_are_refused(strengths: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        robustness(REFERENCES, ["bleu-1"], ["wp"], strengths=strengths)


@pytest.mark.parametrize("name", ["seed", "resamples", "images", "level", "image_files"])
def test_a_parameter_of_another_type_is_refused(name: str) -> None:
    for value in ("3", 2.5, [1], None if name in ("seed", "resamples", "level") else -1):
        with pytest.raises(InputError, match="expected"):
            robustness(REFERENCES, ["bleu-1"], ["wp"], **{"resamples": 9, name: value})


def test_metrics_that_cannot_be_measured() -> None:
    with pytest.raises(InputError, match=r"words\(less=9\.0\) gives the unmodified captions -5"):
        robustness(_four_words(), [Words(less=9.0)], ["removal"], resamples=20)
    with pytest.warns(CapmeterWarning, match=r"left out: bleu-4 gives the unmodified captions [\d.]+e-\d+; curves"):
        study = robustness(REFERENCES, ["bleu-4", "rouge-l"], ["removal"], strengths=[0.5, 1], resamples=20)
    assert study.metrics == ["rouge-l"]


def test_real_captions_behave_as_published(shared: Path) -> None:
    """Cui et al., Fig. 6: CIDEr is the most robust to other captions, BLEU-4 to permuted words; ROUGE-L to neither."""
    result = robustness(
        shared / "data" / "coco_karpathy_test_captions.jsonl.gz",
        ["bleu-4", "rouge-l", "cider-d"],
        strengths=[0, 0.25, 0.5, 0.75, 1],
        images=200,
        resamples=100,
    )
    area = {(curve.degradation, curve.metric): curve.area.value for curve in result}
    for way in result.degradations:
        assert area[way, "rouge-l"] == max(area[way, metric] for metric in result.metrics)
    assert area["other-caption", "cider-d"] < area["other-caption", "bleu-4"]
    assert area["permutation", "bleu-4"] < area["permutation", "cider-d"]
    for curve in result:
        assert curve.normalised[-1] < 0.85
        assert (curve.low <= curve.normalised + 1e-12).all()
