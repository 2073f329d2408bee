"""Prompts and tasks of judges: YAML files in the package, or a user's own.

A task file has `prompt`, in which slots such as `{candidate}` and `{references}` are filled in, and says what is asked,
how answers are read, and how they become a score:

| field | values |
|---|---|
| `ask` | `caption`: one question about each caption; `question`: one for each of the image's questions; or a protocol of another package, which may have several prompts, in `prompts`, and fields of its own |
| `needs` | a list of `references`, `image`: what captions must have |
| `questions` | the questions, if they are the same for all images: texts, or mappings with `question`, `choices`, `answer` |
| `read` | `number: [low, high]`: the number under "score" in JSON, or the first; `expectation: [low, high]`: of the whole numbers by their log-probabilities; `labels: [first, second]`: one of these words; `choice: true`: the letter of an option, which is `correct` or `wrong` |
| `scores` | of labels and choices: part: `{of: [labels], among: [labels]}`, the share of these among those; the first is `score` |

Numbers are scaled to 0 … 1.
"""  # noqa: E501

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from capmeter.metrics.judges.items import Item
from capmeter.stats.ratios import Floats, ratio

_SLOTS = ("candidate", "references", "question", "kind", "choices", "answer", "response", "items", "oracle", "other")
_SLOT = re.compile(r"\{(" + "|".join(_SLOTS) + r")\}")
_TAG = re.compile(r"<(\w+)>")
_SLOTS_OF_CAPTIONS = ("{candidate}", "{items}", "{response}")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Message(_Strict):
    """One message to a judge.

    Attributes:
        prompt: the text with its slots.
        system: of a message before it, or empty.
        role: of the message.
        tokens, max_tokens: the usual and the maximum length of an answer.
        structure: JSON schema of the answer, for servers that support it (in files `schema`).
        references: what is before the first reference, and between two.
        image: whether the image is shown where the task has one: after the text, or `first`.
        probabilities: whether log-probabilities are asked for.
    """

    prompt: str = ""
    system: str = ""
    role: Literal["user", "system"] = "user"
    tokens: int = Field(60, ge=0)
    max_tokens: int = Field(1024, ge=1)
    structure: dict[str, Any] | None = Field(None, alias="schema")
    references: Annotated[list[str], Field(min_length=2, max_length=2)] = ["", "\n"]
    image: bool | Literal["first"] = True
    probabilities: bool = False

    @functools.cached_property
    def identity(self) -> tuple[Any, ...]:
        """What an answer depends on besides the text and the image."""
        schema_text = "" if self.structure is None else json.dumps(self.structure, sort_keys=True)
        return self.role, self.system, self.max_tokens, self.probabilities, self.image == "first", schema_text

    @property
    def sha256(self) -> str:
        """The hash of role, texts and schema."""
        system_text = f"{self.system}\n" if self.system else ""
        return hashlib.sha256(f"{self.role}\n{system_text}{self.prompt}{self.identity[-1]}".encode()).hexdigest()

    @functools.cached_property
    def _tag_pattern(self) -> re.Pattern[str]:
        """The prompt's own tags."""
        tags = "|".join(map(re.escape, sorted(set(_TAG.findall(self.prompt)))))
        return re.compile(rf"<(/?(?:{tags or '(?!)'})\b)", re.IGNORECASE)

    def fill(self, **values: str) -> str:
        """The text with these values in its slots; braces in values are unchanged, the prompt's own tags escaped."""
        return _SLOT.sub(lambda slot: self._tag_pattern.sub(r"&lt;\1", values.get(slot[1], "")), self.prompt)


def _as_label(value: Any) -> Any:
    return value.strip().lower().replace(" ", "_") if isinstance(value, str) else value


_Label = Annotated[str, BeforeValidator(_as_label)]
_Bounds = Annotated[list[Annotated[int, Field(ge=0, le=100)]], Field(min_length=2, max_length=2)]


