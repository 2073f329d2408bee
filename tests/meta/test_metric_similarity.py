"""Images compared by a metric: the other image's caption against this image's references."""

from __future__ import annotations

import numpy as np
import pytest

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.runner import score
from capmeter.meta.metric_similarity import score_image_pairs
from capmeter.transforms.degradations import OtherCaption

SENTENCES = [
    ("a dog runs on the grass", "a dog is running over green grass"),
    ("two cats sleep on a sofa", "cats asleep on the sofa"),
    ("a dog jumps over a fence", "the dog leaps over a wooden fence"),
    ("a man rides a red bicycle", "someone cycling on a red bike"),
]
CAPTIONS = CaptionSet.from_captions(Caption(f"i{k}", f"i{k}", a, (b,)) for k, (a, b) in enumerate(SENTENCES))


def test_every_candidate_meets_every_images_references() -> None:
    matrix = score_image_pairs(CAPTIONS, np.arange(4), "rouge-l")
    for k, (_, reference) in enumerate(SENTENCES):
        alone = score(candidates=[a for a, _ in SENTENCES], references=[[reference]] * 4, metrics=["rouge-l"])
        assert matrix[k].tolist() == alone["rouge-l"].items.array.tolist()


def test_the_other_caption_is_the_one_with_the_best_score() -> None:
    nearest = OtherCaption(similarity="rouge-l").fit(CAPTIONS, 0, score_image_pairs)
    scores = score_image_pairs(CAPTIONS, np.arange(4), "rouge-l")[0]
    assert nearest(0, 0.01) == SENTENCES[1 + int(scores[1:].argmax())][0] == SENTENCES[2][0]


def test_too_many_pairs_are_refused() -> None:
    with pytest.raises(
        InputError, match="would score 4,004,001 pairs of images, which is too many; take at most 2,000"
    ):
        score_image_pairs(CAPTIONS, np.zeros(2001, np.intp), "rouge-l")
