"""What a stream has to know of all its captions, collected in one pass in a few bytes for each.

Which images have several candidates (their ids get `#k`), whether ids occur twice, whether references are missing.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from capmeter.captions.joining import Missing, Sources, refuse_mispaired, refuse_repeated_id, unused_references
from capmeter.captions.matching import Matching
from capmeter.captions.rows import Row, refuse_paths

Hashes = npt.NDArray[np.int64]
_SAMPLE = 1000


@dataclass
class Whole:
    """What one pass collects about all captions."""

    matching: Matching | None
    missing: Missing
    pictureless: Missing
    shared: Hashes
    notes: dict[str, list[str]] = field(default_factory=dict)

    def has_many(self, image_ids: list[str]) -> npt.NDArray[np.bool_]:
        """Which of these images have several candidates."""
        return _among(_hashes(image_ids), self.shared)


class Learner:
    """Collects, caption by caption, what requires the whole of one system's captions."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._images, self._explicit, self._bare = array("q"), array("q"), array("q")
        self._counts: Counter[str] = Counter()
        self._unnamed: Counter[str] = Counter()
        self._missing, self._pictureless, self._marked = Missing(), Missing(), False
        self._pictures = {} if sources.table is None else sources.table.images
        self._sample: list[Row] = []

    def see(self, row: Row) -> None:
        """Adds one caption."""
        key = hash(row.image_id)
        self._images.append(key)
        if row.id is None:
            self._bare.append(key)
        else:
            self._explicit.append(hash(row.id))
        self._marked = self._marked or "#" in row.image_id or (row.id is not None and "#" in row.id)
        if not self._pictures:
            self._pictureless.see(row.image_id, 1, row.image is not None)
        elif row.image is None:
            self._unnamed[row.image_id] += 1
        if len(self._sample) < _SAMPLE:
            self._sample.append(row)
        if self._sources.table is None:
            self._missing.see(row.image_id, 1, bool(row.references))
        else:
            self._counts[row.image_id] += 1

    def whole(self, named: Callable[[Whole], Iterator[tuple[Row, str]]]) -> Whole:
        """What was collected; `named` gives the rows again with their final ids."""
        sources, counts, sample = self._sources, self._counts, self._sample
        refuse_paths([row.candidate or "" for row in sample], sources.reading.name, "candidates")
        refuse_paths([text for row in sample for text in row.references or ()], sources.reading.name, "references")
        refuse_mispaired(sources, counts)
        matching = sources.matching(counts)
        for image_id, count in self._unnamed.items():
            found = None if matching is None else matching.find(image_id)
            self._pictureless.see(image_id, count, found in self._pictures)
        for image_id, count in counts.items():
            self._missing.see(image_id, count, bool(sources.references_of(image_id, matching)))
        unused = unused_references(sources, matching, counts)
        shared = _twice(np.asarray(self._images, np.int64))
        notes = {
            "references_without_candidate": unused,
            "matched_by": [matching.way] if matching is not None and matching.way != "image id" else [],
        }
        found_notes = {reason: ids for reason, ids in notes.items() if ids}
        whole = Whole(matching, self._missing, self._pictureless, shared, found_notes)
        bare = np.asarray(self._bare, np.int64)
        single = bare[~_among(bare, shared)]
        twice = _twice(np.concatenate([np.asarray(self._explicit, np.int64), single]))
        if len(twice) or (self._marked and len(shared)):
            _refuse_twice(lambda: named(whole))
        self._missing.refuse(sources, unused)
        del self._images, self._explicit, self._bare, self._counts, self._unnamed  # nobody asks again
        return whole


def _refuse_twice(named: Callable[[], Iterator[tuple[Row, str]]]) -> None:
    """Finds a duplicate id, if there is one: equal hashes alone are no proof."""
    hashes = array("q", (hash(id) for _, id in named()))
    suspects = set(_twice(np.asarray(hashes, np.int64)).tolist())
    first: dict[str, Row] = {}
    for row, id in named():
        if hash(id) in suspects:
            refuse_repeated_id(row, id, first)


def _hashes(texts: list[str]) -> Hashes:
    return np.fromiter(map(hash, texts), np.int64, len(texts))


def _among(hashes: Hashes, ordered: Hashes) -> npt.NDArray[np.bool_]:
    """Which of these are among those in order."""
    if not len(ordered):
        return np.zeros(len(hashes), bool)
    found = np.searchsorted(ordered, hashes).clip(max=len(ordered) - 1)
    result: npt.NDArray[np.bool_] = ordered[found] == hashes
    return result


def _twice(hashes: Hashes) -> Hashes:
    """The values that occur more than once, sorted."""
    values, counts = np.unique(hashes, return_counts=True)
    return np.asarray(values[counts > 1])
