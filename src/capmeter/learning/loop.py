"""The loop of training, used by everything that is trained here.

A run is a function of its data, recipe and seed: the order of the batches and every random choice follow from them. It
writes its state at least once a minute and resumes from there, on the CPU with the same final weights, bit for bit, as
an uninterrupted run.

The folder of a run holds `training.pt` (the state, read weights-only), `log.jsonl` (a line per epoch) and, when it has
ended, `metrics.json`.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from capmeter.atomic import atomic_file
from capmeter.errors import InputError
from capmeter.learning.course import LOG, METRICS
from capmeter.learning.recipe import Recipe
from capmeter.progress import task

STATE = "training.pt"
AVERAGED_EVERY = 4
_SECONDS_BETWEEN_STATES, _SECONDS_BETWEEN_EPOCHS = 60.0, 5.0  # at most

Batch = TypeVar("Batch")
Weights = dict[str, npt.NDArray[Any]]


class Learner(ABC, Generic[Batch]):
    """What is trained: a network, its batches, its loss and its scores on held-out data.

    Attributes:
        module: the network. Its initial weights are drawn by the constructor, after `seeded(seed)`.
        select: the score in `measured` whose highest value selects the epoch; empty: the last epoch is taken.
    """

    module: nn.Module
    select: str = ""

    @abstractmethod
    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """The batches of an epoch, in order. Every epoch has about the same number. `rng` is this epoch's own."""

    @abstractmethod
    def losses(self, batch: Batch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The losses of a batch by name; their sum is minimised. `rng` is this step's own."""

    @abstractmethod
    def measured(self) -> Mapping[str, float]:
        """Scores on held-out data by name, after an epoch; the network is in evaluation mode, without gradients."""

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """The optimiser; Adam with torch's defaults unless overridden.

        A group's `share` multiplies its learning rate.
        """
        return torch.optim.Adam(self.module.parameters(), lr=rate)

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.module.parameters()).device


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run ended with.

    Args:
        weights: of the selected epoch (averaged if the recipe says so), by name.
        epoch: the selected epoch, from 1.
        scores: the held-out scores of that epoch.
        history: the log, one line per epoch.
    """

    weights: Weights
    epoch: int
    scores: Mapping[str, float]
    history: Sequence[Mapping[str, Any]]


def seeded(seed: int) -> None:
    """Seeds torch for the initial weights and for dropout."""
    torch.manual_seed(seed)


class Run(Generic[Batch]):
    """A run, which can be interrupted at any moment and resumed.

    Args:
        learner: what is trained.
        recipe: settings.
        folder: of the state and the log; a state found there is resumed. A finished run goes on where nothing but the
            number of epochs has grown, at the learning rates of a run of so many.
        description: for the progress bar.
        device: a torch device.

    Raises:
        InputError: the folder holds a run with another recipe or another network.
    """

    def __init__(
        self, learner: Learner[Batch], recipe: Recipe, folder: Path, *, description: str, device: str = "cpu"
    ) -> None:
        self.learner, self.recipe, self.folder, self.description = learner, recipe, folder, description
        learner.module.to(device)
        self.optimizer = learner.optimizer(recipe.rate)
        self.average = self._weights() if recipe.average else None
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Any] | None = None
        self.step = self.epoch = self.batch = 0
        self.sums: dict[str, Tensor] = {}
        self.seconds = 0.0
        self._kept = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self._resume()

    def train(self, *, epochs: int | None = None) -> Outcome:
        """Trains to the end, or this many more epochs.

        Returns:
            The selected weights and the history.
        """
        last = self.recipe.epochs if epochs is None else min(self.recipe.epochs, self.epoch + epochs)
        with task(self.description, total=last - self.epoch) as advance:
            while self.epoch < last and not self._ended():
                self._epoch()
                advance(1)
        self._keep()
        if self._ended():
            self._write_metrics()
        return self._outcome()

    def _epoch(self) -> None:
        batches = self.learner.batches(self.epoch, self._rng())
        self.learner.module.train()
        started, before = time.monotonic(), self.seconds
        for number in range(self.batch, len(batches)):
            self._step(batches[number], number, len(batches))
            self.batch = number + 1
            # gradients are not part of the state
            if not self.batch % self.recipe.accumulate and time.monotonic() - self._kept > _SECONDS_BETWEEN_STATES:
                self.seconds = before + time.monotonic() - started
                self._keep()
        means = {name: round(value / max(1, len(batches)), 6) for name, value in self._finite_sums().items()}
        scores = self._measured()
        self.epoch += 1
        line = {
            "epoch": self.epoch,
            "step": self.step,
            "seconds": round(before + time.monotonic() - started, 2),
            "losses": means,
            "scores": {name: float(value) for name, value in scores.items()},
        }
        self.history.append(line)
        self._select(line)
        self.batch, self.sums, self.seconds = 0, {}, 0.0
        if time.monotonic() - self._kept > _SECONDS_BETWEEN_EPOCHS:
            self._keep()

    def _step(self, batch: Batch, number: int, count: int) -> None:
        recipe = self.recipe
        rate = recipe.rate_at((self.epoch + (number + 0.5) / count) / recipe.epochs, self.epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("share", 1.0)
        kind = self.learner.device.type
        mixed = recipe.precision == "bfloat16"
        with torch.autocast(kind, torch.bfloat16) if mixed else nullcontext():
            losses = self.learner.losses(batch, self._rng(number))
        # for one loss and one batch per step the same number without the sum: a third of a small network's time
        only = next(iter(losses.values())).float() if len(losses) == 1 else None
        total = torch.stack([loss.float() for loss in losses.values()]).sum() if only is None else only
        (total / recipe.accumulate if recipe.accumulate > 1 else total).backward()  # type: ignore[no-untyped-call]
        for name, loss in losses.items():
            self.sums[name] = self.sums.get(name, 0.0) + loss.detach().double()
        if (number + 1) % recipe.accumulate and number + 1 < count:
            return
        if recipe.clip:
            clip_grad_norm_(self.learner.module.parameters(), recipe.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        if self.average is not None and not self.step % AVERAGED_EVERY:
            self._move_average(self.average)

    def _move_average(self, average: dict[str, Tensor]) -> None:
        past = min(self.recipe.average, 1 - 1 / (1 + self.step / 20))
        with torch.no_grad():
            for name, values in self.learner.module.state_dict().items():
                if values.is_floating_point():
                    average[name].lerp_(values, 1 - past)
                else:
                    average[name].copy_(values)

    def _finite_sums(self) -> dict[str, float]:
        sums = {name: float(value) for name, value in self.sums.items()}
        if not all(map(math.isfinite, sums.values())):
            raise InputError(
                f"{self.description}: a loss of epoch {self.epoch + 1} is not a number ({sums}); "
                f"lower the learning rate ({self.recipe.rate}) or clip gradients ({self.recipe.clip or 'not clipped'})"
            )
        return sums

    def _rng(self, *numbers: int) -> np.random.Generator:
        return np.random.default_rng((self.recipe.seed, self.epoch, *numbers))

    def _weights(self) -> dict[str, Tensor]:
        return {name: values.detach().clone() for name, values in self.learner.module.state_dict().items()}

    def _measured(self) -> Mapping[str, float]:
        module = self.learner.module
        trained = self._weights() if self.average is not None else None
        if self.average is not None:
            module.load_state_dict(self.average)
        module.eval()
        with torch.no_grad(), self._own_randomness():
            scores = self.learner.measured()
        if trained is not None:
            module.load_state_dict(trained)
        return scores

    def _own_randomness(self) -> Any:
        """Measuring does not move the randomness of training."""
        devices = [self.learner.device] if self.learner.device.type == "cuda" else []
        return torch.random.fork_rng(devices=devices)

    def _select(self, line: Mapping[str, Any]) -> None:
        name = self.learner.select
        value = line["scores"][name] if name else float(self.epoch)
        if self.best is None or value > self.best["value"]:
            weights = self.average if self.average is not None else self.learner.module.state_dict()
            copied = {name: values.detach().clone() for name, values in weights.items()}
            self.best = {"value": value, "epoch": self.epoch, "weights": copied}

    def _ended(self) -> bool:
        patience = self.recipe.patience
        waited = self.epoch - self.best["epoch"] if self.best else 0
        return self.epoch >= self.recipe.epochs or bool(patience and waited >= patience)

    def _outcome(self) -> Outcome:
        if self.best is None:
            raise InputError(f"{self.description}: no epoch was trained; expected at least one")
        chosen = self.best["epoch"]
        weights = {name: values.cpu().numpy() for name, values in self.best["weights"].items()}
        return Outcome(weights, chosen, self.history[chosen - 1]["scores"], self.history)

    def _write_metrics(self) -> None:
        outcome = self._outcome()
        seconds = round(sum(line["seconds"] for line in self.history), 1)
        said = {
            "epoch": outcome.epoch,
            "select": self.learner.select,
            "scores": dict(outcome.scores),
            "epochs": self.epoch,
            "steps": self.step,
            "seconds": seconds,
            "recipe": asdict(self.recipe),
        }
        with atomic_file(self.folder / METRICS) as file:
            file.write(json.dumps(said, indent=1).encode() + b"\n")

    def _keep(self) -> None:
        cuda = self.learner.device.type == "cuda"
        sums = self._finite_sums()
        with atomic_file(self.folder / LOG) as file:
            file.write("".join(json.dumps(line) + "\n" for line in self.history).encode())
        with atomic_file(self.folder / STATE) as file:
            torch.save(
                {
                    "recipe": asdict(self.recipe),
                    "module": self.learner.module.state_dict(),
                    "average": self.average,
                    "best": self.best,
                    "optimizer": self.optimizer.state_dict(),
                    "random": torch.get_rng_state(),
                    "cuda_random": torch.cuda.get_rng_state(self.learner.device) if cuda else None,
                    "history": self.history,
                    "sums": sums,
                    "seconds": self.seconds,
                    "place": [self.step, self.epoch, self.batch],
                },
                file,
            )
        self._kept = time.monotonic()

    def _resume(self) -> None:
        path = self.folder / STATE
        if not path.exists():
            return
        try:
            kept = torch.load(path, weights_only=True, map_location=self.learner.device)
        except Exception as error:
            raise InputError(f"{path}: not the state of a run ({error}); remove it to start anew") from error
        given, wanted = kept["recipe"], asdict(self.recipe)
        longer = kept["place"][1] == given["epochs"] < wanted["epochs"]
        if given != wanted and not (longer and given | {"epochs": wanted["epochs"]} == wanted):
            raise InputError(
                f"{path} belongs to a run with other settings ({kept['recipe']}); give the same, or another folder"
            )
        try:
            self.learner.module.load_state_dict(kept["module"])
        except RuntimeError as error:
            raise InputError(f"{path} belongs to a run on other data; give the same, or another folder") from error
        self.average, self.best = kept["average"], kept["best"]
        self.optimizer.load_state_dict(kept["optimizer"])
        self.history, self.seconds = kept["history"], kept["seconds"]
        device = self.learner.device
        self.sums = {
            name: torch.tensor(value, dtype=torch.float64, device=device) for name, value in kept["sums"].items()
        }
        self.step, self.epoch, self.batch = kept["place"]
        torch.set_rng_state(kept["random"].cpu())
        if kept["cuda_random"] is not None and self.learner.device.type == "cuda":
            torch.cuda.set_rng_state(kept["cuda_random"].cpu(), self.learner.device)


def repeated(train: Callable[[int], Mapping[str, float]], runs: int, seed: int = 0) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation (n − 1; 0 for one run) of each score over runs with consecutive seeds.

    Args:
        train: trains with a seed and returns its scores.
        runs: how many.
        seed: of the first.
    """
    if runs < 1:
        raise InputError(f"runs: expected 1 or more, but got {runs}")
    found = [train(seed + number) for number in range(runs)]
    return {name: _mean_and_spread([scores[name] for scores in found]) for name in found[0]}


def _mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
