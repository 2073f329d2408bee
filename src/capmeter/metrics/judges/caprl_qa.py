"""CapRL-QA (Xing et al. 2025): questions about the image that a language model answers from the caption alone.

    score = right answers / answered questions

Range 0 to 1. `match` says when an answer is right: `exact`, `relaxed` (numbers within 5 %, also as percentages, as for
charts) or `anls` (relaxed, or a normalised edit similarity of at least .5, as for infographics). A letter is expected
where the expected answer is one. The released code calls an unreadable answer wrong; here it is listed and does not
count. Its question file has the prompt and the answer of each question; the sentence about the caption is the released
code's.

>>> str(CaprlQa(model="m", questions="chartqa.json", match="relaxed"))
'caprl-qa(model=m,questions=chartqa.json,match=relaxed)'

Xing et al.: CapRL: Stimulating Dense Image Caption Capabilities via Reinforcement Learning. arXiv:2509.22647, 2025.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from rapidfuzz.distance import Levenshtein

from capmeter.evaluation.base import Floats
from capmeter.metrics.judges.answers import Answer
from capmeter.metrics.judges.item_judge import ItemJudge
from capmeter.metrics.judges.items import Item
from capmeter.metrics.judges.judge import (
    NO_ANSWER,
    NO_QUESTIONS,
    UNANSWERED,
    Conversation,
    JudgedCaption,
    Verdict,
)
from capmeter.metrics.judges.prompts import Template, template
from capmeter.metrics.judges.reading import LETTERS, REFUSED, answer_start, missing_reason, read_choice
from capmeter.stats.ratios import ratio

_BOXED = re.compile(r"\\boxed\{([^{}\n]{1,400})\}")
_TAGGED = re.compile(r"<answer>([^<]{1,1000})</answer>", re.IGNORECASE)
_LABELLED = re.compile(r"\banswer(?: is)?[ \t]*:[ \t]*([^\n]{1,400})", re.IGNORECASE)
_TOLERANCE, _SIMILAR = 0.05, 0.5


@dataclass(frozen=True, kw_only=True)
class CaprlQa(ItemJudge):
    """Questions about the image, answered from the caption."""

    NAME: ClassVar[str] = "caprl-qa"
    SUMMARY: ClassVar[str] = "questions about the image answered from the caption"
    EXPECTED: ClassVar[str] = "questions of images with their answers"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \frac{\text{right}}{\text{answered}}",)

    match: Annotated[Literal["exact", "relaxed", "anls"], "when an answer is right"] = "exact"

    @classmethod
    def item_problem(cls, item: Item) -> str:
        """Every question has an expected answer."""
        return "" if item.answer else "has no answer: write the expected one under answer"

    @property
    def prompts(self) -> tuple[Template, ...]:
        """Of a question."""
        return (template("caprl-qa"),)

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The sum of the answers' credits, and the number of readable answers."""
        return "correct", "answers"

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """The share of right answers."""
        return {"score": ratio(sums["correct"], sums["answers"])}

    def empty_verdict(self, caption: JudgedCaption) -> Verdict | str:
        """An empty caption answers nothing."""
        items = self.item_file.of(caption.image_id)
        return Verdict((0.0, float(len(items)))) if items else NO_QUESTIONS

    def converse(self, caption: JudgedCaption) -> Conversation:
        """Asks every question."""
        items = self.item_file.of(caption.image_id)
        if not items:
            return NO_QUESTIONS
        (prompt,) = self.prompts
        answers = yield [self.question(prompt, caption, item.text, question=question_text(item)) for item in items]
        credits = [
            read_credit(answer, item, self.match)
            for item, answer in zip(items, answers, strict=True)
            if isinstance(answer, Answer)
        ]
        readable = [credit for credit in credits if not isinstance(credit, str)]
        if not readable:
            return next((credit for credit in credits if isinstance(credit, str)), NO_ANSWER)
        return Verdict((sum(readable), float(len(readable))), (UNANSWERED,) if len(readable) < len(items) else ())


def question_text(item: Item) -> str:
    """The question, with its choices if it has any."""
    option_lines = [f"{LETTERS[k]}. {choice}" for k, choice in enumerate(item.choices[: len(LETTERS)])]
    return "\n".join([item.text, *option_lines])


def read_credit(answer: Answer, item: Item, match: str) -> float | str:
    """The credit of an answer, 0 to 1, or why there is none.

    >>> read_credit(Answer("so it is \\\\boxed{41}"), Item("how many?", answer="40"), "relaxed")
    1.0
    """
    expected_answer = item.answer.strip().strip("$")
    choices = [choice.strip() for choice in item.choices]
    if choices or re.fullmatch(r"[A-Za-z]", expected_answer):
        right_choice = (
            choices.index(expected_answer) if expected_answer in choices else LETTERS.find(expected_answer.upper())
        )
        choice = read_choice(answer, len(choices) or len(LETTERS))
        return choice if isinstance(choice, str) else float(choice == right_choice)
    answer_text = answer.text[answer_start(answer.text) :]
    given_answers = (
        [*_BOXED.finditer(answer_text)] or [*_LABELLED.finditer(answer_text)] or [*_TAGGED.finditer(answer_text)]
    )
    response = (given_answers[-1][1] if given_answers else answer_text).strip().strip("$*. ")
    if (
        answer.refused
        or not response
        or (not given_answers and (len(answer_text) > 200 or missing_reason(answer) == REFUSED))
    ):
        return missing_reason(answer)
    if _normalised(response) == _normalised(expected_answer):
        return 1.0
    if match == "exact":
        return 0.0
    if is_close(response, expected_answer):
        return 1.0
    similarity = Levenshtein.normalized_similarity(_normalised(response), _normalised(expected_answer))
    return similarity if match == "anls" and similarity >= _SIMILAR else 0.0


def is_close(response: str, expected: str) -> bool:
    """Whether two numbers differ by at most 5 % of the second, where the first may be a percentage or a share."""
    numbers = [_number(text) for text in (response, expected)]
    response_number, expected_number = numbers
    if response_number is None or not expected_number:
        return False
    return any(
        abs(scale * response_number - expected_number) <= _TOLERANCE * abs(expected_number) for scale in (1, 0.01, 100)
    )


def _number(text: str) -> float | None:
    match = re.fullmatch(r"([-+]?\d{1,15}(?:\.\d{1,15})?)(%?)", text.strip().replace(",", ""))
    return None if match is None else float(match[1]) / (100 if match[2] else 1)


def _normalised(text: str) -> str:
    return " ".join(text.lower().split())
