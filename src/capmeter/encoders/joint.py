"""Encoders of pictures and sentences into one space (CLIP, SigLIP), where a cosine says how well they fit.

    from capmeter.encoders.joint import load_joint

`features` are the encoder's outputs as they are, not normalised: metrics take cosines, regressors what they were
trained on. Sentences of equal length go through the model together, so that none is padded (SigLIP's are all padded to
the length it was trained with); a sentence that is too long loses its last pieces before the end token. Features of
recent pictures and sentences are kept in memory, and in the store that the settings name.

Radford et al.: Learning Transferable Visual Models From Natural Language Supervision. ICML 2021.
Zhai, Mustafa, Kolesnikov, Beyer: Sigmoid Loss for Language Image Pre-Training. ICCV 2023.
"""

from __future__ import annotations

import copy
import functools
import json
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from capmeter.encoders.batches import run_batches
from capmeter.encoders.cache import RecentStates, StateCache
from capmeter.encoders.encoder import device_name
from capmeter.encoders.hub_model import complete_model
from capmeter.encoders.models import JOINT_ENCODERS, EncoderFiles, find_encoder, require_neural, versions
from capmeter.encoders.pieces import PieceTable, gather
from capmeter.encoders.preprocessing import Pixels, Preprocessing
from capmeter.encoders.projection import Projection, read_projection
from capmeter.encoders.side_by_side import torch_threads
from capmeter.errors import AssetError
from capmeter.settings import Settings
from capmeter.store import store_of

if TYPE_CHECKING:
    import torch

Features = NDArray[np.float32]
_CPU_TOKENS, _GPU_TOKENS = 2048, 32768
_AT_ONCE = 1024  # looked up in the store and written to it together, so that a killed run goes on from there
_RECENT_BYTES = 1 << 27
READERS = 8  # threads that decode pictures for a GPU
_PADDED = ("siglip", "siglip2")
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError)


@dataclass(frozen=True)
class Precision:
    """The device of a model and the type of its numbers."""

    device: str
    dtype: torch.dtype

    @classmethod
    def of(cls, settings: Settings) -> Precision:
        """What the settings ask for."""
        device = device_name(settings.device)
        import torch

        half = torch.bfloat16 if device == "cpu" else torch.float16
        return cls(device, torch.float32 if settings.precision == "float32" else half)

    @property
    def name(self) -> str:
        """float32, float16 or bfloat16."""
        return str(self.dtype).removeprefix("torch.")


