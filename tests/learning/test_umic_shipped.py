"""UMIC for the made world, which ships: what it says of captions of scenes that it has never seen."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

from capmeter.checkpoints import load_checkpoint
from capmeter.encoders.world.encoder import load_world_encoder
from capmeter.learning.umic.examples import world_examples
from capmeter.learning.umic.run import evaluate_umic
from capmeter.learning.world import World
from capmeter.transforms.negatives import Negatives


def test_true_captions_score_above_their_negatives() -> None:
    examples, _ = world_examples(World(split="test", size=24, seed=5), load_world_encoder())
    told = evaluate_umic(load_checkpoint("umic-world", "uniter"), examples, Negatives(), "cpu")
    assert told["substitution"] > 88 and told["random"] > 97 and told["permutation"] > 95
    assert told["hard"] > 88 and told["swapped picture"] > 95
    assert np.mean([told["repetition"], told["removal"]]) > 75
