"""The critic for the made world, which ships: what it says of scenes that it has never seen."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

import capmeter_research
from capmeter_research.papers.leic.training.synthetic_scenes import critic_on_world, write_features
from capmeter_research.synthetic_scenes.evaluation import SWAPPED
from capmeter_research.synthetic_scenes.scenes import World

KINDS = ("colour", "count", "relation", "object", "hallucinated", "disfluency")
CARD = Path(capmeter_research.__file__).parent / "papers/leic/weights/leic-world" / "README.md"


def told(folder: Path, scenes: int, seed: int = 0) -> dict[str, float]:
    world = World(split="test", size=scenes, seed=seed)
    return dict(critic_on_world("leic-world", world, write_features((world,), "world-reader", folder)).found)


def test_true_captions_score_above_wrong_ones(tmp_path: Path) -> None:
    result = told(tmp_path, 60, seed=5)
    assert not {kind: result[kind] for kind in KINDS if result[kind] < 85}
    assert result[SWAPPED] > 90


@pytest.mark.slow
def test_the_card_says_what_the_weights_do(tmp_path: Path) -> None:
    result = told(tmp_path, 1000)
    head, _, said = (line.strip("| ").split(" | ") for line in CARD.read_text("utf-8").splitlines() if line[:1] == "|")
    result["another picture"] = result[SWAPPED]
    assert [float(each) for each in said] == pytest.approx([result[kind] for kind in head], abs=0.15)


def test_the_card_names_the_weights() -> None:
    said = re.search(r"SHA-256 of `weights\.safetensors`:\s+`([0-9a-f]{64})`", CARD.read_text("utf-8"))
    weights = (CARD.parent / "weights.safetensors").read_bytes()
    assert said is not None and said.group(1) == hashlib.sha256(weights).hexdigest()
