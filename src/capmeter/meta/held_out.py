"""Human captions scored against the other captions of their image, not against themselves.

>>> from capmeter.captions.io import load
>>> captions = load(["a dog runs", "two cats"], references=[["a dog runs", "a dog"], ["cats", "two cats", "two cats"]])
>>> [caption.references for caption in held_out(captions)]
[('a dog',), ('cats', 'two cats')]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import InputError


def held_out(captions: CaptionSet) -> CaptionSet:
    """The captions, each without one copy of itself among its references."""
    return _made([_without(caption, caption.candidate) for caption in captions], captions)


def held_out_of_all(systems: Mapping[str, CaptionSet], human: str) -> dict[str, CaptionSet]:
    """The systems, each without one copy of the image's human caption among its references, so that all have the same
    references.
    """
    written = {caption.image_id: caption.candidate for caption in systems[human]}
    return {
        name: _made([_without(caption, written.get(caption.image_id)) for caption in captions], captions)
        for name, captions in systems.items()
    }


def _without(caption: Caption, sentence: str | None) -> Caption:
    references = list(caption.references)
    if sentence in references:
        references.remove(sentence)
    return replace(caption, references=tuple(references))


def _made(rows: list[Caption], captions: CaptionSet) -> CaptionSet:
    lonely = [caption.id for caption in rows if not caption.references]
    if lonely:
        raise InputError(
            f"{len(lonely)} captions have no reference left when the human caption is held out: "
            f"{', '.join(lonely[:5])}; give images with at least two captions"
        )
    images_root, regions = captions.images_root, captions.regions
    return CaptionSet.from_captions(rows, notes=captions.notes, images_root=images_root, regions=regions)
