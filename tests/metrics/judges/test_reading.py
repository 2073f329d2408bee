"""Scores in judges' answers, by hand; answers without one have a reason and never a score of 0."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.metrics.judges.asking import Answer, NumberToken
from capmeter.metrics.judges.reading import (
    REFUSED,
    TRUNCATED,
    UNREADABLE,
    NoScore,
    number_probabilities,
    read_choice,
    read_choice_as_released,
    read_json,
    read_label,
    read_marked_score,
    read_number,
    read_smoothed_share,
)


def tokens(*parts: Any) -> tuple[NumberToken, ...]:
    """Tokens with the probabilities of their alternatives; a bare text has only itself."""
    listed: list[NumberToken] = []
    start = 0
    for part in parts:
        text, chances = (part, {part: 1.0}) if isinstance(part, str) else part
        numbers = number_probabilities({other: math.log(chance) for other, chance in chances.items()})
        if text.strip() in numbers:
            listed.append(NumberToken(start, start + len(text), numbers))
        start += len(text)
    return tuple(listed)


def outcome(read: Any, *arguments: Any) -> Any:
    """What is read, or the reason why nothing is."""
    try:
        return read(*arguments)
    except NoScore as reason:
        return str(reason)


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
    import time

    start = time.process_time()
    for text in ("{" * 200_000, '{"a":' * 40_000, "answer " * 28_000, "$ " * 100_000, "0" * 200_000, " (" * 100_000):
        answer = Answer(text)
        for read in (read_number, read_smoothed_share, read_marked_score):
            outcome(read, answer)
        outcome(read_choice, answer, 4)
        outcome(read_label, answer, ("yes", "no"))
        read_json(answer, "events")
    assert time.process_time() - start < 20


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


def test_answers_come_back_from_the_cache_as_they_were() -> None:
    answer = Answer("a $62$", tokens("a $", ("62", {"62": 0.5, "60": 0.5}), "$"), truncated=True, used=(3, 4))
    again = Answer.from_json(answer.to_json())
    assert again == answer and read_marked_score(answer) == (pytest.approx(61.0), True)


AS_RELEASED = {  # "A" is a word in the first, as the released code reads it
    "A dog is on it, so B": 0, "<think>C</think>Answer: b": 1, "Answer: B\nD": 3, "E, or 2": 1, "none": None, "": None,
}  # fmt: skip


@pytest.mark.parametrize(("text", "choice"), AS_RELEASED.items())
def test_choices_as_released(text: str, choice: int | None) -> None:
    assert read_choice_as_released(Answer(text), 4) == choice
