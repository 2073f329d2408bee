"""Hostile training states: values of a saved state are replaced, or its bytes changed, and the run is resumed.

    python research/tests/common/hostile_states.py --inputs 3000 --seed 1

A state is refused with an `InputError`, or training goes on to a finite loss.
"""

from __future__ import annotations

import copy
import random
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from capmeter_research.common.loop import STATE, Learner, Run, set_seed
from capmeter_research.common.recipe import Recipe

from capmeter.core.errors import CapmeterError

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
from support.hostile_values import Found, hostile, main, mutated

RECIPE = Recipe(epochs=4, lr=0.05, ema_decay=0.9, max_grad_norm=5.0)


class Mean(Learner[int]):
    """Fits one number."""

    select = "fit"

    def __init__(self) -> None:
        set_seed(0)
        self.module = torch.nn.Linear(1, 1)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[int]:
        return range(8)

    def losses(self, batch: int, rng: np.random.Generator) -> Mapping[str, Any]:
        return {"square": (self.module(torch.ones(1, 1)) - 2).square().mean()}

    def evaluate(self) -> Mapping[str, float]:
        return {"fit": -float((self.module(torch.ones(1, 1)) - 2).square())}


def check(folder: Path, saved: Any, packed: bytes, sample: random.Random) -> str:
    """Damages a state and resumes from it; says how that ended."""
    state = folder / STATE
    if sample.random() < 0.3:
        state.write_bytes(mutated(packed, sample))
    else:
        damaged = copy.deepcopy(saved)
        for _ in range(sample.choice((1, 1, 2))):
            damaged = hostile(damaged, sample)
        try:
            torch.save(damaged, state)
        except Exception:  # noqa: BLE001  nothing that a file can hold
            return "not saved"
    try:
        outcome = Run(Mean(), RECIPE, folder, description="a number").train(epochs=1)
    except CapmeterError as error:
        assert str(error).strip(), "an error without a sentence"
        return "refused"
    assert all(np.isfinite(each).all() for each in outcome.weights.values()), "weights that are not finite"
    return "resumed"


def fuzz(count: int, seed: int) -> Found:
    """Runs so many inputs."""
    sample, result = random.Random(seed), Found()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        Run(Mean(), RECIPE, folder, description="a number").train(epochs=2)
        packed = (folder / STATE).read_bytes()
        saved = torch.load(folder / STATE, weights_only=True)
        for _ in range(count):
            result.add(
                "state", lambda: check(folder, saved, packed, sample), lambda: (folder / STATE).read_bytes()[-200:]
            )
    return result


if __name__ == "__main__":
    sys.exit(main(fuzz, __doc__, 5000))
