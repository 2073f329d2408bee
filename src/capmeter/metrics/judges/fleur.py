"""FLEUR and RefFLEUR (Lee et al. 2024): a vision-language model's grade of a caption, smoothed over its digits.

    score = Σ_d d p_1(d) / 10 + Σ_d d p_2(d) / 100        p_k(d): the probability of digit d at the k-th decimal

The second sum only if the answer has a second decimal; an answer of 1.0 gives .9 p(0) + p(1) at its first token. Range
0 to 1. With `references` (RefFLEUR) the prompt contains the references too. If the model gives no probabilities, the
score is the number as written and the caption is listed. Refusals and answers without a number are listed and have no
score; the corpus score is the mean of the others. Servers, keys and costs: docs/judges.md.

The published values are those of LLaVA-1.5-13B: `fleur(model="FOLDER",endpoint=local)` with its weights.

>>> str(Fleur(model="gpt-4o-mini", references=True))
'fleur(model=gpt-4o-mini,references=true)'

Lee, Park, Kang: FLEUR: An Explainable Reference-Free Evaluation Metric for Image Captioning Using a Large Multimodal
Model. ACL 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from capmeter.metrics.judges.answers import Answer
from capmeter.metrics.judges.prompts import Template
from capmeter.metrics.judges.prompts import template as named_template
from capmeter.metrics.judges.rating import RatingJudge
from capmeter.metrics.judges.reading import smoothed_share


@dataclass(frozen=True, kw_only=True)
class Fleur(RatingJudge):
    """A vision-language model's grade, smoothed."""

    NAME: ClassVar[str] = "fleur"
    SUMMARY: ClassVar[str] = "a vision-language model's smoothed score"
    IMAGE_FIRST: ClassVar[bool] = True
    ALTERNATIVES: ClassVar[bool] = True
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \sum_{d=0}^{9} \frac{d \, p_1(d)}{10} + \sum_{d=0}^{9} \frac{d \, p_2(d)}{100}",
    )

    references: Annotated[bool, "include the references in the prompt (RefFLEUR)"] = False
    template: Annotated[str, "a template's name, or a file; empty: the released one"] = ""

    @property
    def needs(self) -> frozenset[str]:
        """An image; for RefFLEUR references too."""
        return frozenset({"image", "references"} if self.references else {"image"})

    @property
    def prompt(self) -> Template:
        """The prompt."""
        return named_template(self.template or ("reffleur" if self.references else "fleur"))

    def read(self, answer: Answer) -> tuple[float, bool] | str:
        """The smoothed number."""
        return smoothed_share(answer)
