"""A trained head of InfoMetIC's shape: scores of captions, of their words, and of the picture's regions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.model import CaptionSet
from capmeter.checkpoints import Checkpoint
from capmeter.encoders.states import StateEncoder
from capmeter.errors import AssetError
from capmeter.metrics.base import Floats
from capmeter.metrics.evidence import Evidence, Mark, RegionEvidence
from capmeter.metrics.regressor.states import States

if TYPE_CHECKING:
    from capmeter.metrics.regressor.network import InfoMetIC

COLUMNS = ("score", "precision", "recall", "cosine", "wrong words")
WRONG = 0.5
"""A word that is right with less than this probability is called wrong."""
_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Judged:
    """What the head says of n captions. values: [n, 5], see `COLUMNS`. words: of each caption the probability that each
    of its words is right, [words]. mentioned: [n, p], that each region is mentioned; attended: [n, p], the regions'
    shares in the recall.
    """

    values: Floats
    words: tuple[Floats, ...]
    mentioned: Floats
    attended: Floats


@dataclass(frozen=True, eq=False)
class InfoMetICHead:
    """The network with the weights of a checkpoint."""

    network: InfoMetIC

    @classmethod
    def of(cls, trained: Checkpoint, encoder: StateEncoder, name: str) -> InfoMetICHead:
        """The head of a checkpoint.

        Raises:
            AssetError: its weights are not those of the network, or the encoder gives other states than in training.
        """
        import torch

        from capmeter.metrics.regressor.network import InfoMetIC, NetworkShape

        try:
            shape = NetworkShape(**trained.parameters["network"])
            network = InfoMetIC(shape)
            network.load_state_dict(
                {key: torch.from_numpy(np.asarray(each, np.float32)) for key, each in trained.weights.items()}
            )
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise AssetError(f"regressor: the weights of {name} are not those of its shape ({error})") from error
        found = (shape.regions, shape.region, shape.piece, shape.features)
        if found != encoder.shape:
            raise AssetError(
                f"regressor: {name} reads {_said(found)}, but the encoder gives {_said(encoder.shape)}; name the "
                "encoder it was trained with"
            )
        return cls(network.eval())

    def judge(self, part: CaptionSet, states: States, device: str) -> Judged:
        """Everything that the head says of these captions; empty ones get 0."""
        import torch

        network = self.network.to(device)
        values, words = np.zeros((len(part), len(COLUMNS))), [np.zeros(0)] * len(part)
        shape = states.pictures.there.shape[1]
        mentioned, attended = (np.zeros((len(part), shape)) for _ in range(2))
        for rows in states.batches(_AT_ONCE):
            with torch.inference_mode():
                told = network(states.batch(rows, device))
            right, seen, shares, cosines, scores = (
                each.to("cpu", torch.float64).numpy()
                for each in (
                    told.right.sigmoid(),
                    told.mentioned.sigmoid(),
                    told.attended,
                    told.cosines,
                    told.score.sigmoid(),
                )
            )
            mentioned[rows], attended[rows] = seen, shares
            for k, row in enumerate(rows.tolist()):
                text = part.pool[int(part.candidates[row])].split()
                if text:
                    words[row] = word_scores(right[k], states.sentences.words[states.said[row]], len(text))
                    values[row] = [scores[k], *cosines[k], np.count_nonzero(words[row] < WRONG)]
        return Judged(values, tuple(words), mentioned, attended)

    @staticmethod
    def evidence(part: CaptionSet, states: States, judged: Judged, labels: tuple[str, ...]) -> list[Evidence]:
        """The words of each caption with their scores, and the regions that it mentions and does not mention."""
        found = []
        for row, id in enumerate(part.ids):
            words = tuple(part[id].candidate.split())
            scores = judged.words[row]
            marks = tuple(
                Mark("candidate", None, k, k + 1, "wrong word", float(each))
                for k, each in enumerate(scores)
                if each < WRONG
            )
            seen = states.seen[row]
            there = np.flatnonzero(states.pictures.there[seen])
            facts: dict[str, float | str] = dict(zip(COLUMNS[1:4], judged.values[row, 1:4].tolist(), strict=True))
            facts["wrong words"] = ", ".join(f"{words[m.start]} ({m.weight:.2f})" for m in marks) or "none"
            if labels:
                left_out = [labels[j] for j in there.tolist() if judged.mentioned[row, j] < WRONG]
                facts["not mentioned"] = ", ".join(left_out) or "none"
            shares = judged.attended[row, there]
            regions = RegionEvidence(
                tuple(tuple(map(float, box)) for box in states.pictures.boxes[seen, there].tolist()),
                tuple((shares / max(float(shares.sum()), 1e-12)).tolist()),
                tuple(labels[j] for j in there.tolist()) if labels else (),
            )
            found.append(
                Evidence(words, (), marks=marks, facts=facts, regions=regions, word_scores=tuple(scores.tolist()))
            )
        return found


def word_scores(pieces: NDArray[np.float64], words: NDArray[np.int64], count: int) -> Floats:
    """The score of each word: that of its worst piece; 1 for a word without pieces (the caption was cut before it).

    >>> word_scores(np.array([0.9, 0.2, 0.7]), np.array([0, 0, 2]), 3).tolist()
    [0.2, 1.0, 0.7]
    """
    scores = np.ones(count)
    np.minimum.at(scores, words, pieces[: len(words)])
    return scores


def shape_to_dict(network: InfoMetIC) -> Mapping[str, Any]:
    """The network's sizes as checkpoint parameters."""
    return asdict(network.shape)


def _said(shape: tuple[int, int, int, int]) -> str:
    return f"{shape[0]} regions of width {shape[1]}, pieces of width {shape[2]} and features of width {shape[3]}"
