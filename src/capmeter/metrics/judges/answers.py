"""Questions to a judge, and its answers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from capmeter.captions.caption_set import ImageRef

MAX_CHARACTERS = 200_000  # of an answer: a hundred times what any task asks for
_MAX_COUNT = 1 << 40
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Question:
    """A prompt, optionally with an image.

    Attributes:
        text: of the prompt.
        role: of its message.
        system: text of a system message before it, or empty.
        label: what is asked, in a few words, for explanations.
        image, image_hash: the image's file, and the hash of its content.
        image_first: whether the image is before the text.
        max_tokens: maximum number of tokens of the answer.
        expected_tokens: their usual number, for estimates.
        alternatives: whether to ask for log-probabilities.
        schema: JSON schema of the answer as text, for servers that support it.
        temperature: of sampling.
        repeat: which of several answers to the same prompt.
    """

    text: str
    role: str = "user"
    system: str = ""
    label: str = ""
    image: ImageRef | None = None
    image_hash: str = ""
    image_first: bool = False
    max_tokens: int = 1024
    expected_tokens: int = 60
    alternatives: bool = False
    schema: str = ""
    temperature: float = 0.0
    repeat: int = 0

    @property
    def content(self) -> bytes:
        """Everything that the answer depends on except the model: the answer's cache key."""
        key_parts = [self.role, self.text, self.image_hash, self.image_first, self.max_tokens, self.alternatives]
        key_parts += [self.system, self.schema, self.temperature, self.repeat]
        return json.dumps(key_parts, ensure_ascii=True).encode()


@dataclass(frozen=True)
class Token:
    """A token of an answer, with the log-probabilities of its alternatives, including itself."""

    text: str
    alternatives: Mapping[str, float]


@dataclass(frozen=True)
class Answer:
    """A judge's answer.

    Attributes:
        text: of the answer.
        tokens: empty if the judge gives none.
        refused: whether the judge reports a refusal.
        finish: why it ended (`stop`, `length` …).
        used: the number of input and output tokens.
    """

    text: str
    tokens: tuple[Token, ...] = ()
    refused: bool = False
    finish: str = "stop"
    used: tuple[int, int] = (0, 0)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON values, with alternatives only of tokens with digits, from which scores are computed."""
        tokens = [
            [each.text, list(each.alternatives.items()) if _DIGIT.search(each.text) else []] for each in self.tokens
        ]
        return {"text": self.text, "tokens": tokens, "refused": self.refused, "finish": self.finish, "used": self.used}

    @classmethod
    def from_dict(cls, values: Any) -> Answer | None:
        """The answer that `to_dict` gave; None for anything else, such as a damaged or foreign cache entry."""
        try:
            tokens = tuple(read_token(text, pairs) for text, pairs in values["tokens"])
            text, finish, refused = values["text"], values["finish"], values["refused"]
            used = read_usage(*values["used"])
        except (TypeError, KeyError, ValueError, OverflowError):
            return None
        is_valid = isinstance(text, str) and isinstance(finish, str) and isinstance(refused, bool)
        return cls(text, tokens, refused, finish, used) if is_valid and len(text) <= MAX_CHARACTERS else None


@dataclass(frozen=True)
class Failure:
    """Why a question has no answer; the next run asks it again."""

    reason: str


def read_token(text: Any, alternatives: Iterable[tuple[Any, Any]]) -> Token:
    """A token with its alternatives; a log-probability of minus infinity is a probability of 0 and left out.

    Raises:
        ValueError, TypeError, OverflowError: a text is not text, or a log-probability is not a number, NaN, or
            infinite.
    """
    log_probabilities: dict[str, float] = {}
    for alternative_text, value in alternatives:
        if not isinstance(text, str) or not isinstance(alternative_text, str) or isinstance(value, bool | str):
            raise TypeError("a token is not text with log-probabilities")
        log_probability = float(value)
        if math.isnan(log_probability) or log_probability == math.inf:
            raise ValueError("a log-probability is not finite")
        if log_probability > -math.inf:
            log_probabilities.setdefault(alternative_text, log_probability)
    if not isinstance(text, str):
        raise TypeError("a token is not text")
    return Token(text, log_probabilities)


def read_usage(inputs: Any, outputs: Any) -> tuple[int, int]:
    """The numbers of input and output tokens; a `ValueError`, `TypeError` or `OverflowError` for anything else."""
    token_counts = int(inputs or 0), int(outputs or 0)
    if not all(0 <= count <= _MAX_COUNT for count in token_counts):
        raise ValueError("a number of tokens is out of range")
    return token_counts
