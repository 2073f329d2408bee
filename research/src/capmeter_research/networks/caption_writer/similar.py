"""Photos that resemble each other by the words of their captions, and a caption of such a photo to misread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.text.tokenization.porter import stem
from capmeter.transforms.perturbations import is_content, strip_punctuation
from capmeter_research.common.corpus import Photo

AMONG = 10
_ROWS = 500


def near_captions(photos: Sequence[Photo], seed: int = 0) -> list[str]:
    """For each photo, a caption of one of the `AMONG` photos most similar to it, chosen by the seed.

    Similarity is the cosine of the photos' stems of content words, weighted by idf.

    Args:
        photos: of one source, at least two for anything to be found; the only photo has "".
        seed: of the choices.
    """
    photo_count = len(photos)
    if photo_count < 2:
        return [""] * photo_count
    stem_vectors = _weighted(photos)
    columns = stem_vectors.T.tocsr()
    rng = np.random.default_rng(seed)
    neighbour_count = min(AMONG, photo_count - 1)
    similar_captions: list[str] = []
    for block_start in range(0, photo_count, _ROWS):
        similarity = (stem_vectors[block_start : block_start + _ROWS] @ columns).toarray()
        block_rows = np.arange(len(similarity))
        similarity[block_rows, block_start + block_rows] = -1
        nearest_photos = np.argpartition(-similarity, neighbour_count - 1, axis=1)[:, :neighbour_count]
        sampled_photos = np.sort(nearest_photos, axis=1)[block_rows, rng.integers(0, neighbour_count, len(block_rows))]
        similar_captions += [
            photos[other_photo].captions[int(rng.integers(len(photos[other_photo].captions)))]
            for other_photo in sampled_photos.tolist()
        ]
    return similar_captions


def _weighted(photos: Sequence[Photo]) -> Any:
    """Unit vectors of the photos: [photos, stems], sparse."""
    from scipy.sparse import csr_array

    word_ids: dict[str, int] = {}
    stems: dict[str, int] = {}  # of words as they are written; -1: no content word
    column_ids: list[int] = []
    stem_counts: list[int] = []
    row_offsets = [0]
    for photo in photos:
        document_counts: Counter[int] = Counter()
        for caption in photo.captions:
            for word in caption.split():
                if word not in stems:
                    plain_word = strip_punctuation(word)
                    stems[word] = word_ids.setdefault(stem(plain_word), len(word_ids)) if is_content(plain_word) else -1
                document_counts[stems[word]] += 1
        del document_counts[-1]
        column_ids += document_counts
        stem_counts += document_counts.values()
        row_offsets.append(len(column_ids))
    csr_parts = np.array(stem_counts, np.float32), np.array(column_ids, np.int32), np.array(row_offsets, np.int32)
    stem_vectors: Any = csr_array(csr_parts, (len(photos), len(word_ids)))
    photo_counts = np.bincount(stem_vectors.indices, minlength=len(word_ids))
    stem_vectors.data *= np.log(len(photos) / np.maximum(photo_counts, 1)).astype(np.float32)[stem_vectors.indices]
    norms: npt.NDArray[np.float32] = np.sqrt(np.asarray(stem_vectors.multiply(stem_vectors).sum(axis=1)).ravel())
    norms[norms == 0] = 1
    stem_vectors.data *= np.repeat(1 / norms, np.diff(stem_vectors.indptr))
    return stem_vectors
