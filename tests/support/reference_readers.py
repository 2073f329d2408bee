"""Encoders that read references, made on MiniLM without training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from capmeter_research.common.reference_reader import PREFIX

from capmeter.core.checkpoints import Checkpoint, load_checkpoint
from capmeter.encoders import find_encoder
from capmeter.encoders.text.layers import KIND, LORA_A, LORA_B, MATRICES
from capmeter.metrics.own.trained_networks import LARGE

SIZES = {"qkv": (1152, 384), "attn_out": (384, 384), "ffn_up": (1536, 384), "ffn_down": (384, 1536)}
LOGISTIC = 10.0, -6.0
WEIGHT, CALIBRATION = 2.0, (0.2, -1.0)


def reading_encoder(folder: Path, attention: float = -1.0, direction: float = 0.5) -> str:
    """The name of MiniLM with a small adapter, and a reader.

    Args:
        folder: its checkpoint is written there.
        attention: the mean of c.
        direction: the standard deviation of w.
    """
    rng, weights = np.random.default_rng(0), {}
    for number in range(6):
        for matrix, (outputs, inputs) in SIZES.items():
            name = f"layers.{number}.{MATRICES[matrix]}"
            weights[f"{name}.{LORA_A}"] = rng.normal(0, 0.05, (2, inputs)).astype(np.float16)
            weights[f"{name}.{LORA_B}"] = rng.normal(0, 0.02, (outputs, 2)).astype(np.float16)
    weights[f"{PREFIX}attention"] = (attention + rng.normal(0, 0.5, (6, 12))).astype(np.float32)
    weights[f"{PREFIX}direction"] = rng.normal(0, direction, 384).astype(np.float32)
    weights[f"{PREFIX}logistic"] = np.array(LOGISTIC, np.float32)
    parameters = {"encoder": "minilm", "encoder_sha256": find_encoder("minilm").sha256, "rank": 2}
    Checkpoint(kind=KIND, parameters=parameters, weights=weights).save(folder)
    return str(folder)


def larger_size(folder: Path) -> str:
    """A size of `capmeter` for the bundled network and such a reader."""
    name = reading_encoder(folder / "reader", direction=0.1)
    parameters = {
        "network_sha256": load_checkpoint("capmeter").sha256,
        "encoder": name,
        "encoder_sha256": find_encoder(name).sha256,
        "weight": WEIGHT,
        "calibration": list(CALIBRATION),
    }
    Checkpoint(kind=LARGE, parameters=parameters, weights={}).save(folder / "large")
    return str(folder / "large")
