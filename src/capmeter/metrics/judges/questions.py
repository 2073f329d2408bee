"""What is asked about a caption: one question, one for each of the image's, or a checklist; and what answers count.

`JudgeProtocol` is the base of all that task files name under `ask:`, here and in other packages (entry point group
`capmeter.judge_protocols`). A task's `read` says how each answer is read: as a number, or as a label that is counted,
maybe with a credit.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from capmeter.core.errors import InputError
from capmeter.core.messages import shorten
from capmeter.core.named import Named
from capmeter.core.settings import Settings
from capmeter.metrics.judges.asking import Answer, Ask, JudgedCaption, Question, Verdict
from capmeter.metrics.judges.items import Item, ItemFile, read_items, read_question, read_questions
from capmeter.metrics.judges.reading import (
    LETTERS,
    NO_ANSWER,
    NO_QUESTIONS,
    NUMBERS,
    PLAIN,
    SOLE,
    UNANSWERED,
    NoScore,
    match_label,
    read_choice,
    read_each,
    read_json,
    read_label,
    read_text,
    unreadable,
)
from capmeter.metrics.judges.tasks import Message, Reading, Task
from capmeter.stats.ratios import Floats, ratio

_UNUSABLE = "questions without a right answer among their choices"
_YES_NO = re.compile(r"(is|are|was|were|do|does|did|have|has|had|can|could|will|would|should|shall|may|might|must) ")


@dataclass(frozen=True, eq=False)
class JudgeProtocol(Named):
    """What is asked about a caption, and how the answers become a score.

    Class attributes:
        COLUMNS: what the values of its verdicts are; empty: those of the task.
        PROMPTS: the names of its messages in a task file; empty: one, without a name.
        ROUNDS: all questions as a multiple of the first ones, for estimates.

    Args:
        task: what is asked.
        judge_name: for messages.
        path: the file of the questions, facts, events or captions that it asks about; empty: none.

    Raises:
        InputError: the task lacks the prompt of one of its steps.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ()
    PROMPTS: ClassVar[tuple[str, ...]] = ()
    ROUNDS: ClassVar[int] = 1

    task: Task
    judge_name: str
    path: str

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
        return self.COLUMNS or self.task.columns

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The score and its parts, from the sums of the columns: shares of labels, else the means over captions."""
        if self.task.labels and not self.COLUMNS:
            return self.task.score_labels(sums)
        return {column_name: ratio(sums[column_name], sums["scored"]) for column_name in self.columns}

    def prepare(self, captions: list[JudgedCaption], settings: Settings) -> list[JudgedCaption]:
        """The captions with all that questions about them need."""
        return captions

    def signature_facts(self) -> dict[str, str]:
        """What scores depend on besides the prompts and the file."""
        return {}

    @staticmethod
    def read_row(row: Mapping[str, Any], location: str) -> list[Item]:
        """What a row of a file has to ask about; `InputError` for a row of another layout."""
        return read_questions(row, location)

    @property
    def file(self) -> ItemFile:
        """The items that are asked about.

        Raises:
            InputError: no file is named, it is malformed, or it is of another judge.
        """
        task = self.task
        if task.questions:
            items = tuple(read_question(each, f"task {task.name!r}, questions") for each in task.questions)
            return ItemFile(task.name, "", {"": items}, {})
        if not self.path:
            name = self.judge_name
            raise InputError(f'{name} needs a file of questions: {name}(model=…,questions="FILE"); see docs/judges.md')
        file = read_items(self.path, type(self).read_row)
        _check_kinds(file, tuple(task.groups))
        return file

    def items_of(self, caption: JudgedCaption) -> tuple[Item, ...]:
        """What is asked about the caption's image; `NoScore` if there is nothing."""
        items = self.file.of(caption.image_id)
        if not items:
            raise NoScore(NO_QUESTIONS)
        return items

    def question(
        self, message: Message, caption: JudgedCaption, label: str = SOLE, *, item: str = "", **values: str
    ) -> Question:
        """A question from a prompt, with the caption's candidate, references and image where it has slots for them.

        Args:
            message: the prompt, with slots.
            caption: whose texts fill `{candidate}` and `{references}`.
            label: what is asked, in a few words.
            item: the question of a file that is asked, with its options.
            values: the texts of other slots.
        """
        slot_values = {"candidate": caption.candidate, "references": message.list_references(caption.references)}
        image, image_hash = (caption.image, caption.image_hash) if message.image else (None, "")
        return Question(message, message.fill(**slot_values | values), label, item, image, image_hash)

    def count_labels(
        self, labels: Sequence[tuple[str, float] | None], kinds: Sequence[str], notes: tuple[str, ...]
    ) -> Verdict:
        """The numbers of labels, by the kinds of questions if there are groups, and the sums of credits.

        Args:
            labels: of each question with its credit; None: its answer has none.
            kinds: of each question.
            notes: of the caption.
        """
        counts = dict.fromkeys(self.columns, 0.0)
        for each, kind in zip(labels, kinds, strict=True):
            if each is not None:
                group = f"/{kind}" if self.task.groups else ""
                counts[f"{each[0]}{group}"] += 1
                if f"credit{group}" in counts:
                    counts[f"credit{group}"] += each[1]
        return Verdict(tuple(counts.values()), (*notes, *((UNANSWERED,) if None in labels else ())))


