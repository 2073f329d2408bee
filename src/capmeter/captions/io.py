"""Captions in: from files of every common format, from lists and dicts, whole or in parts.

>>> captions = load(["a dog runs", "two cats"], references=[["a dog is running"], ["two cats sleep", "cats"]])
>>> captions["1"].references
('two cats sleep', 'cats')
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from capmeter.captions.formats import open_reading
from capmeter.captions.joining import How, OnMissing, Source, Sources, joined, name_of
from capmeter.captions.matching import ReferenceTable
from capmeter.captions.model import CaptionSet
from capmeter.captions.rows import Row


def load(
    candidates: Source,
    references: Source | None = None,
    *,
    format: str | None = None,
    references_format: str | None = None,
    on_missing: OnMissing = "error",
    system: str | None = None,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    images_root: str | os.PathLike[str] = "",
    regions: str | os.PathLike[str] = "",
) -> CaptionSet:
    """Reads captions whole.

    `candidates` is a file in any of the formats of `capmeter.captions.formats.NAMES`, detected from its content (or
    given as `format`), plain or gzipped, or the content of such a file: a list or a dict. References are in the same
    rows, or in `references`, also in any format, which takes precedence.

    A candidate without references is an `InputError` (`on_missing="error"`), is left out and noted (`"skip"`), or stays
    for metrics that need none (`"keep"`). `system` chooses one of several systems; `split` the images of one split (of
    the references, if they are separate). `columns` maps other column names to fields, such as
    `{"hyp": "candidate", "gt_1": "references", "gt_2": "references"}`. Relative paths of pictures are resolved against
    `images_root`, where the pictures of captions that name none are found by image id (`picture_files`); `regions` is a
    folder or an LMDB with the pictures' regions. The set's `notes` say what was adjusted: `skipped_…` or
    `kept_without_references`, `references_without_candidate`, `repeated_candidates`, and `matched_by` if images were
    not matched by id.
    """
    how = How(
        format=format,
        references_format=references_format,
        on_missing=on_missing,
        system=system,
        split=split,
        columns=columns,
        images_root=os.fspath(images_root),
        regions=os.fspath(regions),
    )
    found = joined(Sources(candidates, references, how))
    return CaptionSet.from_captions(found.captions, notes=found.notes, images_root=how.images_root, regions=how.regions)


def load_systems(
    candidates: Source,
    references: Source | None = None,
    *,
    format: str | None = None,
    references_format: str | None = None,
    on_missing: OnMissing = "error",
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    images_root: str | os.PathLike[str] = "",
    regions: str | os.PathLike[str] = "",
) -> dict[str, CaptionSet]:
    """Reads captions of several systems (`system` in a row, or `captions: {system: text}`): one set for each.

    The sets share their analyses. Captions without a system name get the file's name.
    """
    how = How(
        format=format,
        references_format=references_format,
        on_missing=on_missing,
        split=split,
        columns=columns,
        images_root=os.fspath(images_root),
        regions=os.fspath(regions),
    )
    sources = Sources(candidates, references, how)
    made = functools.partial(CaptionSet.from_captions, images_root=how.images_root, regions=how.regions)
    rows: dict[str, list[Row]] = {}
    for row in sources.rows():
        rows.setdefault(row.system or name_of(candidates), []).append(row)
    found = {system: joined(sources, own) for system, own in rows.items()}
    if len(found) == 1:
        return {
            system: CaptionSet.from_captions(
                own.captions, notes=own.notes, images_root=how.images_root, regions=how.regions
            )
            for system, own in found.items()
        }
    everything = [caption for own in found.values() for caption in own.captions]
    numbered = (replace(caption, id=str(place)) for place, caption in enumerate(everything))
    whole = made(numbered)
    systems: dict[str, CaptionSet] = {}
    start = 0
    for system, own in found.items():
        stop = start + len(own.captions)
        systems[system] = whole.select(np.arange(start, stop)).renamed(
            [caption.id for caption in own.captions], own.notes
        )
        start = stop
    return systems


def load_references(
    references: Source,
    *,
    format: str | None = None,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> dict[str, tuple[str, ...]]:
    """Reads references only, by image id.

    >>> load_references({"7": ["a dog", "a puppy"]})
    {'7': ('a dog', 'a puppy')}
    """
    return load_reference_table(references, format=format, split=split, columns=columns).references


def load_reference_table(
    references: Source,
    *,
    format: str | None = None,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> ReferenceTable:
    """Reads references, and the pictures that their file names (`images`), by image id."""
    reading = open_reading(references, format, side="references", columns=columns)
    return ReferenceTable.collect(reading.rows("references"), reading.name, split)
