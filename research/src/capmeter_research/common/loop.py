"""The training loop of every recipe: deterministic, resumable, with model selection.

A run is a function of its data, recipe and seed: the order of the batches and every random choice follow from them. It
saves its state at least once a minute and resumes from there; on the CPU, the final weights are those of an
uninterrupted run, bit for bit.

The folder of a run holds `training.pt` (the training state, read weights-only), `log.jsonl` (one line per epoch) and,
at the end, `metrics.json`.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import InputError
from capmeter.core.output_files import atomic_file, write_atomic
from capmeter.core.progress import task
from capmeter_research.common.forked_map import forked_map
from capmeter_research.common.recipe import Recipe
from capmeter_research.common.training_curves import LOG, METRICS

STATE = "training.pt"
EMA_EVERY = 4
"""Steps between updates of the moving average of the weights."""
_EPOCH_SHARE = 1 / 12  # of `Learner.save_seconds`, after which the state is saved at the end of an epoch

Batch = TypeVar("Batch")
Weights = dict[str, npt.NDArray[Any]]
"""Arrays by parameter name."""


class Learner(ABC, Generic[Batch]):
    """A model in training: a network, its batches, its losses and its evaluation.

    Attributes:
        module: the network. The constructor initialises its weights, after `set_seed(seed)`.
        select: the score of `evaluate` whose maximum selects the epoch; empty: the last epoch is selected.
        save_seconds: the training state is saved whenever this many seconds have passed.
        betas: of Adam.
    """

    module: nn.Module
    betas: tuple[float, float] = (0.9, 0.999)
    select: str = ""
    save_seconds: float = 60.0

    @abstractmethod
    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """The batches of an epoch, in order; about the same number in every epoch. `rng` is seeded per epoch."""

    def prepare(self, batch: Batch, rng: np.random.Generator) -> Any:
        """What `losses` takes, made from a batch without the network, maybe in another process.

        `rng` is seeded per step. The batch itself unless overridden.
        """
        return batch

    @abstractmethod
    def losses(self, batch: Any, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The losses of a prepared batch by name, whose sum is minimised. `rng` is seeded per step."""

    @abstractmethod
    def evaluate(self) -> Mapping[str, float]:
        """Scores on held-out data by name, after an epoch, in evaluation mode and without gradients."""

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """The optimiser (Adam unless overridden).

        The `lr_scale` of a parameter group multiplies its learning rate.
        """
        return torch.optim.Adam(self.module.parameters(), lr=lr, betas=self.betas)

    @property
    def device(self) -> torch.device:
        """The network's device."""
        return next(self.module.parameters()).device


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a run."""

    weights: Weights  # of the selected epoch (averaged if the recipe says so), by name
    epoch: int  # the selected epoch, from 1
    scores: Mapping[str, float]  # the held-out scores of that epoch
    history: Sequence[Mapping[str, Any]]  # the log, one entry per epoch


class DeviceTensors:
    """Arrays of equal length as tensors, moved to a device once."""

    def __init__(self, *arrays: npt.NDArray[Any]) -> None:
        self._tensors: tuple[Tensor, ...] = tuple(map(torch.from_numpy, arrays))

    def select(self, rows: npt.NDArray[np.int64] | slice, device: torch.device) -> tuple[Tensor, ...]:
        """Some rows of all tensors."""
        if self._tensors[0].device != device:
            self._tensors = tuple(values.to(device) for values in self._tensors)
        index = rows if isinstance(rows, slice) else torch.from_numpy(rows).to(device)
        return tuple(values[index] for values in self._tensors)


def split_rows(rows: npt.NDArray[np.int64], size: int) -> list[npt.NDArray[np.int64]]:
    """The rows in batches of this size; the last one may be smaller.

    >>> [batch.tolist() for batch in split_rows(np.array([4, 2, 7]), 2)]
    [[4, 2], [7]]
    """
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def set_seed(seed: int) -> None:
    """Seeds torch for the initial weights and for dropout."""
    torch.manual_seed(seed)


class Run(Generic[Batch]):
    """A training run, which can be interrupted at any moment and resumed.

    Args:
        learner: the model in training.
        recipe: settings.
        folder: of the training state and the log; a state found there is resumed. A finished run continues if only
            `epochs` was increased, with the learning rates of a run of that many epochs.
        description: for the progress bar.
        device: a torch device.
        workers: processes that prepare batches ahead; one: they are prepared in this process.

    Raises:
        InputError: the folder holds a run with another recipe or another network.
    """

    def __init__(
        self,
        learner: Learner[Batch],
        recipe: Recipe,
        folder: Path,
        *,
        description: str,
        device: str = "cpu",
        workers: int = 1,
    ) -> None:
        self.workers = workers
        self.learner, self.recipe, self.folder, self.description = learner, recipe, folder, description
        learner.module.to(device)
        self.optimizer = learner.optimizer(recipe.lr)
        self.average = self._copy_weights() if recipe.ema_decay else None
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Any] | None = None
        self.step = self.epoch = self.batch = 0
        self.loss_sums: dict[str, Tensor] = {}
        self.seconds = 0.0  # of the current epoch
        self._saved_at = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self._resume()

    def train(self, *, epochs: int | None = None) -> Outcome:
        """Trains to the end, or for this many more epochs.

        Returns:
            The selected weights and the history.
        """
        last = self.recipe.epochs if epochs is None else min(self.recipe.epochs, self.epoch + epochs)
        with (
            forked_map(self._prepare, self.workers) as prepare,
            task(self.description, total=last - self.epoch) as advance,
        ):
            while self.epoch < last and not self._is_finished():
                self._train_epoch(prepare)
                advance(1)
        self._save()
        if self._is_finished():
            self._write_metrics()
        return self._outcome()

    def _prepare(self, job: tuple[int, int, Batch]) -> Any:
        epoch, batch_number, batch = job
        return self.learner.prepare(batch, self._rng(epoch, batch_number))

    def _train_epoch(self, prepare: Callable[[Iterable[tuple[int, int, Batch]]], Iterator[Any]]) -> None:
        batches = self.learner.batches(self.epoch, self._rng(self.epoch))
        self.learner.module.train()
        start_time, seconds_before = time.monotonic(), self.seconds
        jobs = [(self.epoch, batch_number, batches[batch_number]) for batch_number in range(self.batch, len(batches))]
        for (_, batch_number, _), prepared in zip(jobs, prepare(jobs), strict=True):
            self._train_step(prepared, batch_number, len(batches))
            self.batch = batch_number + 1
            # gradients are not part of the state
            if not self.batch % self.recipe.accumulate and self._seconds_unsaved() > self.learner.save_seconds:
                self.seconds = seconds_before + time.monotonic() - start_time
                self._save()
        mean_losses = {
            loss_name: round(loss_sum / max(1, len(batches)), 6) for loss_name, loss_sum in self._finite_sums().items()
        }
        scores = self._evaluate()
        self.epoch += 1
        epoch_entry = {
            "epoch": self.epoch,
            "step": self.step,
            "seconds": round(seconds_before + time.monotonic() - start_time, 2),
            "losses": mean_losses,
            "scores": {score_name: float(score) for score_name, score in scores.items()},
        }
        self.history.append(epoch_entry)
        self._update_best(epoch_entry)
        self.batch, self.loss_sums, self.seconds = 0, {}, 0.0
        if self._seconds_unsaved() > self.learner.save_seconds * _EPOCH_SHARE:
            self._save()

    def _train_step(self, batch: Any, batch_number: int, batch_count: int) -> None:
        recipe = self.recipe
        lr = recipe.lr_at((self.epoch + (batch_number + 0.5) / batch_count) / recipe.epochs, self.epoch)
        for parameter_group in self.optimizer.param_groups:
            parameter_group["lr"] = lr * parameter_group.get("lr_scale", 1.0)
        mixed_precision = recipe.precision == "bfloat16"
        with torch.autocast(self.learner.device.type, torch.bfloat16) if mixed_precision else nullcontext():
            losses = self.learner.losses(batch, self._rng(self.epoch, batch_number))
        # for one loss and one batch per step the same number without the sum: a third of a small network's time
        single_loss = next(iter(losses.values())).float() if len(losses) == 1 else None
        total = torch.stack([loss.float() for loss in losses.values()]).sum() if single_loss is None else single_loss
        (total / recipe.accumulate if recipe.accumulate > 1 else total).backward()  # type: ignore[no-untyped-call]
        for loss_name, loss in losses.items():
            self.loss_sums[loss_name] = self.loss_sums.get(loss_name, 0.0) + loss.detach().double()
        if (batch_number + 1) % recipe.accumulate and batch_number + 1 < batch_count:
            return
        if recipe.max_grad_norm:
            clip_grad_norm_(self.learner.module.parameters(), recipe.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        if self.average is not None and not self.step % EMA_EVERY:
            self._update_average(self.average)

    def _update_average(self, average: dict[str, Tensor]) -> None:
        decay = min(self.recipe.ema_decay, 1 - 1 / (1 + self.step / 20))
        with torch.no_grad():
            for weight_name, values in self.learner.module.state_dict().items():
                if values.is_floating_point():
                    average[weight_name].lerp_(values, 1 - decay)
                else:
                    average[weight_name].copy_(values)

    def _finite_sums(self) -> dict[str, float]:
        loss_sums = {loss_name: float(loss_sum) for loss_name, loss_sum in self.loss_sums.items()}
        if not all(map(math.isfinite, loss_sums.values())):
            clipping = self.recipe.max_grad_norm or "not clipped"
            raise InputError(
                f"{self.description}: a loss of epoch {self.epoch + 1} is not a number ({loss_sums}); "
                f"lower the learning rate ({self.recipe.lr}) or clip gradients ({clipping})"
            )
        return loss_sums

    def _rng(self, *numbers: int) -> np.random.Generator:
        return np.random.default_rng((self.recipe.seed, *numbers))

    def _seconds_unsaved(self) -> float:
        return time.monotonic() - self._saved_at

    def _copy_weights(self) -> dict[str, Tensor]:
        return {name: values.detach().clone() for name, values in self.learner.module.state_dict().items()}

    def _evaluate(self) -> Mapping[str, float]:
        """Scores of the averaged weights if there are any; leaves torch's random state as it was."""
        module = self.learner.module
        trained_weights = self._copy_weights() if self.average is not None else None
        if self.average is not None:
            module.load_state_dict(self.average)
        module.eval()
        devices = [self.learner.device] if self.learner.device.type == "cuda" else []
        with torch.no_grad(), torch.random.fork_rng(devices=devices):
            scores = self.learner.evaluate()
        if trained_weights is not None:
            module.load_state_dict(trained_weights)
        return scores

    def _update_best(self, entry: Mapping[str, Any]) -> None:
        score_name = self.learner.select
        selection_score = entry["scores"][score_name] if score_name else float(self.epoch)
        if self.best is None or selection_score > self.best["value"]:
            weights = self.average if self.average is not None else self.learner.module.state_dict()
            copied_weights = {weight_name: values.detach().clone() for weight_name, values in weights.items()}
            self.best = {"value": selection_score, "epoch": self.epoch, "weights": copied_weights}

    def _is_finished(self) -> bool:
        patience = self.recipe.patience
        epochs_waited = self.epoch - self.best["epoch"] if self.best else 0
        return self.epoch >= self.recipe.epochs or bool(patience and epochs_waited >= patience)

    def _outcome(self) -> Outcome:
        if self.best is None:
            raise InputError(f"{self.description}: no epoch was trained; expected at least one")
        epoch = self.best["epoch"]
        weights = {weight_name: values.cpu().numpy() for weight_name, values in self.best["weights"].items()}
        return Outcome(weights, epoch, self.history[epoch - 1]["scores"], self.history)

    def _write_metrics(self) -> None:
        outcome = self._outcome()
        metrics = {
            "epoch": outcome.epoch,
            "select": self.learner.select,
            "scores": dict(outcome.scores),
            "epochs": self.epoch,
            "steps": self.step,
            "seconds": round(sum(entry["seconds"] for entry in self.history), 1),
            "recipe": asdict(self.recipe),
        }
        with atomic_file(self.folder / METRICS) as file:
            file.write(json.dumps(metrics, indent=1).encode() + b"\n")

    def _save(self) -> None:
        cuda = self.learner.device.type == "cuda"
        loss_sums = self._finite_sums()
        with atomic_file(self.folder / LOG) as file:
            file.write("".join(json.dumps(entry) + "\n" for entry in self.history).encode())
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
                    "loss_sums": loss_sums,
                    "seconds": self.seconds,
                    "position": [self.step, self.epoch, self.batch],
                },
                file,
            )
        self._saved_at = time.monotonic()

    def _resume(self) -> None:
        path, device = self.folder / STATE, self.learner.device
        if not path.exists():
            return
        try:
            state = torch.load(path, weights_only=True, map_location=device)
        except Exception as error:
            raise InputError(f"{path}: not a training state ({error}); delete it to restart") from error
        saved, current = state["recipe"], asdict(self.recipe)
        more_epochs = state["position"][1] == saved["epochs"] < current["epochs"]
        if saved != current and not (more_epochs and saved | {"epochs": current["epochs"]} == current):
            raise InputError(f"{path} belongs to a run with other settings ({saved}); use these, or another folder")
        try:
            self.learner.module.load_state_dict(state["module"])
        except RuntimeError as error:
            raise InputError(f"{path} belongs to a run on other data; use that data, or another folder") from error
        self._restore(state)

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Takes over all but the module's weights."""
        device = self.learner.device
        self.average, self.best = state["average"], state["best"]
        self.optimizer.load_state_dict(state["optimizer"])
        self.history, self.seconds = state["history"], state["seconds"]
        self.loss_sums = {
            loss_name: torch.tensor(loss_sum, dtype=torch.float64, device=device)
            for loss_name, loss_sum in state["loss_sums"].items()
        }
        self.step, self.epoch, self.batch = state["position"]
        torch.set_rng_state(state["random"].cpu())
        if state["cuda_random"] is not None and device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda_random"].cpu(), device)


