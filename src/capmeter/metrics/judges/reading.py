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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from rapidfuzz.distance import Levenshtein

from capmeter.captions.rows import is_finite
from capmeter.metrics.judges.asking import Answer, Failure

REFUSED, UNREADABLE, TRUNCATED = "refused", "no score in the answer", "answer truncated before its score"
NO_ANSWER, NO_QUESTIONS = "no answer", "no questions about this image"
PLAIN, UNANSWERED = "no probabilities: the number as written", "some questions without a readable answer"
SOLE = "answer"  # the label of a judge's only question
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Value = TypeVar("Value")
_REFUSAL = re.compile(
    r"\b(i'?m sorry|i am sorry|sorry|i (can(no|')t|am unable|won'?t)|unable to (help|assist|comply)|as an ai)\b", re.I
)
_NUMBER = re.compile(r"(?<![\d.])\d+(?:\.\d+)?(?!\d)")
_MARKED = re.compile(r"\$\s*\{{0,2}\s*(\d+(?:\.\d+)?)\s*\}{0,2}\s*\$")
_LABELLED = re.compile(r"\banswer(?: is)?[ \t]*:?\s{0,3}[(*\"']{0,3}([A-Z])\b", re.IGNORECASE)
_ALONE = re.compile(r"^[(*\"'\[ ]{0,4}([A-Za-z])[).:*\"'\] ]{0,4}$", re.MULTILINE)  # a letter on a line of its own
_LETTER = re.compile(r"(?<![\w'])([B-HJ-Z])(?![\w'])|(?<![\w'])([AI])(?=[).:,*]|\s*$)")  # A and I are words too
_GIVEN = (  # where an open answer is
    re.compile(r"\\boxed\{([^{}\n]{1,400})\}"),
    re.compile(r"\banswer(?: is)?[ \t]*:[ \t]*([^\n]{1,400})", re.IGNORECASE),
    re.compile(r"<answer>([^<]{1,1000})</answer>", re.IGNORECASE),
)
_THOUGHT = "</think>"
_MAX_OBJECTS = 50  # starts of JSON objects or lists that are tried
_MAX_DIGITS = 3
_TOLERANCE, _SIMILAR = 0.05, 0.5


class NoScore(Exception):
    """An answer, or a caption, has no score; the text says why."""


def read_text(answer: Answer) -> str:
    """The answer without what the model thought."""
    return answer.text[_start(answer) :].strip()


def unreadable(answer: Answer) -> NoScore:
    """Why an answer without what is expected has none."""
    if isinstance(answer, Failure):
        return NoScore(NO_ANSWER)
    start = _start(answer)
    if answer.refused or _REFUSAL.search(answer.text[start : start + 200]):
        return NoScore(REFUSED)
    return NoScore(TRUNCATED if answer.truncated else UNREADABLE)


def read_each(
    answers: Sequence[Answer],
    read: Callable[[Answer], Value] | Sequence[Callable[[Answer], Value]],
) -> list[Value | None]:
    """What each answer says; None for those that cannot be read.

    Args:
        answers: to several questions.
        read: what reads an answer; or one for each answer.

    Raises:
        NoScore: none can be read; the reason of the first that was answered.
    """
    values: list[Value | None] = []
    reasons: list[NoScore] = []
    for answer, read_one in zip(answers, [read] * len(answers) if callable(read) else read, strict=True):
        try:
            values.append(read_one(answer))
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
    value = _score_field(answer.text)
    if value is None:
        number_match = _NUMBER.search(answer.text, _start(answer))
        if str(unreadable(answer)) == REFUSED or number_match is None:
            raise unreadable(answer)
        value = float(number_match[0])
        value = 100 * value if value < 1 else value
    if not max(low, 0) <= value <= min(high, 100):
        raise unreadable(answer)
    return value, True


def read_smoothed_share(answer: Answer, low: int = 0, high: int = 1) -> tuple[float, bool]:
    """FLEUR's score, 0 to 1, and whether it is smoothed.

    With p_k(d) the probability of digit d at the k-th decimal: Σ d p_1(d) / 10 + Σ d p_2(d) / 100, the second if there
    is one; for an answer of 1: .9 p(0) + p(1) at its first token. Without probabilities the number as written.

    Args:
        answer, low, high: the answer, and the least and the greatest number that it may give.
    """
    number_match = _first_number(answer)
    value = float(number_match[0])
    if not low <= value <= high:
        raise NoScore(UNREADABLE)
    if value == high:
        token = _number_at(answer, number_match.start())
        if token is None:
            return value, False
        probabilities = _of_length(token[1], 1)
        return 0.9 * probabilities.get("0", 0.0) + probabilities.get("1", 0.0), True
    _, point, decimals = number_match[0].partition(".")
    decimal_start, score, position = number_match.end() - len(decimals), 0.0, 0
    while point and position < min(2, len(decimals)):
        token = _number_at(answer, decimal_start + position)
        if token is None:  # without probabilities, or digits that cannot be separated
            return value, False
        digit_count = len(token[0])
        expectation = sum(int(digits) * p for digits, p in _of_length(token[1], digit_count).items())
        score += expectation / 10 ** (position + digit_count)
        position += digit_count
    return (score, True) if position else (value, False)


