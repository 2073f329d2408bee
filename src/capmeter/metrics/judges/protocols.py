"""What is asked about a caption: one question, or one for each of the image's; and what answers count.

`JudgeProtocol` is the base of all that task files name under `ask:`. A task's `read` says how each answer is read: as a
number, or as a label that is counted. A protocol may have task files with fields of its own (`TASK`).

A package adds protocols through the entry point group `capmeter.judge_protocols` (name = "module:Class"), and tasks as
YAML files in a folder `prompts` beside the module.

>>> read_task("clair").fill(candidate="a dog")[115:148]
'Candidate set:\\n- a dog\\n\\nReference'
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml
from pydantic import ValidationError

from capmeter.core.assets import file_stamp, package_folder
from capmeter.core.errors import InputError
from capmeter.core.named import Named
from capmeter.core.registry import Entry, Registry, find_package
from capmeter.core.settings import Settings, home_path
from capmeter.metrics.judges.asking import Answer, Ask, JudgedCaption, Question, Verdict
from capmeter.metrics.judges.items import Item, ItemFile, describe_problem, list_questions, read_items
from capmeter.metrics.judges.reading import (
    NO_QUESTIONS,
    PLAIN,
    SOLE,
    UNANSWERED,
    NoScore,
    read_choice,
    read_each,
    read_expectation,
    read_label,
    read_number,
)
from capmeter.metrics.judges.tasks import Message, Reading, Task
from capmeter.stats.ratios import Floats, ratio

Counts = Mapping[str, float]
"""What an answer counts, by column; a name that is not a column is noted."""
_NO_ITEM = Item.model_construct(text="")
_FOLDER = Path(__file__).resolve().parents[2] / "data" / "prompts"
_MAX_BYTES = 1_000_000
_UNUSABLE = "questions without a right answer among their choices"


@dataclass(frozen=True, eq=False)
class JudgeProtocol(Named):
    """What is asked about a caption, and how the answers become a score.

    Class attributes:
        COLUMNS: what the values of its verdicts are; empty: those of the task.
        PROMPTS: the names of its messages in a task file; empty: one, without a name.
        ROUNDS: all questions as a multiple of the first ones, for estimates.
        TASK, ITEM: the forms of its task files, and of what it asks about.

    Args:
        task: what is asked.
        metric: the judge, whose parameters it may have.

    Raises:
        InputError: the task lacks the prompt of one of its steps.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ()
    PROMPTS: ClassVar[tuple[str, ...]] = ()
    ROUNDS: ClassVar[int] = 1
    TASK: ClassVar[type[Task]] = Task
    ITEM: ClassVar[type[Item]] = Item

    task: Task
    metric: Any

    def __post_init__(self) -> None:
        missing = [name for name in self.PROMPTS if name not in self.task.steps]
        missing += ["prompt"] if not self.PROMPTS and not self.task.prompt else []
        if missing:
            raise InputError(
                f"task {self.task.name!r}: ask: {self.task.ask} needs {', '.join(missing)}, which is missing; copy the "
                "file of a task with this protocol, and change its prompts"
            )

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """Asks about a caption that is not empty; `NoScore` if the answers give no score."""
        raise NotImplementedError

    def judge_empty(self, caption: JudgedCaption) -> Verdict:
        """The verdict on an empty candidate, about which nothing is asked; `NoScore` if there is none."""
        return Verdict((0.0,) * len(self.columns))

    @property
    def columns(self) -> tuple[str, ...]:
        """What the values of verdicts are."""
        return self.COLUMNS or self.task.outcomes

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The score and its parts, from the sums of the columns: those of the task, or the means over captions."""
        if not self.COLUMNS:
            return self.task.compute_scores(sums)
        return {column_name: ratio(sums[column_name], sums["scored"]) for column_name in self.columns}

    def prepare(self, captions: list[JudgedCaption], settings: Settings) -> list[JudgedCaption]:
        """The captions with all that questions about them need."""
        return captions

    def signature_facts(self) -> dict[str, str]:
        """What scores depend on besides the prompts and the file."""
        return {}

    @staticmethod
    def list_items(row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The lists in a row of its file of what it asks about, by field; empty for a row of another layout."""
        return list_questions(row)

    @property
    def file(self) -> ItemFile:
        """The items that are asked about.

        Raises:
            InputError: no file is named, it is malformed, or it is of another judge.
        """
        if self.task.questions:
            return ItemFile(self.task.name, "", {"": tuple(self.task.questions)}, {})
        if not self.metric.item_path:
            name = self.metric.name
            raise InputError(f'{name} needs a file of questions: {name}(model=…,questions="FILE"); see docs/judges.md')
        return read_items(self.metric.item_path, type(self).list_items, self.ITEM)

    def items_of(self, caption: JudgedCaption) -> tuple[Item, ...]:
        """What is asked about the caption's image; `NoScore` if there is nothing."""
        items = self.file.of(caption.image_id)
        if not items:
            raise NoScore(NO_QUESTIONS)
        return items

    def question(self, message: Message, caption: JudgedCaption, label: str = SOLE, **values: str) -> Question:
        """A question from a prompt, with the caption's candidate, references and image where it has slots for them.

        Args:
            message: the prompt, with slots.
            caption: whose texts fill `{candidate}` and `{references}`.
            label: what is asked, in a few words, or the question of a file with its options.
            values: the texts of other slots.
        """
        before, between = message.references
        references = before + between.join(caption.references) if caption.references else ""
        slot_values = {"candidate": caption.candidate, "references": references}
        image, image_hash = (caption.image, caption.image_hash) if message.image else (None, "")
        text, temperature = message.fill(**slot_values | values), self.metric.temperature
        return Question(message, text, label, image, image_hash, temperature)

    def count(self, counted: Sequence[Counts | None]) -> Verdict:
        """The sums of what answers count, None where they cannot be read; of numbers the mean."""
        totals = dict.fromkeys(self.columns, 0.0)
        names: dict[str, None] = {}
        for counts in counted:
            for name, value in (counts or {UNANSWERED: 0.0}).items():
                if name in totals:
                    totals[name] += value
                else:
                    names[name] = None
        count = len(counted) - list(counted).count(None) if self.task.read and self.task.read.bounds else 1
        return Verdict(tuple(total / count for total in totals.values()), tuple(names))


