"""Similarity between the images of a set: what "a caption of a similar image" means.

Images are compared by the words of their references, or by image features or a function that the user provides. Only
one image's similarities are in memory at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.arrays import read_npz
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.text.tokenization.porter import stem
from capmeter.transforms.perturbations import is_content, strip_punctuation

Floats = npt.NDArray[np.float64]
Similarity = str | Callable[[Sequence[str], Sequence[str]], Any]
"""`tf-idf`, `random`, an .npz file of features, or a function of two lists of image ids that returns a matrix (higher
means more similar)."""


class Neighbours:
    """For each caption, the captions of other images from the most to the least similar."""

    def __init__(
        self,
        images: Sequence[str],
        rows: dict[str, list[int]],
        image_ids: Sequence[str],
        similarities: Callable[[int], Floats],
    ) -> None:
        self._images, self._rows, self._image_ids, self._similarities = images, rows, image_ids, similarities
        self._index = {image_id: image_index for image_index, image_id in enumerate(images)}
        self._last: tuple[tuple[int, int], npt.NDArray[np.intp]] | None = None

    @classmethod
    def find(cls, captions: CaptionSet, similarity: Similarity = "tf-idf") -> Neighbours:
        """The neighbours in this set; ties are broken by image id."""
        rows: dict[str, list[int]] = {}
        for caption_row in sorted(range(len(captions)), key=lambda caption_row: captions.ids[caption_row]):
            rows.setdefault(captions.image_ids[caption_row], []).append(caption_row)
        image_ids = sorted(rows)
        if len(image_ids) < 2:
            raise InputError(f"captions of other images need at least two images, but the set has {len(image_ids)}")
        return cls(image_ids, rows, captions.image_ids, _similarity_rows(captions, image_ids, rows, similarity))

    def rows(self, row: int, share: float, fraction: float, number: int = 0) -> list[int]:
        """The captions of one other image, chosen from the given share of images most similar to this caption's.

        `fraction` in [0, 1) chooses one of them; there is always at least the nearest image. `number`: choose from this
        number of most similar images instead.

        Args:
            row: of a caption.
            share: of the most similar images.
            fraction: in [0, 1), which of them.
            number: of images to choose from instead of a share; 0: none.
        """
        nearest_images = self.nearest(row, number)
        eligible_count = len(nearest_images) if number else max(1, int(share * len(nearest_images) + 0.5))
        return self.captions_of(int(nearest_images[int(fraction * eligible_count)]))

    def nearest(self, row: int, number: int = 0) -> npt.NDArray[np.intp]:
        """The other images, from the most to the least similar to this caption's; `number`: only this many of them."""
        image_index = self._index[self._image_ids[row]]
        if self._last is None or self._last[0] != (image_index, number):
            similarities = np.asarray(self._similarities(image_index), float).copy()
            similarities[image_index] = -np.inf
            count = min(number, len(similarities) - 1) or len(similarities) - 1
            eligible = np.flatnonzero(similarities >= np.partition(similarities, -count)[-count])
            order = eligible[np.argsort(-similarities[eligible], kind="stable")][:count]
            self._last = (image_index, number), order
        return self._last[1]

    def captions_of(self, image: int) -> list[int]:
        """The rows of the captions of an image in `nearest`."""
        return self._rows[self._images[image]]


def _similarity_rows(
    captions: CaptionSet, images: list[str], rows: dict[str, list[int]], similarity: Similarity
) -> Callable[[int], Floats]:
    """The function that gives the similarities of the k-th image to all: float64[images]."""
    if not isinstance(similarity, str):
        function = similarity
        return lambda k: _check_matrix(function([images[k]], images), (1, len(images)))[0]
    if similarity == "random":
        seeds = [list(each.encode("utf-8", "surrogatepass")) for each in images]  # the same order at each call
        return lambda k: np.random.default_rng(seeds[k]).random(len(images))
    if similarity == "tf-idf":
        return _Cosines(_words(captions, images, rows))
    if similarity.endswith(".npz"):
        return _Cosines(_features(similarity, images))
    raise InputError(f"unknown similarity {similarity!r}; expected tf-idf, random, or an .npz file of features")


def _words(captions: CaptionSet, image_ids: list[str], rows_by_image: dict[str, list[int]]) -> Any:
    """For each image the stems of its references' content words, weighted by rarity across images: [n, stems]."""
    from scipy.sparse import csr_array

    stem_columns: dict[str, int] = {}
    cell_counts: list[int] = []
    cell_columns: list[int] = []
    row_offsets = [0]
    for image_id in image_ids:
        reference_indices = {index for row in rows_by_image[image_id] for index in captions.references[row].tolist()}
        reference_words = (word for index in sorted(reference_indices) for word in captions.pool[index].split())
        stem_counts = Counter(stem(strip_punctuation(word)) for word in reference_words if is_content(word))
        cell_columns.extend(stem_columns.setdefault(word, len(stem_columns)) for word in stem_counts)
        cell_counts.extend(stem_counts.values())
        row_offsets.append(len(cell_columns))
    matrix_parts = np.array(cell_counts, np.float64), np.array(cell_columns, np.int32), np.array(row_offsets, np.int32)
    stem_table: Any = csr_array(matrix_parts, (len(image_ids), len(stem_columns)))
    images_with = np.bincount(stem_table.indices, minlength=len(stem_columns))
    stem_table.data *= np.log(len(image_ids) / images_with)[stem_table.indices]
    return stem_table


def _features(path: str, image_ids: list[str]) -> Floats:
    """Features from an .npz file, in the order of the images."""
    expected = f"{path}: expected an .npz file with `image_ids` [n] and `features` [n, d]"
    try:
        id_array, feature_array = read_npz(path, "image_ids", "features")
        file_ids, features = [str(each) for each in id_array.ravel().tolist()], np.asarray(feature_array, float)
    except (ValueError, TypeError) as problem:
        raise InputError(f"{expected} ({problem})") from problem
    if features.ndim != 2 or len(features) != len(file_ids) or not np.isfinite(features).all():
        raise InputError(f"{expected}, all finite; got {len(file_ids)} ids and features of shape {features.shape}")
    row_of = {id: k for k, id in enumerate(file_ids)}
    missing_images = [image_id for image_id in image_ids if image_id not in row_of]
    if missing_images:
        have = format_count(len(missing_images), "image has", "images have")
        raise InputError(f"{path}: {have} no features; add them (the first: {', '.join(missing_images[:5])})")
    return features[[row_of[image_id] for image_id in image_ids]]


class _Cosines:
    """Rows of the cosine matrix of a dense or sparse table; a row of zeros is similar to nothing."""

    def __init__(self, table: Any) -> None:
        row_norms = np.sqrt(np.asarray((table * table).sum(axis=1), float)).ravel()
        row_norms[row_norms == 0] = 1.0
        self._table, self._norms = table, row_norms
        self._columns = None if isinstance(table, np.ndarray) else table.T.tocsc()

    def __call__(self, row: int) -> Floats:
        table, row_norms = self._table, self._norms
        if self._columns is None:
            return cast(Floats, table @ table[row] / (row_norms * row_norms[row]))
        return cast(Floats, (table[[row]] @ self._columns).toarray().ravel() / (row_norms * row_norms[row]))


def _check_matrix(matrix: Any, expected_shape: tuple[int, int]) -> Floats:
    array = np.asarray(matrix, float)
    if array.shape != expected_shape or not np.isfinite(array).all():
        raise InputError(
            f"the similarity function returned shape {array.shape}; expected finite numbers of shape {expected_shape}"
        )
    return array
