"""An image encoder for metrics and trainings of capmeter-research: `leic(features=mean-colour)`."""

from dataclasses import dataclass

import numpy as np
from capmeter_research.common.image_features import ImageEncoder


@dataclass(frozen=True, kw_only=True)
class MeanColour(ImageEncoder):
    NAME, SUMMARY = "mean-colour", "the mean of the pixels"

    def label(self, settings):
        return self.NAME

    def encode(self, image, settings):
        return image.pixels.mean(axis=(0, 1), dtype=np.float32) / 255
