"""Judges that are declared in a YAML file: CaptionQA, CAPEval, and a user's own questions.

    judge(task="colours.yaml",model=M)

The file has a prompt, what is asked, how answers are read, and how they become a score
(`capmeter.metrics.judges.task_spec`); the score is the mean of numbers, or a share of labels, 0 to 1. Captions without
a readable answer are listed and have no score. Servers, keys and costs, and the fields of the file: docs/judges.md.

>>> str(OwnJudge(model="gpt-4o-mini", task="colours.yaml"))
'judge(model=gpt-4o-mini,task=colours.yaml)'
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from capmeter.evaluation.base import Floats
from capmeter.metrics.judges.answers import Answer, Failure, Question
from capmeter.metrics.judges.item_judge import ItemJudge
from capmeter.metrics.judges.items import CAPTION, EVENT, FACT, QUESTION, Item, ItemFile
from capmeter.metrics.judges.judge import (
    NO_ANSWER,
    NO_QUESTIONS,
    PLAIN,
    UNANSWERED,
    Conversation,
    JudgedCaption,
    Transcript,
    Verdict,
    list_answers,
    number_labels,
)
from capmeter.metrics.judges.prompts import Template
from capmeter.metrics.judges.reading import (
    LETTERS,
    UNREADABLE,
    answer_start,
    expected_number,
    match_label,
    missing_reason,
    read_choice,
    read_json,
    read_label,
    score_in_json,
)
from capmeter.metrics.judges.task_spec import TaskSpec, read_task
from capmeter.stats.ratios import ratio

_UNUSABLE = "questions without a right answer among their choices"
_YES_NO = re.compile(r"(is|are|was|were|do|does|did|have|has|had|can|could|will|would|should|shall|may|might|must) ")


@dataclass(frozen=True, kw_only=True)
class DeclaredJudge(ItemJudge):
    """A judge whose task is declared in a YAML file."""

    TASK: ClassVar[str] = ""

    @property
    def spec(self) -> TaskSpec:
        """The task."""
        return read_task(self.TASK)

    @property
    def prompts(self) -> tuple[Template, ...]:
        """The task's prompt."""
        return (self.spec.prompt,)

    @property
    def needs(self) -> frozenset[str]:
        """What the task declares."""
        return self.spec.needs

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The score, or the number of each label; of choices also their credit."""
        task = self.spec
        if task.scores is None:
            return ("score",)
        return (*task.labels, "credit") if task.kind == "choice" else task.labels

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The declared shares, or the mean of the numbers."""
        if self.spec.scores is None:
            return super().formulas(sums)
        return {
            part_name: ratio(sum(sums[label] for label in counted_labels), sum(sums[label] for label in among_labels))
            for part_name, (counted_labels, among_labels) in self.spec.scores.items()
        }

    def empty_verdict(self, caption: JudgedCaption) -> Verdict | str:
        """An empty caption answers no question: every one counts as wrong, or as the last label."""
        usable_questions = [] if self.spec.ask == "caption" else self._usable(caption)
        if isinstance(usable_questions, str):
            return usable_questions
        if self.spec.scores is None:
            return Verdict((0.0,))
        question_count = len(usable_questions) or 1
        label = "wrong" if self.spec.kind == "choice" else self.spec.labels[-1]
        return self._verdict(
            [label] * question_count, [0.0] * question_count, self._notes_on(caption, usable_questions)
        )

    def converse(self, caption: JudgedCaption) -> Conversation:
        """Asks what the task declares."""
        task = self.spec
        if task.ask == "caption":
            (answer,) = yield [self.question(task.prompt, caption)]
            return NO_ANSWER if isinstance(answer, Failure) else self._read_one(answer)
        usable_questions = self._usable(caption)
        if isinstance(usable_questions, str):
            return usable_questions
        if task.ask == "checklist":
            checklist_lines = "\n".join(_checklist_line(k, item) for k, (item, _) in enumerate(usable_questions))
            question = self.question(task.prompt, caption, f"{len(usable_questions)} questions", items=checklist_lines)
            (answer,) = yield [question]
            if isinstance(answer, Failure):
                return NO_ANSWER
            labels = read_checklist(answer, task, len(usable_questions))
            return (
                missing_reason(answer) if not any(labels) else self._verdict(labels, [0.0] * len(usable_questions), ())
            )
        return (yield from self._ask_each(caption, usable_questions))

    def list_answers(self, caption: JudgedCaption, transcripts: Sequence[Transcript]) -> dict[str, str]:
        """Of a checklist the verdict on each of its questions; an answer without any as it is."""
        if self.spec.ask != "checklist":
            return super().list_answers(caption, transcripts)
        answers: list[tuple[str, str]] = []
        for transcript in transcripts:
            item_verdicts = self._list_verdicts(caption, transcript)
            answers += item_verdicts or list_answers([transcript]).items()
        return number_labels(answers)

    def _list_verdicts(self, caption: JudgedCaption, transcript: Transcript) -> list[tuple[str, str]]:
        """Each question of a checklist with its label and the reason, if one has any."""
        items = self.item_file.of(caption.image_id) if self.questions else ()
        answer = transcript.exchanges[0][1] if transcript.exchanges else None
        labels = read_checklist(answer, self.spec, len(items)) if isinstance(answer, Answer) else []
        if not isinstance(answer, Answer) or not any(labels):
            return []
        label_reasons = read_reasons(answer, self.spec)
        verdict_texts = [
            ": ".join(filter(None, (label or NO_ANSWER, label_reasons.get(k)))) for k, label in enumerate(labels)
        ]
        return [(item.text, verdict_text) for item, verdict_text in zip(items, verdict_texts, strict=True)]

    def _usable(self, caption: JudgedCaption) -> list[tuple[Item, tuple[str, ...]]] | str:
        """The image's questions with their options as offered, without those that have no right answer; or why none."""
        items = self.item_file.of(caption.image_id)
        if not items:
            return NO_QUESTIONS
        if self.spec.kind != "choice":
            return [(item, ()) for item in items]
        orders = shuffled_options(self.item_file, self.spec)[self.item_file.key(caption.image_id)]
        return [(item, order) for item, order in zip(items, orders, strict=True) if order is not None] or _UNUSABLE

    def _notes_on(self, caption: JudgedCaption, usable_questions: Sequence[Any]) -> list[str]:
        """Whether some of the image's questions cannot be used."""
        return (
            [_UNUSABLE] if usable_questions and len(usable_questions) < len(self.item_file.of(caption.image_id)) else []
        )

    def _ask_each(
        self, caption: JudgedCaption, usable_questions: Sequence[tuple[Item, tuple[str, ...]]]
    ) -> Conversation:
        task = self.spec
        notes = self._notes_on(caption, usable_questions)
        questions: list[Question] = []
        for item, option_order in usable_questions:
            option_lines = "\n".join(f"{LETTERS[k]}. {option}" for k, option in enumerate(option_order))
            slot_values = {"question": item.text, "choices": option_lines, "answer": item.answer}
            questions.append(self.question(task.prompt, caption, item.text, **slot_values))
        answers = yield questions
        if task.scores is None:
            answer_verdicts = [self._read_one(answer) for answer in answers if isinstance(answer, Answer)]
            values = [each.values[0] for each in answer_verdicts if isinstance(each, Verdict)]
            reasons = [each for each in answer_verdicts if isinstance(each, str)]
            if len(values) < len(usable_questions):
                notes.append(UNANSWERED)
            return Verdict((sum(values) / len(values),), tuple(notes)) if values else (reasons or [NO_ANSWER])[0]
        labels: list[str | None] = []
        credits: list[float] = []
        for (item, option_order), answer in zip(usable_questions, answers, strict=True):
            label, credit = self._label(item, answer, option_order)
            labels.append(label)
            credits.append(credit)
        if not any(labels):
            readable_answers = [answer for answer in answers if isinstance(answer, Answer)]
            return missing_reason(readable_answers[0]) if readable_answers else NO_ANSWER
        return self._verdict(labels, credits, notes)

    def _label(self, item: Item, answer: Answer | Failure, options: Sequence[str]) -> tuple[str | None, float]:
        """The label of one answer with its credit; None if it has none."""
        if isinstance(answer, Failure):
            return None, 0.0
        if self.spec.kind == "labels":
            return read_label(answer, self.spec.labels), 0.0
        choice = read_choice(answer, len(options))
        if isinstance(choice, str):
            return None, 0.0
        if options[choice] == self.spec.abstain:
            return "abstained", 1 / len(item.choices) + self.spec.bonus
        is_correct = options[choice].strip() == item.answer
        return ("correct", 1.0) if is_correct else ("wrong", 0.0)

    def _read_one(self, answer: Answer) -> Verdict | str:
        """The verdict of an answer that is a number or a label."""
        task = self.spec
        low, high = task.bounds
        if task.kind == "labels":
            label = read_label(answer, task.labels)
            return missing_reason(answer) if label is None else self._verdict([label], [0.0], ())
        if task.kind == "expectation":
            expectation = expected_number(answer, low, high)
            if isinstance(expectation, str):
                return expectation
            notes = () if expectation[1] else (PLAIN,)
            return Verdict(((expectation[0] - low) / (high - low),), notes)
        score = score_in_json(answer)
        if isinstance(score, str):
            return score
        number = 100 * score
        return Verdict(((number - low) / (high - low),)) if low <= number <= high else UNREADABLE

    def _verdict(self, labels: Sequence[str | None], credits: Sequence[float], notes: Sequence[str]) -> Verdict:
        label_counts = [float(labels.count(label)) for label in self.spec.labels]
        if self.spec.kind == "choice":
            label_counts.append(sum(credits))
        return Verdict(tuple(label_counts), (*notes, *((UNANSWERED,) if None in labels else ())))


