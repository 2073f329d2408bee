"""Training the parser's network for documents; changes of weights: what they restore, and what is refused."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the neural extra")

import numpy as np
from capmeter_research.networks.scene_graph_parser.documents import (
    DocumentGraph,
    DocumentRecipe,
    cross_validate,
    pack_changes,
    read_documents,
    sentence_examples,
    train_document_network,
)
from capmeter_research.networks.scene_graph_parser.factual_parser import (
    BUNDLED,
    DOCUMENT_KIND,
    KIND,
    SCALE,
    FactualParser,
    _apply_changes,
    bundled_scene_graph_parser,
)
from capmeter_research.networks.scene_graph_parser.train import SceneGraphParserOptions, train

from capmeter.core.checkpoints import Checkpoint, load_checkpoint
from capmeter.core.errors import AssetError, InputError

TEXT = (
    "The image shows a calm scene in a small room of an old house. A brown dog sits on a green sofa beside two cats, "
    "and a man with a blue hat stands near the door. Its tail is long and hangs over the edge of the sofa. Overall, "
    "the picture has a warm atmosphere that invites viewers to rest for a while after a long day of hard work outside."
)
ONE_RUN = DocumentRecipe(epochs=1, runs=1)
RANDOM = np.random.default_rng(0)
START = {
    "layer": RANDOM.normal(size=(5, 7)).astype(np.float16),
    "bias": RANDOM.normal(size=4).astype(np.float16),
    "frozen": RANDOM.normal(size=(2, 3)).astype(np.float16),
}
TRIPLES = (("dog", "is", "brown"), ("dog", "sit on", "sofa"), ("dog", "have", "tail"), ("cats", "is", "2"), ("zebra",))


def test_triples_go_to_the_sentences_that_state_them() -> None:
    examples = sentence_examples([DocumentGraph(TEXT, TRIPLES)], bundled_scene_graph_parser())
    assert [set(example.triples) for example in examples] == [
        set(),
        {("dog", "is", "brown"), ("dog", "sit on", "sofa"), ("cats", "is", "2")},
        {("dog", "have", "tail")},
        set(),
    ]
    assert "dog 's tail" in examples[2].caption


def test_documents_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl.gz"
    rows = [{"caption": TEXT, "graph": [["Dog", "is", "brown"]]}, {"caption": "other", "graph": [["sky"]]}]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    assert read_documents(path, {"other"}) == [DocumentGraph(TEXT, (("dog", "is", "brown"),))]
    path.write_bytes(gzip.compress(json.dumps({"caption": "a", "graph": [["dog", "is"]]}).encode()))
    with pytest.raises(InputError, match="line 1: not a document with a scene graph"):
        read_documents(path)


def test_the_network_for_captions_stays_as_it_is(tmp_path: Path) -> None:
    documents = [DocumentGraph(TEXT, TRIPLES[:4])] * 4
    train_document_network(documents, BUNDLED, tmp_path, recipe=ONE_RUN)
    captions = ["a red bus", "two dogs on the grass"]
    parser = FactualParser(BUNDLED, tmp_path)
    assert parser.parse(captions) == bundled_scene_graph_parser().parse(captions)
    assert parser.version != bundled_scene_graph_parser().version
    weights = Checkpoint.read(tmp_path).weights
    assert "writers.0.choice.weight" in weights
    assert "reader.pieces" not in weights
    assert all(np.isfinite(each).all() for each in weights.values())
    Checkpoint(DOCUMENT_KIND, {"parser": "factual@0"}, weights).save(tmp_path / "other")
    with pytest.raises(AssetError, match="was trained from factual@0"):
        FactualParser(BUNDLED, tmp_path / "other")
    with pytest.raises(InputError, match="expected one at least"):
        train_document_network([], BUNDLED, tmp_path)


def test_runs_of_different_seeds_are_averaged(tmp_path: Path) -> None:
    documents, start = [DocumentGraph(TEXT, TRIPLES[:4])] * 2, load_checkpoint(BUNDLED, KIND).weights
    name = "writers.0.choice.bias"
    biases = []
    for seed, runs in ((0, 1), (1, 1), (0, 2)):
        folder = tmp_path / f"{seed}-{runs}"
        train_document_network(documents, BUNDLED, folder, recipe=replace(ONE_RUN, seed=seed, runs=runs))
        biases.append(Checkpoint.read(folder).weights[name].astype(np.float32) - start[name].astype(np.float32))
    one, other, both = biases
    assert np.abs(one - other).max() > 0.01 * np.abs(one).max() > 0
    np.testing.assert_allclose(both, (one + other) / 2, atol=2e-3)


def test_folds_are_judged_by_networks_that_did_not_learn_from_them(tmp_path: Path) -> None:
    names, empty = DocumentGraph(TEXT, TRIPLES[:4]), DocumentGraph(TEXT, (("zebra",),))
    recipe = replace(ONE_RUN, epochs=6)
    same = cross_validate([names, names], BUNDLED, tmp_path / "same", 2, recipe=recipe)
    assert min(same) > 80
    assert cross_validate([names, empty], BUNDLED, tmp_path / "other", 2, recipe=recipe) == [0, 0]
    with pytest.raises(InputError, match="3 folds of 2 documents"):
        cross_validate([names, empty], BUNDLED, tmp_path, 3)


def test_the_command_names_the_parser_with_its_new_network(tmp_path: Path) -> None:
    documents = tmp_path / "documents.jsonl.gz"
    row = {"caption": TEXT, "graph": [list(triple) for triple in TRIPLES]}
    documents.write_bytes(gzip.compress(json.dumps(row).encode()))
    options = SceneGraphParserOptions(
        graphs=tmp_path / "none", documents=documents, output=tmp_path / "network", epochs=1
    )
    report = train(options)
    assert Checkpoint.read(tmp_path / "network").training["epochs"] == 1
    assert report.data["values"] == {"documents": 1}
    assert report.data["parser"] == FactualParser(BUNDLED, tmp_path / "network").version
    with pytest.raises(InputError, match="3 folds of 1 documents"):
        train(replace(options, folds=3))
    with pytest.raises(InputError, match="--folds trains on --documents"):
        replace(options, folds=3, evaluate=True)


def test_changes_restore_each_row_within_half_a_step() -> None:
    trained = {**START, "layer": START["layer"] + RANDOM.normal(size=(5, 7)).astype(np.float16), "bias": -START["bias"]}
    changes = pack_changes(START, trained)
    assert set(changes) == {"layer", "layer" + SCALE, "bias"} and changes["layer"].dtype == np.int8
    restored = _apply_changes(START, changes)
    step = changes["layer" + SCALE].astype(np.float32)[:, None]
    difference = np.abs(restored["layer"] - trained["layer"].astype(np.float32))
    assert (difference <= 0.5 * step + 127 * step * 2.0**-10).all()  # and the scale's rounding to float16
    assert restored["bias"].tolist() == trained["bias"].tolist()
    assert restored["frozen"] is START["frozen"]


def test_a_row_that_did_not_change_stays_exact() -> None:
    trained = {**START, "layer": START["layer"].copy()}
    trained["layer"][0] += 1
    restored = _apply_changes(START, pack_changes(START, trained))
    assert np.array_equal(restored["layer"][1:], START["layer"][1:].astype(np.float32))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"other": np.zeros((5, 7), np.int8)}, "a change of other"),
        ({"layer": np.zeros((5, 6), np.int8)}, "another shape"),
        ({"layer": np.zeros((5, 7), np.int8), "layer.scale": np.zeros(4, np.float16)}, "scale of layer"),
    ],
)
def test_changes_of_another_network_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _apply_changes(START, changes)