class JointEncoder:
    """A model of pictures and sentences with its tokenizer and image processor; `load_joint` loads each only once.

    width: of the features. max_length: the maximum number of word pieces, begin and end included. scale, bias: the
    trained factor and offset of the cosine (bias None: the model has none). settings: of this encoder.
    """

    def __init__(self, files: EncoderFiles, running: Precision, projection: Projection | None = None) -> None:
        from safetensors import SafetensorError

        self.files, self.running, self.projection = files, running, projection
        self.settings = Settings(device=running.device)
        try:
            from transformers import AutoModel, AutoTokenizer

            _make_known(files.folder)
            model = complete_model(AutoModel, files.folder, running.device, running.dtype)
            if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
                raise ValueError(f"it is a {model.config.model_type} model; expected one of the CLIP or SigLIP kind")
            self.preprocessing = Preprocessing(files.folder)
            self.tokenizer: Any = AutoTokenizer.from_pretrained(str(files.folder), local_files_only=True)
            self.model = model
            self.max_length = int(model.config.text_config.max_position_embeddings)
            self._pieces_per_picture = _patches(model.config.vision_config)
        except pickle.UnpicklingError as error:
            raise AssetError(
                f"encoder {files.name!r}: cannot load {files.folder}: its weights are a damaged pickle, or one that "
                "contains more than numbers, which is never loaded; download or convert them as safetensors"
            ) from error
        except (*UNREADABLE, SafetensorError) as error:
            raise AssetError(f"encoder {files.name!r}: cannot load {files.folder}: {error}") from error
        if projection is not None:
            projection.put_into(model, files.name)
        self._padded = model.config.model_type in _PADDED
        self.width = len(self._embedded_text(np.zeros((1, min(2, self.max_length)), np.int64))[0])
        self.scale = float(np.exp(float(model.logit_scale.detach().cpu()))) if hasattr(model, "logit_scale") else 1.0
        self.bias = float(model.logit_bias.detach().cpu()) if hasattr(model, "logit_bias") else None
        self._recent = RecentStates(_RECENT_BYTES)

    def __repr__(self) -> str:
        return f"JointEncoder({self.files.label}, width {self.width})"

    def pieces(self, sentences: Sequence[str]) -> PieceTable:
        """Word pieces with the model's begin and end tokens; those over `max_length` are cut before the end token."""
        return pieces_of(self.tokenizer, sentences, self.max_length, padded=self._padded)

    def text_features(self, pieces: PieceTable) -> Features:
        """The features of these sentences, float32[n, width]."""

        def encode(rows: NDArray[np.int64]) -> Features:
            positions, _ = gather(pieces.offsets, rows)
            return self._embedded_text(pieces.ids[positions].astype(np.int64).reshape(len(rows), -1))

        contents = [pieces[row].tobytes() for row in range(len(pieces))]
        return self._features("text", contents, pieces.lengths, encode, self._threads())

    def picture_features(self, hashes: Sequence[str], read: Callable[[int], Pixels | None]) -> Features:
        """The features of pictures, float32[n, width].

        Args:
            hashes: of the pictures' contents: one that was encoded before is not read again.
            read: gives the pixels of picture i, uint8[height, width, 3], and is called from several threads. None (the
                picture cannot be read) gives features of 0, which are not kept.
        """
        lost: set[int] = set()

        def prepared(row: int) -> NDArray[np.float32] | None:
            pixels = read(row)
            return None if pixels is None else self.preprocessing(pixels)

        def encode(rows: NDArray[np.int64]) -> Features:
            order = rows.tolist()
            if self.running.device == "cpu":  # batches run side by side, each with its own reading
                inputs = list(map(prepared, order))
            else:
                with ThreadPoolExecutor(READERS) as readers:
                    inputs = list(readers.map(prepared, order))
            features = np.zeros((len(order), self.width), np.float32)
            good = [k for k, each in enumerate(inputs) if each is not None]
            lost.update(order[k] for k, each in enumerate(inputs) if each is None)
            if good:
                features[good] = self._embedded_pictures(np.stack([each for each in inputs if each is not None]))
            return features

        lengths = np.full(len(hashes), self._pieces_per_picture, np.int64)
        space = f"picture {self.preprocessing.identity[:16]}"
        contents = [bytes.fromhex(each) for each in hashes]
        return self._features(space, contents, lengths, encode, self._threads(), lost)

    def facts(self) -> dict[str, str]:
        """Everything about the encoder that affects scores, for signatures."""
        facts = {"weights": self.files.sha256[:12], "preprocessing": self.preprocessing.identity[:8]}
        if self.projection is not None:
            facts["projection"] = self.projection.sha256[:12]
        return facts | {"software": versions("transformers", "torch", "pillow"), "precision": self.running.name}

    def _features(
        self,
        space: str,
        contents: Sequence[bytes],
        lengths: NDArray[np.int64],
        encode: Callable[[NDArray[np.int64]], Features],
        threads: int,
        lost: set[int] | None = None,
    ) -> Features:
        """The features of these contents: those in memory or in the store, and the others encoded and kept."""
        changed = "" if self.projection is None else self.projection.sha256
        space = f"joint {self.files.sha256} {changed} {space} {self.running.name}"
        features = np.zeros((len(contents), self.width), np.float32)
        store = store_of(self.settings)
        caches: list[StateCache] = [self._recent, *([] if store is None else [store])]
        missing = list(range(len(contents)))
        for cache in caches:
            found = cache.get(space, [contents[row] for row in missing])
            absent = []
            for row in missing:
                known = found.get(contents[row])
                if isinstance(known, np.ndarray) and known.shape == features[row].shape:
                    features[row] = known
                else:
                    absent.append(row)
            missing = absent
        tokens = self.settings.tokens or (_CPU_TOKENS if self.running.device == "cpu" else _GPU_TOKENS)
        for start in range(0, len(missing), _AT_ONCE):
            some = np.array(missing[start : start + _AT_ONCE], np.int64)
            made = run_batches(
                lengths[some],
                lambda rows, some=some: encode(some[rows]),  # type: ignore[misc]
                lambda length: tokens // length,
                threads=threads,
                device=self.running.device,
                description=f"encoding with {self.files.name}",
            )
            for rows, output in made:
                features[some[rows]] = output
            kept = {contents[row]: features[row] for row in some.tolist() if not lost or row not in lost}
            for cache in caches:
                cache.put(space, kept)
        return features

    def _embedded_text(self, ids: NDArray[np.int64]) -> Features:
        import torch

        with torch.inference_mode():
            return _numbers(self.model.get_text_features(input_ids=torch.from_numpy(ids).to(self.running.device)))

    def _embedded_pictures(self, inputs: NDArray[np.float32]) -> Features:
        import torch

        with torch.inference_mode():
            pixels = torch.from_numpy(inputs).to(self.running.device, self.running.dtype)
            return _numbers(self.model.get_image_features(pixel_values=pixels))

    def _threads(self) -> int:
        """How many batches go through the model concurrently, each on one CPU thread."""
        return (self.settings.threads or torch_threads()) if self.running.device == "cpu" else 1


