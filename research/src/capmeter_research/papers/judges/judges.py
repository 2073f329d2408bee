"""Judges of papers that are metrics by name. Each is a task file (`prompts`) with a few parameters.

CLAIR-A (Wu et al. 2024): CLAIR's question about sounds, with the released code's prompt and its tie-break.

    score = the model's number / 100 + epsilon · FENSE, epsilon = .0001

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
the mean of the captions that have one.

CaptionQA (Yang et al. 2026): multiple-choice questions that a language model answers from the caption.

    score = (right answers + Σ (1/K + .05) over abstentions from K choices) / answered questions

Range 0 to 1, over all questions of all captions; the parts are the share of right answers (`accuracy`) and of
abstentions (`abstained`). A question that is not a yes-no question has the option "Cannot answer from the caption".
Options are shuffled by the seed of the released code, over all questions of the file in order. The prompt is that of
lmms-eval. The released code reads the first single letter, "A" and "I" as words too, and calls an unreadable answer
wrong: `as_released=true`. By default a letter on a line of its own or after "answer:" goes first, and an unreadable
answer is listed and does not count.

CAPEval (Liu et al. 2026): a checklist of what a complete caption mentions, and whether what it mentions is right.

    score = (yes + no) / (yes + no + not mentioned)          precision = yes / (yes + no)

Range 0 to 1 (the paper's C and P are 100 times that), over all questions of all captions; a language model answers the
whole checklist of an image at once. The released code counts a question without a verdict as not mentioned; here it
does not count, and its caption is listed.

CapRL-QA (Xing et al. 2025): score = right answers / answered questions, range 0 to 1. `match` says when an answer is
right: `exact`, `relaxed` (numbers within 5 %, also as percentages, as for charts) or `anls` (relaxed, or a normalised
edit similarity of at least .5, as for infographics). A letter is expected where the expected answer is one.

AutoDQ (Wang et al. 2024): the events of a video, entailed by the caption, and those of the caption by the reference.

    score = 2 P R / (P + R), of the means of P and R over captions
    R = reference events that the caption entails / reference events;  P = the same of the caption's events

Range 0 to 1. The events of the reference are extracted if no file has them. As released, a text without events has a
share of 1, and texts are in lower case. The prompts of these four are the released ones. research/docs/judge-papers.md
has more.

>>> str(Fleur(model="m", references=True)), str(CaptionQa(model="m", questions="q.parquet"))
('fleur(model=m,references=true)', 'captionqa(model=m,questions=q.parquet)')

Wu, Gonzalez, Darrell, Chan: CLAIR-A: Leveraging Large Language Models to Judge Audio Captions. arXiv:2409.12962, 2024.
Lee, Park, Kang: FLEUR: An Explainable Reference-Free Evaluation Metric for Image Captioning Using a Large Multimodal
Model. ACL 2024.
Tong, He, Shao, Yeung: G-VEval: A Versatile Metric for Evaluating Image and Video Captions Using GPT-4o. AAAI 2025.
Yang et al.: CaptionQA: Is Your Caption as Useful as the Image Itself? CVPR 2026.
Liu, Wang, Zhang: CAPEval: A Decoupled Caption Evaluation across Understanding and Generation. arXiv:2608.02589, 2026.
Xing et al.: CapRL: Stimulating Dense Image Caption Capabilities via Reinforcement Learning. arXiv:2509.22647, 2025.
Wang, Yuan, Zhang: Tarsier: Recipes for Training and Evaluating Large Video Description Models. arXiv:2407.00634, 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Measurement, Metric, RunContext
from capmeter.metrics.audio.fluency import Fense
from capmeter.metrics.judges.judge import Clair, FileJudge, Judge


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
class Fleur(Judge):
    """A vision-language model's grade, smoothed."""

    NAME: ClassVar[str] = "fleur"
    SUMMARY: ClassVar[str] = "a vision-language model's smoothed score"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \sum_{d=0}^{9} \frac{d \, p_1(d)}{10} + \sum_{d=0}^{9} \frac{d \, p_2(d)}{100}",
    )

    references: Annotated[bool, "include the references in the prompt (RefFLEUR)"] = False

    @property
    def task_name(self) -> str:
        """With or without references."""
        return "reffleur" if self.references else "fleur"


@dataclass(frozen=True, kw_only=True)
class GVEval(Judge):
    """A vision-language model's score after its reasons."""

    NAME: ClassVar[str] = "g-veval"
    SUMMARY: ClassVar[str] = "a vision-language model's judgment, step by step"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \frac{\sum_{s} s \, p(s)}{\sum_{s} p(s)}",)

    setting: Annotated[Literal["combined", "ref-free", "ref-only"], "inputs of the model"] = "combined"

    @property
    def task_name(self) -> str:
        """That of the setting."""
        return f"g-veval-{self.setting}"


@dataclass(frozen=True, kw_only=True)
class CaptionQa(FileJudge):
    """Multiple-choice questions about the image, answered from the caption."""

    NAME: ClassVar[str] = "captionqa"
    SUMMARY: ClassVar[str] = "multiple-choice questions answered from the caption"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \frac{\text{right} + \sum_{\text{abstained}} (1/K + .05)}{\text{answered}}",
    )

    as_released: Annotated[bool, "read letters as the released code does; an unreadable answer is wrong"] = False


@dataclass(frozen=True, kw_only=True)
class CapEval(FileJudge):
    """A checklist of what a complete caption mentions, and whether it is right."""

    NAME: ClassVar[str] = "capeval"
    SUMMARY: ClassVar[str] = "a checklist: completeness and precision of a long caption"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \frac{\text{yes} + \text{no}}{\text{yes} + \text{no} + \text{not mentioned}}",
        r"\text{precision} = \frac{\text{yes}}{\text{yes} + \text{no}}",
    )


@dataclass(frozen=True, kw_only=True)
class AutoDq(FileJudge):
    """Events of caption and reference that the other entails."""

    NAME: ClassVar[str] = "autodq"
    SUMMARY: ClassVar[str] = "events of the caption and of the reference that the other entails"
    MISLEADS: ClassVar[str] = (
        "A caption without events has full precision; and a judge is as good as its model (docs/judges.md)."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"R = \frac{\text{reference events entailed by } c}{\text{reference events}}, \quad P = \frac{\text{events "
        r"of } c \text{ entailed by the reference}}{\text{events of } c}",
        r"F_1 = \frac{2 P R}{P + R}",
    )


@dataclass(frozen=True, kw_only=True)
class CaprlQa(FileJudge):
    """Questions about the image, answered from the caption."""

    NAME: ClassVar[str] = "caprl-qa"
    SUMMARY: ClassVar[str] = "questions about the image answered from the caption"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \frac{\text{right}}{\text{answered}}",)

    match: Annotated[Literal["exact", "relaxed", "anls"], "when an answer is right"] = "exact"
