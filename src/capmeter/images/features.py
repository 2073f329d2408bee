"""Features of pictures from a joint encoder: each distinct picture is decoded and encoded once for all its captions."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import ImagePool, Life, Place
from capmeter.encoders.joint import load_joint
from capmeter.encoders.preprocessing import Preprocessing
from capmeter.errors import InputError
from capmeter.images.analyses import Contents, ContentTable
from capmeter.images.reading import MOST_PIXELS, raise_unreadable, read_picture
from capmeter.recent import Recent
from capmeter.settings import Settings
from capmeter.store import store_of

_NOTES = "picture-notes/1"


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Row i belongs to picture i: its features (float32, [pictures, width]), and notes on its conversion to RGB."""

    features: npt.NDArray[np.float32]
    notes: tuple[tuple[str, ...], ...]

    def take(self, indices: npt.NDArray[np.int64]) -> FeatureTable:
        """The rows at these indices."""
        return FeatureTable(self.features[indices], tuple(self.notes[i] for i in indices.tolist()))


@dataclass(frozen=True)
class PictureFeatures:
    """Analysis: the features of every picture of an `ImagePool`, by the joint encoder of this name."""

    encoder: str = "clip"
    projection: str = ""
    settings: Settings = field(default_factory=Settings)
    life: ClassVar[Life] = "run"

    def run(self, pool: ImagePool) -> FeatureTable:
        """The table for all pictures of the pool.

        Raises:
            InputError: pictures cannot be read; the first are named. Features of the others are kept in the store.
        """
        encoder = load_joint(self.encoder, self.settings, self.projection)
        contents: ContentTable = pool.analyse(Contents())
        distinct, place = np.unique(contents.first, return_inverse=True)
        reader = PictureReader([pool.items[k] for k in distinct.tolist()], encoder.preprocessing)
        hashes = [contents.hashes[k] for k in distinct.tolist()]
        features = encoder.picture_features(hashes, reader.pixels)
        reader.check()
        notes = reader.notes(hashes, self.settings)
        return FeatureTable(features[place], tuple(notes[k] for k in place.tolist()))


class PictureReader:
    """Reads pictures for an encoder from several threads; what cannot be read is collected, and raised by `check`."""

    def __init__(self, places: Sequence[Place], preprocessing: Preprocessing) -> None:
        self._places, self._preprocessing = places, preprocessing
        self._problems: dict[int, str] = {}
        self._found: dict[int, tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def pixels(self, row: int) -> npt.NDArray[np.uint8] | None:
        """The pixels of one picture; None if it cannot be read."""
        try:
            picture = read_picture(self._places[row])
            height, width = picture.pixels.shape[:2]
            if self._preprocessing.pixels_after(height, width) > MOST_PIXELS:
                place = self._places[row]
                raise InputError(
                    f"picture {place.path!a} of image {place.image_id!a}: {width:,} x {height:,} pixels; scaled to the "
                    "encoder's size its longer side would not fit into memory; crop the picture"
                )
        except InputError as problem:
            with self._lock:
                self._problems[row] = str(problem)
            return None
        with self._lock:
            self._found[row] = picture.notes
        return picture.pixels

    def check(self) -> None:
        """Raises an `InputError` if pictures could not be read."""
        raise_unreadable([self._problems[row] for row in sorted(self._problems)], len(self._places))

    def notes(self, hashes: Sequence[str], settings: Settings) -> list[tuple[str, ...]]:
        """The conversions of every picture; those of pictures that were not read now come from where they are kept."""
        store = store_of(settings)
        made = {hashes[row]: each for row, each in self._found.items()}
        known = {each: _recent.get(each) for each in hashes}
        if store is not None:
            store.put(_NOTES, {bytes.fromhex(each): list(notes) for each, notes in made.items()})
            unknown = [each for each in hashes if each not in made and known[each] is None]
            for content, notes in store.get(_NOTES, map(bytes.fromhex, unknown)).items():
                known[content.hex()] = tuple(map(str, notes))
        for each, notes in made.items():
            known[each] = notes
        found = []
        for row, each in enumerate(hashes):
            notes_of = known[each]
            if notes_of is None:  # its features were found, but not its notes
                notes_of = read_picture(self._places[row]).notes
            _recent.put(each, notes_of)
            found.append(notes_of)
        return found


_recent: Recent[str, tuple[str, ...]] = Recent(1 << 16)
