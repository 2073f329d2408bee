"""Trained checkpoints: a folder with `checkpoint.json` and `weights.safetensors`, from which a metric is rebuilt.

The JSON holds everything but the weights: the kind of checkpoint, its parameters, features and vocabulary, names and
hashes of the training data, how it was selected and how it scored. It also holds the SHA-256 of the weights and its own
checksum, so that damage, or the weights of another checkpoint, are detected. Nothing is unpickled and no code is run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.core.assets import CHECKPOINT, checkpoint_folders, find_checkpoint
from capmeter.core.errors import AssetError, CapmeterError, MissingBackend
from capmeter.core.output_files import atomic_file

WEIGHTS = "weights.safetensors"
FORMAT = "capmeter checkpoint 1"
Weights = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class TrainingData:
    """A file that a checkpoint was trained on: its name, its SHA-256, the number of examples used, and the smallest
    hashes of the texts (`hash_texts`), a bottom-k sketch by which they are recognised elsewhere."""

    name: str
    sha256: str
    examples: int
    texts: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", tuple(self.texts[:SKETCH]))

    def share_of(self, hashes: Sequence[str]) -> float:
        """The share of other texts that it was trained on, as far as the sketch shows; 0 for fewer than three.

        Args:
            hashes: of the other texts (`hash_texts`).
        """
        comparable = [each for each in hashes if len(self.texts) < SKETCH or each <= self.texts[-1]]
        found = set(self.texts).intersection(comparable)
        return len(found) / len(comparable) if found and len(found) >= min(3, len(hashes)) else 0.0


SKETCH = 256
"""Number of hashes that are kept of the texts of a file."""


def hash_texts(texts: Iterable[str]) -> list[str]:
    """48 bits of BLAKE2 of the distinct texts, which may differ in case and blanks, in ascending order."""
    normal_texts = {" ".join(text.casefold().split()).encode("utf-8", "surrogatepass") for text in texts}
    return sorted(hashlib.blake2b(text, digest_size=6).hexdigest() for text in normal_texts)


def read_training(folder: Path) -> tuple[tuple[TrainingData, ...], str]:
    """What a checkpoint was trained on and how it was selected, without its weights."""
    content = json.loads((folder / CHECKPOINT).read_bytes())
    return tuple(TrainingData(**entry) for entry in content["data"]), content["selection"]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Trained weights, and everything needed to use them and to train them again.

    kind: what is rebuilt from it (`parser`, `fluency` …); checked on reading. parameters: the model's arguments (JSON
    values). weights: arrays by name. features: the inputs, in order. vocabulary: words or labels, in order. data: what
    it was trained on. training: how (steps, learning rates, seed …). selection: how this checkpoint was selected.
    scores: how it scored, by name. licence: of the weights.
    """

    kind: str
    parameters: Mapping[str, Any]
    weights: Weights
    features: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()
    data: tuple[TrainingData, ...] = ()
    training: Mapping[str, Any] = field(default_factory=dict)
    selection: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    licence: str = "Apache-2.0"
    version: str = __version__

    @cached_property
    def sha256(self) -> str:
        """Hash of the weights and everything else that affects scores."""
        digest = hashlib.sha256(_json([self.kind, dict(self.parameters), self.features, self.vocabulary]))
        for array_name in sorted(self.weights):
            array = self.weights[array_name]
            digest.update(_json([array_name, array.dtype.name, array.shape]) + array.tobytes())
        return digest.hexdigest()

    @property
    def label(self) -> str:
        """The checkpoint's name in signatures."""
        return f"{self.kind}@{self.sha256[:12]}"

    def save(self, folder: Path) -> None:
        """Writes the checkpoint into a folder, which is created if necessary.

        Raises:
            AssetError: the folder cannot be written to.
            MissingBackend: safetensors is not installed.
            ValueError, TypeError: a value is not a JSON value.
        """
        save = _safetensors().save
        weights = save({array_name: np.asarray(array, order="C") for array_name, array in self.weights.items()})
        content = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "weights"}
        content |= {name: dict(content[name]) for name in _DICTS}
        content["data"] = [asdict(each) for each in self.data]
        head = {"format": FORMAT, "weights": hashlib.sha256(weights).hexdigest(), **content}
        checkpoint_text = _a_line_each({**head, "checksum": _checksum(head)})
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(folder / WEIGHTS) as file:
                file.write(weights)
            with atomic_file(folder / CHECKPOINT) as file:  # last: an old one does not match the new weights
                file.write(checkpoint_text.encode())
        except OSError as error:
            raise AssetError(f"checkpoint: cannot write {folder} ({error.strerror or error})") from error

    @classmethod
    def read(cls, folder: Path, kind: str | None = None) -> Checkpoint:
        """Reads and checks the checkpoint in a folder.

        Args:
            folder: where `checkpoint.json` is.
            kind: the kind of checkpoint expected.

        Raises:
            AssetError: it is absent, damaged, of another kind, or in a format that this version does not read.
            MissingBackend: safetensors is not installed.
        """
        load = _safetensors().load
        from safetensors import SafetensorError

        try:
            content = json.loads((folder / CHECKPOINT).read_bytes())
            if not isinstance(content, dict) or content.get("format") != FORMAT:
                raise ValueError(f"expected the format {FORMAT!r}")
            if content.pop("checksum", None) != _checksum(content):
                raise ValueError(f"{CHECKPOINT} is damaged")
            weights = (folder / WEIGHTS).read_bytes()
            if hashlib.sha256(weights).hexdigest() != content.pop("weights"):
                raise ValueError(f"{WEIGHTS} is damaged, or belongs to another checkpoint")
            del content["format"]
            content["data"] = tuple(TrainingData(**data_entry) for data_entry in content["data"])
            content |= {name: tuple(content[name]) for name in _LISTS} | {name: dict(content[name]) for name in _DICTS}
            checkpoint = cls(**content, weights=load(weights))
            for array_name, array in checkpoint.weights.items():
                if array.dtype.kind not in "fiu" or (array.dtype.kind == "f" and not np.isfinite(array).all()):
                    raise ValueError(f"the array {array_name} ({array.dtype}) holds something else than finite numbers")
        except OSError as error:
            raise AssetError(f"checkpoint {folder}: cannot read it ({error.strerror or error})") from error
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, SafetensorError) as error:
            raise AssetError(f"checkpoint {folder}: {error}; download or train it again") from error
        if kind is not None and checkpoint.kind != kind:
            raise AssetError(
                f"checkpoint {folder}: expected a checkpoint of {kind!r}, but it is one of {checkpoint.kind!r}"
            )
        return checkpoint


