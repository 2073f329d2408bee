"""Questions about captions in the layouts of papers, with answers that are read in their ways.

| `ask` | of | rows of the file | answers |
|---|---|---|---|
| `fleur`, `g-veval` | FLEUR, G-VEval | none: one question about the caption | the digits' probabilities |
| `captionqa` | CaptionQA | `questions`: [{`question`, `choices`, `answer`}] | a letter |
| `caprl-qa` | CapRL | `prompt` or `question`, and `answer` | the expected answer |
| `checklist` | CAPEval | `…_checklist`: [{`Question`, `Tags`}], or `checklist`: [[part, tag, question]] | labels, of all questions at once |
| `capability` | CAPability | `task`, `annotation` | labels |

Task files of these have fields of their own. `captionqa`: `abstain`, the option to abstain of questions that are not
yes-no questions; `bonus`, its credit above chance; `shuffle`, the seed by which options are shuffled, over all questions
of the file in order. `capability`: `groups`, the kinds of questions; scores are the means over those that occur, and
parts for each. The prompt of a checklist has the slot `{items}`, and asks for JSON in the form of CAPEval's, or with
`verdicts` and `index` in it.
"""  # noqa: E501

from __future__ import annotations

import functools
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from capmeter.core.errors import InputError
from capmeter.core.messages import shorten
from capmeter.metrics.judges.asking import Answer, Ask, JudgedCaption, Question, Verdict
from capmeter.metrics.judges.items import Item, ItemFile, Plain, list_questions
from capmeter.metrics.judges.protocols import CaptionProtocol, Counts, QuestionProtocol, count_number
from capmeter.metrics.judges.reading import NO_ANSWER, match_label, read_choice, read_json, read_text, unreadable
from capmeter.metrics.judges.tasks import Reading, Share, Task
from capmeter.stats.ratios import Floats, ratio
from capmeter_research.papers.judges.reading import (
    read_choice_as_released,
    read_marked_score,
    read_match,
    read_smoothed_share,
)

_YES_NO = re.compile(r"(is|are|was|were|do|does|did|have|has|had|can|could|will|would|should|shall|may|might|must) ")
_VERDICT = re.compile(
    r'"(?:item_)?index"\s{0,9}:\s{0,9}"?(\d{1,6})"?\s{0,9},\s{0,9}"verdict"\s{0,9}:\s{0,9}"([^"\n]{1,40})"'
)
_SYNONYMS = {  # which CAPEval's released code accepts
    **dict.fromkeys(("y", "correct", "correctly_mentioned"), "yes"),
    **dict.fromkeys(("n", "incorrect", "incorrectly_mentioned"), "no"),
    **dict.fromkeys(("notmentioned", "nm", "unknown"), "not_mentioned"),
}
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


class OptionsTask(Task):
    """A task whose options are shuffled, with one to abstain.

    Attributes:
        abstain: the option to abstain, or empty.
        bonus: its credit above chance.
        shuffle: the seed by which options are shuffled; None: not at all.
    """

    read: Reading | None = Reading(choice=True)
    abstain: str = "Cannot answer from the caption"
    bonus: float = 0.05
    shuffle: int | None = 0

    @property
    def outcomes(self) -> tuple[str, ...]:
        """What answers count as; the credit is 1, 0, or 1/K + `bonus` for abstaining from one of K choices."""
        return "correct", "wrong", "abstained", "credit"

    @property
    def shares(self) -> dict[str, Share]:
        """The declared scores, else the credit, and the shares of right answers and abstentions."""
        default = {"score": "credit", "accuracy": "correct", "abstained": "abstained"}
        among = ["correct", "wrong", "abstained"]
        return self.scores or {name: Share(of=[label], among=among) for name, label in default.items()}