def read_marked_score(answer: Answer, low: int = 0, high: int = 100) -> tuple[float, bool]:
    """G-VEval's score, 0 to 100, and whether it is an expectation.

    The expectation over the integers from 0 to 100 among the alternatives of the token after the dollar sign, in
    proportion to their probabilities; without probabilities the number between dollar signs.

    Args:
        answer, low, high: the answer, and the least and the greatest number that it may give.
    """
    marked_number = next(iter([*_MARKED.finditer(answer.text, _start(answer))][-1:]), None)
    if answer.refused or marked_number is None:
        raise unreadable(answer)
    return _expectation(answer, marked_number[1], marked_number.start(1), low, high)


def read_expectation(answer: Answer, low: int, high: int) -> tuple[float, bool]:
    """The expectation over the integers from `low` to `high` where the answer's first number is, and whether it is one.

    Without probabilities the number as written.

    Args:
        answer, low, high: the answer, and the least and the greatest number that it may give.
    """
    number_match = _first_number(answer)
    return _expectation(answer, number_match[0], number_match.start(), low, high)


NUMBERS = {
    "number": read_number,
    "expectation": read_expectation,
    "smoothed": read_smoothed_share,
    "marked": read_marked_score,
}
"""What reads a number between two, and whether it is as published, by the name in task files."""


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


def read_choice_as_released(answer: Answer, options: int) -> int | None:
    """The choice as CaptionQA's released code reads it: the first single letter, A and I too, else a number from 1.

    It looks after the first `</think>`, the first "Answer: " and the first line break, if there are any. None if there
    is no choice, which that code counts as wrong.
    """
    if isinstance(answer, Failure):
        raise unreadable(answer)
    text = answer.text
    for mark in (_THOUGHT, "Answer: ", "\n"):
        text = text.partition(mark)[2] if mark in text else text
    letter_match = re.search(r"\b([A-Z])\b", text.upper())
    if letter_match is not None and LETTERS.index(letter_match[1]) < options:
        return LETTERS.index(letter_match[1])
    number_match = re.search(r"\b([1-9][0-9]?)\b", text)
    return int(number_match[1]) - 1 if number_match is not None and int(number_match[1]) <= options else None


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


def read_json(answer: Answer, key: str) -> Any:
    """The value under a key of the first JSON object of the answer that has it; None without one."""
    return next((each[key] for each in _json_objects(answer.text) if isinstance(each, dict) and key in each), None)


def read_texts(answer: Answer, key: str) -> list[str]:
    """The texts in the list under a key."""
    listed_texts = read_json(answer, key)
    if not isinstance(listed_texts, list) or not all(isinstance(value, str) for value in listed_texts):
        raise unreadable(answer)
    return [" ".join(value.split()) for value in listed_texts if value.strip()]


def read_match(answer: Answer, expected: str, choices: Sequence[str], match: str) -> float:
    """CapRL-QA: the credit of an answer, 0 to 1.

    Args:
        answer: to a question.
        expected: the right answer.
        choices: of the question, if it has any.
        match: `exact`, `relaxed` (numbers within 5 %) or `anls` (relaxed, or similar).

    >>> read_match(Answer("so it is \\\\boxed{41}"), "40", (), "relaxed")
    1.0
    """
    expected = expected.strip().strip("$")
    options = [choice.strip() for choice in choices]
    if options or re.fullmatch(r"[A-Za-z]", expected):
        right_choice = options.index(expected) if expected in options else LETTERS.find(expected.upper())
        return float(read_choice(answer, len(options) or len(LETTERS)) == right_choice)
    text = read_text(answer)
    given = next((matches[-1][1] for pattern in _GIVEN if (matches := [*pattern.finditer(text)])), None)
    response = (text if given is None else given).strip().strip("$*. ")
    is_long = given is None and (len(text) > 200 or str(unreadable(answer)) == REFUSED)
    if answer.refused or not response or is_long:
        raise unreadable(answer)
    plain_response, plain_expected = (" ".join(each.lower().split()) for each in (response, expected))
    if plain_response == plain_expected:
        return 1.0
    if match == "exact":
        return 0.0
    if _is_close(response, expected):
        return 1.0
    similarity = Levenshtein.normalized_similarity(plain_response, plain_expected)
    return similarity if match == "anls" and similarity >= _SIMILAR else 0.0


