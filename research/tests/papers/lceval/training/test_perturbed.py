"""Captions with their perturbed forms: what is changed, their references, and the ranking loss that compares them."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from capmeter_research.common.benchmark_exclusions import identify_photo
from capmeter_research.papers.lceval.checkpoint import load_network
from capmeter_research.papers.lceval.features import FEATURES
from capmeter_research.papers.lceval.training.perturbed import FORMS, perturb_captions
from capmeter_research.papers.lceval.training.train import LcEvalOptions, train
from capmeter_research.papers.lceval.training.training import LcEvalRecipe, ranking_loss, train_lceval
from support.lceval_training_set import random_training_set

from capmeter.core.checkpoints import Checkpoint

CAPTIONS = (
    "A brown dog {} in the park.",
    "The dog {} on the grass, near a tree.",
    "There is a dog that {}",
    "A dog {} while two men watch it!",
    "one small dog {} outside",
)
VERBS = ("runs", "sleeps", "jumps", "waits", "plays", "eats")
PHOTOS = {
    identify_photo(f"{1000 + k}.jpg"): tuple(text.format(VERBS[k % len(VERBS)]) for text in CAPTIONS) for k in range(40)
}


def test_forms_follow_their_caption_and_have_its_references() -> None:
    rows = perturb_captions(PHOTOS, list(PHOTOS))
    captions = [rows[k : k + FORMS] for k in range(0, len(rows), FORMS)]
    assert 30 < len(captions) < 40, "held-out photos are left out"
    for original, *forms in captions:
        assert original.human and not original.held_out
        assert [form.system for form in forms] == ["permutation", *(f"substitution-{k}" for k in (1, 2, 3))]
        assert {form.references for form in forms} == {original.references} and len(original.references) == 4
        assert original.candidate.lower() == original.candidate and "." not in original.candidate
        assert all(form.candidate != original.candidate for form in forms)
        assert Counter(forms[0].candidate.split()) == Counter(original.candidate.split())
    first = perturb_captions(PHOTOS, list(PHOTOS)[:3])
    assert first == rows[: len(first)], "the choices depend on the photo alone"


def test_captions_that_cannot_be_perturbed_are_left_out() -> None:
    words = {("coco", "2"): ("dog", "cat", "horse", "bird", "sheep"), ("coco", "3"): ("a dog runs", "two dogs")}
    assert perturb_captions(words, list(words)) == []


def test_the_ranking_loss_by_hand() -> None:
    """Logits 2, 1, 3 of a caption and two forms: the mean of log(1 + e^-1) and log(1 + e)."""
    module = torch.nn.Linear(1, 2, bias=False)
    module.weight = torch.nn.Parameter(torch.tensor([[-0.5], [0.5]]))
    loss = ranking_loss(module, torch.tensor([[[2.0], [1.0], [3.0]]]))
    assert loss.item() == pytest.approx((np.log1p(np.exp(-1)) + np.log1p(np.exp(1))) / 2)
    assert ranking_loss(module, torch.zeros((0, 3, 1))).item() == 0


@pytest.mark.parametrize("restarts", [1, 2])
def test_a_network_learns_to_score_captions_above_their_forms(restarts: int, tmp_path: Path) -> None:
    """Forms differ from captions in one feature alone, of which labels want more and the ranking less."""
    rng = np.random.default_rng(1)
    forms = np.repeat(rng.random((60, 1, len(FEATURES))), FORMS, axis=1)
    forms[:, 1:, 3] += 0.3
    examples = replace(random_training_set(), perturbed=forms)
    shares = {}
    for weight in (0.0, 10.0):
        folder = tmp_path / str(weight)
        recipe = LcEvalRecipe(epochs=60, lr=0.01, hidden=(), restarts=restarts, ranking_weight=weight)
        train_lceval(examples, recipe, folder)
        logits = load_network(str(folder)).network.logit(forms)
        shares[weight] = (logits[:, 1:] < logits[:, :1]).mean()
    assert shares == {0.0: 0, 10.0: 1}


def test_options_of_the_recipe_reach_the_checkpoint(tmp_path: Path) -> None:
    rows = [{"image_id": f"{k}.jpg", "references": captions} for k, captions in enumerate(PHOTOS.values())]
    (tmp_path / "human.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "none.json.gz").write_bytes(gzip.compress(b'{"coco": [], "flickr": []}'))
    options = LcEvalOptions(
        human=[tmp_path / "human.jsonl"],
        exclusions=tmp_path / "none.json.gz",
        output=tmp_path / "out",
        retrieval=12,
        features="rouge-l",
        hidden="0",
        restarts=2,
        ranking_weight=0.25,
        weight_decay=0.125,
    )
    train(options)
    training = Checkpoint.read(tmp_path / "out").training
    inputs = {"restarts": 2, "ranking_weight": 0.25, "weight_decay": 0.125}
    assert {name: training[name] for name in inputs} == inputs
