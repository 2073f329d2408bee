"""A trained InfoMetIC head: scores of captions, of their words, and of the image's regions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.checkpoints import Checkpoint, rebuilding
from capmeter.core.errors import AssetError
from capmeter.encoders.text.layers import load_module
from capmeter.evaluation.base import Floats
from capmeter.evaluation.evidence import Evidence, Mark, RegionEvidence
from capmeter_research.common.state_dicts import check_sizes
from capmeter_research.papers.infometic.joint_states import StateEncoder
from capmeter_research.papers.infometic.states import CaptionImageStates

if TYPE_CHECKING:
    from capmeter_research.papers.infometic.network import InfoMetIC

COLUMNS = ("score", "precision", "recall", "cosine", "wrong words")
MIN_PROBABILITY = 0.5
"""A word with a lower probability of being right counts as wrong, a region with a lower one as not mentioned."""
_BATCH = 64


@dataclass(frozen=True, eq=False)
class HeadScores:
    """The predictions for n captions with p regions each."""

    values: Floats  # (n, 5), see COLUMNS
    word_scores: tuple[Floats, ...]  # for each caption the probability of each of its words to be right
    mentioned: Floats  # (n, p), probabilities
    attended: Floats  # (n, p), the regions' shares in the recall


@dataclass(frozen=True, eq=False)
class InfoMetICHead:
    """The network with the weights of a checkpoint."""

    network: InfoMetIC

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, encoder: StateEncoder, name: str) -> InfoMetICHead:
        """The head of a checkpoint.

        Args:
            checkpoint: shape and weights.
            encoder: gives the states that the head reads.
            name: of the checkpoint, for messages.

        Raises:
            AssetError: its weights are not those of the network, or the encoder gives other states than in training.
        """
        from capmeter_research.papers.infometic.network import HeadShape, InfoMetIC

        with rebuilding("a regressor", name):
            check_sizes(checkpoint.parameters["network"], checkpoint.weights)
            shape = HeadShape(**checkpoint.parameters["network"])
            network = load_module(lambda: InfoMetIC(shape), checkpoint.weights)
        expected_shape = (shape.regions, shape.region, shape.piece, shape.features)
        if expected_shape != encoder.shape:
            raise AssetError(
                f"regressor: {name} reads {_describe(expected_shape)}, but the encoder gives "
                f"{_describe(encoder.shape)}; name the encoder it was trained with"
            )
        return cls(network)

    def score_captions(self, part: CaptionSet, states: CaptionImageStates, device: str) -> HeadScores:
        """The predictions for captions; empty ones get 0.

        Args:
            part: the captions.
            states: of words and regions.
            device: of torch.
        """
        import torch

        network = self.network.to(device)
        caption_scores, word_values = np.zeros((len(part), len(COLUMNS))), [np.zeros(0)] * len(part)
        mentioned, attended = (np.zeros((len(part), states.images.mask.shape[1])) for _ in range(2))
        for rows in states.batches(_BATCH):
            with torch.inference_mode():
                output = network(states.batch(rows, device))
            output_tensors = output.right.sigmoid(), output.mentioned.sigmoid(), output.attended, output.cosines
            right, mentioned[rows], attended[rows], cosines, scores = (
                tensor.to("cpu", torch.float64).numpy() for tensor in (*output_tensors, output.score.sigmoid())
            )
            for k, row in enumerate(rows.tolist()):
                caption_words = part.pool[int(part.candidates[row])].split()
                if caption_words:
                    word_values[row] = word_scores(
                        right[k], states.sentences.word_indices[states.sentence[row]], len(caption_words)
                    )
                    caption_scores[row] = [scores[k], *cosines[k], np.count_nonzero(word_values[row] < MIN_PROBABILITY)]
        return HeadScores(caption_scores, tuple(word_values), mentioned, attended)


def build_evidence(
    part: CaptionSet, states: CaptionImageStates, predictions: HeadScores, labels: tuple[str, ...]
) -> list[Evidence]:
    """The words of each caption with their scores, and the regions that it mentions and does not mention.

    Args:
        part: the captions.
        states, predictions: of these captions.
        labels: of the regions; empty if they have none.
    """
    evidence = []
    for caption_index, caption_id in enumerate(part.ids):
        words, scores = tuple(part[caption_id].candidate.split()), predictions.word_scores[caption_index]
        marks = tuple(
            Mark("candidate", None, k, k + 1, "wrong word", float(score))
            for k, score in enumerate(scores)
            if score < MIN_PROBABILITY
        )
        image_index = states.image[caption_index]
        present_regions = np.flatnonzero(states.images.mask[image_index])
        facts: dict[str, float | str] = dict(
            zip(COLUMNS[1:4], predictions.values[caption_index, 1:4].tolist(), strict=True)
        )
        facts["wrong words"] = ", ".join(f"{words[m.start]} ({m.weight:.2f})" for m in marks) or "none"
        if labels:
            omitted_labels = [
                labels[j] for j in present_regions.tolist() if predictions.mentioned[caption_index, j] < MIN_PROBABILITY
            ]
            facts["not mentioned"] = ", ".join(omitted_labels) or "none"
        region_shares = predictions.attended[caption_index, present_regions]
        region_evidence = RegionEvidence(
            tuple(tuple(map(float, box)) for box in states.images.boxes[image_index, present_regions].tolist()),
            tuple((region_shares / max(float(region_shares.sum()), 1e-12)).tolist()),
            tuple(labels[j] for j in present_regions.tolist()) if labels else (),
        )
        word_values = tuple(scores.tolist())
        evidence.append(Evidence(words, (), marks=marks, facts=facts, regions=region_evidence, word_scores=word_values))
    return evidence


def word_scores(pieces: NDArray[np.float64], words: NDArray[np.int64], count: int) -> Floats:
    """The score of each word: the lowest of its pieces; 1 for a word without pieces (the caption was truncated).

    >>> word_scores(np.array([0.9, 0.2, 0.7]), np.array([0, 0, 2]), 3).tolist()
    [0.2, 1.0, 0.7]

    Args:
        pieces: the probability of each word piece, (pieces,).
        words: the word of each piece, (pieces,); later pieces are padding.
        count: number of words.
    """
    scores = np.ones(count)
    np.minimum.at(scores, words, pieces[: len(words)])
    return scores


def _describe(shape: tuple[int, int, int, int]) -> str:
    return f"{shape[0]} regions of width {shape[1]}, pieces of width {shape[2]} and features of width {shape[3]}"