class CaptionQaProtocol(QuestionProtocol):
    """CaptionQA's questions with several options."""

    NAME: ClassVar[str] = "captionqa"
    SUMMARY: ClassVar[str] = "each of the image's multiple-choice questions, with an option to abstain"
    TASK = OptionsTask
    task: OptionsTask

    @property
    def file(self) -> ItemFile:
        """The questions, with their options as they are offered."""
        return _offer_options(super().file, self.task.abstain, self.task.shuffle)

    def read_answer(self, answer: Answer, item: Item) -> Counts:
        """Whether the answer is right; as released, one without a choice is wrong."""
        is_as_released = getattr(self.metric, "as_released", False)
        options = len(item.choices)
        chosen = read_choice_as_released(answer, options) if is_as_released else read_choice(answer, options)
        option, abstain = None if chosen is None else item.choices[chosen], self.task.abstain
        if abstain and option == abstain:
            return {"abstained": 1.0, "credit": 1 / sum(each != abstain for each in item.choices) + self.task.bonus}
        return {"correct": 1.0, "credit": 1.0} if option == item.answer else {"wrong": 1.0}


@functools.lru_cache(maxsize=8)
def _offer_options(file: ItemFile, abstain: str, seed: int | None) -> ItemFile:
    """The questions with their options in an order of this seed over all questions, or in that of the file."""
    rng = None if seed is None else random.Random(seed)

    def offer(item: Item) -> Item:
        choices, joined_choices = list(item.choices if item.is_answerable else ()), " ".join(item.choices).lower()
        is_yes_no = ("yes" in joined_choices and "no" in joined_choices) or _YES_NO.match(item.text.lower())
        if choices and abstain and abstain not in choices and not is_yes_no:
            choices.append(abstain)
        del choices[len(ascii_uppercase) :]
        if rng is not None:
            rng.shuffle(choices)
        return item.model_copy(update={"choices": tuple(choices)})

    return replace(file, by_image={name: tuple(map(offer, items)) for name, items in file.by_image.items()})


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


