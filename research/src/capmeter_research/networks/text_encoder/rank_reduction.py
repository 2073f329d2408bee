"""A low-rank adapter of a lower rank: of each matrix's change B A, the largest singular values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capmeter.encoders.text.layers import LORA_A, LORA_B


def reduce_rank(factors: Mapping[str, NDArray[Any]], rank: int) -> dict[str, NDArray[Any]]:
    """The factors whose product is closest to that of the given ones; unchanged where their rank is not higher.

    Args:
        factors: A (rank, inputs) and B (outputs, rank) of each matrix, by name.
        rank: the highest rank.

    >>> a, b = np.array([[3.0, 0.0], [0.0, 1.0]]), np.eye(2)
    >>> reduced = reduce_rank({"m.down": a, "m.up": b}, 1)
    >>> np.abs(reduced["m.up"] @ reduced["m.down"]).round(6).tolist()
    [[3.0, 0.0], [0.0, 0.0]]
    """
    reduced = dict(factors)
    for name in factors:
        matrix, _, factor = name.rpartition(".")
        if factor != LORA_A or len(factors[name]) <= rank:
            continue
        a_basis, a_triangle = np.linalg.qr(factors[name].T)
        b_basis, b_triangle = np.linalg.qr(factors[f"{matrix}.{LORA_B}"])
        left, singular_values, right = np.linalg.svd(b_triangle @ a_triangle.T)
        scale = np.sqrt(singular_values[:rank])
        reduced[name] = (a_basis @ right[:rank].T * scale).T
        reduced[f"{matrix}.{LORA_B}"] = b_basis @ left[:, :rank] * scale
    return reduced
