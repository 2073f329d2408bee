"""Nearest neighbours of photos by the mean embedding of their captions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1024


def mean_directions(embeddings: NDArray[np.float32], captions: NDArray[np.int64]) -> NDArray[np.float32]:
    """The direction of the mean embedding of each photo's captions.

    Args:
        embeddings: (sentences, dim).
        captions: (photos, captions), sentence indices.

    Returns:
        Unit vectors (photos, dim).
    """
    mean_embeddings: NDArray[np.float32] = embeddings[captions].mean(axis=1)
    mean_embeddings /= np.maximum(np.linalg.norm(mean_embeddings, axis=1, keepdims=True), 1e-9)
    return mean_embeddings


def nearest_neighbours(vectors: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The nearest other rows of each unit vector, nearest first.

    Args:
        vectors: (n, dim).
        count: number of neighbours, capped at n - 1.

    Returns:
        Row indices (n, count).

    >>> nearest_neighbours(np.array([[1, 0], [0, 1], [0.8, 0.6]], np.float32), 1).tolist()
    [[2], [2], [0]]
    """
    neighbours = []
    for block_start in range(0, len(vectors), _BLOCK):
        similarity = vectors[block_start : block_start + _BLOCK] @ vectors.T
        similarity[np.arange(len(similarity)), np.arange(block_start, block_start + len(similarity))] = -np.inf
        neighbours.append(np.argsort(-similarity, axis=1, kind="stable")[:, : min(count, len(vectors) - 1)])
    return np.concatenate(neighbours)
