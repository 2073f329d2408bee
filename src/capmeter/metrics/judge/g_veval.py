"""G-VEval (Tong et al. 2025): a vision-language model's score after step-by-step reasons, as an expectation.

    score = Σ_s s p(s) / Σ_s p(s)                    p(s): the probability of the whole number s where the score stands

0 to 100, as published. `setting`: `combined` (picture and references), `ref-free` (picture) or `ref-only` (references).
The released code asks at temperature 1 and takes the five likeliest tokens; here it is temperature 0 and twenty. Where
the model gives no probabilities, the number as written is taken and the caption listed. Refusals and answers without a
score are listed and have no score. How judges are asked: docs/judges.md.

Tong, He, Shao, Yeung: G-VEval: A Versatile Metric for Evaluating Image and Video Captions Using GPT-4o. AAAI 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from capmeter.metrics.judge.answers import Answer
from capmeter.metrics.judge.judge import Judge
from capmeter.metrics.judge.prompts import Template
from capmeter.metrics.judge.prompts import template as named_template
from capmeter.metrics.judge.reading import expected_score

_NEEDS = {"combined": {"image", "references"}, "ref-free": {"image"}, "ref-only": {"references"}}


@dataclass(frozen=True, kw_only=True)
class GVEval(Judge):
    """A vision-language model's score after its reasons."""

    NAME: ClassVar[str] = "g-veval"
    SUMMARY: ClassVar[str] = "a vision-language model's judgment, step by step"
    ALTERNATIVES: ClassVar[bool] = True

    setting: Annotated[Literal["combined", "ref-free", "ref-only"], "what the model is shown"] = "combined"
    template: Annotated[str, "a template's name, or a file; empty: the released one of this setting"] = ""

    @property
    def needs(self) -> frozenset[str]:
        """What the setting shows."""
        return frozenset(_NEEDS[self.setting])

    @property
    def prompt(self) -> Template:
        """The prompt."""
        return named_template(self.template or f"g-veval-{self.setting}")

    def references_text(self, references: list[str]) -> str:
        """Quoted and separated by semicolons as the released code does, the last without its closing quote."""
        return "'" + "'; '".join(references) if references else ""

    def read(self, answer: Answer) -> tuple[float, bool] | str:
        """The expected score."""
        return expected_score(answer)
