"""A Ray cluster of several nodes on this machine, for one run whose workers are killed: `python raycluster.py TASK`.

TASK is JSON: "metrics"; "pattern" and "output" for files, or "dataset" for a Ray Dataset of files; "nodes"; "kills":
how many processes that score are killed; "lose_node": whether a node is taken away too; "lose_known": whether the node
that holds what was collected is taken away before it is used; "result": the file for what came of it. With "serve" the
cluster waits for others' runs instead, at the address in `address.txt` beside the result, until it is terminated.
Ray has a process of its own here, so that a test can kill it as a whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any

WORK = ("ray::_Worker", "ray::_once", "ray::_MapWorker")


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
    """Kills processes that work for this run, one every `each` seconds, until so many are gone or the run is done."""
    draw, lost = random.Random(seed), []
    while len(lost) < kills and not done.is_set():
        working = sorted(pid for pid, title in descendants(os.getpid()).items() if title.startswith(WORK))
        if working:
            with contextlib.suppress(ProcessLookupError):
                chosen = draw.choice(working)
                os.kill(chosen, signal.SIGKILL)
                lost.append(chosen)
            done.wait(each)
        done.wait(0.05)
    return lost


def lose_known(cluster: Any) -> list[Any]:
    """Takes away the node that holds what has been collected, the first time; what is collected, each time."""
    import ray

    from capmeter.integrations import ray as engine

    collected, times = engine._known, []

    def known(*given: Any) -> Any:
        times.append(collected(*given))
        if len(times) == 1:
            (holder,) = ray.experimental.get_object_locations(times)[times[0]]["node_ids"]
            cluster.remove_node(next(node for node in cluster.list_all_nodes() if node.node_id == holder), False)
        return times[-1]

    setattr(engine, "_known", known)  # noqa: B010 - of another type than what it stands in for
    return times


def run(task: dict[str, Any]) -> None:
    import ray
    from ray.cluster_utils import Cluster

    from capmeter.captions.files import write_atomic

    small = {"num_cpus": 1, "object_store_memory": 100_000_000}
    head = {"num_cpus": 0} if task.get("lose_known") else {}
    cluster = Cluster(initialize_head=True, head_node_args={**small, **head, "include_dashboard": False})
    others = [cluster.add_node(**small) for _ in range(task.get("nodes", 2) - 1)]
    if task.get("serve"):
        signal.signal(signal.SIGTERM, lambda *_: None)
        write_atomic(Path(task["result"]).with_name("address.txt"), cluster.address)
        signal.pause()
        cluster.shutdown()
        return
    ray.init(address=cluster.address, log_to_driver=False)
    collected = lose_known(cluster) if task.get("lose_known") else []
    done, lost = threading.Event(), []

    def lose() -> None:
        lost.extend(kill_workers(task.get("kills", 0), done, task.get("each", 0.5), task.get("seed", 0)))
        if task.get("lose_node") and not done.is_set():
            cluster.remove_node(others.pop(), allow_graceful=False)

    killer = threading.Thread(target=lose)
    killer.start()
    rows = {}
    if "dataset" in task:
        from capmeter.integrations.ray import score

        scored = score(ray.data.read_json(task["dataset"]), task["metrics"], workers=2, resamples=50, seed=3)
        corpus, rows = scored.corpus, {row["id"]: row["rouge-l"] for row in scored.dataset.take_all()}
    else:
        from capmeter.integrations.ray import score_shards

        corpus = score_shards(task["pattern"], task["metrics"], task["output"], workers=2, resamples=50, seed=3)
    done.set()
    killer.join()
    found = {"corpus": corpus.to_dict(), "rows": rows, "lost": len(lost), "collected": len(collected)}
    Path(task["result"]).write_text(json.dumps(found))
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
