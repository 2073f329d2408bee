"""What the writer reads: captions, bags of words, nouns; words lost, mistaken, from elsewhere."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="the writer needs the neural extra")

from capmeter_research.common.transformer.decoding import END, PAD
from capmeter_research.networks.caption_writer.reading import (
    FORMS,
    LONGEST_SOURCE,
    SourceReader,
    form_mark,
    padded,
    style_mark,
)
from capmeter_research.networks.caption_writer.subwords import Subwords
from capmeter_research.networks.caption_writer.writing import WriterSystem

from capmeter.core.errors import AssetError, InputError
from capmeter.core.ragged import Ragged

CAPTIONS = ["A brown dog runs on the beach.", "Two dogs play.", "A red boat on a lake.", "the of and", ""]
MARKS = [*map(form_mark, FORMS), style_mark("coco")]


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords.learned(CAPTIONS * 3, 400, MARKS)


@pytest.fixture(scope="module")
def reader(subwords: Subwords) -> SourceReader:
    return SourceReader.from_captions(CAPTIONS, subwords, {"dog", "dogs", "beach", "boat", "lake"})


def rows(*each: list[int]) -> Ragged:
    return Ragged.from_rows(each, np.int64)


def read(
    reader: SourceReader, subwords: Subwords, local: Ragged, other: int | None = None, **how: Any
) -> list[list[str]]:
    """The words that are read of each photo."""
    nearest = None if other is None else np.full(len(local), other)
    rng = np.random.default_rng(0)
    sources = reader.read(local, WriterSystem(**how).sight(len(local)), np.zeros(len(local), np.int64), rng, nearest)
    return [text.split() for text in subwords.decode([sources[k][2:].tolist() for k in range(len(local))])]


def shares(result: list[list[str]]) -> dict[str, float]:
    counts = Counter(chain.from_iterable(result))
    return {word: count / len(result) for word, count in counts.items()}


def test_subwords_give_every_text_back(subwords: Subwords) -> None:
    for text in ("A brown dog", "Zürich 日本 🐕", "<pad> <end>", "it's 3.5 m"):
        (ids,) = subwords.encode([text])
        assert min(ids) > END
        assert subwords.decode([ids])[0].replace(" ", "") == text.replace(" ", "")
    assert subwords.encode([""]) == [[]]
    assert Subwords(str(subwords)).encode(CAPTIONS) == subwords.encode(CAPTIONS)
    with pytest.raises(AssetError, match="damaged"):
        Subwords("{}")
    with pytest.raises(AssetError, match="no mark"):
        subwords.mark("<elsewhere>")


def test_captions_are_read_as_they_are(reader: SourceReader, subwords: Subwords) -> None:
    styles = np.array([subwords.mark("<style coco>")])
    sources = reader.read(rows([0, 1]), WriterSystem(form="captions").sight(1), styles, np.random.default_rng(0))
    one, two = subwords.encode(CAPTIONS[:2])
    assert sources[0].tolist() == [styles[0], subwords.mark("<captions>"), *one, END, *two, END]


def test_bags_hold_the_content_words_of_all_captions(reader: SourceReader, subwords: Subwords) -> None:
    result = [sorted(each) for each in read(reader, subwords, rows([0], [0, 1], [3], []))]
    assert result[0] == ["beach", "brown", "dog", "runs"]
    assert result[1] == ["beach", "brown", "dog", "dogs", "play", "runs", "two"]
    assert result[2] == result[3] == []
    nouns = read(reader, subwords, rows([0], [2]), form="nouns")
    assert [sorted(each) for each in nouns] == [["beach", "dog"], ["boat", "lake"]]


def test_bags_are_shuffled(reader: SourceReader, subwords: Subwords) -> None:
    assert len(set(map(tuple, read(reader, subwords, rows(*[[0]] * 400))))) == 24


def test_shares_are_what_they_say(reader: SourceReader, subwords: Subwords) -> None:
    local = rows(*[[0]] * 4000)
    remaining = shares(read(reader, subwords, local, kept=0.7))
    assert remaining == pytest.approx(dict.fromkeys(("brown", "dog", "runs", "beach"), 0.7), abs=0.03)
    noisy = shares(read(reader, subwords, local, noise=0.5))
    assert sum(noisy.values()) == 4
    assert noisy["dog"] == pytest.approx(0.5 + 4 * 0.5 / 10, abs=0.03)  # ten content words in all captions
    assert noisy["boat"] == pytest.approx(4 * 0.5 / 10, abs=0.03)
    assert not any(read(reader, subwords, local, kept=0.0))


def test_words_of_a_similar_photo(reader: SourceReader, subwords: Subwords) -> None:
    local = rows(*[[0]] * 4000)
    result = shares(read(reader, subwords, local, 2, near=0.25))
    assert result == pytest.approx(
        dict.fromkeys(("brown", "dog", "runs", "beach"), 0.75) | dict.fromkeys(("red", "boat", "lake"), 0.25), abs=0.03
    )
    total = shares(read(reader, subwords, local, 2, near=0.25, form="captions"))
    assert (total["boat"], total["dog"]) == pytest.approx((0.25, 0.75), abs=0.03)
    with pytest.raises(InputError, match="no similar photo"):
        read(reader, subwords, local, near=0.25)


def test_long_sources_are_cut(subwords: Subwords) -> None:
    reader = SourceReader.from_captions(["a dog " * 200], subwords, {"dog"})
    for form in FORMS:
        sources = reader.read(
            rows([0], []), WriterSystem(form=form).sight(2), np.zeros(2, np.int64), np.random.default_rng(0)
        )
        assert sources.lengths.tolist() == [LONGEST_SOURCE, 2]
    assert padded(sources, PAD).shape == (2, LONGEST_SOURCE)
    assert padded(sources, PAD)[1, 2:].tolist() == [PAD] * (LONGEST_SOURCE - 2)
