"""The sources of LCEval's networks: capmeter's checkpoints, and the released code's weights as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from capmeter.core.assets import CheckpointStamp, checkpoint_stamp
from capmeter.core.checkpoints import Checkpoint, Weights, load_checkpoint, rebuilding
from capmeter.core.errors import AssetError
from capmeter.core.settings import home_path
from capmeter.evaluation.base import Floats
from capmeter_research.papers.lceval.features import FEATURES
from capmeter_research.papers.lceval.feed_forward import FeedForwardNetwork, read_released

KIND = "lceval"


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network, and the features it was trained on.

    Attributes:
        network: from features to P(human).
        features: its inputs, in order.
        pool, vectors: how these were computed; None if unknown.
        baseline: the features that explanations compare with, (features,).
        baseline_name: what these are.
        label: the network in signatures.
    """

    network: FeedForwardNetwork
    features: tuple[str, ...]
    pool: str | None
    vectors: str | None
    baseline: Floats
    baseline_name: str
    label: str


def load_network(name: str) -> TrainedNetwork:
    """The network of a checkpoint, by name or folder, or of the released weights in a .json file; loaded once.

    Raises:
        AssetError: there is none, or it is damaged or of another kind.
    """
    path = home_path(name)
    if path.suffix == ".json" and path.is_file():
        return _load_released(name, path.stat().st_mtime_ns)
    return _load(name, checkpoint_stamp(name))


@lru_cache(maxsize=64)
def _load_released(name: str, modified_time: int) -> TrainedNetwork:
    path = home_path(name)
    network = read_released(path)
    if network.inputs != len(FEATURES):
        raise AssetError(f"lceval: {name} has {network.inputs} features; expected {len(FEATURES)}")
    label = f"released@{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
    return TrainedNetwork(network, FEATURES, "max", None, np.zeros(len(FEATURES)), "all features 0", label)


@lru_cache(maxsize=64)
def _load(name: str, stamp: CheckpointStamp | None) -> TrainedNetwork:
    checkpoint = load_checkpoint(name, KIND)
    with rebuilding("LCEval's or NNEval's network", checkpoint.label):
        return _rebuild(checkpoint)


def _rebuild(checkpoint: Checkpoint) -> TrainedNetwork:
    network, parameters = FeedForwardNetwork.from_weights(checkpoint.weights), checkpoint.parameters
    features, baseline = checkpoint.features, np.asarray(parameters.get("base", ()), np.float64)
    if network.inputs != len(features) or baseline.shape != (len(features),):
        raise AssetError(
            f"lceval: the checkpoint has {len(features)} features, a network of {network.inputs} and a base of "
            f"{baseline.size}; train it again"
        )
    feature_settings = parameters["pool"], parameters["vectors"]
    return TrainedNetwork(network, features, *feature_settings, baseline, "the mean training caption", checkpoint.label)


def build_checkpoint(
    weights: Weights, features: Sequence[str], *, pool: str, vectors: str, baseline: Floats, **fields: Any
) -> Checkpoint:
    """A checkpoint for `load_network`.

    Args:
        weights, features: of the network, in order.
        pool, vectors, baseline: see `TrainedNetwork`.
        fields: the others of `Checkpoint`.
    """
    parameters = {"pool": pool, "vectors": vectors, "base": baseline.tolist()}
    return Checkpoint(kind=KIND, parameters=parameters, weights=weights, features=tuple(features), **fields)
