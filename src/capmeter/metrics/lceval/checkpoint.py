"""What LCEval's networks are read from: capmeter's checkpoints, and the released code's weights written as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.assets import find_checkpoint
from capmeter.checkpoints import Checkpoint, TrainingData, Weights, load_checkpoint
from capmeter.errors import AssetError
from capmeter.metrics.base import Floats
from capmeter.metrics.lceval.features import FEATURES
from capmeter.metrics.lceval.feed_forward import Network, read_released

KIND = "lceval"


@dataclass(frozen=True, eq=False)
class Trained:
    """A network with what it was trained for.

    features: its inputs, in order. pool, vectors: how these were computed; None where nothing is known. base: the input
    that explanations compare with, and `base_said`, what it is. label: the network in signatures.
    """

    network: Network
    features: tuple[str, ...]
    pool: str | None
    vectors: str | None
    base: Floats
    base_said: str
    label: str


def trained(name: str) -> Trained:
    """The network of a checkpoint, by name or folder, or of the released weights in a .json file.

    Raises:
        AssetError: there is none, or it is damaged or of another kind.
    """
    path = Path(name).expanduser()
    folder = path if path.suffix == ".json" and path.is_file() else find_checkpoint(name)
    stamp = 0 if folder is None else (folder if folder.is_file() else folder / "checkpoint.json").stat().st_mtime_ns
    return _trained(name, str(folder), stamp)


@lru_cache(maxsize=64)
def _trained(name: str, place: str, stamp: int) -> Trained:
    path = Path(place)
    if path.suffix == ".json" and path.is_file():
        network = read_released(path)
        if network.inputs != len(FEATURES):
            raise AssetError(f"lceval: {name} has {network.inputs} features; expected {len(FEATURES)}")
        label = f"released@{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
        return Trained(network, FEATURES, "max", None, np.zeros(len(FEATURES)), "all features 0", label)
    return of_checkpoint(load_checkpoint(name, KIND))


def of_checkpoint(found: Checkpoint) -> Trained:
    """The network that a checkpoint holds."""
    network = Network.from_weights(found.weights)
    base = np.asarray(found.parameters.get("base", ()), np.float64)
    if network.inputs != len(found.features) or base.shape != (len(found.features),):
        raise AssetError(
            f"lceval: the checkpoint has {len(found.features)} features, a network of {network.inputs} and a base of "
            f"{base.size}; train it again"
        )
    said: Mapping[str, Any] = found.parameters
    return Trained(
        network, found.features, said["pool"], said["vectors"], base, "the mean training caption", found.label
    )


def checkpoint_of(
    weights: Weights,
    features: Sequence[str],
    *,
    pool: str,
    vectors: str,
    base: Floats,
    data: Sequence[TrainingData] = (),
    training: Mapping[str, Any] | None = None,
    selection: str = "",
    scores: Mapping[str, float] | None = None,
) -> Checkpoint:
    """The checkpoint that `trained` reads."""
    return Checkpoint(
        kind=KIND,
        parameters={"pool": pool, "vectors": vectors, "base": base.tolist()},
        weights=weights,
        features=tuple(features),
        data=tuple(data),
        training=training or {},
        selection=selection,
        scores=scores or {},
    )
