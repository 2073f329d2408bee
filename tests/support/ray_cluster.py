"""A Ray cluster of several nodes on this machine, for one run whose workers are killed: `python ray_cluster.py TASK`.

TASK is JSON: "metrics"; "source" and "output"; "rows" of a part; "nodes"; "kills": the number of working processes to
kill; "lose_node": whether to remove a node too; "result": the file for the outcome. With "tasks" it runs the tasks on
standard input instead, one a line; lost nodes are replaced between them, an error is the outcome of its task, and the
address of the cluster, for the runs of others, is in `address.txt` next to the result. Ray runs in a process of its own
here, so that a test can kill it as a whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

WORK = "ray::run_apart"


def descendants(ancestor: int) -> dict[int, str]:
    """The processes that this one started, directly or not, with their titles."""
    parents, titles = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = int(fields[1])
                titles[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )

    def comes_from(process: int) -> bool:
        while process in parents:
            process = parents[process]
            if process == ancestor:
                return True
        return False

    return {process: titles[process] for process in parents if process in titles and comes_from(process)}


def kill_workers(kills: int, done: threading.Event, each: float, seed: int = 0) -> list[int]:
    """Kills `kills` processes that work for this run, one every `each` seconds, while the run is not done."""
    rng, lost = random.Random(seed), []
    while len(lost) < kills and not done.is_set():
        working = sorted(pid for pid, title in descendants(os.getpid()).items() if title.startswith(WORK))
        if working:
            with contextlib.suppress(ProcessLookupError):
                victim = rng.choice(working)
                os.kill(victim, signal.SIGKILL)
                lost.append(victim)
            done.wait(each)
        done.wait(0.05)
    return lost


def run(task: dict[str, Any]) -> None:
    """Starts the cluster, and runs what is to be run on it."""
    import ray
    from ray.cluster_utils import Cluster

    from capmeter.core.output_files import write_atomic

    small = {"num_cpus": 1, "object_store_memory": 100_000_000}
    # work on the head would be lost with the cluster
    head = {"num_cpus": 0} if task.get("tasks") else {}
    cluster = Cluster(initialize_head=True, head_node_args={**small, **head, "include_dashboard": False})
    nodes = task.get("nodes", 2)
    for _ in range(nodes - 1):
        cluster.add_node(**small)
    if task.get("tasks"):
        write_atomic(Path(task["result"]).with_name("address.txt"), cluster.address)
    ray.init(address=cluster.address, log_to_driver=False)
    for each in map(json.loads, sys.stdin) if task.get("tasks") else [task]:
        while len(cluster.worker_nodes) < nodes - 1:
            cluster.add_node(**small)
        try:
            outcome = score_captions(cluster, each)
        except Exception:
            if not task.get("tasks"):
                raise
            outcome = {"error": traceback.format_exc()}
        write_atomic(Path(each["result"]), json.dumps(outcome))
    ray.shutdown()
    cluster.shutdown()


def score_captions(cluster: Any, task: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a task on this cluster, some of whose workers and nodes are lost meanwhile."""
    done, lost = threading.Event(), []

    def lose() -> None:
        lost.extend(kill_workers(task.get("kills", 0), done, task.get("each", 0.5), task.get("seed", 0)))
        if task.get("lose_node") and not done.is_set():
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    killer = threading.Thread(target=lose)
    killer.start()
    try:
        from capmeter.evaluation.part_scores import score_parts
        from capmeter.integrations.ray import RayPool

        scores = score_parts(
            *(task["source"], task["metrics"], task["output"]),
            rows=task.get("rows", 100_000),
            workers=RayPool(2),
            resamples=50,
            seed=3,
        )
    finally:
        done.set()
        killer.join()
    return {"scores": scores.to_dict(), "lost": len(lost)}


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
