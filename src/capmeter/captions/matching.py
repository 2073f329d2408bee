"""Candidates find their references: by image id, else by the image's file name or COCO number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from capmeter.captions.rows import Row, named
from capmeter.errors import InputError

_COCO_NUMBER = re.compile(r"(?:COCO_[A-Za-z0-9]+_)?0*(\d+)(?:\.[A-Za-z]+)?", re.ASCII)


def _same(name: str) -> str:
    return name


def _base_name(name: str) -> str:
    return PurePosixPath(name).name


def _stem(name: str) -> str:
    return PurePosixPath(name).stem


def _coco_number(name: str) -> str:
    match = _COCO_NUMBER.fullmatch(_base_name(name))
    return match[1] if match else ""


WAYS: dict[str, Callable[[str], str]] = {
    "image id": _same,
    "file name": _base_name,
    "file name without its ending": _stem,
    "COCO number in the file name": _coco_number,
}
"""How an image of the candidates can be the same as one of the references, in the order of preference."""


@dataclass
class ReferenceTable:
    """The references of each image, and the images' other names."""

    name: str
    references: dict[str, tuple[str, ...]]
    images: dict[str, str]
    aliases: dict[str, tuple[str, ...]]
    splits: dict[str, str]

    @classmethod
    def collect(cls, rows: Iterable[Row], name: str, split: str | None = None) -> ReferenceTable:
        """Groups rows of references by image; `split` keeps only the images of one split."""
        lists: dict[str, tuple[str, ...]] = {}
        singles: dict[str, list[str]] = {}
        places: dict[str, str] = {}
        images: dict[str, str] = {}
        aliases: dict[str, tuple[str, ...]] = {}
        splits: dict[str, str] = {}
        for row in rows:
            if row.split is not None:
                splits[row.image_id] = row.split
            if split is not None and row.split != split:
                continue
            given = row.references or ()
            if row.image_id in singles:
                singles[row.image_id] += given
            elif row.image_id in lists:
                first = lists[row.image_id]
                if row.one_of_many:
                    singles[row.image_id] = [*first, *given]
                elif first != given:
                    raise InputError(
                        f"{row.place}: image {row.image_id!a} has different references here than at "
                        f"{places[row.image_id]}; give each image one list of references"
                    )
            else:
                lists[row.image_id] = given
                places[row.image_id] = row.place
                if row.aliases:
                    aliases[row.image_id] = row.aliases
                if row.image is not None:
                    images[row.image_id] = row.image
        if split is not None and not lists:
            had = named(sorted(set(splits.values()))) or "not named"
            raise InputError(f"{name}: no image belongs to the split {split!a}; the splits are {had}")
        if not lists:
            raise InputError(f"{name}: there are no references")
        lists.update((image_id, tuple(texts)) for image_id, texts in singles.items())
        return cls(name, lists, images, aliases, splits)

    def rows(self) -> Iterator[Row]:
        """One row per image."""
        for image_id, texts in self.references.items():
            image, split = self.images.get(image_id), self.splits.get(image_id)
            yield Row(f"image {image_id}", image_id, references=texts, image=image, split=split)

    def names(self, way: str) -> Mapping[str, str]:
        """For each name of this kind that is unique, its image."""
        if way == "image id":
            return {image_id: image_id for image_id in self.references}
        found: dict[str, str] = {}
        twice: set[str] = set()
        for image_id in self.references:
            for name in {WAYS[way](known) for known in (image_id, *self.aliases.get(image_id, ()))}:
                if name and found.setdefault(name, image_id) != image_id:
                    twice.add(name)
        return {name: image_id for name, image_id in found.items() if name not in twice}


@dataclass
class Matching:
    """The way in which most images of the candidates find their references, and which of the table's each finds."""

    way: str
    found: Mapping[str, str]

    @classmethod
    def best(cls, image_ids: Iterable[str], table: ReferenceTable) -> Matching:
        """The first way that matches all images, or the one that matches most."""
        images = dict.fromkeys(image_ids)
        best = cls("image id", {})
        for way, name_of in WAYS.items():
            names = table.names(way)
            found = {image_id: names[name] for image_id in images if (name := name_of(image_id)) in names}
            if len(found) > len(best.found):
                best = cls(way, found)
            if len(found) == len(images):
                break
        return best

    def find(self, image_id: str) -> str | None:
        """The table's id for this image."""
        return self.found.get(image_id)
