"""What is asked about a caption: one question, one for each of the image's, or a checklist; and what answers count.

`JudgeProtocol` is the base of all that task files name under `ask:`. A task's `read` says how each answer is read: as a
number, or as a label that is counted, maybe with a credit.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from capmeter.core.errors import InputError
from capmeter.core.messages import shorten
from capmeter.core.settings import Settings
from capmeter.metrics.judges.asking import Answer, Ask, JudgedCaption, Question, Verdict
from capmeter.metrics.judges.items import QUESTION, Item, ItemFile, read_item, read_items, shuffle_options
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
    read_choice_as_released,
    read_each,
    read_json,
    read_label,
    read_match,
    read_text,
    unreadable,
)
from capmeter.metrics.judges.tasks import Message, Reading, Task
from capmeter.stats.ratios import Floats, ratio

_UNUSABLE = "questions without a right answer among their choices"
# the words that the released code of CAPEval accepts beside its labels
_SYNONYMS = dict.fromkeys(("y", "correct", "correctly_mentioned"), "yes")
_SYNONYMS |= dict.fromkeys(("n", "incorrect", "incorrectly_mentioned"), "no")
_SYNONYMS |= dict.fromkeys(("notmentioned", "nm", "unknown"), "not_mentioned")


class JudgeProtocol:
    """What is asked about a caption, and how the answers become a score.

    Class attributes:
        COLUMNS: what the values of its verdicts are; empty: those of the task.
        PROMPTS: the names of its messages in a task file; empty: one, without a name.
        ROUNDS: all questions as a multiple of the first ones, for estimates.
        KIND: of the items of a file that it reads.
        EXPECTED: what they are, for messages.

    Args:
        task: what is asked.
        judge: its name, for messages.
        path: the file of the questions, facts, events or captions that it asks about; empty: none.

    Raises:
        InputError: the task lacks the prompt of one of its steps.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ()
    PROMPTS: ClassVar[tuple[str, ...]] = ()
    ROUNDS: ClassVar[int] = 1
    KIND: ClassVar[str] = QUESTION
    EXPECTED: ClassVar[str] = "questions of images"

    def __init__(self, task: Task, judge: str, path: str) -> None:
        self.task, self._judge, self.path = task, judge, path
        missing = [name for name in self.PROMPTS if name not in task.steps]
        missing += ["prompt"] if not self.PROMPTS and not task.prompt else []
        if missing:
            raise InputError(
                f"task {task.name!r}: ask: {task.ask} needs {', '.join(missing)}, which is missing; copy the package's "
                f"file (capmeter/data/prompts), and change its prompts"
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

    @property
    def read(self) -> Reading:
        """How answers are read."""
        assert self.task.read is not None
        return self.task.read

    @property
    def file(self) -> ItemFile:
        """The items that are asked about.

        Raises:
            InputError: no file is named, it is malformed, or it is of another judge.
        """
        task = self.task
        if task.questions:
            items = tuple(read_item(each, "", f"task {task.name!r}, questions") for each in task.questions)
            return ItemFile(task.name, "", {"": items}, {})
        if not self.path:
            raise InputError(
                f'{self._judge} needs a file of questions: {self._judge}(model=…,questions="FILE"); see docs/judges.md'
            )
        needs_answers = task.ask == "answers" or (task.read is not None and task.read.match is not None)
        return _select_items(
            read_items(self.path), self._judge, self.KIND, self.EXPECTED, task.ask, needs_answers, tuple(task.groups)
        )

    def items_of(self, caption: JudgedCaption) -> tuple[Item, ...]:
        """What is asked about the caption's image; `NoScore` if there is nothing."""
        items = self.file.of(caption.image_id)
        if not items:
            raise NoScore(NO_QUESTIONS)
        return items

    def stored_items(self, caption: JudgedCaption) -> tuple[tuple[Item, ...], tuple[str, ...]]:
        """What a file has of the caption's image, if that may come from the references too; and a note without any."""
        items = self.file.of(caption.image_id) if self.path else ()
        is_absent = self.path and not items
        return items, ("nothing about this image in the file: taken from its references",) if is_absent else ()

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
        counts = dict.fromkeys(self.task.columns, 0.0)
        for each, kind in zip(labels, kinds, strict=True):
            if each is not None:
                group = f"/{kind}" if self.task.groups else ""
                counts[f"{each[0]}{group}"] += 1
                if f"credit{group}" in counts:
                    counts[f"credit{group}"] += each[1]
        return Verdict(tuple(counts.values()), (*notes, *((UNANSWERED,) if None in labels else ())))


@functools.lru_cache(maxsize=8)
def _select_items(
    file: ItemFile, judge: str, kind: str, expected: str, ask: str, needs_answers: bool, groups: tuple[str, ...]
) -> ItemFile:
    """The items of a file that a judge reads.

    Raises:
        InputError: there are none, or one cannot be used.
    """
    selected = {name: tuple(each for each in items if each.kind == kind) for name, items in file.by_image.items()}
    if not any(selected.values()):
        kinds = " and ".join(sorted({f"{each.kind}s" for items in file.by_image.values() for each in items}))
        raise InputError(f"{file.path}: has {kinds}, but {judge} reads {expected}; see docs/judges.md for the layouts")
    for image_name, item in ((name, each) for name, items in selected.items() for each in items):
        problem = ""
        if needs_answers and not item.answer:
            problem = "has no answer: write the expected one under answer"
        elif ask == "checklist" and (item.choices or item.answer):
            problem = "has choices or an answer: expected a checklist, whose questions have none"
        elif groups and item.tags[0] not in groups:
            problem = f"is of the kind {item.tags[0]!a}: expected one of {', '.join(groups)}"
        if problem:
            raise InputError(f"{file.path}, image {image_name!a}: the {item.kind} {shorten(item.text)} {problem}")
    return replace(file, by_image={image_name: items for image_name, items in selected.items() if items})


class QuestionProtocol(JudgeProtocol):
    """One question about the caption, or each question about its image."""

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """The mean of the numbers in the answers, or the numbers of their labels."""
        read, (usable, notes) = self.read, self._usable_items(caption)
        questions = []
        for item, options in usable:
            lettered = "\n".join(f"{LETTERS[k]}. {option}" for k, option in enumerate(options))
            question = "\n".join(filter(None, (item.text, lettered))) if read.match is not None else item.text
            texts = {"question": question, "kind": item.tags[0], "choices": lettered, "answer": item.answer}
            questions.append(self.question(self.task, caption, item=item.describe(options), **texts))
        answers = await ask(questions)
        if self.task.labels:
            reads = [partial(self._read_label, item=item, options=options) for item, options in usable]
            return self.count_labels(read_each(answers, reads), [item.tags[0] for item, _ in usable], notes)
        low, high = read.bounds
        numbers = read_each(answers, partial(NUMBERS[read.kind], low=low, high=high))
        readable = [each for each in numbers if each is not None]
        values = [number for number, _ in readable]
        if read.kind in ("number", "expectation"):
            values = [(number - low) / (high - low) for number in values]
        notes += (UNANSWERED,) if None in numbers else ()
        notes += () if all(is_as_published for _, is_as_published in readable) else (PLAIN,)
        return Verdict((sum(values) / len(values),), notes)

    def judge_empty(self, caption: JudgedCaption) -> Verdict:
        """An empty caption answers no question: each counts as wrong, or as the last label, and numbers are 0."""
        usable, notes = self._usable_items(caption)
        if not self.task.labels:
            return Verdict((0.0,))
        label = "wrong" if self.task.has_credit else self.task.labels[-1]
        return self.count_labels([(label, 0.0)] * len(usable), [item.tags[0] for item, _ in usable], notes)

    def _usable_items(self, caption: JudgedCaption) -> tuple[Sequence[tuple[Item, tuple[str, ...]]], tuple[str, ...]]:
        """The image's questions with their options as offered, without those that have no right answer; and a note."""
        if self.task.ask == "caption":
            return [(Item(""), ())], ()
        items, read = self.items_of(caption), self.read
        if read.choice is None:
            return [(item, item.choices[: len(LETTERS)] if read.match is not None else ()) for item in items], ()
        orders = shuffle_options(self.file, read.choice.abstain, read.choice.shuffle)[self.file.key(caption.image_id)]
        usable = [(item, order) for item, order in zip(items, orders, strict=True) if order]
        if not usable:
            raise NoScore(_UNUSABLE)
        return usable, (_UNUSABLE,) if len(usable) < len(items) else ()

    def _read_label(self, answer: Answer, item: Item, options: Sequence[str]) -> tuple[str, float]:
        """The label of an answer, with its credit."""
        read = self.read
        if read.match is not None:
            credit = read_match(answer, item.answer, item.choices, read.match)
            return "correct" if credit else "wrong", credit
        if read.choice is None:
            return read_label(answer, self.task.labels), 0.0
        choice = (read_choice_as_released if read.as_released else read_choice)(answer, len(options))
        abstain = read.choice.abstain
        if choice is not None and abstain and options[choice].strip() == abstain:
            return "abstained", 1 / sum(each.strip() != abstain for each in options) + read.choice.bonus
        is_right = choice is not None and options[choice].strip() == item.answer
        return ("correct", 1.0) if is_right else ("wrong", 0.0)


class ChecklistProtocol(QuestionProtocol):
    """All questions about the image at once; the answer is a list of verdicts."""

    EXPECTED = "checklists of images (checklist, or …_checklist)"

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """The numbers of labels, and each question with its verdict."""
        items = self.items_of(caption)
        lines = [
            f"  item_index={k}  tag={item.tags[1]!r}  type={f'{item.tags[0]}_' if item.tags[0] else ''}checklist  "
            f"Q: {item.text}"
            for k, item in enumerate(items)
        ]
        (answer,) = await ask([self.question(self.task, caption, f"{len(items)} questions", items="\n".join(lines))])
        verdicts = self._read_verdicts(answer, len(items))
        if not any(label for label, _ in verdicts):
            raise unreadable(answer)
        labels = [None if label is None else (label, 0.0) for label, _ in verdicts]
        texts = [": ".join(filter(None, (label or NO_ANSWER, reason))) for label, reason in verdicts]
        verdict = self.count_labels(labels, [item.tags[0] for item in items], ())
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
            verdicts[int(index)] = match_label(_SYNONYMS.get(label.strip().lower(), label), self.task.labels), reason
        return verdicts
