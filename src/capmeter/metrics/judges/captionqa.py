"""CaptionQA (Yang et al. 2026): multiple-choice questions that a language model answers from the caption.

    score = (right answers + Σ (1/K + .05) over abstentions from K choices) / answered questions

Range 0 to 1, over all questions of all captions; the parts are the share of right answers (`accuracy`) and of
abstentions (`abstained`). A question that is not a yes-no question has the option "Cannot answer from the caption".
Options are shuffled by the seed of the released code, over all questions of the file in order, so that with the whole
benchmark's file they are in the published order. The prompt is that of lmms-eval, which integrates the benchmark. The
released code calls an unreadable answer wrong; here it is listed and does not count.

>>> str(CaptionQa(model="Qwen2.5-72B-Instruct", questions="captionqa.parquet"))
'captionqa(model=Qwen2.5-72B-Instruct,questions=captionqa.parquet)'

Yang et al.: CaptionQA: Is Your Caption as Useful as the Image Itself? CVPR 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from capmeter.metrics.judges.declared import DeclaredJudge


@dataclass(frozen=True, kw_only=True)
class CaptionQa(DeclaredJudge):
    """Multiple-choice questions about the image, answered from the caption."""

    NAME: ClassVar[str] = "captionqa"
    SUMMARY: ClassVar[str] = "multiple-choice questions answered from the caption"
    TASK: ClassVar[str] = "captionqa"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \frac{\text{right} + \sum_{\text{abstained}} (1/K + .05)}{\text{answered}}",
    )
