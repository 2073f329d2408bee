"""A small UNITER with random weights, and regions of drawn numbers, for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from capmeter.encoders.uniter import UniterShape, initial_weights
from capmeter.encoders.uniter_files import uniter_checkpoint
from capmeter.encoders.word_piece import learn_vocabulary
from capmeter.images.region_npz import write_npz_regions
from capmeter.images.regions import Regions

SENTENCES = ("a dog runs on the grass", "two cats sleep", "a red ball beside a small dog", "a man walks")
FEATURES = 12


def small_checkpoint(folder: Path, seed: int = 0, scale: float = 10.0) -> Path:
    """A checkpoint of a UNITER of two layers; `scale` makes its scores differ."""
    vocabulary = learn_vocabulary(SENTENCES, least=1)
    shape = UniterShape(len(vocabulary), 16, 2, 2, 32, 40, FEATURES)
    weights = initial_weights(shape, seed)
    weights = {name: tensor * scale if tensor.ndim == 2 else tensor for name, tensor in weights.items()}
    uniter_checkpoint(weights, shape, vocabulary, lowercase=True).save(folder)
    return folder


def drawn_regions(
    seed: int, count: int = 12, features: int = FEATURES, labels: tuple[str, ...] | None = None
) -> Regions:
    """Regions of drawn numbers, the most confident first."""
    random = np.random.default_rng(seed)
    corners = random.random((count, 2, 2)).astype(np.float32)
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    confidence = np.sort(random.random(count).astype(np.float32))[::-1].copy()
    return Regions(random.standard_normal((count, features)).astype(np.float32), boxes, confidence, labels)


def drawn_folder(folder: Path, images: int = 4, **settings: int) -> Path:
    """A folder of .npz files of the images 0, 1, …"""
    write_npz_regions(folder, ((str(k), drawn_regions(k, **settings)) for k in range(images)), half=False)
    return folder
