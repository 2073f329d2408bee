"""Encoders of images and sentences into one space (CLIP, SigLIP), where a cosine measures how well they match.

Features are the encoder's outputs, not normalised: metrics take cosines, regressors what they were trained on.
Sentences of equal length go through the model together, so that none is padded (SigLIP's are all padded to the length
it was trained with); a sentence that is too long loses its last pieces before the end token. Features are cached in
memory, and in the disk cache that the settings name.

Radford et al.: Learning Transferable Visual Models From Natural Language Supervision. ICML 2021.
Zhai, Mustafa, Kolesnikov, Beyer: Sigmoid Loss for Language Image Pre-Training. ICCV 2023.

A checkpoint that replaces the projections of a joint encoder: PAC-S, trained from CLIP with everything else frozen.

    image features = V pooled image          sentence features = T pooled sentence

The file is the authors' (a pickle with `state_dict`, in the layout of OpenAI's CLIP: `visual.proj`, `text_projection`),
or safetensors with either layout's names. Only numbers are read from it. The authors publish no hash of their
checkpoint; instead, one that would silently give another metric's numbers is refused: projections that are the
encoder's own or of another size, or a backbone that is not the encoder's.

Sarto, Barraco, Cornia, Baraldi, Cucchiara: Positive-Augmented Contrastive Learning for Image and Video Captioning
Evaluation. CVPR 2023.
"""

from __future__ import annotations

import copy
import functools
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.core.assets import file_stamp, sha256
from capmeter.core.errors import AssetError
from capmeter.core.ragged import gather
from capmeter.core.settings import Settings, home_path
from capmeter.encoders.batches import Output, Precision, Rows, batch_threads, batch_tokens, run_batches, to_numpy
from capmeter.encoders.handle import EncoderHandle, require_neural, versions
from capmeter.encoders.preprocessing import Pixels, Preprocessing
from capmeter.encoders.text.encoder import load_complete_model, load_errors
from capmeter.encoders.text.tokenizer import PieceTable

if TYPE_CHECKING:
    from torch import Tensor


# OpenAI's names, and the transformers library's (a linear layer's weight is the transposed matrix).
_PROJECTIONS = {"visual.proj": "visual_projection.weight", "text_projection": "text_projection.weight"}
_BACKBONE = {
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
}
_UNTRAINED = 1e-6  # relative difference below which projections are the encoder's own
_HALF_PRECISION = 0.01  # relative difference within which a backbone in half precision stays


@dataclass(frozen=True, eq=False)
class _Projection:
    """The projections of a checkpoint.

    Attributes:
        path, sha256: the checkpoint.
        weights: both projections, by the transformers library's names, and those weights of the backbone that are
            compared.
    """

    path: Path
    sha256: str
    weights: Mapping[str, Tensor]

    def _replace_projections(self, model: Any, name: str) -> None:
        """Replace the projections of the encoder's model.

        Raises:
            AssetError: the checkpoint was not trained from this model.
        """
        import torch

        model_parameters = dict(model.named_parameters())
        for key in (*_PROJECTIONS.values(), *_BACKBONE.values()):
            if key not in self.weights:
                continue
            if key not in model_parameters:
                raise AssetError(f"encoder {name!r} has no {key}; {self.path} is for CLIP models")
            shape, expected = tuple(self.weights[key].shape), tuple(model_parameters[key].shape)
            if shape != expected:
                raise AssetError(
                    f"checkpoint {self.path}: its {key} has the shape {shape}, but encoder {name!r} has {expected}; it "
                    "was trained from another model, so name that one as encoder"
                )
        for key in _BACKBONE.values():
            if key in self.weights and _difference(self.weights[key], model_parameters[key]) > _HALF_PRECISION:
                raise AssetError(
                    f"checkpoint {self.path}: its {key} is not that of encoder {name!r}; it was trained from another "
                    "model, or changes more than the projections"
                )
        if all(_difference(self.weights[key], model_parameters[key]) < _UNTRAINED for key in _PROJECTIONS.values()):
            raise AssetError(
                f"checkpoint {self.path}: its projections are those of encoder {name!r} itself, so that PAC-S would be "
                "CLIPScore; download the authors' checkpoint"
            )
        with torch.no_grad():
            for key in _PROJECTIONS.values():
                model_parameters[key].copy_(self.weights[key].to(model_parameters[key].dtype))


