"""Many captions in parts: as fast on Ray as in processes, and nothing lost when workers or the driver are killed.

    python benchmarks/scale.py ray    [--data FILE] [--captions 300000] [--rows 40000] [--repeat 2]
    python benchmarks/scale.py kills  [--data FILE] [--captions 20000] [--rows 500] [--workers 20] [--drivers 10]
    python benchmarks/scale.py once   [--data FILE] [--captions 10000000] [--images 500000] [--rows 100000]
                                      [--folder FOLDER] [--engine 1|2|ray:2]

`ray` scores a file with two processes and with two workers of Ray on this machine, in turns and each in a process of
its own; the fastest turn of each counts. It prints the wall time of both, of Ray with and without the start of Ray
itself, and whether every score is the same bit for bit. `kills` scores a file in parts on a cluster of three nodes
beside its head while working processes are killed; then the command `capmeter score` is killed, at random moments of
its run on the same cluster, and started again; every score, corpus score and interval is compared with one process's.
`once` runs the command `capmeter score --parts` with the references in a file of their own, by default with one
process, and prints its time, processor time, peak memory and corpus scores. `--folder` keeps the files of captions
there and reads them again; scores that are there are not computed again.

FILE and its captions: see `classic.py`, which also measures one process at growing sizes (`classic.py scale`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
from classic import DATA, METRICS, Rows, in_turns, read, repeated

CLUSTER = Path(__file__).resolve().parents[1] / "tests" / "support" / "ray_cluster.py"
Scores = dict[str, Any]


def write_captions(rows: Rows, path: Path, captions: int) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in repeated(rows, captions))
    return path


def scores_in(folder: Path, metrics: str) -> Scores:
    """The scores in files of scores, in order, and the ids."""
    from pyarrow import parquet

    table = parquet.read_table([str(path) for path in sorted(folder.glob("*.parquet"))])
    return {name: table[name].to_pylist() for name in (*metrics.split(","), "id")}


def child_score(path: str, metrics: str, target: str, rows: str, workers: str) -> None:
    """Two processes, or two workers of Ray, on this machine."""
    import capmeter

    pool: Any = 2
    before = time.perf_counter()
    if workers == "ray":
        import ray

        from capmeter.integrations.ray import RayPool

        small = {"num_cpus": 2, "object_store_memory": 300_000_000}
        ray.init(address="local", include_dashboard=False, log_to_driver=False, **small)
        pool = RayPool(2)
    start = time.perf_counter()
    capmeter.score_parts(path, metrics, target, rows=int(rows), workers=pool, intervals=False)
    print(json.dumps({"seconds": time.perf_counter() - start, "start": start - before}))


def child(what: str, *arguments: object) -> tuple[float, dict[str, float]]:
    """The seconds that the child measured, and all that it did."""
    command = [sys.executable, __file__, what, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    match: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return match["seconds"], match


def compare(rows: Rows, captions: int, part_rows: int, metrics: str, repeat: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = write_captions(rows, folder / "x.jsonl", captions)

        def run(workers: str) -> tuple[float, dict[str, float]]:
            shutil.rmtree(folder / workers, ignore_errors=True)
            return child("child-score", path, metrics, folder / workers, part_rows, workers)

        (_, local), (_, clustered) = in_turns(repeat, lambda: run("processes"), lambda: run("ray"))
        same = scores_in(folder / "processes", metrics) == scores_in(folder / "ray", metrics)
    print(f"{captions:,} captions with five references each, {metrics}, parts of {part_rows:,}; best of {repeat}\n")
    times = {"two processes": local["seconds"], "two workers of Ray": clustered["seconds"]}
    for what, seconds in (times | {"and Ray's start": clustered["seconds"] + clustered["start"]}).items():
        rate, ratio = captions / seconds, local["seconds"] / seconds
        print(f"{what:<20}{seconds:>8.1f} s{rate:>9,.0f} captions per second{ratio:>7.2f} times as fast as processes")
    print(f"every score is the same: {same}")


def write_large_set(rows: Rows, folder: Path, captions: int, images: int) -> None:
    """A file of candidates, and one of the images' references."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "references.jsonl").open("w", encoding="utf-8") as file:
        for row in repeated(rows, images):
            file.write(json.dumps({"image_id": row["image_id"], "references": row["references"]}) + "\n")
    with (folder / "captions.jsonl").open("w", encoding="utf-8") as file:
        for row in repeated(rows, captions):
            image_id = str(int(row["id"]) % images)
            file.write(json.dumps({"id": row["id"], "image_id": image_id, "candidate": row["candidate"]}) + "\n")


