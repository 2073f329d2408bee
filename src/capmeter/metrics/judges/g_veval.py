"""G-VEval (Tong et al. 2025): a vision-language model's score after step-by-step reasons, as an expectation.

    score = Σ_s s p(s) / Σ_s p(s)                    p(s): the probability of the whole number s where the score stands

Range 0 to 100, as published. `setting`: `combined` (image and references), `ref-free` (image) or `ref-only`
(references). The released code uses temperature 1 and the five most probable tokens; here it is temperature 0 and
twenty. If the model gives no probabilities, the score is the number as written and the caption is listed. Refusals and
answers without a score are listed and have no score; the corpus score is the mean of the others. Servers, keys and
costs: docs/judges.md.

>>> str(GVEval(model="gpt-4o", setting="ref-free"))
'g-veval(model=gpt-4o,setting=ref-free)'

Tong, He, Shao, Yeung: G-VEval: A Versatile Metric for Evaluating Image and Video Captions Using GPT-4o. AAAI 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from capmeter.metrics.judges.answers import Answer
from capmeter.metrics.judges.prompts import Template
from capmeter.metrics.judges.prompts import template as named_template
from capmeter.metrics.judges.rating import RatingJudge
from capmeter.metrics.judges.reading import expected_score

_NEEDS = {"combined": {"image", "references"}, "ref-free": {"image"}, "ref-only": {"references"}}


@dataclass(frozen=True, kw_only=True)
class GVEval(RatingJudge):
    """A vision-language model's score after its reasons."""

    NAME: ClassVar[str] = "g-veval"
    SUMMARY: ClassVar[str] = "a vision-language model's judgment, step by step"
    ALTERNATIVES: ClassVar[bool] = True
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \frac{\sum_{s} s \, p(s)}{\sum_{s} p(s)}",)

    setting: Annotated[Literal["combined", "ref-free", "ref-only"], "inputs of the model"] = "combined"
    template: Annotated[str, "a template's name, or a file; empty: the released one of this setting"] = ""

    @property
    def needs(self) -> frozenset[str]:
        """The inputs of the setting."""
        return frozenset(_NEEDS[self.setting])

    @property
    def prompt(self) -> Template:
        """The prompt."""
        return named_template(self.template or f"g-veval-{self.setting}")

    def references_text(self, references: tuple[str, ...]) -> str:
        """Quoted and separated by semicolons as in the released code, the last without its closing quote."""
        return "'" + "'; '".join(references) if references else ""

    def read(self, answer: Answer) -> tuple[float, bool] | str:
        """The expected score."""
        return expected_score(answer)
