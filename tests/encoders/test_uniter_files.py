"""State dicts of UNITER: names mapped, missing and unexpected weights named, code refused, and conversion."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from capmeter.checkpoints import Checkpoint  # noqa: E402
from capmeter.encoders.uniter import UniterShape, initial_weights  # noqa: E402
from capmeter.encoders.uniter_files import check_names, convert_uniter, read_state_dict, shape_of  # noqa: E402
from capmeter.encoders.word_piece import SPECIAL  # noqa: E402
from capmeter.errors import AssetError  # noqa: E402

SHAPE = UniterShape(8, 128, 2, 2, 16, 12, 6)
VOCABULARY = [*SPECIAL, "a", "dog", "runs", "##s"]


class Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    torch.save(initial_weights(SHAPE, 0), tmp_path / "umic.pt")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return tmp_path / "umic.pt", tmp_path / "vocab.txt"


def test_conversion_comes_back(files: tuple[Path, Path], tmp_path: Path) -> None:
    made = convert_uniter(*files, tmp_path / "umic")
    found = Checkpoint.read(tmp_path / "umic", "uniter")
    assert found.sha256 == made.sha256 and found.vocabulary == tuple(VOCABULARY)
    assert UniterShape(**found.parameters["shape"]) == SHAPE
    for name, tensor in initial_weights(SHAPE, 0).items():
        np.testing.assert_array_equal(found.weights[name], tensor)
    assert (tmp_path / "umic" / "weights.safetensors").is_file()


def test_the_pretraining_checkpoint_loads_strictly(tmp_path: Path) -> None:
    weights = {name: torch.zeros(size) for name, size in SHAPE.weights(labels=7).items()}
    weights["itm_output.weight"], weights["itm_output.bias"] = torch.zeros(2, 128), torch.zeros(2)
    torch.save(weights, tmp_path / "uniter-base.pt")
    found = read_state_dict(tmp_path / "uniter-base.pt")
    check_names(found, shape_of(found))


@pytest.mark.parametrize("prefix", ["module.", ""])
def test_old_names_are_mapped(tmp_path: Path, prefix: str) -> None:
    old = {}
    for name, tensor in initial_weights(SHAPE, 0).items():
        name = name.replace("uniter.", "bert.") if name.startswith("uniter.") else name
        if "LayerNorm" in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        old[prefix + name] = tensor.half()
    torch.save(old, tmp_path / "old.pt")
    found = read_state_dict(tmp_path / "old.pt")
    assert set(found) == set(initial_weights(SHAPE, 0))
    assert {each.dtype for each in found.values()} == {torch.float32}
    check_names(found, shape_of(found))


def test_the_oracle_state_dict_is_complete(shared: Path) -> None:
    weights = read_state_dict(shared / "oracles" / "umic_state_dict.npz")
    shape = shape_of(weights, heads=4)
    assert shape == UniterShape(28996, 64, 2, 4, 256, 512, 2048)
    check_names(weights, shape)


def test_missing_and_unexpected_weights_are_named() -> None:
    weights = initial_weights(SHAPE, 0)
    weights["stray"] = weights.pop("uniter.pooler.dense.bias")
    with pytest.raises(
        AssetError, match=r"1 weights are missing \(uniter.pooler.dense.bias\); 1 are unexpected \(stray\)"
    ):
        check_names(weights, SHAPE)


def test_another_shape_and_nan_are_named() -> None:
    weights = initial_weights(SHAPE, 0)
    weights["uniter.pooler.dense.bias"] = torch.zeros(3)
    with pytest.raises(AssetError, match=r"uniter.pooler.dense.bias has the shape \[3\], expected \[128\]"):
        check_names(weights, SHAPE)
    weights["uniter.pooler.dense.bias"] = torch.full((128,), torch.nan)
    with pytest.raises(AssetError, match="NaN"):
        check_names(weights, SHAPE)


def test_a_state_dict_with_code_is_a_sentence(tmp_path: Path, files: tuple[Path, Path]) -> None:
    for content in (pickle.dumps(Evil(tmp_path / "ran")), pickle.dumps({"a": Evil(tmp_path / "ran")})):
        (tmp_path / "evil.pt").write_bytes(content)
        with pytest.raises(AssetError, match="never loaded"):
            read_state_dict(tmp_path / "evil.pt")
    torch.save({"weights": Evil(tmp_path / "ran")}, tmp_path / "evil.pt")
    with pytest.raises(AssetError, match="never loaded"):
        convert_uniter(tmp_path / "evil.pt", files[1], tmp_path / "out")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()


def test_what_is_no_state_dict(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(AssetError, match="holds list, expected a state dict"):
        read_state_dict(tmp_path / "list.pt")
    with pytest.raises(AssetError, match="there is no such file"):
        read_state_dict(tmp_path / "absent.pt")
    (tmp_path / "cut.pt").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(AssetError, match="cannot read it as a state dict"):
        read_state_dict(tmp_path / "cut.pt")
    with pytest.raises(AssetError, match="not the weights of a UNITER"):
        shape_of({"a": torch.zeros(2, 2)})


def test_another_vocabulary(files: tuple[Path, Path], tmp_path: Path) -> None:
    files[1].write_text("\n".join([*VOCABULARY, "cat"]) + "\n")
    with pytest.raises(AssetError, match="the vocabulary has 9 word pieces, but the weights 8"):
        convert_uniter(*files, tmp_path / "out")


def test_heads_from_the_configuration(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"num_attention_heads": 4}')
    made = convert_uniter(*files, tmp_path / "out", tmp_path / "config.json")
    assert made.parameters["shape"]["heads"] == 4
    (tmp_path / "config.json").write_text('{"num_attention_heads": 3}')
    with pytest.raises(AssetError, match="cannot be split into 3 heads"):
        convert_uniter(*files, tmp_path / "out", tmp_path / "config.json")
