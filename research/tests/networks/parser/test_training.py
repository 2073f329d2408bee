"""Training of the caption parser: data, lemma rules, evaluation, a run on sentences of a small grammar, its command."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.common.benchmark_exclusions import read_exclusions
from capmeter_research.common.parsed_captions import ParsedCaption, read_parsed_captions
from capmeter_research.networks.parser.evaluation import evaluate_parser
from capmeter_research.networks.parser.examples import learn_endings, learn_lemma_rules, learn_vocabulary
from support.command_line import capmeter

from capmeter.core.errors import InputError
from capmeter.text.parsing.caption_parser import CaptionParser
from capmeter.text.parsing.dependency_parse import CaptionParse, Parse
from capmeter.text.parsing.lemmas import LemmaRules

NOUNS, VERBS, PLACES = ["dog", "cat", "girl", "boy"], ["sees", "likes", "holds"], ["park", "house", "street"]


def grammar_row(number: int) -> dict[str, Any]:
    """A sentence of a small grammar, of a photo with this number."""
    rng = np.random.default_rng(number)
    subject, verb, thing, location = (str(rng.choice(words)) for words in (NOUNS, VERBS, NOUNS, PLACES))
    words = ["a", subject, verb, "a", thing, "in", "the", location]
    sentence = {
        "words": words,
        "tags": ["DT", "NN", "VBZ", "DT", "NN", "IN", "DT", "NN"],
        "lemmas": ["a", subject, verb[:-1], "a", thing, "in", "the", location],
        "heads": [2, 3, 0, 5, 3, 8, 8, 3],
        "labels": ["det", "nsubj", "root", "det", "dobj", "case", "det", "nmod"],
    }
    form = "as written" if number % 2 else "lower"
    return {"source": "coco", "photo": str(number), "form": form, "caption": " ".join(words), "sentences": [sentence]}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    parses, exclusions = tmp_path / "parses.jsonl.gz", tmp_path / "exclusions.json.gz"
    rows = [grammar_row(number) for number in range(400)]
    parses.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    exclusions.write_bytes(gzip.compress(json.dumps({"coco": [5, 7], "flickr": ["1"]}).encode()))
    return parses, exclusions


def test_benchmark_photos_are_left_out(files: tuple[Path, Path]) -> None:
    parses, exclusions = files
    listed = read_exclusions(exclusions)["coco"]
    examples, excluded = read_parsed_captions(parses, {"coco": listed, "flickr30k": frozenset()})
    assert {"5", "7"} < listed
    assert listed.isdisjoint(example.photo for example in examples)
    assert (excluded, len(examples)) == (3, 397)  # the third is an evaluation photo, which is excluded always


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "elsewhere"}, "no exclusions are listed for source 'elsewhere'"),
        ({"sentences": [{"words": ["a"]}]}, "line 1: not a parsed caption"),
        ({"sentences": None}, "line 1: not a parsed caption"),
    ],
)
def test_bad_rows_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "parses.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps({**grammar_row(1), **change}) + "\n").encode()))
    with pytest.raises(InputError, match=message):
        read_parsed_captions(path, {"coco": frozenset(), "flickr30k": frozenset()})


def test_bad_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(b"no gzip")
    with pytest.raises(InputError, match="JSON lines"):
        read_parsed_captions(path, {})
    with pytest.raises(InputError, match=r"x\.gz, line 1"):
        read_exclusions(path)


def test_learned_endings_give_the_lemmas_they_were_learned_from() -> None:
    lemmas = {"dogs": "dog", "cats": "cat", "boxes": "box", "foxes": "fox", "shoes": "shoe", "men": "man", "ski": "ski"}
    rules = LemmaRules({"NNS": learn_endings(lemmas)}, {})
    assert {word: rules.lemma(word, "NNS") for word in lemmas} == lemmas
    assert rules.lemma("birds", "NNS") == "bird"


def test_lemma_rules_give_the_lemmas_of_the_parses() -> None:
    parse = Parse(
        ("An", "oxen", "saw", "Us"),
        ("DT", "NNS", "VBD", "NNP"),
        ("a", "ox", "see", "Us"),
        (2, 3, 0, 3),
        ("det", "nsubj", "root", "dobj"),
    )
    rules = LemmaRules(**learn_lemma_rules([parse]))
    assert tuple(map(rules.lemma, parse.words, parse.tags)) == parse.lemmas


def test_the_vocabulary_has_frequent_features() -> None:
    example = CaptionParse.from_dict(grammar_row(1)).sentences[0]
    rare = Parse(("zebra",), ("NN",), ("zebra",), (0,), ("root",))
    vocabulary, hiding = learn_vocabulary([example, example, rare])
    assert {f"w:{word}" for word in example.words} <= vocabulary.features.keys()
    assert "w:zebra" not in vocabulary.features
    assert not vocabulary.knows("zebra")
    assert vocabulary.tags == ("DT", "IN", "NN", "VBZ")
    assert len(hiding) == len(vocabulary.features) + 2
    assert hiding[vocabulary.features["w:the"]] == pytest.approx(1 / (1 + 2 * 2))


class FixedParser:
    """Returns fixed parses."""

    def __init__(self, parses: Sequence[CaptionParse | None]) -> None:
        self.parses = list(parses)

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        return self.parses


def example_of(number: int) -> ParsedCaption:
    row = grammar_row(number)
    return ParsedCaption("coco", "1", "lower", row["caption"], CaptionParse.from_dict(row))


def test_evaluation_counts() -> None:
    examples = [example_of(1), example_of(2)]
    perfect = evaluate_parser(FixedParser([example.parse for example in examples]), examples)
    assert (perfect.tags, perfect.uas, perfect.las, perfect.exact, perfect.tuple_f1, perfect.same_tuples) == (100,) * 6
    gold = examples[1].parse.sentences[0]
    wrong = Parse(gold.words, ("NN", *gold.tags[1:]), gold.lemmas, (2, 3, 0, 5, 3, 8, 8, 5), ("dep", *gold.labels[1:]))
    scores = evaluate_parser(FixedParser([examples[0].parse, CaptionParse((wrong,))]), examples)
    assert scores.tags == 93.75  # 15 of 16
    assert scores.uas == 93.75
    assert scores.las == 87.5
    assert scores.exact == scores.same_tuples == 50
    assert scores.lemmas == 100
    assert 50 < scores.tuple_f1 < 100


def test_evaluation_of_nothing() -> None:
    assert set(asdict(evaluate_parser(FixedParser([]), [])).values()) == {0}


def test_the_command_trains_a_parser_of_a_small_grammar(files: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the neural extra")
    parses, exclusions = files
    done = capmeter(
        "train", "parser", parses, "--exclusions", exclusions, "-o", tmp_path / "out", "--epochs", "20", "-f", "json"
    )
    assert done.returncode == 0, done.stderr
    assert "3 of benchmark photos were left out" in done.stderr
    output = json.loads(done.stdout)
    for scores in output["held_out"].values():
        assert scores["tags"] > 95
        assert scores["las"] > 90
        assert scores["lemmas"] == 100
    parser = CaptionParser(tmp_path / "out")
    assert parser.version == output["parser"]
    (parse,) = parser.parse(["a boy likes a cat in the park"])
    assert parse is not None
    assert parse.sentences[0].labels[:3] == ("det", "nsubj", "root")
    again = capmeter(
        "train", "parser", parses, "--exclusions", exclusions, "-o", tmp_path / "out", "--evaluate", "-f", "json"
    )
    assert json.loads(again.stdout) == output


def test_the_command_requires_a_folder(files: tuple[Path, Path]) -> None:
    done = capmeter("train", "parser", files[0], "--exclusions", files[1])
    assert done.returncode == 2
    assert "--evaluate" in done.stderr
