"""A low-rank adaptation of a BERT (LoRA, Hu et al. 2022): a small checkpoint that changes an encoder's layers.

    W ← W + B A

for the four matrices W of each layer (`PARTS`), or of the first layers, where A [rank, inputs] and B [outputs, rank]
are trained and W is frozen. The sum is made once, when the encoder is loaded: an adapted encoder runs as fast as the
one that it adapts.

A checkpoint of the kind `encoder` names the encoder that it adapts, and the hash of its weights. Where an encoder is
asked for, the checkpoint's name or folder stands for the adapted one: `sbert(encoder=minilm-captions)`. A metric's
checkpoint may hold the adaptation of an encoder that nothing else reads, under names with a prefix.

E. Hu, Y. Shen, P. Wallis, Z. Allen-Zhu, Y. Li, S. Wang, L. Wang, W. Chen. LoRA: Low-Rank Adaptation of Large Language
Models. ICLR 2022.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from capmeter.assets import CHECKPOINT, find_checkpoint
from capmeter.checkpoints import Checkpoint
from capmeter.encoders.layers import Layer
from capmeter.errors import AssetError

if TYPE_CHECKING:
    from torch import Tensor

KIND = "encoder"
PARTS = ("heads", "join", "widen", "narrow")
"""The matrices of a `Layer` that are adapted."""
LAYERS = "layers."
"""What the names of factors begin with."""
_DOWN, _UP = "layers.{}.{}.down", "layers.{}.{}.up"


def find_adaptation(name: str) -> Path | None:
    """The folder of the adaptation of this name; None where nothing of this name adapts an encoder."""
    folder = find_checkpoint(name)
    if folder is None:
        return None
    try:
        kind = json.loads((folder / CHECKPOINT).read_bytes())["kind"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AssetError(f"checkpoint {folder}: cannot read {CHECKPOINT} ({error})") from error
    return folder if kind == KIND else None


def read_adaptation(folder: Path) -> Checkpoint:
    """The adaptation in a folder, read once for as long as its file does not change."""
    return _read(folder, (folder / CHECKPOINT).stat().st_mtime_ns)


def read_factors(folder: Path, prefix: str = "") -> dict[str, NDArray[Any]]:
    """A and B by name, of the adaptation in a folder; with a prefix, those arrays of a checkpoint of any kind whose
    names begin so.
    """
    weights = (Checkpoint.read(folder) if prefix else read_adaptation(folder)).weights
    start = prefix + LAYERS
    return {name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(start)}


@lru_cache(maxsize=4)
def _read(folder: Path, stamp: int) -> Checkpoint:
    found = Checkpoint.read(folder, KIND)
    if not {"encoder", "encoder_sha256"} <= set(found.parameters):
        raise AssetError(f"checkpoint {folder}: does not name the encoder that it adapts; train it again")
    return found


def adapted(layer: Layer, factors: Mapping[str, Tensor], number: int) -> Layer:
    """The layer of this number (from 0) with its matrices adapted; `factors`: A and B by name."""
    sums = {}
    for part in PARTS:
        weight, bias = getattr(layer, part)
        down, up = factors[_DOWN.format(number, part)], factors[_UP.format(number, part)]
        sums[part] = weight + up @ down, bias
    return replace(layer, **sums)


def depth(factors: Mapping[str, Any]) -> int:
    """How many layers have factors, the first ones of an encoder.

    >>> depth({"layers.0.heads.down": 0, "layers.2.heads.down": 0})
    3
    """
    if not factors:
        raise ValueError("its adaptation has no factors of any layer")
    return max(int(name.removeprefix(LAYERS).partition(".")[0]) + 1 for name in factors)


def with_factors(layer: Layer, factors: Mapping[str, Tensor], number: int) -> Layer:
    """The same layer with the factors beside its matrices, for training: no gradient of the matrices is needed."""
    beside = {}
    for part in PARTS:
        down, up = (factors[name.format(number, part)] for name in (_DOWN, _UP))
        beside[part] = (*getattr(layer, part), down, up)
    return replace(layer, **beside)
