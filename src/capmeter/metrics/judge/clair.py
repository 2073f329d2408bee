"""CLAIR (Chan et al. 2023): how likely a caption describes the same image as the references, by a language model.

    score = the model's number of 0 to 100, divided by 100

0 to 1. The prompt, and how the number is found in the answer, are the released code's; that code gives 0 where there is
none, here such captions are listed and have no score. The corpus score is the mean of the captions that have one.
`template` is a name or a file (see `capmeter.metrics.judge.prompts`). How judges are asked: docs/judges.md.

>>> str(Clair(model="gpt-4o-mini"))
'clair(model=gpt-4o-mini)'

Chan, Petryk, Gonzalez, Darrell, Canny: CLAIR: Evaluating Image Captions with Large Language Models. EMNLP 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from capmeter.metrics.judge.answers import Answer
from capmeter.metrics.judge.judge import Judge
from capmeter.metrics.judge.prompts import Template
from capmeter.metrics.judge.prompts import template as named_template
from capmeter.metrics.judge.reading import score_in_json


@dataclass(frozen=True, kw_only=True)
class Clair(Judge):
    """A language model's judgment whether caption and references describe one image."""

    NAME: ClassVar[str] = "clair"
    SUMMARY: ClassVar[str] = "a language model's judgment of the same image"

    template: Annotated[str, "a template's name, or a file"] = "clair"

    @property
    def prompt(self) -> Template:
        """The prompt."""
        return named_template(self.template)

    def references_text(self, references: list[str]) -> str:
        """A list with dashes."""
        return "\n".join(f"- {each}" for each in references)

    def read(self, answer: Answer) -> tuple[float, bool] | str:
        """The number in the answer."""
        score = score_in_json(answer)
        return score if isinstance(score, str) else (score, True)
