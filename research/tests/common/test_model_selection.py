"""Model selection on judgments: ratings correlated by Kendall's τ, or an error before training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.common.model_selection import (
    describe_judgments,
    kendall_tau,
    load_selection_judgments,
    require_kendall,
)
from capmeter_research.papers.lceval.features import Features
from capmeter_research.papers.lceval.training.training_set import build_training_set

from capmeter.core.errors import InputError
from capmeter.judgments.prepared import Points

UNCHECKED = "flickr8k-cf:clipscore2021(expect=none)"


@pytest.fixture
def judgments(tmp_path: Path) -> Points:
    rows = [
        {
            "image_id": f"{k}.jpg",
            "candidate": f"a dog {k}",
            "references": ["a dog runs", "the dog"],
            "human": [k % 2, 1, 0],
            "candidate_id": f"9{k}.jpg#1",
        }
        for k in range(6)
    ]
    path = tmp_path / "cf.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return load_selection_judgments(UNCHECKED, path)


def test_another_coefficient_cannot_select(judgments: Points) -> None:
    require_kendall(judgments)
    other = replace(judgments, protocol=replace(judgments.protocol, statistic="pearson"))
    with pytest.raises(InputError, match="flickr8k-cf under clipscore2021 cannot select: expected ratings and one of"):
        require_kendall(other)
    with pytest.raises(InputError, match="cannot select"):
        build_training_set([], other, Features())


def test_the_error_comes_before_training(judgments: Points, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    from capmeter_research.networks.own_metric.recipe import CapmeterRecipe, TaggerRecipe
    from capmeter_research.networks.own_metric.run import train_capmeter

    other = replace(judgments, protocol=replace(judgments.protocol, statistic="pearson"))
    nothing: object = None
    with pytest.raises(InputError, match="cannot select"):
        train_capmeter(nothing, CapmeterRecipe(), TaggerRecipe(), tmp_path, data=(), judgments=other)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_pairs_cannot_select(tmp_path: Path) -> None:
    pair = {
        "image_id": "1.jpg",
        "category": "HI",
        "candidate_a": "a dog",
        "candidate_b": "a cat",
        "references": ["a dog runs"],
        "human": [1, 1, -1],
        "consensus_winner": "a",
    }
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(pair))
    with pytest.raises(InputError, match="has no ratings of captions, so it cannot select; flickr8k-cf has"):
        load_selection_judgments("pascal50s:pascal-consensus(expect=none)", path)


def test_tau_by_hand(judgments: Points) -> None:
    assert kendall_tau("tau-b", np.array([1.0, 2.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0, 2.0])) == pytest.approx(4 / 5)
    assert kendall_tau("tau-c", np.ones(3), np.array([0.0, 1.0, 2.0])) == 0.0
    assert describe_judgments(judgments).endswith("6 judgments")
