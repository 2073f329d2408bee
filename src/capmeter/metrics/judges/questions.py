"""The questions of a task: about a caption, about its image by a file, or a checklist; and what their answers count.

A task's `read` says how each answer is read: as a number, or as a label that is counted, maybe with a credit.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from capmeter.core.errors import InputError
from capmeter.core.messages import shorten
from capmeter.metrics.judges.asking import Answer, Ask, Question
from capmeter.metrics.judges.items import Item, ItemFile, SameForAll, read_item, read_items, shuffle_options
from capmeter.metrics.judges.reading import (
    LETTERS,
    NO_ANSWER,
    NUMBERS,
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
from capmeter.metrics.judges.verdicts import NO_QUESTIONS, PLAIN, SOLE, UNANSWERED, JudgedCaption, Verdict

_NO_STORED = "nothing about this image in the file: taken from its references"
_UNUSABLE = "questions without a right answer among their choices"
# the words that the released code of CAPEval accepts beside its labels
_SYNONYMS = dict.fromkeys(("y", "correct", "correctly_mentioned"), "yes")
_SYNONYMS |= dict.fromkeys(("n", "incorrect", "incorrectly_mentioned"), "no")
_SYNONYMS |= dict.fromkeys(("notmentioned", "nm", "unknown"), "not_mentioned")


@dataclass(frozen=True)
class Inquiry:
    """A task with the questions, facts, events or captions that it asks about.

    Args:
        judge: its name, for messages.
        task: what is asked.
        path: the file; empty: none.
        kind: of the items of a file that are read.
        expected: what they are, for messages.
    """

    judge: str
    task: Task
    path: str
    kind: str
    expected: str

    @property
    def read(self) -> Reading:
        """How answers are read."""
        assert self.task.read is not None
        return self.task.read

    @functools.cached_property
    def file(self) -> ItemFile:
        """The items.

        Raises:
            InputError: no file is named, it is malformed, or it is of another judge.
        """
        task = self.task
        if task.questions:
            items = tuple(read_item(each, "", f"task {task.name!r}, questions") for each in task.questions)
            return SameForAll(task.name, "", {"": items}, {})
        if not self.path:
            raise InputError(
                f'{self.judge} needs a file of questions: {self.judge}(model=…,questions="FILE"); see docs/judges.md'
            )
        needs_answers = task.ask == "answers" or (task.read is not None and task.read.match is not None)
        return _select_items(
            read_items(self.path), self.judge, self.kind, self.expected, task.ask, needs_answers, tuple(task.groups)
        )

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
        return Question(
            message,
            message.fill(**slot_values | values),
            label,
            item,
            caption.image if message.image else None,
            caption.image_hash if message.image else "",
        )

    def items_of(self, caption: JudgedCaption) -> tuple[Item, ...]:
        """What is asked about the caption's image.

        Raises:
            NoScore: the file has nothing about it.
        """
        items = self.file.of(caption.image_id)
        if not items:
            raise NoScore(NO_QUESTIONS)
        return items

    def offered_options(self, caption: JudgedCaption) -> list[tuple[str, ...]]:
        """The options of each question about the caption's image, in the order in which they are offered."""
        choice = self.read.choice
        assert choice is not None
        return shuffle_options(self.file, choice.abstain, choice.shuffle)[self.file.key(caption.image_id)]

    def stored_items(self, caption: JudgedCaption) -> tuple[tuple[Item, ...], tuple[str, ...]]:
        """What a file has of the caption's image, if that may come from the references too; and a note without any."""
        items = self.file.of(caption.image_id) if self.path else ()
        return items, (_NO_STORED,) if self.path and not items else ()


