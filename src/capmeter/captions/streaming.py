"""Captions that do not fit in memory: read again and again in parts of bounded size.

One pass over the file learns what only the whole can tell, in some bytes per caption: which images have several
candidates (their ids get `#k`), whether an id stands twice, whether references are missing.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from capmeter.captions.joining import (
    How,
    Missing,
    OnMissing,
    Source,
    Sources,
    name_of,
    refuse_mispaired,
    refuse_repeated_id,
    unused_references,
)
from capmeter.captions.matching import Matching
from capmeter.captions.model import Caption, CaptionSet
from capmeter.captions.rows import Row, refuse_paths
from capmeter.captions.standard_input import regular
from capmeter.errors import InputError

_SAMPLE = 1000
LARGE = 1 << 28
"""Bytes from which `is_large` calls a file large (a quarter of it for a gzipped one)."""
Hashes = npt.NDArray[np.int64]


def stream(
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
    rows: int = 8192,
) -> CaptionStream:
    """Reads captions in parts of at most `rows`; the arguments are those of `load`, and so are the ids.

    Native rows in JSON lines, CSV, TSV and Parquet are read as they come; a JSON document, and a separate file of
    references, are held in memory.
    """
    if rows < 1:
        raise InputError(f"rows is {rows}, expected a number of captions from 1")
    how = How(
        format=format,
        references_format=references_format,
        on_missing=on_missing,
        system=system,
        split=split,
        columns=columns,
    )
    return CaptionStream(Sources(candidates, references, how), rows, images_root)


def stream_systems(
    candidates: Source,
    references: Source | None = None,
    *,
    format: str | None = None,
    references_format: str | None = None,
    on_missing: OnMissing = "error",
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    images_root: str | os.PathLike[str] = "",
    rows: int = 8192,
) -> dict[str, CaptionStream]:
    """Reads captions of several systems in parts: one stream for each, as `load_systems` gives one set for each."""
    how = How(format=format, references_format=references_format, on_missing=on_missing, split=split, columns=columns)
    found = dict.fromkeys(row.system for row in Sources(candidates, references, how).rows())
    if len(found) == 1:
        (system,) = found
        return {system or name_of(candidates): CaptionStream(Sources(candidates, references, how), rows, images_root)}
    if None in found:
        raise InputError(
            f"{name_of(candidates)}: some captions name their system and some do not; name it in all, or in none"
        )
    return {
        system: CaptionStream(Sources(candidates, references, replace(how, system=system)), rows, images_root)
        for system in found
        if system is not None
    }


def is_large(source: str | os.PathLike[str]) -> bool:
    """Whether a file is so large that it had better be read in parts."""
    path = regular(source)
    limit = LARGE // 4 if path.suffix == ".gz" else LARGE
    return path.is_file() and path.stat().st_size > limit


@dataclass
class _Whole:
    """What one pass learns of all captions."""

    matching: Matching | None
    missing: Missing
    pictureless: Missing
    shared: Hashes
    notes: dict[str, list[str]] = field(default_factory=dict)

    def has_many(self, image_ids: list[str]) -> npt.NDArray[np.bool_]:
        """Which of these images have several candidates."""
        hashes = _hashes(image_ids)
        if not len(self.shared):
            return np.zeros(len(hashes), bool)
        found = np.searchsorted(self.shared, hashes).clip(max=len(self.shared) - 1)
        result: npt.NDArray[np.bool_] = self.shared[found] == hashes
        return result


class CaptionStream:
    """Captions in parts, which can be gone through more than once; its length is the number of captions."""

    def __init__(self, sources: Sources, rows: int, images_root: str | os.PathLike[str] = "") -> None:
        self._sources, self._rows, self._root = sources, rows, os.fspath(images_root)
        self._whole: _Whole | None = None

    def __len__(self) -> int:
        missing = self.whole.missing
        return missing.total if self._sources.how.on_missing == "keep" else missing.total - missing.count

    @property
    def notes(self) -> dict[str, list[str]]:
        """What is worth knowing about the whole; each part's own notes say which captions were left out."""
        return self.whole.notes

    def lacking(self, need: str) -> Missing:
        """How many captions lack "references" or a picture ("image"), and the first of these by image."""
        whole = self.whole
        if need == "references":
            return whole.missing if self._sources.how.on_missing == "keep" else Missing()
        return whole.pictureless

    @property
    def whole(self) -> _Whole:
        """What only the whole can tell, learnt at the first call."""
        if self._whole is None:
            self._whole = self._learn()
        return self._whole

    def __iter__(self) -> Iterator[CaptionSet]:
        keep, whole = self._sources.how.on_missing == "keep", self.whole
        named = self._named(whole)
        while batch := list(islice(named, self._rows)):
            captions: list[Caption] = []
            without: list[str] = []
            for row, id in batch:
                references = self._sources.references(row, whole.matching)
                if not references:
                    without.append(id)
                if references or keep:
                    captions.append(self._sources.caption(row, id, references, whole.matching))
            if captions:
                reason = "kept_without_references" if keep else "skipped_without_references"
                notes = {reason: without} if without else None
                yield CaptionSet.from_captions(captions, notes=notes, images_root=self._root)

    def _named(self, whole: _Whole) -> Iterator[tuple[Row, str]]:
        """The rows with their final ids, as `load` gives them."""
        seen: Counter[str] = Counter()
        rows = self._sources.rows()
        while batch := list(islice(rows, self._rows)):
            many = whole.has_many([row.image_id for row in batch]).tolist()
            for row, several in zip(batch, many, strict=True):
                id = row.image_id
                if several:
                    id = f"{row.image_id}#{seen[row.image_id]}"
                    seen[row.image_id] += 1
                yield row, id if row.id is None else row.id

    def _learn(self) -> _Whole:
        sources = self._sources
        images, explicit, bare = array("q"), array("q"), array("q")
        counts: Counter[str] = Counter()
        unnamed: Counter[str] = Counter()
        missing, pictureless, marked = Missing(), Missing(), False
        pictures = {} if sources.table is None else sources.table.images
        sample: list[Row] = []
        for row in sources.rows():
            key = hash(row.image_id)
            images.append(key)
            if row.id is None:
                bare.append(key)
            else:
                explicit.append(hash(row.id))
            marked = marked or "#" in row.image_id or (row.id is not None and "#" in row.id)
            if not pictures:
                pictureless.see(row.image_id, 1, row.image is not None)
            elif row.image is None:
                unnamed[row.image_id] += 1
            if len(sample) < _SAMPLE:
                sample.append(row)
            if sources.table is None:
                missing.see(row.image_id, 1, bool(row.references))
            else:
                counts[row.image_id] += 1
        refuse_paths([row.candidate or "" for row in sample], sources.reading.name, "candidates")
        refuse_paths([text for row in sample for text in row.references or ()], sources.reading.name, "references")
        refuse_mispaired(sources, counts)
        matching = sources.matching(counts)
        for image_id, count in unnamed.items():
            found = None if matching is None else matching.find(image_id)
            pictureless.see(image_id, count, found in pictures)
        for image_id, count in counts.items():
            missing.see(image_id, count, bool(sources.references_of(image_id, matching)))
        unused = unused_references(sources, matching, counts)
        shared = _twice(np.asarray(images, np.int64))
        notes = {
            "references_without_candidate": unused,
            "matched_by": [matching.way] if matching is not None and matching.way != "image id" else [],
        }
        whole = _Whole(matching, missing, pictureless, shared, {reason: ids for reason, ids in notes.items() if ids})
        single = np.setdiff1d(np.asarray(bare, np.int64), shared)
        twice = _twice(np.concatenate([np.asarray(explicit, np.int64), single]))
        if len(twice) or (marked and len(shared)):
            self._refuse_twice(whole)
        missing.refuse(sources, unused)
        return whole

    def _refuse_twice(self, whole: _Whole) -> None:
        """Finds the id that stands twice, if there is one: equal hashes alone are no proof."""
        hashes = array("q", (hash(id) for _, id in self._named(whole)))
        suspects = set(_twice(np.asarray(hashes, np.int64)).tolist())
        first: dict[str, Row] = {}
        for row, id in self._named(whole):
            if hash(id) in suspects:
                refuse_repeated_id(row, id, first)


def _hashes(texts: list[str]) -> Hashes:
    return np.fromiter(map(hash, texts), np.int64, len(texts))


def _twice(hashes: Hashes) -> Hashes:
    """The values that stand more than once, sorted."""
    values, counts = np.unique(hashes, return_counts=True)
    found: Hashes = values[counts > 1]
    return found
