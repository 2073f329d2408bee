"""What a regression head is trained on: captions with human scores, and the inputs of the head.

A head of InfoMetIC's shape is also trained on labels of words and regions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.progress import report_progress
from capmeter.core.settings import Settings
from capmeter_research.papers.infometic.inputs import InputSpec
from capmeter_research.papers.infometic.joint_states import StateEncoder
from capmeter_research.papers.infometic.states import CaptionImageStates
from capmeter_research.papers.infometic.training.labels import Labels, region_labels

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
_FEWEST_HELD_OUT = 2  # images, where the share of few images would be none


@dataclass(frozen=True, eq=False)
class RegressionTargets:
    """The human scores of captions. human: [n], 0 to 1. low, high: the scores that became 0 and 1. trained, held_out:
    the captions of either side; no image is on both.
    """

    human: Floats
    low: float
    high: float
    trained: Rows
    held_out: Rows


@dataclass(frozen=True, eq=False)
class RegressionExamples:
    """Inputs [n, k] of the captions `rows`, which are in order; the inputs of caption i begin at `starts[i]`. The first
    `cosines` inputs are cosines.
    """

    values: Floats
    cosines: int
    rows: Rows
    starts: Rows
    rated: RegressionTargets


def read_examples(
    captions: CaptionSet, inputs: InputSpec, *, share: float, seed: int, settings: Settings | None = None
) -> RegressionExamples:
    """The examples of captions with human scores.

    Args:
        captions: with human scores.
        inputs: what the head reads.
        share: of images that are held out, 0 to 1.
        seed: chooses the held-out images.
        settings: where encoders run.

    Raises:
        InputError: see `read_rated`.
    """
    rated = read_rated(captions, inputs, share=share, seed=seed)
    computed_inputs = inputs.compute(captions, settings or Settings())
    input_starts = np.searchsorted(computed_inputs.rows, np.arange(len(captions) + 1))
    return RegressionExamples(
        computed_inputs.values, inputs.cosine_count, computed_inputs.rows, input_starts.astype(np.int64), rated
    )


def read_rated(captions: CaptionSet, inputs: InputSpec, *, share: float, seed: int) -> RegressionTargets:
    """The human scores of captions, and which captions are held out.

    Args:
        captions, inputs, share, seed: as in `read_examples`.

    Raises:
        InputError: captions without a human score or a picture, scores that are all equal, or too few images.
    """
    unrated_ids = [id for id, human_scores in zip(captions.ids, captions.humans, strict=True) if not human_scores]
    if unrated_ids:
        have = format_count(len(unrated_ids), "caption has", "captions have")
        raise InputError(f"{have} no human score (the first: {', '.join(unrated_ids[:5])})")
    unseen = [captions.ids[k] for k in np.flatnonzero(captions.image_indices < 0)[:5].tolist()]
    if unseen and inputs.shape != "text":
        raise InputError(
            f"captions name no picture (the first: {', '.join(unseen)}); see --images-root, or choose the shape text, "
            "which reads none"
        )
    if inputs.reads_references and not captions.references.lengths.all():
        raise InputError(
            f"captions have no references, which the shape {inputs.shape} needs; give them, or choose pair, which "
            "reads pictures only"
        )
    human_scores = np.array([float(np.mean(human_ratings or (0.0,))) for human_ratings in captions.humans])
    low, high = float(human_scores.min()), float(human_scores.max())
    if low == high:
        raise InputError(f"all human scores are {low:g}; there is nothing to learn")
    images = sorted(set(captions.image_ids), key=lambda image_id: _uniform(seed, image_id))
    count = max(_FEWEST_HELD_OUT, sum(_uniform(seed, image_id) < share for image_id in images))
    is_held_out = np.isin(captions.image_ids, images[:count])
    while count < len(images) // 2 and len(set(human_scores[is_held_out].tolist())) < 2:  # equal scores select no epoch
        count += 1
        is_held_out = np.isin(captions.image_ids, images[:count])
    if is_held_out.all() or not is_held_out.any() or len(set(human_scores[is_held_out].tolist())) < 2:
        raise InputError(
            f"{len(set(captions.image_ids)):,} images are too few to hold some out with "
            "different human scores; give more"
        )
    report_progress(
        f"{int((~is_held_out).sum()):,} captions are trained on; {int(is_held_out.sum()):,} captions of {count:,} of "
        f"{len(images):,} images are held out"
    )
    return RegressionTargets(
        human=(human_scores - low) / (high - low),
        low=low,
        high=high,
        trained=np.flatnonzero(~is_held_out),
        held_out=np.flatnonzero(is_held_out),
    )


def _uniform(seed: int, image_id: str) -> float:
    """A number in [0, 1) that follows from the seed and the image alone."""
    digest = hashlib.blake2b(f"{seed}\0{image_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") / (1 << 64)


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


def read_states(
    captions: CaptionSet,
    rated: RegressionTargets,
    encoder: StateEncoder,
    prefix: str,
    labels: Mapping[str, Labels],
    settings: Settings,
) -> StateExamples:
    """The examples of captions for a head of InfoMetIC's shape.

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
