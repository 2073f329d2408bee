"""Human captions scored against the other captions of their image, not against themselves.

`hold_out_candidates` takes candidates that are among their references; `load_human_captions` takes every caption of
annotations as a candidate.

>>> from capmeter.captions.load import load
>>> captions = load(["a dog runs", "two cats"], references=[["a dog runs", "a dog"], ["cats", "two cats", "two cats"]])
>>> [caption.references for caption in hold_out_candidates(captions)]
[('a dog',), ('cats', 'two cats')]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

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
