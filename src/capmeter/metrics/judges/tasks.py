"""Prompts and tasks of judges: YAML files in the package, or a user's own.

A prompt file has `prompt`, in which slots such as `{candidate}` and `{references}` are filled in. A task file says
beside its prompt what is asked, how answers are read, and how they become a score:

| field | values |
|---|---|
| `ask` | `caption`: one question about each caption; `question`: one for each of the image's questions; `checklist`: all of them at once, as `{items}`; or a protocol of several steps (`capmeter.metrics.judges.protocols`), whose prompts are in `prompts` |
| `needs` | a list of `references`, `image`: what captions must have |
| `questions` | the questions, if they are the same for all images: texts, or mappings with `question`, `choices`, `answer` |
| `read` | `number: [low, high]`: the number under "score" in JSON, or the first; `expectation: [low, high]`: of the whole numbers by their log-probabilities; `labels: [first, second]`: one of these words (for a checklist a JSON list, whose fields are `list`, `index` and `label`); `choice: {abstain, bonus, shuffle}`: a letter |
| `scores` | of labels and choices: part: `{of: [labels], among: [labels]}`, the share of these among those; the first is `score` |
| `groups` | kinds of questions; scores are the means over those that occur, and parts for each |

Numbers are scaled to 0 … 1. A choice counts as `correct`, `wrong` or `abstained` (the option `abstain`, which questions
that are not yes-no questions have); `credit` is 1, 0, or 1/K + `bonus` for abstaining from one of K choices; `shuffle`
is the seed by which options are shuffled, over all questions of the file in order, as CaptionQA does.

>>> read_prompt("fleur").fill(candidate="a dog")[-55:]
'Caption: a dog\\n\\nScore(Choose a rating from 0.0 to 1.0):'
"""  # noqa: E501

from __future__ import annotations

import functools
import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from capmeter.core.errors import InputError
from capmeter.core.messages import describe

