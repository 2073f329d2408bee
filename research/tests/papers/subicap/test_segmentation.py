"""Segmentation: what is taken apart comes back, special entries are reserved, wrong input gets a sentence."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sentencepiece", reason="the captioner needs the captioner extra")

from capmeter_research.common.transformer.decoding import BEGIN, END, PAD
from capmeter_research.papers.subicap.segmentation import KINDS, Segmentation, plain, unaltered_length

from capmeter.core.errors import AssetError, InputError

CAPTIONS = [
    f"a {colour} {thing} {where} the {location}"
    for colour in ("red", "green", "sleeping", "running")
    for thing in ("cat", "dogs", "elephant", "umbrella")
    for where in ("on", "behind", "next to")
    for location in ("table", "street", "mountain")
]
SIZES = {"word": 60, "char": 95, "bpe": 140, "unigram": 140}


@pytest.mark.parametrize("kind", KINDS)
def test_detokenising_gives_the_caption_back(kind: str) -> None:
    parts = Segmentation.learned(CAPTIONS, kind, SIZES[kind])
    rows = parts.encode(CAPTIONS)
    assert parts.decode(rows) == CAPTIONS
    assert parts.decode([[BEGIN, *row, END, PAD] for row in rows[:3]]) == CAPTIONS[:3]
    assert all(each > END for row in rows for each in row)
    assert len(parts) <= SIZES[kind] + 4 or kind == "char"
    assert Segmentation(kind, parts.model) == parts


def test_tokens_are_what_their_kind_says() -> None:
    text = "a red cat on the table"
    word, char, bpe, unigram = (Segmentation.learned(CAPTIONS, kind, SIZES[kind]) for kind in KINDS)
    assert word.tokens([text]) == [["▁a", "▁red", "▁cat", "▁on", "▁the", "▁table"]]
    assert char.tokens(["a cat"]) == [["▁", "a", "▁", "c", "a", "t"]]
    for subwords in (bpe, unigram):
        assert "".join(subwords.tokens([text])[0]).replace("▁", " ").strip() == text
        assert 6 <= len(subwords.tokens([text])[0]) < len(char.tokens([text])[0])
    assert [len(each.encode([text])[0]) for each in (word, char)] == [6, len(text) + 1]


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_any_printable_text_comes_back(text: str) -> None:
    """The 95 printable characters of ASCII are always in the vocabulary (the blank is ▁)."""
    for kind in ("char", "unigram", "bpe"):
        parts = _known(kind)
        assert parts.decode(parts.encode([f"{text} {text}"])) == [f"{text} {text}"]


_made: dict[str, Segmentation] = {}


def _known(kind: str) -> Segmentation:
    return _made.setdefault(kind, Segmentation.learned(CAPTIONS, kind, SIZES[kind]))


def test_what_is_not_known_is_unknown() -> None:
    parts = Segmentation.learned(CAPTIONS, "word", 60)
    assert parts.decode(parts.encode(["a zebra on the street"])) == ["a ⁇ on the street"]
    assert _known("unigram").decode([[]]) == [""]
    assert _known("unigram").decode([]) == []


def test_the_same_captions_give_the_same_vocabulary() -> None:
    assert Segmentation.learned(CAPTIONS, "unigram", 140) == Segmentation.learned(CAPTIONS, "unigram", 140)


def test_lengths() -> None:
    rows = [[0] * length for length in [*range(1, 100), 500]]
    assert unaltered_length(rows) == 99
    assert unaltered_length(rows, 1.0) == 500
    assert unaltered_length([[0]]) == 1
    with pytest.raises(InputError, match="no caption"):
        unaltered_length([])


def test_plain_captions() -> None:
    assert plain("A man, riding\n a  Horse!") == "a man riding a horse"
    assert plain("One two three four", words=2) == "one two"


@pytest.mark.parametrize(
    ("captions", "kind", "size", "said"),
    [
        (["a cat"], "syllable", 100, "expected one of word, char, bpe, unigram"),
        ([], "char", 95, "no caption to learn from"),
        (["  "], "bpe", 95, "no caption to learn from"),
        (CAPTIONS, "unigram", 20, "learns no unigram vocabulary of 20 entries"),
        (CAPTIONS, "bpe", 5, "learns no bpe vocabulary"),
    ],
)
def test_what_cannot_be_learned(captions: list[str], kind: str, size: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Segmentation.learned(captions, kind, size)


@pytest.mark.parametrize("model", ["", "not base64!", base64.b64encode(b"nonsense").decode(), "AAAA" * 50])
def test_a_damaged_model_is_refused(model: str) -> None:
    with pytest.raises(AssetError, match="segmentation"):
        Segmentation("bpe", model)
