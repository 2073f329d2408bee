"""The references of all images of a source, and the keys by which candidates' images can equal theirs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeVar

from capmeter.captions.events import Events
from capmeter.captions.reading import RowReader
from capmeter.captions.rows import CaptionRow
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names

_COCO_NUMBER = re.compile(r"(?:COCO_[A-Za-z0-9]+_)?(\d+)(?:\.[A-Za-z]+)?", re.ASCII)
IMAGE_ID = "image id"
Key = TypeVar("Key")
Item = TypeVar("Item")


def _file_name(image: str) -> str:
    return PurePosixPath(image).name if "/" in image or image == "." else image


def _stem(image: str) -> str:
    file_name = _file_name(image)
    dot_position = file_name.rfind(".")
    return file_name[:dot_position] if 0 < dot_position < len(file_name) - 1 else file_name


def _coco_number(image: str) -> str:
    match = _COCO_NUMBER.fullmatch(_file_name(image))
    return match[1].lstrip("0") or "0" if match else ""


KEYS: dict[str, Callable[[str], str]] = {
    "file name": _file_name,
    "file name without its ending": _stem,
    "COCO number in the file name": _coco_number,
}
"""By what an image of the candidates can equal one of the references if not by its id, in the order of preference."""


def _join_lists(
    lists: dict[Key, tuple[Item, ...]], other_lists: dict[Key, tuple[Item, ...]]
) -> dict[Key, tuple[Item, ...]]:
    """The items of both by key, those of `lists` first."""
    return {key: lists.get(key, ()) + other_lists.get(key, ()) for key in lists | other_lists}


@dataclass
class ReferenceTable:
    """The references of a source, by image id.

    name, format: those of the source.
    references: each image's texts.
    images: each image's picture, if the source names it.
    aliases: other names of the images.
    splits: the images' splits, if the source has any.
    events: of videos with events in time those of each reference.
    by_annotator: the references of each image and annotator, where the source names annotators.
    omitted: the images of which a reference is marked as unusable, and by which field.
    """

    name: str
    references: dict[str, tuple[str, ...]]
    images: dict[str, str]
    aliases: dict[str, tuple[str, ...]]
    splits: dict[str, str]
    format: str = ""
    events: dict[str, tuple[Events, ...]] = field(default_factory=dict)
    by_annotator: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    omitted: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, readers: Sequence[RowReader], splits: Collection[str] = ()) -> ReferenceTable:
        """The references that these sources hold, joined by image; see `collect`."""
        tables = []
        for reader in readers:
            tables.append(cls.collect(reader.rows("references"), reader.name, splits))
            tables[-1].format = reader.format
        joined_table = tables[0]
        for other_table in tables[1:]:
            joined_table = joined_table._joined(other_table)
        return joined_table

    def _joined(self, other_table: ReferenceTable) -> ReferenceTable:
        """The references of both, image by image."""
        if "list" in (self.format, other_table.format) and len(self.references) != len(other_table.references):
            raise InputError(
                f"{self.name} has references of {len(self.references):,} images, {other_table.name} of "
                f"{len(other_table.references):,}; in lists the k-th belongs to the k-th: make both equally long"
            )
        return ReferenceTable(
            f"{self.name} and {other_table.name}",
            _join_lists(self.references, other_table.references),
            other_table.images | self.images,
            _join_lists(self.aliases, other_table.aliases),
            other_table.splits | self.splits,
            self.format,
            _join_lists(self.events, other_table.events),
            _join_lists(self.by_annotator, other_table.by_annotator),
            self.omitted | other_table.omitted,
        )

    @classmethod
    def collect(cls, rows: Iterable[CaptionRow], name: str, splits: Collection[str] = ()) -> ReferenceTable:
        """Groups rows of references by image.

        Args:
            rows: rows with references.
            name: the source's name, for messages.
            splits: keeps only the images of these splits, if any.

        Raises:
            InputError: two rows give an image different lists of references or different splits, or there are no
                references.
        """
        reference_lists: dict[str, tuple[str, ...]] = {}
        single_texts: dict[str, list[str]] = {}  # of images with a row for each reference
        locations: dict[str, str] = {}
        all_splits: set[str] = set()
        table = cls(name, reference_lists, {}, {}, {})
        for row in rows:
            image_id, reference_texts = row.image_id, row.references or ()
            if row.split is not None:
                all_splits.add(row.split)
            if splits and row.split not in splits:
                continue
            if row.split is not None and table.splits.setdefault(image_id, row.split) != row.split:
                raise InputError(
                    f"{row.location}: image {image_id!a} is of the split {row.split!a} here and of "
                    f"{table.splits[image_id]!a} before: two images with one id; choose one split (split=, --split)"
                )
            if row.reference_events and (row.one_of_many or image_id not in table.events):
                table.events[image_id] = (*table.events.get(image_id, ()), *row.reference_events)
            if row.annotator is not None and row.events is None:
                key = (image_id, row.annotator)
                table.by_annotator[key] = table.by_annotator.get(key, ()) + reference_texts
            if row.omitted is not None:
                table.omitted[image_id] = row.omitted
            if image_id in single_texts:
                single_texts[image_id] += reference_texts
            elif image_id not in reference_lists:
                reference_lists[image_id], locations[image_id] = reference_texts, row.location
                if row.aliases:
                    table.aliases[image_id] = row.aliases
                if row.image is not None:
                    table.images[image_id] = row.image
            elif row.one_of_many:
                single_texts[image_id] = [*reference_lists[image_id], *reference_texts]
            elif reference_lists[image_id] != reference_texts:
                raise InputError(
                    f"{row.location}: image {image_id!a} has different references here than at {locations[image_id]}; "
                    "give each image one list of references"
                )
        absent_splits = [split_name for split_name in splits if split_name not in all_splits]
        if absent_splits:
            named = list_names(sorted(all_splits)) or "not named"
            raise InputError(f"{name}: no image belongs to the split {absent_splits[0]!a}; the splits are {named}")
        if not reference_lists:
            raise InputError(f"{name}: there are no references")
        reference_lists.update((image_id, tuple(reference_texts)) for image_id, reference_texts in single_texts.items())
        return table

    def rows(self) -> Iterator[CaptionRow]:
        """One row per image."""
        for image_id, texts in self.references.items():
            image_name, split = self.images.get(image_id), self.splits.get(image_id)
            events = self.events.get(image_id, ())
            yield CaptionRow(
                f"image {image_id}", image_id, references=texts, image=image_name, split=split, reference_events=events
            )

    def image_ids_by(self, key: str) -> Mapping[str, set[str]]:
        """For each value of this key (of `KEYS`) the images that have it."""
        image_ids: dict[str, set[str]] = {}
        for image_id in self.references:
            for key_value in {KEYS[key](name) for name in (image_id, *self.aliases.get(image_id, ()))} - {""}:
                image_ids.setdefault(key_value, set()).add(image_id)
        return image_ids


@dataclass
class MissingCount:
    """Number of candidates, and of those that lack something, with the ids of the first images that do."""

    total: int = 0
    count: int = 0
    first: list[str] = field(default_factory=list)
    more: bool = False

    @classmethod
    def of(cls, rows: Sequence[CaptionRow], references: Sequence[tuple[str, ...]]) -> MissingCount:
        """Counts the candidates without references."""
        missing_count = cls(len(rows), references.count(()))
        missing_ids = (caption_row.image_id for caption_row, texts in zip(rows, references, strict=True) if not texts)
        for image_id in missing_ids if missing_count.count else ():
            missing_count.add(image_id, 0, is_present=False)
            if missing_count.more:
                break
        return missing_count

    def add(self, image_id: str, candidates: int, is_present: bool) -> None:
        """Counts candidates of one image."""
        self.total += candidates
        if not is_present:
            self.count += candidates
            if not self.more and image_id not in self.first:
                if len(self.first) < 5:
                    self.first.append(image_id)
                else:
                    self.more = True