FOLDER = Path(__file__).resolve().parents[2] / "data" / "prompts"
CHOICE_LABELS = ("correct", "wrong", "abstained")
SLOTS = ("candidate", "references", "question", "kind", "choices", "answer", "response", "items", "oracle", "other")
_SLOT = re.compile(r"\{(" + "|".join(SLOTS) + r")\}")
_TAG = re.compile(r"<(\w+)>")
_SLOTS_OF_CAPTIONS = ("{candidate}", "{items}", "{response}")
_MAX_BYTES = 1_000_000
_Ask = Literal["caption", "question", "checklist", "answers", "facts", "claims", "pairs", "elements", "events"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PromptText(_Strict):
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

    prompt: str
    system: str = ""
    role: Literal["user", "system"] = "user"
    tokens: int = Field(60, ge=0)
    max_tokens: int = Field(1024, ge=1)
    structure: dict[str, Any] | None = Field(None, alias="schema")
    references: Annotated[list[str], Field(min_length=2, max_length=2)] = ["", "\n"]
    image: bool | Literal["first"] = True
    probabilities: bool = False

    @property
    def asks_probabilities(self) -> bool:
        """Whether log-probabilities are asked for."""
        return self.probabilities

    @property
    def schema_text(self) -> str:
        """The schema as text, or empty."""
        return "" if self.structure is None else json.dumps(self.structure, sort_keys=True)

    @property
    def sha256(self) -> str:
        """The hash of role, texts and schema."""
        system_text = f"{self.system}\n" if self.system else ""
        return hashlib.sha256(f"{self.role}\n{system_text}{self.prompt}{self.schema_text}".encode()).hexdigest()

    def fill(self, **values: str) -> str:
        """The text with these values in its slots; braces in values are unchanged, the prompt's own tags escaped."""
        tags = "|".join(map(re.escape, sorted(set(_TAG.findall(self.prompt)))))
        tag_pattern = re.compile(rf"<(/?(?:{tags})\b)", re.IGNORECASE) if tags else None

        def fill_slot(slot: re.Match[str]) -> str:
            value = values.get(slot[1], "")
            return value if tag_pattern is None else tag_pattern.sub(r"&lt;\1", value)

        return _SLOT.sub(fill_slot, self.prompt)

    def list_references(self, references: tuple[str, ...]) -> str:
        """The references as they stand in the prompt."""
        before, between = self.references
        return before + between.join(references) if references else ""


class Prompt(PromptText):
    """A prompt file: its messages, and where they are from.

    Attributes:
        name: of the file.
        source, version: of the prompt.
    """

    name: str
    source: str = ""
    version: int = 1

    @property
    def prompts(self) -> dict[str, PromptText]:
        """The messages by name."""
        return {self.name: self}

    @model_validator(mode="after")
    def _check_slots(self) -> Prompt:
        if not any(slot in each.prompt for each in self.prompts.values() for slot in _SLOTS_OF_CAPTIONS):
            raise ValueError("expected a text in which {candidate} stands for a caption")
        return self

    @property
    def signature(self) -> str:
        """The names and hashes of the messages."""
        return "+".join(f"{name}@{each.sha256[:8]}" for name, each in self.prompts.items())


class Choices(_Strict):
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
    """How an answer is read: one of `number`, `expectation`, `labels` and `choice`.

    Attributes:
        number, expectation: the lowest and the highest number.
        labels: the possible answers.
        choice: how options are offered.
        list_field, index, label: of a checklist's JSON: the list (in files `list`), its entries' number and label.
    """

    number: _Bounds | None = None
    expectation: _Bounds | None = None
    labels: Annotated[list[_Label], Field(min_length=2)] | None = None
    choice: Choices | None = None
    list_field: str = Field("verdicts", alias="list")
    index: str = "index"
    label: str = "verdict"

    @model_validator(mode="after")
    def _check_kind(self) -> Reading:
        kinds = [self.number, self.expectation, self.labels, self.choice]
        if sum(each is not None for each in kinds) != 1:
            raise ValueError("expected one of number, expectation, labels, choice")
        for bounds in (self.number, self.expectation):
            if bounds is not None and bounds[0] >= bounds[1]:
                raise ValueError("expected [low, high], two whole numbers from 0 to 100")
        return self


class Share(_Strict):
    """A score of labels: how many of these are among those."""

    of: Annotated[list[_Label], Field(min_length=1)]
    among: Annotated[list[_Label], Field(min_length=1)]


class Task(Prompt):
    """A task file; its fields are those of the module's table.

    Attributes:
        after: the paper that a task with a prompt of our own is modelled after.
        steps: the messages of a protocol of several steps (in files `prompts`).
    """

    prompt: str = ""
    after: str = ""
    ask: _Ask = "caption"
    needs: list[Literal["references", "image"]] = []
    questions: list[str | dict[str, Any]] = []
    read: Reading | None = None
    scores: dict[str, Share] | None = None
    groups: list[str] = []
    steps: dict[str, PromptText] = Field({}, alias="prompts")

    @property
    def prompts(self) -> dict[str, PromptText]:
        """The messages by name."""
        return {**({self.name: self} if self.prompt else {}), **self.steps}

    @property
    def asks_probabilities(self) -> bool:
        """Also if an expectation is read."""
        return self.probabilities or (self.read is not None and self.read.expectation is not None)

    @property
    def labels(self) -> tuple[str, ...]:
        """What answers count as; empty for numbers."""
        if self.read is None:
            return ()
        return CHOICE_LABELS if self.read.choice is not None else tuple(self.read.labels or ())

    @property
    def shares(self) -> dict[str, Share]:
        """The scores of labels: those of the file, else the share of the first label."""
        first = "credit" if self.labels == CHOICE_LABELS else self.labels[0]
        return self.scores or {"score": Share(of=[first], among=list(self.labels))}

    @model_validator(mode="after")
    def _check_task(self) -> Task:
        is_generic = self.ask in ("caption", "question", "checklist")
        if is_generic and self.read is None:
            raise ValueError("read: missing; expected one of number, expectation, labels, choice with its value")
        if self.read is not None and self.ask == "checklist" and self.read.labels is None:
            raise ValueError("read: a checklist has labels")
        if self.read is not None and self.read.choice is not None and self.ask != "question":
            raise ValueError("read: a choice needs ask: question")
        if self.scores is not None:
            known_labels = {*self.labels, *(("credit",) if self.labels == CHOICE_LABELS else ())}
            for name, share in self.scores.items():
                if not {*share.of, *share.among} <= known_labels:
                    raise ValueError(f"scores: {name}: expected labels of {', '.join(sorted(known_labels))}")
            if next(iter(self.scores), "") != "score":
                raise ValueError("scores: expected score: {of: [labels], among: [labels]} first")
        return self


@functools.cache
def prompt_names() -> tuple[str, ...]:
    """The files in the package."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def read_prompt(name: str) -> Prompt:
    """The prompt with this name in the package, or in this file; see `read_task`."""
    prompt: Prompt = _read(name, _file_version(name), Prompt)
    return prompt


def read_task(name: str) -> Task:
    """The task with this name in the package, or in this file, read once per content.

    Raises:
        InputError: there is none, or a field is missing, unknown or of another form; the field is named.
    """
    task: Task = _read(name, _file_version(name), Task)
    return task


def _file_version(name: str) -> tuple[Path, int, int]:
    """The file with this name, when it was changed, and its size: what is read of it holds for these."""
    path = FOLDER / f"{name}.yaml" if name in prompt_names() else Path(name).expanduser().absolute()
    try:
        file_status = path.stat()
        is_file = path.is_file()  # a device would never end
    except (OSError, ValueError) as error:
        raise _no_file(name) from error
    if not is_file or file_status.st_size > _MAX_BYTES:
        raise InputError(f"task {name!r}: expected a YAML file of at most 1 MB")
    return path, file_status.st_mtime_ns, file_status.st_size


def _no_file(name: str) -> InputError:
    return InputError(f"task {name!r}: neither a readable file nor one of {', '.join(prompt_names())}")


@functools.lru_cache(maxsize=64)
def _read(name: str, version: tuple[Path, int, int], model: type[Prompt]) -> Any:
    try:
        fields = yaml.safe_load(version[0].read_text(encoding="utf-8"))
    except OSError as error:
        raise _no_file(name) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"task {name!r}: not valid YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise InputError(f"task {name!r}: expected YAML fields such as prompt: and read:; see docs/judges.md")
    try:
        return model.model_validate({"name": Path(name).stem, **fields})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ": ".join(map(str, problem["loc"]))
        reason = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            reason = "unknown field; see docs/judges.md for those of a task"
        elif problem["type"] == "missing":
            reason = "missing"
        elif place:
            reason = f"got {describe(problem['input'])}; {reason}"
            if isinstance(problem["input"], bool) and "string" in reason:
                reason += " (yes and no are not text in YAML: write them in quotes)"
        raise InputError(f"task {name!r}: {f'{place}: ' if place else ''}{reason}") from None
