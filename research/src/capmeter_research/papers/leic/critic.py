"""A trained critic, rebuilt from its checkpoint: vocabulary and network, and the LSTM states of a pool's sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import SentencePool
from capmeter.core.assets import CheckpointStamp, checkpoint_stamp
from capmeter.core.checkpoints import Checkpoint, load_checkpoint, rebuilding
from capmeter.core.errors import AssetError
from capmeter.core.ragged import Ragged
from capmeter_research.papers.leic.forward import CriticNetwork, cast_weights
from capmeter_research.papers.leic.pooling import Reals
from capmeter_research.papers.leic.shape import CriticShape
from capmeter_research.papers.leic.vocabulary import UNKNOWN, CriticVocabulary, tokenise_captions

KIND = BUNDLED = "leic"


class Critic:
    """A critic from its checkpoint; arithmetic is in float32.

    Attributes:
        shape, network, vocabulary: its parts.
        features: the image features it was trained on; empty for none.
        initialisation: of its word vectors.
        label: the critic in signatures.

    Raises:
        AssetError: the checkpoint is not that of a critic.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        with rebuilding("a critic of LEIC", checkpoint.label):
            self.shape = CriticShape.from_dict(checkpoint.parameters["shape"])
            self.initialisation = str(checkpoint.parameters["start"])
            self.network = CriticNetwork(cast_weights(checkpoint.weights), self.shape)
            self.vocabulary = CriticVocabulary(checkpoint.vocabulary)
        if len(self.vocabulary) != len(self.network.embedding):
            raise AssetError(
                f"{checkpoint.label}: {len(self.vocabulary)} words but {len(self.network.embedding)} word vectors; "
                "train it again"
            )
        self.features = checkpoint.features[0] if checkpoint.features else ""
        self.label = checkpoint.label


def load_critic(name: str) -> Critic:
    """The critic with this name (bundled, or in the user's data folder) or in this folder, loaded once.

    Raises:
        AssetError: there is none, or it is damaged or of another kind.
        MissingBackend: safetensors is not installed.
    """
    return _load(name, checkpoint_stamp(name))


@lru_cache(maxsize=4)
def _load(name: str, stamp: CheckpointStamp | None) -> Critic:
    return Critic(load_checkpoint(name, KIND))


@dataclass(frozen=True, eq=False)
class CriticStateTable:
    """The LSTM's state at the end of each sentence."""

    states: Reals  # (sentences, width)


@dataclass(frozen=True)
class CriticStates:
    """Analysis: the state of the critic's LSTM at the end of each sentence.

    As released, it is the state at the end token: a caption without one within the window (15 words and more, or none
    at all) has the zero vector.
    """

    checkpoint: str
    as_released: bool

    def compute(self, pool: SentencePool) -> CriticStateTable:
        """The states of a pool."""
        critic = load_critic(self.checkpoint)
        token_table = tokenise_captions(pool, self.as_released)
        sentence_ids = critic.vocabulary.encode_table(token_table, critic.shape.steps)
        if not self.as_released:
            return CriticStateTable(critic.network.encode(sentence_ids))
        lengths = token_table.ids.lengths
        has_end = np.flatnonzero((lengths > 0) & (lengths < critic.shape.steps))
        states = np.zeros((len(sentence_ids), critic.shape.width), critic.network.embedding.dtype)
        states[has_end] = critic.network.encode(sentence_ids.take(has_end))
        return CriticStateTable(states)


def encode_occluded(critic: Critic, ids: Sequence[int], visible: npt.NDArray[np.bool_]) -> Reals:
    """The states of variants of a caption, (variants, width), in which words are unknown unless visible.

    Args:
        critic: whose LSTM.
        ids: of the caption's words.
        visible: which of its words remain, (variants, words).
    """
    id_rows = np.repeat(np.array(ids, np.int32)[None], len(visible), axis=0)
    id_rows[:, : visible.shape[1]][~visible] = UNKNOWN
    return critic.network.encode(Ragged.from_lengths(id_rows.ravel(), np.full(len(id_rows), len(ids))))
