"""Comparisons: pairing, the arithmetic by hand, corpus statistics, null distributions, ranks, and refusals."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import evaluate
from capmeter.meta import comparison
from capmeter.meta.comparison import align_captions, compare

WORDS = ["dog", "cat", "runs", "sits", "red", "blue", "grass", "sofa", "a", "the", "on", "small"]


def _references(number: int, random: np.random.Generator) -> list[tuple[str, ...]]:
    return [tuple(" ".join(random.choice(WORDS, 7)) for _ in range(3)) for _ in range(number)]


def _system(references: list[tuple[str, ...]], noise: float, random: np.random.Generator) -> list[str]:
    """Each image's first reference, every word replaced with the chance `noise`."""
    return [
        " ".join(str(random.choice(WORDS)) if random.random() < noise else word for word in texts[0].split())
        for texts in references
    ]


def _set(candidates: list[str], references: list[tuple[str, ...]], per_image: int = 1) -> CaptionSet:
    return CaptionSet.from_captions(
        Caption(f"id{k}", f"image{k // per_image}", text, references[k]) for k, text in enumerate(candidates)
    )


@pytest.fixture(scope="module")
def three() -> dict[str, CaptionSet]:
    random = np.random.default_rng(1)
    references = _references(80, random)
    return {
        name: _set(_system(references, noise, random), references)
        for name, noise in (("poor", 0.8), ("good", 0.2), ("also good", 0.2))
    }


def test_the_difference_is_that_of_the_corpus_scores(three: dict[str, CaptionSet]) -> None:
    result = compare(three, ["bleu-4", "cider-d"], resamples=200, permutations=500)
    for name, verdict in result.items():
        scores = {system: evaluate(captions, [parse(name)])[name] for system, captions in three.items()}
        for each in verdict.differences:
            assert each.difference == scores[each.first].score - scores[each.second].score
            gap = scores[each.first].items.array - scores[each.second].items.array
            assert (each.wins, each.ties, each.losses) == tuple((np.sign(gap) == sign).sum() for sign in (1, 0, -1))
            assert each.low <= each.difference <= each.high
    # BLEU of the corpus is not the mean of its captions' BLEU
    bleu = result.results["poor"]["bleu-4"]
    assert abs(bleu.score - bleu.items.array.mean()) > 1e-3


def test_p_by_hand_over_all_permutations_of_bleu() -> None:
    random = np.random.default_rng(3)
    references = _references(6, random)
    one, two = (_system(references, noise, random) for noise in (0.3, 0.6))
    result = compare({"a": _set(one, references), "b": _set(two, references)}, ["bleu-2"], resamples=20)
    observed = result["bleu-2"].differences[0].difference

    def bleu(candidates: list[str]) -> float:
        return evaluate(_set(candidates, references), [parse("bleu-2")])["bleu-2"].score

    extreme = 0
    for swaps in product([False, True], repeat=6):
        first = [b if swap else a for a, b, swap in zip(one, two, swaps, strict=True)]
        second = [a if swap else b for a, b, swap in zip(one, two, swaps, strict=True)]
        extreme += abs(bleu(first) - bleu(second)) >= abs(observed) - 1e-12
    assert result["bleu-2"].differences[0].p == extreme / 64


def test_captions_of_one_image_change_places_together() -> None:
    # two images with three captions each: only 4 permutations, and p cannot be below 1/2
    references = [("a dog runs",)] * 6
    good, poor = _set(["a dog runs"] * 6, references, 3), _set(["a cat"] * 6, references, 3)
    assert compare({"a": good, "b": poor}, ["rouge-l"], resamples=20)["rouge-l"].differences[0].p == 0.5


