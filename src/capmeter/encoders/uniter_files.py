"""State dicts of UNITER and UMIC: read without running anything in them, checked by name and shape, and converted.

The authors' files (`uniter-base.pt`, `umic.pt`) are pickles of tensors. They are loaded with `weights_only`, so that
one that holds anything else is refused. A converted checkpoint (`capmeter.checkpoints`, kind `uniter`) has safetensors,
the sizes, and the vocabulary of word pieces.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capmeter.arrays import ZIP_ERRORS
from capmeter.assets import sha256
from capmeter.checkpoints import Checkpoint
from capmeter.encoders.models import require_neural
from capmeter.encoders.uniter import HEADS, UniterShape, head_shapes
from capmeter.errors import AssetError

if TYPE_CHECKING:
    from torch import Tensor

KIND = "uniter"
_HEAD_WIDTH = 64  # of the published models
_LAYER = re.compile(r"uniter\.encoder\.layer\.(\d+)\.")
_PRETRAINING = ("cls.", "feat_regress.", "region_classifier.")
_SHOWN = 3


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """The tensors of a file (.pt, .bin, .safetensors, .npz) under UNITER's names, in float32.

    Raises:
        AssetError: no such file; damaged; or a pickle that holds more than tensors.
        MissingBackend: torch is not installed.
    """
    require_neural()
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            found: Any = load_file(str(path))
        elif path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as saved:
                found = {name: torch.from_numpy(saved[name]) for name in saved.files}
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:  # torch's own message advises running whatever the file contains
        raise AssetError(
            f"{path}: a damaged pickle, or one that contains more than tensors, which is never loaded; expected a "
            "state dict as UNITER's authors publish it, or safetensors"
        ) from error
    except FileNotFoundError as error:
        raise AssetError(f"{path}: there is no such file; expected a state dict (.pt, .safetensors, .npz)") from error
    except (*ZIP_ERRORS, SafetensorError) as error:
        raise AssetError(f"{path}: cannot read it as a state dict ({str(error)[:200]}); fetch it again") from error
    if not isinstance(found, Mapping) or not all(isinstance(each, torch.Tensor) for each in found.values()):
        raise AssetError(f"{path}: holds {type(found).__name__}, expected a state dict (tensors by name)")
    return {_name(str(name)): tensor.to(torch.float32) for name, tensor in found.items()}


def _name(name: str) -> str:
    """UNITER's present name of a weight: without a wrapper's prefix, and without TensorFlow's names of norms."""
    name = re.sub(r"^module\.", "", name)
    name = re.sub(r"^bert\.", "uniter.", name)
    return re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))


def shape_of(weights: Mapping[str, Any], heads: int | None = None) -> UniterShape:
    """The sizes that these weights have; heads are 64 wide unless their number is given.

    Raises:
        AssetError: these are not a UNITER's weights.
    """
    words, regions = "uniter.embeddings.word_embeddings.weight", "uniter.img_embeddings.img_linear.weight"
    inner, places = "uniter.encoder.layer.0.intermediate.dense.weight", "uniter.embeddings.position_embeddings.weight"
    missing = [name for name in (words, regions, inner, places) if name not in weights or weights[name].ndim != 2]
    if missing:
        raise AssetError(
            f"these are not the weights of a UNITER: {missing[0]} is missing; found {_some(sorted(weights))}"
        )
    vocabulary, width = weights[words].shape
    layers = 1 + max(int(match.group(1)) for name in weights if (match := _LAYER.match(name)))
    number = max(1, width // _HEAD_WIDTH) if heads is None else heads
    if number < 1 or width % number:
        raise AssetError(f"a width of {width} cannot be split into {number} heads; correct num_attention_heads")
    return UniterShape(
        vocabulary, width, layers, number, weights[inner].shape[0], weights[places].shape[0], weights[regions].shape[1]
    )


def check_names(weights: Mapping[str, Any], shape: UniterShape) -> None:
    """Checks that the weights are those of a UNITER of this shape, with any of its heads, and no others.

    Raises:
        AssetError: names the missing and unexpected weights, or the first of another shape.
    """
    wanted = shape.weights()
    for head in HEADS:
        if any(name.startswith(f"{head}.") for name in weights):
            wanted |= head_shapes(shape, head)
    if any(name.startswith(_PRETRAINING) for name in weights):
        last = weights.get("region_classifier.net.3.bias")
        wanted = {**shape.weights(labels=1601 if last is None else len(last)), **wanted}
    missing, unexpected = sorted(wanted.keys() - weights.keys()), sorted(weights.keys() - wanted.keys())
    if missing or unexpected:
        said = [f"{len(missing)} weights are missing ({_some(missing)})"] if missing else []
        said += [f"{len(unexpected)} are unexpected ({_some(unexpected)})"] if unexpected else []
        raise AssetError(f"not a complete UNITER of {shape.layers} layers: {'; '.join(said)}")
    for name, size in wanted.items():
        if tuple(weights[name].shape) != size:
            raise AssetError(f"{name} has the shape {list(weights[name].shape)}, expected {list(size)}")
        if not np.isfinite(np.asarray(weights[name])).all():
            raise AssetError(f"{name} holds NaN or infinite values; the file is damaged, or training diverged")


def uniter_checkpoint(
    weights: Mapping[str, Any],
    shape: UniterShape,
    vocabulary: Sequence[str],
    *,
    lowercase: bool,
    **said: Any,
) -> Checkpoint:
    """The checkpoint of these weights; `said` is what `Checkpoint` holds about data, training and selection."""
    check_names(weights, shape)
    if len(vocabulary) != shape.vocabulary:
        raise AssetError(
            f"the vocabulary has {len(vocabulary):,} word pieces, but the weights {shape.vocabulary:,}; expected the "
            "vocab.txt of the BERT that the model was built on (bert-base-cased for UNITER)"
        )
    arrays = {name: np.asarray(tensor, np.float32).copy() for name, tensor in weights.items()}
    parameters = {"shape": shape.to_dict(), "lowercase": lowercase}
    return Checkpoint(KIND, parameters, arrays, vocabulary=tuple(vocabulary), **said)


def convert_uniter(state_dict: Path, vocabulary: Path, folder: Path, config: Path | None = None) -> Checkpoint:
    """Converts a state dict of UNITER or UMIC, with BERT's vocab.txt, to a checkpoint in a folder.

    config: the model's JSON file, of which only `num_attention_heads` is used; without it heads are 64 wide.

    Raises:
        AssetError: a file is absent, damaged or not what it should be; missing and unexpected weights are named.
    """
    weights = read_state_dict(state_dict)
    try:
        pieces = vocabulary.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        heads = None if config is None else int(json.loads(config.read_text(encoding="utf-8"))["num_attention_heads"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"{config or vocabulary}: cannot be read ({error})") from error
    made = uniter_checkpoint(
        weights,
        shape_of(weights, heads),
        pieces,
        lowercase=False,
        selection="converted, not trained here",
        training={"converted_from": state_dict.name, "sha256": sha256(state_dict)},
        licence="as published by the authors (MIT for UNITER's and UMIC's code)",
    )
    made.save(folder)
    return made


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
