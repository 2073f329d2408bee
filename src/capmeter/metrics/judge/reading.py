"""The score in a judge's answer: as it is written, or its expectation over the tokens that could stand in its place.

An answer without a score that can be read has a reason instead, under which its caption is listed. It never scores 0.

>>> score_in_json(Answer('{"score": 85, "reason": "both say so"}'))
0.85
>>> score_in_json(Answer("I'm sorry, but I can't help with that."))
'refused'
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from capmeter.metrics.judge.answers import Answer, Token

REFUSED, UNREADABLE, CUT = "refused", "no score in the answer", "answer cut before its score"
_REFUSAL = re.compile(
    r"\b(i'?m sorry|i am sorry|sorry|i (can(no|')t|am unable|won'?t)|unable to (help|assist|comply)|as an ai)\b", re.I
)
_NUMBER = re.compile(r"(?<![\d.])\d+(?:\.\d+)?(?!\d)")
_MARKED = re.compile(r"\$\s*\{{0,2}\s*(\d+(?:\.\d+)?)\s*\}{0,2}\s*\$")


def score_in_json(answer: Answer) -> float | str:
    """CLAIR's score, 0 to 1, or the reason why there is none.

    The number under "score" in the first JSON object, else the first number of the answer; of 0 to 100, divided by 100.
    As in the released code, a number below 1 outside JSON is taken as a share.
    """
    value = _in_object(answer.text)
    if value is None:
        if answer.refused or _REFUSAL.search(answer.text[:200]):
            return REFUSED
        number = _NUMBER.search(answer.text)
        if number is None:
            return _without(answer)
        value = float(number[0])
        value = 100 * value if value < 1 else value
    return value / 100 if 0 <= value <= 100 else UNREADABLE


def smoothed_share(answer: Answer) -> tuple[float, bool] | str:
    """FLEUR's score, 0 to 1, and whether it is smoothed; or the reason why there is none.

    With p_k(d) the probability of digit d at the k-th decimal: Σ d p_1(d) / 10 + Σ d p_2(d) / 100, the second if it was
    written; for an answer of 1: .9 p(0) + p(1) at its first token. Without probabilities the number as written.
    """
    number = _NUMBER.search(answer.text)
    if answer.refused or (number is None and _REFUSAL.search(answer.text[:200])):
        return REFUSED
    if number is None:
        return _without(answer)
    value = float(number[0])
    if not 0 <= value <= 1:
        return UNREADABLE
    starts = _starts(answer.tokens)
    if value == 1:
        token = _token_at(answer.tokens, starts, number.start())
        if token is None:
            return value, False
        chance = _digits(token.alternatives)
        return 0.9 * chance.get("0", 0.0) + chance.get("1", 0.0), True
    _, point, decimals = number[0].partition(".")
    place, score, read = number.end() - len(decimals), 0.0, 0
    while point and read < min(2, len(decimals)):
        token = _token_at(answer.tokens, starts, place + read)
        if token is None:
            return value, False
        own = token.text.strip()
        if not own.isdigit():  # the token holds the point too: digits cannot be told apart
            return value, False
        chance = {digits: p for digits, p in _digits(token.alternatives).items() if len(digits) == len(own)}
        score += sum(int(digits) * p for digits, p in chance.items()) / 10 ** (read + len(own))
        read += len(own)
    return (score, True) if read else (value, False)


def expected_score(answer: Answer) -> tuple[float, bool] | str:
    """G-VEval's score, 0 to 100, and whether it is an expectation; or the reason why there is none.

    The expectation over the whole numbers of 0 to 100 that could stand after the dollar sign, in proportion to their
    probabilities; without probabilities the number between dollar signs.
    """
    marked = next(iter([*_MARKED.finditer(answer.text)][-1:]), None)
    if answer.refused or (marked is None and _REFUSAL.search(answer.text[:200])):
        return REFUSED
    if marked is None:
        return _without(answer)
    value = float(marked[1])
    if not 0 <= value <= 100:
        return UNREADABLE
    token = _token_at(answer.tokens, _starts(answer.tokens), marked.start(1))
    chance = {} if token is None else _digits(token.alternatives)
    chance = {digits: p for digits, p in chance.items() if int(digits) <= 100 and str(int(digits)) == digits}
    whole = token is not None and token.text.strip() == marked[1]  # a number split over tokens has no such distribution
    total = sum(chance.values())
    if not whole or total <= 0:
        return value, False
    return sum(int(digits) * p for digits, p in chance.items()) / total, True


def _without(answer: Answer) -> str:
    return CUT if answer.finish == "length" else UNREADABLE


def _in_object(text: str) -> float | None:
    """The number under "score" in the first JSON object of the text that has one."""
    for start in (place.start() for place in re.finditer(r"\{", text)):
        try:
            found, _ = json.JSONDecoder().raw_decode(text[start:])
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and "score" in found:
            try:
                value = float(found["score"])
            except (TypeError, ValueError, OverflowError):
                return None
            return value if math.isfinite(value) and not isinstance(found["score"], bool) else None
    return None


def _starts(tokens: tuple[Token, ...]) -> list[int]:
    """Where in the answer each token starts."""
    places, here = [], 0
    for token in tokens:
        places.append(here)
        here += len(token.text)
    return places


def _token_at(tokens: tuple[Token, ...], starts: list[int], place: int) -> Token | None:
    """The token with the character at this place, if its alternatives are known."""
    for token, start in zip(tokens, starts, strict=True):
        if start <= place < start + len(token.text):
            return token if token.alternatives else None
    return None


def _digits(alternatives: Mapping[str, float]) -> dict[str, float]:
    """The probabilities of the alternatives that consist of digits, blanks around them aside."""
    found: dict[str, float] = {}
    for text, chance in alternatives.items():
        bare = text.strip()
        if bare.isascii() and bare.isdigit():
            found[bare] = found.get(bare, 0.0) + math.exp(min(chance, 0.0))
    return found
