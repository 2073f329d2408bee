"""Work shared among actors of Ray, on a cluster of this machine that says it has a GPU."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import capmeter as command

from capmeter.errors import InputError
from capmeter.integrations import actors
from capmeter.integrations.actors import Actor, Actors, by_tasks, got, number_of
from capmeter.integrations.ray import _Worker, score_shards
from capmeter.integrations.shards import Record, Shard
from capmeter.metrics.evaluation import Evaluation

ray = pytest.importorskip("ray", reason="needs capmeter[ray]")
pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
    given = {"num_cpus": 6, "num_gpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # whose imports workers do not find
    ray.init(address="local", log_to_driver=False, **given)
    yield
    ray.shutdown()


class Player(Actor):
    """Says which process it is, and waits for others where that is asked for."""

    def meet(self, folder: Path, name: str, others: int) -> tuple[int, list[int]]:
        """Its process and GPUs, when so many have come to the folder."""
        (folder / name).touch()
        end = time.monotonic() + 100
        while len(list(folder.iterdir())) < others:
            if time.monotonic() > end:
                raise InputError("the others did not come")
            time.sleep(0.01)
        return os.getpid(), ray.get_gpu_ids()

    def die(self, folder: Path, name: str, times: int) -> str:
        """Its work, unless it is killed on the way: the first so many times."""
        before = len(list(folder.glob(f"{name}-*")))
        (folder / f"{name}-{before}").touch()
        if before < times:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{name} done"

    def refuse(self, name: str) -> None:
        raise InputError(f"{name} is refused")


def fetched(players: Actors, method: str, work: actors.Work) -> dict:
    return {key: got(result) for key, result in players.run(method, work, "playing")}


def met(players: Actors, folder: Path, *names: str, others: int = 0) -> dict[str, int]:
    """The process of each name, which have met there."""
    folder.mkdir()
    work = {name: (folder, name, others or len(names)) for name in names}
    return {name: process for name, (process, _) in fetched(players, "meet", work).items()}


def test_a_piece_goes_to_who_had_it_and_to_any_other_if_that_one_is_busy(tmp_path: Path) -> None:
    with Actors(Player, 2) as players:
        first = met(players, tmp_path / "1", "a", "b")
        assert first["a"] != first["b"]
        for again in ("2", "3", "4"):
            assert met(players, tmp_path / again, "b", "a") == first
        third = met(players, tmp_path / "5", "c")["c"]  # by one of both, whose "a" or "b" now waits for "c"
        busy = "a" if first["a"] == third else "b"
        shared = met(players, tmp_path / "6", busy, "c")
        assert {shared[busy], shared["c"]} == set(first.values())


def test_what_a_lost_actor_did_is_done_by_others(tmp_path: Path) -> None:
    work = {name: (tmp_path, name, times) for name, times in (("a", 0), ("b", 1), ("c", 3), ("d", 0))}
    with Actors(Player, 2) as players:
        assert fetched(players, "die", work) == {name: f"{name} done" for name in "abcd"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-0", "b-0", "b-1", "c-0", "c-1", "c-2", "c-3", "d-0"]


def test_what_kills_every_actor_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actors, "_TRIES", 2)
    with Actors(Player, 1) as players, pytest.raises(InputError, match="was lost 2 times at evil"):
        fetched(players, "die", {"evil": (tmp_path, "evil", 99)})


def test_errors_come_as_they_were_raised() -> None:
    with Actors(Player, 1) as players, pytest.raises(InputError, match=r"^a is refused$"):
        fetched(players, "refuse", {"a": ("a",)})
    with pytest.raises(InputError, match=r"^b is refused$"):
        dict(by_tasks(Player)("refuse", {"b": ("b",)}, "playing"))


def test_four_share_a_gpu(tmp_path: Path) -> None:
    with Actors(Player, number_of(0, 0.25), 0.25) as players:
        found = fetched(players, "meet", {name: (tmp_path, name, 4) for name in "abcd"})
    assert len({process for process, _ in found.values()}) == 4, "at the same time"
    assert [gpus for _, gpus in found.values()] == [[0]] * 4


@pytest.mark.parametrize(("gpus", "number"), [(0, 6), (0.1, 6), (0.25, 4), (0.3, 3), (0.5, 2), (0.75, 1), (1, 1)])
def test_as_many_as_there_is_room_for(gpus: float, number: int) -> None:
    assert number_of(0, gpus) == number
    assert number_of(1, gpus) == 1


@pytest.mark.parametrize(
    ("workers", "gpus", "said"),
    [
        (5, 0.25, r"has 1 GPU \(on 1 node\), which is room for 4 workers with 0.25 each, and not for 5; ask for fewer"),
        (0, 2, r"has 1 GPU \(on 1 node\), which is room for 0 workers with 2 each, and not for 1; ask for fewer"),
        (0, 1.5, "gpus=1.5: expected a share of one GPU, such as 0.25, or a whole number"),
        (0, -1, "gpus=-1: expected"),
    ],
)
def test_gpus_that_there_are_not_are_said(workers: int, gpus: float, said: str) -> None:
    with pytest.raises(InputError, match=said):
        number_of(workers, gpus)


def test_the_command_says_that_there_is_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1", "image_id": "1", "candidate": "a dog", "references": ["a dog"]}\n')
    given = ["--engine", "ray", "--shards", "*.jsonl", "--output", "scores", "--gpus", "2"]
    done = command("score", *given, folder=tmp_path)
    assert done.returncode == 1 and "room for 0 workers with 2 each" in done.stderr


class Counting(_Worker):
    """Leaves the number of networks that its process has loaded, for every file that it scores."""

    def score(self, evaluation: Evaluation, shard: Shard, plan: str, digest: str) -> Record:
        from capmeter.encoders.encoder import _load

        record = super().score(evaluation, shard, plan, digest)
        Path(f"{shard.source}.{os.getpid()}").write_text(str(_load.cache_info().misses))
        return record


@pytest.mark.neural
def test_networks_are_loaded_once_by_each_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capmeter.integrations.ray._Worker", Counting)
    row = {"id": "1", "image_id": "1", "candidate": "a dog runs", "references": ["a dog is running"]}
    for k in range(6):
        (tmp_path / f"{k}.jsonl").write_text(json.dumps(row) + "\n")
    score_shards(str(tmp_path / "*.jsonl"), "sbert", tmp_path / "scores", gpus=0.5)
    left = [path for path in tmp_path.iterdir() if path.is_file() and path.suffix != ".jsonl"]
    assert len(left) == 6 and [path.read_text() for path in left] == ["1"] * 6
    assert len({path.suffix for path in left}) == 2, "two share the GPU"