@dataclass(frozen=True, kw_only=True)
class OwnJudge(DeclaredJudge):
    """A judge whose task is declared in a user's YAML file."""

    NAME: ClassVar[str] = "judge"
    SUMMARY: ClassVar[str] = "a language model's answers to your own questions"

    KINDS: ClassVar[frozenset[str]] = frozenset({QUESTION, FACT, EVENT, CAPTION})

    task: Annotated[str, "the YAML file that declares the task"]

    @property
    def spec(self) -> TaskSpec:
        """The task in the file."""
        return read_task(self.task)

    @property
    def ALTERNATIVES(self) -> bool:  # type: ignore[override]  # noqa: N802
        """Whether the task reads an expectation."""
        return self.spec.kind == "expectation"


def read_checklist(answer: Answer, task: TaskSpec, count: int) -> list[str | None]:
    """The label of each of a number of items; None for those that have none."""
    list_name, index, field = task.fields
    entries: list[tuple[Any, Any]] = []
    listed_entries = read_json(answer, list_name)
    if isinstance(listed_entries, list):
        entries = [(entry.get(index), entry.get(field)) for entry in listed_entries if isinstance(entry, dict)]
    else:  # damaged JSON: the entries that are whole
        pattern = rf'"{re.escape(index)}"\s{{0,9}}:\s{{0,9}}"?(\d{{1,6}})"?\s{{0,9}},\s{{0,9}}"{re.escape(field)}"'
        pattern += r'\s{0,9}:\s{0,9}"([^"\n]{1,40})"'
        entries = re.findall(pattern, answer.text[answer_start(answer.text) :])
    labels: list[str | None] = [None] * count
    for entry_index, entry_label in entries:
        if isinstance(entry_index, str | int) and str(entry_index).isdecimal() and len(str(entry_index)) < 7:
            item_index = int(entry_index)
            if item_index < count and isinstance(entry_label, str):
                labels[item_index] = match_label(_SYNONYMS.get(entry_label.strip().lower(), entry_label), task.labels)
    return labels


