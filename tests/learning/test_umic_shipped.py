"""UMIC for the made world, which ships: what it says of captions of scenes that it has never seen."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

import capmeter
from capmeter.checkpoints import load_checkpoint
from capmeter.encoders.world.encoder import load_world_encoder
from capmeter.learning.umic.examples import world_examples
from capmeter.learning.umic.run import evaluate_umic
from capmeter.learning.world import World
from capmeter.transforms.negatives import Negatives

LEAST = {"substitution": 95, "random": 99, "hard": 90, "repetition": 99, "permutation": 99, "swapped picture": 95}
CARD = Path(capmeter.__file__).parent / "weights" / "umic-world" / "README.md"


def told(pictures: int, seed: int) -> dict[str, float]:
    """In what share of cases, of captions of so many held-out pictures, the true caption scores above its negative."""
    examples, _ = world_examples(World(split="test", size=pictures, seed=seed), load_world_encoder())
    return evaluate_umic(load_checkpoint("umic-world", "uniter"), examples, Negatives(), "cpu")


def test_true_captions_score_above_their_negatives() -> None:
    found = told(24, 5)
    assert not {kind: found[kind] for kind, least in LEAST.items() if found[kind] < least - 3}


@pytest.mark.slow
def test_the_card_says_what_the_weights_do() -> None:
    found = told(400, 0)
    assert not {kind: found[kind] for kind, least in LEAST.items() if found[kind] < least}
    rows = [line.strip("| ").split(" | ") for line in CARD.read_text("utf-8").splitlines() if line.startswith("|")]
    kinds = [name.replace("another picture", "swapped picture") for name in rows[0] if name]
    for head, row in (("", rows[2]), ("umic-c ", rows[3])):
        said = dict(zip(kinds, map(float, row[1:]), strict=True))
        assert said == pytest.approx({kind: found[head + kind] for kind in kinds}, abs=0.15)


def test_the_card_names_the_weights() -> None:
    said = re.search(r"SHA-256 of `weights\.safetensors`:\s+`([0-9a-f]{64})`", CARD.read_text("utf-8"))
    weights = (CARD.parent / "weights.safetensors").read_bytes()
    assert said is not None and said.group(1) == hashlib.sha256(weights).hexdigest()
