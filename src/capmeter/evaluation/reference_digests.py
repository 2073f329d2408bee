"""A digest of each image's references: enough to check that two systems were scored against the same ones.

A caption's digest is 64 bits of BLAKE2 over its sorted references; an image's is the sum (mod 2⁶⁴) of the distinct
digests of its captions. Neither the order of the references nor the number of captions of an image changes it. A run
stores eight bytes per caption, so that streamed captions can be compared too.

>>> from capmeter.captions.load import load
>>> both, turned, one = (load(["a dog"], [each]) for each in (["a dog", "dogs"], ["dogs", "a dog"], ["dogs"]))
>>> digest_references(both) == digest_references(turned), digest_references(both) == digest_references(one)
(array([ True]), array([False]))
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.ragged import differ

Digests = npt.NDArray[np.uint64]
NO_DIGESTS: Digests = np.zeros(0, np.uint64)


def digest_references(captions: CaptionSet) -> Digests:
    """The digest of each caption's references: (captions)."""
    reference_sets, sentences = captions.reference_sets, captions.pool.sentences
    digests = [_digest([sentences[k] for k in reference_sets[row].tolist()]) for row in range(len(reference_sets))]
    return np.array(digests, np.uint64)[captions.reference_set_indices]


def digest_images(digests: Digests, images: Sequence[str]) -> Digests:
    """The digest of each image, in order of first occurrence (images), from those of its captions (captions)."""
    image_row: dict[str, int] = {}
    image_rows = np.fromiter((image_row.setdefault(image, len(image_row)) for image in images), np.int64, len(images))
    order = np.lexsort((digests, image_rows))
    image_rows, digests = image_rows[order], digests[order]
    is_distinct = differ(image_rows) | differ(digests)
    image_digests: Digests = np.zeros(len(image_row), np.uint64)
    np.add.at(image_digests, image_rows[is_distinct], digests[is_distinct])  # wraps at 2⁶⁴
    return image_digests


def _digest(references: Sequence[str]) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for reference_text in sorted(references):
        encoded = reference_text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)  # with its length: no two lists have the same bytes
    return int.from_bytes(digest.digest(), "little")