def read_reasons(answer: Answer, task: TaskSpec) -> dict[int, str]:
    """The reasons for the labels of items, by the item's number, where the answer gives any as text."""
    list_name, index, field = task.fields
    reasons: dict[int, str] = {}
    listed_entries = read_json(answer, list_name)
    for entry in listed_entries if isinstance(listed_entries, list) else ():
        if isinstance(entry, dict) and str(entry.get(index)).isdecimal() and len(str(entry.get(index))) < 7:
            reason_texts = [
                each for field_name, each in entry.items() if field_name not in (index, field) and isinstance(each, str)
            ]
            reasons[int(str(entry[index]))] = " ".join(" ".join(reason_texts).split())
    return reasons


# the words that the released code of CAPEval accepts beside its labels
_SYNONYMS = {"y": "yes", "correct": "yes", "correctly_mentioned": "yes"}
_SYNONYMS |= {"n": "no", "incorrect": "no", "incorrectly_mentioned": "no"}
_SYNONYMS |= {"notmentioned": "not_mentioned", "nm": "not_mentioned", "unknown": "not_mentioned"}


def _checklist_line(item_index: int, item: Item) -> str:
    part, tag = item.tags or ("", "")
    checklist_type = f"{part}_checklist" if part else "checklist"
    return f"  item_index={item_index}  tag={tag!r}  type={checklist_type}  Q: {item.text}"


@functools.lru_cache(maxsize=8)
def shuffled_options(file: ItemFile, task: TaskSpec) -> dict[str, list[tuple[str, ...] | None]]:
    """The options of each question of each image, in the order in which they are offered.

    None for a question without a right answer among at least two choices.
    """
    rng = None if task.shuffle is None else random.Random(task.shuffle)

    def shuffled(item: Item) -> tuple[str, ...] | None:
        if len(item.choices) < 2 or item.answer not in [choice.strip() for choice in item.choices]:
            return None
        extra_options = (task.abstain,) if task.abstain and not is_yes_no(item) else ()
        options = (*item.choices, *extra_options)[: len(LETTERS)]
        option_order = list(range(len(options)))
        if rng is not None:
            rng.shuffle(option_order)
        return tuple(options[k] for k in option_order)

    return {image_name: [shuffled(item) for item in items] for image_name, items in file.by_image.items()}


def is_yes_no(item: Item) -> bool:
    """Whether a question can be answered with yes or no: it has such choices, or begins like one (as in CaptionQA)."""
    choices = [choice.strip().lower() for choice in item.choices]
    has_both = any("yes" in choice for choice in choices) and any("no" in choice for choice in choices)
    return has_both or _YES_NO.match(item.text.strip().lower()) is not None
