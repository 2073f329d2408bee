"""What a judge's answer says: a number, a choice, labels, JSON, or an expectation over the numbers that it could say.

What cannot be read raises `NoScore` with a reason, under which the caption is listed. It never scores 0. What a model
thinks before `</think>` is not part of its answer.

>>> read_number(Answer('{"score": 85, "reason": "both say so"}'))
(85.0, True)
>>> read_number(Answer("I'm sorry, but I can't help with that."))
Traceback (most recent call last):
capmeter.metrics.judges.reading.NoScore: refused
>>> read_choice(Answer("Answer: (B)"), 4), read_label(Answer("Not mentioned."), ("yes", "no", "not_mentioned"))
(1, 'not_mentioned')
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from capmeter.captions.rows import is_finite
from capmeter.metrics.judges.asking import Answer, Failure

REFUSED, UNREADABLE, TRUNCATED = "refused", "no score in the answer", "answer truncated before its score"
NO_ANSWER, NO_QUESTIONS = "no answer", "no questions about this image"
PLAIN, UNANSWERED = "no probabilities: the number as written", "some questions without a readable answer"
SOLE = "answer"  # the label of a judge's only question
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Answered = TypeVar("Answered")
Value = TypeVar("Value")
_REFUSAL = re.compile(
    r"\b(i'?m sorry|i am sorry|sorry|i (can(no|')t|am unable|won'?t)|unable to (help|assist|comply)|as an ai)\b", re.I
)
_NUMBER = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)(?!\d)")
_LABELLED = re.compile(r"\banswer(?: is)?[ \t]*:?\s{0,3}[(*\"']{0,3}([A-Z])\b", re.IGNORECASE)
_ALONE = re.compile(r"^[(*\"'\[ ]{0,4}([A-Za-z])[).:*\"'\] ]{0,4}$", re.MULTILINE)  # a letter on a line of its own
_LETTER = re.compile(r"(?<![\w'])([B-HJ-Z])(?![\w'])|(?<![\w'])([AI])(?=[).:,*]|\s*$)")  # A and I are words too
THOUGHT_END = "</think>"
_MAX_OBJECTS = 50  # starts of JSON objects or lists that are tried
_MAX_DIGITS = 3
_ABSENT = object()


class NoScore(Exception):
    """An answer, or a caption, has no score; the text says why."""


def read_text(answer: Answer) -> str:
    """The answer without what the model thought."""
    return answer.text[find_start(answer) :].strip()


def unreadable(answer: Answer) -> NoScore:
    """Why an answer without what is expected has none."""
    if isinstance(answer, Failure):
        return NoScore(NO_ANSWER)
    start = find_start(answer)
    if answer.refused or _REFUSAL.search(answer.text[start : start + 200]):
        return NoScore(REFUSED)
    return NoScore(TRUNCATED if answer.truncated else UNREADABLE)


def read_each(answers: Sequence[Answered], read: Callable[[Answered], Value]) -> list[Value | None]:
    """What each answer says; None for those that cannot be read.

    Args:
        answers: to several questions, maybe with what was asked.
        read: what reads an answer.

    Raises:
        NoScore: none can be read; the reason of the first that was answered.
    """
    values: list[Value | None] = []
    reasons: list[NoScore] = []
    for answer in answers:
        try:
            values.append(read(answer))
        except NoScore as reason:
            reasons.append(reason)
            values.append(None)
    if len(reasons) == len(answers):
        raise next((each for each in reasons if str(each) != NO_ANSWER), NoScore(NO_ANSWER))
    return values


def read_number(answer: Answer, low: int = 0, high: int = 100) -> tuple[float, bool]:
    """The number under "score" in the first JSON object, else the first number of the answer; always as published.

    As in CLAIR's released code, a number below 1 outside JSON is a share of 100.

    Args:
        answer, low, high: the answer, and the least and the greatest number that it may give.
    """
    score = read_json(answer, "score", _ABSENT)
    if isinstance(score, str):  # such as "85/100"
        written_number = re.match(r"\s*-?\d+(?:\.\d+)?(?!\d)", score)
        score = float(written_number[0]) if written_number else math.nan
    if score is not _ABSENT:
        value = float(score) if is_finite(score) else math.nan
    else:
        value = float(find_number(answer)[0])
        if str(unreadable(answer)) == REFUSED:
            raise NoScore(REFUSED)
        value = 100 * value if value < 1 else value
    if not max(low, 0) <= value <= min(high, 100):
        raise unreadable(answer)
    return value, True


def read_expectation(answer: Answer, low: int, high: int, number: re.Match[str] | None = None) -> tuple[float, bool]:
    """The expectation over the integers from `low` to `high` where a number of the answer is, and whether it is one.

    Without probabilities the number as written.

    Args:
        answer, low, high: the answer, and the least and the greatest number that it may give.
        number: where the number is, as group 1; None: the first one.
    """
    number = number or find_number(answer)
    value = float(number[1])
    if not low <= value <= high:
        raise NoScore(UNREADABLE)
    token = find_number_token(answer, number.start(1))
    probabilities = {} if token is None else scale_to_1(token[1])
    probabilities = {
        digits: p for digits, p in probabilities.items() if low <= int(digits) <= high and str(int(digits)) == digits
    }
    total = sum(probabilities.values())
    if token is None or token[0] != number[1] or total <= 0:  # a number of several tokens has no distribution
        return value, False
    return sum(int(digits) * p for digits, p in probabilities.items()) / total, True


def read_choice(answer: Answer, options: int) -> int:
    """Which of a number of lettered options the answer chooses, from 0.

    The letter after the last "answer:" or in `\\boxed{}`, else a letter on a line of its own, else the first single
    letter, else a number from 1.
    """
    text = read_text(answer)
    boxed_letter = re.search(r"\\boxed\{\s*\(?([A-Za-z])\b", text)
    labelled_letters = [*_LABELLED.finditer(text)]
    letter_match = boxed_letter or (labelled_letters[-1] if labelled_letters else None) or _ALONE.search(text)
    if letter_match is None and str(unreadable(answer)) == REFUSED:
        raise NoScore(REFUSED)
    letter_match = letter_match or _LETTER.search(text)
    if letter_match is not None:
        chosen_option = LETTERS.find((letter_match[1] or letter_match[2]).upper())
        if chosen_option >= options:
            raise NoScore(UNREADABLE)
        return chosen_option
    number_match = re.fullmatch(r"[\s(]*(\d{1,2})[\s).]*", text)
    if number_match is None or not 1 <= int(number_match[1]) <= options:
        raise unreadable(answer)
    return int(number_match[1]) - 1


def read_label(answer: Answer, labels: Sequence[str]) -> str:
    """The label with which the answer begins, or the only one in it."""
    label = match_label(read_text(answer), labels)
    if label is None:
        raise unreadable(answer)
    return label


def match_label(text: str, labels: Sequence[str]) -> str | None:
    """The label that a text begins with, or the only one that it contains; blanks stand for underscores.

    >>> match_label("No, it does not.", ("yes", "no", "not_mentioned"))
    'no'
    """
    plain_text = re.sub(r"[\s_\-]+", "_", text.strip().lower()).strip("_*\"'`.([{:")
    ordered_labels = sorted(labels, key=len, reverse=True)
    for label in ordered_labels:
        if re.match(rf"{re.escape(label)}(?![a-z0-9])", plain_text):
            return label
    inside = [
        label for label in ordered_labels if re.search(rf"(?<![a-z0-9]){re.escape(label)}(?![a-z0-9])", plain_text)
    ]
    inside = [
        label for label in inside if not any(label != other_label and label in other_label for other_label in inside)
    ]
    return inside[0] if len(inside) == 1 else None


def read_json(answer: Answer, key: str, default: Any = None) -> Any:
    """The value under a key of the first JSON object of the answer that has it.

    Args:
        answer: of which the objects that start at the first opening braces are read.
        key: of the value.
        default: the value without one.
    """
    position = find_start(answer) - 1
    for _ in range(_MAX_OBJECTS):
        position = answer.text.find("{", position + 1)
        if position < 0:
            break
        with suppress(ValueError, RecursionError):
            json_object = json.JSONDecoder().raw_decode(answer.text, position)[0]
            if isinstance(json_object, dict) and key in json_object:
                return json_object[key]
    return default


def number_probabilities(alternatives: Mapping[str, float]) -> dict[str, float]:
    """The probabilities of the alternatives that are short numbers, without surrounding spaces.

    Args:
        alternatives: of a token, with their log-probabilities; that of minus infinity is a probability of 0.
    """
    probabilities: dict[str, float] = {}
    for text, log_probability in alternatives.items():
        digits = text.strip()
        if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS and log_probability > -math.inf:
            probabilities[digits] = probabilities.get(digits, 0.0) + math.exp(min(log_probability, 0.0))
    return probabilities


def find_start(answer: Answer) -> int:
    """The position of the answer after the model's thoughts."""
    thought_end = answer.text.rfind(THOUGHT_END)
    return 0 if thought_end < 0 else thought_end + len(THOUGHT_END)


def find_number(answer: Answer) -> re.Match[str]:
    """The first number of the answer, as group 1; `NoScore` without one."""
    number_match = _NUMBER.search(answer.text, find_start(answer))
    if answer.refused or number_match is None:
        raise unreadable(answer)
    return number_match


def find_number_token(answer: Answer, position: int) -> tuple[str, Mapping[str, float]] | None:
    """The number that is the token at this position, with the probabilities there; None without any.

    Args:
        answer: whose tokens have probabilities.
        position: in its text.
    """
    for token in answer.numbers:
        if token.start <= position < token.end:
            return answer.text[token.start : token.end].strip(), token.probabilities
    return None


def scale_to_1(probabilities: Mapping[str, float]) -> dict[str, float]:
    """The probabilities, divided by their sum if that is more than 1."""
    total = sum(probabilities.values())
    return {digits: p / total for digits, p in probabilities.items()} if total > 1 else dict(probabilities)
