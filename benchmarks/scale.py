"""Many captions on Ray: as fast as processes of one machine, and nothing lost when workers or the driver are killed.

    python benchmarks/scale.py ray   [--data FILE] [--captions 300000] [--shards 8]
    python benchmarks/scale.py kills [--data FILE] [--captions 20000] [--workers 20] [--drivers 10]

`ray` scores the same files with two processes (`--workers 2`) and with two workers of Ray on this machine, each in a
process of its own, and prints the processor time of both, their wall time side by side, and whether every score is the
same bit for bit. Ray's start is counted apart. `kills` scores files on a cluster of three nodes while working processes
are killed, and then while the whole run is killed and started again, and compares every score with one process's.

FILE and its captions: see `classic.py`, which also measures one process at growing sizes (`classic.py scale`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from classic import DATA, METRICS, Rows, read, repeated

CLUSTER = Path(__file__).resolve().parents[1] / "tests" / "raycluster.py"
Scores = dict[str, Any]


def write_shards(rows: Rows, folder: Path, captions: int, shards: int) -> Path:
    """The captions in files of a folder, and all of them in one more file, whose path is returned."""
    (folder / "shards").mkdir()
    whole = folder / "whole.jsonl"
    size = -(-captions // shards)
    with whole.open("w", encoding="utf-8") as every:
        made = repeated(rows, captions)
        for k in range(shards):
            lines = [
                json.dumps(row) + "\n" for _, row in zip(range(min(size, captions - k * size)), made, strict=False)
            ]
            (folder / "shards" / f"part-{k:04}.jsonl").write_text("".join(lines), encoding="utf-8")
            every.writelines(lines)
    return whole


def scores_in(folder: Path, metrics: str) -> Scores:
    """The scores in files of scores, in order, and the ids."""
    from pyarrow import parquet

    tables = [parquet.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    found: Scores = {
        name: np.concatenate([table[name].to_numpy() for table in tables]).tolist() for name in metrics.split(",")
    }
    return found | {"ids": [id for table in tables for id in table["id"].to_pylist()]}


def used() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both)


def child_processes(path: str, metrics: str, target: str) -> None:
    """Two processes of this machine; the same file of scores is written."""
    import capmeter
    from capmeter.integrations.shards import write_scores

    start, spent = time.perf_counter(), used()
    results = capmeter.score(capmeter.stream(path), metrics, workers=2)
    write_scores(results, f"{target}/whole.parquet")
    print(json.dumps({"seconds": time.perf_counter() - start, "processor": used() - spent}))


def child_ray(path: str, metrics: str, target: str) -> None:
    """Two workers of Ray on this machine. What Ray's processes used is known when they have ended."""
    import ray

    from capmeter.integrations.ray import score_shards

    ray.init(address="local", include_dashboard=False, num_cpus=2, object_store_memory=300_000_000, log_to_driver=False)
    start = time.perf_counter()
    score_shards(f"{path}/*.jsonl", metrics, target, workers=2, intervals=False)
    seconds = time.perf_counter() - start
    ray.shutdown()
    print(json.dumps({"seconds": seconds}))


