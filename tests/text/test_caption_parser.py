"""The shipped parser: what it says of captions written for this test, hostile input, files, agreement."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counting import steps
from hypothesis import given, settings
from hypothesis import strategies as st

import capmeter
from capmeter.checkpoints import WEIGHTS, Checkpoint
from capmeter.errors import AssetError
from capmeter.text.caption_parser import LONGEST, CaptionParser
from capmeter.text.parser_network import Integers
from capmeter.text.parser_vocabulary import MOST_FEATURES, word_features
from capmeter.text.parsers import knows_language
from capmeter.text.parses import CaptionParse
from capmeter.text.ptb import split_as_written
from capmeter.text.scene_tuples import scene_tuples

SHIPPED_FOLDER = Path(capmeter.__file__).parent / "weights" / "parser"


@pytest.fixture(scope="module")
def parser() -> CaptionParser:
    return CaptionParser()


def parsed(parser: CaptionParser, caption: str) -> CaptionParse:
    (parse,) = parser.parse([caption])
    assert parse is not None
    return parse


def test_a_plain_caption(parser: CaptionParser) -> None:
    (sentence,) = parsed(parser, "A young girl is riding two brown horses.").sentences
    assert sentence.words == ("A", "young", "girl", "is", "riding", "two", "brown", "horses", ".")
    assert sentence.tags == ("DT", "JJ", "NN", "VBZ", "VBG", "CD", "JJ", "NNS", ".")
    assert sentence.lemmas == ("a", "young", "girl", "be", "ride", "two", "brown", "horse", ".")
    assert sentence.heads == (3, 3, 5, 5, 0, 8, 8, 5, 5)
    assert sentence.labels == ("det", "amod", "nsubj", "aux", "root", "nummod", "amod", "dobj", "punct")


def test_lower_case_without_punctuation(parser: CaptionParser) -> None:
    (sentence,) = parsed(parser, "a dog on the beach").sentences
    assert sentence.heads == (2, 0, 5, 5, 2)
    assert sentence.labels == ("det", "root", "case", "det", "nmod")


def test_several_sentences(parser: CaptionParser) -> None:
    parse = parsed(parser, "A dog runs. It is brown!")
    assert [sentence.words[-1] for sentence in parse.sentences] == [".", "!"]


def test_a_caption_alone_is_parsed_as_among_others(parser: CaptionParser) -> None:
    captions = [
        "A dog runs across a field.",
        "two men in hats",
        "A cat.",
        "a man riding a wave on top of a surfboard",
        "Children play.",
    ]
    together = parser.parse(captions * 9)
    assert together[: len(captions)] == together[-len(captions) :] == [parsed(parser, caption) for caption in captions]


@pytest.mark.parametrize("caption", ["", "   ", "\n\t", "\u200b", "\x00"])
def test_nothing_to_parse(parser: CaptionParser, caption: str) -> None:
    assert parsed(parser, caption) == CaptionParse()


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
    parse = parsed(parser, caption)
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


def test_long_captions_are_cut_into_pieces(parser: CaptionParser) -> None:
    nested = "a photo " + "of the dog " * 500
    parse = parsed(parser, nested)
    assert [word for sentence in parse.sentences for word in sentence.words] == nested.split()
    assert max(map(len, parse.sentences)) <= LONGEST
    assert min(map(len, parse.sentences)) >= LONGEST // 2


def test_work_is_linear_in_words(parser: CaptionParser, monkeypatch: pytest.MonkeyPatch) -> None:
    arcs = 0
    analyse = CaptionParser._analyse

    def counted(self: CaptionParser, words: Integers, vectors: Any) -> Any:
        nonlocal arcs
        arcs += words.shape[0] * words.shape[1] ** 2
        return analyse(self, words, vectors)

    def work(words: int) -> tuple[int, int]:
        nonlocal arcs
        arcs = 0
        taken = steps(lambda: parsed(parser, "a dog runs on the beach " * (words // 6)))
        return taken, arcs

    monkeypatch.setattr(CaptionParser, "_analyse", counted)
    small, large = work(1200), work(6000)
    assert large[0] < 6 * small[0]
    assert large[1] <= 5 * small[1] <= 5 * LONGEST * 1200


def test_the_signature_names_the_weights(parser: CaptionParser) -> None:
    assert parser.version == f"caption-parser@{Checkpoint.read(SHIPPED_FOLDER).sha256[:12]}"


def test_damaged_and_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="no checkpoint"):
        CaptionParser(tmp_path / "absent")
    shutil.copytree(SHIPPED_FOLDER, tmp_path / "damaged")
    blob = bytearray((SHIPPED_FOLDER / WEIGHTS).read_bytes())
    blob[len(blob) // 2] ^= 1
    (tmp_path / "damaged" / WEIGHTS).write_bytes(blob)
    with pytest.raises(AssetError, match="damaged"):
        CaptionParser(tmp_path / "damaged")
    Checkpoint("lceval", {}, {}).save(tmp_path / "other")
    with pytest.raises(AssetError, match="of 'parser', but it is"):
        CaptionParser(tmp_path / "other")
    Checkpoint("parser", {"tags": []}, {}).save(tmp_path / "bare")
    with pytest.raises(AssetError, match="not those of a parser"):
        CaptionParser(tmp_path / "bare")


def test_what_ships_is_small() -> None:
    assert sum(path.stat().st_size for path in SHIPPED_FOLDER.iterdir()) < 10_000_000


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
def test_english_is_told_from_other_languages(parser: CaptionParser, caption: str, english: bool) -> None:
    assert parser.knows(split_as_written(caption)) is english
    assert knows_language(parsed(parser, caption)) is english


@given(st.text(min_size=1, max_size=100))
def test_features_are_few(word: str) -> None:
    features = word_features(word)
    assert features[0].startswith("w:")
    assert 2 < len(features) <= MOST_FEATURES


def test_agreement_with_corenlp(shared: Path, parser: CaptionParser) -> None:
    """On the visible official parses, of captions that were never learned from (see the card for the whole)."""
    with gzip.open(shared / "oracles" / "spice_parses.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for number, line in enumerate(lines) if number % 15 == 0]
    right = arcs = words = same = told = common = 0
    for row, given_parse in zip(rows, parser.parse([row["caption"] for row in rows]), strict=True):
        assert given_parse is not None
        theirs, ours = set(scene_tuples(CaptionParse.from_dict(row))), set(scene_tuples(given_parse))
        same, told, common = same + (theirs == ours), told + len(theirs) + len(ours), common + len(theirs & ours)
        for one, two in zip(row["sentences"], given_parse.sentences, strict=False):
            if tuple(one["words"]) == two.words:
                words += len(two)
                right += int(np.sum(np.array(one["tags"]) == two.tags))
                governed = np.array(one["heads"]) == two.heads
                arcs += int(np.sum(governed & (np.array(one["labels"]) == two.labels)))
    assert words > 15_000
    assert right / words > LEAST_TAGS
    assert arcs / words > LEAST_LAS
    assert 2 * common / told > LEAST_TUPLE_F1
    assert same / len(rows) > LEAST_SAME_TUPLES


LEAST_TAGS, LEAST_LAS, LEAST_TUPLE_F1, LEAST_SAME_TUPLES = 0.98, 0.925, 0.93, 0.77
