"""Where assets are found, what their content is, and checkpoints by name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from capmeter.core import assets
from capmeter.core.assets import ASSETS, checkpoint_folders, find_checkpoint, sha256, state
from capmeter.core.settings import cache_folder, data_folder


def test_every_asset_says_what_it_is() -> None:
    for name, asset in ASSETS.items():
        assert name == asset.name
        assert asset.kind in ("encoder", "joint encoder", "tables", "program", "projection")
        assert asset.licence and asset.get.split()[0] in ("pip", "hf", "download", "capmeter")
        assert asset.package or asset.hub or asset.get.startswith("download")


def test_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = replace(ASSETS["meteor"], package=(), files=("one", "two"), environment="TABLES")
    monkeypatch.delenv("TABLES", raising=False)
    assert state(tables).state == "missing"
    monkeypatch.setenv("TABLES", str(tmp_path))
    (tmp_path / "one").write_bytes(b"1")
    assert (state(tables).state, state(tables).path) == ("incomplete", tmp_path)
    (tmp_path / "two").write_bytes(b"2")
    result = state(tables)
    assert (result.state, result.sha256) == ("ready", hashlib.sha256(b"12").hexdigest())
    assert state(replace(tables, sha256=result.sha256)).state == "ready"
    assert state(replace(tables, sha256="0" * 64)).state == "changed"


def test_an_encoder_with_a_damaged_list_of_shards_is_incomplete(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"x": "absent.safetensors"}}')
    encoder = replace(ASSETS["bert"], environment="ENCODER")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENCODER", str(tmp_path))
        assert state(encoder).state == "incomplete"
        (tmp_path / "model.safetensors.index.json").write_text("[")
        assert state(encoder).state == "incomplete"


def test_a_changed_file_is_hashed_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    before = sha256(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"other")
    assert sha256(tmp_path / "a") == hashlib.sha256(b"other").hexdigest() != before


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "c"))
    monkeypatch.setenv("CAPMETER_DATA", "~/d")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("word-vectors", "x.index") == tmp_path / "c" / "word-vectors" / "x.index"
    assert data_folder() == tmp_path / "d"
    monkeypatch.delenv("CAPMETER_CACHE")
    assert cache_folder().name == "capmeter" and cache_folder() != data_folder()


def test_checkpoints_by_name_and_by_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped, local = tmp_path / "shipped", tmp_path / "own"
    monkeypatch.setattr(assets, "_weight_folders", lambda: (shipped, local))
    for folder in (shipped / "parser", local / "parser", local / "mine", local / "empty"):
        folder.mkdir(parents=True)
        if folder.name != "empty":
            (folder / "checkpoint.json").write_text(json.dumps({}))
    assert find_checkpoint("parser") == shipped / "parser"
    assert find_checkpoint("mine") == local / "mine"
    assert find_checkpoint(str(local / "parser")) == local / "parser"
    assert all(find_checkpoint(name) is None for name in ("empty", "", " ", "none", "../own/mine", "a\0b"))
    assert list(checkpoint_folders()) == [shipped / "parser", local / "mine"]