@pytest.mark.parametrize("test", ["permutation", "bootstrap"])
def test_p_is_uniform_where_systems_do_not_differ(test: str) -> None:
    """Systems of the same quality: 5% of comparisons are significant at .05, 50% at .5."""
    result = []
    for seed in range(150):
        random = np.random.default_rng(seed)
        references = _references(30, random)
        systems = {name: _set(_system(references, 0.5, random), references) for name in "ab"}
        result.append(
            compare(systems, ["bleu-1"], test=test, resamples=200, permutations=200, seed=seed)["bleu-1"]
            .differences[0]
            .p
        )
    p = np.array(result)
    assert 0.01 <= (p <= 0.05).mean() <= 0.11
    assert 0.4 <= (p <= 0.5).mean() <= 0.6
    assert 0.7 <= (p <= 0.8).mean() <= 0.9


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    content = 0
    for seed in range(150):
        random = np.random.default_rng(1000 + seed)
        references = _references(40, random)
        systems = {name: _set(_system(references, 0.5, random), references) for name in "ab"}
        (each,) = compare(systems, ["rouge-l"], test="bootstrap", resamples=300, seed=seed)["rouge-l"].differences
        content += each.low <= 0 <= each.high
    assert 0.89 <= content / 150 <= 0.99


def test_order_and_ids_of_a_system_do_not_matter(three: dict[str, CaptionSet]) -> None:
    straight = compare(three, ["cider-d"], resamples=50, permutations=100)
    turned = {name: one if name == "poor" else one.select(np.arange(80)[::-1]) for name, one in three.items()}
    assert compare(turned, ["cider-d"], resamples=50, permutations=100).to_dict() == straight.to_dict()
    renamed = {
        name: CaptionSet.from_captions(
            Caption(f"{name}-{each.id}", each.image_id, each.candidate, each.references) for each in one
        )
        for name, one in turned.items()
    }
    again = compare(renamed, ["cider-d"], resamples=50, permutations=100)["cider-d"]
    assert again.differences == straight["cider-d"].differences


def test_the_ranking_starts_a_rank_at_a_significant_step(three: dict[str, CaptionSet]) -> None:
    result = compare(three, ["rouge-l"], resamples=200, permutations=2000)["rouge-l"]
    assert [each["rank"] for each in result.ranking] == [1, 1, 2]
    assert result.ranking[2]["system"] == "poor"
    assert min(each.p_holm for each in result.differences) == pytest.approx(3 * min(p.p for p in result.differences))
    best = result.ranking[0]
    assert best["low"] <= best["score"] <= best["high"]


def test_a_pair_can_be_asked_for_either_way_round(three: dict[str, CaptionSet]) -> None:
    result = compare(three, ["rouge-l"], resamples=50, permutations=100)["rouge-l"]
    one, other = result.between("poor", "good"), result.between("good", "poor")
    assert (other.difference, other.low, other.high) == (-one.difference, -one.high, -one.low)
    assert (other.wins, other.losses, other.p) == (one.losses, one.wins, one.p)
    assert (other.first_score, other.second_score) == (one.second_score, one.first_score)
    assert result.between() is result.differences[0]
    with pytest.raises(InputError, match="the compared systems are"):
        result.between("poor", "best")


def test_the_captions_that_differ_most(three: dict[str, CaptionSet]) -> None:
    result = compare(three, ["rouge-l"], resamples=50, permutations=100)
    display = result.most_different("rouge-l", "good", "poor", 6)
    items = {name: result.results[name]["rouge-l"].items for name in ("good", "poor")}
    gap = {id: items["good"][id] - items["poor"][id] for id in items["good"]}
    assert [each["first_score"] - each["second_score"] for each in display[:3]] == sorted(gap.values(), reverse=True)[
        :3
    ]
    assert [each["first_score"] - each["second_score"] for each in display[3:]] == sorted(gap.values())[
        : len(display) - 3
    ]
    one = display[0]
    assert (one["first"], one["references"]) == (
        three["good"][one["id"]].candidate,
        three["good"][one["id"]].references,
    )
    assert (one["first_score"], one["second_score"]) == (items["good"][one["id"]], items["poor"][one["id"]])
    with pytest.raises(InputError, match="unknown system 'best'"):
        result.most_different("rouge-l", "best", "poor")


