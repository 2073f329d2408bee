"""A digest of each image's references: enough to tell whether two systems were scored against the same ones.

A caption's digest is 64 bits of BLAKE2 over its references in sorted order; an image's is the sum (mod 2⁶⁴) of the
distinct digests of its captions. Neither the order of the references nor the number of captions of an image changes it.
Eight bytes per caption are all that a run has to keep, so that captions that were streamed can be compared too.

>>> from capmeter.captions.io import load
>>> both, turned, one = (load(["a dog"], [each]) for each in (["a dog", "dogs"], ["dogs", "a dog"], ["dogs"]))
>>> of_captions(both) == of_captions(turned), of_captions(both) == of_captions(one)
(array([ True]), array([False]))
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import CaptionSet
from capmeter.ragged import differ

Digests = npt.NDArray[np.uint64]
NONE: Digests = np.zeros(0, np.uint64)


def of_captions(captions: CaptionSet) -> Digests:
    """uint64[captions]: the digest of each caption's references."""
    sets, sentences = captions.reference_sets, captions.pool.sentences
    found = [_digest([sentences[k] for k in sets[row].tolist()]) for row in range(len(sets))]
    return np.array(found, np.uint64)[captions.reference_set]


def of_images(digests: Digests, images: Sequence[str]) -> Digests:
    """uint64[images]: from the digest and the image of each caption, that of each image in the order of first use."""
    place: dict[str, int] = {}
    rows = np.fromiter((place.setdefault(image, len(place)) for image in images), np.int64, len(images))
    order = np.lexsort((digests, rows))
    rows, digests = rows[order], digests[order]
    distinct = differ(rows) | differ(digests)
    total: Digests = np.zeros(len(place), np.uint64)
    np.add.at(total, rows[distinct], digests[distinct])  # which wraps at 2⁶⁴
    return total


def _digest(references: Sequence[str]) -> int:
    whole = hashlib.blake2b(digest_size=8)
    for text in sorted(references):
        encoded = text.encode("utf-8", "surrogatepass")
        whole.update(len(encoded).to_bytes(8, "little") + encoded)  # the length: no two lists give the same bytes
    return int.from_bytes(whole.digest(), "little")
