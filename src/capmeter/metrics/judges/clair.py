"""CLAIR (Chan et al. 2023): how likely a caption describes the same image as the references, by a language model.

    score = the model's number of 0 to 100, divided by 100

Range 0 to 1. The prompt, and how the number is extracted from the answer, are the released code's; that code gives 0 if
there is none, here such captions are listed and have no score. The corpus score is the mean of the captions that have
one. `template` is a name or a file (see `capmeter.metrics.judges.prompts`). Servers, keys and costs: docs/judges.md.

CLAIR-A (Wu et al. 2024) is the same question about sounds, with the prompt of the released code and its tie-break:

    score = number / 100 + epsilon · FENSE,    epsilon = .0001

Range 0 to 1 + epsilon. The paper's FENSE has other networks than capmeter's (`tie_break`), which moves a score by less
than epsilon. `epsilon=0` is the model's number alone.

>>> str(Clair(model="gpt-4o-mini")), str(ClairA(model="gpt-4o"))
('clair(model=gpt-4o-mini)', 'clair-a(model=gpt-4o)')

Chan, Petryk, Gonzalez, Darrell, Canny: CLAIR: Evaluating Image Captions with Large Language Models. EMNLP 2023.
Wu, Gonzalez, Darrell, Chan: CLAIR-A: Leveraging Large Language Models to Judge Audio Captions. arXiv:2409.12962, 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Measurement, Metric, RunContext
from capmeter.metrics.audio.fluency import Fense
from capmeter.metrics.judges.answers import Answer
from capmeter.metrics.judges.prompts import Template
from capmeter.metrics.judges.prompts import template as named_template
from capmeter.metrics.judges.rating import RatingJudge
from capmeter.metrics.judges.reading import score_in_json


@dataclass(frozen=True, kw_only=True)
class Clair(RatingJudge):
    """A language model's judgment whether caption and references describe one image."""

    NAME: ClassVar[str] = "clair"
    SUMMARY: ClassVar[str] = "a language model's judgment of the same image"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \frac{\text{the model's number from 0 to 100}}{100}",)

    template: Annotated[str, "a template's name, or a file"] = "clair"

    @property
    def prompt(self) -> Template:
        """The prompt."""
        return named_template(self.template)

    def references_text(self, references: tuple[str, ...]) -> str:
        """A list with dashes."""
        return "\n".join(f"- {each}" for each in references)

    def read(self, answer: Answer) -> tuple[float, bool] | str:
        """The number in the answer."""
        score = score_in_json(answer)
        return score if isinstance(score, str) else (score, True)


@dataclass(frozen=True, kw_only=True)
class ClairA(Clair):
    """A language model's judgment whether caption and references describe one sound."""

    NAME: ClassVar[str] = "clair-a"
    SUMMARY: ClassVar[str] = "a language model's judgment of the same sound"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \frac{\text{the model's number from 0 to 100}}{100} + \epsilon \, \text{FENSE}",
    )

    template: Annotated[str, "a template's name, or a file"] = "clair-a"
    epsilon: Annotated[float, "weight of the tie-break"] = 0.0001
    tie_break: Annotated[Metric, "what orders captions with the same number"] = Fense()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.epsilon <= 0.01:
            raise InputError(
                f"{self.name}: epsilon={self.epsilon:g}: expected 0 to .01, less than one step of the model's number"
            )

    @property
    def needs(self) -> frozenset[str]:
        """References, and what the tie-break needs."""
        return super().needs.union(*(each.needs for each in self.required_metrics()))

    def required_metrics(self) -> tuple[Metric, ...]:
        """The tie-break, if it has any weight."""
        return (self.tie_break,) if self.epsilon else ()

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The number in the answer and the tie-break."""
        measurement = super().measure(part, context)
        is_scored = measurement.values[:, self.columns.index("scored")]
        for metric in self.required_metrics():
            measurement.values[:, 0] += self.epsilon * context.scores[metric]["score"] * is_scored
        return measurement

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """Also those of the tie-break."""
        facts = super().signature_facts(context)
        for metric in self.required_metrics():
            facts = {**metric.signature_facts(context.required_contexts[metric]), **facts}
        return facts