def _read_projection(path: Path) -> _Projection:
    """Read a checkpoint's projections.

    Raises:
        AssetError: it cannot be read, contains more than numbers, or has no projections.
    """
    from safetensors import SafetensorError

    try:
        checkpoint_tensors = _read_tensors(path)
        file_digest = sha256(path)
    except pickle.UnpicklingError as error:
        raise AssetError(
            f"checkpoint {path}: a damaged pickle, or one that contains more than numbers, which is never loaded"
        ) from error
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, EOFError, SafetensorError) as error:
        raise AssetError(f"checkpoint {path}: cannot be read ({error}); download it again") from error
    weights = {}
    for openai, hub_name in (*_PROJECTIONS.items(), *_BACKBONE.items()):
        if hub_name in checkpoint_tensors:
            weights[hub_name] = checkpoint_tensors[hub_name]
        elif openai in checkpoint_tensors:
            weights[hub_name] = checkpoint_tensors[openai].T if openai in _PROJECTIONS else checkpoint_tensors[openai]
    missing_names = [openai for openai, hub_name in _PROJECTIONS.items() if hub_name not in weights]
    if missing_names:
        has_lora = any("lora" in tensor_name for tensor_name in checkpoint_tensors)
        raise AssetError(
            f"checkpoint {path}: it has no {' and no '.join(missing_names)}"
            + (" (it has LoRA weights, as PAC-S++ does, which are not supported)" if has_lora else "")
            + "; expected PAC-S's checkpoint, such as clip_ViT-B-32.pth"
        )
    return _Projection(path, file_digest, weights)


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """The checkpoint's tensors by name."""
    import torch

    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return dict(load_file(path))
    state = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict):
        raise ValueError(f"expected weights by name, but got {type(state).__name__}")
    return {
        str(name).removeprefix("module."): tensor for name, tensor in state.items() if isinstance(tensor, torch.Tensor)
    }


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest weight of the other tensor."""
    import torch

    one, other = (tensor.detach().to("cpu", torch.float32) for tensor in (one, other))
    return float((one - other).abs().max() / other.abs().max().clamp_min(1e-12))


Features = NDArray[np.float32]
READERS = 8
"""Threads that decode images for a GPU."""
_SENTENCES_PER_CALL = 8192
_PADDED = ("siglip", "siglip2")


class JointModel:
    """A model of images and sentences with its tokenizer and image processor.

    Attributes:
        handle: the encoder.
        precision: device and type of numbers.
        settings: batch size, threads and caches; models of the same handle share the weights.
        max_length: the maximum number of word pieces, begin and end tokens included.
    """

    REQUIRED: ClassVar[tuple[str, ...]] = ()
    """Methods that the model must have."""

    def __init__(self, handle: EncoderHandle, precision: Precision, model_class: str, purpose: str = "") -> None:
        self.handle, self.precision = handle, precision
        self.settings = Settings(device=precision.device)
        with load_errors(handle, purpose):
            import transformers

            model_type = json.loads((handle.folder / "config.json").read_bytes()).get("model_type")
            register_model_type(model_type)
            self.model: Any = load_complete_model(getattr(transformers, model_class), handle.folder, precision)
            if not all(hasattr(self.model, method_name) for method_name in self.REQUIRED):
                raise ValueError(f"it is a {model_type} model; expected one of the CLIP or SigLIP kind")
            self.preprocessing = Preprocessing(handle.folder)
            self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(handle.folder), local_files_only=True)
            self.max_length = int(self.model.config.text_config.max_position_embeddings)

    def pieces(self, sentences: Sequence[str], max_length: int | None = None) -> PieceTable:
        """Word pieces with begin and end tokens; those over `max_length` are cut before the end token."""
        length_limit = min(max_length or self.max_length, self.max_length)
        rows: list[list[int]] = []
        for batch_start in range(0, len(sentences), _SENTENCES_PER_CALL):
            texts = [str(sentence) for sentence in sentences[batch_start : batch_start + _SENTENCES_PER_CALL]]
            encoding = self.tokenizer(texts, add_special_tokens=True, truncation=False, padding=False, verbose=False)
            rows.extend(encoding["input_ids"])
        truncated = [len(row) > length_limit for row in rows]
        rows = [[*row[: length_limit - 1], row[-1]] if long else row for row, long in zip(rows, truncated, strict=True)]
        if self.model.config.model_type in _PADDED:
            pad_id = self.tokenizer.pad_token_id
            if pad_id is None:
                raise AssetError(
                    "the model's tokenizer has no padding token, which the model needs; its files are incomplete"
                )
            rows = [row + [pad_id] * (length_limit - len(row)) for row in rows]
        return PieceTable.from_rows(rows, truncated)

    def signature_facts(self) -> dict[str, str]:
        """Everything about the model that affects scores, for signatures."""
        model_facts = {"weights": self.handle.sha256[:12], "preprocessing": self.preprocessing.identity[:8]}
        return model_facts | {"software": versions("transformers", "torch", "pillow"), "precision": self.precision.name}

    def run_batches(
        self, lengths: NDArray[np.int64], forward: Callable[[Rows], Output], description: str = "encoding"
    ) -> Iterator[tuple[Rows, Output]]:
        """Run items of these lengths through the model; see `capmeter.encoders.batches.run_batches`.

        Args:
            lengths: of each item.
            forward: the outputs of some items.
            description: of the progress bar.
        """
        token_budget = batch_tokens(self.settings, self.precision.device)
        return run_batches(
            lengths,
            forward,
            lambda length: token_budget // length,
            threads=batch_threads(self.settings, self.precision.device),
            device=self.precision.device,
            description=f"{description} with {self.handle.name}",
        )

    def pixel_tensor(self, inputs: NDArray[np.float32]) -> Any:
        """Preprocessed images (batch, channels, height, width) as the model's input."""
        import torch

        return torch.from_numpy(inputs).to(self.precision.device, self.precision.dtype)