class Reading(_Strict):
    """How an answer is read, in one of these ways.

    Attributes:
        number, expectation: the lowest and the highest number, which are scaled to 0 … 1.
        labels: the possible answers.
        choice: whether it is the letter of an option.
    """

    number: _Bounds | None = None
    expectation: _Bounds | None = None
    labels: Annotated[list[_Label], Field(min_length=2)] | None = None
    choice: Literal[True] | None = None

    @property
    def bounds(self) -> list[int]:
        """The lowest and the highest number; empty for labels and choices."""
        return self.number or self.expectation or []

    @model_validator(mode="after")
    def _check_kind(self) -> Reading:
        if [self.number, self.expectation, self.labels, self.choice].count(None) != 3:
            raise ValueError("expected one of number, expectation, labels, choice")
        if self.bounds and self.bounds[0] >= self.bounds[1]:
            raise ValueError("expected [low, high], two whole numbers from 0 to 100")
        return self


class Share(_Strict):
    """A score of labels: how many of these are among those."""

    of: Annotated[list[_Label], Field(min_length=1)]
    among: Annotated[list[_Label], Field(min_length=1)]

    def count(self, sums: Mapping[str, Any]) -> tuple[Any, Any]:
        """The two numbers, from the sums of the labels."""
        return sum(sums[label] for label in self.of), sum(sums[label] for label in self.among)


class Task(Message):
    """A task file; its fields are those of the module's table.

    Attributes:
        name: of the file.
        source, version: of the prompt.
        after: the paper that a task with a prompt of our own is modelled after.
        steps: the messages of a protocol of several steps (in files `prompts`).
    """

    name: str
    source: str = ""
    version: int = 1
    after: str = ""
    ask: str = "caption"
    needs: list[Literal["references", "image"]] = []
    questions: list[Item] = []
    read: Reading | None = None
    scores: dict[str, Share] | None = None
    steps: dict[str, Message] = Field({}, alias="prompts")

    @property
    def signature(self) -> str:
        """The names and hashes of the messages."""
        return "+".join(f"{name}@{each.sha256[:8]}" for name, each in self._messages.items())

    @property
    def _messages(self) -> dict[str, Message]:
        return {**({self.name: self} if self.prompt else {}), **self.steps}

    @property
    def outcomes(self) -> tuple[str, ...]:
        """What answers count as: labels, or a number."""
        is_choice, labels = (False, None) if self.read is None else (self.read.choice, self.read.labels)
        return ("correct", "wrong") if is_choice else tuple(labels or ("score",))

    @property
    def shares(self) -> dict[str, Share]:
        """The declared scores, else that of the first label."""
        return self.scores or {"score": Share(of=[self.outcomes[0]], among=[*self.outcomes])}

    def compute_scores(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The mean number, or the shares of labels.

        Args:
            sums: of the columns, and `scored`, the number of captions.
        """
        if self.read is None or self.read.bounds:
            return {"score": ratio(sums["score"], sums["scored"])}
        return {name: ratio(*share.count(sums)) for name, share in self.shares.items()}

    @model_validator(mode="before")
    @classmethod
    def _ask_for_probabilities(cls, fields: Any) -> Any:
        read = fields.get("read")
        return {"probabilities": True, **fields} if isinstance(read, dict) and "expectation" in read else fields

    @model_validator(mode="after")
    def _check_task(self) -> Task:
        if not any(slot in each.prompt for each in self._messages.values() for slot in _SLOTS_OF_CAPTIONS):
            raise ValueError("expected a text in which {candidate} stands for a caption")
        if self.read is not None and self.read.choice and self.ask == "caption":
            raise ValueError("read: a choice needs ask: question")
        known_labels = set() if self.read is None or self.read.bounds else {*self.outcomes}
        for name, share in (self.scores or {}).items():
            if not {*share.of, *share.among} <= known_labels:
                raise ValueError(f"scores: {name}: expected labels of {', '.join(sorted(known_labels))}")
        if self.scores is not None and next(iter(self.scores), "") != "score":
            raise ValueError("scores: expected score: {of: [labels], among: [labels]} first")
        return self
