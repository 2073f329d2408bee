"""Prompts and tasks of judges: YAML files in the package, or a user's own.

A task file has `prompt`, in which slots such as `{candidate}` and `{references}` are filled in, and says what is asked,
how answers are read, and how they become a score:

| field | values |
|---|---|
| `ask` | `caption`: one question about each caption; `question`: one for each of the image's questions; `checklist`: all of them at once, as `{items}`; or a protocol of another package, whose prompts are in `prompts` |
| `needs` | a list of `references`, `image`: what captions must have |
| `questions` | the questions, if they are the same for all images: texts, or mappings with `question`, `choices`, `answer` |
| `read` | `number: [low, high]`: the number under "score" in JSON, or the first; `expectation: [low, high]`: of the whole numbers by their log-probabilities; `labels: [first, second]`: one of these words (for a checklist a JSON list, whose fields are `list`, `index` and `label`); `choice: {abstain, bonus, shuffle}`: a letter |
| `scores` | of labels and choices: part: `{of: [labels], among: [labels]}`, the share of these among those; the first is `score` |
| `groups` | kinds of questions; scores are the means over those that occur, and parts for each |

Numbers are scaled to 0 … 1. A choice counts as `correct`, `wrong` or `abstained` (the option `abstain`, which questions
that are not yes-no questions have); `credit` is 1, 0, or 1/K + `bonus` for abstaining from one of K choices; `shuffle`
is the seed by which options are shuffled, over all questions of the file in order, as CaptionQA does.
"""  # noqa: E501

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
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


class _Choices(_Strict):
    """How lettered options are offered.

    Attributes:
        abstain: the option to abstain, or empty.
        bonus: its credit above chance.
        shuffle: the seed by which options are shuffled; None: not at all.
    """

    abstain: str = ""
    bonus: float = 0.0
    shuffle: int | None = None


def _as_label(value: Any) -> Any:
    return value.strip().lower().replace(" ", "_") if isinstance(value, str) else value


_Label = Annotated[str, BeforeValidator(_as_label)]
_Bounds = Annotated[list[Annotated[int, Field(ge=0, le=100)]], Field(min_length=2, max_length=2)]


class Reading(_Strict):
    """How an answer is read, in one of these ways.

    Attributes:
        number, expectation: the lowest and the highest number, which are scaled to 0 … 1.
        labels: the possible answers.
        choice: how options are offered.
        list_field, index, label: of a checklist's JSON: the list (in files `list`), its entries' number and label.
    """

    number: _Bounds | None = None
    expectation: _Bounds | None = None
    labels: Annotated[list[_Label], Field(min_length=2)] | None = None
    choice: _Choices | None = None
    list_field: str = Field("verdicts", alias="list")
    index: str = "index"
    label: str = "verdict"

    @property
    def bounds(self) -> list[int]:
        """The lowest and the highest number; empty for labels and choices."""
        return self.number or self.expectation or []

    @property
    def outcomes(self) -> tuple[str, ...]:
        """What answers count as: labels, of a choice also a credit, or a number."""
        choice_labels = ("correct", "wrong", "abstained", "credit")
        return choice_labels if self.choice is not None else tuple(self.labels or ("score",))

    @model_validator(mode="after")
    def _check_kind(self) -> Reading:
        if [self.number, self.expectation, self.labels, self.choice].count(None) != 3:
            raise ValueError("expected one of number, expectation, labels, choice")
        if self.bounds and self.bounds[0] >= self.bounds[1]:
            raise ValueError("expected [low, high], two whole numbers from 0 to 100")
        return self


class _Share(_Strict):
    """A score of labels: how many of these are among those."""

    of: Annotated[list[_Label], Field(min_length=1)]
    among: Annotated[list[_Label], Field(min_length=1)]


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
    scores: dict[str, _Share] | None = None
    groups: list[str] = []
    steps: dict[str, Message] = Field({}, alias="prompts")

    @property
    def signature(self) -> str:
        """The names and hashes of the messages."""
        return "+".join(f"{name}@{each.sha256[:8]}" for name, each in self._messages.items())

    @property
    def _messages(self) -> dict[str, Message]:
        return {**({self.name: self} if self.prompt else {}), **self.steps}

    @property
    def columns(self) -> tuple[str, ...]:
        """What answers count as, also for each group."""
        counted = ("score",) if self.read is None else self.read.outcomes
        return tuple(f"{name}{group}" for group in self._group_suffixes for name in counted)

    @property
    def _group_suffixes(self) -> list[str]:
        return [f"/{group}" for group in self.groups] or [""]

    def compute_scores(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The mean number; or the declared shares, else that of the first label or the credit, over groups their mean.

        Args:
            sums: of the columns, and `scored`, the number of captions.
        """
        if self.read is None or self.read.bounds:
            return {"score": ratio(sums["score"], sums["scored"])}
        *labels, last = self.read.outcomes
        default = _Share(of=[last], among=labels) if last == "credit" else _Share(of=labels[:1], among=[*labels, last])
        scores: dict[str, Floats] = {}
        parts: dict[str, Floats] = {}
        for name, share in (self.scores or {"score": default}).items():
            totals = [sum(sums[f"{label}{group}"] for label in share.among) for group in self._group_suffixes]
            counts = [sum(sums[f"{label}{group}"] for label in share.of) for group in self._group_suffixes]
            shares = [ratio(count, total) for count, total in zip(counts, totals, strict=True)]
            scores[name] = shares[0]
            if self.groups:
                scores[name] = ratio(sum(shares), sum(np.asarray(total) > 0 for total in totals))
                parts |= {f"{name}/{group}": each for group, each in zip(self.groups, shares, strict=True)}
        return scores | parts

    @model_validator(mode="before")
    @classmethod
    def _ask_for_probabilities(cls, fields: Any) -> Any:
        read = fields.get("read")
        return {"probabilities": True, **fields} if isinstance(read, dict) and "expectation" in read else fields

    @model_validator(mode="after")
    def _check_task(self) -> Task:
        if not any(slot in each.prompt for each in self._messages.values() for slot in _SLOTS_OF_CAPTIONS):
            raise ValueError("expected a text in which {candidate} stands for a caption")
        if self.ask in ("caption", "question", "checklist") and self.read is None:
            raise ValueError("read: missing; expected one of number, expectation, labels, choice with its value")
        if self.read is not None and self.ask == "checklist" and self.read.labels is None:
            raise ValueError("read: a checklist has labels")
        if self.read is not None and self.read.choice is not None and self.ask == "caption":
            raise ValueError("read: a choice needs ask: question")
        known_labels = set() if self.read is None or self.read.bounds else {*self.read.outcomes}
        for name, share in (self.scores or {}).items():
            if not {*share.of, *share.among} <= known_labels:
                raise ValueError(f"scores: {name}: expected labels of {', '.join(sorted(known_labels))}")
        for item in self.questions if self.groups else ():
            if item.kind not in self.groups:
                raise ValueError(f"questions: the kind {item.kind!a}: expected one of {', '.join(self.groups)}")
        if self.scores is not None and next(iter(self.scores), "") != "score":
            raise ValueError("scores: expected score: {of: [labels], among: [labels]} first")
        return self
