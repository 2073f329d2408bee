"""Questions about captions in the layouts of papers, with answers that are read in their ways.

| `ask` | of | rows of the file | answers |
|---|---|---|---|
| `fleur`, `g-veval` | FLEUR, G-VEval | none: one question about the caption | the digits' probabilities |
| `captionqa` | CaptionQA | `questions`: [{`question`, `choices`, `answer`}] | a letter |
| `caprl-qa` | CapRL | `prompt` or `question`, and `answer` | the expected answer |
| `capeval` | CAPEval | `…_checklist`: [{`Question`, `Tags`}], or `checklist`: [[part, tag, question]] | labels |
| `capability` | CAPability | `task`, `annotation` | labels |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from capmeter.core.errors import InputError
from capmeter.core.messages import shorten
from capmeter.metrics.judges.asking import Answer, JudgedCaption, Question
from capmeter.metrics.judges.items import Item, list_of, no_items, read_question, read_questions, text_of
from capmeter.metrics.judges.questions import ChecklistProtocol, QuestionProtocol
from capmeter.metrics.judges.reading import LETTERS, read_choice
from capmeter.stats.ratios import Floats, ratio
from capmeter_research.papers.judges.reading import (
    read_choice_as_released,
    read_marked_score,
    read_match,
    read_smoothed_share,
)

_VISION = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<image>")


class _NumberProtocol(QuestionProtocol):
    """One question about the caption, whose answer is a number."""

    COLUMNS = ("score",)

    def usable_items(self, caption: JudgedCaption) -> tuple[Sequence[tuple[Item, tuple[str, ...]]], tuple[str, ...]]:
        """One question, about no item."""
        return [(Item(""), ())], ()


class FleurProtocol(_NumberProtocol):
    """FLEUR's question: a number from 0 to 1."""

    NAME: ClassVar[str] = "fleur"
    SUMMARY: ClassVar[str] = "a number from 0 to 1, smoothed over its digits"

    def read_number(self, answer: Answer) -> tuple[float, bool]:
        """The smoothed number, and whether it is one."""
        return read_smoothed_share(answer)


class GVEvalProtocol(_NumberProtocol):
    """G-VEval's question: a number from 0 to 100 between dollar signs."""

    NAME: ClassVar[str] = "g-veval"
    SUMMARY: ClassVar[str] = "a number from 0 to 100 between dollar signs, as an expectation"

    def read_number(self, answer: Answer) -> tuple[float, bool]:
        """The expectation, and whether it is one."""
        return read_marked_score(answer)


@dataclass(frozen=True, eq=False)
class CaptionQaProtocol(QuestionProtocol):
    """CaptionQA's questions with several options.

    Args:
        as_released: whether letters are read as the released code does.
    """

    NAME: ClassVar[str] = "captionqa"
    SUMMARY: ClassVar[str] = "each of the image's multiple-choice questions"

    as_released: bool = False

    def read_choice(self, answer: Answer, options: int) -> int | None:
        """The option of the answer; as released, None for none."""
        return read_choice_as_released(answer, options) if self.as_released else read_choice(answer, options)