@functools.lru_cache(maxsize=8)
def _check_kinds(file: ItemFile, groups: tuple[str, ...]) -> None:
    """Refuses questions of kinds that are none of the groups, if there are any."""
    for image_name, items in file.by_image.items() if groups else ():
        for item in items:
            if item.kind not in groups:
                raise InputError(
                    f"{file.path}, image {image_name!a}: the question {shorten(item.text)} is of the kind "
                    f"{item.kind!a}: expected one of {', '.join(groups)}"
                )


class QuestionProtocol(JudgeProtocol):
    """One question about the caption, or each question about its image."""

    NAME: ClassVar[str] = "question"
    SUMMARY: ClassVar[str] = "one question about the caption, or each of the image's"

    @property
    def read(self) -> Reading:
        """How answers are read."""
        assert self.task.read is not None
        return self.task.read

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """The mean of the numbers in the answers, or the numbers of their labels."""
        usable, notes = self.usable_items(caption)
        answers = await ask([self.ask_item(caption, item, options) for item, options in usable])
        if self.task.labels:
            reads = [partial(self.read_answer, item=item, options=options) for item, options in usable]
            return self.count_labels(read_each(answers, reads), [item.kind for item, _ in usable], notes)
        numbers = read_each(answers, self.read_number)
        readable = [each for each in numbers if each is not None]
        notes += (UNANSWERED,) if None in numbers else ()
        notes += () if all(is_as_published for _, is_as_published in readable) else (PLAIN,)
        return Verdict((sum(number for number, _ in readable) / len(readable),), notes)

    def ask_item(self, caption: JudgedCaption, item: Item, options: Sequence[str]) -> Question:
        """The question about an item.

        Args:
            caption: that is judged.
            item: of its image, or empty.
            options: of the item, as they are offered.
        """
        lettered = "\n".join(f"{LETTERS[k]}. {option}" for k, option in enumerate(options))
        texts = {"question": item.text, "kind": item.kind, "choices": lettered, "answer": item.answer}
        return self.question(self.task, caption, item=item.describe(options), **texts)

    def judge_empty(self, caption: JudgedCaption) -> Verdict:
        """An empty caption answers no question: each counts as wrong, or as the last label, and numbers are 0."""
        usable, notes = self.usable_items(caption)
        if not self.task.labels:
            return Verdict((0.0,))
        label = "wrong" if self.task.has_credit else self.task.labels[-1]
        return self.count_labels([(label, 0.0)] * len(usable), [item.kind for item, _ in usable], notes)

    def usable_items(self, caption: JudgedCaption) -> tuple[Sequence[tuple[Item, tuple[str, ...]]], tuple[str, ...]]:
        """The image's questions with their options as offered, without those that have no right answer; and a note."""
        if self.task.ask == "caption":
            return [(Item(""), ())], ()
        items, choice = self.items_of(caption), self.read.choice
        if choice is None:
            return [(item, ()) for item in items], ()
        file = self.file
        orders = shuffle_options(file, choice.abstain, choice.shuffle)[file.key(caption.image_id)]
        usable = [(item, order) for item, order in zip(items, orders, strict=True) if order]
        if not usable:
            raise NoScore(_UNUSABLE)
        return usable, (_UNUSABLE,) if len(usable) < len(items) else ()

    def read_number(self, answer: Answer) -> tuple[float, bool]:
        """The number of an answer, from 0 to 1, and whether it is as published."""
        low, high = self.read.bounds
        number, is_as_published = NUMBERS[self.read.kind](answer, low, high)
        return (number - low) / (high - low), is_as_published

    def read_answer(self, answer: Answer, item: Item, options: Sequence[str]) -> tuple[str, float]:
        """The label of an answer, with its credit.

        Args:
            answer: to a question.
            item: the question.
            options: of it, as they were offered.
        """
        if self.read.choice is None:
            return read_label(answer, self.task.labels), 0.0
        choice, abstain = self.read_choice(answer, len(options)), self.read.choice.abstain
        if choice is not None and abstain and options[choice].strip() == abstain:
            return "abstained", 1 / sum(each.strip() != abstain for each in options) + self.read.choice.bonus
        is_right = choice is not None and options[choice].strip() == item.answer
        return ("correct", 1.0) if is_right else ("wrong", 0.0)

    def read_choice(self, answer: Answer, options: int) -> int | None:
        """Which of a number of options an answer chooses; None: none, which counts as wrong."""
        return read_choice(answer, options)


