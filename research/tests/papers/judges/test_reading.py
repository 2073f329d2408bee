"""Answers as papers read them, by hand; answers without a score have a reason and never a score of 0."""

from __future__ import annotations

from typing import Any

import pytest
from capmeter_research.papers.judges.reading import read_choice_as_released, read_marked_score, read_smoothed_share
from hypothesis import given
from hypothesis import strategies as st
from support.judge_tasks import outcome, tokens

from capmeter.metrics.judges.asking import Answer, NumberToken
from capmeter.metrics.judges.reading import REFUSED, UNREADABLE, number_probabilities

SPACES = {"8" + " " * k: 1.0 for k in range(10)}
ONES = {**{"1" + " " * k: 1.0 for k in range(5)}, **{"0" + " " * k: 1.0 for k in range(5)}}


@pytest.mark.parametrize(
    ("parts", "score"),
    [
        # .1 (8 x .6 + 9 x .3 + 7 x .1) + .01 (5 x .8 + 0 x .2) = .82 + .04
        (("0", ".", ("8", {"8": 0.6, "9": 0.3, "7": 0.1}), ("5", {"5": 0.8, "0": 0.2})), 0.86),
        # as released: not renormalised
        ((" Score", ":", " ", "0", ".", ("4", {"4": 0.5, "5": 0.25, "x": 0.25}), "</s>"), 0.325),
        ((("1", {"1": 0.7, "0": 0.3}), ".", "0"), 0.9 * 0.3 + 0.7),
        (("0", ".", ("85", {"85": 0.5, "90": 0.5, "9": 0.1})), 0.875),
        (("0", ".", ("8", SPACES)), 0.8),
        ((("1", ONES),), 0.9 * 0.5 + 0.5),
    ],
)
def test_fleur_is_the_expectation_over_both_digits(parts: tuple[Any, ...], score: float) -> None:
    text = "".join(part if isinstance(part, str) else part[0] for part in parts)
    assert outcome(read_smoothed_share, Answer(text, tokens(*parts))) == (pytest.approx(score), True)


@given(
    st.sampled_from(["0.8", "1.0", "0.85", "1", "0", "$80$", "0.123456789"]),
    st.lists(st.tuples(st.text("0123456789. x", max_size=4), st.floats(-30, 30)), max_size=8),
)
def test_smoothed_scores_stay_in_range(text: str, alternatives: list[tuple[str, float]]) -> None:
    numbers = number_probabilities(dict(alternatives))
    answer = Answer(text, tuple(NumberToken(k, k + 1, numbers) for k in range(len(text))))
    for value, top in ((outcome(read_smoothed_share, answer), 1.0), (outcome(read_marked_score, answer), 100.0)):
        assert isinstance(value, str) or -1e-9 <= value[0] <= top + 1e-9


@pytest.mark.parametrize(
    ("read", "text", "score"),
    [
        (read_smoothed_share, "0.85", (0.85, False)),
        (read_smoothed_share, "1", (1.0, False)),
        (read_smoothed_share, "0", (0.0, False)),
        (read_smoothed_share, "85", UNREADABLE),
        (read_smoothed_share, "I cannot see the image.", REFUSED),
        (read_marked_score, "It costs $5$. The final score is ${{62}}$.", (62.0, False)),
        (read_marked_score, "The final score is 62.", UNREADABLE),
        (read_marked_score, "The final score is $120$.", UNREADABLE),
    ],
)
def test_without_probabilities_the_number_counts(read: Any, text: str, score: Any) -> None:
    assert outcome(read, Answer(text)) == score


def test_g_veval_is_the_expectation_over_whole_numbers() -> None:
    answer_tokens = tokens("The final score is", " $", ("80", {"80": 0.5, "85": 0.3, "101": 0.1, "eighty": 0.1}), "$.")
    score, expectation = read_marked_score(Answer("The final score is $80$.", answer_tokens))
    assert score == pytest.approx((80 * 0.5 + 85 * 0.3) / 0.8) and expectation
    split = tokens("$", ("6", {"6": 0.9, "7": 0.1}), "2", "$")  # one number over two tokens: no distribution
    assert outcome(read_marked_score, Answer("$62$", split)) == (62.0, False)


AS_RELEASED = {  # "A" is a word in the first, as the released code reads it
    "A dog is on it, so B": 0, "<think>C</think>Answer: b": 1, "Answer: B\nD": 3, "E, or 2": 1, "none": None, "": None,
}  # fmt: skip


@pytest.mark.parametrize(("text", "choice"), AS_RELEASED.items())
def test_choices_as_released(text: str, choice: int | None) -> None:
    assert read_choice_as_released(Answer(text), 4) == choice
