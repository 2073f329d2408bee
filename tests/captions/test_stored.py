"""Analyses kept on disk: computed once, found again, the same with a store and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from capmeter.captions.model import SentencePool
from capmeter.captions.stored import StoredAnalysis
from capmeter.store import Store

SENTENCES = ["a dog runs", "a cat", "", "half \ud800 a pair", "ein Hund läuft"]


@dataclass(frozen=True)
class Words:
    identity: str = "words/1"
    vectors: bool = False
    asked: ClassVar[list[str]] = []

    def compute(self, sentences: Sequence[str]) -> list[Any]:
        self.asked.extend(sentences)
        if self.vectors:
            return [np.array([len(word) for word in sentence.split()], np.int16) for sentence in sentences]
        return [{"words": tuple(sentence.split()), 1: len(sentence) / 7} for sentence in sentences]


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    Words.asked.clear()


def test_values_are_computed_once(tmp_path: Path) -> None:
    analysis = StoredAnalysis(Words(), Store(tmp_path))
    first = SentencePool(SENTENCES[:3]).analyse(analysis)
    assert first[0] == {"words": ["a", "dog", "runs"], "1": 10 / 7}
    assert Words.asked == SENTENCES[:3]
    second = SentencePool([*reversed(SENTENCES)]).analyse(analysis)
    assert Words.asked == [*SENTENCES[:3], SENTENCES[4], SENTENCES[3]]
    assert list(second)[::-1][:3] == list(first) and len(second) == 5


def test_values_are_the_same_with_a_store_and_without(tmp_path: Path) -> None:
    pool = SentencePool(SENTENCES)
    plain = pool.analyse(StoredAnalysis(Words()))
    new = SentencePool(SENTENCES).analyse(StoredAnalysis(Words(), Store(tmp_path)))
    found = SentencePool(SENTENCES).analyse(StoredAnalysis(Words(), Store(tmp_path)))
    assert list(plain) == list(new) == list(found)
    assert len(Words.asked) == 2 * len(SENTENCES)


def test_arrays_are_values_too(tmp_path: Path) -> None:
    for _ in range(2):
        table = SentencePool(SENTENCES).analyse(StoredAnalysis(Words("lengths/1", True), Store(tmp_path)))
        assert [row.tolist() for row in table] == [[1, 3, 4], [1, 3], [], [4, 1, 1, 4], [3, 4, 5]]
        assert table[0].dtype == np.int16 and not table[0].flags.writeable
    assert len(Words.asked) == len(SENTENCES)


def test_another_identity_is_computed_again(tmp_path: Path) -> None:
    for identity in ("words/1", "words/2"):
        SentencePool(SENTENCES).analyse(StoredAnalysis(Words(identity), Store(tmp_path)))
    assert len(Words.asked) == 2 * len(SENTENCES)


def test_a_killed_run_keeps_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Words.compute

    def killed(self: Words, sentences: Sequence[str]) -> list[Any]:
        if len(Words.asked) >= 4:
            raise KeyboardInterrupt
        return whole(self, sentences)

    monkeypatch.setattr(Words, "compute", killed)
    with pytest.raises(KeyboardInterrupt):
        SentencePool(SENTENCES).analyse(StoredAnalysis(Words(), Store(tmp_path), at_once=2))
    monkeypatch.setattr(Words, "compute", whole)
    assert len(SentencePool(SENTENCES).analyse(StoredAnalysis(Words(), Store(tmp_path)))) == 5
    assert Words.asked == SENTENCES


def test_what_could_not_be_computed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Words.compute
    monkeypatch.setattr(Words, "compute", lambda self, sentences: [None for _ in whole(self, sentences)])
    assert list(SentencePool(SENTENCES[:1]).analyse(StoredAnalysis(Words(), Store(tmp_path)))) == [None]
    monkeypatch.setattr(Words, "compute", whole)
    found = SentencePool(SENTENCES[:1]).analyse(StoredAnalysis(Words(), Store(tmp_path)))
    assert found[0]["words"] == ["a", "dog", "runs"]


def test_a_part_computes_its_own_sentences_only(tmp_path: Path) -> None:
    part = SentencePool(SENTENCES).part(np.array([1, 4]))
    assert len(part.analyse(StoredAnalysis(Words(), Store(tmp_path)))) == 2
    assert Words.asked == [SENTENCES[1], SENTENCES[4]]
