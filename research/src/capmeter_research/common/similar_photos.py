"""Nearest neighbours of photos by the mean embedding of their captions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import SentencePool
from capmeter.core.disk_cache import DiskCache
from capmeter.core.settings import MemoryCache, ResultCache, Settings, encode_texts
from capmeter.encoders import EncoderHandle, SentenceVectors, load_encoder
from capmeter.metrics.own.inputs import strip_final_punctuation
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO, Photo

_BLOCK, _SENTENCES_PER_CALL = 1024, 8192


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


def number_captions(photos: Sequence[Photo]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The captions of photos as indices of distinct sentences, (photos, 5), and these sentences."""
    sentence_numbers: dict[str, int] = {}
    caption_rows = [
        [
            sentence_numbers.setdefault(strip_final_punctuation(caption), len(sentence_numbers))
            for caption in photo.captions[:CAPTIONS_PER_PHOTO]
        ]
        for photo in photos
    ]
    return np.array(caption_rows, np.int64), tuple(sentence_numbers)


def embed_photos(
    sentences: Sequence[str],
    captions: NDArray[np.int64],
    encoder: EncoderHandle,
    settings: Settings,
    folder: Path | None = None,
) -> NDArray[np.float32]:
    """The direction (photos, dim) of the mean embedding of each photo's captions.

    Args:
        sentences: of the captions.
        captions: (photos, captions), sentence indices.
        encoder: of the sentences.
        settings: for the encoder.
        folder: where the embeddings are stored for when a run is resumed: a large encoder takes minutes for them.
    """
    vectors = SentenceVectors(encoder, load_encoder(encoder, settings).layers, settings)
    embeddings = ResultCache(MemoryCache(0), None if folder is None else DiskCache(folder)).results(
        f"{encoder.sha256} {settings.precision} {settings.engine}",
        encode_texts(sentences),
        lambda rows: list(SentencePool(tuple(sentences[row] for row in rows)).analyse(vectors)),
        batch_size=_SENTENCES_PER_CALL,
    )
    return mean_directions(np.stack(embeddings), captions)