class ChecklistProtocol(QuestionProtocol):
    """All questions about the image at once, as CAPEval asks them; the answer is a list of verdicts."""

    NAME: ClassVar[str] = "checklist"
    SUMMARY: ClassVar[str] = "all questions about the image at once"
    ITEM = ChecklistQuestion

    @staticmethod
    def list_items(row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The questions of all parts of the checklist."""
        parts = {name: row[name] for name in row if name.endswith("checklist") and isinstance(row[name], list)}
        return {
            name: [_convert_entry(each, name.removesuffix("checklist").removesuffix("_")) for each in listed]
            for name, listed in parts.items()
        } or list_questions(row)

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """The numbers of labels, and each question with its verdict."""
        if self.read.labels is None:
            raise InputError(f"task {self.task.name!r}: read: a checklist has labels")
        items = self.items_of(caption)
        lines = [
            f"  item_index={k}  tag={item.tag!r}  type={f'{item.kind}_' if item.kind else ''}checklist  Q: {item.text}"
            for k, item in enumerate(items)
        ]
        (answer,) = await ask([self.question(self.task, caption, f"{len(items)} questions", items="\n".join(lines))])
        verdicts = _read_verdicts(answer, self.read.labels, len(items))
        if not any(label for label, _ in verdicts):
            raise unreadable(answer)
        texts = [": ".join(filter(None, (label or NO_ANSWER, reason))) for label, reason in verdicts]
        verdict = self.count([{label: 1.0} if label else None for label, _ in verdicts])
        return replace(verdict, texts=list(zip((item.text for item in items), texts, strict=True)))


def _read_verdicts(answer: Answer, labels: Sequence[str], count: int) -> list[tuple[str | None, str]]:
    """The label of each of a number of questions, None for those that have none; and the reason for it, if any."""
    verdicts: list[tuple[str | None, str]] = [(None, "")] * count
    entries = read_json(answer, "gt_verdicts", read_json(answer, "verdicts"))
    if not isinstance(entries, list):  # damaged JSON: the entries that are whole
        entries = [{"index": index, "verdict": label} for index, label in _VERDICT.findall(read_text(answer))]
    for entry in entries:
        values = {**entry} if isinstance(entry, dict) else {}
        index, label = str(values.pop("item_index", values.pop("index", ""))), values.pop("verdict", None)
        if re.fullmatch(r"\d{1,6}", index, re.ASCII) and int(index) < count and isinstance(label, str):
            reason = " ".join(" ".join(text for text in values.values() if isinstance(text, str)).split())
            synonym = _SYNONYMS.get(label.strip().lower(), "")
            verdicts[int(index)] = match_label(label, labels) or match_label(synonym, labels), reason
    return verdicts


class GroupedTask(Task):
    """A task with kinds of questions (`groups`), whose scores are means over them."""

    groups: list[str]

    def compute_scores(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The means of the shares over the kinds that occur, and those of each.

        Args:
            sums: of the columns.
        """
        scores: dict[str, Floats] = {}
        parts: dict[str, Floats] = {}
        by_group = [{label: sums[f"{label}/{group}"] for label in self.outcomes} for group in self.groups]
        for name, share in self.shares.items():
            counts = list(map(share.count, by_group))
            shares = [ratio(*each) for each in counts]
            scores[name] = ratio(sum(shares), sum(np.asarray(total) > 0 for _, total in counts))
            parts |= {f"{name}/{group}": each for group, each in zip(self.groups, shares, strict=True)}
        return scores | parts


class CapabilityProtocol(QuestionProtocol):
    """CAPability's annotated elements."""

    NAME: ClassVar[str] = "capability"
    SUMMARY: ClassVar[str] = "each annotated element of the image, looked for in the caption"
    TASK = GroupedTask
    task: GroupedTask

    @property
    def columns(self) -> tuple[str, ...]:
        """The labels of each kind."""
        return tuple(f"{label}/{group}" for group in self.task.groups for label in self.task.outcomes)

    @staticmethod
    def list_items(row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The elements of one kind, each with its value; else questions."""
        if not {"annotation", "task"} <= row.keys():
            return list_questions(row)
        annotation, kind = row["annotation"], str(row["task"]).replace("_", " ")
        elements = annotation if isinstance(annotation, dict) else {annotation: ""}
        texts = [f"{name}: {value}" if value != "" else name for name, value in elements.items()]
        return {"annotation": [{"question": text, "kind": kind} for text in texts]}

    def items_of(self, caption: JudgedCaption) -> tuple[Item, ...]:
        """The elements of the caption's image; an `InputError` if one is of another kind."""
        items = super().items_of(caption)
        for item in items:
            if item.kind not in self.task.groups:
                expected = f"expected one of {', '.join(self.task.groups)}"
                question = f"{self.file.path}: the question {shorten(item.text)}"
                raise InputError(f"{question} is of the kind {item.kind!a}: {expected}")
        return items

    def judge_empty(self, caption: JudgedCaption) -> Verdict:
        """All elements are missing: they count as the last label."""
        return self.count([{f"{self.task.outcomes[-1]}/{item.kind}": 1.0} for item in self.items_of(caption)])

    def read_answer(self, answer: Answer, item: Item) -> Counts:
        """The label, of this kind."""
        return {f"{label}/{item.kind}": count for label, count in super().read_answer(answer, item).items()}


def _convert_entry(entry: Any, part: str) -> Any:
    """An entry of a part of a checklist as a question of that kind."""
    if isinstance(entry, list) and len(entry) == 3:
        return {"kind": entry[0], "tag": entry[1], "question": entry[2]}
    if not isinstance(entry, dict):
        return {"kind": part, "question": entry}
    tags = entry.get("Tags")
    tag = tags[0] if isinstance(tags, list) and tags else tags
    return {"question": entry["Question"], "tag": tag, "kind": part} if "Question" in entry else {"kind": part, **entry}


def _without_marks(value: Any) -> str:
    """A prompt without the marks of a chat template, and without its role."""
    prompt_text = str(value)
    for template_mark in _VISION:
        prompt_text = prompt_text.replace(template_mark, " ")
    prompt_lines = prompt_text.strip().removeprefix("user").removesuffix("assistant").splitlines()
    return "\n".join(line.strip() for line in prompt_lines if line.strip())
