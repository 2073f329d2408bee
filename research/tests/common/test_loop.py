"""The loop of training: repeatable, resumable at any moment, selects, averages, stops, and says what went wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.common.recipe import Recipe

from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import InputError

torch = pytest.importorskip("torch", reason="training needs the neural extra")

from capmeter_research.common.loop import STATE, Learner, Outcome, Run, run_with_seeds, set_seed  # noqa: E402
from capmeter_research.common.training_curves import METRICS, read_courses  # noqa: E402

X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
Y = (X @ [1.0, -2.0, 0.5] + 0.3).astype(np.float32)


class Line(Learner[Any]):
    """Fits a line, with dropout and noise so that every kind of randomness counts."""

    def __init__(self, seed: int = 0, select: str = "", noise: float = 0.01) -> None:
        set_seed(seed)
        self.select, self.noise = select, noise
        self.module = torch.nn.Sequential(torch.nn.Dropout(0.1), torch.nn.Linear(3, 1))
        self.seen: list[list[int]] = []

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Any]:
        order = rng.permutation(60)
        return [order[start : start + 10] for start in range(0, 60, 10)]

    def losses(self, batch: Any, rng: np.random.Generator) -> Mapping[str, Any]:
        self.seen.append(list(batch))
        inputs = torch.from_numpy(X[batch] + self.noise * rng.normal(size=(len(batch), 3)).astype(np.float32))
        return {"square": ((self.module(inputs)[:, 0] - torch.from_numpy(Y[batch])) ** 2).mean()}

    def evaluate(self) -> Mapping[str, float]:
        torch.rand(5)  # measuring may use randomness of its own
        error = float(((self.module(torch.from_numpy(X))[:, 0] - torch.from_numpy(Y)) ** 2).mean())
        return {"fit": -error}


RECIPE = Recipe(epochs=5, lr=0.05, lr_schedule="linear", warmup=0.1, max_grad_norm=5.0, ema_decay=0.9)


def trained(folder: Path, *epochs: int, recipe: Recipe = RECIPE, **options: Any) -> Outcome:
    for count in epochs:
        outcome = Run(Line(recipe.seed, **options), recipe, folder, description="a line").train(epochs=count)
    return outcome


def same(one: Outcome, two: Outcome) -> bool:
    return all(np.array_equal(values, two.weights[name]) for name, values in one.weights.items())


def test_it_learns_and_logs(tmp_path: Path) -> None:
    result = trained(tmp_path, 60, recipe=replace(RECIPE, epochs=60))
    assert result.scores["fit"] > -0.1  # of a variance of about 5
    # dropout of p acts like a ridge: the weights are 1 - p of the line's
    assert np.allclose(result.weights["1.weight"], [[0.9, -1.8, 0.45]], atol=0.05)
    (course,) = read_courses(tmp_path)
    log = course.history
    assert [line["epoch"] for line in log] == list(range(1, 61))
    assert log[-1]["step"] == 360
    assert log[-1]["losses"]["square"] < log[0]["losses"]["square"]
    output = json.loads((tmp_path / METRICS).read_text())
    assert course.epoch == output["epoch"]
    assert output["scores"] == log[-1]["scores"]
    assert output["recipe"]["lr"] == 0.05


def test_a_run_is_a_function_of_its_seed(tmp_path: Path) -> None:
    one, two = trained(tmp_path / "1", 5), trained(tmp_path / "2", 5)
    assert same(one, two)
    assert not same(one, trained(tmp_path / "3", 5, recipe=replace(RECIPE, seed=1)))


def test_measuring_does_not_change_training(tmp_path: Path) -> None:
    class Silent(Line):
        def evaluate(self) -> Mapping[str, float]:
            return {"fit": 0.0}

    one = trained(tmp_path / "1", 5)
    two = Run(Silent(), RECIPE, tmp_path / "2", description="a line").train()
    assert same(one, two)


@pytest.mark.parametrize("parts", [(1, 4), (2, 1, 1, 1)])
@pytest.mark.parametrize("recipe", [RECIPE, replace(RECIPE, ema_decay=0.0, accumulate=4)])
def test_a_resumed_run_gives_the_same_weights(tmp_path: Path, parts: tuple[int, ...], recipe: Recipe) -> None:
    total = trained(tmp_path / "whole", 5, recipe=recipe)
    resumed = trained(tmp_path / "parts", *parts, recipe=recipe)
    assert same(total, resumed)
    assert [line["losses"] for line in total.history] == [line["losses"] for line in resumed.history]


def test_a_run_that_stops_within_an_epoch_repeats_no_batch(tmp_path: Path) -> None:
    total = trained(tmp_path / "whole", 5)

    class Stops(Line):
        save_seconds = -1.0

        def losses(self, batch: Any, rng: np.random.Generator) -> Mapping[str, Any]:
            if len(self.seen) == 9:
                raise KeyboardInterrupt
            return super().losses(batch, rng)

    first = Stops()
    with pytest.raises(KeyboardInterrupt):
        Run(first, RECIPE, tmp_path / "stopped", description="a line").train()
    second = Line()
    resumed = Run(second, RECIPE, tmp_path / "stopped", description="a line").train()
    assert same(total, resumed)
    assert [line["losses"] for line in total.history] == [line["losses"] for line in resumed.history]
    assert len(first.seen) + len(second.seen) == 30


def test_accumulated_batches_are_one_step(tmp_path: Path) -> None:
    result = trained(tmp_path, 2, recipe=replace(RECIPE, epochs=2, accumulate=4))
    assert result.history[-1]["step"] == 4  # 6 batches: 4 and the remaining 2


def test_the_best_epoch_is_selected_and_patience_ends_the_run(tmp_path: Path) -> None:
    class Scripted(Line):
        values = [0.1, 0.5, 0.3, 0.5, 0.2, 0.9]  # noqa: RUF012

        def evaluate(self) -> Mapping[str, float]:
            return {"tau": self.values.pop(0)}

    learner = Scripted(select="tau")
    learner.values = list(Scripted.values)
    outcome = Run(learner, replace(RECIPE, epochs=6, patience=3), tmp_path / "a", description="a line").train()
    assert (outcome.epoch, outcome.scores["tau"], len(outcome.history)) == (2, 0.5, 5)
    assert same(outcome, trained(tmp_path / "b", 2, recipe=replace(RECIPE, epochs=6, patience=3)))


def test_a_loss_that_is_no_number_ends_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"epoch 1 is not a number .* lower the learning rate \(0.05\)"):
        trained(tmp_path, 1, noise=float("inf"))
    assert not (tmp_path / STATE).exists()


def test_a_finished_run_goes_on_with_more_epochs(tmp_path: Path) -> None:
    steady = replace(RECIPE, lr_schedule="constant", gamma=0.9, warmup=0.0)  # whose rates do not depend on the epochs
    longer = replace(steady, epochs=8)
    at_once = trained(tmp_path / "a", 8, recipe=longer)
    trained(tmp_path / "b", 5, recipe=steady)
    assert same(at_once, trained(tmp_path / "b", 8, recipe=longer))
    assert len(at_once.history) == 8
    for folder, done, target in (("b", 8, 6), ("c", 2, 8)):  # fewer, and more before it has ended
        if done < 5:
            trained(tmp_path / folder, done, recipe=steady)
        with pytest.raises(InputError, match="other settings"):
            trained(tmp_path / folder, 1, recipe=replace(steady, epochs=target))


def test_what_does_not_belong_to_the_run_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, 1)
    with pytest.raises(InputError, match="other settings"):
        trained(tmp_path, 1, recipe=replace(RECIPE, lr=0.1))
    learner = Line()
    learner.module = torch.nn.Linear(4, 1)
    with pytest.raises(InputError, match="other data"):
        Run(learner, RECIPE, tmp_path, description="a line")
    (tmp_path / STATE).write_bytes((tmp_path / STATE).read_bytes()[:100])
    with pytest.raises(InputError, match=r"not a training state .* delete it to restart"):
        trained(tmp_path, 1)


def test_the_learning_rate_follows_its_formula() -> None:
    recipe = Recipe(lr=2.0, warmup=0.5, lr_schedule="linear", gamma=0.9)
    assert recipe.lr_at(0.25, 0) == pytest.approx(2 * 0.5 * 0.75)
    assert recipe.lr_at(0.75, 2) == pytest.approx(2 * 0.81 * 0.25)
    assert Recipe(lr=2.0, lr_schedule="cosine").lr_at(0.5, 0) == pytest.approx(1.0)
    assert Recipe(lr=2.0).lr_at(0.9, 7) == 2.0


def test_repeated_runs_give_mean_and_spread(tmp_path: Path) -> None:
    def train(seed: int, folder: Path) -> tuple[dict[str, float], float]:
        Checkpoint(kind="test", parameters={"seed": seed}, weights={}).save(folder)
        return {"tau": float(seed), "one": 1.0}, -abs(seed - 5.0)

    result = run_with_seeds(train, 3, 4, tmp_path)
    assert result == {"tau": (5.0, 1.0), "one": (1.0, 0.0)}
    assert Checkpoint.read(tmp_path).parameters == {"seed": 5}
    assert run_with_seeds(train, 1, 7, tmp_path / "one") == {"tau": (7.0, 0.0), "one": (1.0, 0.0)}


# one process that has everything imported, and a fork of it for each run
KILLED = """
import os, random, signal, sys, time
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from capmeter_research.common.loop import Run
from test_loop import RECIPE, STATE, Line
from dataclasses import replace
folder, chance, killed, code = Path(sys.argv[1]), random.Random(1), 0, None
Line.save_seconds = 0.0
while code is None:
    process = os.fork()
    if not process:
        try:
            Run(Line(), replace(RECIPE, epochs=12), folder, description="a line").train()
            os._exit(0)
        finally:
            os._exit(1)
    ended, status = 0, 0
    while killed < 3 and not ended and not (folder / STATE).exists():
        time.sleep(0.002)
        ended, status = os.waitpid(process, os.WNOHANG)
    time.sleep(chance.uniform(0.0, 0.1) if killed else 0.0)
    if not ended:
        ended, status = os.waitpid(process, os.WNOHANG if killed < 3 else 0)
    if ended:
        code = os.waitstatus_to_exitcode(status)
    else:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        killed += 1
print(killed)
sys.exit(code)
"""


def test_killed_runs_end_with_the_same_weights(tmp_path: Path) -> None:
    recipe = replace(RECIPE, epochs=12)
    total = trained(tmp_path / "whole", 12, recipe=recipe)
    here = Path(__file__)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "killed"), str(here.parents[2] / "src"), str(here.parent)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )
    assert done.returncode == 0, done.stderr
    killed = int(done.stdout)
    assert killed >= 1
    assert same(total, trained(tmp_path / "killed", 0, recipe=recipe))
    assert not list((tmp_path / "killed").glob("*.part"))