def test_equal_systems_differ_in_nothing(three: dict[str, CaptionSet]) -> None:
    result = compare({"a": three["good"], "b": three["good"]}, ["bleu-4", "cider-d"], resamples=50, permutations=100)
    for verdict in result.values():
        (each,) = verdict.differences
        assert (each.difference, each.low, each.high, each.p) == (0, 0, 0, 1)
        assert (each.wins, each.ties, each.losses) == (0, 80, 0)
        assert [standing["rank"] for standing in verdict.ranking] == [1, 1]
    assert result.most_different("bleu-4") == []


def test_a_seed_gives_the_same(three: dict[str, CaptionSet]) -> None:
    first, again, other = (compare(three, ["bleu-4"], resamples=50, permutations=300, seed=seed) for seed in (1, 1, 2))
    assert first.to_dict() == again.to_dict()
    assert first.to_dict() != other.to_dict()
    saved = json.loads(json.dumps(first.to_dict(2)))
    assert [len(each["differing"]) for each in saved["metrics"]["bleu-4"]["differences"]] == [2, 2, 2]


def test_files_and_lists_are_read_with_references_given_once(tmp_path: Path) -> None:
    references = {"1": ["a dog runs"], "2": ["two cats"], "3": ["a red ball"]}
    for name, texts in (("a", ["a dog runs", "two cats", "a ball"]), ("b", ["a cow", "two cats", "ball"])):
        rows = [{"image_id": id, "caption": text} for id, text in zip(references, texts, strict=True)]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    result = capmeter.compare(
        {"a": tmp_path / "a.json", "b": {"1": "a cow", "2": "two cats", "3": "ball"}},
        "rouge-l",
        references=references,
        resamples=20,
    )
    (each,) = result["rouge-l"].differences
    assert (each.wins, each.ties, each.losses) == (2, 1, 0)
    with pytest.raises(KeyError, match="cider was not compared"):
        result["cider"]


@pytest.mark.parametrize("test", ["permutation", "bootstrap"])
def test_many_systems_can_still_be_told_apart(test: str) -> None:
    """28 pairs: with 100 resamples no p could be below .01, and none below .05 after the correction."""
    random = np.random.default_rng(0)
    references = _references(40, random)
    systems = {f"s{k}": _set(_system(references, k / 8, random), references) for k in range(8)}
    result = compare(systems, ["rouge-l"], test=test, resamples=100, permutations=100)
    assert result["rouge-l"].between("s0", "s7").p_holm < 0.05
    assert (result.permutations, result.resamples) == ((2800, 100) if test == "permutation" else (100, 2800))


class TestRefusals:
    def test_ids_on_one_side_only_are_named(self) -> None:
        references = [("a dog",)] * 8
        one = _set(["a dog"] * 8, references)
        with pytest.raises(InputError, match=r"only in 'a': id1, id2, id3, id4, id5 and 2 more"):
            align_captions({"a": one, "b": one.select([0])})
        with pytest.raises(InputError, match=r"only in 'b': id0\."):
            align_captions({"a": one.select([1, 2]), "b": one.select([0, 1, 2])})

    def test_references_must_be_the_same_in_any_order(self) -> None:
        one = _set(["a", "b"], [("x", "y"), ("z",)])
        assert align_captions({"a": one, "b": _set(["c", "d"], [("y", "x"), ("z",)])})
        with pytest.raises(InputError, match="different references for id1;"):
            align_captions({"a": one, "b": _set(["c", "d"], [("x", "y"), ("q",)])})

    @pytest.mark.parametrize("images", [("image0", "other"), ("image1", "image0")])
    def test_a_caption_is_of_one_image_in_all_systems(self, images: tuple[str, str]) -> None:
        one = _set(["a", "b"], [("x",)] * 2)
        rows = zip(one.ids, images, ["c", "d"], one, strict=True)
        other = CaptionSet.from_captions(Caption(id, image, text, a.references) for id, image, text, a in rows)
        with pytest.raises(InputError, match=r"'a' and 'b' have different images for .*id1;"):
            compare({"a": one, "b": other}, "rouge-l")

    def test_several_captions_of_an_image_need_ids_that_pair_them(self) -> None:
        one = _set(["a", "b"], [("x",), ("x",)], per_image=2)
        other = CaptionSet.from_captions(Caption(f"other{k}", "image0", "c", ("x",)) for k in range(2))
        with pytest.raises(InputError, match="give ids that match captions to each other"):
            align_captions({"a": one, "b": other})

    def test_one_system_an_unknown_test_and_references_twice(self) -> None:
        one = _set(["a", "b"], [("x",), ("x",)])
        for systems, found in (
            ({"a": one}, "an object with the fields a"),
            ([one, one], "a list of 2"),
            (None, "missing"),
        ):
            with pytest.raises(InputError, match=f"needs at least two systems, {{name: captions}}, but got {found}"):
                compare(systems)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"permutation or bootstrap.*'t-test'"):
            compare({"a": one, "b": one}, test="t-test")
        with pytest.raises(InputError, match="already holds its references"):
            compare({"a": one, "b": one}, references={"1": ["a"]})


