"""Relative positions in attention, as MPNet (Song et al. 2020) has them from T5 (Raffel et al. 2020).

    R[h, i, j] = W[bucket(j - i), h]

Half of the buckets are for pieces before, half for pieces after. Near distances have a bucket each; the rest share the
others, logarithmically, up to `_FARTHEST`, beyond which all are in the last.

Raffel et al.: Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer. JMLR 2020.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

RELATIVE_BIAS = "encoder.relative_attention_bias.weight"
"""The name of W, (buckets, heads), in a checkpoint."""
_FARTHEST = 128


def relative_bias(weight: Tensor, tokens: int) -> Tensor:
    """R of a sequence of word pieces, (heads, tokens, tokens).

    Args:
        weight: W, (buckets, heads).
        tokens: length of the sequence.
    """
    import torch

    token_positions = torch.arange(tokens, device=weight.device)
    return weight[_buckets(token_positions[None, :] - token_positions[:, None], len(weight))].permute(2, 0, 1)


def _buckets(distance: Tensor, bucket_count: int) -> Tensor:
    """The bucket of each distance j - i.

    >>> import torch
    >>> _buckets(torch.tensor([0, -1, -7, -8, -500, 1, 7, 8, 500]), 32).tolist()
    [0, 1, 7, 8, 15, 17, 23, 24, 31]
    """
    half_count = bucket_count // 2
    near = half_count // 2
    size = distance.abs()
    far = near + (size.clamp(min=1).float().div(near).log() / math.log(_FARTHEST / near) * (half_count - near)).long()
    return size.where(size < near, far.clamp(max=half_count - 1)) + (distance > 0) * half_count
