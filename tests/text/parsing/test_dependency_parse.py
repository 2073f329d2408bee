"""Parses as values: their JSON form, and invalid parses."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.core.errors import InputError
from capmeter.text.parsing.dependency_parse import CaptionParse, Parse

DOG = {
    "words": ["A", "dog", "runs", "."],
    "tags": ["DT", "NN", "VBZ", "."],
    "lemmas": ["a", "dog", "run", "."],
    "heads": [2, 3, 0, 3],
    "labels": ["det", "nsubj", "root", "punct"],
}


def test_json_round_trip():
    parse = CaptionParse.from_dict({"caption": "A dog runs.", "sentences": [DOG, DOG]})
    assert parse.sentences[0].words == ("A", "dog", "runs", ".")
    assert parse.sentences[1].heads == (2, 3, 0, 3)
    assert json.loads(json.dumps(parse.to_dict())) == {"sentences": [DOG, DOG]}
    assert CaptionParse.from_dict(parse.to_dict()) == parse
    assert CaptionParse.from_dict({"sentences": []}) == CaptionParse()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tags": ["DT", "NN", "VBZ"]}, "4 words, 3 tags, 4 lemmas, 4 labels, 4 heads"),
        ({"heads": [2, 3, 0, 0]}, "has 2 roots"),
        ({"heads": [2, 3, 1, 3]}, "has 0 roots"),
        ({"heads": [2, 1, 0, 3]}, "has a cycle through 'A'"),
        ({"heads": [2, 3, 0, 5]}, "has the head 5; expected 0 (the root) to 4"),
        ({"heads": [2, 3, 0, -1]}, "has the head -1"),
        ({"heads": [2, 3, 0, True]}, "heads are a list of whole numbers"),
        ({"heads": None}, "heads are a list of whole numbers"),
        ({"words": "A dog"}, "words are a list of texts"),
        ({"lemmas": ["a", "dog", None, "."]}, "lemmas are a list of texts"),
        ({name: [] for name in DOG}, "a parse without words"),
    ],
)
def test_invalid_parses_are_errors(changes, message):
    with pytest.raises(InputError) as error:
        CaptionParse.from_dict({"sentences": [{**DOG, **changes}]})
    assert message in str(error.value)


@pytest.mark.parametrize("row", [None, [], {"sentences": "x"}, {"words": []}, {"sentences": [7]}])
def test_rows_that_are_not_parses_are_errors(row):
    with pytest.raises(InputError):
        CaptionParse.from_dict(row)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_exactly_trees_are_accepted(heads):
    """A sequence of heads is accepted if and only if every word reaches the one root."""
    count = len(heads)

    def reaches(at):
        for _ in range(count):
            if at == 0:
                return True
            if at > count:
                return False
            at = heads[at - 1]
        return at == 0

    tree = heads.count(0) == 1 and all(reaches(k) for k in range(1, count + 1))
    texts = ("x",) * count
    if tree:
        assert Parse(texts, texts, texts, tuple(heads), texts).heads == tuple(heads)
    else:
        with pytest.raises(InputError):
            Parse(texts, texts, texts, tuple(heads), texts)


def test_a_long_chain_is_checked_in_linear_time():
    count = 20_000
    texts = ("x",) * count
    assert len(Parse(texts, texts, texts, tuple(range(count)), texts)) == count


def test_official_parses_are_trees(shared: Path):
    with gzip.open(shared / "oracles" / "spice_parses.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in itertools.islice(lines, 3000):
            row = json.loads(line)
            round_trip = CaptionParse.from_dict(row).to_dict()["sentences"]
            assert all(row["sentences"][k][name] == round_trip[k][name] for k in range(len(round_trip)) for name in DOG)
