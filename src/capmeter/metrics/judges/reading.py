"""What a judge's answer says: a number, a choice, labels, JSON, or an expectation over the alternatives of its tokens.

An answer that cannot be read gives a reason instead, under which its caption is listed. It never scores 0. What a model
thinks before `</think>` is not part of its answer.

>>> score_in_json(Answer('{"score": 85, "reason": "both say so"}'))
0.85
>>> score_in_json(Answer("I'm sorry, but I can't help with that."))
'refused'
>>> read_choice(Answer("Answer: (B)"), 4), read_label(Answer("Not mentioned."), ("yes", "no", "not_mentioned"))
(1, 'not_mentioned')
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

from capmeter.captions.rows import is_finite
from capmeter.metrics.judges.answers import Answer, Token

REFUSED, UNREADABLE, TRUNCATED = "refused", "no score in the answer", "answer truncated before its score"
_REFUSAL = re.compile(
    r"\b(i'?m sorry|i am sorry|sorry|i (can(no|')t|am unable|won'?t)|unable to (help|assist|comply)|as an ai)\b", re.I
)
_NUMBER = re.compile(r"(?<![\d.])\d+(?:\.\d+)?(?!\d)")
_MARKED = re.compile(r"\$\s*\{{0,2}\s*(\d+(?:\.\d+)?)\s*\}{0,2}\s*\$")
_LABELLED = re.compile(r"\banswer(?: is)?[ \t]*:?\s{0,3}[(*\"']{0,3}([A-Z])\b", re.IGNORECASE)
_ALONE = re.compile(r"^[(*\"'\[ ]{0,4}([A-Za-z])[).:*\"'\] ]{0,4}$", re.MULTILINE)  # a letter on a line of its own
_LETTER = re.compile(r"(?<![\w'])([B-HJ-Z])(?![\w'])|(?<![\w'])([AI])(?=[).:,*]|\s*$)")  # A and I are words too
_THOUGHT = "</think>"
_MAX_OBJECTS = 50  # starts of JSON objects or lists that are tried
_MAX_DIGITS = 3
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def answer_start(text: str) -> int:
    """The position after the model's thoughts."""
    thought_end = text.rfind(_THOUGHT)
    return 0 if thought_end < 0 else thought_end + len(_THOUGHT)


def missing_reason(answer: Answer) -> str:
    """Why an answer without what is expected has none."""
    start = answer_start(answer.text)
    if answer.refused or _REFUSAL.search(answer.text[start : start + 200]):
        return REFUSED
    return TRUNCATED if answer.finish == "length" else UNREADABLE


def score_in_json(answer: Answer) -> float | str:
    """CLAIR's score, 0 to 1, or the reason why there is none.

    The number under "score" in the first JSON object, else the first number of the answer; of 0 to 100, divided by 100.
    As in the released code, a number below 1 outside JSON is a share.
    """
    value = _score_field(answer.text)
    if value is None:
        if (reason := missing_reason(answer)) == REFUSED:
            return REFUSED
        number_match = _NUMBER.search(answer.text, answer_start(answer.text))
        if number_match is None:
            return reason
        value = float(number_match[0])
        value = 100 * value if value < 1 else value
    return value / 100 if 0 <= value <= 100 else missing_reason(answer)


def smoothed_share(answer: Answer) -> tuple[float, bool] | str:
    """FLEUR's score, 0 to 1, and whether it is smoothed; or the reason why there is none.

    With p_k(d) the probability of digit d at the k-th decimal: Σ d p_1(d) / 10 + Σ d p_2(d) / 100, the second if there
    is one; for an answer of 1: .9 p(0) + p(1) at its first token. Without probabilities the number as written.
    """
    number_match = _NUMBER.search(answer.text, answer_start(answer.text))
    if answer.refused or number_match is None:
        return missing_reason(answer)
    value = float(number_match[0])
    if not 0 <= value <= 1:
        return UNREADABLE
    token_starts = _token_starts(answer.tokens)
    if value == 1:
        token = _token_at(answer.tokens, token_starts, number_match.start())
        if token is None:
            return value, False
        probabilities = _digit_probabilities(token.alternatives, 1)
        return 0.9 * probabilities.get("0", 0.0) + probabilities.get("1", 0.0), True
    _, point, decimals = number_match[0].partition(".")
    decimal_start, score, position = number_match.end() - len(decimals), 0.0, 0
    while point and position < min(2, len(decimals)):
        token = _token_at(answer.tokens, token_starts, decimal_start + position)
        if token is None:
            return value, False
        digit_count = len(token.text.strip())
        if not token.text.strip().isdigit() or digit_count > _MAX_DIGITS:  # digits that cannot be separated
            return value, False
        alternatives = _digit_probabilities(token.alternatives, digit_count).items()
        expectation = sum(int(digits) * p for digits, p in alternatives)
        score += expectation / 10 ** (position + digit_count)
        position += digit_count
    return (score, True) if position else (value, False)


def expected_score(answer: Answer) -> tuple[float, bool] | str:
    """G-VEval's score, 0 to 100, and whether it is an expectation; or the reason why there is none.

    The expectation over the integers from 0 to 100 among the alternatives of the token after the dollar sign, in
    proportion to their probabilities; without probabilities the number between dollar signs.
    """
    marked_number = next(iter([*_MARKED.finditer(answer.text, answer_start(answer.text))][-1:]), None)
    if answer.refused or marked_number is None:
        return missing_reason(answer)
    return _expectation(answer, marked_number[1], marked_number.start(1), 0, 100)


