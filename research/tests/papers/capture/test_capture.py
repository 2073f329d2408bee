"""CAPTURE: by hand, its variants, and documents."""

from __future__ import annotations

import numpy as np
import pytest
from capmeter_research.networks.scene_graph_parser import source
from capmeter_research.networks.scene_graph_parser.triples import Triple
from capmeter_research.papers.capture.capture import Capture, _match_elements
from hypothesis import given
from hypothesis import strategies as st
from support.caption_sets import caption_set

import capmeter
from capmeter.captions.caption_set import SentencePool
from capmeter.core.errors import InputError
from capmeter.core.settings import shared_memory
from capmeter.encoders import SentenceVectors, find_encoder
from capmeter.evaluation.base import RunContext

pytestmark = [pytest.mark.neural, pytest.mark.meteor]

TRIPLES: dict[str, list[Triple]] = {
    "red car, blue bus": [("car", "is", "red"), ("bus", "is", "blue"), ("car", "near", "bus")],
    "blue car, red bus": [("car", "is", "blue"), ("bus", "is", "red"), ("bus", "near", "car")],
    "crimson automobile": [("automobile", "is", "crimson")],
    "a scarf with a pattern of dots": [("scarf", "with", "pattern"), ("pattern", "is", "made of dots")],
    "larger cars, a large car in a busy scene": [
        *(("cars", "is", "larger"), ("car", "is", "large"), ("car", "in", "scene"), ("cars", "in", "scene")),
        ("scene", "is", "busy"),
    ],
    "a large car": [("car", "is", "large")],
    "an old seat": [("seat", "is", "old")],
    "an old home": [("home", "is", "old")],
    "a busy scene": [("scene", "is", "busy")],
    "a busy street": [("street", "is", "busy")],
    "well": [],
}


class FixedParser:
    version, batch = "factual@fixed-capture", 10

    def parse(self, captions: list[str]) -> list[list[Triple]]:
        return [TRIPLES[caption] for caption in captions]

    def looks_english(self, caption: str) -> bool:
        return True


@pytest.fixture
def fixed_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    shared_memory.cache_clear()
    monkeypatch.setattr(source, "bundled_scene_graph_parser", FixedParser)


def score(candidate: str, reference: str, name: str = "capture") -> dict[str, float]:
    result = capmeter.score(candidates=[candidate], references=[[reference]], metrics=name)[str(capmeter.parse(name))]
    return {"score": result.items["0"], **{part: values["0"] for part, values in result.part_items.items()}}


def cosines(*phrases: str) -> np.ndarray:
    vectors = SentencePool(phrases).analyse(SentenceVectors(find_encoder("minilm"), 6)).astype(float)
    return vectors @ vectors.T


@pytest.mark.usefixtures("fixed_parser")
def test_owners_do_not_count_as_published() -> None:
    """Objects and attributes agree, whoever has them; of the relations one phrase each is left."""
    cosine = cosines("car near bus", "bus near car")[0, 1]
    scores = score("red car, blue bus", "blue car, red bus")
    assert scores["object"] == scores["attribute"] == 1
    assert scores["relation"] == pytest.approx(cosine, abs=1e-5)
    assert scores["score"] == pytest.approx((5 + 5 + 2 * cosine) / 12, abs=1e-5)


@pytest.mark.usefixtures("fixed_parser")
def test_with_ownership_an_attribute_counts_with_its_object_alone() -> None:
    """(car, red) is nearest to (car, blue) by red and blue, or to (bus, red) by car and bus."""
    parts = cosines("red", "blue", "car", "bus")
    best = max(parts[0, 1], parts[2, 3])
    scores = score("red car, blue bus", "blue car, red bus", "capture(ownership=true)")
    assert scores["object"] == 1
    assert scores["attribute"] == pytest.approx(2 * best - 1, abs=1e-5)
    assert parts[2, 3] < 0.5
    assert scores["relation"] == 0
    hard = score("red car, blue bus", "blue car, red bus", "capture(ownership=true,soft=false)")
    assert (hard["object"], hard["attribute"], hard["relation"]) == (1, 0, 0)
    assert hard["score"] == pytest.approx(5 / 12)


@pytest.mark.usefixtures("fixed_parser")
def test_synonyms_and_kinds_that_are_absent() -> None:
    """A car is an automobile and crimson is red: P = 1, R = 1/2, without relations on one side F = 0."""
    scores = score("crimson automobile", "red car, blue bus", "capture(soft=false)")
    assert scores["object"] == scores["attribute"] == pytest.approx(2 / 3)
    assert scores["score"] == pytest.approx(10 * (2 / 3) / 12)
    alone = score("crimson automobile", "crimson automobile")
    assert alone["score"] == 1
    assert alone["relation"] == 0
    assert score("well", "crimson automobile")["score"] == 0