_TORCH_ERRORS = (ArithmeticError, RuntimeError, AssertionError)
_LISTS, _DICTS = ("features", "vocabulary", "data"), ("parameters", "training", "scores")


@contextmanager
def rebuilding(what: str, name: object) -> Iterator[None]:
    """Errors of the block, in which a model is rebuilt from a checkpoint, become an `AssetError`.

    Args:
        what: the model, for the message.
        name: the checkpoint's.
    """
    try:
        yield
    except (AssetError, MissingBackend):
        raise
    except (CapmeterError, ValueError, TypeError, LookupError, AttributeError, *_TORCH_ERRORS) as error:
        raise AssetError(
            f"checkpoint {name}: its content is not that of {what} ({error!r}); download or train it again"
        ) from error
    except MemoryError as error:
        raise AssetError(f"checkpoint {name}: its shape does not fit into memory; download it again") from error


def load_checkpoint(name: str, kind: str | None = None) -> Checkpoint:
    """The checkpoint with this name (shipped, or in the user's data folder) or in this folder.

    Raises:
        AssetError: there is none, or it is damaged or of another kind.
    """
    folder = find_checkpoint(name)
    if folder is None:
        known = ", ".join(checkpoint_folder.name for checkpoint_folder in checkpoint_folders()) or "none"
        raise AssetError(
            f"there is no checkpoint {name!r}; expected a folder with {CHECKPOINT}, or one of those available: {known}"
        )
    return Checkpoint.read(folder, kind)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, allow_nan=False).encode("ascii")


def _a_line_each(fields: Mapping[str, Any]) -> str:
    """An object as JSON, a field a line: vocabularies with a word a line are a fifth longer."""
    lines = (f'"{name}": {json.dumps(value, separators=(",", ":"), allow_nan=False)}' for name, value in fields.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _checksum(head: Mapping[str, Any]) -> str:
    return hashlib.sha256(_json(head)).hexdigest()


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise MissingBackend('checkpoints need safetensors: pip install "capmeter[neural]"') from error
    return safetensors.numpy
