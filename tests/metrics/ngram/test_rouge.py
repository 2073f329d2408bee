from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from support.caption_sets import ROWS, caption_set
from support.official_scores import SETS, official

from capmeter.evaluation.base import RunContext
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import evaluate
from capmeter.metrics.ngram.rouge import RougeL

PLAIN = RougeL(tokenizer="whitespace")


def rouge(rows: list[tuple[str, list[str]]]):
    return evaluate(caption_set(rows), [PLAIN])[PLAIN]


def common(one: list[str], other: list[str]) -> int:
    """The longest common subsequence by the textbook table."""
    table = np.zeros((len(one) + 1, len(other) + 1), int)
    for i, word in enumerate(one):
        for j, other_word in enumerate(other):
            table[i + 1, j + 1] = table[i, j] + 1 if word == other_word else max(table[i, j + 1], table[i + 1, j])
    return int(table[-1, -1])


def test_by_hand_precision_and_recall_may_come_from_different_references() -> None:
    # LCS 2 with each; precision 2/3 twice, recall 2/4 and 2/2
    scores = rouge([("a x b", ["a b c d", "a b"])])
    p, r, weight = 2 / 3, 1.0, 1.44
    assert scores.items["i0"] == pytest.approx((1 + weight) * p * r / (r + weight * p), abs=1e-15)
    assert scores.parts == {"precision": pytest.approx(p), "recall": pytest.approx(r)}


def test_empty_texts_and_words_beyond_the_surrogate_block() -> None:
    scores = rouge([("", ["a"]), ("", [""]), ("a", [""])])
    assert list(scores.items.values()) == [0.0, 1.0, 0.0]
    assert scores.notes == {"empty candidate": ["i0", "i1"]}
    words = [f"w{k}" for k in range(0xD800 + 50)]
    rows = [(" ".join(words), [" ".join(words)]), (words[-1], [words[-2]])]
    assert list(rouge(rows).items.values()) == [1.0, 0.0]


@pytest.mark.parametrize("name", SETS)
def test_equals_the_standard_code(shared: Path, name: str) -> None:
    published = official(shared, name)
    ours = evaluate(published.captions, [PLAIN])[PLAIN]
    assert np.abs(ours.items.array - published.items["rouge_l"]).max() <= 1e-12
    assert abs(ours.score - published.corpus["rouge"]) <= 1e-12


@given(ROWS)
def test_equals_the_formula_written_plainly(rows) -> None:
    ours = rouge(rows).items
    for k, (candidate, references) in enumerate(rows):
        words = candidate.split(" ")
        p = max(common(words, one.split(" ")) / len(words) for one in references)
        r = max(common(words, one.split(" ")) / len(one.split(" ")) for one in references)
        assert ours[f"i{k}"] == pytest.approx(2.44 * p * r / (r + 1.44 * p) if p and r else 0.0, abs=1e-12)


def test_evidence_shows_the_subsequence() -> None:
    (evidence,) = PLAIN.explain(caption_set([("a x b", ["c", "a b d"])]), RunContext())
    assert {(link.candidate, link.reference_index, link.reference) for link in evidence.links} == {
        ((0, 1), 1, (0, 1)),
        ((2, 3), 1, (1, 2)),
    }
    assert [(mark.start, mark.kind) for mark in evidence.marks] == [(1, "unmatched")]


def test_beta_is_checked() -> None:
    with pytest.raises(Exception, match="expected beta above 0"):
        parse("rouge-l(beta=0)")
