"""What is counted of captions: words, and how many differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from capmeter_research.papers.subicap.captioner import Captioner
from capmeter_research.papers.subicap.examples import CaptionedImages


class CaptionScorer(Protocol):
    """A metric with frozen references: `capmeter.reward`."""

    def __call__(self, candidates: Sequence[str], image_ids: Sequence[str]) -> npt.NDArray[np.float64]:
        """The score of each caption against the references of its image."""


def described(captions: Sequence[str]) -> dict[str, float]:
    """Mean number of words, and the share of distinct captions (*unique captions* of Table A.2).

    >>> described(["a cat", "a cat", "a big dog"])
    {'words': 2.3333333333333335, 'distinct': 0.6666666666666666}
    """
    return {
        "words": float(np.mean([len(caption.split()) for caption in captions])),
        "distinct": len(set(captions)) / len(captions),
    }


def score_captioner(captioner: Captioner, pictures: CaptionedImages, scorer: CaptionScorer) -> dict[str, float]:
    """How a captioner captions pictures: `cider_d` (or what the scorer gives), `words` and `distinct`.

    Args:
        captioner: writes a caption for each picture.
        pictures: with references.
        scorer: from captions and ids to scores.
    """
    captions = captioner.write(pictures)
    return {"cider_d": float(np.mean(scorer(captions, pictures.ids))), **described(captions)}