class QuestionProtocol(JudgeProtocol):
    """Each question about the caption's image."""

    NAME: ClassVar[str] = "question"
    SUMMARY: ClassVar[str] = "each of the image's questions"

    @property
    def read(self) -> Reading:
        """How answers are read; an `InputError` if the task does not say it."""
        if self.task.read is None:
            expected = "expected one of number, expectation, labels, choice with its value"
            raise InputError(f"task {self.task.name!r}: read: missing; {expected}")
        return self.task.read

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """The mean of the numbers in the answers, or the numbers of their labels."""
        items, unusable = self._usable_items(caption)
        answers = await ask([self.ask_item(caption, item) for item in items])
        counted = read_each(list(zip(answers, items, strict=True)), lambda asked: self.read_answer(*asked))
        return self.count([*unusable, *counted])

    def judge_empty(self, caption: JudgedCaption) -> Verdict:
        """An empty caption answers no question: each counts as wrong, or as the last label, and numbers are 0."""
        items, unusable = self._usable_items(caption)
        label = "wrong" if self.read.choice else self.task.outcomes[-1]
        return self.count([*unusable, *[{label: 0.0 if self.read.bounds else 1.0}] * len(items)])

    def _usable_items(self, caption: JudgedCaption) -> tuple[list[Item], list[Counts]]:
        """The image's questions without those that have no right answer, and notes of these."""
        items = self.items_of(caption)
        usable = [item for item in items if item.is_answerable or not self.read.choice]
        if not usable:
            raise NoScore(_UNUSABLE)
        return usable, [{_UNUSABLE: 0.0}] * (len(items) - len(usable))

    def ask_item(self, caption: JudgedCaption, item: Item) -> Question:
        """The question about an item of the caption's image."""
        texts = {"question": item.text, "kind": item.kind, "choices": "\n".join(item.lettered), "answer": item.answer}
        return self.question(self.task, caption, item.description or SOLE, **texts)

    def read_answer(self, answer: Answer, item: Item) -> Counts:
        """What the answer to a question about an item counts: its label, maybe with a credit, or a number."""
        read = self.read
        if read.labels is not None:
            return {read_label(answer, read.labels): 1.0}
        if read.bounds:
            low, high = read.bounds
            number, is_as_published = (read_number if read.number else read_expectation)(answer, low, high)
            return count_number((number - low) / (high - low), is_as_published)
        is_right = item.choices[read_choice(answer, len(item.choices))] == item.answer
        return {"correct" if is_right else "wrong": 1.0}


class CaptionProtocol(QuestionProtocol):
    """One question about the caption."""

    NAME: ClassVar[str] = "caption"
    SUMMARY: ClassVar[str] = "one question about the caption"

    def items_of(self, caption: JudgedCaption) -> tuple[Item, ...]:
        """None: the prompt is the question."""
        return (_NO_ITEM,)


def count_number(number: float, is_as_published: bool) -> Counts:
    """What a number counts that is read as published, or as it is written, which is noted."""
    return {"score": number} if is_as_published else {"score": number, PLAIN: 0.0}


PROTOCOLS: Registry[JudgeProtocol] = Registry(
    "judge protocol",
    JudgeProtocol,
    "capmeter.judge_protocols",
    {
        "caption": Entry("capmeter.metrics.judges.protocols:CaptionProtocol"),
        "question": Entry("capmeter.metrics.judges.protocols:QuestionProtocol"),
    },
)
"""The protocols by their names in task files."""


@functools.cache
def find_tasks() -> dict[str, Path]:
    """The task files of the packages, by name."""
    modules = dict.fromkeys(PROTOCOLS.entry(name).target.partition(":")[0] for name in PROTOCOLS.third_party.values())
    added_folders = {package_folder(module.rpartition(".")[0], "prompts"): None for module in modules}
    folders = [_FOLDER, *(folder for folder in added_folders if folder is not None)]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def read_task(name: str) -> Task:
    """The task with this name in a package, or in this file, read once per content.

    Raises:
        InputError: there is none, or a field is missing, unknown or of another form; the field is named.
    """
    tasks = find_tasks()
    if name in tasks:
        return _read(name, tasks[name], (0, 0))
    path = home_path(name).absolute()
    expected = f"expected a YAML file, or one of {', '.join(tasks)}"
    expected = find_package("judge_protocols", name) or find_package("metrics", name) or expected
    return _read(name, path, file_stamp("task", str(path), expected))


@functools.lru_cache(maxsize=64)
def _read(name: str, path: Path, stamp: tuple[int, int]) -> Task:
    if stamp[1] > _MAX_BYTES:
        raise InputError(f"task {name!r}: expected a YAML file of at most 1 MB")
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"task {name!r}: {error.strerror}; expected a YAML file that can be read") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"task {name!r}: not valid YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise InputError(f"task {name!r}: expected YAML fields such as prompt: and read:; see docs/judges.md")
    try:
        form = PROTOCOLS.class_of(str(fields.get("ask", "caption"))).TASK
        return form.model_validate({"name": Path(name).stem, **fields})
    except ValidationError as error:
        raise InputError(f"task {name!r}: {describe_problem(error)}") from None
