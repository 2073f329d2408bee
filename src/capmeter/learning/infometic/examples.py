"""What a head of InfoMetIC's shape is trained on: captions with human scores, and labels of words and regions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import CaptionSet
from capmeter.encoders.states import StateEncoder
from capmeter.learning.infometic.labels import Labels, region_labels
from capmeter.learning.regressor.examples import Rated
from capmeter.metrics.regressor.states import States
from capmeter.settings import Settings

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StateExamples:
    """States of the captions, and what is known of them.

    rated: human scores, and which captions are held out. words: of each caption whether its words are right (1), wrong
    (0) or unknown (NaN). regions: [n, p], whether the regions of the picture are mentioned.
    """

    states: States
    rated: Rated
    words: tuple[Floats, ...]
    regions: Floats

    def of_pieces(self, row: int) -> Floats:
        """The label of each piece of a caption: that of its word."""
        labels: Floats = self.words[row][self.states.sentences.words[self.states.said[row]]]
        return labels


def read_examples(
    captions: CaptionSet,
    rated: Rated,
    encoder: StateEncoder,
    prefix: str,
    labels: Mapping[str, Labels],
    settings: Settings,
) -> StateExamples:
    """The examples of these captions; labels by their ids, as far as they are known."""
    states = States.of(captions, encoder, prefix, settings)
    words, regions = [], []
    for row, id in enumerate(captions.ids):
        known = labels.get(id, Labels())
        count = len(captions.pool[int(captions.candidates[row])].split())
        words.append(np.full(count, np.nan) if known.words is None else known.words)
        seen = states.seen[row]
        regions.append(region_labels(known, encoder.labels, states.pictures.boxes[seen]))
    return StateExamples(states, rated, tuple(words), np.array(regions))