@pytest.mark.usefixtures("fixed_parser")
def test_elements_are_sets_of_base_forms_without_abstract_objects() -> None:
    """Cars are a car, larger is large, and a scene is no object; its attribute and its relation count, P = 1/2."""
    scores = score("larger cars, a large car in a busy scene", "a large car", "capture(soft=false)")
    assert scores["object"] == 1
    assert scores["attribute"] == pytest.approx(2 / 3)
    assert scores["relation"] == 0
    assert scores["score"] == pytest.approx((5 + 5 * (2 / 3)) / 12)
    # without an object that counts, the attributes still do
    assert score("a busy scene", "a busy street", "capture(soft=false)") == pytest.approx(
        {"score": 5 / 10, "object": 0, "attribute": 1, "relation": 0}
    )
    owned = score("larger cars, a large car in a busy scene", "a large car", "capture(ownership=true,soft=false)")
    assert owned == scores


@pytest.mark.usefixtures("fixed_parser")
def test_the_released_code() -> None:
    """A pattern is a stop word, "made of dots" is left out, and a scarf contains a car."""
    scores = score("a scarf with a pattern of dots", "crimson automobile", "capture(as_released=true)")
    assert scores["attribute"] == 0
    assert scores["relation"] == 0
    part = score("a scarf with a pattern of dots", "red car, blue bus", "capture(as_released=true,soft=false)")
    assert part["object"] == pytest.approx(2 / 3, abs=1e-5)
    assert part["score"] == pytest.approx(5 * (2 / 3) / 12, abs=1e-5)
    # a seat and a home are in no synset together, but a place is in one with either
    assert score("an old seat", "an old home", "capture(soft=false)")["object"] == 0
    released = score("an old seat", "an old home", "capture(as_released=true,soft=false)")
    assert released["object"] == pytest.approx(1, abs=1e-5)
    with pytest.raises(InputError, match="ignores owners"):
        Capture(as_released=True, ownership=True)


@pytest.mark.usefixtures("fixed_parser")
def test_the_mean_over_references_and_evidence() -> None:
    candidate, references = "red car, blue bus", ["blue car, red bus", "crimson automobile"]
    both = capmeter.score(candidates=[candidate], references=[references], metrics="capture")["capture"].items["0"]
    assert both == pytest.approx(np.mean([score(candidate, each)["score"] for each in references]))
    (evidence,) = Capture().explain(caption_set([(candidate, references)]), RunContext())
    assert evidence.scene is not None
    matched = {each.words: each.matched for each in evidence.scene.tuples if each.side == "candidate"}
    assert matched[("car", "red")]
    assert not matched[("car", "near", "bus")]


ELEMENTS = st.lists(st.sampled_from([("a",), ("b",), ("c",), ("d",)]), max_size=6)


@given(ELEMENTS, ELEMENTS)
def test_matches_are_one_to_one(candidate: list[tuple[str]], reference: list[tuple[str]]) -> None:
    matches, rest, other_rest = _match_elements(candidate, reference, lambda one, two: {one, two} == {"a", "b"})
    ones, twos = [k for k, _ in matches], [k for _, k in matches]
    assert sorted([*ones, *rest]) == list(range(len(candidate)))
    assert sorted([*twos, *other_rest]) == list(range(len(reference)))
    assert all(candidate[a] == reference[b] or {candidate[a][0], reference[b][0]} == {"a", "b"} for a, b in matches)


DOCUMENT = (
    "The image shows a large brown dog on a green sofa. Its tail is long. A man in a blue shirt stands behind the "
    "sofa and holds a white cup. He smiles at the dog. On the wall there is a small painting of a red boat. The floor "
    "of the room is wooden, and a yellow ball lies under the round table beside the window. The curtains are closed."
)


@pytest.mark.parametrize("name", ["spice", "capture(ownership=true)", "capture(graphs=stanford,ownership=true)"])
def test_documents_have_one_graph(name: str) -> None:
    """A document equals itself; a changed attribute lowers its score; pronouns are what they refer to."""
    shared_memory.cache_clear()
    changed = [DOCUMENT, DOCUMENT.replace("brown", "black"), DOCUMENT.replace("blue shirt", "red shirt")]
    metric = str(capmeter.parse(name))
    same, *others = capmeter.score(candidates=changed, references=[[DOCUMENT]] * 3, metrics=name)[metric].items.values()
    assert same == pytest.approx(1, abs=1e-6)
    assert max(others) < 1 - 1e-3
