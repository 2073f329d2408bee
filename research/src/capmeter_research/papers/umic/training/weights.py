"""State dicts of UNITER and UMIC: read without executing anything, checked by name and shape, and converted.

The authors' files (`uniter-base.pt`, `umic.pt`) are pickles of tensors. They are loaded with `weights_only`, so that
one that holds anything else is refused. A converted checkpoint (`capmeter.core.checkpoints`, kind `uniter`) has
safetensors, the sizes, and the vocabulary of word pieces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capmeter.captions.sources import CaptionSource
from capmeter.core.assets import sha256
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError
from capmeter.core.json_text import decode_json
from capmeter.encoders.handle import require_neural
from capmeter_research.common.state_dicts import read_tensors
from capmeter_research.papers.umic.uniter import HEADS, KIND, UniterShape, head_shapes
from capmeter_research.papers.umic.word_piece import SPECIAL, WordPieceTokenizer

if TYPE_CHECKING:
    from torch import Tensor

_HEAD_WIDTH = 64  # of the published models
_LAYER = re.compile(r"uniter\.encoder\.layer\.(\d+)\.")
_PRETRAINING = ("cls.", "feat_regress.", "region_classifier.")
_MAX_NAMES = 3


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """The tensors of a file (.pt, .bin, .safetensors, .npz) by UNITER's names, without pretraining's heads, in float32.

    Raises:
        AssetError: see `read_tensors`.
        MissingBackend: torch is not installed.
    """
    require_neural()
    import torch

    tensors = {_canonical_name(weight_name): tensor for weight_name, tensor in read_tensors(path).items()}
    return {name: tensor.to(torch.float32) for name, tensor in tensors.items() if not name.startswith(_PRETRAINING)}


def _canonical_name(weight_name: str) -> str:
    """UNITER's current name of a weight: without a wrapper's prefix and TensorFlow's names of norms."""
    weight_name = re.sub(r"^module\.", "", weight_name)
    weight_name = re.sub(r"^bert\.", "uniter.", weight_name)
    return re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", weight_name))


