"""What capmeter needs besides its code: encoders, METEOR's tables, word vectors, trained checkpoints.

An asset has a name, places where it may be on this machine, the SHA-256 of its content, a licence, and the command
that fetches it. Nothing here downloads anything, and nothing here needs torch.

>>> ASSETS["minilm"].licence
'Apache-2.0'
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from capmeter.core.errors import InputError
from capmeter.core.json_text import read_bundled_json
from capmeter.core.settings import data_folder, home_path

WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
CHECKPOINT = "checkpoint.json"
_CONFIG = "config.json"
_CHUNK = 1 << 22
BUNDLED_WEIGHTS = Path(__file__).resolve().parents[1] / "data" / "weights"


@dataclass(frozen=True)
class Asset:
    """A third-party resource that capmeter reads.

    kind: encoder, joint encoder (of pictures and sentences), tables, program or projection. get: the command that
    fetches it. sha256: of its content; "" where any version will do. package: a pip package that contains it, and the
    folder in that package. hub: its ids on the Hugging Face hub, which moved some into organisations: a cache filled
    under either id will do. files: the files that are hashed (for an encoder, its weights). environment: an environment
    variable that names its folder and takes precedence over the other places: the asset folder (`asset_folder`), the
    package, the hub.
    """

    name: str
    kind: str
    licence: str
    get: str
    sha256: str = ""
    package: tuple[str, ...] = ()
    hub: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    environment: str = ""

    def find(self) -> Path | None:
        """The asset's folder on this machine, or None."""
        if self.environment and (named_folder := os.environ.get(self.environment)):
            return Path(named_folder)
        required_file = self.files[0] if self.files else _CONFIG
        folder_in_package = package_folder(*self.package) if self.package else None
        for folder in (asset_folder(self.name), folder_in_package):
            if folder is not None and (folder / required_file).is_file():
                return folder
        return next((folder for hub_id in self.hub if (folder := hub_folder(hub_id)) is not None), None)

    def content(self, folder: Path) -> tuple[Path, ...]:
        """The files in a folder that are hashed; empty if the folder has none of them."""
        if not self.files:
            return weight_files(folder)
        return tuple(folder / file_name for file_name in self.files if (folder / file_name).is_file())


@dataclass(frozen=True)
class _AssetState:
    """An asset on this machine. state: `ready`, `missing`, `incomplete` or `changed` (the hash does not match)."""

    asset: Asset
    state: str
    path: Path | None = None
    sha256: str = ""


def _read_asset(name: str, fields: dict[str, Any]) -> Asset:
    """An entry of `data/assets.json`."""
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    return Asset(name, **values)


ASSETS = {name: _read_asset(name, fields) for name, fields in read_bundled_json("assets.json").items()}


@functools.cache
def find_added_assets() -> tuple[dict[str, Asset], dict[str, str]]:
    """The assets that installed packages add, by name, and why those of an entry point cannot be used, by its name.

    A package adds assets through the entry point group `capmeter.assets`, whose values are several `Asset` values
    ("module:ASSETS"), or a function that returns them. capmeter's own names cannot be replaced.
    """
    from importlib.metadata import entry_points

    added_assets: dict[str, Asset] = {}
    problems: dict[str, str] = {}
    for entry_point in entry_points(group="capmeter.assets"):
        try:
            loaded = entry_point.load()
            assets = {asset.name: asset for asset in (loaded() if callable(loaded) else loaded)}
        except Exception as error:  # noqa: BLE001  third-party code may raise anything
            problems[entry_point.name] = f"{entry_point.value} cannot be used: {type(error).__name__}: {error}"
        else:
            added_assets.update(assets)
    return {name: asset for name, asset in added_assets.items() if name not in ASSETS}, problems


def known_assets() -> dict[str, Asset]:
    """capmeter's assets and those that installed packages add, by name."""
    return ASSETS | find_added_assets()[0]


