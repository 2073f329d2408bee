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

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, model_validator

from capmeter.metrics.judges.asking import Answer, JudgedCaption, Question
from capmeter.metrics.judges.items import Item, Plain, list_questions
from capmeter.metrics.judges.protocols import (
    CaptionProtocol,
    ChecklistProtocol,
    Counts,
    QuestionProtocol,
    count_number,
)
from capmeter.metrics.judges.reading import read_choice
from capmeter.stats.ratios import Floats, ratio
from capmeter_research.papers.judges.reading import (
    read_choice_as_released,
    read_marked_score,
    read_match,
    read_smoothed_share,
)

_VISION = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<image>")


class FleurProtocol(CaptionProtocol):
    """FLEUR's question: a number from 0 to 1."""

    NAME: ClassVar[str] = "fleur"
    SUMMARY: ClassVar[str] = "a number from 0 to 1, smoothed over its digits"

    def read_answer(self, answer: Answer, item: Item) -> Counts:
        """The smoothed number."""
        return count_number(*read_smoothed_share(answer))


class GVEvalProtocol(CaptionProtocol):
    """G-VEval's question: a number from 0 to 100 between dollar signs."""

    NAME: ClassVar[str] = "g-veval"
    SUMMARY: ClassVar[str] = "a number from 0 to 100 between dollar signs, as an expectation"

    def read_answer(self, answer: Answer, item: Item) -> Counts:
        """The expectation."""
        return count_number(*read_marked_score(answer))


class CaptionQaProtocol(QuestionProtocol):
    """CaptionQA's questions with several options."""

    NAME: ClassVar[str] = "captionqa"
    SUMMARY: ClassVar[str] = "each of the image's multiple-choice questions"

    def read_choice(self, answer: Answer, options: int) -> int | None:
        """The option of the answer; as released, None for none."""
        is_as_released = getattr(self.metric, "as_released", False)
        return read_choice_as_released(answer, options) if is_as_released else read_choice(answer, options)


class AnsweredQuestion(Item):
    """A question with an expected answer."""

    answer: Plain = Field(min_length=1)


class CaprlQaProtocol(QuestionProtocol):
    """CapRL's questions, with options or without; `match` of the judge says when an answer is right."""

    NAME: ClassVar[str] = "caprl-qa"
    SUMMARY: ClassVar[str] = "each of the image's questions, whose answers are compared with the expected ones"
    COLUMNS = ("correct", "wrong", "credit")
    ITEM = AnsweredQuestion

    @staticmethod
    def list_items(row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The questions; a prompt is one, without the marks of a chat template."""
        if "question" not in row and {"prompt", "answer"} <= row.keys():
            row = {**row, "question": _without_marks(row["prompt"])}
        return list_questions(row)

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The share of right answers."""
        return {"score": ratio(sums["credit"], sums["correct"] + sums["wrong"])}

    def ask_item(self, caption: JudgedCaption, item: Item) -> Question:
        """The question, followed by its options."""
        question = "\n".join([item.text, *item.lettered])
        return self.question(self.task, caption, item.description, question=question)

    def read_answer(self, answer: Answer, item: Item) -> Counts:
        """Whether the answer is right, and how well it matches."""
        credit = read_match(answer, item.answer, item.choices, getattr(self.metric, "match", "exact"))
        return {"correct" if credit else "wrong": 1.0, "credit": credit}


class ChecklistQuestion(Item):
    """A question of a checklist, which has neither choices nor an answer."""

    @model_validator(mode="after")
    def _check_fields(self) -> ChecklistQuestion:
        if self.choices or self.answer:
            raise ValueError("the question has choices or an answer: expected a checklist, whose questions have none")
        return self


class CapEvalProtocol(ChecklistProtocol):
    """CAPEval's checklists."""

    NAME: ClassVar[str] = "capeval"
    SUMMARY: ClassVar[str] = "a checklist of what a complete caption mentions"
    ITEM = ChecklistQuestion
    SYNONYMS: ClassVar[Mapping[str, str]] = {  # which the released code accepts
        **dict.fromkeys(("y", "correct", "correctly_mentioned"), "yes"),
        **dict.fromkeys(("n", "incorrect", "incorrectly_mentioned"), "no"),
        **dict.fromkeys(("notmentioned", "nm", "unknown"), "not_mentioned"),
    }

    @staticmethod
    def list_items(row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The questions of all parts of the checklist."""
        parts = {name: row[name] for name in row if name.endswith("checklist") and isinstance(row[name], list)}
        return {
            name: [_convert_entry(each, name.removesuffix("_checklist")) for each in listed]
            for name, listed in parts.items()
        } or list_questions(row)


class CapabilityProtocol(QuestionProtocol):
    """CAPability's annotated elements."""

    NAME: ClassVar[str] = "capability"
    SUMMARY: ClassVar[str] = "each annotated element of the image, looked for in the caption"

    @staticmethod
    def list_items(row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The elements of one kind, each with its value."""
        if not {"annotation", "task"} <= row.keys():
            return {}
        annotation, kind = row["annotation"], str(row["task"]).replace("_", " ")
        elements = annotation if isinstance(annotation, dict) else {annotation: ""}
        texts = [f"{name}: {value}" if value != "" else name for name, value in elements.items()]
        return {"annotation": [{"question": text, "kind": kind} for text in texts]}


def _convert_entry(entry: Any, part: str) -> Any:
    """An entry of a part of a checklist as a question of that kind."""
    if isinstance(entry, list) and len(entry) == 3:
        return {"kind": entry[0], "tag": entry[1], "question": entry[2]}
    if not isinstance(entry, dict):
        return {"kind": part, "question": entry}
    tags = entry.get("Tags")
    tag = tags[0] if isinstance(tags, list) and tags else tags
    return {"question": entry["Question"], "tag": tag, "kind": part} if "Question" in entry else {**entry, "kind": part}


def _without_marks(value: Any) -> str:
    """A prompt without the marks of a chat template, and without its role."""
    prompt_text = str(value)
    for template_mark in _VISION:
        prompt_text = prompt_text.replace(template_mark, " ")
    prompt_lines = prompt_text.strip().removeprefix("user").removesuffix("assistant").splitlines()
    return "\n".join(line.strip() for line in prompt_lines if line.strip())
