"""ViLBERTScore on a small UNITER, against the formula written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.uniter_examples import random_region_folder, random_regions, small_checkpoint

torch = pytest.importorskip("torch")

from capmeter_research.common.region_files import BoxRule, box_features  # noqa: E402
from capmeter_research.papers.umic.pairs import load_pair_encoder  # noqa: E402
from capmeter_research.papers.umic.uniter import PairLayout  # noqa: E402

import capmeter  # noqa: E402
from capmeter.core.errors import InputError  # noqa: E402
from capmeter.evaluation.registry import parse  # noqa: E402

ROWS = [
    {"image_id": "0", "candidate": "a dog runs", "references": ["a dog runs on the grass", "two cats sleep"]},
    {"image_id": "1", "candidate": "two cats sleep", "references": ["two cats sleep"]},
    {"image_id": "2", "candidate": "", "references": ["a man walks"]},
    {"image_id": "3", "candidate": "a red ball", "references": ["a man walks", "a small dog", "a ball on the grass"]},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vilbertscore")
    small_checkpoint(folder / "model")
    random_region_folder(folder / "regions")
    return folder


def states(folder: Path, sentence: str, image: str) -> np.ndarray:
    encoder = load_pair_encoder(str(folder / "model"), capmeter.Settings(device="cpu"))
    regions = BoxRule().select(random_regions(int(image)))
    ids = encoder.tokenizer.ids([sentence])[0]
    layout = PairLayout.from_lengths(np.array([len(ids)]), np.array([len(regions)]))
    with torch.inference_mode():
        words = encoder.uniter.words(torch.tensor(ids), torch.from_numpy(layout.places))
        image = encoder.uniter.regions(torch.from_numpy(regions.features), torch.from_numpy(box_features(regions)))
        values = (
            encoder.uniter.states(words, image, torch.from_numpy(layout.index), None)[0, : len(ids)].double().numpy()
        )
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def by_hand(folder: Path, candidate: str, reference: str, image: str) -> tuple[float, float, float]:
    c, r = states(folder, candidate, image), states(folder, reference, image)
    similar = c @ r.T
    precision, recall = similar.max(axis=1)[1:-1].mean(), similar.max(axis=0)[1:-1].mean()
    return 2 * precision * recall / (precision + recall), precision, recall


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_values_by_hand(folder: Path, pooling: str) -> None:
    name = str(parse(f'vilbertscore(checkpoint="{folder / "model"}",pooling={pooling})'))
    scores = capmeter.score(capmeter.load(ROWS, regions=folder / "regions"), name)[name]
    for row in ROWS:
        if not row["candidate"]:
            continue
        table = np.array([by_hand(folder, row["candidate"], each, row["image_id"]) for each in row["references"]])
        expected = table.max(axis=0) if pooling == "max" else table.mean(axis=0)
        image = str(row["image_id"])
        values = [scores.items[image]]
        values += [scores.part_items[part][image] for part in ("precision", "recall")]
        np.testing.assert_allclose(values, expected, atol=1e-5)
    assert scores.items["1"] == pytest.approx(1.0, abs=1e-6), "the candidate equals its reference"
    assert scores.items["2"] == 0.0 and scores.notes["empty candidate"] == ["2"]
    assert scores.items["0"] < 0.9999, "states of other words differ"


def test_references_are_needed(folder: Path) -> None:
    captions = capmeter.load([{"image_id": "0", "candidate": "a"}], on_missing="keep", regions=folder / "regions")
    with pytest.raises(InputError, match="1 caption has no reference"):
        capmeter.score(captions, f'vilbertscore(checkpoint="{folder / "model"}")')
