"""A small UNITER with random weights, and random regions, for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from capmeter_research.common.region_files import write_npz_regions
from capmeter_research.papers.umic.uniter import KIND, UniterShape
from capmeter_research.papers.umic.word_piece import SPECIAL

from capmeter.core.checkpoints import Checkpoint
from capmeter.images.regions import Regions

SENTENCES = ("a dog runs on the grass", "two cats sleep", "a red ball beside a small dog", "a man walks")
FEATURES = 12


def small_checkpoint(folder: Path, seed: int = 0, scale: float = 0.3) -> Path:
    """A checkpoint of a UNITER of two layers; `scale`: standard deviation of its weights."""
    words = sorted({word for sentence in SENTENCES for word in sentence.split()})
    letters = sorted({letter for word in words for letter in word})
    vocabulary = (*SPECIAL, *letters, *(f"##{letter}" for letter in letters), *(w for w in words if len(w) > 1))
    shape = UniterShape(len(vocabulary), 16, 2, 2, 32, 40, FEATURES)
    heads = {f"{head}.weight": (count, 16) for head, count in (("itm_output", 2), ("rank_output", 1))}
    heads |= {f"{head}.bias": (count,) for head, count in (("itm_output", 2), ("rank_output", 1))}
    random = np.random.default_rng(seed)
    weights = {
        name: random.normal(0, scale, size) if len(size) == 2 else np.full(size, float("norm" in name.lower()))
        for name, size in (shape.weights() | heads).items()
    }
    weights |= {name: np.zeros_like(array) for name, array in weights.items() if name.endswith("bias")}
    parameters = {"shape": shape.to_dict(), "lowercase": True}
    arrays = {name: array.astype(np.float32) for name, array in weights.items()}
    Checkpoint(KIND, parameters, arrays, vocabulary=vocabulary).save(folder)
    return folder


def random_regions(
    seed: int, count: int = 12, features: int = FEATURES, labels: tuple[str, ...] | None = None
) -> Regions:
    """Random regions, the most confident first."""
    random = np.random.default_rng(seed)
    corners = random.random((count, 2, 2)).astype(np.float32)
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    confidence = np.sort(random.random(count).astype(np.float32))[::-1].copy()
    return Regions(random.standard_normal((count, features)).astype(np.float32), boxes, confidence, labels)


def random_region_folder(folder: Path, images: int = 4, **settings: int) -> Path:
    """A folder of .npz files of the images 0, 1, …"""
    write_npz_regions(folder, ((str(k), random_regions(k, **settings)) for k in range(images)), half=False)
    return folder
