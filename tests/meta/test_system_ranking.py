from __future__ import annotations

import numpy as np
import pytest

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.results import Results
from capmeter.evaluation.runner import evaluate, score
from capmeter.meta.comparison import compare
from capmeter.meta.system_ranking import explain_untested, rank_systems

METRICS = parse_list("bleu-2,rouge-l")


def scored(
    candidates: list[str], order: list[int] | None = None, prefix: str = "", references: slice = slice(None)
) -> Results:
    rows = [
        Caption(
            f"{prefix}{k}", f"{prefix}{k}", text, (f"a dog number {k} runs on grass", f"dog {k} is running")[references]
        )
        for k, text in enumerate(candidates)
    ]
    return evaluate(CaptionSet.from_captions([rows[k] for k in order or range(len(rows))]), METRICS)


GOOD = [f"a dog number {k} runs on grass" if k % 4 else "a dog runs" for k in range(40)]
SAME = [f"a dog number {k} runs on grass" if k % 4 != 1 else "a dog runs" for k in range(40)]
BAD = [f"two cats see {k}" for k in range(40)]


def test_chance_and_difference_are_told_apart() -> None:
    result = rank_systems({"good": scored(GOOD), "same": scored(SAME), "bad": scored(BAD)}, resamples=300)
    for standing in result.values():
        assert standing.best() == {"good", "same"}
        assert [standing.significantly_worse(name) for name in ("good", "same", "bad")] == [{"bad"}, {"bad"}, set()]


def test_it_says_what_the_comparison_says() -> None:
    some = [worse if k % 5 == 0 else good for k, (good, worse) in enumerate(zip(GOOD, BAD, strict=True))]
    systems = {"good": GOOD, "same": SAME, "some": some, "bad": BAD}
    compared = compare({name: scored(candidates).captions for name, candidates in systems.items()}, METRICS)
    result = rank_systems({name: scored(candidates) for name, candidates in systems.items()}, resamples=100)
    for metric, standing in result.items():
        for each in compared[metric].differences:
            above, below = (each.first, each.second) if each.difference > 0 else (each.second, each.first)
            assert (below in standing.significantly_worse(above)) == (each.p_holm < 0.05)
        assert standing.best() == {each["system"] for each in compared[metric].ranking if each["rank"] == 1}


def test_order_of_the_captions_changes_no_comparison() -> None:
    order = np.random.default_rng(1).permutation(40).tolist()
    plain = rank_systems({"good": scored(GOOD), "bad": scored(BAD)}, resamples=200)
    mixed = rank_systems({"good": scored(GOOD), "bad": scored(BAD, order)}, resamples=200)
    for metric in plain:
        assert mixed[metric].intervals["bad"].low == pytest.approx(plain[metric].intervals["bad"].low, abs=1e-12)
        assert mixed[metric].corrected == plain[metric].corrected


def test_captions_in_another_order_and_of_other_images() -> None:
    order = np.random.default_rng(2).permutation(40).tolist()
    result = rank_systems({"one": scored(GOOD), "two": scored(GOOD, order)}, resamples=200)
    assert all(standing.best() == {"one", "two"} for standing in result.values())
    other = rank_systems({"good": scored(GOOD), "bad": scored(BAD, prefix="x")}, resamples=200)["rouge-l"]
    assert other.best() == frozenset() and not other.significantly_worse("good")
    assert set(other.intervals) == {"good", "bad"}


def test_intervals_are_those_of_results() -> None:
    results = scored(GOOD)
    result = rank_systems({"good": results}, resamples=300, seed=3)
    assert {
        name: (each.intervals["good"].low, each.intervals["good"].high) for name, each in result.items()
    } == results.intervals(resamples=300, seed=3)


def test_saved_results_give_the_same_standing(tmp_path: object) -> None:
    before = {"good": scored(GOOD), "bad": scored(BAD)}
    after = {name: Results.from_dict(results.to_dict()) for name, results in before.items()}
    assert rank_systems(after, resamples=100) == rank_systems(before, resamples=100)


def test_many_systems_do_not_hide_a_plain_difference() -> None:
    systems = {"good": scored(GOOD), **{f"bad {k}": scored(BAD) for k in range(9)}}
    assert rank_systems(systems, resamples=100)["rouge-l"].best() == {"good"}


def test_systems_of_other_references_are_not_tested() -> None:
    """The same texts, one system with every reference and one with the last alone: their scores say nothing."""
    systems = {"sa": scored(GOOD), "sb": scored(GOOD, references=slice(1, None))}
    assert systems["sa"]["rouge-l"].score > systems["sb"]["rouge-l"].score + 0.1
    for standing in rank_systems(systems, resamples=50).values():
        assert standing.best() == frozenset() and not any(map(standing.significantly_worse, standing.values))
        assert set(standing.intervals) == {"sa", "sb"}
    assert explain_untested(systems).startswith("sa and sb were scored against different references, so")
    assert explain_untested({"sa": scored(GOOD), "turned": scored(GOOD, references=slice(None, None, -1))}) == ""
    assert "different images" in explain_untested({"sa": scored(GOOD), "sb": scored(GOOD, prefix="x")})


def test_several_captions_of_an_image_have_its_references_once() -> None:
    def results(*images: str, references: tuple[str, ...] = ("a dog", "dogs")) -> Results:
        captions = [Caption(str(k), image, "a dog", references) for k, image in enumerate(images)]
        return evaluate(CaptionSet.from_captions(captions), METRICS)

    assert results("x", "x", "y").references == results("y", "x").references
    assert results("x").references != results("x", references=("a dog", "do", "gs")).references
    assert results("x").references != results("x", references=("a dog",)).references


def test_the_level_decides_what_is_significant() -> None:
    some = [worse if k % 13 == 0 else good for k, (good, worse) in enumerate(zip(GOOD, BAD, strict=True))]
    systems = {"good": scored(GOOD), "some": scored(some)}
    captions = {name: results.captions for name, results in systems.items()}
    (tested,) = compare(captions, "rouge-l")["rouge-l"].differences
    assert 0.05 < tested.p < 0.3
    at = {level: rank_systems(systems, resamples=50, level=level)["rouge-l"] for level in (0.95, 0.7)}
    assert at[0.95].best() == {"good", "some"} and at[0.7].best() == {"good"}


def test_the_best_are_known_without_intervals() -> None:
    systems = {"good": scored(GOOD), "bad": scored(BAD)}
    plain = rank_systems(systems, intervals=False)["rouge-l"]
    assert plain.best() == {"good"} and plain.intervals == {}
    assert plain.corrected == rank_systems(systems, resamples=50)["rouge-l"].corrected


def test_too_few_images_are_not_tested() -> None:
    def scored(text: str, images: int) -> Results:
        return score(candidates=[text] * images, references=[["a dog runs"]] * images, metrics="rouge-l")

    few = {"right": scored("a dog runs", 5), "wrong": scored("a cow", 5)}
    assert explain_untested(few).startswith("5 images are too few for a test")
    assert rank_systems(few, resamples=50)["rouge-l"].best() == frozenset()
    enough = {"right": scored("a dog runs", 6), "wrong": scored("a cow", 6)}
    assert rank_systems(enough, resamples=50)["rouge-l"].best() == {"right"}
