"""Systems against people: geometry by hand and by property, the authors' numbers from the scores they published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.smurf.held_out import hold_out_candidates, hold_out_human_captions
from capmeter_research.papers.smurf.normalisation import NormalisationConstants, Scale, read_constants
from capmeter_research.papers.smurf.systems import (
    Components,
    clip_polygon,
    ellipse_outline,
    polygon_area,
    sample_points,
    summarise_systems,
)
from hypothesis import given
from hypothesis import strategies as st
from support.shared_files import read_document

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError

UNIT = NormalisationConstants("made up", 10, "minilm", "minilm", Scale(0, 1), Scale(0, 1), Scale(0, 1))
SQUARE = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
NAMES = ("human", "m2", "x", "google")


def made(sparcs: list[float], spurts: list[float], mima: list[float] | None = None, prefix: str = "i") -> Components:
    ids = [f"{prefix}{k}" for k in range(len(sparcs))]
    grammar = np.zeros(len(sparcs)) if mima is None else np.array(mima)
    return Components(
        np.array(sparcs), grammar, np.array(spurts), ("minilm", "minilm"), ids, ids, [f"say {i}" for i in ids]
    )


def shipped(shared: Path) -> dict[str, Components]:
    scores = np.load(shared / "oracles" / "smurf_shipped_and_fusion.npz")
    ids = [str(k) for k in range(5000)]
    encoders = ("distilbert", "distilroberta")
    parts = {
        name: [scores[f"shipped_{each}"][k::4] for each in ("SPARCS", "MIMA", "SPURTS")] for k, name in enumerate(NAMES)
    }
    return {name: Components(*each, encoders, ids, ids, ids) for name, each in parts.items()}  # type: ignore[call-arg]


def test_equals_the_released_analysis(shared: Path) -> None:
    official = read_document(shared / "oracles" / "smurf_system_analysis.json.gz")
    result = summarise_systems(shipped(shared), "human", read_constants("paper"))
    assert [round(each.penalty, 3) for each in result.values()] == [-44.925, -7.467, -7.561, -4.465]
    assert [round(each.overlap, 4) for each in result.values()] == [1, 0.4902, 0.7917, 0.7110]
    for each, ellipse_of in zip(result.values(), official["ellipses"], strict=True):
        np.testing.assert_allclose(each.mean, ellipse_of["mean"], atol=1e-12)
        assert each.centroid == ellipse_of["center_index"]
        assert polygon_area(each.outline) == pytest.approx(ellipse_of["area"], abs=1e-12)
        corners = np.array(ellipse_of["vertices"])[:-1]
        nearest = np.sqrt(((corners[:, None] - each.outline[None]) ** 2).sum(axis=2)).min(axis=1)
        assert nearest.max() < 1e-12


def test_clip_by_hand() -> None:
    assert polygon_area(clip_polygon(SQUARE, SQUARE)) == pytest.approx(1)
    assert polygon_area(clip_polygon(SQUARE + np.array([0.5, 0.25]), SQUARE)) == pytest.approx(0.5 * 0.75)
    assert polygon_area(clip_polygon(SQUARE * 0.2 + 0.3, SQUARE)) == pytest.approx(0.04)
    assert polygon_area(clip_polygon(SQUARE, SQUARE * 0.2 + 0.3)) == pytest.approx(0.04)
    assert polygon_area(clip_polygon(SQUARE + 5, SQUARE)) == 0


@given(st.integers(0, 2**32 - 1))
def test_overlap_has_one_area_from_both_sides(seed: int) -> None:
    draws = np.random.default_rng(seed)
    one, other = (
        ellipse_outline(draws.normal(size=(12, 2)) @ draws.normal(size=(2, 2)) + draws.normal(size=2)) for _ in range(2)
    )
    shared = polygon_area(clip_polygon(one, other))
    assert shared == pytest.approx(polygon_area(clip_polygon(other, one)), abs=1e-9)
    assert -1e-12 <= shared <= min(polygon_area(one), polygon_area(other)) + 1e-9


def test_an_ellipse_lies_its_deviations_around_the_mean() -> None:
    draws = np.random.default_rng(3).normal(size=(50, 2)) @ [[1, 0.6], [0, 0.5]] + [3, -1]
    outline = ellipse_outline(draws, deviations=2)
    centred = outline - draws.mean(axis=0)
    distance = np.einsum("ki,ij,kj->k", centred, np.linalg.inv(np.cov(draws.T)), centred)
    np.testing.assert_allclose(distance, 4, atol=1e-9)


def test_summary_by_hand() -> None:
    human = made([0, 1, -1, 0, 0], [0, 0, 0, 1, -1])
    machine = made([1, 2, 0, 1, 1], [0, 0, 0, 1, -1], [-2, -1.96, -3, 0, 0])
    result = summarise_systems({"machine": machine, "people": human}, "people", UNIT)
    assert list(result) == ["people", "machine"]
    assert result["machine"].penalty == pytest.approx(-0.04 - 1.04)
    assert result["machine"].mean.tolist() == [1, 0]
    assert result["machine"].example == "say i0"
    assert 0 < result["machine"].overlap < 1
    assert result["people"].overlap == pytest.approx(1)


def test_what_cannot_be_analysed_says_why() -> None:
    good = made([0, 1, 2], [0, 1, 0])
    with pytest.raises(InputError, match=r"unknown system 'people'; the systems are machine"):
        summarise_systems({"machine": good}, "people", UNIT)
    with pytest.raises(InputError, match="machine: an ellipse needs at least 3 captions, but there are 2"):
        summarise_systems({"people": good, "machine": made([0, 1], [0, 1])}, "people", UNIT)
    with pytest.raises(InputError, match="machine: all captions have the same"):
        summarise_systems({"people": good, "machine": made([1, 1, 1], [0, 1, 2])}, "people", UNIT)
    with pytest.raises(InputError, match="estimated with the encoders distilbert"):
        summarise_systems({"people": good}, "people", read_constants("paper"))
    with pytest.raises(InputError, match="no image in common"):
        both = {"a": good, "b": made([0, 1, 2], [0, 1, 0], prefix="j")}
        sample_points(summarise_systems(both, "a", UNIT), 2, seed=0)


def test_sample_draws_the_same_images_everywhere_and_again() -> None:
    one = made([0, 1, 2, 3], [0, 1, 0, 1])
    other = Components(one.sparcs[::-1] + 10, one.mima, one.spurts[::-1], one.encoders, *[one.ids[::-1]] * 3)
    analysed = summarise_systems({"one": one, "other": other}, "one", UNIT)
    points = sample_points(analysed, 3, seed=4)
    np.testing.assert_array_equal(points["one"] + [10, 0], points["other"])
    assert points["one"].shape == (3, 2)
    np.testing.assert_array_equal(points["one"], sample_points(analysed, 3, seed=4)["one"])
    assert len(sample_points(analysed, 100, seed=0)["one"]) == 4


def test_held_out_everywhere_leaves_all_systems_the_same_references() -> None:
    people = CaptionSet.from_captions([Caption("1", "p", "a dog", ("a dog", "dogs", "a dog"))])
    machine = CaptionSet.from_captions([Caption("1", "p", "a cat", ("a dog", "dogs", "a dog"))])
    got = hold_out_human_captions({"people": people, "machine": machine}, "people")
    assert got["people"]["1"].references == got["machine"]["1"].references == ("dogs", "a dog")
    with pytest.raises(InputError, match="1 caption has no reference left"):
        hold_out_candidates(CaptionSet.from_captions([Caption("1", "p", "a dog", ("a dog",))]))
