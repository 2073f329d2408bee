"""Ray as the engine: a cluster of several nodes on this machine, whose workers, nodes and driver are lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

import capmeter

pytest.importorskip("ray", reason="needs capmeter[ray]")
pytestmark = [pytest.mark.ray, pytest.mark.slow]

METRICS = "bleu-4,rouge-l,cider-d"
PROGRAM = Path(__file__).resolve().parents[1] / "support" / "ray_cluster.py"
ENVIRONMENT = {**os.environ, "RAY_raylet_start_wait_time_s": "300", "OMP_NUM_THREADS": "1"}
WORDS = "a dog runs on the grass while two cats sleep near an old red bus and people watch from one window".split()  # noqa: SIM905


def write_rows(folder: Path, captions: int) -> capmeter.Results:
    """A file of captions, some of one image, and the scores of one process."""
    draw, rows = np.random.default_rng(0), []
    for k in range(captions):
        texts = [" ".join(draw.choice(WORDS, draw.integers(4, 11))) for _ in range(4)]
        rows.append({"image_id": str(k % 999), "candidate": texts[0], "references": texts[1:]})
    (folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return capmeter.score(capmeter.load(folder / "x.jsonl"), METRICS)


def describe_task(folder: Path, **task: Any) -> str:
    inputs = {"metrics": METRICS, "source": str(folder / "x.jsonl"), "output": str(folder / "scores")}
    return json.dumps(inputs | {"result": str(folder / "result.json"), **task})


def start_cluster(folder: Path, task: str) -> subprocess.Popen[bytes]:
    """The program of a cluster, in a session of its own: one signal reaches all that it starts."""
    log = (folder / "log.txt").open("wb")
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), task],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


class SharedCluster:
    """A cluster of three nodes beside its head, which runs one task after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = start_cluster(folder, json.dumps({"nodes": 4, "tasks": True, "result": str(folder / "result")}))

    @property
    def address(self) -> str:
        self._wait_for(self.folder / "address.txt")
        return (self.folder / "address.txt").read_text()

    def run(self, folder: Path, **task: Any) -> dict[str, Any]:
        """The outcome of a task whose files are in this folder."""
        assert self.program.stdin is not None
        self.program.stdin.write(describe_task(folder, **task).encode() + b"\n")
        self.program.stdin.flush()
        self._wait_for(folder / "result.json")
        outcome: dict[str, Any] = json.loads((folder / "result.json").read_text())
        assert "error" not in outcome, outcome["error"]
        return outcome

    def _wait_for(self, path: Path) -> None:
        end = time.monotonic() + 400
        while not path.exists():
            assert self.program.poll() is None and time.monotonic() < end, (self.folder / "log.txt").read_text()[-3000:]
            time.sleep(0.05)

    def stop(self) -> None:
        assert self.program.stdin is not None
        self.program.stdin.close()
        try:
            self.program.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.program.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SharedCluster]]:
    """The cluster that the tests share; it is the last of those that were started."""
    started = [SharedCluster(tmp_path_factory.mktemp("cluster"))]
    yield started
    for each in started:
        each.stop()


@pytest.fixture
def cluster(clusters: list[SharedCluster], tmp_path_factory: pytest.TempPathFactory) -> SharedCluster:
    """The shared cluster; another one where a test has broken it."""
    if clusters[-1].program.poll() is not None:
        clusters.append(SharedCluster(tmp_path_factory.mktemp("cluster")))
    return clusters[-1]


def check(folder: Path, outcome: dict[str, Any], parts: int, expected: capmeter.Results) -> None:
    """Every caption has its scores once, and all is bit for bit that of one process."""
    of_all = outcome["scores"]["systems"][""]
    assert of_all["scores"] == {name: each.score for name, each in expected.items()}
    assert of_all["signatures"] == {name: each.signature for name, each in expected.items()}
    bounds = {name: list(bound) for name, bound in expected.intervals(resamples=50, seed=3).items()}
    assert of_all["intervals"] == bounds
    files = sorted((folder / "scores").glob("*.parquet"))
    table = parquet.read_table([str(file) for file in files])
    assert table["id"].to_pylist() == list(expected.ids.names) and len(files) == parts
    for name, each in expected.items():
        assert table[name].to_numpy().tobytes() == each.items.array.tobytes()
    assert {path.suffix for path in (folder / "scores").iterdir()} == {".parquet", ".json"}


def test_workers_and_a_node_are_lost_and_nothing_else(tmp_path: Path, cluster: SharedCluster) -> None:
    expected = write_rows(tmp_path, 3200)
    outcome = cluster.run(tmp_path, rows=400, kills=3, lose_node=True)
    assert outcome["lost"] > 0
    check(tmp_path, outcome, 8, expected)


def test_a_run_whose_driver_was_killed_goes_on(tmp_path: Path, cluster: SharedCluster) -> None:
    expected = write_rows(tmp_path, 3200)
    program = start_cluster(tmp_path, describe_task(tmp_path, nodes=1, rows=400))
    scores = tmp_path / "scores"
    while program.poll() is None and len(list(scores.glob("*.parquet"))) < 2:
        time.sleep(0.02)
    os.killpg(program.pid, signal.SIGKILL)
    program.wait(60)
    time.sleep(1)
    finished = sorted(scores.glob("*.parquet"))
    assert len(finished) >= 2 and not (scores / "corpus.json").exists()
    finished[0].write_bytes(finished[0].read_bytes()[:200])
    outcome = cluster.run(tmp_path, rows=400)
    assert outcome["scores"]["resumed"] == len(finished) - 1
    check(tmp_path, outcome, 8, expected)


@pytest.mark.neural
def test_networks_give_the_scores_of_one_process(tmp_path: Path, cluster: SharedCluster) -> None:
    write_rows(tmp_path, 40)
    expected = capmeter.score(capmeter.load(tmp_path / "x.jsonl"), "sbert,rouge-l")
    outcome = cluster.run(tmp_path, metrics="sbert,rouge-l", rows=20)
    of_all = outcome["scores"]["systems"][""]["scores"]
    assert of_all == pytest.approx({name: each.score for name, each in expected.items()}, abs=1e-6)


def test_the_command_runs_on_the_cluster(tmp_path: Path, cluster: SharedCluster) -> None:
    expected = write_rows(tmp_path, 60)
    options = ("-m", METRICS, "--parts", "scores", "--rows", "25", "--workers", "ray:2", "--format", "json")
    done = subprocess.run(
        [sys.executable, "-m", "capmeter", "score", "x.jsonl", *options, "--no-intervals"],
        cwd=tmp_path,
        env={**ENVIRONMENT, "RAY_ADDRESS": cluster.address},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    scores = json.loads(done.stdout[done.stdout.index("{\n") :])["systems"][""]["scores"]
    assert scores == {name: expected[name].score for name in expected}
