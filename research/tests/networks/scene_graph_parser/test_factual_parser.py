"""The bundled scene-graph parser: hostile input, independence of batches, files, agreement with human graphs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from capmeter_research.networks.scene_graph_parser.evaluation import SceneGraphEvaluator
from capmeter_research.networks.scene_graph_parser.examples import read_factual
from capmeter_research.networks.scene_graph_parser.factual_parser import (
    MAX_WORDS,
    FactualParser,
    Spelling,
    bundled_scene_graph_parser,
)
from capmeter_research.networks.scene_graph_parser.source import tuples_from_triples
from capmeter_research.networks.scene_graph_parser.triples import is_triple
from hypothesis import given, settings
from hypothesis import strategies as st
from support.call_counts import steps

from capmeter.captions.caption_set import SentencePool
from capmeter.core.assets import find_checkpoint
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError
from capmeter.text.meteor.resources import load_english_synonyms
from capmeter.text.scene_graphs.extraction import Scenes, find_synset_lookup

FOLDER = find_checkpoint("factual") or Path()
CAPTIONS = ["a red bus", "two dogs on the grass", "a man in a blue shirt holding an umbrella", "grass", ""]


@pytest.fixture(scope="module")
def parser() -> FactualParser:
    return FactualParser()


@pytest.mark.parametrize("nouns", ["buses", "cats", "horses", "motorcycles", "boats", "umbrellas"])
def test_plural_nouns_stay_as_written(nouns: str) -> None:
    """Not zebras or giraffes, whose names are in the vocabulary."""
    for caption in (f"two {nouns} next to each other", f"A couple of {nouns} standing next to one another."):
        triples = bundled_scene_graph_parser().parse([caption])[0]
        assert triples
        assert {part for triple in triples for part in (triple[0], triple[-1])} <= {nouns, "2"}


@pytest.mark.parametrize(
    ("misspelt", "correct"),
    [("a man sking", "a man skiing"), ("frisbie infront of a dog", "frisbee in front of a dog")],
)
def test_misspelt_captions_are_corrected(misspelt: str, correct: str) -> None:
    triples = bundled_scene_graph_parser().parse([misspelt, correct])
    assert triples[0] == triples[1] != []


def test_an_object_mentioned_once_is_not_related_to_itself() -> None:
    captions = ["handle with a big hole for several fingers", "fruit on a granite countertop"]
    for triple in (
        triple for triples in bundled_scene_graph_parser().parse(captions) for triple in triples if len(triple) == 3
    ):
        assert triple[0].split()[-1] != triple[2].split()[-1], triple


def test_triples_of_captions(parser: FactualParser) -> None:
    red, dogs, _, grass, empty = parser.parse(CAPTIONS)
    assert red == [("bus", "is", "red")]
    assert set(dogs) == {("dogs", "is", "2"), ("dogs", "on", "grass")}
    assert grass in ([("grass",)], [])
    assert empty == []


def test_captions_do_not_affect_one_another(parser: FactualParser) -> None:
    together = parser.parse(CAPTIONS * 3)
    assert together == [parser.parse([caption])[0] for caption in CAPTIONS] * 3


def test_sentences_are_parsed_one_by_one(parser: FactualParser) -> None:
    both = parser.parse(["A red bus. A blue car."])[0]
    assert both == [*parser.parse(["a red bus ."])[0], *parser.parse(["a blue car ."])[0]]


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
def test_hostile_captions(parser: FactualParser, caption: str) -> None:
    triples = parser.parse([caption])[0]
    assert all(is_triple(triple) for triple in triples)
    assert tuples_from_triples(triples) is not None


@given(st.text(max_size=60))
@settings(max_examples=25, deadline=None)
def test_any_text(caption: str) -> None:
    assert all(is_triple(triple) for triple in bundled_scene_graph_parser().parse([caption])[0])


def test_time_grows_with_the_words(parser: FactualParser) -> None:
    text = "a dog on the grass near a tree with a ball " * MAX_WORDS
    parser.parse([text])
    assert steps(lambda: parser.parse([text * 4])) < 6 * steps(lambda: parser.parse([text]))


def test_damaged_checkpoints_are_errors(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "factual")
    saved = Checkpoint.read(folder)
    assert saved.kind == "factual"
    assert not any(name.endswith("pickle") for name in saved.weights)
    Checkpoint(saved.kind, {**saved.parameters, "writer": {"layers": 3}}, saved.weights).save(tmp_path / "other")
    with pytest.raises(AssetError, match="scene-graph parser"):
        FactualParser(tmp_path / "other")
    (folder / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(AssetError, match="damaged"):
        FactualParser(folder)


def test_the_checkpoint_is_small_and_names_its_training_data() -> None:
    saved = json.loads((FOLDER / "checkpoint.json").read_text())
    data_names = [each["name"] for each in saved["data"]]
    assert data_names == ["factual_scene_graphs.jsonl.gz", "caption_parses.jsonl.gz"]
    assert (FOLDER / "weights.safetensors").stat().st_size < 31e6
    assert (FOLDER / "README.md").is_file()


@pytest.mark.meteor
def test_scenes() -> None:
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    table = SentencePool(("two dogs on the grass", "a red bus")).analyse(Scenes("factual"))
    assert table.version.startswith("factual@")
    graph = table.graph(0, find_synset_lookup(True))
    assert {str(each) for each in graph.objects} == {"dogs", "grass"}
    assert [str(each) for _, each in graph.attributes] == ["two"]


@pytest.mark.slow
@pytest.mark.meteor
def test_agreement_with_human_graphs(parser: FactualParser, shared: Path) -> None:
    """As in the model card."""
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's synonyms (pip install 'capmeter[meteor]')")
    examples = read_factual(shared / "data" / "factual_scene_graphs.jsonl.gz")
    dev = [example for example in examples if example.split == "dev"]
    parsed = parser.parse([example.caption for example in dev])
    scores = SceneGraphEvaluator(load_english_synonyms()).scores(parsed, [example.triples for example in dev])
    assert scores.captions == 977
    assert scores.exact > 79.3
    assert scores.spice > 92.1


# Spelling correction of captions' words.


FREQUENT = ["the", "front", "shirt", "shirts", "walking", "face", "three", "vase", "sidewalk", "frisbee", "t-shirt"]
SPELLING = Spelling(FREQUENT, ["biker", "place", "skit", "happy", "hand"])


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("shirtt", "shirt"),  # insertion
        ("frisbe", "frisbee"),  # deletion
        ("frisbie", "frisbee"),  # substitution
        ("wlaking", "walking"),  # transposition
        ("shirs", "shirts"),  # deletions are more probable than substitutions
        ("vace", "vase"),  # errors in the first letter are rare
        ("thre", "the"),  # of two equally near words, the more frequent one
        ("hte", "hte"),  # too short
        ("skit", "skit"),
        ("bikers", "bikers"),
        ("placing", "placing"),
        ("placed", "placed"),
        ("happiness", "happiness"),
        ("handd", "handd"),  # no frequent word is near
        ("shirtd", "shirt"),  # "d" is not an ending
        ("wlakign", "wlakign"),  # two edits
        ("sidwealk", "sidewalk"),  # two edits of a long word
        ("infront", "in front"),
        ("frontof", "front of"),
        ("thesidewalk", "the sidewalk"),
        ("tshirt", "t-shirt"),
        ("inhand", "inhand"),  # both are known, but neither is frequent
        ("sh1rt", "sh1rt"),
        ("sh\u00edrt", "sh\u00edrt"),
        ("", ""),
    ],
)
def test_correction(word: str, expected: str) -> None:
    assert SPELLING.correct([word, "dog"]) == [*(expected.split() or [""]), "dog"]


@given(st.lists(st.text(max_size=30), max_size=5))
def test_words_stay_words(words: list[str]) -> None:
    corrected = SPELLING.correct(words)
    assert len(words) <= len(corrected) <= 2 * len(words)
    assert corrected == [each for word in words for each in SPELLING.correct([word])]
    assert SPELLING.correct(corrected) == corrected
    assert all(SPELLING.correct([word]) == [word] for word in words if SPELLING.is_correct(word))


@given(st.sampled_from(FREQUENT), st.integers(0, 10), st.sampled_from("xqz"))
def test_an_inserted_letter_is_removed(word: str, location: int, letter: str) -> None:
    misspelt = word[: min(location, len(word))] + letter + word[min(location, len(word)) :]
    assert SPELLING.correct([misspelt]) == [word] or len(misspelt) < 4 or "-" in misspelt
