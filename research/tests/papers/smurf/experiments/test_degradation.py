"""Text that turns into noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.smurf.experiments.degradation import read_sentences, replace_words
from hypothesis import given
from hypothesis import strategies as st

from capmeter.core.errors import InputError

WORDS = ["a", "brown", "dog", "runs", "over", "the", "wet", "grass", "while", "two", "cats", "sleep"]


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_what_was_replaced_stays_replaced(seed: int, steps: int) -> None:
    fractions = np.linspace(0, 1, steps + 1).tolist()
    rows = [row.split() for row in replace_words(WORDS, ["X", "Y"], fractions, np.random.default_rng(seed))]
    assert rows[0] == WORDS
    assert set(rows[-1]) <= {"X", "Y"}
    for fraction, before, after in zip(fractions[1:], rows, rows[1:], strict=False):
        assert sum(word in "XY" for word in after) == round(fraction * len(WORDS))
        assert all(now == old for now, old in zip(after, before, strict=True) if old in "XY")


def test_sentences_of_a_text_or_of_captions(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("One is here. Is two?\n\nThree it is\n")
    assert read_sentences(str(tmp_path / "text.txt")) == ["One is here.", "Is two?", "Three it is"]
    (tmp_path / "rows.jsonl").write_text('{"image_id": "1", "candidate": "a dog", "references": []}\n')
    assert read_sentences(str(tmp_path / "rows.jsonl")) == ["a dog"]
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(InputError, match="no sentence"):
        read_sentences(str(tmp_path / "empty.txt"))
