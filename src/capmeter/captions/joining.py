"""Candidates and their references, brought together from one source or from two."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from capmeter.captions.formats import Reading, open_reading
from capmeter.captions.matching import Matching, ReferenceTable
from capmeter.captions.model import Caption
from capmeter.captions.picture_files import PictureFiles
from capmeter.captions.rows import Row, named, refuse_paths, shortened
from capmeter.captions.standard_input import NAME as STANDARD_INPUT
from capmeter.captions.standard_input import is_standard_input
from capmeter.errors import InputError

Source = str | os.PathLike[str] | Mapping[Any, Any] | Sequence[Any]
"""A file, or what a file of captions may hold."""
OnMissing = Literal["error", "skip", "keep"]


@dataclass(frozen=True, kw_only=True)
class How:
    """How captions are read; see `load` for the meaning of each."""

    format: str | None = None
    references_format: str | None = None
    on_missing: OnMissing = "error"
    system: str | None = None
    split: str | None = None
    columns: Mapping[str, str] | None = None
    images_root: str = ""
    regions: str = ""

    def __post_init__(self) -> None:
        if self.on_missing not in ("error", "skip", "keep"):
            raise InputError(f"on_missing is {self.on_missing!a}, expected 'error', 'skip' or 'keep'")


class Sources:
    """Candidates and, if in a separate source, the references of all images."""

    def __init__(self, candidates: Source, references: Source | None, how: How) -> None:
        self.how = how
        self.reading: Reading = open_reading(candidates, how.format, columns=how.columns)
        self.references_format: str | None = None
        self.table: ReferenceTable | None = None
        self._met: set[str] = set()
        self._pictures = PictureFiles(how.images_root) if how.images_root else None
        if references is not None:
            next(self.reading.rows("candidates"), None)  # errors in the candidates are reported first
            reading = open_reading(references, how.references_format, side="references", columns=how.columns)
            self.references_format = reading.format
            self.table = ReferenceTable.collect(reading.rows("references"), reading.name, how.split)
            self._met = reading.columns.met
            texts = [text for texts in self.table.references.values() for text in texts]
            refuse_paths(texts, reading.name, "references")

    def rows(self) -> Iterator[Row]:
        """The candidates, those of one system or split where one was asked for."""
        system, split = self.how.system, self.how.split if self.table is None else None
        others: set[str] = set()
        found = False
        for row in self.reading.rows("candidates"):
            if system is not None and row.system != system:
                others.add(f"system {row.system}" if row.system else "captions without a system name")
            elif split is not None and row.split != split:
                others.add(f"split {row.split}" if row.split else "captions without a named split")
            else:
                found = True
                if row.image is None and self._pictures is not None:
                    row.image = self._pictures.find(row.image_id)
                yield row
        absent = [name for name in self.how.columns or {} if name not in self._met | self.reading.columns.met]
        if absent:
            raise InputError(
                f"{self.reading.name}: no row has the column {named(absent)} that was chosen for "
                f"{(self.how.columns or {})[absent[0]]}; the unknown ones are "
                f"{named(sorted(self.reading.ignored), 8) or 'none'}"
            )
        if not found:
            asked = " and ".join(f"{what} {value!a}" for what, value in (("system", system), ("split", split)) if value)
            had = f" of {asked}; it has {named(sorted(others), 12)}" if asked and others else ""
            raise InputError(f"{self.reading.name}: there are no candidates{had}")

    def matching(self, image_ids: Iterable[str]) -> Matching | None:
        """How these images find their references in the table."""
        return None if self.table is None else Matching.best(image_ids, self.table)

    def references(self, row: Row, matching: Matching | None) -> tuple[str, ...]:
        """The references of this candidate: those of the separate source, else its own."""
        return row.references or () if self.table is None else self.references_of(row.image_id, matching)

    def references_of(self, image_id: str, matching: Matching | None) -> tuple[str, ...]:
        """The references of this image in the separate source."""
        key = None if matching is None else matching.find(image_id)
        return () if key is None or self.table is None else self.table.references[key]

    def caption(self, row: Row, id: str, references: tuple[str, ...], matching: Matching | None) -> Caption:
        """The row under its final id, with its references."""
        image = row.image
        if image is None and self.table is not None and self.table.images and matching is not None:
            image = self.table.images.get(matching.find(row.image_id) or "")
        return Caption(id, row.image_id, row.candidate or "", references, image, row.system, row.human)


@dataclass
class Missing:
    """How many of the candidates have no references, and the first of them by image."""

    total: int = 0
    count: int = 0
    first: list[str] = field(default_factory=list)
    more: bool = False

    def see(self, image_id: str, candidates: int, has_references: bool) -> None:
        """Counts candidates of one image."""
        self.total += candidates
        if not has_references:
            self.count += candidates
            if image_id not in self.first:
                if len(self.first) < 5:
                    self.first.append(image_id)
                else:
                    self.more = True

    def refuse(self, sources: Sources, unused: list[str]) -> None:
        """Raises where candidates without references are an error, or where no others are left."""
        how, name, table = sources.how, sources.reading.name, sources.table
        if not self.count or how.on_missing == "keep" or (how.on_missing == "skip" and self.count < self.total):
            return
        message = (
            f"{name}: {self.count:,} of {self.total:,} candidates {'has' if self.count == 1 else 'have'} no references"
        )
        first = ", ".join(shortened(image_id)[1:-1] for image_id in self.first)
        more = " and more" if self.more else ""
        if table is None:
            raise InputError(
                f"{message}: {first}{more}. Name a file of references (references=, --references), leave these out "
                "(on_missing='skip', --on-missing skip), or keep them for metrics that need none (on_missing='keep')"
            )
        message += f" in {table.name}: {first}{more}."
        if unused:
            message += f" {len(unused):,} images there have no candidate: {named(unused)}."
        raise InputError(
            f"{message} Check that both are of the same split and name the images alike, or leave these candidates out "
            "(on_missing='skip', --on-missing skip)"
        )


def unused_references(sources: Sources, matching: Matching | None, image_ids: Iterable[str]) -> list[str]:
    """The images with references but no candidate, in the splits that the candidates belong to."""
    table = sources.table
    if table is None or matching is None:
        return []
    matched = {matching.find(image_id) for image_id in image_ids}
    splits = {table.splits.get(image_id) for image_id in matched if image_id is not None}
    return [
        image_id
        for image_id in table.references
        if image_id not in matched and (not splits or table.splits.get(image_id) in splits)
    ]


@dataclass
class Joined:
    """Candidates with their references, and notes about the whole."""

    rows: list[Row]
    captions: list[Caption]
    notes: dict[str, list[str]]


def joined(sources: Sources, rows: Sequence[Row] | None = None) -> Joined:
    """These candidates (None: all) with their references, whole in memory."""
    rows = list(sources.rows()) if rows is None else rows
    images = Counter(row.image_id for row in rows)
    refuse_paths([row.candidate or "" for row in rows], sources.reading.name, "candidates")
    refuse_paths([text for row in rows[:1000] for text in row.references or ()], sources.reading.name, "references")
    refuse_mispaired(sources, images)
    matching = sources.matching(images)
    unused = unused_references(sources, matching, images)
    missing = Missing()
    kept: list[Row] = []
    captions: list[Caption] = []
    without: list[str] = []
    for row, id in zip(rows, final_ids(rows), strict=True):
        references = sources.references(row, matching)
        missing.see(row.image_id, 1, bool(references))
        if not references:
            without.append(id)
            if sources.how.on_missing != "keep":
                continue
        kept.append(row)
        captions.append(sources.caption(row, id, references, matching))
    missing.refuse(sources, unused)
    repeated = repeated_candidates(kept, [caption.id for caption in captions])
    notes = {
        "skipped_without_references" if sources.how.on_missing == "skip" else "kept_without_references": without,
        "references_without_candidate": unused,
        "repeated_candidates": repeated,
        "matched_by": [matching.way] if matching is not None and matching.way != "image id" else [],
    }
    return Joined(kept, captions, {reason: ids for reason, ids in notes.items() if ids})


def final_ids(rows: Sequence[Row]) -> list[str]:
    """The id of each candidate: its own, else its image's where that is unique, else `image#k` for the k-th."""
    counts = Counter(row.image_id for row in rows)
    places: Counter[str] = Counter()
    ids: list[str] = []
    for row in rows:
        image_id = row.image_id
        if row.id is not None:
            ids.append(row.id)
        elif counts[image_id] == 1:
            ids.append(image_id)
        else:
            ids.append(f"{image_id}#{places[image_id]}")
        places[image_id] += 1
    if len(set(ids)) != len(ids):
        first: dict[str, Row] = {}
        for id, row in zip(ids, rows, strict=True):
            refuse_repeated_id(row, id, first)
    return ids


