"""Human captions scored against the other captions of their image, not against themselves.

`hold_out_candidates` takes candidates that are among their references; `leave_one_out` chooses one reference of each
image as candidate; `load_human_captions` takes every caption of annotations as a candidate.

>>> from capmeter.captions.load import load
>>> captions = load(["a dog runs", "two cats"], references=[["a dog runs", "a dog"], ["cats", "two cats", "two cats"]])
>>> [caption.references for caption in hold_out_candidates(captions)]
[('a dog',), ('cats', 'two cats')]
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load import load, load_references
from capmeter.captions.load_options import LoadOptions, Source
from capmeter.captions.rows import NotCandidates
from capmeter.core.errors import InputError
from capmeter.core.messages import format_count


def load_human_captions(source: Source, options: LoadOptions) -> CaptionSet:
    """Human captions as candidates: as `load` reads them, or every caption of a file that holds references alone.

    The captions of such a file (COCO's annotations, Karpathy's dataset) have the ids IMAGE#0, IMAGE#1 …, and all of the
    image's captions, or those of `options.references`, as references.
    """
    try:
        return load(source, options=options)
    except NotCandidates:
        captions = load_references(source, format=options.format, split=options.split, columns=options.columns)
    references: Mapping[str, Sequence[str]] = captions
    if options.references is not None:
        references = load_references(options.references, format=options.references_format, split=options.split)
    return CaptionSet.from_captions(
        Caption(f"{image_id}#{caption_index}", image_id, caption_text, tuple(references.get(image_id, ())))
        for image_id, image_captions in captions.items()
        for caption_index, caption_text in enumerate(image_captions)
    )


def hold_out_candidates(captions: CaptionSet) -> CaptionSet:
    """The captions, each without one copy of itself among its references."""
    return _with_rows([_without(caption, caption.candidate) for caption in captions], captions)


def hold_out_human_captions(systems: Mapping[str, CaptionSet], human: str) -> dict[str, CaptionSet]:
    """The systems, each without one copy of the image's human caption among its references, so that all have the same
    references.
    """
    human_captions = {caption.image_id: caption.candidate for caption in systems[human]}
    return {
        name: _with_rows([_without(caption, human_captions.get(caption.image_id)) for caption in captions], captions)
        for name, captions in systems.items()
    }


def _without(caption: Caption, sentence: str | None) -> Caption:
    references = list(caption.references)
    if sentence in references:
        references.remove(sentence)
    return replace(caption, references=tuple(references))


def _with_rows(caption_rows: list[Caption], captions: CaptionSet) -> CaptionSet:
    unreferenced = [caption.id for caption in caption_rows if not caption.references]
    if unreferenced:
        count_phrase = format_count(len(unreferenced), "caption has", "captions have")
        raise InputError(
            f"{count_phrase} no reference left when the human caption is held out: "
            f"{', '.join(unreferenced[:5])}; give images with at least two captions"
        )
    images_root, regions = captions.images_root, captions.regions
    return CaptionSet.from_captions(caption_rows, notes=captions.notes, images_root=images_root, regions=regions)


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