def _results(captions: CaptionSet, metrics: str = "bleu-4,rouge-l,cider-d") -> capmeter.Results:
    return capmeter.score(captions, metrics)


def test_stored_results_are_not_computed_again(three: dict[str, CaptionSet], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = compare(three, "bleu-4,rouge-l", resamples=200, permutations=200)
    stored = {name: _results(captions.select(range(79, -1, -1))) for name, captions in three.items()}

    def refuse(*arguments: object, **keywords: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(comparison, "evaluate", refuse)
    result = compare(stored, "bleu-4,rouge-l", resamples=200, permutations=200)
    for name in expected:
        for one, other in zip(result[name].differences, expected[name].differences, strict=True):
            assert one.difference == pytest.approx(other.difference, abs=1e-12)
            assert (one.wins, one.losses) == (other.wins, other.losses)


def test_notes_of_stored_results_are_kept(three: dict[str, CaptionSet]) -> None:
    first = three["good"].references
    copied = three["good"].replace(candidates=first.values[first.offsets[:-1]])  # each caption its first reference
    systems = {"good": copied, "poor": three["poor"]}
    expected = compare(systems, "rouge-l", resamples=20, permutations=20).results["good"].notes
    stored = {name: _results(captions, "rouge-l") for name, captions in systems.items()}
    assert compare(stored, "rouge-l", resamples=20, permutations=20).results["good"].notes == expected


def test_of_stored_results_only_what_lacks_is_computed(three: dict[str, CaptionSet]) -> None:
    mixed = {"good": _results(three["good"], "rouge-l"), "poor": three["poor"]}
    result = compare(mixed, "rouge-l,cider-d", resamples=200, permutations=200)
    expected = compare({name: three[name] for name in mixed}, "rouge-l,cider-d", resamples=200, permutations=200)
    assert [each.difference for name in result for each in result[name].differences] == pytest.approx(
        [each.difference for name in expected for each in expected[name].differences], abs=1e-12
    )


def test_common_captions_only(three: dict[str, CaptionSet]) -> None:
    part = three["poor"].select(range(10, 40))
    with pytest.raises(InputError, match=r"do not have the same captions: .*--common"):
        compare({"good": three["good"], "poor": part}, "cider-d")
    result = compare({"good": three["good"], "poor": part}, "cider-d", common=True, resamples=200, permutations=200)
    expected = compare(
        {"good": three["good"].select(range(10, 40)), "poor": part}, "cider-d", resamples=200, permutations=200
    )
    assert result["cider-d"].differences == expected["cider-d"].differences
    (reason,) = (reason for reason in result.results["good"].notes if "left out" in reason)
    assert len(result.results["good"].notes[reason]) == 50
    # stored scores whose document frequencies come from other images are computed again
    stored = {"good": _results(three["good"]), "poor": _results(part)}
    again = compare(stored, "cider-d", common=True, resamples=200, permutations=200)
    assert again["cider-d"].differences == expected["cider-d"].differences
    with pytest.raises(InputError, match="no image in common"):
        compare({"a": part, "b": three["good"].select(range(5))}, "cider-d", common=True)
