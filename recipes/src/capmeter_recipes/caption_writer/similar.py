"""Photos that resemble each other by the words of their captions, and a caption of such a photo to misread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.tokenization.porter import stem
from capmeter.transforms.perturbations import is_content, strip_punctuation
from capmeter_recipes.common.corpus import Photo

AMONG = 10
_ROWS = 500


def near_captions(photos: Sequence[Photo], seed: int = 0) -> list[str]:
    """For each photo, a caption of one of the `AMONG` photos most similar to it, chosen by the seed.

    Similarity is the cosine of the photos' stems of content words, weighted by idf.

    Args:
        photos: of one source, at least two for anything to be found; the only photo has "".
        seed: of the choices.
    """
    count = len(photos)
    if count < 2:
        return [""] * count
    table = _weighted(photos)
    columns = table.T.tocsr()
    rng = np.random.default_rng(seed)
    among = min(AMONG, count - 1)
    similar_captions: list[str] = []
    for start in range(0, count, _ROWS):
        likeness = (table[start : start + _ROWS] @ columns).toarray()
        rows = np.arange(len(likeness))
        likeness[rows, start + rows] = -1
        nearest = np.argpartition(-likeness, among - 1, axis=1)[:, :among]
        sampled = np.sort(nearest, axis=1)[rows, rng.integers(0, among, len(rows))]
        similar_captions += [
            photos[other].captions[int(rng.integers(len(photos[other].captions)))] for other in sampled.tolist()
        ]
    return similar_captions


def _weighted(photos: Sequence[Photo]) -> Any:
    """Unit vectors of the photos: [photos, stems], sparse."""
    from scipy.sparse import csr_array

    word_ids: dict[str, int] = {}
    stems: dict[str, int] = {}  # of words as they are written; -1: no content word
    columns: list[int] = []
    counts: list[int] = []
    offsets = [0]
    for photo in photos:
        document_counts: Counter[int] = Counter()
        for caption in photo.captions:
            for word in caption.split():
                if word not in stems:
                    plain = strip_punctuation(word)
                    stems[word] = word_ids.setdefault(stem(plain), len(word_ids)) if is_content(plain) else -1
                document_counts[stems[word]] += 1
        del document_counts[-1]
        columns += document_counts
        counts += document_counts.values()
        offsets.append(len(columns))
    parts = np.array(counts, np.float32), np.array(columns, np.int32), np.array(offsets, np.int32)
    table: Any = csr_array(parts, (len(photos), len(word_ids)))
    having = np.bincount(table.indices, minlength=len(word_ids))
    table.data *= np.log(len(photos) / np.maximum(having, 1)).astype(np.float32)[table.indices]
    norms: npt.NDArray[np.float32] = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    norms[norms == 0] = 1
    table.data *= np.repeat(1 / norms, np.diff(table.indptr))
    return table