@dataclass(frozen=True, eq=False)
class CaprlQaProtocol(QuestionProtocol):
    """CapRL's questions, with options or without.

    Args:
        match: when an answer is right.
    """

    NAME: ClassVar[str] = "caprl-qa"
    SUMMARY: ClassVar[str] = "each of the image's questions, whose answers are compared with the expected ones"
    COLUMNS = ("correct", "wrong", "credit")

    match: Literal["exact", "relaxed", "anls"] = "exact"

    @staticmethod
    def read_row(row: Mapping[str, Any], location: str) -> list[Item]:
        """The questions with their answers; a prompt without the marks of a chat template."""
        if "question" not in row and {"prompt", "answer"} <= row.keys():
            row = {**row, "question": _without_marks(row["prompt"])}
        return read_answered_questions(row, location)

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The share of right answers."""
        return {"score": ratio(sums["credit"], sums["correct"] + sums["wrong"])}

    def usable_items(self, caption: JudgedCaption) -> tuple[Sequence[tuple[Item, tuple[str, ...]]], tuple[str, ...]]:
        """All questions, with their options in order."""
        return [(item, item.choices[: len(LETTERS)]) for item in self.items_of(caption)], ()

    def ask_item(self, caption: JudgedCaption, item: Item, options: Sequence[str]) -> Question:
        """The question, followed by its options.

        Args:
            caption: that is judged.
            item: of its image.
            options: of the item, in order.
        """
        lettered = (f"{LETTERS[k]}. {option}" for k, option in enumerate(options))
        question = "\n".join(filter(None, (item.text, *lettered)))
        return self.question(self.task, caption, item=item.describe(options), question=question)

    def read_answer(self, answer: Answer, item: Item, options: Sequence[str]) -> tuple[str, float]:
        """Whether the answer is right, and how well it matches.

        Args:
            answer: to a question.
            item: the question.
            options: of it, as they were offered.
        """
        credit = read_match(answer, item.answer, item.choices, self.match)
        return "correct" if credit else "wrong", credit


class CapEvalProtocol(ChecklistProtocol):
    """CAPEval's checklists."""

    NAME: ClassVar[str] = "capeval"
    SUMMARY: ClassVar[str] = "a checklist of what a complete caption mentions"
    SYNONYMS: ClassVar[Mapping[str, str]] = {  # which the released code accepts
        **dict.fromkeys(("y", "correct", "correctly_mentioned"), "yes"),
        **dict.fromkeys(("n", "incorrect", "incorrectly_mentioned"), "no"),
        **dict.fromkeys(("notmentioned", "nm", "unknown"), "not_mentioned"),
    }

    @staticmethod
    def read_row(row: Mapping[str, Any], location: str) -> list[Item]:
        """The questions of all parts of the checklist."""
        parts = {name: list_of(row, name, location) for name in row if name.endswith("checklist")}
        if not parts:
            return _check_entries(read_questions(row, location), location)
        entries = [(name.removesuffix("_checklist"), each) for name, listed in parts.items() for each in listed]
        return _check_entries([_read_entry(each, part, location) for part, each in entries], location)


class CapabilityProtocol(QuestionProtocol):
    """CAPability's annotated elements."""

    NAME: ClassVar[str] = "capability"
    SUMMARY: ClassVar[str] = "each annotated element of the image, looked for in the caption"

    @staticmethod
    def read_row(row: Mapping[str, Any], location: str) -> list[Item]:
        """The elements of one kind."""
        if not {"annotation", "task"} <= row.keys():
            raise no_items(row, location, "task and annotation")
        annotation = row["annotation"]
        kind = text_of(row["task"], location, "task").replace("_", " ")
        elements = annotation.items() if isinstance(annotation, dict) else [(annotation, "")]
        return [
            Item(text_of(name, location, "annotation") + (f": {value}" if value != "" else ""), kind=kind)
            for name, value in elements
        ]


def read_answered_questions(row: Mapping[str, Any], location: str) -> list[Item]:
    """The questions of a row, each of which has an expected answer.

    Args:
        row: of a file.
        location: for messages.

    Raises:
        InputError: a question has none.
    """
    items = read_questions(row, location)
    for item in items:
        if not item.answer:
            raise InputError(
                f"{location}: the question {shorten(item.text)} has no answer: write the expected one under answer"
            )
    return items


def _check_entries(items: list[Item], location: str) -> list[Item]:
    for item in items:
        if item.choices or item.answer:
            raise InputError(
                f"{location}: the question {shorten(item.text)} has choices or an answer: expected a checklist, whose "
                "questions have none"
            )
    return items


def _read_entry(entry: Any, part: str, location: str) -> Item:
    """A question of a checklist: [part, tag, question], or an object with `Question` and `Tags`."""
    if isinstance(entry, list) and len(entry) == 3:
        part, tag, question = (text_of(each, location, "a checklist's entry") for each in entry)
        return Item(question, kind=part, tag=tag)
    if not isinstance(entry, dict) or "Question" not in entry:
        item = read_question(entry, location)
        return Item(item.text, item.choices, item.answer, part)
    tag = entry.get("Tags") or ""
    tag = tag[0] if isinstance(tag, list) and tag else tag
    return Item(text_of(entry["Question"], location, "question"), kind=part, tag=tag if isinstance(tag, str) else "")


def _without_marks(value: Any) -> str:
    """A prompt without the marks of a chat template, and without its role."""
    prompt_text = str(value)
    for template_mark in _VISION:
        prompt_text = prompt_text.replace(template_mark, " ")
    prompt_lines = prompt_text.strip().removeprefix("user").removesuffix("assistant").splitlines()
    return "\n".join(line.strip() for line in prompt_lines if line.strip())