def expected_number(answer: Answer, low: int, high: int) -> tuple[float, bool] | str:
    """The expectation over the integers from `low` to `high` where the answer's first number is, and whether it is one.

    Without probabilities the number as written; without a number the reason.
    """
    number_match = _NUMBER.search(answer.text, answer_start(answer.text))
    if answer.refused or number_match is None:
        return missing_reason(answer)
    return _expectation(answer, number_match[0], number_match.start(), low, high)


def read_choice(answer: Answer, options: int) -> int | str:
    """Which of a number of lettered options the answer chooses, from 0; or the reason why none.

    The letter after the last "answer:" or in `\\boxed{}`, else the first single letter, else a number from 1.
    """
    answer_text = answer.text[answer_start(answer.text) :]
    boxed_letter = re.search(r"\\boxed\{\s*\(?([A-Za-z])\b", answer_text)
    labelled_letters = [*_LABELLED.finditer(answer_text)]
    letter_match = boxed_letter or (labelled_letters[-1] if labelled_letters else None) or _ALONE.search(answer_text)
    if letter_match is None and (reason := missing_reason(answer)) == REFUSED:
        return reason
    letter_match = letter_match or _LETTER.search(answer_text)
    if letter_match is not None:
        chosen_option = LETTERS.find((letter_match[1] or letter_match[2]).upper())
        return chosen_option if chosen_option < options else UNREADABLE
    number_match = re.fullmatch(r"[\s(]*(\d{1,2})[\s).]*", answer_text)
    if number_match is not None and 1 <= int(number_match[1]) <= options:
        return int(number_match[1]) - 1
    return missing_reason(answer)


def read_label(answer: Answer, labels: Sequence[str]) -> str | None:
    """The label with which the answer begins, or the only one in it; None if there is none."""
    return match_label(answer.text[answer_start(answer.text) :], labels)


def match_label(text: str, labels: Sequence[str]) -> str | None:
    """The label that a text begins with, or the only one that it contains; blanks stand for underscores.

    >>> match_label("No, it does not.", ("yes", "no", "not_mentioned"))
    'no'
    """
    plain_text = re.sub(r"[\s_\-]+", "_", text.strip().lower())
    plain_text = plain_text.strip("_*\"'`.([{:")
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
    for json_object in _json_objects(answer.text):
        if isinstance(json_object, dict) and key in json_object:
            return json_object[key]
    return None


def read_texts(answer: Answer, key: str) -> list[str] | str:
    """The texts in the list under a key, or the reason why there are none."""
    listed_texts = read_json(answer, key)
    if not isinstance(listed_texts, list) or not all(isinstance(value, str) for value in listed_texts):
        return missing_reason(answer)
    return [" ".join(value.split()) for value in listed_texts if value.strip()]


def _expectation(answer: Answer, written: str, start: int, low: int, high: int) -> tuple[float, bool] | str:
    value = float(written)
    if not low <= value <= high:
        return UNREADABLE
    token = _token_at(answer.tokens, _token_starts(answer.tokens), start)
    probabilities = {} if token is None else _digit_probabilities(token.alternatives)
    probabilities = {
        digits: p for digits, p in probabilities.items() if low <= int(digits) <= high and str(int(digits)) == digits
    }
    total = sum(probabilities.values())
    if token is None or token.text.strip() != written or total <= 0:  # a number of several tokens has no distribution
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
    position = answer_start(text) - 1
    for _ in range(_MAX_OBJECTS):
        position = text.find("{", position + 1)
        if position < 0:
            return
        with suppress(ValueError, RecursionError):
            yield json.JSONDecoder().raw_decode(text, position)[0]


def _token_starts(tokens: tuple[Token, ...]) -> list[int]:
    """The position in the answer at which each token starts."""
    return list(accumulate((len(token.text) for token in tokens), initial=0))[:-1]


def _token_at(tokens: tuple[Token, ...], starts: list[int], position: int) -> Token | None:
    """The token with the character at this position, if its alternatives are known."""
    for token, token_start in zip(tokens, starts, strict=True):
        if token_start <= position < token_start + len(token.text):
            return token if token.alternatives else None
    return None


def _digit_probabilities(alternatives: Mapping[str, float], digit_count: int | None = None) -> dict[str, float]:
    """The probabilities of the alternatives that are short numbers, or of this many digits, without surrounding spaces.

    Alternatives with the same digits are added; probabilities that add up to more than 1 are divided by their sum.
    """
    probabilities: dict[str, float] = {}
    for alternative_text, log_probability in alternatives.items():
        digits = alternative_text.strip()
        if (
            digits.isascii()
            and digits.isdigit()
            and len(digits) in ((digit_count,) if digit_count else range(_MAX_DIGITS + 1))
        ):
            probabilities[digits] = probabilities.get(digits, 0.0) + math.exp(min(log_probability, 0.0))
    total = sum(probabilities.values())
    return {digits: p / total for digits, p in probabilities.items()} if total > 1 else probabilities
