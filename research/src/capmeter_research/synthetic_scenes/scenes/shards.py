"""Many pictures of synthetic scenes, drawn in parts of one size: the same ones for any number of workers.

Part k is a world of its own, with the seed `seed + k`, so that parts can be drawn side by side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from capmeter.core.progress import task
from capmeter_research.common.forked_map import forked_map
from capmeter_research.synthetic_scenes.scenes.world import Split, World

Part = TypeVar("Part", bound=Any)
_SHARD = 500  # pictures


def render_shards(work: Callable[[World], Part], split: Split, count: int, seed: int, *, workers: int = 1) -> Part:
    """What `work` makes of the parts, as one.

    Args:
        work: from a small world to its examples, a dataclass of arrays and of a hash, `digest`.
        split: train, dev or test.
        count: number of pictures in all.
        seed: of the first part; the following ones have the following seeds.
        workers: number of processes.
    """
    shard_sizes = [min(_SHARD, count - start) for start in range(0, count, _SHARD)]
    shard_worlds = [World(split=split, size=size, seed=seed + k) for k, size in enumerate(shard_sizes)]
    shard_parts: list[Part] = []
    with forked_map(work, workers) as render, task("drawing", len(shard_worlds)) as advance:
        for shard_part in render(shard_worlds):
            shard_parts.append(shard_part)
            advance(1)
    arrays = {
        each.name: np.concatenate([getattr(part, each.name) for part in shard_parts])
        for each in fields(shard_parts[0])
        if each.name != "digest"
    }
    digests = "".join(part.digest for part in shard_parts)
    return replace(shard_parts[0], **arrays, digest=hashlib.sha256(digests.encode()).hexdigest())
