"""Low-rank adapters of a BERT (LoRA): small checkpoints that change the layers of an encoder.

    W ← W + B A

for the four matrices W of each layer (`MATRICES`), or of the first layers, where A [rank, inputs] and B [outputs, rank]
are trained and W is frozen. The sum is computed once, when the encoder is loaded: an adapted encoder is as fast as its
base. `capmeter.encoders.text.network` trains adapters.

A checkpoint of the kind `encoder` names its base encoder and the hash of that one's weights. Its name or folder is an
encoder's name: `sbert(encoder=minilm-captions)`. A metric's checkpoint may contain an adapter for that metric alone,
under names with a prefix.

Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang, Chen: LoRA: Low-Rank Adaptation of Large Language Models. ICLR 2022.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from capmeter.core.assets import CHECKPOINT, checkpoint_stamp
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError
from capmeter.encoders.module_weights import check_shapes
from capmeter.encoders.text.layers import STORED_NAMES, TransformerLayer

if TYPE_CHECKING:
    from torch import Tensor

KIND = "encoder"
MATRICES = {matrix: STORED_NAMES[matrix] for matrix in ("qkv", "attn_out", "ffn_up", "ffn_down")}
"""The adapted matrices of a `TransformerLayer`, and their names in checkpoints."""
LORA_A, LORA_B = "down", "up"
"""The names of both factors in checkpoints."""
LAYERS = "layers."
"""Prefix of the names of factors: `layers.0.heads.down`."""


@dataclass(frozen=True)
class Adapter:
    """A low-rank adapter in a checkpoint.

    Attributes:
        folder: of the checkpoint.
        sha256: the checkpoint's hash.
        prefix: of the names of its arrays, in a metric's checkpoint.
        encoder, encoder_sha256: the encoder that it was trained on and its hash, where the checkpoint says so.
    """

    folder: Path
    sha256: str
    prefix: str = ""
    encoder: str = ""
    encoder_sha256: str = ""

    def factors(self) -> dict[str, NDArray[Any]]:
        """A [rank, inputs] and B [outputs, rank] of each matrix, by name without the prefix."""
        layer_prefix = self.prefix + LAYERS
        weights = Checkpoint.read(self.folder).weights
        return {
            name.removeprefix(self.prefix): array for name, array in weights.items() if name.startswith(layer_prefix)
        }


def find_adapter(name: str) -> Adapter | None:
    """The adapter with this name or in this folder; None if no checkpoint of that name adapts an encoder.

    Raises:
        AssetError: the checkpoint is damaged, or does not name its encoder.
    """
    stamp = checkpoint_stamp(name)
    return None if stamp is None else _read_adapter(*stamp)


@lru_cache(maxsize=16)
def _read_adapter(folder: Path, modified_time: int) -> Adapter | None:
    try:
        checkpoint_kind = json.loads((folder / CHECKPOINT).read_bytes())["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise AssetError(f"checkpoint {folder}: cannot read {CHECKPOINT} ({error})") from error
    if checkpoint_kind != KIND:
        return None
    checkpoint = Checkpoint.read(folder, KIND)
    encoder_name, encoder_digest = (
        checkpoint.parameters.get(parameter_name) for parameter_name in ("encoder", "encoder_sha256")
    )
    if not isinstance(encoder_name, str) or not isinstance(encoder_digest, str):
        raise AssetError(f"checkpoint {folder}: does not name the encoder that it adapts; train it again")
    return Adapter(folder, checkpoint.sha256, encoder=encoder_name, encoder_sha256=encoder_digest)


def merge_adapter(stack: list[TransformerLayer], factors: Mapping[str, Tensor]) -> list[TransformerLayer]:
    """The layers of an encoder with the factors of an adapter added to the first ones.

    Raises:
        ValueError: a factor is missing, unknown or of another shape than its matrix.
    """
    layer_count = count_layers(factors)
    if layer_count > len(stack):
        raise ValueError(f"it adapts {layer_count} layers of an encoder with {len(stack)}")
    factor_shapes: dict[str, tuple[int, ...]] = {}
    for layer_number, layer in enumerate(stack[:layer_count]):
        for matrix, stored_name in MATRICES.items():
            output_dim, input_dim = getattr(layer, matrix)[0].shape
            factor_prefix = f"{LAYERS}{layer_number}.{stored_name}."
            rank = len(factors[factor_prefix + LORA_A])
            factor_shapes |= {factor_prefix + LORA_A: (rank, input_dim), factor_prefix + LORA_B: (output_dim, rank)}
    check_shapes(factor_shapes, factors)
    return [
        merge_factors(layer, factors, layer_number) for layer_number, layer in enumerate(stack[:layer_count])
    ] + stack[layer_count:]


def merge_factors(layer: TransformerLayer, factors: Mapping[str, Tensor], number: int) -> TransformerLayer:
    """The layer of this number (from 0) with W + B A for each adapted W; `factors`: A and B by name."""
    merged_matrices = {}
    for matrix in MATRICES:
        weight, bias = getattr(layer, matrix)
        lora_a, lora_b = _factors_of(factors, number, matrix)
        merged_matrices[matrix] = weight + lora_b @ lora_a, bias
    return replace(layer, **merged_matrices)


def attach_factors(layer: TransformerLayer, factors: Mapping[str, Tensor], number: int) -> TransformerLayer:
    """The layer with A and B next to W, for training: W needs no gradient."""
    attached = {matrix: (*getattr(layer, matrix), *_factors_of(factors, number, matrix)) for matrix in MATRICES}
    return replace(layer, **attached)


def count_layers(factors: Mapping[str, Any]) -> int:
    """The number of adapted layers, the first ones of an encoder.

    >>> count_layers({"layers.0.heads.down": 0, "layers.2.heads.down": 0})
    3
    """
    if not factors:
        raise ValueError("its adapter has no factors of any layer")
    return max(int(factor_name.removeprefix(LAYERS).partition(".")[0]) + 1 for factor_name in factors)


def _factors_of(factors: Mapping[str, Tensor], layer_number: int, matrix: str) -> tuple[Tensor, Tensor]:
    """A and B of one matrix of one layer."""
    factor_prefix = f"{LAYERS}{layer_number}.{MATRICES[matrix]}"
    return factors[f"{factor_prefix}.{LORA_A}"], factors[f"{factor_prefix}.{LORA_B}"]
