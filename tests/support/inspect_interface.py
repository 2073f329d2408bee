"""The part of Inspect's documented interface that the adapter uses, for machines without Inspect.

A decorator keeps what it was given in attributes of the function, as Inspect's registry does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest


@dataclass
class Score:
    """The value of a sample, the answer, and details."""

    value: Any
    answer: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass
class SampleScore:
    """A score with the id of its sample."""

    score: Score
    sample_id: str | int | None = None


class Target(Sequence[str]):
    """The targets of a sample."""

    def __init__(self, target: str | Sequence[str]) -> None:
        self.target = [target] if isinstance(target, str) else list(target)

    def __getitem__(self, index: Any) -> Any:
        return self.target[index]

    def __len__(self) -> int:
        return len(self.target)


def metric(*, scores: str) -> Callable[[Any], Any]:
    """`@metric(scores=…)`."""
    assert scores in ("auto", "reduced", "unreduced")
    return lambda function: function


def scorer(metrics: Sequence[Any]) -> Callable[[Any], Any]:
    """`@scorer(metrics=[…])`."""

    def decorate(function: Any) -> Any:
        function.metrics = list(metrics)
        return function

    return decorate


def install(patch: pytest.MonkeyPatch) -> None:
    """Makes `inspect_ai.scorer` and `inspect_ai.solver` importable."""
    package, scorers, solvers = (ModuleType(name) for name in ("inspect_ai", "inspect_ai.scorer", "inspect_ai.solver"))
    for value in (Score, SampleScore, Target, metric, scorer):
        setattr(scorers, value.__name__, value)
    for name in ("Metric", "Scorer", "Value"):
        setattr(scorers, name, object)
    solvers.TaskState = object  # type: ignore[attr-defined]
    for module in (package, scorers, solvers):
        patch.setitem(sys.modules, module.__name__, module)
    patch.delitem(sys.modules, "capmeter.integrations.inspect_ai", raising=False)
