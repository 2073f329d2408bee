"""A trained critic, rebuilt from its checkpoint: vocabulary and network, and what it makes of pooled sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.assets import CHECKPOINT, find_checkpoint
from capmeter.captions.model import Life, SentencePool
from capmeter.checkpoints import Checkpoint, load_checkpoint
from capmeter.errors import AssetError, InputError
from capmeter.metrics.leic.forward import CriticNetwork, as_weights
from capmeter.metrics.leic.pooling import Reals
from capmeter.metrics.leic.shape import CriticShape
from capmeter.metrics.leic.vocabulary import UNKNOWN, CriticVocabulary, tokens_of
from capmeter.ragged import Ragged

KIND = SHIPPED = "leic"


class Critic:
    """A critic as its checkpoint describes it; arithmetic in float32.

    `features` names the image features it was trained on; `start` says where its word vectors began.

    Raises:
        AssetError: the checkpoint is not that of a critic.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        try:
            self.shape = CriticShape.from_dict(checkpoint.parameters["shape"])
            self.start = str(checkpoint.parameters["start"])
            self.network = CriticNetwork(as_weights(checkpoint.weights), self.shape)
        except (KeyError, TypeError, ValueError, InputError) as error:
            raise AssetError(f"{checkpoint.label}: this is not a critic of LEIC ({error}); train it again") from error
        self.vocabulary = CriticVocabulary(checkpoint.vocabulary)
        if len(self.vocabulary) != len(self.network.embedding):
            raise AssetError(
                f"{checkpoint.label}: {len(self.vocabulary)} words but {len(self.network.embedding)} word vectors; "
                "train it again"
            )
        self.features = checkpoint.features[0] if checkpoint.features else ""
        self.label = checkpoint.label


def load_critic(name: str) -> Critic:
    """The critic with this name (shipped, or in the user's data folder) or in this folder, loaded once.

    Raises:
        AssetError: there is none, or it is damaged or of another kind.
        MissingBackend: safetensors is not installed.
    """
    folder = find_checkpoint(name)
    if folder is None:
        return Critic(load_checkpoint(name, KIND))  # says what there is
    stat = (folder / CHECKPOINT).stat()
    return _loaded(folder.resolve(), (stat.st_size, stat.st_mtime_ns))


@lru_cache(maxsize=4)
def _loaded(folder: Path, stamp: tuple[int, int]) -> Critic:
    return Critic(Checkpoint.read(folder, KIND))


@dataclass(frozen=True, eq=False)
class StateTable:
    """The LSTM's state at the end of each sentence: `states` [sentences, width]."""

    states: Reals

    def take(self, indices: npt.NDArray[np.int64]) -> StateTable:
        """The rows at these indices."""
        return StateTable(self.states[indices])


@dataclass(frozen=True)
class SentenceStates:
    """Analysis: what the critic's LSTM makes of each sentence.

    As released, the state is read where the end token is: a caption without one inside the window (15 words and more,
    or none at all) has the zero vector.
    """

    checkpoint: str
    as_released: bool
    life: ClassVar[Life] = "run"

    def run(self, pool: SentencePool) -> StateTable:
        """The states of a pool."""
        critic = load_critic(self.checkpoint)
        tokens = tokens_of(pool, self.as_released)
        sentences = critic.vocabulary.table(tokens, critic.shape.steps)
        if not self.as_released:
            return StateTable(critic.network.read(sentences))
        lengths = tokens.ids.lengths
        ended = np.flatnonzero((lengths > 0) & (lengths < critic.shape.steps))
        states = np.zeros((len(sentences), critic.shape.width), critic.network.embedding.dtype)
        states[ended] = critic.network.read(sentences.take(ended))
        return StateTable(states)


def occluded(critic: Critic, numbers: Sequence[int], known: npt.NDArray[np.bool_]) -> Reals:
    """The states of variants of a caption, [variants, width], in which the words that are not `known` are unknown."""
    rows = np.repeat(np.array(numbers, np.int32)[None], len(known), axis=0)
    rows[:, : known.shape[1]][~known] = UNKNOWN
    return critic.network.read(Ragged.from_lengths(rows.ravel(), np.full(len(rows), len(numbers))))
