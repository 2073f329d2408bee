"""Features of images from a joint encoder: each distinct image is decoded and encoded once for all its captions."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import ImagePool, ImageRef
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders.handle import EncoderHandle
from capmeter.encoders.joint.encoder import load_joint_encoder
from capmeter.encoders.preprocessing import Preprocessing
from capmeter.images.reading import MAX_PIXELS, ContentHashes, ContentHashTable, raise_unreadable, read_image

_NOTES = "picture-notes/1"


@dataclass(frozen=True, eq=False)
class JointFeatureTable:
    """Features of images from a joint encoder.

    Attributes:
        features: float32 (images, width).
        notes: of each image, the conversions to RGB that were applied.
    """

    features: npt.NDArray[np.float32]
    notes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class JointFeatures:
    """Analysis: the features of every image of an `ImagePool` from a joint encoder."""

    encoder: EncoderHandle
    projection: str = ""
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: ImagePool) -> JointFeatureTable:
        """The table for all images of the pool.

        Raises:
            InputError: images cannot be read; the first are named. Features of the others are cached.
        """
        joint_encoder = load_joint_encoder(self.encoder, self.settings, self.projection)
        hash_table: ContentHashTable = pool.analyse(ContentHashes())
        distinct_rows, image_rows = np.unique(hash_table.first, return_inverse=True)
        image_reader = ImageReader([pool.items[k] for k in distinct_rows.tolist()], joint_encoder.preprocessing)
        distinct_hashes = [hash_table.hashes[k] for k in distinct_rows.tolist()]
        features = joint_encoder.image_features(distinct_hashes, image_reader.pixels)
        image_reader.check()
        image_notes = image_reader.notes(distinct_hashes, self.settings)
        return JointFeatureTable(features[image_rows], tuple(image_notes[row] for row in image_rows.tolist()))


class ImageReader:
    """Reads images for an encoder from several threads; `check` raises for those that cannot be read."""

    def __init__(self, images: Sequence[ImageRef], preprocessing: Preprocessing) -> None:
        self._images, self._preprocessing = images, preprocessing
        self._problems: dict[int, str] = {}
        self._notes: dict[int, tuple[str, ...]] = {}
        self._lock = threading.Lock()

    def pixels(self, row: int) -> npt.NDArray[np.uint8] | None:
        """The pixels of an image, uint8 (height, width, 3); None if it cannot be read."""
        ref = self._images[row]
        try:
            decoded_image = read_image(ref)
            height, width = decoded_image.pixels.shape[:2]
            if self._preprocessing.pixels_after(height, width) > MAX_PIXELS:
                raise InputError(
                    f"image file {ref.path!a} of image {ref.image_id!a}: {width:,} x {height:,} pixels; scaled to the "
                    "encoder's size its longer side would not fit into memory; crop the image"
                )
        except InputError as error:
            with self._lock:
                self._problems[row] = str(error)
            return None
        with self._lock:
            self._notes[row] = decoded_image.notes
        return decoded_image.pixels

    def check(self) -> None:
        """Raise an `InputError` if images could not be read."""
        raise_unreadable([self._problems[row] for row in sorted(self._problems)], len(self._images))

    def notes(self, hashes: Sequence[str], settings: Settings) -> list[tuple[str, ...]]:
        """The conversions of every image; those of images that were not read now come from the cache."""

        def note(rows: list[int]) -> list[tuple[str, ...]]:  # the features of an image may be cached without its notes
            return [self._notes[row] if row in self._notes else read_image(self._images[row]).notes for row in rows]

        cache, content_keys = settings.result_cache(), list(map(bytes.fromhex, hashes))
        return cache.results(_NOTES, content_keys, note, decode=tuple)
