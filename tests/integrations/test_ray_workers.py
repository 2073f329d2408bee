"""Workers on Ray: their number, their GPUs, their errors, and what they load; on a cluster that says it has a GPU."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from support.command_line import capmeter as command
from support.ray_metrics import Deadly, Meeting, Network

from capmeter.captions.load_options import LoadOptions
from capmeter.core.errors import InputError
from capmeter.evaluation.registry import parse
from capmeter.integrations import shards
from capmeter.integrations.ray import count_workers, score, score_shards

ray = pytest.importorskip("ray", reason="needs capmeter[ray]")
pytestmark = [pytest.mark.ray, pytest.mark.slow]
TESTS = Path(__file__).resolve().parents[1]
ROW = {"id": "1", "image_id": "1", "candidate": "a dog runs", "references": ["a dog is running"]}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    resources = {"num_cpus": 6, "num_gpus": 1, "object_store_memory": 100_000_000}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_raylet_start_wait_time_s", "300")
        patch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)  # where workers find the metrics of `support`
        ray.init(address="local", log_to_driver=False, include_dashboard=False, **resources)
        yield
        ray.shutdown()


def write_shards(folder: Path, *names: str) -> str:
    """Files with one caption each; returns their pattern."""
    for name in names:
        (folder / f"{name}.jsonl").write_text(json.dumps(ROW) + "\n")
    return str(folder / "*.jsonl")


def test_four_workers_share_a_gpu(tmp_path: Path) -> None:
    pattern, folder = write_shards(tmp_path, *"abcd"), tmp_path / "met"
    folder.mkdir()
    corpus = score_shards(pattern, [Meeting(folder=str(folder), size=4)], tmp_path / "scores", gpus=0.25)
    assert corpus.captions == 4
    assert [path.read_text() for path in folder.iterdir()] == ["[0]"] * 4, "at the same time"


def test_a_network_is_loaded_once_by_each_worker(tmp_path: Path) -> None:
    pattern, folder = write_shards(tmp_path, *"abcdef"), tmp_path / "met"
    for each in (folder, tmp_path / "met-loaded"):
        each.mkdir()
    score_shards(pattern, [Network(folder=str(folder), size=2)], tmp_path / "scores", gpus=0.5)
    loaded = Counter(path.name.partition("-")[0] for path in (tmp_path / "met-loaded").iterdir())
    assert loaded.keys() == {path.name for path in folder.iterdir()}
    assert list(loaded.values()) == [1, 1], "two share the GPU"


def test_a_shard_that_kills_every_worker_is_named(tmp_path: Path) -> None:
    pattern = write_shards(tmp_path, "evil")
    metric = Deadly(folder=str(tmp_path / "scores"), size=1)
    with pytest.raises(InputError, match=r"^20 workers were lost at .*evil\.jsonl; is there enough memory\?$"):
        score_shards(pattern, [metric], tmp_path / "scores")


def test_carried_columns_are_those_of_one_process(tmp_path: Path) -> None:
    pattern, options = write_shards(tmp_path, "a"), LoadOptions(on_missing="skip")
    lost = {"id": "2", "image_id": "2", "candidate": "a cat", "url": "u2"}
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ({**ROW, "url": "u1"}, lost)))
    arguments: dict[str, Any] = {"options": options, "keep": ["url", "row"], "intervals": False}
    on_ray = score_shards(pattern, "rouge-l", tmp_path / "ray", **arguments)
    here = shards.score_shards(pattern, [parse("rouge-l")], tmp_path / "here", **arguments)
    assert (on_ray.captions, on_ray.scores, on_ray.notes) == (
        1,
        here.scores,
        {"skipped_without_references": (1, ["2"])},
    )
    tables = [parquet.read_table(tmp_path / name / "a.parquet") for name in ("ray", "here")]
    assert tables[0].equals(tables[1]) and tables[0]["url"].to_pylist() == ["u1", "u2"]
    assert tables[0]["row"].to_pylist() == [0, 1] and tables[0]["rouge-l"].is_null().to_pylist() == [False, True]


def test_errors_are_raised_as_in_one_process(tmp_path: Path) -> None:
    pattern = write_shards(tmp_path, "a")
    (tmp_path / "b.jsonl").write_text('{"id": "2", "image_id": "2", "candidate": "a cat"}\n')
    with pytest.raises(InputError, match=r"^[^\n]*b\.jsonl: 1 of 1 candidates has no references[^\n]*$"):
        score_shards(pattern, "rouge-l", tmp_path / "scores")
    with pytest.raises(InputError, match=r"^the dataset has the columns caption; expected image_id or id [^\n]*$"):
        score(ray.data.from_items([{"caption": "a dog"}]), "rouge-l")


@pytest.mark.parametrize(("gpus", "count"), [(0, 6), (0.1, 6), (0.25, 4), (0.3, 3), (0.5, 2), (0.75, 1), (1, 1)])
def test_as_many_workers_as_there_is_room_for(gpus: float, count: int) -> None:
    assert count_workers(0, gpus) == count
    assert count_workers(1, gpus) == 1


@pytest.mark.parametrize(
    ("workers", "gpus", "message"),
    [
        (5, 0.25, r"has 1 GPU \(on 1 node\), which is room for 4 workers with 0.25 each, and not for 5; ask for fewer"),
        (0, 2, r"has 1 GPU \(on 1 node\), which is room for 0 workers with 2 each, and not for 1; ask for fewer"),
        (0, 1.5, "gpus=1.5: expected a share of one GPU, such as 0.25, or a whole number"),
        (0, -1, "gpus=-1: expected"),
    ],
)
def test_missing_gpus_are_an_error(workers: int, gpus: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        count_workers(workers, gpus)


def test_the_command_reports_that_there_is_no_gpu(tmp_path: Path) -> None:
    write_shards(tmp_path, "a")
    options = ["--engine", "ray", "--shards", "*.jsonl", "--output", "scores", "--gpus", "2"]
    done = command("score", *options, folder=tmp_path)
    assert done.returncode == 1 and "room for 0 workers with 2 each" in done.stderr