def load_joint(name: str, settings: Settings | None = None, projection: str = "") -> JointEncoder:
    """The joint encoder called `name` (an alias, a hub id in the local cache, or a folder), loaded only once.

    projection: a checkpoint whose projections replace the model's (see `capmeter.encoders.projection`).
    """
    settings = settings or Settings()
    require_neural()
    files = find_encoder(name, JOINT_ENCODERS)
    path = Path(projection).expanduser() if projection else None
    changed = (str(path), *_state(path)) if path is not None else None
    encoder = copy.copy(_load(files, Precision.of(settings), changed))
    encoder.settings = settings
    return encoder


@functools.lru_cache(maxsize=4)
def _load(files: EncoderFiles, running: Precision, changed: tuple[str, int, int] | None) -> JointEncoder:
    return JointEncoder(files, running, None if changed is None else read_projection(Path(changed[0])))


def _state(path: Path) -> tuple[int, int]:
    """The file's size and time, so that a changed one is read again."""
    try:
        found = path.stat()
    except OSError as error:
        raise AssetError(f"checkpoint {path}: cannot be read ({error.strerror or error})") from error
    return found.st_size, found.st_mtime_ns


def pieces_of(tokenizer: Any, sentences: Sequence[str], longest: int, *, padded: bool = False) -> PieceTable:
    """The sentences' word pieces with the tokenizer's own begin and end tokens, cut before the end token.

    padded: all get the same length, as the model was trained.
    """
    rows: list[list[int]] = []
    for start in range(0, len(sentences), 8192):
        part = [str(each) for each in sentences[start : start + 8192]]
        rows.extend(
            tokenizer(part, add_special_tokens=True, truncation=False, padding=False, verbose=False)["input_ids"]
        )
    truncated = [len(row) > longest for row in rows]
    rows = [[*row[: longest - 1], row[-1]] if long else row for row, long in zip(rows, truncated, strict=True)]
    if padded:
        pad = tokenizer.pad_token_id
        if pad is None:
            raise AssetError(
                "the model's tokenizer has no padding token, which the model needs; its files are incomplete"
            )
        rows = [row + [pad] * (longest - len(row)) for row in rows]
    return PieceTable.of(rows, truncated)


def _make_known(folder: Path) -> None:
    """Makes an architecture of this package known to the transformers library, if the folder is of one."""
    if json.loads((folder / "config.json").read_bytes()).get("model_type") == "capmeter-world-clip":
        from capmeter.encoders.world_clip.network import register

        register()


def _patches(config: Any) -> int:
    """The number of a picture's tokens."""
    return max(1, (int(config.image_size) // int(config.patch_size)) ** 2 + 1)


def _numbers(found: Any) -> Features:
    """The model's features; from version 5 the library wraps them."""
    import torch

    tensor = getattr(found, "pooler_output", found)
    features: Features = tensor.to("cpu", torch.float32).numpy()
    return features
