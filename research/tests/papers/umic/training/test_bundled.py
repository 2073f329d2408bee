"""The bundled UMIC for synthetic scenes: its scores on held-out scenes, and its card."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

import capmeter_research
from capmeter_research.papers.umic.pairs import load_pair_encoder
from capmeter_research.papers.umic.training.evaluation import score_pairs
from capmeter_research.papers.umic.training.examples import scene_examples
from capmeter_research.papers.umic.training.negatives import Negatives
from capmeter_research.papers.umic.training.training import evaluate_umic
from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder
from capmeter_research.synthetic_scenes.scenes import World

from capmeter.core.checkpoints import load_checkpoint
from capmeter.core.settings import Settings

MIN_ACCURACY = {
    "substitution": 95,
    "random": 99,
    "hard": 90,
    "repetition": 99,
    "permutation": 99,
    "swapped picture": 95,
}
CARD = Path(capmeter_research.__file__).parent / "papers/umic/weights/umic-world" / "README.md"


def held_out_accuracy(scenes: int, seed: int) -> dict[str, float]:
    """Pairwise accuracy on held-out scenes, by kind of negative."""
    examples, _ = scene_examples(World(split="test", size=scenes, seed=seed), load_world_encoder())
    return evaluate_umic(load_checkpoint("umic-world", "uniter"), examples, Negatives(), "cpu")


def test_true_captions_score_above_their_negatives() -> None:
    accuracy = held_out_accuracy(24, 5)
    assert not {kind: accuracy[kind] for kind, minimum in MIN_ACCURACY.items() if accuracy[kind] < minimum - 3}


def test_one_pass_gives_the_scores_of_each_head() -> None:
    examples, _ = scene_examples(World(split="test", size=3, seed=5), load_world_encoder())
    encoder = load_pair_encoder("umic-world", Settings())
    texts, heads = (
        [examples.captions.pool[k] for k in examples.captions.candidates.tolist()],
        ("rank_output", "itm_output"),
    )
    both = score_pairs(encoder, texts, examples.picture, examples, heads)
    assert both.shape == (2, len(texts)) and (both[0] != both[1]).all()
    alone = [score_pairs(encoder, texts, examples.picture, examples, [head]) for head in heads]
    assert both.tobytes() == np.concatenate(alone).tobytes()
    assert score_pairs(encoder, [], examples.picture[:0], examples, heads).shape == (2, 0)


@pytest.mark.slow
def test_the_card_states_the_accuracy() -> None:
    accuracy = held_out_accuracy(400, 0)
    assert not {kind: accuracy[kind] for kind, minimum in MIN_ACCURACY.items() if accuracy[kind] < minimum}
    rows = [line.strip("| ").split(" | ") for line in CARD.read_text("utf-8").splitlines() if line.startswith("|")]
    kinds = [name.replace("another picture", "swapped picture") for name in rows[0] if name]
    for head, row in (("", rows[2]), ("umic-c ", rows[3])):
        stated = dict(zip(kinds, map(float, row[1:]), strict=True))
        assert stated == pytest.approx({kind: accuracy[head + kind] for kind in kinds}, abs=0.15)


def test_the_card_names_the_weights() -> None:
    stated = re.search(r"SHA-256 of `weights\.safetensors`:\s+`([0-9a-f]{64})`", CARD.read_text("utf-8"))
    weights = (CARD.parent / "weights.safetensors").read_bytes()
    assert stated is not None and stated.group(1) == hashlib.sha256(weights).hexdigest()
