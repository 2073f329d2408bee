"""What answers say, as papers read them: FLEUR's and G-VEval's numbers, CaptionQA's letters, CapRL's answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rapidfuzz.distance import Levenshtein

from capmeter.metrics.judges.asking import Answer, Failure
from capmeter.metrics.judges.reading import (
    LETTERS,
    REFUSED,
    THOUGHT_END,
    UNREADABLE,
    NoScore,
    find_number,
    find_number_token,
    find_start,
    read_choice,
    read_expectation,
    read_json,
    read_text,
    scale_to_1,
    unreadable,
)

_MARKED = re.compile(r"\$\s*\{{0,2}\s*(\d+(?:\.\d+)?)\s*\}{0,2}\s*\$")
_GIVEN = (  # where an open answer is
    re.compile(r"\\boxed\{([^{}\n]{1,400})\}"),
    re.compile(r"\banswer(?: is)?[ \t]*:[ \t]*([^\n]{1,400})", re.IGNORECASE),
    re.compile(r"<answer>([^<]{1,1000})</answer>", re.IGNORECASE),
)
_TOLERANCE, _SIMILAR = 0.05, 0.5


def read_smoothed_share(answer: Answer) -> tuple[float, bool]:
    """FLEUR's score, 0 to 1, and whether it is smoothed.

    With p_k(d) the probability of digit d at the k-th decimal: Σ d p_1(d) / 10 + Σ d p_2(d) / 100, the second if there
    is one; for an answer of 1: .9 p(0) + p(1) at its first token. Without probabilities the number as written.
    """
    number_match = find_number(answer)
    value = float(number_match[0])
    if value > 1:
        raise NoScore(UNREADABLE)
    if value == 1:
        token = find_number_token(answer, number_match.start())
        if token is None:
            return value, False
        probabilities = _of_length(token[1], 1)
        return 0.9 * probabilities.get("0", 0.0) + probabilities.get("1", 0.0), True
    _, point, decimals = number_match[0].partition(".")
    decimal_start, score, position = number_match.end() - len(decimals), 0.0, 0
    while point and position < min(2, len(decimals)):
        token = find_number_token(answer, decimal_start + position)
        if token is None:  # without probabilities, or digits that cannot be separated
            return value, False
        digit_count = len(token[0])
        expectation = sum(int(digits) * p for digits, p in _of_length(token[1], digit_count).items())
        score += expectation / 10 ** (position + digit_count)
        position += digit_count
    return (score, True) if position else (value, False)


def read_marked_score(answer: Answer) -> tuple[float, bool]:
    """G-VEval's score, 0 to 100, and whether it is an expectation.

    The expectation over the integers from 0 to 100 among the alternatives of the token after the dollar sign, in
    proportion to their probabilities; without probabilities the number between dollar signs.
    """
    marked_number = next(iter([*_MARKED.finditer(answer.text, find_start(answer))][-1:]), None)
    if answer.refused or marked_number is None:
        raise unreadable(answer)
    return read_expectation(answer, 0, 100, marked_number)


def read_choice_as_released(answer: Answer, options: int) -> int | None:
    """The choice as CaptionQA's released code reads it: the first single letter, A and I too, else a number from 1.

    It looks after the first `</think>`, the first "Answer: " and the first line break, if there are any. None if there
    is no choice, which that code counts as wrong.
    """
    if isinstance(answer, Failure):
        raise unreadable(answer)
    text = answer.text
    for mark in (THOUGHT_END, "Answer: ", "\n"):
        text = text.partition(mark)[2] if mark in text else text
    letter_match = re.search(r"\b([A-Z])\b", text.upper())
    if letter_match is not None and LETTERS.index(letter_match[1]) < options:
        return LETTERS.index(letter_match[1])
    number_match = re.search(r"\b([1-9][0-9]?)\b", text)
    return int(number_match[1]) - 1 if number_match is not None and int(number_match[1]) <= options else None


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


def _parse_number(text: str) -> float | None:
    match = re.fullmatch(r"([-+]?\d{1,15}(?:\.\d{1,15})?)(%?)", text.strip().replace(",", ""))
    return None if match is None else float(match[1]) / (100 if match[2] else 1)


def _of_length(probabilities: Mapping[str, float], length: int) -> dict[str, float]:
    """Those of numbers with this many digits."""
    return scale_to_1({digits: p for digits, p in probabilities.items() if len(digits) == length})
