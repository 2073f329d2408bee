"""Training of the caption parser: data, lemma rules, evaluation, a run on made sentences, its command."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import capmeter

from capmeter.errors import InputError
from capmeter.learning.parser.evaluation import evaluate
from capmeter.learning.parser.examples import Example, learn_vocabulary, pack, read_examples, read_exclusions, sentences
from capmeter.learning.parser.lemma_rules import learn_endings, lemma_rules
from capmeter.text.caption_parser import CaptionParser
from capmeter.text.lemmas import LemmaRules
from capmeter.text.parses import CaptionParse, Parse

NOUNS, VERBS, PLACES = ["dog", "cat", "girl", "boy"], ["sees", "likes", "holds"], ["park", "house", "street"]


def made_row(number: int) -> dict[str, Any]:
    """A sentence of a small grammar, of a photo with this number."""
    rng = np.random.default_rng(number)
    subject, verb, thing, place = (str(rng.choice(words)) for words in (NOUNS, VERBS, NOUNS, PLACES))
    words = ["a", subject, verb, "a", thing, "in", "the", place]
    sentence = {
        "words": words,
        "tags": ["DT", "NN", "VBZ", "DT", "NN", "IN", "DT", "NN"],
        "lemmas": ["a", subject, verb[:-1], "a", thing, "in", "the", place],
        "heads": [2, 3, 0, 5, 3, 8, 8, 3],
        "labels": ["det", "nsubj", "root", "det", "dobj", "case", "det", "nmod"],
    }
    form = "as written" if number % 2 else "lower"
    return {
        "source": "coco",
        "photo": str(number),
        "form": form,
        "caption": " ".join(words),
        "sentences": [sentence],
    }


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    parses, exclusions = tmp_path / "parses.jsonl.gz", tmp_path / "exclusions.json.gz"
    rows = [made_row(number) for number in range(400)]
    parses.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    exclusions.write_bytes(gzip.compress(json.dumps({"coco": [5, 7], "flickr": ["1"]}).encode()))
    return parses, exclusions


def test_photos_of_benchmarks_are_left_out(files: tuple[Path, Path]) -> None:
    parses, exclusions = files
    examples, excluded = read_examples(parses, read_exclusions(exclusions))
    assert excluded == 2
    assert {"5", "7"}.isdisjoint(example.photo for example in examples)
    assert len(examples) == 398


def test_no_photo_of_a_benchmark_is_in_the_training_data(shared: Path) -> None:
    exclusions = json.loads(gzip.decompress((shared / "data" / "training_exclusions.json.gz").read_bytes()))
    examples, excluded = read_examples(
        shared / "data" / "caption_parses.jsonl.gz",
        read_exclusions(shared / "data" / "training_exclusions.json.gz"),
    )
    assert excluded == 0
    photos = {(example.source, example.photo) for example in examples}
    assert len(photos) > 50_000
    assert photos.isdisjoint(("coco", str(photo)) for photo in exclusions["coco"])
    assert photos.isdisjoint(("flickr30k", str(photo)) for photo in exclusions["flickr"])
    held_out = {(example.source, example.photo) for example in examples if example.held_out}
    learned = {(example.source, example.photo) for example in examples if not example.held_out}
    assert held_out.isdisjoint(learned)
    assert 0.025 < len(held_out) / len(photos) < 0.035


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "elsewhere"}, "in no list of exclusions"),
        ({"sentences": [{"words": ["a"]}]}, "line 1: not a parsed caption"),
        ({"sentences": None}, "line 1: not a parsed caption"),
    ],
)
def test_bad_rows_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "parses.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps({**made_row(1), **change}) + "\n").encode()))
    with pytest.raises(InputError, match=message):
        read_examples(path, {"coco": frozenset(), "flickr30k": frozenset()})


def test_bad_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(b"no gzip")
    with pytest.raises(InputError, match="gzipped JSON lines"):
        read_examples(path, {})
    with pytest.raises(InputError, match="excluded photos"):
        read_exclusions(path)


def test_endings_give_back_what_they_were_learned_from() -> None:
    lemmas = {"dogs": "dog", "cats": "cat", "boxes": "box", "foxes": "fox", "shoes": "shoe", "men": "man", "ski": "ski"}
    rules = LemmaRules({"NNS": learn_endings(lemmas)}, {})
    assert {word: rules.lemma(word, "NNS") for word in lemmas} == lemmas
    assert rules.lemma("birds", "NNS") == "bird"


def test_lemma_rules_give_back_the_parses_lemmas() -> None:
    parse = Parse(
        ("An", "oxen", "saw", "Us"),
        ("DT", "NNS", "VBD", "NNP"),
        ("a", "ox", "see", "Us"),
        (2, 3, 0, 3),
        ("det", "nsubj", "root", "dobj"),
    )
    rules = LemmaRules(**lemma_rules([parse]))
    assert tuple(map(rules.lemma, parse.words, parse.tags)) == parse.lemmas


def test_vocabulary_keeps_what_occurs_often_enough() -> None:
    example = CaptionParse.from_dict(made_row(1)).sentences[0]
    rare = Parse(("zebra",), ("NN",), ("zebra",), (0,), ("root",))
    vocabulary, rareness = learn_vocabulary([example, example, rare])
    assert {f"w:{word}" for word in example.words} <= vocabulary.features.keys()
    assert "w:zebra" not in vocabulary.features
    assert not vocabulary.knows("zebra")
    assert vocabulary.tags == ("DT", "IN", "NN", "VBZ")
    assert len(rareness) == len(vocabulary.features) + 2
    assert rareness[vocabulary.features["w:the"]] == pytest.approx(1 / (1 + 2 * 2))


class Always:
    """Gives the parses it was given."""

    def __init__(self, parses: Sequence[CaptionParse | None]) -> None:
        self.parses = list(parses)

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        return self.parses


def example_of(number: int) -> Example:
    row = made_row(number)
    return Example("coco", "1", "lower", row["caption"], CaptionParse.from_dict(row))


def test_evaluation_counts() -> None:
    examples = [example_of(1), example_of(2)]
    perfect = evaluate(Always([example.parse for example in examples]), examples)
    assert (perfect.tags, perfect.uas, perfect.las, perfect.exact, perfect.tuple_f1, perfect.same_tuples) == (100,) * 6
    right = examples[1].parse.sentences[0]
    wrong = Parse(
        right.words, ("NN", *right.tags[1:]), right.lemmas, (2, 3, 0, 5, 3, 8, 8, 5), ("dep", *right.labels[1:])
    )
    scores = evaluate(Always([examples[0].parse, CaptionParse((wrong,))]), examples)
    assert scores.tags == 93.75  # 15 of 16
    assert scores.uas == 93.75
    assert scores.las == 87.5
    assert scores.exact == scores.same_tuples == 50
    assert scores.lemmas == 100
    assert 50 < scores.tuple_f1 < 100


def test_evaluation_of_nothing() -> None:
    assert set(evaluate(Always([]), []).to_dict().values()) == {0}


def test_a_stopped_run_goes_on_to_the_same_weights(files: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the neural extra")
    from capmeter.learning.loop import Run, Weights
    from capmeter.learning.parser.training import ParserLearner, ParserRecipe

    examples, _ = read_examples(files[0], read_exclusions(files[1]))
    learned = sentences(examples)[:150]
    vocabulary, rareness = learn_vocabulary(learned)
    packed = pack(learned, vocabulary)
    recipe = ParserRecipe(epochs=4, tokens=200, width=16, hidden=16)

    def run(folder: str, *epochs: int) -> Weights:
        for count in epochs:
            learner = ParserLearner(packed, packed, vocabulary, rareness, recipe)
            outcome = Run(learner, recipe, tmp_path / folder, description="parser").train(epochs=count)
        return outcome.weights

    whole, stopped = run("whole", 4), run("stopped", 1, 2, 1)
    assert all(np.array_equal(values, stopped[name]) for name, values in whole.items())
    other = ParserRecipe()
    with pytest.raises(InputError, match="other settings"):
        Run(ParserLearner(packed, packed, vocabulary, rareness, other), other, tmp_path / "whole", description="parser")


def test_the_command_trains_a_parser_that_learned_its_grammar(files: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the neural extra")
    parses, exclusions = files
    done = capmeter(
        "train", "parser", parses, "--exclusions", exclusions, "-o", tmp_path / "out", "--epochs", "20", "-f", "json"
    )
    assert done.returncode == 0, done.stderr
    assert "2 of benchmark photos were left out" in done.stderr
    shown = json.loads(done.stdout)
    for scores in shown["held_out"].values():
        assert scores["tags"] > 95
        assert scores["las"] > 90
        assert scores["lemmas"] == 100
    made = CaptionParser(tmp_path / "out")
    assert made.version == shown["parser"]
    (parse,) = made.parse(["a boy likes a cat in the park"])
    assert parse is not None
    assert parse.sentences[0].labels[:3] == ("det", "nsubj", "root")
    again = capmeter(
        "train", "parser", parses, "--exclusions", exclusions, "-o", tmp_path / "out", "--evaluate", "-f", "json"
    )
    assert json.loads(again.stdout) == shown


def test_the_command_wants_a_folder(files: tuple[Path, Path]) -> None:
    done = capmeter("train", "parser", files[0], "--exclusions", files[1])
    assert done.returncode == 2
    assert "--evaluate" in done.stderr
