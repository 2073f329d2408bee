"""Scores in judges' answers, by hand; answers without one have a reason and never a score of 0."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.judge_tasks import outcome, tokens

from capmeter.metrics.judges.asking import Answer
from capmeter.metrics.judges.reading import (
    REFUSED,
    TRUNCATED,
    UNREADABLE,
    read_choice,
    read_expectation,
    read_json,
    read_label,
    read_number,
)

CLAIR = {
    '{"score": 85, "reason": "same"}': 0.85, "Score: 92.5 because both show a dog": 0.925,
    'Sure! ```json\n{"score": "70", "reason": "a {brace}"}\n``` done': 0.7,
    '{"reason": "first"} {"score": 0, "reason": "other"}': 0.0, '{"score": "85/100"}': 0.85,
    "0.9": 0.9, '{"score": 0.5}': 0.005,  # the released code takes the first as a share, and inside JSON as it is
    '{"score": 101}': UNREADABLE, '{"score": null}': UNREADABLE, '{"score": NaN, "reason": "2 dogs"}': UNREADABLE,
    '{"score": 1e400}': UNREADABLE, '{"score": true, "reason": "1"}': UNREADABLE, '{"score": "-5"}': UNREADABLE,
    '{"score": null, "reason": "I can\'t say, there are 2 dogs"}': REFUSED, "no number here": UNREADABLE,
    "I'm sorry, but as an AI (GPT-4) I can't rate this.": REFUSED, "": UNREADABLE,
}  # fmt: skip


@pytest.mark.parametrize(("text", "score"), CLAIR.items())
def test_clair(text: str, score: Any) -> None:
    value = outcome(read_number, Answer(text))
    assert value == ((pytest.approx(100 * score), True) if isinstance(score, float) else score)


def test_an_answer_that_was_cut_says_so() -> None:
    assert outcome(read_number, Answer("The candidate set of captions", truncated=True)) == TRUNCATED
    assert outcome(read_number, Answer("", refused=True)) == REFUSED


CHOICES = {
    "B": 1, "(b)": 1, "**C**": 2, "Answer: D": 3, "The answer is A.": 0, "<think>A or B?</think>C": 2, "2": 1,
    "I think it is B because A is wrong. Answer: B": 1, "\\boxed{D}": 3, "A dog is in the picture": UNREADABLE,
    "E": UNREADABLE, "I'm sorry, I can't": REFUSED, "": UNREADABLE,
}  # fmt: skip


@pytest.mark.parametrize(("text", "choice"), CHOICES.items())
def test_choices(text: str, choice: int | str) -> None:
    assert outcome(read_choice, Answer(text), 4) == choice


LABELS = {
    "Yes.": "yes", "not mentioned": "not_mentioned", "Not-Mentioned, since": "not_mentioned", "**no**": "no",
    "The verdict is no": "no", "yes or no": "yes", "it is unclear": None, "nothing": None,
    "<think>no</think> yes": "yes",
}  # fmt: skip


@pytest.mark.parametrize(("text", "label"), LABELS.items())
def test_labels(text: str, label: str | None) -> None:
    read = outcome(read_label, Answer(text), ("yes", "no", "not_mentioned"))
    assert read == (label or UNREADABLE)


def test_long_hostile_answers_are_read_in_linear_time() -> None:
    start = time.process_time()
    for text in ("{" * 200_000, '{"a":' * 40_000, "answer " * 28_000, "$ " * 100_000, "0" * 200_000, " (" * 100_000):
        answer = Answer(text)
        for read in (read_number, read_expectation):
            outcome(read, answer, 0, 100)
        outcome(read_choice, answer, 4)
        outcome(read_label, answer, ("yes", "no"))
        read_json(answer, "events")
    assert time.process_time() - start < 20


def test_answers_come_back_from_the_cache_as_they_were() -> None:
    answer = Answer("a $62$", tokens("a $", ("62", {"62": 0.5, "60": 0.5}), "$"), truncated=True, used=(3, 4))
    again = Answer.from_json(answer.to_json())
    assert again == answer and read_expectation(answer, 0, 100) == (pytest.approx(61.0), True)
