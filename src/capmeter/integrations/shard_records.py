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
    notes: dict[str, tuple[int, list[str]]] = {}
    for record in records:
        for reason, (count, ids) in record.notes.items():
            total, first_ids = notes.get(reason, (0, []))
            if reason in _OF_FILES:
                entries = list(dict.fromkeys([*first_ids, *ids]))
                notes[reason] = max(len(entries), total, count), entries[:NOTED_IDS]
            elif reason != _UNUSED:
                notes[reason] = total + count, [*first_ids, *ids][:NOTED_IDS]
    return notes


def find_unused_references(targets: Sequence[str], records: Sequence[Record]) -> dict[str, tuple[int, list[str]]]:
    """The note on images that have references, but a candidate in no shard: their number and some of their ids.

    Args:
        targets: the files of scores.
        records: their records.
    """
    unused = [record.notes.get(_UNUSED, (0, [])) for record in records]
    fewest = min(count for count, _ in unused)
    totals = {count + record.images for (count, _), record in zip(unused, records, strict=True)}
    if not fewest or len(records) == 1:
        return {_UNUSED: unused[0]} if fewest else {}
    images = _scored_images(targets)
    if len(totals) == 1:
        fewest = min(fewest, max(0, totals.pop() - len(images)))
    ids = [id for id in dict.fromkeys(id for _, first_ids in unused for id in first_ids) if id not in images]
    return {_UNUSED: (fewest, ids[:NOTED_IDS])} if fewest else {}


def _scored_images(targets: Sequence[str]) -> set[str]:
    """The images of the captions that have scores."""
    from pyarrow import parquet

    images: set[Any] = set()
    for target in targets:
        names = parquet.read_schema(target).names
        score = next((name for name in names if "/" in name), "image_id")
        table = parquet.read_table(target, columns=list(dict.fromkeys(["image_id", score])))
        images.update(table.filter(table[score].is_valid())["image_id"].unique().to_pylist())
    return images
