"""Reading image files: checked before decoding, always 8-bit RGB, with a clear message for every failure.

Conversions are the same for every image and recorded in its notes: the first frame of an animation; rotation by EXIF
orientation; 16-bit grey scaled to 8 bits (65,535 becomes 255); CMYK, palettes and grey as Pillow converts them;
transparency dropped, as in the released code of CLIPScore and others (`convert("RGB")`).

An image of more than `MAX_PIXELS` is rejected before it is decoded, and so is everything that is not a regular file: a
small file can decode to gigabytes, and a FIFO never ends. Formats that run other programs (EPS …) are not read.
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet, ImagePool, ImageRef
from capmeter.captions.sources import PictureFiles
from capmeter.core.errors import InputError
from capmeter.encoders.preprocessing import import_pillow

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 89_478_485
"""Pillow's own threshold for decompression bombs: 256 MiB of 24-bit pixels."""
FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF")
_ORIENTATION = 0x0112
_CHUNK = 1 << 20
_MAX_LISTED = 3  # problems in one message


@dataclass(frozen=True, eq=False)
class DecodedImage:
    """A decoded image.

    Attributes:
        pixels: uint8 (height, width, 3).
        notes: the conversions applied.
    """

    pixels: npt.NDArray[np.uint8]
    notes: tuple[str, ...] = ()


def read_image(image: ImageRef) -> DecodedImage:
    """Decode an image file.

    Raises:
        InputError: it cannot be read; names the image.
        MissingBackend: Pillow is not installed.
    """
    pillow = import_pillow()
    path = _regular_file(image)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about images that are rejected below, and about harmless metadata
            with pillow.open(path, formats=_supported_formats(pillow)) as opened_image:
                width, height = opened_image.size
                if width * height > MAX_PIXELS:
                    raise InputError(
                        f"{_describe(image)}: {width:,} x {height:,} pixels, more than the {MAX_PIXELS / 1e6:.0f} "
                        "megapixels that are supported; make the image smaller"
                    )
                return _decode(opened_image, image)
    except pillow.UnidentifiedImageError:
        raise InputError(
            f"{_describe(image)}: not an image, or damaged at its beginning; expected one of {', '.join(FORMATS)}"
        ) from None
    except pillow.DecompressionBombError:
        raise InputError(
            f"{_describe(image)}: far more than the {MAX_PIXELS / 1e6:.0f} megapixels supported; make the image smaller"
        ) from None
    except MemoryError:
        raise InputError(f"{_describe(image)}: not enough memory to decode it; make the image smaller") from None
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  a damaged file makes decoders fail in every way
        raise InputError(f"{_describe(image)}: damaged or truncated ({error}); fetch or save the image again") from None


def content_hash(image: ImageRef) -> str:
    """The SHA-256 of an image file, in hexadecimal; nothing is decoded.

    Raises:
        InputError: it cannot be read; names the image.
    """
    digest = hashlib.sha256()
    try:
        with _regular_file(image).open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InputError(f"{_describe(image)}: cannot be read ({error.strerror or error})") from None
    return digest.hexdigest()


def raise_unreadable(problems: Sequence[str], total: int) -> None:
    """Raise an `InputError` that lists the first of these problems, if there are any."""
    if len(problems) == 1:
        raise InputError(problems[0])
    if problems:
        more = f" … and {len(problems) - _MAX_LISTED:,} more" if len(problems) > _MAX_LISTED else ""
        raise InputError(
            f"{len(problems):,} of {total:,} images cannot be read: {'; '.join(problems[:_MAX_LISTED])}{more}"
        )


