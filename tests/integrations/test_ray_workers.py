"""Workers on Ray: their number, their GPUs, their errors, and what they load; on a cluster that says it has a GPU."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import capmeter as command
from support.ray_metrics import Deadly, Meeting, Network

from capmeter.core.errors import InputError
from capmeter.evaluation.part_scores import score_parts
from capmeter.integrations import ray as integration
from capmeter.integrations.ray import RayPool, count_workers

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


def write_files(folder: Path, *names: str) -> str:
    """Files with one caption each; returns their pattern."""
    for k, name in enumerate(names):
        (folder / f"{name}.jsonl").write_text(json.dumps({**ROW, "id": str(k)}) + "\n")
    return str(folder / "*.jsonl")


def test_four_workers_share_a_gpu(tmp_path: Path) -> None:
    pattern, folder = write_files(tmp_path, *"abcd"), tmp_path / "met"
    folder.mkdir()
    metrics = [Meeting(folder=str(folder), size=4)]
    scores = score_parts(pattern, metrics, tmp_path / "scores", workers=RayPool(gpus=0.25))
    assert scores.systems[""].captions == 4
    assert [path.read_text() for path in folder.iterdir()] == ["[0]"] * 4, "at the same time"


def test_a_network_is_loaded_once_by_each_worker(tmp_path: Path) -> None:
    pattern, folder = write_files(tmp_path, *"abcdef"), tmp_path / "met"
    for each in (folder, tmp_path / "met-loaded"):
        each.mkdir()
    score_parts(pattern, [Network(folder=str(folder), size=2)], tmp_path / "scores", workers=RayPool(gpus=0.5))
    loaded = Counter(path.name.partition("-")[0] for path in (tmp_path / "met-loaded").iterdir())
    assert loaded.keys() == {path.name for path in folder.iterdir()}
    assert list(loaded.values()) == [1, 1], "two share the GPU"


def test_a_part_that_kills_every_worker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integration, "MAX_TRIES", 2)
    pattern = write_files(tmp_path, "evil")
    with pytest.raises(InputError, match=r"^2 workers were lost at evil-000000000 .*is there enough memory\?"):
        score_parts(pattern, [Deadly(folder="", size=1)], tmp_path / "scores", workers=RayPool())


def test_errors_are_raised_as_in_one_process(tmp_path: Path) -> None:
    pattern = write_files(tmp_path, "a")
    (tmp_path / "b.jsonl").write_text('{"id": "2", "image_id": "2", "candidate": "a cat"}\n')
    with pytest.raises(InputError, match=r"^[^\n]*b\.jsonl: 1 of 1 candidates has no references[^\n]*$"):
        score_parts(pattern, "rouge-l", tmp_path / "scores", workers=RayPool(2))


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
    write_files(tmp_path, "a")
    done = command("score", "*.jsonl", "--workers", "ray", "--parts", "scores", "--gpus", "2", folder=tmp_path)
    assert done.returncode == 1 and "room for 0 workers with 2 each" in done.stderr