def refuse_repeated_id(row: Row, id: str, first: dict[str, Row]) -> None:
    """Raises where this id was given to an earlier row, and remembers it."""
    if id in first:
        raise InputError(
            f"{row.place}: duplicate id {id!a}, also at {first[id].place}; scores are keyed by id: give each "
            "candidate an id of its own, or leave the ids out"
        )
    first[id] = row


def refuse_mispaired(sources: Sources, counts: Mapping[str, int]) -> None:
    """Lists of different lengths; several candidates for every image and one reference each, so likely swapped."""
    table, format = sources.table, sources.reading.format
    if table is None:
        return
    if format == "list" == sources.references_format and len(counts) != len(table.references):
        raise InputError(
            f"there are {len(counts):,} candidates, but {len(table.references):,} lists of references; in lists the "
            "k-th belongs to the k-th: give each candidate a list"
        )
    if format not in ("coco", "pycocoevalcap", "clipscore"):
        return
    if min(counts.values()) > 1 and all(len(texts) == 1 for texts in table.references.values()):
        raise InputError(
            f"{sources.reading.name} has {max(counts.values())} candidates for an image, {table.name} one reference "
            "for each; are the two swapped? If these are samples of a system, give them as rows of JSON lines"
        )


def repeated_candidates(rows: Sequence[Row], ids: Sequence[str]) -> list[str]:
    """The ids of candidates that their image had before, of the same system (a padded data loader writes such)."""
    counts = Counter(row.image_id for row in rows)
    if len(counts) == len(rows):
        return []
    seen: set[tuple[str, str | None, str | None]] = set()
    repeated: list[str] = []
    for row, id in zip(rows, ids, strict=True):
        key = (row.image_id, row.system, row.candidate)
        if key in seen:
            repeated.append(id)
        seen.add(key)
    return repeated


def name_of(candidates: Source) -> str:
    """The system name of captions without one: the file's name without its ending."""
    if not isinstance(candidates, str | os.PathLike):
        return "candidates"
    if is_standard_input(candidates):
        return STANDARD_INPUT
    name = Path(candidates).name
    return name.removesuffix(".gz").rpartition(".")[0] or name
