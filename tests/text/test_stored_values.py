"""Values stored on disk: computed once, read again, the same with a store and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from capmeter.core.disk_cache import DiskCache
from capmeter.text.stored_values import stored_values

SENTENCES = ["a dog runs", "a cat", "", "half \ud800 a pair", "ein Hund läuft"]


@dataclass(frozen=True)
class Words:
    identity: str = "words/1"
    vectors: bool = False
    computed_sentences: ClassVar[list[str]] = []

    def compute(self, sentences: Sequence[str]) -> list[Any]:
        self.computed_sentences.extend(sentences)
        if self.vectors:
            return [np.array([len(word) for word in sentence.split()], np.int16) for sentence in sentences]
        return [{"words": tuple(sentence.split()), 1: len(sentence) / 7} for sentence in sentences]


@pytest.fixture(autouse=True)
def reset_computed_sentences() -> None:
    Words.computed_sentences.clear()


def test_values_are_computed_once(tmp_path: Path) -> None:
    store = DiskCache(tmp_path)
    first = stored_values(Words(), SENTENCES[:3], store)
    assert first[0] == {"words": ["a", "dog", "runs"], "1": 10 / 7}
    assert Words.computed_sentences == SENTENCES[:3]
    second = stored_values(Words(), [*reversed(SENTENCES)], store)
    assert Words.computed_sentences == [*SENTENCES[:3], SENTENCES[4], SENTENCES[3]]
    assert second[::-1][:3] == first and len(second) == 5


def test_values_are_the_same_with_a_store_and_without(tmp_path: Path) -> None:
    without_store = stored_values(Words(), SENTENCES, None)
    computed = stored_values(Words(), SENTENCES, DiskCache(tmp_path))
    stored = stored_values(Words(), SENTENCES, DiskCache(tmp_path))
    assert without_store == computed == stored
    assert len(Words.computed_sentences) == 2 * len(SENTENCES)


def test_arrays_are_values_too(tmp_path: Path) -> None:
    for _ in range(2):
        table = stored_values(Words("lengths/1", True), SENTENCES, DiskCache(tmp_path))
        assert [row.tolist() for row in table] == [[1, 3, 4], [1, 3], [], [4, 1, 1, 4], [3, 4, 5]]
        assert table[0].dtype == np.int16 and not table[0].flags.writeable
    assert len(Words.computed_sentences) == len(SENTENCES)


def test_another_identity_is_computed_again(tmp_path: Path) -> None:
    for identity in ("words/1", "words/2"):
        stored_values(Words(identity), SENTENCES, DiskCache(tmp_path))
    assert len(Words.computed_sentences) == 2 * len(SENTENCES)


def test_a_killed_run_keeps_its_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Words.compute

    def compute_until_killed(self: Words, sentences: Sequence[str]) -> list[Any]:
        if len(Words.computed_sentences) >= 4:
            raise KeyboardInterrupt
        return compute(self, sentences)

    monkeypatch.setattr(Words, "compute", compute_until_killed)
    with pytest.raises(KeyboardInterrupt):
        stored_values(Words(), SENTENCES, DiskCache(tmp_path), batch_size=2)
    monkeypatch.setattr(Words, "compute", compute)
    assert len(stored_values(Words(), SENTENCES, DiskCache(tmp_path))) == 5
    assert Words.computed_sentences == SENTENCES


def test_what_could_not_be_computed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Words.compute
    monkeypatch.setattr(Words, "compute", lambda self, sentences: [None for _ in compute(self, sentences)])
    assert stored_values(Words(), SENTENCES[:1], DiskCache(tmp_path)) == (None,)
    monkeypatch.setattr(Words, "compute", compute)
    assert stored_values(Words(), SENTENCES[:1], DiskCache(tmp_path))[0]["words"] == ["a", "dog", "runs"]
