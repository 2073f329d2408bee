"""UNITER against the official code's outputs (sequence output, pooled, rank scores, sigmoids, ranking loss)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.uniter_examples import small_checkpoint

from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError
from capmeter.core.settings import Settings

torch = pytest.importorskip("torch")

from capmeter_research.papers.umic.pairs import load_pair_encoder  # noqa: E402
from capmeter_research.papers.umic.uniter import PairLayout, Uniter, UniterShape  # noqa: E402

SHAPE = UniterShape(28996, 64, 2, 4, 256, 512, 2048)


@pytest.fixture(scope="module")
def oracle(shared: Path) -> tuple[Uniter, dict, dict, list]:
    folder = shared / "oracles"
    weights = {
        name: torch.from_numpy(array.astype(np.float32))
        for name, array in np.load(folder / "umic_state_dict.npz").items()
    }
    batches = json.loads((folder / "umic_meta.json").read_text())["batches"]
    return (
        Uniter(weights, SHAPE),
        dict(np.load(folder / "umic_inputs.npz")),
        dict(np.load(folder / "umic_outputs.npz")),
        batches,
    )


def run(model: Uniter, ids: list, features: list, boxes: list, *, padding: int = 0) -> np.ndarray:
    """The states of pairs; `padding`: as many more regions of zeros that are masked."""
    words, regions = np.array([len(each) for each in ids]), np.array([len(each) for each in features])
    layout = PairLayout.from_lengths(words, regions)
    index, mask = torch.from_numpy(layout.index), None if layout.mask is None else torch.from_numpy(layout.mask)
    if padding:
        mask = torch.ones(index.shape, dtype=torch.bool) if mask is None else mask
        index = torch.nn.functional.pad(index, (0, padding))
        mask = torch.nn.functional.pad(mask, (0, padding))
    with torch.inference_mode():
        embedded = model.words(torch.from_numpy(np.concatenate(ids)), torch.from_numpy(layout.places))
        visits = model.regions(torch.from_numpy(np.concatenate(features)), torch.from_numpy(np.concatenate(boxes)))
        return model.states(embedded, visits, index, mask)


def pairs(inputs: dict, batch: dict) -> tuple[list, list, list]:
    at = f"b{batch['batch']}_"
    ids = [row[:n] for row, n in zip(inputs[at + "input_ids"], batch["txt_lens"], strict=True)]
    features = [row[:n].astype(np.float32) for row, n in zip(inputs[at + "img_feat"], batch["num_bbs"], strict=True)]
    boxes = [row[:n] for row, n in zip(inputs[at + "img_pos_feat"], batch["num_bbs"], strict=True)]
    return ids, features, boxes


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("padding", [0, 5, 64])
def test_batches_equal_the_official_outputs(oracle: tuple, number: int, padding: int) -> None:
    model, inputs, outputs, batches = oracle
    batch, at = batches[number], f"b{number}_"
    states = run(model, *pairs(inputs, batch), padding=padding)
    for row, (words, regions) in enumerate(zip(batch["txt_lens"], batch["num_bbs"], strict=True)):
        real = words + regions
        np.testing.assert_allclose(states[row, :real], outputs[at + "sequence_output"][row, :real], atol=1e-5)
    pooled = model.pooled(states)
    scores = model.head(pooled, "rank_output")
    np.testing.assert_allclose(pooled, outputs[at + "pooled"], atol=1e-5)
    np.testing.assert_allclose(scores, outputs[at + "rank_scores"], atol=1e-5)
    np.testing.assert_allclose(scores.sigmoid(), outputs[at + "sigmoid"], atol=1e-5)


@pytest.mark.parametrize("number", range(8))
def test_single_pairs_equal_the_official_batches(oracle: tuple, number: int) -> None:
    model, inputs, outputs, batches = oracle
    for row, (ids, features, boxes) in enumerate(zip(*pairs(inputs, batches[number]), strict=True)):
        states = run(model, [ids], [features], [boxes])
        target = outputs[f"b{number}_sequence_output"][row, : states.shape[1]]
        np.testing.assert_allclose(states[0], target, atol=1e-5)
        np.testing.assert_allclose(model.pooled(states)[0], outputs[f"b{number}_pooled"][row], atol=1e-5)


def test_layout_by_hand() -> None:
    layout = PairLayout.from_lengths(np.array([2, 1]), np.array([1, 3]))
    assert layout.index.tolist() == [[0, 1, 3, 0], [2, 4, 5, 6]]
    assert layout.mask is not None and layout.mask.tolist() == [[True, True, True, False], [True] * 4]
    assert layout.places.tolist() == [0, 1, 0]
    shared = PairLayout.from_lengths(
        np.array([2, 2]), np.array([1, 1]), np.array([0, 0])
    )  # two captions of one picture
    assert shared.index.tolist() == [[0, 1, 4], [2, 3, 4]] and shared.mask is None


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"layers": 10**9}, "layers: expected a whole number from 0 to"),
        ({"width": 2.5}, "width: expected a whole number"),
        ({"features": 13}, r"img_linear.weight: expected the shape \[16, 13\], but got \[16, 12\]"),
        ({"heads": 3}, "do not fit"),
    ],
)
def test_a_checkpoint_of_another_shape_is_refused(tmp_path: Path, shape: dict[str, Any], message: str) -> None:
    good = Checkpoint.read(small_checkpoint(tmp_path))
    parameters = {**good.parameters, "shape": {**good.parameters["shape"], **shape}}
    replace(good, parameters=parameters).save(tmp_path)
    with pytest.raises(AssetError, match=message):
        load_pair_encoder(str(tmp_path), Settings(device="cpu"))


def test_more_word_pieces_than_embeddings_are_refused(tmp_path: Path) -> None:
    good = Checkpoint.read(small_checkpoint(tmp_path))
    replace(good, vocabulary=(*good.vocabulary, "zebra")).save(tmp_path)
    with pytest.raises(AssetError, match=r"57 word pieces and UniterShape.* do not fit"):
        load_pair_encoder(str(tmp_path), Settings(device="cpu"))