def child(what: str, *arguments: object) -> dict[str, float]:
    command = [sys.executable, __file__, what, *map(str, arguments)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {"processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime} | found


def compare(rows: Rows, captions: int, shards: int, metrics: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = write_shards(rows, folder, captions, shards)
        local = child("child-processes", whole, metrics, folder / "local")
        clustered = child("child-ray", folder / "shards", metrics, folder / "scores")
        same = scores_in(folder / "local", metrics) == scores_in(folder / "scores", metrics)
    print(f"{captions:,} captions with five references each, {metrics}, two workers, {shards} files\n")
    print(f"two processes   {local['seconds']:>8.1f} s   {captions / local['seconds']:>8,.0f} captions per second")
    print(
        f"Ray             {clustered['seconds']:>8.1f} s   {captions / clustered['seconds']:>8,.0f} captions per second"
    )
    print(f"\nRay is {local['seconds'] / clustered['seconds']:.2f} times as fast; every score is the same: {same}")


def start(folder: Path, metrics: str, **task: Any) -> subprocess.Popen[bytes]:
    given = {"metrics": metrics, "pattern": str(folder / "shards" / "*.jsonl"), "output": str(folder / "scores")}
    given |= {"result": str(folder / "result.json"), "nodes": 3, **task}
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(CLUSTER), json.dumps(given)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "RAY_raylet_start_wait_time_s": "300"},  # where other work keeps the machine busy
        )


def check(folder: Path, metrics: str, expected: Scores) -> str:
    corpus = json.loads((folder / "result.json").read_text())["corpus"]
    same = corpus["scores"] == expected["corpus"]
    found = scores_in(folder / "scores", metrics)
    every = all(found[name] == expected[name] for name in ("ids", *metrics.split(",")))
    return "the scores are those of one process" if same and every else "THE SCORES DIFFER"


def kills(rows: Rows, captions: int, shards: int, metrics: str, workers: int, drivers: int) -> None:
    import capmeter

    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = capmeter.score(capmeter.stream(write_shards(rows, folder, captions, shards)), metrics)
        expected: Scores = {each: whole[each].items.array.tolist() for each in metrics.split(",")}
        expected |= {"ids": list(whole.ids.names), "corpus": {each: whole[each].score for each in whole}}
        lost = runs = 0
        while lost < workers:
            for path in (folder / "scores").glob("*"):
                path.unlink()
            if start(folder, metrics, kills=workers - lost, each=0.2, seed=runs).wait():
                raise SystemExit((folder / "log.txt").read_text()[-2000:])
            lost, runs = lost + json.loads((folder / "result.json").read_text())["lost"], runs + 1
            print(f"run {runs}: {lost} workers killed so far; {check(folder, metrics, expected)}", flush=True)
        for path in (folder / "scores").glob("*"):
            path.unlink()
        killed = 0
        while killed < drivers:
            before = len(list((folder / "scores").glob("part-*.json")))
            program, wanted = start(folder, metrics), before + draw.randint(0, max(1, shards // (drivers + 1)))
            while program.poll() is None and len(list((folder / "scores").glob("part-*.json"))) <= wanted:
                time.sleep(0.01)
            if program.poll() is None:
                killed += 1
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            finished = len(list((folder / "scores").glob("part-*.json")))
            print(f"driver killed {killed} times; {finished} of {shards} files finished", flush=True)
            if finished == shards:
                break
        if start(folder, metrics).wait():
            raise SystemExit((folder / "log.txt").read_text()[-2000:])
        print(f"and run to its end: {check(folder, metrics, expected)}")


def main() -> None:
    if len(sys.argv) == 5 and sys.argv[1].startswith("child-"):
        {"child-processes": child_processes, "child-ray": child_ray}[sys.argv[1]](*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ray", "kills"))
    parser.add_argument("--data", type=Path, default=DATA, help=f"captions (default {DATA})")
    parser.add_argument("--system", default="m2_transformer", help="whose captions, where a row has several systems'")
    parser.add_argument("--metrics", default=METRICS)
    parser.add_argument("--captions", type=int, default=0, help="how many (default: 300,000; of `kills` 20,000)")
    parser.add_argument("--shards", type=int, default=0, help="in how many files (default: 8; of `kills` 40)")
    parser.add_argument("--workers", type=int, default=20, help="kills of workers")
    parser.add_argument("--drivers", type=int, default=10, help="kills of the driver")
    chosen = parser.parse_args()
    if not chosen.data.is_file():
        parser.error(f"{chosen.data} is not there; name a file of captions with --data")
    rows = read(chosen.data, chosen.system)
    if chosen.what == "ray":
        compare(rows, chosen.captions or 300_000, chosen.shards or 8, chosen.metrics)
    else:
        kills(rows, chosen.captions or 20_000, chosen.shards or 40, chosen.metrics, chosen.workers, chosen.drivers)


if __name__ == "__main__":
    main()