@functools.lru_cache(maxsize=8)
def _select_items(
    file: ItemFile,
    judge: str,
    kind: str,
    expected: str,
    ask: str,
    needs_answers: bool,
    groups: tuple[str, ...],
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


async def judge_caption(inquiry: Inquiry, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Asks one question about the caption."""
    answers = await ask([inquiry.question(inquiry.task, caption)])
    return _read_verdict(inquiry, answers, [(Item(""), ())], ())


async def judge_questions(inquiry: Inquiry, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Asks every question about the caption's image."""
    task, (usable, notes) = inquiry.task, _usable_items(inquiry, caption)
    questions = []
    for item, options in usable:
        lettered = "\n".join(f"{LETTERS[k]}. {option}" for k, option in enumerate(options))
        question = "\n".join(filter(None, (item.text, lettered))) if inquiry.read.match is not None else item.text
        texts = {"question": question, "kind": item.tags[0], "choices": lettered, "answer": item.answer}
        questions.append(inquiry.question(task, caption, item=item.describe(options), **texts))
    return _read_verdict(inquiry, await ask(questions), usable, notes)


def _usable_items(
    inquiry: Inquiry, caption: JudgedCaption
) -> tuple[list[tuple[Item, tuple[str, ...]]], tuple[str, ...]]:
    """The image's questions with their options as offered, without those that have no right answer; and a note."""
    items, read = inquiry.items_of(caption), inquiry.read
    if read.choice is None:
        return [(item, item.choices[: len(LETTERS)] if read.match is not None else ()) for item in items], ()
    orders = inquiry.offered_options(caption)
    usable = [(item, order) for item, order in zip(items, orders, strict=True) if order]
    if not usable:
        raise NoScore(_UNUSABLE)
    return usable, (_UNUSABLE,) if len(usable) < len(items) else ()


def _read_verdict(
    inquiry: Inquiry,
    answers: Sequence[Answer],
    usable: Sequence[tuple[Item, Sequence[str]]],
    notes: tuple[str, ...],
) -> Verdict:
    """The mean of the numbers in the answers, or the numbers of their labels."""
    read = inquiry.read
    if inquiry.task.labels:
        reads = [partial(_read_label, inquiry, item=item, options=options) for item, options in usable]
        return _count_labels(inquiry, read_each(answers, reads), [item.tags[0] for item, _ in usable], notes)
    numbers = read_each(answers, partial(NUMBERS[read.kind], low=read.bounds[0], high=read.bounds[1]))
    readable = [each for each in numbers if each is not None]
    notes = (*notes, *((UNANSWERED,) if None in numbers else ()))
    notes = (*notes, *(() if all(is_as_published for _, is_as_published in readable) else (PLAIN,)))
    return Verdict((sum(value for value, _ in readable) / len(readable),), notes)


def _read_label(inquiry: Inquiry, answer: Answer, item: Item, options: Sequence[str]) -> tuple[str, float]:
    """The label of an answer, with its credit."""
    read = inquiry.read
    if read.match is not None:
        credit = read_match(answer, item.answer, item.choices, read.match)
        return "correct" if credit else "wrong", credit
    if read.choice is None:
        return read_label(answer, inquiry.task.labels), 0.0
    choice = (read_choice_as_released if read.as_released else read_choice)(answer, len(options))
    abstain = read.choice.abstain
    if choice is not None and abstain and options[choice].strip() == abstain:
        return "abstained", 1 / sum(each.strip() != abstain for each in options) + read.choice.bonus
    is_right = choice is not None and options[choice].strip() == item.answer
    return ("correct", 1.0) if is_right else ("wrong", 0.0)


def _count_labels(
    inquiry: Inquiry,
    labels: Sequence[tuple[str, float] | None],
    kinds: Sequence[str],
    notes: tuple[str, ...],
) -> Verdict:
    """The numbers of labels, by the kinds of questions if there are groups, and the sums of credits."""
    counts = dict.fromkeys(inquiry.task.columns, 0.0)
    for each, kind in zip(labels, kinds, strict=True):
        if each is not None:
            group = f"/{kind}" if inquiry.task.groups else ""
            counts[f"{each[0]}{group}"] += 1
            if f"credit{group}" in counts:
                counts[f"credit{group}"] += each[1]
    return Verdict(tuple(counts.values()), (*notes, *((UNANSWERED,) if None in labels else ())))


def judge_empty(inquiry: Inquiry, caption: JudgedCaption) -> Verdict:
    """An empty caption answers no question: every one counts as wrong, or as the last label, and numbers are 0."""
    task = inquiry.task
    usable, notes = ([(Item(""), ())], ()) if task.ask == "caption" else _usable_items(inquiry, caption)
    if not task.labels:
        return Verdict((0.0,))
    label = "wrong" if task.has_credit else task.labels[-1]
    return _count_labels(inquiry, [(label, 0.0)] * len(usable), [item.tags[0] for item, _ in usable], notes)


async def judge_checklist(inquiry: Inquiry, ask: Ask, caption: JudgedCaption) -> Verdict:
    """Asks all questions at once; the answers are the verdicts on each."""
    items = inquiry.items_of(caption)
    lines = [
        f"  item_index={k}  tag={item.tags[1]!r}  type={f'{item.tags[0]}_' if item.tags[0] else ''}checklist  "
        f"Q: {item.text}"
        for k, item in enumerate(items)
    ]
    (answer,) = await ask([inquiry.question(inquiry.task, caption, f"{len(items)} questions", items="\n".join(lines))])
    verdicts = _read_checklist(inquiry, answer, len(items))
    if not any(label for label, _ in verdicts):
        raise unreadable(answer)
    labels = [None if label is None else (label, 0.0) for label, _ in verdicts]
    texts = [": ".join(filter(None, (label or NO_ANSWER, reason))) for label, reason in verdicts]
    verdict = _count_labels(inquiry, labels, [item.tags[0] for item in items], ())
    return replace(verdict, answers=list(zip((item.text for item in items), texts, strict=True)))


def _read_checklist(inquiry: Inquiry, answer: Answer, count: int) -> list[tuple[str | None, str]]:
    """The label of each of a number of items, None for those that have none; and the reason for it, if any is given."""
    fields = inquiry.read
    verdicts: list[tuple[str | None, str]] = [(None, "")] * count
    entries = read_json(answer, fields.list_field)
    if not isinstance(entries, list):  # damaged JSON: the entries that are whole
        pattern = rf'"{re.escape(fields.index)}"\s{{0,9}}:\s{{0,9}}"?(\d{{1,6}})"?\s{{0,9}},\s{{0,9}}'
        pattern += rf'"{re.escape(fields.label)}"\s{{0,9}}:\s{{0,9}}"([^"\n]{{1,40}})"'
        pairs = re.findall(pattern, read_text(answer))
        entries = [{fields.index: index, fields.label: label} for index, label in pairs]
    for entry in entries:
        index, label = (entry.get(name) if isinstance(entry, dict) else None for name in (fields.index, fields.label))
        if isinstance(index, str | int) and re.fullmatch(r"\d{1,6}", str(index), re.ASCII) and isinstance(label, str):
            reasons = [text for name, text in entry.items() if name not in (fields.index, fields.label)]
            reason = " ".join(" ".join(text for text in reasons if isinstance(text, str)).split())
            if int(index) < count:
                label = match_label(_SYNONYMS.get(label.strip().lower(), label), inquiry.task.labels)
                verdicts[int(index)] = label, reason
    return verdicts
