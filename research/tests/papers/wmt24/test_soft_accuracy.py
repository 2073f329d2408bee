"""Soft pairwise accuracy and calibrated ties: a case by hand, values of the released program, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.wmt24.soft_accuracy import pairwise_accuracy, soft_pairwise_accuracy, superiority_p_values

HUMAN = np.array([[4, 5, 3, 4, 2, 5], [3, 5, 2, 4, 2, 4], [1, 2, 3, 1, 2, 2], [1, 2, 2, 1, 3, 2.0]])
SCORES = np.array(
    [
        [0.7, 0.9, 0.5, 0.5, 0.25, 0.75],
        [0.5, 0.875, 0.25, 0.75, 0.25, 0.5],
        [0.25, 0.5, 0.5, 0.25, 0.25, 0.125],
        [0.5, 0.25, 0.25, 0.125, 0.5, 0.5],
    ]
)


def test_values_of_the_released_program() -> None:
    """mt-metrics-eval's pce.py, with its seed, on these tables."""
    assert superiority_p_values(HUMAN).tolist() == [0.124, 0.068, 0.052, 0.068, 0.068, 0.749]
    assert superiority_p_values(SCORES).tolist() == [0.224, 0.068, 0.077, 0.095, 0.243, 0.723]
    assert soft_pairwise_accuracy(HUMAN, SCORES) == pytest.approx(0.9411666666666667, abs=1e-15)


def test_a_case_by_hand() -> None:
    """p of the ratings is 1/8, and that of the scores 2/8, where all eight permutations are equally often."""
    human, scores = np.array([[2.0, 2, 2], [1, 1, 1]]), np.array([[1.0, 0, 1], [0, 0, 0]])
    p_values = [superiority_p_values(table, 200_000)[0] for table in (human, scores)]
    assert p_values == pytest.approx([1 / 8, 2 / 8], abs=0.003)
    assert soft_pairwise_accuracy(human, scores, 200_000) == pytest.approx(0.875, abs=0.005)


def test_pairwise_accuracy_counts_ties_of_one_side_as_wrong() -> None:
    human = np.array([[1.0, 1], [2, 2], [2, 2]])
    assert pairwise_accuracy(human, human) == 1
    assert pairwise_accuracy(human, np.array([[1.0, 1], [2, 2], [3, 3]])) == pytest.approx(2 / 3)
    assert pairwise_accuracy(human, human[[1, 0, 2]]) == 0


def test_the_command(run, tmp_path: Path) -> None:
    """Ratings fall with the words in common with the reference, so that ROUGE-L has their order."""
    texts = ["a dog runs on the grass", "a dog runs on sand", "a dog sleeps"]
    rows = [
        {"image_id": str(image), "system": f"s{k}", "candidate": texts[k], "references": [texts[0]], "human": [5 - k]}
        for k in range(3)
        for image in range(8)
    ]
    rows += [{**rows[0], "image_id": "rated by one", "human": [4, 5]}, {**rows[8], "image_id": "unrated", "human": []}]
    (tmp_path / "rated.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, out, err = run("study", "wmt24", str(tmp_path / "rated.jsonl"), "-m", "rouge-l,repetition", "-f", "json")
    assert code == 0, err
    part = json.loads(out)
    assert part["title"] == "rankings of 3 systems by 8 captions of each"
    assert part["rows"][0] == {
        "name": "rouge-l",
        "found": {"spa": 1.0, "pairwise": 1.0, "acc-eq": 1.0, "epsilon": 0.0},
        "published": {},
    }
    (tmp_path / "one.jsonl").write_text("\n".join(json.dumps(row) for row in rows[:8]))
    code, _, err = run("study", "wmt24", str(tmp_path / "one.jsonl"), "-m", "rouge-l")
    assert code == 1 and "rated captions of two systems at least" in err