def infer_shape(weights: Mapping[str, Any], heads: int | None = None) -> UniterShape:
    """The sizes of these weights; heads are 64 wide unless their number is given.

    Raises:
        AssetError: they are not the weights of a UNITER.
    """
    words, regions = "uniter.embeddings.word_embeddings.weight", "uniter.img_embeddings.img_linear.weight"
    inner, positions = (
        "uniter.encoder.layer.0.intermediate.dense.weight",
        "uniter.embeddings.position_embeddings.weight",
    )
    missing = [name for name in (words, regions, inner, positions) if name not in weights or weights[name].ndim != 2]
    if missing:
        raise AssetError(f"not the weights of a UNITER: {missing[0]} is missing; got {_list_names(sorted(weights))}")
    vocabulary, width = weights[words].shape
    layers = 1 + max(int(match.group(1)) for name in weights if (match := _LAYER.match(name)))
    head_count = max(1, width // _HEAD_WIDTH) if heads is None else heads
    if head_count < 1 or width % head_count:
        raise AssetError(f"a width of {width} cannot be split into {head_count} heads; correct num_attention_heads")
    inner_width, position_count = len(weights[inner]), len(weights[positions])
    return UniterShape(vocabulary, width, layers, head_count, inner_width, position_count, weights[regions].shape[1])


def check_weights(weights: Mapping[str, Any], shape: UniterShape) -> None:
    """Checks that the weights are those of a UNITER of this shape, with any of its heads, and no others.

    Raises:
        AssetError: names the missing and unexpected weights, or the first of another shape.
    """
    expected = shape.weights()
    for head in HEADS:
        if any(weight_name.startswith(f"{head}.") for weight_name in weights):
            expected |= head_shapes(shape, head)
    missing, unexpected = sorted(expected.keys() - weights.keys()), sorted(weights.keys() - expected.keys())
    if missing or unexpected:
        problems = [f"{len(missing)} weights are missing ({_list_names(missing)})"] if missing else []
        problems += [f"{len(unexpected)} are unexpected ({_list_names(unexpected)})"] if unexpected else []
        raise AssetError(f"not a complete UNITER of {shape.layers} layers: {'; '.join(problems)}")
    for weight_name, size in expected.items():
        if tuple(weights[weight_name].shape) != size:
            raise AssetError(f"{weight_name} has the shape {list(weights[weight_name].shape)}, expected {list(size)}")
        if not np.isfinite(np.asarray(weights[weight_name])).all():
            raise AssetError(f"{weight_name} holds NaN or infinite values; the file is damaged, or training diverged")


def uniter_checkpoint(
    weights: Mapping[str, Any], shape: UniterShape, vocabulary: Sequence[str], *, lowercase: bool, **details: Any
) -> Checkpoint:
    """The checkpoint of weights.

    Args:
        weights: arrays by name.
        shape: of the network.
        vocabulary: word pieces, in order.
        lowercase: whether texts are lowercased.
        details: data, training, selection … of the `Checkpoint`.

    Raises:
        AssetError: weights or vocabulary are not those of the shape.
    """
    check_weights(weights, shape)
    if len(vocabulary) != shape.vocabulary:
        raise AssetError(
            f"the vocabulary has {len(vocabulary):,} word pieces, but the weights {shape.vocabulary:,}; expected the "
            "vocab.txt of the BERT that the model was built on (bert-base-cased for UNITER)"
        )
    weight_arrays = {weight_name: np.asarray(tensor, np.float32).copy() for weight_name, tensor in weights.items()}
    parameters = {"shape": shape.to_dict(), "lowercase": lowercase}
    return Checkpoint(KIND, parameters, weight_arrays, vocabulary=tuple(vocabulary), **details)


def convert_uniter(state_dict: Path, vocabulary: Path, folder: Path, config: Path | None = None) -> Checkpoint:
    """Converts a state dict of UNITER or UMIC to a checkpoint in a folder.

    Args:
        state_dict: the file of weights.
        vocabulary: BERT's vocab.txt.
        folder: of the checkpoint.
        config: the model's JSON file, of which only `num_attention_heads` is used; None: heads are 64 wide.

    Raises:
        AssetError: the weights are absent, damaged or of another kind, or some are missing or unexpected.
        InputError: the vocabulary or the configuration cannot be read.
    """
    weights = read_state_dict(state_dict)
    try:
        word_pieces = CaptionSource.resolve(vocabulary).read_text().removesuffix("\n").split("\n")
        settings = {} if config is None else decode_json(CaptionSource.resolve(config).read_text(), str(config))
        heads = None if config is None else int(settings["num_attention_heads"])
    except (ValueError, KeyError, TypeError) as error:
        raise AssetError(f"{config or vocabulary}: cannot be read ({error})") from error
    checkpoint = uniter_checkpoint(
        weights,
        infer_shape(weights, heads),
        word_pieces,
        lowercase=False,
        selection="converted, not trained here",
        training={"converted_from": state_dict.name, "sha256": sha256(state_dict)},
        licence="as published by the authors (MIT for UNITER's and UMIC's code)",
    )
    checkpoint.save(folder)
    return checkpoint


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + (f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else "")


def initial_weights(shape: UniterShape, seed: int, std: float = 0.02) -> dict[str, Any]:
    """Normal initial weights; biases 0, norms 1.

    Args:
        shape: of the network.
        seed: of the weights.
        std: standard deviation; default: the authors'.
    """
    import torch

    random = torch.Generator().manual_seed(seed)
    weights = {}
    weight_shapes = shape.weights() | head_shapes(shape, "itm_output") | head_shapes(shape, "rank_output")
    for name, weight_shape in weight_shapes.items():
        if len(weight_shape) == 2:
            weights[name] = torch.empty(weight_shape).normal_(0, std, generator=random)
        else:
            weights[name] = torch.full(weight_shape, float("norm" in name.lower() and name.endswith("weight")))
    return weights


def learn_vocabulary(sentences: Iterable[str], min_count: int = 2) -> tuple[str, ...]:
    """The special tokens, every letter (at the start of a word and inside), and words with `min_count` occurrences."""
    backend = WordPieceTokenizer(SPECIAL, lowercase=True).backend
    word_counts: Counter[str] = Counter()
    for sentence in sentences:
        normalised_text = backend.normalizer.normalize_str(sentence)
        word_counts.update(word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normalised_text))
    letters = sorted({letter for word in word_counts for letter in word})
    words = sorted(word for word, word_count in word_counts.items() if word_count >= min_count and len(word) > 1)
    return (*SPECIAL, *letters, *(f"##{letter}" for letter in letters), *words)
