"""Pairs without judges: each reference of an image against one of another image; the other references of the image must
tell them apart.

Any file with several references of each image is such a benchmark, in any language. The other image is the next one of
a seeded order (`random`), or the nearest by its references' words (`similar`), weighted by ln(N / images with the
word). Of a file with captions in several languages (`language`) each language is paired with itself, and the nearest
image is that of the English references, so that all languages have the same pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError
from capmeter.judgments.layouts import JudgmentRow

_BLOCK = 512  # images whose similarities to all others are in memory


def find_other_images(rows: Sequence[JudgmentRow], kind: str, seed: int) -> list[JudgmentRow]:
    """For each row that of another image whose caption it is paired with.

    Args:
        rows: with `image_id` and `references`, and `language` where there are several.
        kind: random or similar.
        seed: of the order of images.

    Raises:
        InputError: a language has one image alone.
    """
    by_language: dict[str, dict[str, JudgmentRow]] = defaultdict(dict)
    languages = [row.text("language") if "language" in row else "" for row in rows]
    for language, row in zip(languages, rows, strict=True):
        by_language[language].setdefault(row.text("image_id"), row)
    english = {image: row.texts("references") for image, row in by_language.get("en", {}).items()}
    others: list[JudgmentRow] = []
    partner_of: dict[str, Mapping[str, str]] = {}
    for language, row in zip(languages, rows, strict=True):
        of_image = by_language[language]
        if len(of_image) < 2:
            raise row.error_at("image_id", "at least two images of each language")
        if language not in partner_of:
            references = {image: english.get(image, each.texts("references")) for image, each in of_image.items()}
            partner_of[language] = _nearest(references) if kind == "similar" else _next_of(sorted(of_image), seed)
        others.append(of_image[partner_of[language][row.text("image_id")]])
    return others


def _next_of(images: Sequence[str], seed: int) -> dict[str, str]:
    order = np.random.default_rng(seed).permutation(len(images))
    return {images[a]: images[b] for a, b in zip(order, np.roll(order, 1), strict=True)}


def _nearest(references: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The image whose references have the highest cosine of tf-idf weighted words with each image's own."""
    from scipy.sparse import csr_array

    images = list(references)
    words: dict[str, int] = {}
    entries = [
        (row, words.setdefault(word, len(words)))
        for row, image in enumerate(images)
        for text in references[image]
        for word in text.lower().split()
    ]
    if not entries:
        raise InputError("the references have no words by which similar images could be found")
    row_indices, columns = np.array(entries).T
    counts = csr_array((np.ones(len(entries)), (row_indices, columns)), shape=(len(images), len(words)))
    counts.sum_duplicates()
    idf = np.log(len(images) / np.bincount(counts.indices, minlength=len(words)))
    weighted = counts.multiply(idf[None, :]).tocsr()
    norms: npt.NDArray[np.float64] = np.sqrt(weighted.multiply(weighted).sum(axis=1))
    unit = weighted.multiply(1 / np.maximum(norms, 1e-12)[:, None]).tocsr()
    nearest: dict[str, str] = {}
    for start in range(0, len(images), _BLOCK):
        block = images[start : start + _BLOCK]
        cosines = (unit[start : start + _BLOCK] @ unit.T).toarray()
        cosines[np.arange(len(block)), np.arange(start, start + len(block))] = -1.0  # not the image itself
        nearest |= {image: images[k] for image, k in zip(block, cosines.argmax(axis=1).tolist(), strict=True)}
    return nearest