def run_with_seeds(
    train: Callable[[int, Path], tuple[Mapping[str, float], float]],
    runs: int,
    seed: int,
    folder: Path,
    *,
    keep_best: bool = True,
) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation (n − 1; 0 for one run) of each score over runs with consecutive seeds.

    One run is made in the folder itself, several in a folder for each seed; the folder then gets the best checkpoint.

    Args:
        train: trains with a seed in a folder; returns the run's scores, and the value by which runs are compared.
        runs: number of runs, 1 or more.
        seed: of the first run.
        folder: of the checkpoint.
        keep_best: whether the best of several runs becomes the folder's checkpoint.
    """
    folders = [folder] if runs == 1 else [folder / f"seed-{seed + run_number}" for run_number in range(runs)]
    run_scores, preferences = zip(
        *(train(seed + run_number, run_folder) for run_number, run_folder in enumerate(folders)), strict=True
    )
    scores = {
        score_name: (
            float(np.mean(values := [each[score_name] for each in run_scores])),
            float(np.std(values, ddof=1)) if runs > 1 else 0.0,
        )
        for score_name in run_scores[0]
    }
    if runs > 1 and keep_best:
        best_folder = folders[int(np.argmax(preferences))]
        Checkpoint.read(best_folder).save(folder)
        log = {"runs": runs, "selected": best_folder.name, "scores": scores}
        write_atomic(folder / METRICS, json.dumps(log, indent=1) + "\n")
    return scores
