"""Judges that ask one question about each caption, whose answer is its score.

CLAIR (Chan et al. 2023): how likely a caption describes the same image as the references.

    score = the model's number of 0 to 100, divided by 100

Range 0 to 1. The prompt, and how the number is extracted from the answer, are the released code's; that code gives 0 if
there is none, here such captions are listed and have no score. CLAIR-A (Wu et al. 2024) is the same question about
sounds, with the released code's prompt and its tie-break: score = number / 100 + epsilon · FENSE, epsilon = .0001.
Range 0 to 1 + epsilon. The paper's FENSE has other networks than capmeter's (`tie_break`), which moves a score by less
than epsilon; `epsilon=0` is the model's number alone.

FLEUR and RefFLEUR (Lee et al. 2024): a vision-language model's grade of a caption, smoothed over its digits.

    score = Σ_d d p_1(d) / 10 + Σ_d d p_2(d) / 100        p_k(d): the probability of digit d at the k-th decimal

The second sum only if the answer has a second decimal; an answer of 1.0 gives .9 p(0) + p(1) at its first token. Range
0 to 1. With `references` (RefFLEUR) the prompt contains the references too.

G-VEval (Tong et al. 2025): a vision-language model's score after step-by-step reasons, as an expectation.

    score = Σ_s s p(s) / Σ_s p(s)                    p(s): the probability of the whole number s where the score stands

Range 0 to 100, as published. `setting`: `combined` (image and references), `ref-free` (image) or `ref-only`
(references). The released code uses temperature 1 and the five most probable tokens; here it is temperature 0 and
twenty.

If the model gives no probabilities, the score is the number as written and the caption is listed. The corpus score is
the mean of the captions that have one. Servers, keys and costs: docs/judges.md.

>>> str(Clair(model="gpt-4o-mini")), str(Fleur(model="m", references=True))
('clair(model=gpt-4o-mini)', 'fleur(model=m,references=true)')

Chan, Petryk, Gonzalez, Darrell, Canny: CLAIR: Evaluating Image Captions with Large Language Models. EMNLP 2023.
Wu, Gonzalez, Darrell, Chan: CLAIR-A: Leveraging Large Language Models to Judge Audio Captions. arXiv:2409.12962, 2024.
Lee, Park, Kang: FLEUR: An Explainable Reference-Free Evaluation Metric for Image Captioning Using a Large Multimodal
Model. ACL 2024.
Tong, He, Shao, Yeung: G-VEval: A Versatile Metric for Evaluating Image and Video Captions Using GPT-4o. AAAI 2025.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Measurement, Metric, RunContext
from capmeter.metrics.audio.fluency import Fense
from capmeter.metrics.judges.asking import Answer, Ask, Failure
from capmeter.metrics.judges.judge import PLAIN, Judge, JudgedCaption, Verdict, load_tasks
from capmeter.metrics.judges.reading import read_marked_score, read_number, read_smoothed_share

if TYPE_CHECKING:
    from capmeter.metrics.judges.tasks import Prompt


@dataclass(frozen=True, kw_only=True)
class RatingJudge(Judge):
    """A judge with one question. A subclass defines the prompt, and the score of an answer."""

    @property
    @abstractmethod
    def prompt_name(self) -> str:
        """The prompt's file."""

    @abstractmethod
    def read(self, answer: Answer | Failure) -> tuple[float, bool]:
        """The score of an answer, and whether it is computed as published."""

    @property
    def prompt(self) -> Prompt:
        """The prompt."""
        prompt: Prompt = load_tasks().read_prompt(self.prompt_name)
        return prompt

    async def judge(self, ask: Ask, caption: JudgedCaption) -> Verdict:
        """One question, and its score."""
        (answer,) = await ask([self.question(self.prompt, caption)])
        score, is_as_published = self.read(answer)
        return Verdict((score,), () if is_as_published else (PLAIN,))


@dataclass(frozen=True, kw_only=True)
class Clair(RatingJudge):
    """A language model's judgment whether caption and references describe one image."""

    NAME: ClassVar[str] = "clair"
    SUMMARY: ClassVar[str] = "a language model's judgment of the same image"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \frac{\text{the model's number from 0 to 100}}{100}",)

    @property
    def prompt_name(self) -> str:
        """The prompt of the same name."""
        return self.NAME

    def read(self, answer: Answer | Failure) -> tuple[float, bool]:
        """The number in the answer."""
        return read_number(answer) / 100, True


@dataclass(frozen=True, kw_only=True)
class ClairA(Clair):
    """A language model's judgment whether caption and references describe one sound."""

    NAME: ClassVar[str] = "clair-a"
    SUMMARY: ClassVar[str] = "a language model's judgment of the same sound"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \frac{\text{the model's number from 0 to 100}}{100} + \epsilon \, \text{FENSE}",
    )

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


@dataclass(frozen=True, kw_only=True)
class Fleur(RatingJudge):
    """A vision-language model's grade, smoothed."""

    NAME: ClassVar[str] = "fleur"
    SUMMARY: ClassVar[str] = "a vision-language model's smoothed score"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \sum_{d=0}^{9} \frac{d \, p_1(d)}{10} + \sum_{d=0}^{9} \frac{d \, p_2(d)}{100}",
    )

    references: Annotated[bool, "include the references in the prompt (RefFLEUR)"] = False

    @property
    def needs(self) -> frozenset[str]:
        """An image; for RefFLEUR references too."""
        return frozenset({"image", "references"} if self.references else {"image"})

    @property
    def prompt_name(self) -> str:
        """With or without references."""
        return "reffleur" if self.references else "fleur"

    def read(self, answer: Answer | Failure) -> tuple[float, bool]:
        """The smoothed number."""
        return read_smoothed_share(answer)


_NEEDS = {"combined": {"image", "references"}, "ref-free": {"image"}, "ref-only": {"references"}}


@dataclass(frozen=True, kw_only=True)
class GVEval(RatingJudge):
    """A vision-language model's score after its reasons."""

    NAME: ClassVar[str] = "g-veval"
    SUMMARY: ClassVar[str] = "a vision-language model's judgment, step by step"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \frac{\sum_{s} s \, p(s)}{\sum_{s} p(s)}",)

    setting: Annotated[Literal["combined", "ref-free", "ref-only"], "inputs of the model"] = "combined"

    @property
    def needs(self) -> frozenset[str]:
        """The inputs of the setting."""
        return frozenset(_NEEDS[self.setting])

    @property
    def prompt_name(self) -> str:
        """That of the setting."""
        return f"g-veval-{self.setting}"

    def read(self, answer: Answer | Failure) -> tuple[float, bool]:
        """The expected score."""
        return read_marked_score(answer)
