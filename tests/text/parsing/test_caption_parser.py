"""The bundled parser: captions written for this test, hostile input, files, agreement with CoreNLP."""

from __future__ import annotations

import gzip
import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.call_counts import steps

from capmeter.core.assets import BUNDLED_WEIGHTS
from capmeter.core.checkpoints import WEIGHTS, Checkpoint
from capmeter.core.errors import AssetError
from capmeter.text.parsing.caption_parser import (
    MAX_FEATURES,
    MAX_WORDS,
    CaptionParser,
    _best_trees,
    _is_well_formed,
    word_features,
)
from capmeter.text.parsing.dependency_parse import CaptionParse
from capmeter.text.parsing.network import Integers, ParserNetwork
from capmeter.text.parsing.parsers import looks_english
from capmeter.text.scene_graphs.rules import extract_tuples
from capmeter.text.tokenization.ptb import split_as_written

FOLDER = BUNDLED_WEIGHTS / "parser"


@pytest.fixture(scope="module")
def parser() -> CaptionParser:
    return CaptionParser()


def parse_one(parser: CaptionParser, caption: str) -> CaptionParse:
    (parse,) = parser.parse([caption])
    assert parse is not None
    return parse


def test_a_plain_caption(parser: CaptionParser) -> None:
    (sentence,) = parse_one(parser, "A young girl is riding two brown horses.").sentences
    assert sentence.words == ("A", "young", "girl", "is", "riding", "two", "brown", "horses", ".")
    assert sentence.tags == ("DT", "JJ", "NN", "VBZ", "VBG", "CD", "JJ", "NNS", ".")
    assert sentence.lemmas == ("a", "young", "girl", "be", "ride", "two", "brown", "horse", ".")
    assert sentence.heads == (3, 3, 5, 5, 0, 8, 8, 5, 5)
    assert sentence.labels == ("det", "amod", "nsubj", "aux", "root", "nummod", "amod", "dobj", "punct")


def test_lower_case_without_punctuation(parser: CaptionParser) -> None:
    (sentence,) = parse_one(parser, "a dog on the beach").sentences
    assert sentence.heads == (2, 0, 5, 5, 2)
    assert sentence.labels == ("det", "root", "case", "det", "nmod")


def test_several_sentences(parser: CaptionParser) -> None:
    parse = parse_one(parser, "A dog runs. It is brown!")
    assert [sentence.words[-1] for sentence in parse.sentences] == [".", "!"]


def test_captions_are_parsed_independently(parser: CaptionParser) -> None:
    captions = [
        "A dog runs across a field.",
        "two men in hats",
        "A cat.",
        "a man riding a wave on top of a surfboard",
        "Children play.",
    ]
    together = parser.parse(captions * 9)
    assert (
        together[: len(captions)] == together[-len(captions) :] == [parse_one(parser, caption) for caption in captions]
    )


@pytest.mark.parametrize("caption", ["", "   ", "\n\t", "\u200b", "\x00"])
def test_captions_without_tokens(parser: CaptionParser, caption: str) -> None:
    assert parse_one(parser, caption) == CaptionParse()


@pytest.mark.parametrize(
    "caption",
    [
        "🐶",
        "a dog 🐶 runs",
        "...",
        "?!?!",
        "犬が走っている。",
        "1 2 3 4",
        "\x01\x02 a dog",
        "((((",
        "x" * 5000,
        "'",
        "a\u2019b",
    ],
)
def test_strange_captions_get_trees(parser: CaptionParser, caption: str) -> None:
    parse = parse_one(parser, caption)
    assert CaptionParse.from_dict(parse.to_dict()) == parse  # which checks that each sentence is a tree


@settings(max_examples=60)
@given(st.text(max_size=80))
def test_any_text_gets_trees(text: str) -> None:
    (parse,) = _PARSER.parse([text])
    assert parse is not None
    for sentence in parse.sentences:
        assert all(sentence.lemmas)
        assert sentence.labels[sentence.heads.index(0)] == "root"
        assert sentence.labels.count("root") == 1


_PARSER = CaptionParser()


def test_long_captions_are_split(parser: CaptionParser) -> None:
    nested = "a photo " + "of the dog " * 500
    parse = parse_one(parser, nested)
    assert [word for sentence in parse.sentences for word in sentence.words] == nested.split()
    assert max(map(len, parse.sentences)) <= MAX_WORDS
    assert min(map(len, parse.sentences)) >= MAX_WORDS // 2


