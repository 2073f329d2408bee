"""The shipped graph maker: hostile input, equal results however captions are grouped, files, agreement with people."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from counting import steps
from hypothesis import given, settings
from hypothesis import strategies as st

import capmeter
from capmeter.checkpoints import Checkpoint
from capmeter.errors import AssetError
from capmeter.text.fact_maker import LONGEST, FactMaker, shipped_maker
from capmeter.text.facts import is_fact
from capmeter.text.scenes import Scenes, fact_tuples, synsets_of

SHIPPED_FOLDER = Path(capmeter.__file__).parent / "weights" / "factual"
CAPTIONS = ["a red bus", "two dogs on the grass", "a man in a blue shirt holding an umbrella", "grass", ""]

pytestmark = pytest.mark.skipif(not SHIPPED_FOLDER.is_dir(), reason="no graph maker ships with this build")


@pytest.fixture(scope="module")
def maker() -> FactMaker:
    return FactMaker()


@pytest.mark.parametrize("things", ["buses", "cats", "horses", "motorcycles", "boats", "umbrellas"])
def test_things_next_to_their_like_keep_their_names(things: str) -> None:
    """Zebras and giraffes stood there, whose singular is in the vocabulary."""
    for caption in (f"two {things} next to each other", f"A couple of {things} standing next to one another."):
        facts = shipped_maker().facts([caption])[0]
        assert facts
        assert {part for fact in facts for part in (fact[0], fact[-1])} <= {things, "2"}


@pytest.mark.parametrize(
    ("written", "right"),
    [("a man sking", "a man skiing"), ("frisbie infront of a dog", "frisbee in front of a dog")],
)
def test_misspelt_captions_are_read_as_meant(written: str, right: str) -> None:
    facts = shipped_maker().facts([written, right])
    assert facts[0] == facts[1] != []


def test_what_is_there_once_is_not_related_to_itself() -> None:
    captions = ["handle with a big hole for several fingers", "fruit on a granite countertop"]
    for fact in (fact for facts in shipped_maker().facts(captions) for fact in facts if len(fact) == 3):
        assert fact[0].split()[-1] != fact[2].split()[-1], fact


def test_what_it_says(maker: FactMaker) -> None:
    red, dogs, _, grass, nothing = maker.facts(CAPTIONS)
    assert red == [("bus", "is", "red")]
    assert set(dogs) == {("dogs", "is", "2"), ("dogs", "on", "grass")}
    assert grass in ([("grass",)], [])
    assert nothing == []


def test_captions_do_not_affect_one_another(maker: FactMaker) -> None:
    together = maker.facts(CAPTIONS * 3)
    assert together == [maker.facts([caption])[0] for caption in CAPTIONS] * 3


def test_sentences_are_read_one_by_one(maker: FactMaker) -> None:
    both = maker.facts(["A red bus. A blue car."])[0]
    assert both == [*maker.facts(["a red bus ."])[0], *maker.facts(["a blue car ."])[0]]


@pytest.mark.parametrize(
    "caption",
    [
        "",
        " \t\n",
        "...",
        "a " * 500,
        "dog of the " * 200,
        "x" * 5000,
        "\u4e00\u4e8c\u4e09",
        "\U0001f600",
        "\x00\x07",
        "<fact> </predicate> \u00b6is",
    ],
)
def test_hostile_captions(maker: FactMaker, caption: str) -> None:
    facts = maker.facts([caption])[0]
    assert all(is_fact(fact) for fact in facts)
    assert fact_tuples(facts) is not None


@given(st.text(max_size=60))
@settings(max_examples=25, deadline=None)
def test_any_text(caption: str) -> None:
    assert all(is_fact(fact) for fact in shipped_maker().facts([caption])[0])


def test_time_grows_with_the_words(maker: FactMaker) -> None:
    text = "a dog on the grass near a tree with a ball " * LONGEST
    maker.facts([text])
    assert steps(lambda: maker.facts([text * 4])) < 6 * steps(lambda: maker.facts([text]))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    folder = shutil.copytree(SHIPPED_FOLDER, tmp_path / "factual")
    saved = Checkpoint.read(folder)
    assert saved.kind == "factual"
    assert not any(name.endswith("pickle") for name in saved.weights)
    Checkpoint(saved.kind, {**saved.parameters, "writer": {"layers": 3}}, saved.weights).save(tmp_path / "other")
    with pytest.raises(AssetError, match="graph maker"):
        FactMaker(tmp_path / "other")
    (folder / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(AssetError, match="damaged"):
        FactMaker(folder)


def test_what_ships_is_small_and_says_what_it_was_trained_on() -> None:
    saved = json.loads((SHIPPED_FOLDER / "checkpoint.json").read_text())
    named = [each["name"] for each in saved["data"]]
    assert named == ["factual_scene_graphs.jsonl.gz", "caption_parses.jsonl.gz"]
    assert (SHIPPED_FOLDER / "weights.safetensors").stat().st_size < 31e6
    assert (SHIPPED_FOLDER / "README.md").is_file()


@pytest.mark.meteor
def test_scenes() -> None:
    from capmeter.captions.model import SentencePool

    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    table = SentencePool(("two dogs on the grass", "a red bus")).analyse(Scenes("factual"))
    assert table.version.startswith("factual@")
    graph = table.graph(0, synsets_of(True))
    assert {str(each) for each in graph.objects} == {"dogs", "grass"}
    assert [str(each) for _, each in graph.attributes] == ["two"]


@pytest.mark.slow
@pytest.mark.meteor
def test_agreement_with_people(maker: FactMaker, shared: Path) -> None:
    """As the card says."""
    from capmeter.learning.factual.evaluation import FactJudge
    from capmeter.learning.factual.examples import read_factual
    from capmeter.text.meteor_resources import english_synonyms

    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    examples = read_factual(shared / "data" / "factual_scene_graphs.jsonl.gz")
    dev = [example for example in examples if example.split == "dev"]
    made = maker.facts([example.caption for example in dev])
    scores = FactJudge(english_synonyms()).scores(made, [example.facts for example in dev])
    assert scores.captions == 977
    assert scores.exact > 79.3
    assert scores.spice > 92.1
