"""Checks of a training state that was read from a file: its values are those that a run saves."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

_TOO_MANY_STEPS = 2**53  # up to which a float tells whole numbers apart


def check_state(state: Any, select: str) -> None:
    """Checks the values that are not tensors.

    Args:
        state: what was read.
        select: the score whose maximum selects an epoch; empty: none.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: a value is missing, or of another type.
    """
    position, history, best = state["position"], state["history"], state["best"]
    if len(position) != 3 or any(type(each) is not int or not 0 <= each < _TOO_MANY_STEPS for each in position):
        raise ValueError(f"its position is {position!r}")
    epoch = position[1]
    if len(history) != epoch or (best is None) != (not epoch):
        raise ValueError(f"it has the history of {len(history)} epochs of {epoch}")
    json.dumps(history)  # which goes into the log
    checked_numbers = [state["seconds"], *state["loss_sums"].values()]
    for epoch_number, entry in enumerate(history, start=1):
        if (entry["epoch"], type(entry["step"])) != (epoch_number, int) or (select and select not in entry["scores"]):
            raise ValueError(f"its history is not that of epoch {epoch_number}")
        checked_numbers += [entry["seconds"], *entry["losses"].values()]
        if not all(isinstance(each, int | float) for each in entry["scores"].values()):
            raise TypeError("a score is not a number")
    if best is not None:
        checked_numbers.append(best["value"])
        if type(best["epoch"]) is not int or not 1 <= best["epoch"] <= epoch:
            raise ValueError(f"its best epoch is {best['epoch']!r} of {epoch}")
    if not all(type(each) in (int, float) and math.isfinite(each) for each in checked_numbers):
        raise ValueError("a loss, score or time is not a finite number")
    if not all(isinstance(loss_name, str) for loss_name in state["loss_sums"]):
        raise TypeError("the name of a loss is not text")


def check_same_sizes(weights: Mapping[str, Tensor], other: Mapping[str, Tensor] | None) -> None:
    """Checks that other weights, where there are any, have the names, shapes and types of these.

    Raises:
        ValueError, AttributeError: they have others.
    """
    if other is None:
        return
    if list(other) != list(weights):
        raise ValueError("the weights have other names")
    for weight_name, weight in weights.items():
        if other[weight_name].shape != weight.shape or other[weight_name].dtype != weight.dtype:
            raise ValueError(f"weight {weight_name}: expected {weight.dtype} {list(weight.shape)}")


def check_optimizer(optimizer: Optimizer, groups: Sequence[Mapping[str, Any]], steps: int) -> None:
    """Checks a restored optimiser: its settings are the recipe's, and every moment fits its parameter.

    Args:
        optimizer: with the restored state.
        groups: the settings of each parameter group, as the recipe makes them.
        steps: of the run so far.

    Raises:
        ValueError, TypeError, AttributeError: a setting, a count of steps or a moment is another.
    """
    for parameter_group, expected_settings in zip(optimizer.param_groups, groups, strict=True):
        if any(parameter_group[setting_name] != setting for setting_name, setting in expected_settings.items()):
            raise ValueError(f"the optimiser's settings are not {expected_settings}")
    needed = {"step", "exp_avg", "exp_avg_sq"} if "betas" in optimizer.defaults else set[str]()
    for parameter, moments in optimizer.state.items():
        if needed - set(moments) or any(each.ndim and each.shape != parameter.shape for each in moments.values()):
            raise ValueError("a moment of the optimiser is missing, or has another shape than its weight")
        if "step" in needed and not 1 <= float(moments["step"]) <= steps:
            raise ValueError(f"the optimiser has taken {float(moments['step'])} steps of {steps}")
