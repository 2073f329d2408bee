"""Similarity between the images of a set: what "a caption of a similar image" means.

Images are compared by the words of their references, by a metric, or by image features or a function that the user
provides. Only one image's similarities are in memory at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
"""`tf-idf`, `random`, a metric's name, an .npz file of features, or a function of two lists of image ids that returns a
matrix (higher means more similar)."""
_BLOCK = 1 << 24  # cells of a similarity matrix at a time
Scorer = Callable[[CaptionSet, npt.NDArray[np.intp], str], Floats]
"""Scores by a named metric of the captions of some rows against the references of every row: float64[references,
candidates]. Provided by code that can run metrics."""


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
        self._index = {image: k for k, image in enumerate(images)}
        self._last: tuple[int, npt.NDArray[np.intp]] | None = None

    @classmethod
    def of(cls, captions: CaptionSet, similarity: Similarity = "tf-idf", scorer: Scorer | None = None) -> Neighbours:
        """The neighbours in this set; ties are broken by image id."""
        rows: dict[str, list[int]] = {}
        for row in sorted(range(len(captions)), key=lambda row: captions.ids[row]):
            rows.setdefault(captions.image_ids[row], []).append(row)
        images = sorted(rows)
        if len(images) < 2:
            raise InputError(f"captions of other images need at least two images, but the set has {len(images)}")
        return cls(images, rows, captions.image_ids, _similarity_rows(captions, images, rows, similarity, scorer))

    def rows(self, row: int, share: float, fraction: float, number: int = 0) -> list[int]:
        """The captions of one other image, chosen from the given share of images most similar to this caption's.

        `fraction` in [0, 1) chooses one of them; there is always at least the nearest image. `number`: choose from this
        number of most similar images instead.
        """
        nearest = self.nearest(row)
        eligible = min(number, len(nearest)) if number else max(1, int(share * len(nearest) + 0.5))
        return self._rows[self._images[int(nearest[int(fraction * eligible)])]]

    def nearest(self, row: int) -> npt.NDArray[np.intp]:
        """The other images, from the most to the least similar to this caption's."""
        image = self.image_of(row)
        if self._last is None or self._last[0] != image:
            similarities = np.asarray(self._similarities(image), float).copy()
            similarities[image] = -np.inf
            self._last = image, np.argsort(-similarities, kind="stable")[:-1]
        return self._last[1]

    def most_similar(self, number: int) -> npt.NDArray[np.intp]:
        """For each image the `number` most similar others, [images, number], ties broken by image id."""
        number = min(number, len(self._images) - 1)
        nearest = np.empty((len(self._images), number), np.intp)
        blocks = self._similarities.blocks() if isinstance(self._similarities, _Cosines) else None
        rows = (row for block in blocks for row in block) if blocks else map(self._similarities, range(len(nearest)))
        for image, row in enumerate(rows):
            similarities = np.asarray(row, float).copy()
            similarities[image] = -np.inf
            eligible = np.flatnonzero(similarities >= np.partition(similarities, -number)[-number])
            nearest[image] = eligible[np.argsort(-similarities[eligible], kind="stable")][:number]
        return nearest

    def image_of(self, row: int) -> int:
        """The position of a caption's image in `most_similar`."""
        return self._index[self._image_ids[row]]

    def captions_of(self, image: int) -> list[int]:
        """The rows of the captions of an image in `nearest`."""
        return self._rows[self._images[image]]


def _similarity_rows(
    captions: CaptionSet, images: list[str], rows: dict[str, list[int]], similarity: Similarity, scorer: Scorer | None
) -> Callable[[int], Floats]:
    """The function that gives the similarities of the k-th image to all: float64[images]."""
    if not isinstance(similarity, str):
        function = similarity
        return lambda k: _check_matrix(function([images[k]], images), (1, len(images)), "the similarity function")[0]
    if similarity == "random":
        return _random(images)
    if similarity == "tf-idf":
        return _Cosines(_words(captions, images, rows))
    if similarity.endswith(".npz"):
        return _Cosines(_features(similarity, images))
    if scorer is None:
        raise InputError(
            f"unknown similarity {similarity!r}; expected tf-idf, random, or an .npz file of features (a metric's name "
            "is accepted where metrics are run)"
        )
    scores = scorer(captions, np.array([rows[image][0] for image in images]), similarity)
    return lambda k: scores[k]


