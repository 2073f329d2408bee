"""Ray as the engine: a cluster of several nodes on this machine, whose workers, nodes and driver are lost."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import capmeter as command

import capmeter

pytest.importorskip("ray", reason="needs capmeter[ray]")
pytestmark = [pytest.mark.ray, pytest.mark.slow]

METRICS = "bleu-4,rouge-l,cider-d"
PROGRAM = Path(__file__).resolve().parents[1] / "support" / "ray_cluster.py"
ENVIRONMENT = {**os.environ, "RAY_raylet_start_wait_time_s": "300", "OMP_NUM_THREADS": "1"}
WORDS = "a dog runs on the grass while two cats sleep near an old red bus and people watch from one window".split()  # noqa: SIM905


def written(folder: Path, files: int, captions: int) -> capmeter.Results:
    """Files of captions, and the scores of one process."""
    draw, rows = np.random.default_rng(0), []
    for k in range(files * captions):
        texts = [" ".join(draw.choice(WORDS, draw.integers(4, 11))) for _ in range(4)]
        rows.append({"id": f"c{k}", "image_id": str(k // 2), "candidate": texts[0], "references": texts[1:]})
    lines = [json.dumps(row) + "\n" for row in rows]
    for k in range(files):
        (folder / f"part-{k}.jsonl").write_text("".join(lines[k * captions : (k + 1) * captions]))
    (folder / "whole").mkdir()
    (folder / "whole" / "whole.jsonl").write_text("".join(lines))
    return capmeter.score(capmeter.load(folder / "whole" / "whole.jsonl"), METRICS)


def describe_task(folder: Path, **task: Any) -> str:
    inputs = {"metrics": METRICS, "pattern": str(folder / "*.jsonl"), "output": str(folder / "scores")}
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


def check(outcome: dict[str, Any], expected: capmeter.Results) -> None:
    assert outcome["corpus"]["scores"] == {name: each.score for name, each in expected.items()}
    bounds = {name: list(bound) for name, bound in expected.intervals(resamples=50, seed=3).items()}
    assert outcome["corpus"]["intervals"] == bounds
    assert outcome["corpus"]["signatures"] == {name: each.signature for name, each in expected.items()}


def check_files(folder: Path, files: int, expected: capmeter.Results) -> None:
    """Every caption has its scores once, bit for bit those of one process."""
    from pyarrow import parquet

    tables = [parquet.read_table(folder / "scores" / f"part-{k}.parquet") for k in range(files)]
    assert [id for table in tables for id in table["id"].to_pylist()] == list(expected.ids.names)
    for name, each in expected.items():
        assert np.concatenate([table[name].to_numpy() for table in tables]).tobytes() == each.items.array.tobytes()
    left = {path.name for path in (folder / "scores").iterdir()}
    assert left == {"corpus.json", *(f"part-{k}.{kind}" for k in range(files) for kind in ("parquet", "json"))}


def test_workers_and_a_node_are_lost_and_nothing_else(tmp_path: Path, cluster: SharedCluster) -> None:
    expected = written(tmp_path, files=8, captions=400)
    outcome = cluster.run(tmp_path, kills=3, lose_node=True)
    assert outcome["lost"] > 0
    check(outcome, expected)
    check_files(tmp_path, 8, expected)


def test_collected_states_survive_the_loss_of_their_node(tmp_path: Path, cluster: SharedCluster) -> None:
    expected = written(tmp_path, files=4, captions=400)
    outcome = cluster.run(tmp_path, lose_collected=True)
    check(outcome, expected)
    check_files(tmp_path, 4, expected)


def test_a_run_that_was_killed_goes_on_from_its_finished_files(tmp_path: Path, cluster: SharedCluster) -> None:
    expected = written(tmp_path, files=8, captions=400)
    program = start_cluster(tmp_path, describe_task(tmp_path, nodes=1))
    records = tmp_path / "scores"
    while program.poll() is None and len(list(records.glob("part-*.json"))) < 2:
        time.sleep(0.02)
    os.killpg(program.pid, signal.SIGKILL)
    program.wait(60)
    time.sleep(1)
    before = len(list(records.glob("part-*.json")))
    assert before >= 2 and not (records / "corpus.json").exists()
    damaged = sorted(records.glob("part-*.parquet"))[0]
    damaged.write_bytes(damaged.read_bytes() + b"?")
    outcome = cluster.run(tmp_path)
    assert outcome["corpus"]["resumed"] == before - 1
    assert outcome["corpus"]["rescored"] == {str(damaged): "its file of scores is damaged"}
    check(outcome, expected)
    check_files(tmp_path, 8, expected)


@pytest.mark.neural
def test_networks_give_the_scores_of_one_process(tmp_path: Path, cluster: SharedCluster) -> None:
    from pyarrow import parquet

    written(tmp_path, files=2, captions=20)
    expected = capmeter.score(capmeter.load(tmp_path / "whole" / "whole.jsonl"), "sbert,rouge-l")
    outcome = cluster.run(tmp_path, metrics="sbert,rouge-l")
    tables = [parquet.read_table(tmp_path / "scores" / f"part-{k}.parquet") for k in range(2)]
    scores = np.concatenate([table["sbert"].to_numpy() for table in tables])
    assert np.abs(scores - expected["sbert"].items.array).max() < 1e-6
    assert outcome["corpus"]["scores"] == pytest.approx({name: each.score for name, each in expected.items()}, abs=1e-6)


def test_a_dataset_has_the_scores_of_one_process(tmp_path: Path, cluster: SharedCluster) -> None:
    expected = written(tmp_path, files=3, captions=50)
    paths = [str(tmp_path / f"part-{k}.jsonl") for k in range(3)]
    outcome = cluster.run(tmp_path, dataset=paths)
    check(outcome, expected)
    assert outcome["rows"] == dict(expected["rouge-l"].items)
    assert list(outcome["rows"]) == list(expected.ids.names)


def test_the_sample_of_the_page_runs(tmp_path: Path, cluster: SharedCluster) -> None:
    from pyarrow import Table, parquet

    page = (Path(__file__).resolve().parents[2] / "docs" / "scale.md").read_text("utf-8")
    (sample,) = re.findall(r"(?ms)^```python\n(import ray\n.*?)^```$", page)
    expected = written(tmp_path, 1, 60)
    lines = (tmp_path / "whole" / "whole.jsonl").read_text().splitlines()
    (tmp_path / "captions").mkdir()
    parquet.write_table(Table.from_pylist([json.loads(line) for line in lines]), tmp_path / "captions" / "a.parquet")
    printed = "\nprint(__import__('json').dumps([scored.corpus.scores, scored.dataset.count()]))"
    ran = subprocess.run(
        [sys.executable, "-c", sample.replace('"captions/', f'"{tmp_path}/captions/') + printed],
        cwd=tmp_path,
        env={**ENVIRONMENT, "RAY_ADDRESS": cluster.address},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    scores, count = json.loads(ran.stdout.splitlines()[-1])
    assert count == 60 and scores == {name: expected[name].score for name in ("bleu-4", "cider-d")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "ray"], "needs --shards"),
        (["--shards", "*.jsonl"], "needs --output FOLDER"),
        (["--engine", "ray", "--shards", "*.jsonl"], "needs --output FOLDER"),
        (["--engine", "ray", "--shards", "*.jsonl", "--output", "scores", "--texts"], "cannot be combined"),
    ],
)
def test_usage_errors_name_the_option(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = command("score", *arguments, folder=tmp_path)
    assert done.returncode == 2 and message in " ".join(done.stderr.replace("│", " ").split())