def run_command(*arguments: str) -> tuple[Any, float, float, float]:
    """What `capmeter score` prints as JSON; its seconds, processor seconds and peak memory (GB), workers included."""
    program = [sys.executable, "-m", "capmeter", "score", *arguments, "--no-intervals", "--format", "json"]
    start, processor, peak = time.perf_counter(), dict[int, float](), 0
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as messages:
        process = psutil.Popen(program, stdout=printed, stderr=messages)
        while process.poll() is None:
            memory = 0
            for each in [process, *process.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    memory += each.memory_full_info().pss
                    processor[each.pid] = sum(each.cpu_times()[:2])
            peak = max(peak, memory)
            time.sleep(1)
        seconds = time.perf_counter() - start
        printed.seek(0), messages.seek(0)
        if process.returncode:
            raise SystemExit(messages.read())
        text = printed.read()  # Ray may print lines of its own before
        return json.loads(text[text.index("{\n") :]), seconds, sum(processor.values()), peak / 2**30


def score_once(folder: Path, metrics: str, workers: Iterable[str], part_rows: int) -> None:
    """One run after the other on the captions of a folder."""
    for each in workers:
        result, seconds, processor, peak = run_command(
            *(str(folder / "captions.jsonl"), "-r", str(folder / "references.jsonl"), "-m", metrics),
            *("--parts", str(folder / f"scores-{each}"), "--rows", str(part_rows), "--workers", each),
        )
        print(f"{each:<10}{seconds:>9,.0f} s{processor:>9,.0f} s of processor{peak:>8.2f} GB", flush=True)
        print(f"{'':<10}{result['systems']['']['scores']}; {result['resumed']} parts were there", flush=True)


class Trial:
    """Captions in a file, their scores by one process, and runs on Ray that are killed."""

    def __init__(self, rows: Rows, folder: Path, captions: int, part_rows: int, metrics: str) -> None:
        import capmeter

        self.folder, self.metrics, self.scores, self.rows = folder, metrics, folder / "scores", part_rows
        self.path = write_captions(rows, folder / "x.jsonl", captions)
        total = capmeter.score(capmeter.load(self.path), metrics)
        self.expected: Scores = {each: total[each].items.array.tolist() for each in metrics.split(",")}
        self.expected |= {"id": list(total.ids.names)}
        self.corpus = {
            "scores": {each: total[each].score for each in total},
            "intervals": {each: list(bounds) for each, bounds in total.intervals(resamples=50, seed=3).items()},
        }

    def start(self, command: list[str], **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log.txt").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # where other work keeps the machine busy, nodes take long to start
                env={**os.environ, "RAY_raylet_start_wait_time_s": "300", **environment},
            )

    @contextlib.contextmanager
    def cluster(self) -> Iterator[subprocess.Popen[bytes]]:
        """A cluster of three nodes beside its head; its tasks are on its standard input, its address in a file."""
        task = {"nodes": 4, "tasks": True, "result": str(self.folder / "result.json")}
        program = self.start([str(CLUSTER), json.dumps(task)])
        assert program.stdin is not None
        try:
            yield program
        finally:
            program.stdin.close()
            program.wait()

    def run(self, cluster: subprocess.Popen[bytes], **task: Any) -> int:
        """Scores the captions in a task of this cluster; the number of workers that were killed."""
        result = self.folder / "result.json"
        inputs: dict[str, Any] = {
            "metrics": self.metrics,
            "source": str(self.path),
            "output": str(self.scores),
            "result": str(result),
        }
        inputs["rows"] = self.rows
        assert cluster.stdin is not None
        cluster.stdin.write(json.dumps(inputs | task).encode() + b"\n")
        cluster.stdin.flush()
        outcome = json.loads(self.await_file(cluster, result))
        result.unlink()
        if "error" in outcome:
            raise SystemExit(outcome["error"])
        lost: int = outcome["lost"]
        return lost

    def await_file(self, cluster: subprocess.Popen[bytes], path: Path) -> str:
        """The content of a file that the cluster writes."""
        while not path.exists():
            if cluster.poll() is not None:
                raise SystemExit((self.folder / "log.txt").read_text()[-3000:])
            time.sleep(0.1)
        return path.read_text()

    def command(self, address: str) -> subprocess.Popen[bytes]:
        options = ["--metrics", self.metrics, "--parts", str(self.scores), "--resamples", "50", "--seed", "3"]
        options += ["--workers", "ray:2", "--rows", str(self.rows), str(self.path)]
        program = "from capmeter.cli.main import main; main()"
        return self.start(["-c", program, "score", *options], RAY_ADDRESS=address)

    def ended(self, program: subprocess.Popen[bytes]) -> str:
        """What came of a run of the command, whose scores are removed."""
        if program.wait():
            raise SystemExit((self.folder / "log.txt").read_text()[-3000:])
        return self.compared()

    def compared(self) -> str:
        """Compares the scores with those of one process, and removes them."""
        corpus = json.loads((self.scores / "corpus.json").read_text())["systems"][""]
        if any(corpus[what] != names for what, names in self.corpus.items()):
            raise SystemExit("corpus scores or intervals differ from those of one process")
        if scores_in(self.scores, self.metrics) != self.expected:
            raise SystemExit("scores differ from those of one process")
        left = {path.name for path in self.scores.iterdir() if path.suffix not in (".parquet", ".json")}
        shutil.rmtree(self.scores)
        return f"every caption once, all scores and intervals those of one process{'; left behind: ' * bool(left)}" + (
            ", ".join(sorted(left))
        )


def kill_workers(trial: Trial, cluster: subprocess.Popen[bytes], expected: int) -> None:
    lost = runs = 0
    while lost < expected:
        lost += trial.run(cluster, kills=expected - lost, each=0.2, seed=runs)
        runs += 1
        print(f"run {runs}: {lost} workers killed so far; {trial.compared()}", flush=True)


def kill_drivers(trial: Trial, cluster: subprocess.Popen[bytes], expected: int) -> None:
    address = trial.await_file(cluster, trial.folder / "address.txt")
    start = time.perf_counter()
    print(f"not killed: {trial.ended(trial.command(address))}", flush=True)
    seconds = time.perf_counter() - start
    killed, in_a_row, draw = 0, 0, random.Random(0)
    while killed < expected or in_a_row:
        start = time.perf_counter()
        program = trial.command(address)
        try:
            program.wait(draw.uniform(0, seconds) if killed < expected and in_a_row < 3 else None)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            killed, in_a_row = killed + 1, in_a_row + 1
            finished = len(list(trial.scores.glob("*.parquet")))
            print(f"driver killed {killed} times; {finished} parts finished", flush=True)
        else:
            if not in_a_row:
                seconds = time.perf_counter() - start  # the first run is slower than the others
            print(f"to its end after {in_a_row} kills: {trial.ended(program)}", flush=True)
            in_a_row = 0


def main() -> None:
    if len(sys.argv) == 7 and sys.argv[1] == "child-score":
        child_score(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ray", "kills", "once"))
    parser.add_argument("--data", type=Path, default=DATA, help=f"captions (default {DATA})")
    parser.add_argument("--system", default="m2_transformer", help="whose captions, where a row has several systems'")
    parser.add_argument("--metrics", default=METRICS)
    parser.add_argument(
        "--captions", type=int, default=0, help="how many (default: 300,000; kills 20,000; once 10 million)"
    )
    parser.add_argument("--images", type=int, default=500_000, help="with references (once)")
    parser.add_argument("--folder", type=Path, help="where files of captions are kept and found again (once)")
    parser.add_argument("--engine", action="append", help="workers, as of `capmeter score` (once; default: 1)")
    parser.add_argument("--rows", type=int, default=0, help="of a part (default: 40,000; kills 500; once 100,000)")
    parser.add_argument("--repeat", type=int, default=2, help="turns of processes and Ray (ray)")
    parser.add_argument("--workers", type=int, default=20, help="kills of workers")
    parser.add_argument("--drivers", type=int, default=10, help="kills of the driver")
    chosen = parser.parse_args()
    if not chosen.data.is_file():
        parser.error(f"{chosen.data} is not there; name a file of captions with --data")
    rows = read(chosen.data, chosen.system)
    if chosen.what == "ray":
        compare(rows, chosen.captions or 300_000, chosen.rows or 40_000, chosen.metrics, chosen.repeat)
    elif chosen.what == "once":
        with tempfile.TemporaryDirectory() as name:
            folder, captions = chosen.folder or Path(name), chosen.captions or 10_000_000
            if not (folder / "captions.jsonl").exists():
                write_large_set(rows, folder, captions, chosen.images)
            print(f"{captions:,} captions of {chosen.images:,} images, {chosen.metrics}; references in their own file")
            score_once(folder, chosen.metrics, chosen.engine or ["1"], chosen.rows or 100_000)
    else:
        with tempfile.TemporaryDirectory() as name:
            trial = Trial(rows, Path(name), chosen.captions or 20_000, chosen.rows or 500, chosen.metrics)
            with trial.cluster() as cluster:
                kill_workers(trial, cluster, chosen.workers)
                kill_drivers(trial, cluster, chosen.drivers)


if __name__ == "__main__":
    main()
