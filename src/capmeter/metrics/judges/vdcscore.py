"""VDCscore (Chai et al. 2025): a language model answers questions about a video from the caption, then grades itself.

    score = questions whose answer matches the expected one / questions             of a caption, then the mean

The part `grade` is the mean grade of the answers, 0 to 5, as in the paper. The released code leaves out captions whose
score or grade is 0, which raises both; `as_released=true` does so too. The prompts are our own words for the same two
steps. Range 0 to 1; a question without a readable answer is listed and does not count.

>>> str(VdcScore(model="m", questions="detailed.jsonl"))
'vdcscore(model=m,questions=detailed.jsonl)'

Chai et al.: AuroraCap: Efficient, Performant Video Detailed Captioning and a New Benchmark. ICLR 2025.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from capmeter.evaluation.base import Floats
from capmeter.metrics.judges.answers import Answer
from capmeter.metrics.judges.item_judge import ItemJudge
from capmeter.metrics.judges.items import Item
from capmeter.metrics.judges.judge import NO_QUESTIONS, UNANSWERED, Conversation, JudgedCaption, Verdict
from capmeter.metrics.judges.prompts import Template, template
from capmeter.metrics.judges.reading import answer_start, missing_reason
from capmeter.stats.ratios import ratio

_MATCH = re.compile(r"[\"']pred[\"']\s{0,9}:\s{0,9}[\"'](yes|no)[\"']", re.IGNORECASE)
_GRADE = re.compile(r"[\"']score[\"']\s{0,9}:\s{0,9}[\"']?(\d(?:\.\d{1,9})?)[\"']?\s{0,9}[,}]")


@dataclass(frozen=True, kw_only=True)
class VdcScore(ItemJudge):
    """Questions about a video, answered from the caption and compared with the expected answers."""

    NAME: ClassVar[str] = "vdcscore"
    SUMMARY: ClassVar[str] = "questions about a video answered from the caption"
    ROUNDS: ClassVar[float] = 2.0
    EXPECTED: ClassVar[str] = "questions of videos with their answers"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \frac{1}{n} \sum_{c} \frac{\text{matching answers}_c}{\text{questions}_c}",
    )

    as_released: Annotated[bool, "leave out captions without any right answer, as the released code does"] = False

    @classmethod
    def item_problem(cls, item: Item) -> str:
        """Every question has an expected answer."""
        return "" if item.answer else "has no answer: write the expected one under answer"

    @property
    def prompts(self) -> tuple[Template, ...]:
        """Of the answer, and of its comparison with the expected one."""
        return template("vdcscore-answer"), template("vdcscore-match")

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The caption's share of right answers, its mean grade, and whether it counts."""
        return "accuracy", "grade", "counted"

    def formulas(self, sums: Mapping[str, Floats]) -> dict[str, Floats]:
        """Means of the captions."""
        return {"score": ratio(sums["accuracy"], sums["counted"]), "grade": ratio(sums["grade"], sums["counted"])}

    def empty_verdict(self, caption: JudgedCaption) -> Verdict | str:
        """An empty caption answers nothing."""
        if not self.item_file.of(caption.image_id):
            return NO_QUESTIONS
        return Verdict((0.0, 0.0, 0.0 if self.as_released else 1.0))

    def converse(self, caption: JudgedCaption) -> Conversation:
        """Answers every question, then compares the answers with the expected ones."""
        items = self.item_file.of(caption.image_id)
        if not items:
            return NO_QUESTIONS
        answering, matching = self.prompts
        responses = yield [self.question(answering, caption, item.text, question=item.text) for item in items]
        answered_items = [
            (item, response.text[answer_start(response.text) :].strip())
            for item, response in zip(items, responses, strict=True)
            if isinstance(response, Answer)
        ]
        if not answered_items:
            return UNANSWERED
        grade_answers = yield [
            self.question(
                matching, caption, f"match: {item.text}", question=item.text, answer=item.answer, response=response_text
            )
            for item, response_text in answered_items
        ]
        matches = [read_match(grade) for grade in grade_answers if isinstance(grade, Answer)]
        readable_matches = [match for match in matches if match is not None]
        if not readable_matches:
            return next((missing_reason(grade) for grade in grade_answers if isinstance(grade, Answer)), UNANSWERED)
        accuracy = sum(is_right for is_right, _ in readable_matches) / len(readable_matches)
        mean_grade = sum(grade for _, grade in readable_matches) / len(readable_matches)
        if self.as_released and not (accuracy and mean_grade):
            return Verdict((0.0, 0.0, 0.0))
        return Verdict((accuracy, mean_grade, 1.0), (UNANSWERED,) if len(readable_matches) < len(items) else ())


def read_match(answer: Answer) -> tuple[bool, float] | None:
    """Whether an answer matches, and its grade from 0 to 5; None if that cannot be read.

    >>> read_match(Answer("{'pred': 'yes', 'score': 4}"))
    (True, 4.0)
    """
    answer_text = answer.text[answer_start(answer.text) :]
    match, grade = _MATCH.search(answer_text), _GRADE.search(answer_text)
    if match is None or grade is None or not 0 <= float(grade[1]) <= 5:
        return None
    return match[1].lower() == "yes", float(grade[1])
