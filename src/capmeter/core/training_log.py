"""The course of training, as a run writes it down: `log.jsonl`, a line per epoch; `metrics.json` when it has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.core.errors import InputError

LOG, METRICS = "log.jsonl", "metrics.json"


@dataclass(frozen=True)
class TrainingLog:
    """One run.

    folder: where it lies. history: the lines of its log, `epoch`, `losses` and `scores` (by name) among them. epoch:
    the one whose weights were taken; None while the run goes on.
    """

    folder: Path
    history: tuple[Mapping[str, Any], ...]
    epoch: int | None = None


def read_courses(folder: Path) -> tuple[TrainingLog, ...]:
    """The runs in a folder that `capmeter train` wrote, those of its subfolders included; training without epochs
    (`--restarts`) has none.

    Raises:
        InputError: something else in a log.
    """
    return tuple(_course(log_path) for log_path in sorted(folder.rglob(LOG)))


def _course(log_path: Path) -> TrainingLog:
    history = []
    for line_number, line in enumerate(log_path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            epoch_row = json.loads(line)
            {"epoch": int(epoch_row["epoch"]), **_numbers(epoch_row["losses"]), **_numbers(epoch_row["scores"])}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"{log_path}, line {line_number}: expected an epoch with its losses and scores ({type(error).__name__})"
            ) from None
        history.append(epoch_row)
    try:
        epoch = int(json.loads((log_path.parent / METRICS).read_text(encoding="utf-8"))["epoch"])
    except (OSError, ValueError, TypeError, KeyError):  # not ended yet, or the mean of several runs
        epoch = None
    return TrainingLog(log_path.parent, tuple(history), epoch)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}
