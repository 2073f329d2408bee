"""Captions in: from files of every common format, from lists and dicts, whole or in parts.

>>> captions = load(["a dog runs", "two cats"], references=[["a dog is running"], ["two cats sleep", "cats"]])
>>> captions["1"].references
('two cats sleep', 'cats')
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from capmeter.captions.formats import open_reading
from capmeter.captions.joining import How, OnMissing, Source, Sources, final_ids, joined
from capmeter.captions.matching import ReferenceTable
from capmeter.captions.model import CaptionSet


def load(
    candidates: Source,
    references: Source | None = None,
    *,
    format: str | None = None,
    references_format: str | None = None,
    on_missing: OnMissing = "error",
    system: str | None = None,
    split: str | None = None,
) -> CaptionSet:
    """Reads captions whole.

    `candidates` is a file in any of the formats of `capmeter.captions.formats.NAMES`, told by its content (or named by
    `format`), plain or gzipped, or what such a file holds: a list or a dict. References stand in the same rows, or in
    `references`, in any format too; then those count.

    A candidate without references is an `InputError` (`on_missing="error"`), is left out and noted (`"skip"`), or stays
    for metrics that need none (`"keep"`). `system` chooses one of several systems; `split` the images of one split, of
    the references where they lie apart. What is worth knowing about the whole is in the set's `notes`: `skipped_…` or
    `kept_without_references`, `references_without_candidate`, `repeated_candidates`, and `matched_by` where images are
    not the same by id.
    """
    how = How(format=format, references_format=references_format, on_missing=on_missing, system=system, split=split)
    found = joined(Sources(candidates, references, how))
    return CaptionSet.from_captions(found.captions, notes=found.notes)


def load_systems(
    candidates: Source,
    references: Source | None = None,
    *,
    format: str | None = None,
    references_format: str | None = None,
    on_missing: OnMissing = "error",
    split: str | None = None,
) -> dict[str, CaptionSet]:
    """Reads captions of several systems (`system` in a row, or `captions: {system: text}`): one set for each.

    The sets share their analyses. Captions of no named system are called by the file's name.
    """
    how = How(format=format, references_format=references_format, on_missing=on_missing, split=split)
    found = joined(Sources(candidates, references, how))
    whole = CaptionSet.from_captions(found.captions, notes=found.notes)
    places: dict[str, list[int]] = {}
    for place, system in enumerate(whole.systems):
        places.setdefault(system or _name_of(candidates), []).append(place)
    if len(places) == 1:
        return dict.fromkeys(places, whole)
    return {
        system: _renamed(
            whole.select(np.array(chosen)), final_ids([found.rows[place] for place in chosen]), found.notes
        )
        for system, chosen in places.items()
    }


def load_references(
    references: Source, *, format: str | None = None, split: str | None = None
) -> dict[str, tuple[str, ...]]:
    """Reads references alone: each image's, by its id."""
    reading = open_reading(references, format, side="references")
    return ReferenceTable.collect(reading.rows("references"), reading.name, split).references


def _renamed(part: CaptionSet, ids: list[str], notes: dict[str, list[str]]) -> CaptionSet:
    """The part of one system: its ids need not tell it from other systems."""
    return CaptionSet(
        ids=tuple(ids),
        image_ids=part.image_ids,
        pool=part.pool,
        candidates=part.candidates,
        references=part.references,
        images=part.images,
        systems=part.systems,
        humans=part.humans,
        notes=notes,
    )


def _name_of(candidates: Source) -> str:
    if not isinstance(candidates, str | os.PathLike):
        return "candidates"
    name = Path(candidates).name
    return name.removesuffix(".gz").rpartition(".")[0] or name