def _random(images: list[str]) -> Callable[[int], Floats]:
    """A random order of the other images for each image, the same at each call."""
    return lambda k: np.random.default_rng(list(images[k].encode("utf-8", "surrogatepass"))).random(len(images))


def _words(captions: CaptionSet, images: list[str], rows: dict[str, list[int]]) -> Any:
    """For each image the stems of its references' content words, weighted by rarity across images: [n, stems]."""
    from scipy.sparse import csr_array

    stems: dict[str, int] = {}
    counts: list[int] = []
    columns: list[int] = []
    offsets = [0]
    for image in images:
        references = {index for row in rows[image] for index in captions.references[row].tolist()}
        words = (word for index in sorted(references) for word in captions.pool[index].split())
        stem_counts = Counter(stem(strip_punctuation(word)) for word in words if is_content(word))
        columns.extend(stems.setdefault(word, len(stems)) for word in stem_counts)
        counts.extend(stem_counts.values())
        offsets.append(len(columns))
    parts = np.array(counts, np.float64), np.array(columns, np.int32), np.array(offsets, np.int32)
    table: Any = csr_array(parts, (len(images), len(stems)))
    images_with = np.bincount(table.indices, minlength=len(stems))
    table.data *= np.log(len(images) / images_with)[table.indices]
    return table


def _features(path: str, images: list[str]) -> Floats:
    """Features from an .npz file, in the order of the images."""
    expected = f"{path}: expected an .npz file with `image_ids` [n] and `features` [n, d]"
    try:
        id_array, feature_array = read_npz(path, "image_ids", "features")
        ids, features = [str(each) for each in id_array.ravel().tolist()], np.asarray(feature_array, float)
    except (ValueError, TypeError) as problem:
        raise InputError(f"{expected} ({problem})") from problem
    if features.ndim != 2 or len(features) != len(ids) or not np.isfinite(features).all():
        raise InputError(f"{expected}, all finite; got {len(ids)} ids and features of shape {features.shape}")
    row_of = {id: k for k, id in enumerate(ids)}
    missing = [image for image in images if image not in row_of]
    if missing:
        have = format_count(len(missing), "image has", "images have")
        raise InputError(f"{path}: {have} no features; add them (the first: {', '.join(missing[:5])})")
    return features[[row_of[image] for image in images]]


class _Cosines:
    """Rows of the cosine matrix of a dense or sparse table; a row of zeros is similar to nothing."""

    def __init__(self, table: Any) -> None:
        norms = np.sqrt(np.asarray((table * table).sum(axis=1), float)).ravel()
        norms[norms == 0] = 1.0
        self._table, self._norms = table, norms
        self._columns = None if isinstance(table, np.ndarray) else table.T.tocsc()

    def __call__(self, row: int) -> Floats:
        table, norms = self._table, self._norms
        if self._columns is None:
            return cast(Floats, table @ table[row] / (norms * norms[row]))
        return cast(Floats, (table[[row]] @ self._columns).toarray().ravel() / (norms * norms[row]))

    def blocks(self) -> Iterator[Floats]:
        """All rows, many at a time."""
        step = max(1, _BLOCK // len(self._norms))
        for start in range(0, len(self._norms), step):
            block = self._table[start : start + step]
            products = block @ self._table.T if self._columns is None else (block @ self._columns).toarray()
            yield products / (self._norms[start : start + step, None] * self._norms)


def _check_matrix(matrix: Any, shape: tuple[int, int], source: str) -> Floats:
    array = np.asarray(matrix, float)
    if array.shape != shape or not np.isfinite(array).all():
        raise InputError(f"{source} returned shape {array.shape}; expected finite numbers of shape {shape}")
    return array
