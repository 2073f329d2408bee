"""A pool of workers on a Ray cluster, for captions in parts (`capmeter.evaluation.part_scores`).

    capmeter score 'captions/*.parquet' --metrics bleu-4,cider-d --parts scores/ --workers ray

    from capmeter.integrations.ray import RayPool
    scores = capmeter.score_parts("captions/*.parquet", "bleu-4,cider-d", "scores/", workers=RayPool())

Parts are Ray tasks: those of a lost worker or node are run by others, and a run whose driver was killed goes on from
the parts that are in the folder. References and networks are read once by each worker process. Ray is joined at
`RAY_ADDRESS`, or started on this machine; on a cluster all nodes must find the files by the same path.
"""

from __future__ import annotations

import logging
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from capmeter.core.errors import CapmeterError, InputError, MissingBackend
from capmeter.core.messages import format_count
from capmeter.evaluation.pools import lost_workers, pass_on, run_apart

Item = TypeVar("Item")
Result = TypeVar("Result")
MAX_TRIES = 20
"""Workers that may be lost at one part."""


class RayPool:
    """Workers on Ray.

    Args:
        workers: their number; 0: one for each processor of the cluster, or for each share of its GPUs.
        gpus: the share of a GPU for each of them (.25: four share one), for neural metrics.

    Raises:
        InputError: the cluster lacks the GPUs; Ray would wait for them for ever.
        MissingBackend: Ray is not installed.
    """

    def __init__(self, workers: int = 0, gpus: float = 0.0) -> None:
        self.workers, self._gpus = count_workers(workers, gpus), gpus

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields `function(item)` for each item, in order; warnings and errors of capmeter are raised here again."""
        ray, remaining = _join_ray(), iter(items)
        shared = ray.put(function)
        run = ray.remote(run_apart).options(max_retries=MAX_TRIES - 1, num_cpus=1, num_gpus=self._gpus or None)
        results: deque[tuple[Item, Any]] = deque()  # in order
        running: list[Any] = []
        while True:
            for item in islice(remaining, self.workers - len(running)):
                running.append(run.remote(shared, item))
                results.append((item, running[-1]))
            if not results:
                return
            if results[0][1] in running:
                _, running = ray.wait(running)
                continue
            item, result = results.popleft()
            try:
                yield pass_on(ray.get(result))
            except ray.exceptions.RayTaskError as problem:
                if isinstance(problem.cause, CapmeterError):
                    raise problem.cause from None
                raise
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError):
                raise lost_workers(MAX_TRIES, item) from None


def _join_ray() -> Any:
    """Ray, of the cluster that `RAY_ADDRESS` names, or started on this machine."""
    try:
        import ray
    except ImportError:
        raise MissingBackend("workers on Ray need Ray: pip install 'capmeter[ray]'") from None
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS")
        settings: dict[str, Any] = {"address": address} if address else {"include_dashboard": False}
        ray.init(**settings, log_to_driver=False, logging_level=logging.WARNING)
    return ray


def count_workers(workers: int, gpus: float) -> int:
    """The number of workers with a processor and `gpus` of a GPU: `workers`, or 0: as many as the cluster has room for.

    Raises:
        InputError: the cluster lacks the GPUs.
    """
    if gpus < 0 or (gpus > 1 and gpus % 1):
        raise InputError(f"gpus={gpus:g}: expected a share of one GPU, such as 0.25, or a whole number of GPUs")
    node_resources = [node["Resources"] for node in _join_ray().nodes() if node["Alive"]]
    have = [node.get("GPU", 0) for node in node_resources]
    # a share is never split across two GPUs
    slots = [each // gpus if gpus >= 1 else int(each) * int(1 / gpus + 1e-9) if gpus else math.inf for each in have]
    room = sum(int(min(node.get("CPU", 0), slot_count)) for node, slot_count in zip(node_resources, slots, strict=True))
    if gpus and room < max(workers, 1):
        cluster = f"{format_count(int(sum(have)), 'GPU')} (on {format_count(len(node_resources), 'node')})"
        raise InputError(
            f"the cluster has {cluster}, which is room for {format_count(room, 'worker')} with {gpus:g} each, and not "
            f"for {max(workers, 1)}; ask for fewer workers or a smaller share, leave --gpus out to use processors, or "
            "start nodes with GPUs"
        )
    return workers or max(room, 1)
