"""Pictures of two coloured things, as regions, with captions: what a small captioner learns in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from capmeter_research.common.region_files import MemoryBank, write_npz_regions
from capmeter_research.papers.subicap.examples import CaptionedImages

from capmeter.images.regions import Regions

THINGS, COLOURS = ("cat", "dog", "horse", "bus"), ("red", "blue", "green")
FEATURES = len(THINGS) + len(COLOURS)


def made_regions(count: int, seed: int = 0) -> list[tuple[Regions, tuple[str, ...]]]:
    """Regions and captions of so many pictures: the thing on the left is named first."""
    rng = np.random.default_rng(seed)
    output: list[tuple[Regions, tuple[str, ...]]] = []
    for _ in range(count):
        objects, colours = rng.choice(len(THINGS), 2, replace=False), rng.integers(0, len(COLOURS), 2)
        features = np.zeros((2, FEATURES), np.float32)
        features[[0, 1], objects] = features[[0, 1], len(THINGS) + colours] = 1
        boxes = np.array([[0.05, 0.3, 0.35, 0.7], [0.55, 0.3, 0.95, 0.7]], np.float32)
        order = rng.permutation(2)
        left, right = (f"{COLOURS[c]} {THINGS[t]}" for t, c in zip(objects, colours, strict=True))
        texts = (f"a {left} and a {right}", f"a {left} left of a {right}", f"there is a {left} beside a {right}")
        output.append((Regions(features[order], boxes[order]), texts))
    return output


def made_pictures(count: int, seed: int = 0) -> CaptionedImages:
    """The pictures in memory."""
    output = made_regions(count, seed)
    regions = [each for each, _ in output]
    offsets = np.arange(0, 2 * count + 1, 2)
    bank = MemoryBank(
        np.concatenate([each.features for each in regions]),
        np.concatenate([each.positions for each in regions]),
        offsets,
    )
    ids = tuple(f"{seed}-{number}" for number in range(count))
    return CaptionedImages(ids, tuple(texts for _, texts in output), bank, np.arange(count))


def write_files(folder: Path, count: int, seed: int = 0) -> dict[str, list[str]]:
    """Regions in `folder/regions`; returns the captions by image id."""
    output = made_regions(count, seed)
    names = [str(1000 + number) for number in range(count)]
    write_npz_regions(folder / "regions", ((name, regions) for name, (regions, _) in zip(names, output, strict=True)))
    return {name: list(texts) for name, (_, texts) in zip(names, output, strict=True)}
