"""Records of scored shards: what each was computed from, and their notes together.

>>> a = Record("plan", "in", "out", 2, {}, {"empty candidate": (1, ["7"]), "images_by": (1, ["id"])})
>>> merge_notes([a, a])
{'empty candidate': (2, ['7', '7']), 'images_by': (1, ['id'])}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

FORMAT = 2
NOTED_IDS = 5
"""Ids that are kept of each note."""
_UNUSED = "references_without_candidate"
_OF_FILES = ("images_by", "rows_without_image", "headings_read_without_case", "read_as_lines", "matched_by")
"""Notes on how files were read: their entries are not captions."""


@dataclass(frozen=True)
class Record:
    """A finished shard: the plan, SHA-256 of its files, its size, and for each note its count and first ids.

    `images`: the number of its images.
    """

    plan: str
    input: str
    output: str
    captions: int
    signatures: dict[str, str]
    notes: dict[str, tuple[int, list[str]]]
    images: int = 0
    format: int = FORMAT


def merge_notes(records: Iterable[Record]) -> dict[str, tuple[int, list[str]]]:
    """For each note the number of captions in all shards, and the first of their ids.

    References without a candidate are left out: another shard may have it (`find_unused_references`).
    """
    merged_notes: dict[str, tuple[int, list[str]]] = {}
    for record in records:
        for reason, (note_count, noted_ids) in record.notes.items():
            total_count, first_ids = merged_notes.get(reason, (0, []))
            if reason in _OF_FILES:
                distinct_entries = list(dict.fromkeys([*first_ids, *noted_ids]))
                merged_notes[reason] = max(len(distinct_entries), total_count, note_count), distinct_entries[:NOTED_IDS]
            elif reason != _UNUSED:
                merged_notes[reason] = total_count + note_count, [*first_ids, *noted_ids][:NOTED_IDS]
    return merged_notes


def find_unused_references(targets: Sequence[str], records: Sequence[Record]) -> dict[str, tuple[int, list[str]]]:
    """The note on images that have references, but a candidate in no shard: their number and some of their ids.

    Args:
        targets: the files of scores.
        records: their records.
    """
    unused_notes = [record.notes.get(_UNUSED, (0, [])) for record in records]
    fewest_unused = min(count for count, _ in unused_notes)
    image_totals = {count + record.images for (count, _), record in zip(unused_notes, records, strict=True)}
    if not fewest_unused or len(records) == 1:
        return {_UNUSED: unused_notes[0]} if fewest_unused else {}
    images = _scored_images(targets)
    if len(image_totals) == 1:
        fewest_unused = min(fewest_unused, max(0, image_totals.pop() - len(images)))
    ids = [id for id in dict.fromkeys(id for _, first_ids in unused_notes for id in first_ids) if id not in images]
    return {_UNUSED: (fewest_unused, ids[:NOTED_IDS])} if fewest_unused else {}


def _scored_images(targets: Sequence[str]) -> set[str]:
    """The images of the captions that have scores."""
    from pyarrow import parquet

    scored_images: set[Any] = set()
    for target in targets:
        column_names = parquet.read_schema(target).names
        score_column = next((column_name for column_name in column_names if "/" in column_name), "image_id")
        score_table = parquet.read_table(target, columns=list(dict.fromkeys(["image_id", score_column])))
        scored_images.update(score_table.filter(score_table[score_column].is_valid())["image_id"].unique().to_pylist())
    return scored_images