def test_work_is_linear_in_words(parser: CaptionParser, monkeypatch: pytest.MonkeyPatch) -> None:
    arcs = 0
    read_words = ParserNetwork.read_words

    def counted(self: ParserNetwork, words: Integers, embedded: Any) -> Any:
        nonlocal arcs
        arcs += words.shape[0] * words.shape[1] ** 2
        return read_words(self, words, embedded)

    def work(words: int) -> tuple[int, int]:
        nonlocal arcs
        arcs = 0
        step_count = steps(lambda: parse_one(parser, "a dog runs on the beach " * (words // 6)))
        return step_count, arcs

    monkeypatch.setattr(ParserNetwork, "read_words", counted)
    small, large = work(1200), work(6000)
    assert large[0] < 6 * small[0]
    assert large[1] <= 5 * small[1] <= 5 * MAX_WORDS * 1200


def test_the_signature_names_the_weights(parser: CaptionParser) -> None:
    assert parser.version == f"caption-parser@{Checkpoint.read(FOLDER).sha256[:12]}"


def test_damaged_and_other_checkpoints_are_errors(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="no checkpoint"):
        CaptionParser(tmp_path / "absent")
    shutil.copytree(FOLDER, tmp_path / "damaged")
    blob = bytearray((FOLDER / WEIGHTS).read_bytes())
    blob[len(blob) // 2] ^= 1
    (tmp_path / "damaged" / WEIGHTS).write_bytes(blob)
    with pytest.raises(AssetError, match="damaged"):
        CaptionParser(tmp_path / "damaged")
    Checkpoint("lceval", {}, {}).save(tmp_path / "other")
    with pytest.raises(AssetError, match="of 'parser', but it is"):
        CaptionParser(tmp_path / "other")
    Checkpoint("parser", {"tags": []}, {}).save(tmp_path / "bare")
    with pytest.raises(AssetError, match="not that of a caption parser"):
        CaptionParser(tmp_path / "bare")


def test_the_checkpoint_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 10_000_000


@pytest.mark.parametrize(
    ("caption", "english"),
    [
        ("Two dogs are playing with a ball on the grass.", True),
        ("zwei hunde spielen mit einem ball auf der wiese", False),
        ("Deux chiens jouent avec une balle dans l'herbe.", False),
        ("两只 狗 在 草地 上 玩 球", False),
        ("", True),
        ("Hunde spielen", True),  # too few words to tell
    ],
)
def test_english_is_recognised(parser: CaptionParser, caption: str, english: bool) -> None:
    assert parser.looks_english(split_as_written(caption)) is english
    assert looks_english(parse_one(parser, caption)) is english


@given(st.text(min_size=1, max_size=100))
def test_features_are_few(word: str) -> None:
    features = word_features(word)
    assert features[0].startswith("w:")
    assert 2 < len(features) <= MAX_FEATURES


def test_agreement_with_corenlp(shared: Path, parser: CaptionParser) -> None:
    """On official parses of captions that are not in the training data (the model card has more)."""
    with gzip.open(shared / "oracles" / "spice_parses.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for number, line in enumerate(lines) if number % 15 == 0]
    tags = arcs = words = equal_sets = tuples = common = 0
    for row, parse in zip(rows, parser.parse([row["caption"] for row in rows]), strict=True):
        assert parse is not None
        official, local = set(extract_tuples(CaptionParse.from_dict(row))), set(extract_tuples(parse))
        equal_sets += official == local
        tuples, common = tuples + len(official) + len(local), common + len(official & local)
        for one, two in zip(row["sentences"], parse.sentences, strict=False):
            if tuple(one["words"]) == two.words:
                words += len(two)
                tags += int(np.sum(np.array(one["tags"]) == two.tags))
                governed = np.array(one["heads"]) == two.heads
                arcs += int(np.sum(governed & (np.array(one["labels"]) == two.labels)))
    assert words > 15_000
    assert tags / words > LEAST_TAGS
    assert arcs / words > LEAST_LAS
    assert 2 * common / tuples > LEAST_TUPLE_F1
    assert equal_sets / len(rows) > LEAST_SAME_TUPLES


LEAST_TAGS, LEAST_LAS, LEAST_TUPLE_F1, LEAST_SAME_TUPLES = 0.98, 0.925, 0.93, 0.77


# The best tree, against an enumeration of all trees.


def is_tree(heads: tuple[int, ...]) -> bool:
    """One root, no cycle, no crossing arcs: by the definition, word by word."""
    if heads.count(0) != 1:
        return False
    for word in range(1, len(heads) + 1):
        at, steps = word, 0
        while at and steps <= len(heads):
            at, steps = heads[at - 1], steps + 1
        if at:
            return False
    arcs = [(min(word, head), max(word, head)) for word, head in enumerate(heads, start=1)]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


TREES = {n: [heads for heads in product(range(n + 1), repeat=n) if is_tree(heads)] for n in range(1, 6)}


def test_number_of_trees() -> None:
    assert [len(trees) for trees in TREES.values()] == [1, 2, 7, 30, 143]  # Yuret 1998, with one root


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5])
def test_well_formed_rows_are_trees_by_definition(words: int) -> None:
    rows = list(product(range(words + 1), repeat=words))
    assert _is_well_formed(np.array(rows)).tolist() == [is_tree(row) for row in rows]


@settings(max_examples=60)
@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_no_tree_is_better(words: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(7, words, words + 1))
    scores[:, np.arange(words), np.arange(words) + 1] = -1e9
    for best_heads, table in zip(_best_trees(scores).tolist(), scores, strict=True):
        totals = {heads: sum(table[d, h] for d, h in enumerate(heads)) for heads in TREES[words]}
        assert totals[tuple(best_heads)] == pytest.approx(max(totals.values()))


def test_a_long_sentence_gets_a_tree() -> None:
    scores = np.random.default_rng(3).normal(size=(2, 80, 81)).astype(np.float32)
    assert _is_well_formed(_best_trees(scores)).all()
