"""What is counted of captions: words, and how many differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capmeter.core.settings import Settings
from capmeter.integrations.scst import Reward, reward
from capmeter_research.papers.subicap.captioner import Captioner
from capmeter_research.papers.subicap.examples import CaptionedImages

CHECKED = "cider-d"
END_WORD = "<end>"
"""The word that ends a caption in a reward."""


def freeze_references(
    metric: str, pictures: CaptionedImages, settings: Settings | None = None, end: str = ""
) -> Reward:
    """A metric with the captions of pictures as its references: `capmeter.reward`.

    Args:
        metric: its name.
        pictures: with captions.
        settings: of the metric.
        end: the word that ends a caption; "": none.
    """
    references: Any = pictures.references
    return reward(metric, references=references, eos=end or None, settings=settings)


def described(captions: Sequence[str]) -> dict[str, float]:
    """Mean number of words, and the share of distinct captions (*unique captions* of Table A.2).

    >>> described(["a cat", "a cat", "a big dog"])
    {'words': 2.3333333333333335, 'distinct': 0.6666666666666666}
    """
    return {
        "words": float(np.mean([len(caption.split()) for caption in captions])),
        "distinct": len(set(captions)) / len(captions),
    }


def score_captioner(captioner: Captioner, pictures: CaptionedImages, scorer: Reward) -> dict[str, float]:
    """How a captioner captions pictures: `cider_d` (or what the scorer gives), `words` and `distinct`.

    Args:
        captioner: writes a caption for each picture.
        pictures: with references.
        scorer: from captions and ids to scores.
    """
    captions = captioner.write(pictures)
    return {"cider_d": float(np.mean(scorer(captions, pictures.ids))), **described(captions)}