class JointEncoder(JointModel):
    """A model that encodes images and sentences separately; `load_joint_encoder` loads each only once.

    Attributes:
        width: of the features.
        scale, bias: the trained factor and offset of the cosine (bias None: the model has none).
        projection: the checkpoint whose projections replace the model's, if any.
    """

    REQUIRED = ("get_image_features", "get_text_features")

    def __init__(self, handle: EncoderHandle, precision: Precision, projection: _Projection | None = None) -> None:
        super().__init__(handle, precision, "AutoModel")
        model, self.projection = self.model, projection
        with load_errors(handle):
            vision_config = model.config.vision_config
            self._tokens_per_image = max(1, (int(vision_config.image_size) // int(vision_config.patch_size)) ** 2 + 1)
        if projection is not None:
            projection._replace_projections(model, handle.name)
        self.width = len(self.encode_text(np.zeros((1, min(2, self.max_length)), np.int64))[0])
        self.scale = float(np.exp(float(model.logit_scale.detach().cpu()))) if hasattr(model, "logit_scale") else 1.0
        self.bias = float(model.logit_bias.detach().cpu()) if hasattr(model, "logit_bias") else None

    def __repr__(self) -> str:
        return f"JointEncoder({self.handle.label}, width {self.width})"

    def signature_facts(self) -> dict[str, str]:
        """Everything about the encoder that affects scores, for signatures."""
        encoder_facts = super().signature_facts()
        return encoder_facts if self.projection is None else encoder_facts | {"projection": self.projection.sha256[:12]}

    def text_features(self, pieces: PieceTable) -> Features:
        """The features of these sentences, float32 (sentences, width)."""

        def encode(rows: Rows) -> Features:
            positions, _ = gather(pieces.offsets, rows)
            return self.encode_text(pieces.ids[positions].astype(np.int64).reshape(len(rows), -1))

        piece_contents = [pieces[sentence_index].tobytes() for sentence_index in range(len(pieces))]
        return self._features("text", piece_contents, pieces.lengths, encode, set())

    def image_features(self, hashes: Sequence[str], read: Callable[[int], Pixels | None]) -> Features:
        """The features of images, float32 (images, width).

        Args:
            hashes: of the images' contents: an image whose features are cached is not read.
            read: gives the pixels of image i, uint8 (height, width, 3), and is called from several threads. None (the
                image cannot be read) gives features of 0, which are not cached.
        """
        unreadable_rows: set[int] = set()

        def preprocess(row: int) -> NDArray[np.float32] | None:
            pixels = read(row)
            return None if pixels is None else self.preprocessing(pixels)

        def encode(rows: Rows) -> Features:
            if self.precision.device == "cpu":  # batches run concurrently, and each reads its own images
                inputs = list(map(preprocess, rows.tolist()))
            else:
                with ThreadPoolExecutor(READERS) as reader_pool:
                    inputs = list(reader_pool.map(preprocess, rows.tolist()))
            features = np.zeros((len(rows), self.width), np.float32)
            readable = np.array([pixels is not None for pixels in inputs], np.bool_)
            unreadable_rows.update(rows[~readable].tolist())
            if readable.any():
                features[readable] = self.encode_images(np.stack([pixels for pixels in inputs if pixels is not None]))
            return features

        token_counts = np.full(len(hashes), self._tokens_per_image, np.int64)
        image_contents = [bytes.fromhex(image_hash) for image_hash in hashes]
        feature_kind = f"picture {self.preprocessing.identity[:16]}"
        return self._features(feature_kind, image_contents, token_counts, encode, unreadable_rows)

    def _features(
        self,
        feature_kind: str,
        item_contents: Sequence[bytes],
        lengths: NDArray[np.int64],
        encode: Callable[[Rows], Features],
        unreadable: set[int],
    ) -> Features:
        """The features of these contents: those that are cached, and the others encoded and cached."""
        projection_sha256 = "" if self.projection is None else self.projection.sha256
        analysis = f"joint {self.handle.sha256} {projection_sha256} {feature_kind} {self.precision.name}"

        def encode_rows(missing_rows: list[int]) -> list[Features | None]:
            some = np.array(missing_rows, np.int64)
            features = np.zeros((len(some), self.width), np.float32)
            for rows, batch_features in self.run_batches(lengths[some], lambda rows: encode(some[rows])):
                features[rows] = batch_features
            return [None if row in unreadable else features[k] for k, row in enumerate(missing_rows)]

        cached = self.settings.result_cache().results(analysis, item_contents, encode_rows)
        features = np.zeros((len(item_contents), self.width), np.float32)
        for row, item_features in enumerate(cached):
            if item_features is not None:
                features[row] = item_features
        return features

    def encode_text(self, ids: NDArray[np.int64]) -> Features:
        """The features (batch, width) of word-piece ids (batch, tokens)."""
        import torch

        with torch.inference_mode():
            return _features_of(self.model.get_text_features(input_ids=torch.from_numpy(ids).to(self.precision.device)))

    def encode_images(self, inputs: NDArray[np.float32]) -> Features:
        """The features (batch, width) of preprocessed images (batch, channels, height, width)."""
        import torch

        with torch.inference_mode():
            return _features_of(self.model.get_image_features(pixel_values=self.pixel_tensor(inputs)))


def load_joint_encoder(handle: EncoderHandle, settings: Settings | None = None, projection: str = "") -> JointEncoder:
    """Load an encoder of images and sentences, once per process.

    Args:
        handle: the encoder (`find_joint_encoder`).
        settings: device, precision, batch size, threads and caches; None means those of the environment.
        projection: a checkpoint whose projections replace the model's (see `capmeter.encoders.joint.encoder`).

    Raises:
        AssetError: its files or the projection's are damaged, or are not those of a supported model.
        InputError: the projection is no file.
        MissingBackend: torch or transformers is not installed.
    """
    settings = settings or Settings()
    require_neural()
    checkpoint = None
    if projection:
        path = home_path(projection)
        stamp = file_stamp("checkpoint", str(path), "expected PAC-S's checkpoint, such as clip_ViT-B-32.pth")
        checkpoint = (path, *stamp)  # a changed file is read again
    encoder = copy.copy(_load(handle, Precision.from_settings(settings), checkpoint))
    encoder.settings = settings
    return encoder


@functools.lru_cache(maxsize=4)
def _load(handle: EncoderHandle, precision: Precision, checkpoint: tuple[Path, int, int] | None) -> JointEncoder:
    return JointEncoder(handle, precision, None if checkpoint is None else _read_projection(checkpoint[0]))


def register_model_type(model_type: object) -> bool:
    """Register an architecture with the transformers library, if an installed package provides it.

    A package does so through the entry point group `capmeter.model_types`: name = the `model_type` of config.json,
    value = "module:function", called without arguments.

    Returns:
        Whether a package provides it.
    """
    from importlib.metadata import entry_points

    entries = [entry for entry in entry_points(group="capmeter.model_types") if entry.name == model_type]
    for entry in entries:
        entry.load()()
    return bool(entries)


def _features_of(model_output: Any) -> Features:
    """The model's features; version 5 of the library wraps them."""
    return to_numpy(getattr(model_output, "pooler_output", model_output))