def _is_close(response: str, expected: str) -> bool:
    """Whether two numbers differ by at most 5 % of the second, where the first may be a percentage or a share."""
    response_number, expected_number = (_parse_number(text) for text in (response, expected))
    if response_number is None or not expected_number:
        return False
    return any(
        abs(scale * response_number - expected_number) <= _TOLERANCE * abs(expected_number) for scale in (1, 0.01, 100)
    )


def number_probabilities(alternatives: Mapping[str, float]) -> dict[str, float]:
    """The probabilities of the alternatives that are short numbers, without surrounding spaces.

    Args:
        alternatives: of a token, with their log-probabilities; that of minus infinity is a probability of 0.

    Raises:
        ValueError: a log-probability is NaN or infinite.
    """
    probabilities: dict[str, float] = {}
    for text, log_probability in alternatives.items():
        if math.isnan(log_probability) or log_probability == math.inf:
            raise ValueError("a log-probability is not finite")
        digits = text.strip()
        if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS and log_probability > -math.inf:
            probabilities[digits] = probabilities.get(digits, 0.0) + math.exp(min(log_probability, 0.0))
    return probabilities


def _start(answer: Answer) -> int:
    """The position after the model's thoughts."""
    thought_end = answer.text.rfind(_THOUGHT)
    return 0 if thought_end < 0 else thought_end + len(_THOUGHT)


def _parse_number(text: str) -> float | None:
    match = re.fullmatch(r"([-+]?\d{1,15}(?:\.\d{1,15})?)(%?)", text.strip().replace(",", ""))
    return None if match is None else float(match[1]) / (100 if match[2] else 1)


def _first_number(answer: Answer) -> re.Match[str]:
    number_match = _NUMBER.search(answer.text, _start(answer))
    if answer.refused or number_match is None:
        raise unreadable(answer)
    return number_match


def _expectation(answer: Answer, written: str, start: int, low: int, high: int) -> tuple[float, bool]:
    value = float(written)
    if not low <= value <= high:
        raise NoScore(UNREADABLE)
    token = _number_at(answer, start)
    probabilities = {} if token is None else _at_most_1(token[1])
    probabilities = {
        digits: p for digits, p in probabilities.items() if low <= int(digits) <= high and str(int(digits)) == digits
    }
    total = sum(probabilities.values())
    if token is None or token[0] != written or total <= 0:  # a number of several tokens has no distribution
        return value, False
    return sum(int(digits) * p for digits, p in probabilities.items()) / total, True


def _score_field(text: str) -> float | None:
    """The number under "score" in the first JSON object of the text that has one, NaN if it is none; None without."""
    for json_object in _json_objects(text):
        if isinstance(json_object, dict) and "score" in json_object:
            score = json_object["score"]
            if isinstance(score, str):  # such as "85/100"
                written_number = re.match(r"\s*-?\d+(?:\.\d+)?(?!\d)", score)
                return float(written_number[0]) if written_number else math.nan
            return float(score) if is_finite(score) else math.nan
    return None


def _json_objects(text: str) -> Iterator[Any]:
    """The JSON objects that start at the first opening braces of the answer."""
    position = _start(Answer(text)) - 1
    for _ in range(_MAX_OBJECTS):
        position = text.find("{", position + 1)
        if position < 0:
            return
        with suppress(ValueError, RecursionError):
            yield json.JSONDecoder().raw_decode(text, position)[0]


def _number_at(answer: Answer, position: int) -> tuple[str, Mapping[str, float]] | None:
    """The number that is the token at this position, with the probabilities there."""
    for token in answer.numbers:
        if token.start <= position < token.end:
            return answer.text[token.start : token.end].strip(), token.probabilities
    return None


def _of_length(probabilities: Mapping[str, float], length: int) -> dict[str, float]:
    """Those of numbers with this many digits."""
    return _at_most_1({digits: p for digits, p in probabilities.items() if len(digits) == length})


def _at_most_1(probabilities: Mapping[str, float]) -> dict[str, float]:
    """The probabilities, divided by their sum if that is more than 1."""
    total = sum(probabilities.values())
    return {digits: p / total for digits, p in probabilities.items()} if total > 1 else dict(probabilities)
