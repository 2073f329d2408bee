"""What a judge is asked, and what it answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capmeter.captions.model import Place

_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Question:
    """A prompt, and the picture that goes with it.

    role: of the message. picture: where its file is; picture_hash: of its content. picture_first: before the text.
    longest: most tokens of the answer. expected: their usual number. alternatives: whether log-probabilities are asked.
    """

    text: str
    role: str = "user"
    picture: Place | None = None
    picture_hash: str = ""
    picture_first: bool = False
    longest: int = 1024
    expected: int = 60
    alternatives: bool = False

    @property
    def content(self) -> bytes:
        """Everything that the answer depends on but the model: the key of the answer in the store."""
        key = [self.role, self.text, self.picture_hash, self.picture_first, self.longest, self.alternatives]
        return json.dumps(key, ensure_ascii=True).encode()


@dataclass(frozen=True)
class Token:
    """A token of an answer, with log-probabilities of tokens that could stand in its place, itself among them."""

    text: str
    alternatives: Mapping[str, float]


@dataclass(frozen=True)
class Answer:
    """A judge's answer.

    tokens: empty where the judge gives none. refused: it says so itself. finish: why it ended (`stop`, `length` …).
    used: the tokens that were read and written.
    """

    text: str
    tokens: tuple[Token, ...] = ()
    refused: bool = False
    finish: str = "stop"
    used: tuple[int, int] = (0, 0)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON values; alternatives are kept for tokens with digits alone, which scores are made of."""
        tokens = [[each.text, _pairs(each.alternatives) if _DIGIT.search(each.text) else []] for each in self.tokens]
        return {"text": self.text, "tokens": tokens, "refused": self.refused, "finish": self.finish, "used": self.used}

    @classmethod
    def from_dict(cls, saved: Any) -> Answer | None:
        """The answer that `to_dict` gave; None for anything else."""
        try:
            tokens = tuple(Token(str(text), {str(a): float(b) for a, b in pairs}) for text, pairs in saved["tokens"])
            read, written = saved["used"]
            return cls(
                str(saved["text"]), tokens, bool(saved["refused"]), str(saved["finish"]), (int(read), int(written))
            )
        except (TypeError, KeyError, ValueError):
            return None


@dataclass(frozen=True)
class Failure:
    """Why a question has no answer; it is asked again in the next run."""

    reason: str


def _pairs(alternatives: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    return list(alternatives.items())
