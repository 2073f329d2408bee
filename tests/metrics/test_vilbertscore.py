"""ViLBERTScore on a small UNITER, against the formula written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from uniterexamples import drawn_folder, drawn_regions, small_checkpoint

torch = pytest.importorskip("torch")

import capmeter  # noqa: E402
from capmeter.encoders.pairs import load_pair_encoder  # noqa: E402
from capmeter.encoders.uniter import Layout  # noqa: E402
from capmeter.errors import InputError  # noqa: E402
from capmeter.images.regions import BoxRule  # noqa: E402
from capmeter.metrics.registry import parse  # noqa: E402

ROWS = [
    {"image_id": "0", "candidate": "a dog runs", "references": ["a dog runs on the grass", "two cats sleep"]},
    {"image_id": "1", "candidate": "two cats sleep", "references": ["two cats sleep"]},
    {"image_id": "2", "candidate": "", "references": ["a man walks"]},
    {"image_id": "3", "candidate": "a red ball", "references": ["a man walks", "a small dog", "a ball on the grass"]},
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vilbertscore")
    small_checkpoint(folder / "model")
    drawn_folder(folder / "regions")
    return folder


def states(place: Path, sentence: str, image: str) -> np.ndarray:
    encoder = load_pair_encoder(str(place / "model"), capmeter.Settings(device="cpu"))
    regions = drawn_regions(int(image)).chosen(BoxRule())
    ids = encoder.tokenizer.ids([sentence])[0]
    layout = Layout.of(np.array([len(ids)]), np.array([len(regions)]))
    with torch.inference_mode():
        words = encoder.uniter.words(torch.tensor(ids), torch.from_numpy(layout.places))
        seen = encoder.uniter.regions(torch.from_numpy(regions.features), torch.from_numpy(regions.positions))
        found = encoder.uniter.states(words, seen, torch.from_numpy(layout.index), None)[0, : len(ids)].double().numpy()
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def by_hand(place: Path, candidate: str, reference: str, image: str) -> tuple[float, float, float]:
    c, r = states(place, candidate, image), states(place, reference, image)
    similar = c @ r.T
    precision, recall = similar.max(axis=1)[1:-1].mean(), similar.max(axis=0)[1:-1].mean()
    return 2 * precision * recall / (precision + recall), precision, recall


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_values_by_hand(place: Path, pooling: str) -> None:
    name = str(parse(f'vilbertscore(checkpoint="{place / "model"}",pooling={pooling})'))
    scores = capmeter.score(capmeter.load(ROWS, regions=place / "regions"), name)[name]
    for row in ROWS:
        if not row["candidate"]:
            continue
        table = np.array([by_hand(place, row["candidate"], each, row["image_id"]) for each in row["references"]])
        wanted = table.max(axis=0) if pooling == "max" else table.mean(axis=0)
        image = str(row["image_id"])
        found = [scores.items[image]]
        found += [scores.part_items[part][image] for part in ("precision", "recall")]
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert scores.items["1"] == pytest.approx(1.0, abs=1e-6), "the candidate equals its reference"
    assert scores.items["2"] == 0.0 and scores.notes["empty candidate"] == ["2"]
    assert scores.items["0"] < 0.9999, "states of other words differ"


def test_references_are_needed(place: Path) -> None:
    captions = capmeter.load([{"image_id": "0", "candidate": "a"}], on_missing="keep", regions=place / "regions")
    with pytest.raises(InputError, match="have no reference"):
        capmeter.score(captions, f'vilbertscore(checkpoint="{place / "model"}")')