@functools.lru_cache(maxsize=8)
def shuffle_options(file: ItemFile, abstain: str, seed: int | None) -> dict[str, list[tuple[str, ...]]]:
    """The options of each question of each image, in the order in which they are offered.

    Empty for a question without a right answer among at least two choices.

    Args:
        file: of questions.
        abstain: the option to abstain, which questions that are not yes-no questions get unless they have it; or empty.
        seed: of the order, over all questions; None: that of the file.
    """
    rng = None if seed is None else random.Random(seed)

    def shuffled(item: Item) -> tuple[str, ...]:
        if len(item.choices) < 2 or item.answer not in [choice.strip() for choice in item.choices]:
            return ()
        may_abstain = abstain and abstain not in item.choices and not _is_yes_no(item)
        options = (*item.choices, *((abstain,) if may_abstain else ()))[: len(LETTERS)]
        option_order = list(range(len(options)))
        if rng is not None:
            rng.shuffle(option_order)
        return tuple(options[k] for k in option_order)

    return {image_name: [shuffled(item) for item in items] for image_name, items in file.by_image.items()}


def _is_yes_no(item: Item) -> bool:
    """Whether a question can be answered with yes or no: it has such choices, or begins like one (as in CaptionQA)."""
    choices = [choice.strip().lower() for choice in item.choices]
    has_both = any("yes" in choice for choice in choices) and any("no" in choice for choice in choices)
    return has_both or _YES_NO.match(item.text.strip().lower()) is not None


class ChecklistProtocol(QuestionProtocol):
    """All questions about the image at once; the answer is a list of verdicts.

    Class attributes:
        SYNONYMS: other words for labels.
    """

    NAME: ClassVar[str] = "checklist"
    SUMMARY: ClassVar[str] = "all questions about the image at once"
    SYNONYMS: ClassVar[Mapping[str, str]] = {}

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """The numbers of labels, and each question with its verdict."""
        items = self.items_of(caption)
        lines = [
            f"  item_index={k}  tag={item.tag!r}  type={f'{item.kind}_' if item.kind else ''}checklist  Q: {item.text}"
            for k, item in enumerate(items)
        ]
        (answer,) = await ask([self.question(self.task, caption, f"{len(items)} questions", items="\n".join(lines))])
        verdicts = self._read_verdicts(answer, len(items))
        if not any(label for label, _ in verdicts):
            raise unreadable(answer)
        labels = [None if label is None else (label, 0.0) for label, _ in verdicts]
        texts = [": ".join(filter(None, (label or NO_ANSWER, reason))) for label, reason in verdicts]
        verdict = self.count_labels(labels, [item.kind for item in items], ())
        return replace(verdict, answers=list(zip((item.text for item in items), texts, strict=True)))

    def _read_verdicts(self, answer: Answer, count: int) -> list[tuple[str | None, str]]:
        """The label of each of a number of items, None for those that have none; and the reason for it, if any."""
        fields = self.read
        verdicts: list[tuple[str | None, str]] = [(None, "")] * count
        entries = read_json(answer, fields.list_field)
        if not isinstance(entries, list):  # damaged JSON: the entries that are whole
            pattern = rf'"{re.escape(fields.index)}"\s{{0,9}}:\s{{0,9}}"?(\d{{1,6}})"?\s{{0,9}},\s{{0,9}}'
            pattern += rf'"{re.escape(fields.label)}"\s{{0,9}}:\s{{0,9}}"([^"\n]{{1,40}})"'
            pairs = re.findall(pattern, read_text(answer))
            entries = [{fields.index: index, fields.label: label} for index, label in pairs]
        for entry in entries:
            values = entry if isinstance(entry, dict) else {}
            index, label = str(values.get(fields.index)), values.get(fields.label)
            if not re.fullmatch(r"\d{1,6}", index, re.ASCII) or int(index) >= count or not isinstance(label, str):
                continue
            reasons = [text for name, text in values.items() if name not in (fields.index, fields.label)]
            reason = " ".join(" ".join(text for text in reasons if isinstance(text, str)).split())
            label = self.SYNONYMS.get(label.strip().lower(), label)
            verdicts[int(index)] = match_label(label, self.task.labels), reason
        return verdicts
