"""Captions of objects that count only where the box is right: m@kIoU of Scan2Cap (Chen et al. 2021), in any dimension.

Each box of the references, with all its captions, gets the caption of the candidate's box that overlaps it most. It is
scored by the metric if the IoU reaches the threshold, and counts 0 otherwise:

    m(g) = metric(caption of the most overlapping box, captions of g) · [IoU ≥ threshold]

    recall = Σ m(g) / reference boxes,    precision = Σ m(g) / candidate boxes,    F1 = their harmonic mean

The score is the recall, which Scan2Cap calls m@kIoU, or with `form=f1` the F1 that later work prefers: a system that
proposes very many boxes loses nothing by recall. Sums are over all scenes. Boxes are (x1, y1, x2, y2), in space (x1,
y1, z1, x2, y2, z2), rows of them have a field `box`; intervals in time do as well. Document frequencies (CIDEr-D) are
those of the reference boxes. Range that of the metric. Where the released script scores the corpus of all boxes (BLEU),
this is the mean of the captions' own scores.

>>> from capmeter.captions.load import load
>>> rows = [{"image_id": "room", "caption": "a red chair", "box": [0, 0, 2, 2]}]
>>> references = [{"image_id": "room", "caption": "a red chair", "box": [0, 0, 2, 1.5]},
...               {"image_id": "room", "caption": "a table", "box": [5, 5, 6, 6]}]
>>> from capmeter.evaluation.runner import score
>>> results = score(load(rows, references), "gated(metric=rouge-l)")["gated(metric=rouge-l)"]
>>> results.parts  # the chair's IoU is .75; the table is not found
{'recall': 0.5, 'precision': 1.0, 'f1': 0.6666666666666666}

D. Z. Chen, A. Gholami, M. Nießner, A. X. Chang. Scan2Cap: Context-aware Dense Captioning in RGB-D Scans. CVPR 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Annotated, ClassVar, Literal

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import AdditiveMetric, Floats, Measurement, Metric, RunContext
from capmeter.metrics.ngram.cider import CiderD
from capmeter.metrics.video.overlap import note_events, overlap_iou, video_blocks
from capmeter.metrics.video.sentence_pairs import EventCaptionMetric, PairScores, captions_by_box
from capmeter.stats.ratios import f1, ratio


@dataclass(frozen=True, kw_only=True)
class Gated(EventCaptionMetric, AdditiveMetric):
    """A metric of captions of boxes, 0 where the boxes do not overlap enough.

    Args:
        metric: of a caption and the captions of its object.
        iou: the threshold of overlap.
        form: what the score is.
    """

    NAME: ClassVar[str] = "gated"
    SUMMARY: ClassVar[str] = "captions of boxes by a metric, 0 where boxes do not overlap enough: m@kIoU"
    BY_BOX: ClassVar[bool] = True
    columns: ClassVar[tuple[str, ...]] = ("sum", "reference boxes", "candidate boxes")
    MISLEADS: ClassVar[str] = (
        "Counts a right caption 0 where its box is off, and by recall ignores how many boxes were proposed."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"m(g) = \text{metric}(c_{p(g)}, C_g) \cdot [\text{IoU}(p(g), g) \ge k], \quad p(g) = \text{argmax}_p "
        r"\text{IoU}(p, g)",
        r"\text{recall} = \frac{\sum_g m(g)}{|G|}, \quad \text{precision} = \frac{\sum_g m(g)}{|P|}",
    )

    metric: Annotated[Metric, "what compares a caption with those of its object"] = CiderD()
    iou: Annotated[float, "threshold of overlap"] = 0.5
    form: Annotated[Literal["recall", "f1"], "recall, or its harmonic mean with precision"] = "recall"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.iou <= 1:
            raise InputError(f"{self.name}: expected iou above 0 and at most 1, but got {self.iou:g}")

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The sum of scores of each scene, and its numbers of boxes."""
        candidates, references, scenes = list[str](), list[tuple[str, ...]](), list[int]()
        scene_counts = np.zeros((len(part), 3))
        for scene, video in chain.from_iterable(video_blocks(part)):
            box_captions = captions_by_box(video.references)
            scene_counts[scene, 1:] = len(box_captions), len(video.candidate.times)
            if not video.candidate.times:
                continue
            overlap = overlap_iou(video.candidate.times, list(box_captions))
            for box_index, reference_texts in enumerate(box_captions.values()):
                best_candidate = int(np.argmax(overlap[:, box_index]))
                if overlap[best_candidate, box_index] >= self.iou:
                    candidates.append(video.candidate.sentences[best_candidate])
                    references.append(reference_texts)
                    scenes.append(scene)
        box_scores = PairScores(self.metric, context.state, context.settings).scores(candidates, references)
        np.add.at(scene_counts[:, 0], scenes, box_scores)
        return Measurement(scene_counts, note_events(part))

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """Recall, precision and F1 of summed scores."""
        score_sum = sums[..., 0]
        recall, precision = ratio(score_sum, sums[..., 1]), ratio(score_sum, sums[..., 2])
        parts = {"recall": recall, "precision": precision, "f1": f1(precision, recall)}
        return {"score": parts[self.form], **parts}
