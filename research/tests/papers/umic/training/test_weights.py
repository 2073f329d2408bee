"""State dicts of UNITER: names, missing and unexpected weights, refusal of code, conversion, initial weights."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from support.hostile_values import Evil

torch = pytest.importorskip("torch")

from capmeter_research.papers.umic.training.training import ranking_loss  # noqa: E402
from capmeter_research.papers.umic.training.weights import (  # noqa: E402
    check_weights,
    convert_uniter,
    infer_shape,
    initial_weights,
    read_state_dict,
)
from capmeter_research.papers.umic.uniter import UniterShape  # noqa: E402
from capmeter_research.papers.umic.word_piece import SPECIAL  # noqa: E402

from capmeter.core.checkpoints import Checkpoint  # noqa: E402
from capmeter.core.errors import AssetError  # noqa: E402

SHAPE = UniterShape(8, 128, 2, 2, 16, 12, 6)
VOCABULARY = [*SPECIAL, "a", "dog", "runs", "##s"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    torch.save(initial_weights(SHAPE, 0), tmp_path / "umic.pt")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return tmp_path / "umic.pt", tmp_path / "vocab.txt"


def test_conversion_keeps_the_weights(files: tuple[Path, Path], tmp_path: Path) -> None:
    converted = convert_uniter(*files, tmp_path / "umic")
    saved = Checkpoint.read(tmp_path / "umic", "uniter")
    assert saved.sha256 == converted.sha256 and saved.vocabulary == tuple(VOCABULARY)
    assert UniterShape(**saved.parameters["shape"]) == SHAPE
    for name, tensor in initial_weights(SHAPE, 0).items():
        np.testing.assert_array_equal(saved.weights[name], tensor)
    assert (tmp_path / "umic" / "weights.safetensors").is_file()


def test_heads_of_pretraining_are_left_out(tmp_path: Path) -> None:
    weights = initial_weights(SHAPE, 0)
    pretraining = ("cls.predictions.bias", "feat_regress.net.0.weight", "region_classifier.net.3.bias")
    torch.save({**weights, **dict.fromkeys(pretraining, torch.zeros(7))}, tmp_path / "uniter-base.pt")
    read = read_state_dict(tmp_path / "uniter-base.pt")
    assert read.keys() == weights.keys()
    check_weights(read, infer_shape(read))


@pytest.mark.parametrize("prefix", ["module.", ""])
def test_old_names_are_mapped(tmp_path: Path, prefix: str) -> None:
    old = {}
    for name, tensor in initial_weights(SHAPE, 0).items():
        name = name.replace("uniter.", "bert.") if name.startswith("uniter.") else name
        if "LayerNorm" in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        old[prefix + name] = tensor.half()
    torch.save(old, tmp_path / "old.pt")
    weights = read_state_dict(tmp_path / "old.pt")
    assert set(weights) == set(initial_weights(SHAPE, 0))
    assert {each.dtype for each in weights.values()} == {torch.float32}
    check_weights(weights, infer_shape(weights))


def test_the_oracle_state_dict_is_complete(shared: Path) -> None:
    weights = read_state_dict(shared / "oracles" / "umic_state_dict.npz")
    shape = infer_shape(weights, heads=4)
    assert shape == UniterShape(28996, 64, 2, 4, 256, 512, 2048)
    check_weights(weights, shape)


def test_missing_and_unexpected_weights_are_named() -> None:
    weights = initial_weights(SHAPE, 0)
    weights["stray"] = weights.pop("uniter.pooler.dense.bias")
    with pytest.raises(
        AssetError, match=r"1 weights are missing \(uniter.pooler.dense.bias\); 1 are unexpected \(stray\)"
    ):
        check_weights(weights, SHAPE)


def test_another_shape_and_nan_are_named() -> None:
    weights = initial_weights(SHAPE, 0)
    weights["uniter.pooler.dense.bias"] = torch.zeros(3)
    with pytest.raises(AssetError, match=r"uniter.pooler.dense.bias has the shape \[3\], expected \[128\]"):
        check_weights(weights, SHAPE)
    weights["uniter.pooler.dense.bias"] = torch.full((128,), torch.nan)
    with pytest.raises(AssetError, match="NaN"):
        check_weights(weights, SHAPE)


def test_a_state_dict_with_code_is_refused(tmp_path: Path, files: tuple[Path, Path]) -> None:
    for content in (pickle.dumps(Evil(tmp_path / "ran")), pickle.dumps({"a": Evil(tmp_path / "ran")})):
        (tmp_path / "evil.pt").write_bytes(content)
        with pytest.raises(AssetError, match="never loaded"):
            read_state_dict(tmp_path / "evil.pt")
    torch.save({"weights": Evil(tmp_path / "ran")}, tmp_path / "evil.pt")
    with pytest.raises(AssetError, match="never loaded"):
        convert_uniter(tmp_path / "evil.pt", files[1], tmp_path / "out")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()


def test_files_that_are_not_state_dicts(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(AssetError, match="holds list, expected a state dict"):
        read_state_dict(tmp_path / "list.pt")
    with pytest.raises(AssetError, match="no such file"):
        read_state_dict(tmp_path / "absent.pt")
    (tmp_path / "cut.pt").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(AssetError, match="cannot read it as a state dict"):
        read_state_dict(tmp_path / "cut.pt")
    with pytest.raises(AssetError, match="not the weights of a UNITER"):
        infer_shape({"a": torch.zeros(2, 2)})


def test_another_vocabulary(files: tuple[Path, Path], tmp_path: Path) -> None:
    files[1].write_text("\n".join([*VOCABULARY, "cat"]) + "\n")
    with pytest.raises(AssetError, match="the vocabulary has 9 word pieces, but the weights 8"):
        convert_uniter(*files, tmp_path / "out")


def test_heads_from_the_configuration(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"num_attention_heads": 4}')
    converted = convert_uniter(*files, tmp_path / "out", tmp_path / "config.json")
    assert converted.parameters["shape"]["heads"] == 4
    (tmp_path / "config.json").write_text('{"num_attention_heads": 3}')
    with pytest.raises(AssetError, match="cannot be split into 3 heads"):
        convert_uniter(*files, tmp_path / "out", tmp_path / "config.json")


def test_the_ranking_loss_by_hand() -> None:
    loss = ranking_loss(torch.tensor([[0.9, 0.8, 0.1], [0.3, 0.3, 0.6]]), 0.2)
    np.testing.assert_allclose(loss, [[0.1, 0.0], [0.2, 0.5]], atol=1e-6)


def test_the_ranking_loss_equals_the_official_one(shared: Path) -> None:
    outputs = dict(np.load(shared / "oracles" / "umic_outputs.npz"))
    batches = json.loads((shared / "oracles" / "umic_meta.json").read_text())["batches"]
    ranked = [batch for batch in batches if batch["kind"] == "rank"]
    assert ranked
    for batch in ranked:
        scores = torch.from_numpy(outputs[f"b{batch['batch']}_sigmoid"]).view(-1, batch["sample_size"])
        np.testing.assert_allclose(ranking_loss(scores, 0.2), outputs[f"b{batch['batch']}_rank_loss"], atol=1e-5)


def test_initial_weights_follow_the_seed() -> None:
    shape = UniterShape(20, 8, 1, 2, 16, 12, 4)
    one, same, other = (initial_weights(shape, seed) for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["uniter.pooler.dense.weight"], other["uniter.pooler.dense.weight"])
    assert one["uniter.embeddings.LayerNorm.weight"].tolist() == [1.0] * 8
    assert one["uniter.img_embeddings.img_layer_norm.weight"].tolist() == [1.0] * 8
    assert float(one["uniter.pooler.dense.bias"].abs().max()) == 0.0