def state(asset: Asset) -> _AssetState:
    """Where an asset is, and whether its content is the published one."""
    folder = asset.find()
    if folder is None:
        return _AssetState(asset, "missing")
    try:
        files = asset.content(folder)
        digest = sha256(*files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # a damaged list of shards, or a missing shard
        files = ()
    if not files or len(files) < len(asset.files):
        return _AssetState(asset, "incomplete", folder)
    return _AssetState(asset, "changed" if asset.sha256 not in ("", digest) else "ready", folder, digest)


def sha256(*files: Path) -> str:
    """SHA-256 of the concatenated files; a file that has not changed is read only once per process."""
    file_stats = [(file, file.stat()) for file in files]
    return _sha256(tuple((str(file), file_stat.st_size, file_stat.st_mtime_ns) for file, file_stat in file_stats))


@functools.cache
def _sha256(files: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for file_path, _, _ in files:  # size and mtime are in the key so that a changed file is hashed again
        with Path(file_path).open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The files of an encoder's weights: one file, or all its shards in order of name; empty if absent.

    Raises:
        OSError, ValueError, KeyError: the list of shards is damaged.
    """
    weight_file = next((folder / file_name for file_name in WEIGHT_FILES if (folder / file_name).is_file()), None)
    if weight_file is None or weight_file.suffix != ".json":
        return () if weight_file is None else (weight_file,)
    shard_names = set(json.loads(weight_file.read_text(encoding="utf-8"))["weight_map"].values())
    return tuple(folder / shard_name for shard_name in sorted(shard_names))


def package_folder(module: str, *inner: str) -> Path | None:
    """A folder inside an installed package, found without importing the package; None if there is none."""
    module_spec = util.find_spec(module)
    for search_location in (module_spec.submodule_search_locations or ()) if module_spec else ():
        if (folder := Path(search_location, *inner)).is_dir():
            return folder
    return None


def hub_folder(hub_id: str) -> Path | None:
    """The pinned (else the newest) snapshot of a hub id in the local cache that has a configuration and weights."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return None
    repository = Path(constants.HF_HUB_CACHE) / f"models--{hub_id.replace('/', '--')}"
    snapshots = repository / "snapshots"
    try:
        snapshot_folders = sorted(snapshots.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        main_ref = repository / "refs" / "main"
        if main_ref.is_file():
            snapshot_folders.insert(0, snapshots / main_ref.read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        return None
    for folder in snapshot_folders:
        if (folder / _CONFIG).is_file() and any((folder / file_name).is_file() for file_name in WEIGHT_FILES):
            return folder
    return None


def asset_folder(name: str) -> Path:
    """Where a user may put an asset that others made: `assets/NAME` in the data folder."""
    return data_folder("assets", name)


def _weight_folders() -> tuple[Path, ...]:
    """Where checkpoints are looked up by name: capmeter's, those of packages that add some, then the user's own.

    A package adds the checkpoints in its folder `weights` through the entry point group `capmeter.weights`, whose
    value is the package's name.
    """
    return BUNDLED_WEIGHTS, *added_folders("weights"), data_folder("weights")


@functools.cache
def added_folders(name: str) -> tuple[Path, ...]:
    """The folders of this name in the packages that the entry point group `capmeter.NAME` lists."""
    from importlib.metadata import entry_points  # takes longer to load than this module

    package_names = dict.fromkeys(entry.value for entry in entry_points(group=f"capmeter.{name}"))
    folders = (package_folder(package_name, name) for package_name in package_names)
    return tuple(folder for folder in folders if folder is not None)


def find_checkpoint(name: str) -> Path | None:
    """The folder of a trained checkpoint, shipped or the user's, by name, else by path; None if absent."""
    if not name.strip():
        return None
    named_folders = [folder / name for folder in _weight_folders()] if Path(name).name == name else []
    return next((folder for folder in (*named_folders, home_path(name)) if (folder / CHECKPOINT).is_file()), None)


CheckpointStamp = tuple[Path, int]
"""The folder of a checkpoint and when it was written, in ns: what is made of it is current while both are equal."""


def checkpoint_stamp(name: str) -> CheckpointStamp | None:
    """The stamp of the checkpoint with this name; None if absent."""
    folder = find_checkpoint(name)
    return None if folder is None else (folder, (folder / CHECKPOINT).stat().st_mtime_ns)


def checkpoint_folders() -> Iterator[Path]:
    """The folders of all named checkpoints; for a name found twice, the shipped one comes first."""
    seen_names: set[str] = set()
    for weight_folder in _weight_folders():
        for folder in sorted(weight_folder.iterdir()) if weight_folder.is_dir() else ():
            if folder.name not in seen_names and (folder / CHECKPOINT).is_file():
                seen_names.add(folder.name)
                yield folder


def file_stamp(option: str, path: str, expected: str) -> tuple[int, int]:
    """When a file was last changed, in ns, and its size in bytes: a cache of its content is valid while both are equal.

    Args:
        option: the metric's option that names the file, for the message.
        path: of the file.
        expected: what the option accepts, for the message.

    Raises:
        InputError: there is no such file, it is a folder or a device, cannot be reached, or its name has a NUL.
    """
    try:
        file_stat = Path(path).stat()
    except (OSError, ValueError) as problem:  # a `ValueError` for a name with NUL or half of a surrogate pair
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise InputError(f"{option}={path!a}: {reason}; {expected}") from problem
    if S_ISDIR(file_stat.st_mode):
        raise InputError(f"{option}={path!a}: it is a folder; {expected}")
    if not S_ISREG(file_stat.st_mode):  # such as /dev/zero, which never ends
        raise InputError(f"{option}={path!a}: it is a pipe, a socket or a device, expected a file; {expected}")
    return file_stat.st_mtime_ns, file_stat.st_size


EXTRAS = {
    "neural": ("torch", "transformers", "tokenizers", "safetensors"),
    "vision": ("torch", "transformers", "tokenizers", "safetensors", "PIL"),
    "judges": ("openai", "yaml", "PIL"),
    "meteor": ("pycocoevalcap",),
    "report": ("jinja2", "matplotlib", "PIL"),
}
EXTRAS["all"] = tuple(dict.fromkeys(module for modules in EXTRAS.values() for module in modules))


def missing_install_command(extra: str | None) -> str | None:
    """The command that installs what is missing of an extra, or of several ("meteor,neural").

    None if nothing is missing, or if the extra belongs to another package.
    """
    missing_extras = [
        name for name in (extra or "").split(",") if not all(map(importlib.util.find_spec, EXTRAS.get(name, ())))
    ]
    return install_command(",".join(missing_extras)) if missing_extras else None


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'capmeter[{extra}]'"
