"""Many pictures of synthetic scenes, drawn in parts of one size: the same ones for any number of workers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from capmeter.core.progress import task
from capmeter_research.synthetic_scenes.scenes.world import Split, World

Part = TypeVar("Part")


def render_shards(
    work: Callable[[World], Part],
    split: Split,
    count: int,
    seed: int,
    *,
    shard: int,
    workers: int = 1,
) -> list[Part]:
    """What `work` makes of each part.

    Args:
        work: from a small world to its examples; with several workers a function that can be pickled.
        split: train, dev or test.
        count: number of pictures in all.
        seed: of the first part; the following ones have the following seeds.
        shard: pictures per part.
        workers: number of processes.
    """
    shard_sizes = [min(shard, count - start) for start in range(0, count, shard)]
    shard_worlds = [World(split=split, size=size, seed=seed + k) for k, size in enumerate(shard_sizes)]
    shard_parts: list[Part] = []
    with task("drawing", len(shard_worlds)) as advance:
        if workers == 1:
            for world in shard_worlds:
                shard_parts.append(work(world))
                advance(1)
        else:
            with ProcessPoolExecutor(workers) as process_pool:
                for shard_part in process_pool.map(work, shard_worlds):
                    shard_parts.append(shard_part)
                    advance(1)
    return shard_parts
