"""CAPEval (Liu et al. 2026): a checklist of what a complete caption mentions, and whether what it mentions is right.

    score     = (yes + no) / (yes + no + not mentioned)          completeness
    precision = yes / (yes + no)

Range 0 to 1 (the paper's C and P are 100 times that), over all questions of all captions. A language model answers the
whole checklist of an image at once; the prompt is the released code's. That code counts a question without a verdict
as not mentioned; here such questions do not count, and their captions are listed.

>>> str(CapEval(model="Qwen2.5-72B-Instruct", questions="checklist.jsonl"))
'capeval(model=Qwen2.5-72B-Instruct,questions=checklist.jsonl)'

Liu, Wang, Zhang: CAPEval: A Decoupled Caption Evaluation across Understanding and Generation. arXiv:2608.02589, 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from capmeter.metrics.judges.declared import DeclaredJudge
from capmeter.metrics.judges.items import Item


@dataclass(frozen=True, kw_only=True)
class CapEval(DeclaredJudge):
    """A checklist of what a complete caption mentions, and whether it is right."""

    NAME: ClassVar[str] = "capeval"
    SUMMARY: ClassVar[str] = "a checklist: completeness and precision of a long caption"
    TASK: ClassVar[str] = "capeval"
    EXPECTED: ClassVar[str] = "checklists of images (checklist, or …_checklist)"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \frac{\text{yes} + \text{no}}{\text{yes} + \text{no} + \text{not mentioned}}",
        r"\text{precision} = \frac{\text{yes}}{\text{yes} + \text{no}}",
    )

    @classmethod
    def item_problem(cls, item: Item) -> str:
        """A question of a checklist has neither choices nor an answer."""
        is_other = item.choices or item.answer
        return "has choices or an answer: expected a checklist, whose questions have none" if is_other else ""
