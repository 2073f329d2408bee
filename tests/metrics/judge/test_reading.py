"""Scores in judges' answers, by hand; answers without one have a reason and never a score of 0."""

from __future__ import annotations

import math
from typing import Any

import pytest

from capmeter.metrics.judge.answers import Answer, Token
from capmeter.metrics.judge.reading import CUT, REFUSED, UNREADABLE, expected_score, score_in_json, smoothed_share


def tokens(*parts: Any) -> tuple[Token, ...]:
    """Tokens with the probabilities of their alternatives; a bare text has only itself."""
    made = []
    for part in parts:
        text, chances = (part, {part: 1.0}) if isinstance(part, str) else part
        made.append(Token(text, {other: math.log(chance) for other, chance in chances.items()}))
    return tuple(made)


def scored(found: tuple[float, bool] | str) -> tuple[float, bool]:
    assert not isinstance(found, str), found
    return found


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('{"score": 85, "reason": "same"}', 0.85),
        ('Sure! ```json\n{"score": "70", "reason": "a {brace}"}\n``` done', 0.7),
        ('{"reason": "first"} {"score": 0, "reason": "other"}', 0.0),
        ("Score: 92.5 because both show a dog", 0.925),
        ("0.9", 0.9),  # the released code takes this as a share
        ('{"score": 0.5}', 0.005),  # and inside JSON as it is
        ('{"score": 101}', UNREADABLE),
        ('{"score": null}', UNREADABLE),
        ('{"score": NaN}', UNREADABLE),
        ("I'm sorry, but as an AI (GPT-4) I can't rate this.", REFUSED),
        ("no number here", UNREADABLE),
        ("", UNREADABLE),
    ],
)
def test_clair(text: str, score: Any) -> None:
    assert score_in_json(Answer(text)) == (pytest.approx(score) if isinstance(score, float) else score)


def test_an_answer_that_was_cut_says_so() -> None:
    assert score_in_json(Answer("The candidate set of captions", finish="length")) == CUT
    assert score_in_json(Answer("", refused=True)) == REFUSED


def test_fleur_is_the_expectation_over_both_digits() -> None:
    said = tokens("0", ".", ("8", {"8": 0.6, "9": 0.3, "7": 0.1}), ("5", {"5": 0.8, "0": 0.2}))
    # .1 (8 x .6 + 9 x .3 + 7 x .1) + .01 (5 x .8 + 0 x .2) = .82 + .04
    score, smoothed = scored(smoothed_share(Answer("0.85", said)))
    assert score == pytest.approx(0.86) and smoothed


def test_fleur_with_one_decimal_a_blank_and_other_tokens() -> None:
    said = tokens(" Score", ":", " ", "0", ".", (" 4".strip(), {"4": 0.5, "5": 0.25, "x": 0.25}), "</s>")
    score, smoothed = scored(smoothed_share(Answer(" Score: 0.4</s>", said)))
    assert score == pytest.approx(0.1 * (4 * 0.5 + 5 * 0.25)) and smoothed  # as released: not renormalised


def test_fleur_of_1_weighs_the_first_token() -> None:
    said = tokens(("1", {"1": 0.7, "0": 0.3}), ".", "0")
    assert smoothed_share(Answer("1.0", said)) == (pytest.approx(0.9 * 0.3 + 0.7), True)


def test_fleur_with_tokens_of_two_digits() -> None:
    said = tokens("0", ".", ("85", {"85": 0.5, "90": 0.5, "9": 0.1}))
    assert smoothed_share(Answer("0.85", said)) == (pytest.approx(0.875), True)


def test_fleur_without_probabilities_takes_the_number() -> None:
    assert smoothed_share(Answer("0.85")) == (0.85, False)
    assert smoothed_share(Answer("1")) == (1.0, False)
    assert smoothed_share(Answer("0")) == (0.0, False)
    assert smoothed_share(Answer("85")) == UNREADABLE
    assert smoothed_share(Answer("I cannot see the image.")) == REFUSED


def test_g_veval_is_the_expectation_over_whole_numbers() -> None:
    said = tokens("The final score is", " $", ("80", {"80": 0.5, "85": 0.3, "101": 0.1, "eighty": 0.1}), "$.")
    score, expectation = scored(expected_score(Answer("The final score is $80$.", said)))
    assert score == pytest.approx((80 * 0.5 + 85 * 0.3) / 0.8) and expectation


def test_g_veval_takes_the_last_marked_number() -> None:
    assert expected_score(Answer("It costs $5$. The final score is ${{62}}$.")) == (62.0, False)
    assert expected_score(Answer("The final score is 62.")) == UNREADABLE
    assert expected_score(Answer("The final score is $120$.")) == UNREADABLE
    split = tokens("$", ("6", {"6": 0.9, "7": 0.1}), "2", "$")  # one number over two tokens: no distribution
    assert expected_score(Answer("$62$", split)) == (62.0, False)


def test_answers_come_back_from_the_store_as_they_were() -> None:
    answer = Answer("a $62$", tokens("a $", ("62", {"62": 0.5, "60": 0.5}), "$"), finish="stop", used=(3, 4))
    again = Answer.from_dict(answer.to_dict())
    assert again is not None and again.text == answer.text and again.used == (3, 4)
    assert again.tokens[1].alternatives == pytest.approx(answer.tokens[1].alternatives, abs=1e-6)
    assert expected_score(again) == (pytest.approx(61.0), True)
    for damaged in (None, {}, {"text": 1}, {"text": "a", "tokens": [1], "refused": 0, "finish": "", "used": [1, 2]}):
        assert Answer.from_dict(damaged) is None