def _decode(opened_image: Image, image: ImageRef) -> DecodedImage:
    from PIL import ImageOps

    notes = []
    if getattr(opened_image, "n_frames", 1) > 1 and opened_image.format != "MPO":  # MPO: a photograph and its previews
        notes.append("first frame of an animation")
    opened_image.seek(0)
    opened_image.load()
    rotated_image: Any = opened_image
    if opened_image.getexif().get(_ORIENTATION, 1) in range(2, 9):
        rotated_image = ImageOps.exif_transpose(opened_image)
        notes.append("turned as its EXIF says")
    if rotated_image.mode.startswith("I") or rotated_image.mode == "F":
        pixels = _scale_to_8_bits(np.asarray(rotated_image), image)
        notes.append("16 bits scaled to 8")
    else:
        if rotated_image.mode == "CMYK":
            notes.append("CMYK converted to RGB")
        elif rotated_image.mode in ("RGBA", "LA", "PA") or "transparency" in rotated_image.info:
            notes.append("transparency dropped")
        pixels = np.asarray(rotated_image.convert("RGB"), np.uint8)
    if min(pixels.shape[:2]) == 1:
        notes.append("one pixel wide or high")
    return DecodedImage(pixels, tuple(notes))


def _scale_to_8_bits(grey: npt.NDArray[Any], image: ImageRef) -> npt.NDArray[np.uint8]:
    """16-bit grey as three equal channels of 8 bits; Pillow's own conversion would clip at 255."""
    if grey.dtype.kind == "f" or (grey.size and not (grey.min() >= 0 and grey.max() < 1 << 16)):
        raise InputError(
            f"{_describe(image)}: its grey values have neither 8 nor 16 bits, so their range is unknown; save the "
            "image as 8-bit PNG or JPEG"
        )
    scaled_values = ((grey.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    return np.repeat(scaled_values[..., None], 3, axis=2)


def _regular_file(image: ImageRef) -> Path:
    image_path = image.path
    if image_path.lower().startswith(("http://", "https://")):
        raise InputError(f"{_describe(image)}: this is a URL, but nothing is downloaded; name a file")
    try:
        file_mode = Path(image_path).stat().st_mode
    except FileNotFoundError:
        raise InputError(
            f"{_describe(image)}: file not found; check the name, and the folder that relative paths start from "
            "(images_root)"
        ) from None
    except ValueError:
        raise InputError(f"{_describe(image)}: the file name contains a NUL character; correct it") from None
    except OSError as error:
        raise InputError(f"{_describe(image)}: cannot be read ({error.strerror or error})") from None
    if stat.S_ISDIR(file_mode):
        raise InputError(f"{_describe(image)}: this is a folder; name an image in it")
    if not stat.S_ISREG(file_mode):
        raise InputError(f"{_describe(image)}: this is a pipe, a socket or a device, which is never read; name a file")
    return Path(image_path)


def _describe(image: ImageRef) -> str:
    return f"image file {image.path!a} of image {image.image_id!a}"


def _supported_formats(pillow: Any) -> list[str]:
    """The supported formats that this Pillow can read."""
    pillow.init()
    return [format_name for format_name in FORMATS if format_name in pillow.OPEN]


Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ContentHashTable:
    """The hash of each image's content."""

    hashes: tuple[str, ...]

    @property
    def first(self) -> Indices:
        """int64 (images,): the first image with the same content, whatever its name."""
        first: dict[str, int] = {}
        return np.array([first.setdefault(digest, image_row) for image_row, digest in enumerate(self.hashes)], np.int64)


@dataclass(frozen=True)
class ContentHashes:
    """Analysis: the SHA-256 of each image's file, which is also its key in caches of features."""

    def compute(self, pool: ImagePool) -> ContentHashTable:
        """The content hashes of the pool's images.

        Raises:
            InputError: files cannot be read; the first are named.
        """
        content_hashes, problems = [], []
        for image in pool.items:
            try:
                content_hashes.append(content_hash(image))
            except InputError as error:
                problems.append(str(error))
        raise_unreadable(problems, len(pool))
        return ContentHashTable(tuple(content_hashes))


def with_picture_files(captions: CaptionSet, folder: str | os.PathLike[str]) -> CaptionSet:
    """The captions, where those that name no picture have that of their image in this folder."""
    files = PictureFiles(folder)
    images = [name or files.find(image_id) for name, image_id in zip(captions.images, captions.image_ids, strict=True)]
    return captions.replace(images=images, images_root=os.fspath(files.folder))
