"""Global facts about a streamed set, collected in one pass, in a few bytes for each caption.

Which images have several candidates (their ids get `#k`), whether ids are duplicated, whether references are missing.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.captions.matching import (
    CaptionInputs,
    Matching,
    refuse_mismatch,
    refuse_missing,
    refuse_repeated_id,
)
from capmeter.captions.references import MissingCount
from capmeter.captions.rows import CaptionRow

Hashes = npt.NDArray[np.int64]
_SAMPLE = 1000


@dataclass
class StreamSummary:
    """What one pass collects about all captions of a system.

    matching: the references of their images.
    missing: candidates without references.
    pictureless: candidates without a picture.
    shared_images: sorted hashes of the images with several candidates.
    notes: as in `CaptionSet`.
    """

    matching: Matching
    missing: MissingCount
    pictureless: MissingCount
    shared_images: Hashes
    notes: dict[str, list[str]]

    def are_shared(self, image_ids: list[str]) -> npt.NDArray[np.bool_]:
        """bool[images]: which of these images have several candidates."""
        return _is_among(_hashes(image_ids), self.shared_images)


class StreamScanner:
    """Collects, caption by caption, what requires all captions of a system."""

    def __init__(self, inputs: CaptionInputs) -> None:
        self._inputs = inputs
        # hashes: of all image ids, of the ids in rows, and of the image ids of rows without an id
        self._images, self._ids, self._without_id = array("q"), array("q"), array("q")
        self._counts: Counter[str] = Counter()  # candidates by image, if the references are in a table
        self._pictureless_counts: Counter[str] = Counter()  # the same without a picture, if the table has pictures
        self._missing, self._pictureless = MissingCount(), MissingCount()
        self._any_marked = False  # ids that contain # may equal one that is made for an image
        self._sample: list[CaptionRow] = []

    def add(self, row: CaptionRow) -> None:
        """Adds one caption."""
        reference_table = self._inputs.table
        image_hash = hash(row.image_id)
        self._images.append(image_hash)
        if row.id is None:
            self._without_id.append(image_hash)
        else:
            self._ids.append(hash(row.id))
        self._any_marked = self._any_marked or "#" in row.image_id or (row.id is not None and "#" in row.id)
        if reference_table is None:
            self._missing.add(row.image_id, 1, bool(row.references))
        else:
            self._counts[row.image_id] += 1
        if reference_table is None or not reference_table.images:
            self._pictureless.add(row.image_id, 1, row.image is not None)
        elif row.image is None:
            self._pictureless_counts[row.image_id] += 1
        if len(self._sample) < _SAMPLE:
            self._sample.append(row)

    def summarise(self, rows_with_ids: Callable[[StreamSummary], Iterable[tuple[CaptionRow, str]]]) -> StreamSummary:
        """What was collected.

        Args:
            rows_with_ids: gives the rows again, with their final ids.

        Raises:
            InputError: as `match_captions`.
        """
        image_counts = self._counts
        refuse_mismatch(self._sample, self._inputs, image_counts)
        matching = Matching.find(image_counts, self._inputs.table)
        for image_id, image_count in self._pictureless_counts.items():
            self._pictureless.add(image_id, image_count, matching.table_image(image_id) is not None)
        for image_id, image_count in image_counts.items():
            self._missing.add(image_id, image_count, bool(matching.table_references(image_id)))
        unused_ids = matching.unused_references(image_counts)
        notes = {
            "references_without_candidate": unused_ids,
            "matched_by": matching.matched_by,
            "ambiguous_names": list(matching.ambiguous),
            **self._inputs.reading_notes,
        }
        shared_images = _repeated(np.asarray(self._images, np.int64))
        summary = StreamSummary(
            matching,
            self._missing,
            self._pictureless,
            shared_images,
            {reason: noted_ids for reason, noted_ids in notes.items() if noted_ids},
        )
        without_id = np.asarray(self._without_id, np.int64)
        single_hashes = without_id[~_is_among(without_id, shared_images)]
        repeated_ids = _repeated(np.concatenate([np.asarray(self._ids, np.int64), single_hashes]))
        if len(repeated_ids) or (self._any_marked and len(shared_images)):
            _refuse_repeated_ids(lambda: rows_with_ids(summary))
        refuse_missing(self._missing, self._inputs, matching, unused_ids)
        del self._images, self._ids, self._without_id, self._counts, self._pictureless_counts  # no longer needed
        return summary


def _refuse_repeated_ids(rows_with_ids: Callable[[], Iterable[tuple[CaptionRow, str]]]) -> None:
    """Raises if an id is duplicated; equal hashes alone are no proof."""
    id_hashes = array("q", (hash(caption_id) for _, caption_id in rows_with_ids()))
    suspect_hashes = set(_repeated(np.asarray(id_hashes, np.int64)).tolist())
    first_rows: dict[str, CaptionRow] = {}
    for caption_row, caption_id in rows_with_ids():
        if hash(caption_id) in suspect_hashes:
            refuse_repeated_id(caption_row, caption_id, first_rows)


def _hashes(texts: list[str]) -> Hashes:
    return np.fromiter(map(hash, texts), np.int64, len(texts))


def _is_among(hashes: Hashes, sorted_hashes: Hashes) -> npt.NDArray[np.bool_]:
    """bool[hashes]: which of these are among the sorted ones."""
    if not len(sorted_hashes):
        return np.zeros(len(hashes), bool)
    positions = np.searchsorted(sorted_hashes, hashes).clip(max=len(sorted_hashes) - 1)
    result: npt.NDArray[np.bool_] = sorted_hashes[positions] == hashes
    return result


def _repeated(hashes: Hashes) -> Hashes:
    """The values that occur more than once, sorted."""
    hash_values, hash_counts = np.unique(hashes, return_counts=True)
    return np.asarray(hash_values[hash_counts > 1])
