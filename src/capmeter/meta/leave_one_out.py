"""One reference of each image as its candidate, and samples of images: which ones depends on a seed and ids alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError


def leave_one_out(
    references: Mapping[str, Sequence[str]],
    *,
    images: int | None = None,
    seed: int = 0,
    image_files: Mapping[str, str] | None = None,
) -> CaptionSet:
    """One reference of each image as its candidate, the others as its references.

    Which one depends on the seed and the image id only. References identical to the candidate are removed too; an image
    without any other reference is skipped and noted. `images` samples that many of the rest; `image_files`: image id →
    file.
    """
    caption_rows: list[Caption] = []
    skipped: list[str] = []
    for image_id, reference_texts in references.items():
        non_empty = [text for text in reference_texts if text.strip()]
        candidate = non_empty[int(_hash_fraction("reference", seed, image_id) * len(non_empty))] if non_empty else ""
        other_references = tuple(text for text in non_empty if text.strip() != candidate.strip())
        if other_references:
            caption_rows.append(
                Caption(image_id, image_id, candidate, other_references, (image_files or {}).get(image_id))
            )
        else:
            skipped.append(image_id)
    if not caption_rows:
        raise InputError(
            f"none of the {len(skipped)} images has two different references; each image needs two, one to degrade and "
            "one to compare with"
        )
    captions = CaptionSet.from_captions(caption_rows)
    if images is not None:
        captions = captions.select(sample_images(captions, images, seed))
    captions.notes = {"images with less than two different references": skipped} if skipped else {}
    return captions


def sample_images(captions: CaptionSet, images: int, seed: int) -> npt.NDArray[np.intp]:
    """The captions of `images` images, sampled by the seed and their ids only, in the order of the set."""
    if images < 1:
        raise InputError(f"expected at least one image, but got {images}")
    shuffled = sorted(dict.fromkeys(captions.image_ids), key=lambda image: _hash_fraction("image", seed, image))
    sampled_images = set(shuffled[:images])
    return np.array([row for row, image in enumerate(captions.image_ids) if image in sampled_images], np.intp)


def _hash_fraction(purpose: str, seed: int, id: str) -> float:
    """A pseudo-random number in [0, 1), from a hash of the arguments."""
    digest = hashlib.blake2b(f"{purpose}\0{seed}\0{id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)
