"""What a head of InfoMetIC's shape is trained on: captions with human scores, and labels of words and regions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.settings import Settings
from capmeter_research.papers.infometic.joint_states import StateEncoder
from capmeter_research.papers.infometic.states import CaptionImageStates
from capmeter_research.papers.infometic.training.examples import RegressionTargets
from capmeter_research.papers.infometic.training.infometic.labels import Labels, region_labels

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StateExamples:
    """States of the captions, and what is known of them.

    rated: human scores, and which captions are held out. words: of each caption whether its words are right (1), wrong
    (0) or unknown (NaN). regions: [n, p], whether the regions of the picture are mentioned.
    """

    states: CaptionImageStates
    rated: RegressionTargets
    words: tuple[Floats, ...]
    regions: Floats

    def of_pieces(self, row: int) -> Floats:
        """The label of each piece of a caption: that of its word."""
        labels: Floats = self.words[row][self.states.sentences.word_indices[self.states.sentence[row]]]
        return labels


def read_examples(
    captions: CaptionSet,
    rated: RegressionTargets,
    encoder: StateEncoder,
    prefix: str,
    labels: Mapping[str, Labels],
    settings: Settings,
) -> StateExamples:
    """The examples of captions.

    Args:
        captions: with their images.
        rated: human scores, and which captions are held out.
        encoder: of words and regions.
        prefix: of each sentence.
        labels: of words and regions, by id, as far as they are known.
        settings: where the encoder runs.
    """
    states = CaptionImageStates.from_captions(captions, encoder, prefix, settings)
    word_labels, regions = [], []
    for row, caption_id in enumerate(captions.ids):
        caption_labels = labels.get(caption_id, Labels())
        word_count = len(captions.pool[int(captions.candidates[row])].split())
        word_labels.append(np.full(word_count, np.nan) if caption_labels.words is None else caption_labels.words)
        image_row = states.image[row]
        regions.append(region_labels(caption_labels, encoder.labels, states.images.boxes[image_row]))
    return StateExamples(states, rated, tuple(word_labels), np.array(regions))
