"""Reading a picture from its file: checked before decoding, always 8-bit RGB, with a clear message for every failure.

Conversions are the same for every picture and recorded in its notes: the first frame of an animation; rotation by EXIF
orientation; 16-bit grey scaled to 8 bits (65,535 becomes 255); CMYK, palettes and grey as Pillow converts them;
transparency dropped, as in the released code of CLIPScore and others (`convert("RGB")`).

A picture of more than `MOST_PIXELS` is rejected before it is decoded, and so is everything that is not a regular file:
a small file can decode to gigabytes, and a FIFO never ends. Formats that run other programs (EPS …) are not read.
"""

from __future__ import annotations

import hashlib
import stat
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import Place
from capmeter.errors import InputError, MissingBackend

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PIXELS = 89_478_485
"""Pillow's own threshold for decompression bombs: 256 MiB of 24-bit pixels."""
FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF")
_ORIENTATION = 0x0112
_CHUNK = 1 << 20
_SHOWN = 3  # problems that one message lists


@dataclass(frozen=True, eq=False)
class Picture:
    """A decoded picture: `pixels` (uint8, [height, width, 3]) and notes on the conversions applied."""

    pixels: npt.NDArray[np.uint8]
    notes: tuple[str, ...] = ()


def read_picture(place: Place) -> Picture:
    """The picture at this place; an `InputError` names an image that cannot be read."""
    pillow = _pillow()
    path = _regular_file(place)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pictures that are rejected below, and about harmless metadata
            with pillow.open(path, formats=_known(pillow)) as opened:
                width, height = opened.size
                if width * height > MOST_PIXELS:
                    raise InputError(
                        f"{_named(place)}: {width:,} x {height:,} pixels, more than the {MOST_PIXELS / 1e6:.0f} "
                        "megapixels that are supported; make the picture smaller"
                    )
                return _decoded(opened, place)
    except pillow.UnidentifiedImageError:
        raise InputError(
            f"{_named(place)}: not a picture, or damaged at its beginning; expected one of {', '.join(FORMATS)}"
        ) from None
    except pillow.DecompressionBombError:
        raise InputError(
            f"{_named(place)}: far more than the {MOST_PIXELS / 1e6:.0f} megapixels supported; make the picture smaller"
        ) from None
    except MemoryError:
        raise InputError(f"{_named(place)}: not enough memory to decode it; make the picture smaller") from None
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  a damaged file makes decoders fail in every way
        raise InputError(f"{_named(place)}: damaged or truncated ({error}); fetch or save the picture again") from None


def content_hash(place: Place) -> str:
    """SHA-256 of the picture's file, in hexadecimal; nothing is decoded."""
    digest = hashlib.sha256()
    try:
        with _regular_file(place).open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InputError(f"{_named(place)}: cannot be read ({error.strerror or error})") from None
    return digest.hexdigest()


def raise_unreadable(problems: Sequence[str], total: int) -> None:
    """Raises an `InputError` that lists the first of these problems; nothing if there is none."""
    if len(problems) == 1:
        raise InputError(problems[0])
    if problems:
        more = f" … and {len(problems) - _SHOWN:,} more" if len(problems) > _SHOWN else ""
        raise InputError(
            f"{len(problems):,} of {total:,} pictures cannot be read: {'; '.join(problems[:_SHOWN])}{more}"
        )


def _decoded(opened: Image, place: Place) -> Picture:
    from PIL import ImageOps

    notes = []
    if getattr(opened, "n_frames", 1) > 1 and opened.format != "MPO":  # MPO: a photograph and its previews
        notes.append("first frame of an animation")
    opened.seek(0)
    opened.load()
    turned: Any = opened
    if opened.getexif().get(_ORIENTATION, 1) in range(2, 9):
        turned = ImageOps.exif_transpose(opened)
        notes.append("turned as its EXIF says")
    if turned.mode.startswith("I") or turned.mode == "F":
        pixels = _eight_bits(np.asarray(turned), place)
        notes.append("16 bits scaled to 8")
    else:
        if turned.mode == "CMYK":
            notes.append("CMYK converted to RGB")
        elif turned.mode in ("RGBA", "LA", "PA") or "transparency" in turned.info:
            notes.append("transparency dropped")
        pixels = np.asarray(turned.convert("RGB"), np.uint8)
    if min(pixels.shape[:2]) == 1:
        notes.append("one pixel wide or high")
    return Picture(pixels, tuple(notes))


def _eight_bits(grey: npt.NDArray[Any], place: Place) -> npt.NDArray[np.uint8]:
    """16-bit grey as three equal channels of 8 bits; Pillow's own conversion would clip at 255."""
    if grey.dtype.kind == "f" or (grey.size and not (grey.min() >= 0 and grey.max() < 1 << 16)):
        raise InputError(
            f"{_named(place)}: its grey values have neither 8 nor 16 bits, so their range is unknown; save the picture "
            "as 8-bit PNG or JPEG"
        )
    scaled = ((grey.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    return np.repeat(scaled[..., None], 3, axis=2)


def _regular_file(place: Place) -> Path:
    path = place.path
    if path.lower().startswith(("http://", "https://")):
        raise InputError(f"{_named(place)}: this is a URL, but nothing is downloaded; name a file")
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        raise InputError(
            f"{_named(place)}: file not found; check the name, and the folder that relative paths start from "
            "(images_root)"
        ) from None
    except ValueError:
        raise InputError(f"{_named(place)}: the file name contains a NUL character; correct it") from None
    except OSError as error:
        raise InputError(f"{_named(place)}: cannot be read ({error.strerror or error})") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{_named(place)}: this is a folder; name a picture in it")
    if not stat.S_ISREG(mode):
        raise InputError(f"{_named(place)}: this is a pipe, a socket or a device, which is never read; name a file")
    return Path(path)


def _named(place: Place) -> str:
    return f"picture {place.path!a} of image {place.image_id!a}"


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingBackend("reading pictures needs Pillow; install it with: pip install 'capmeter[images]'") from None
    return Image


def _known(pillow: Any) -> list[str]:
    """The supported formats that this Pillow can read."""
    pillow.init()
    return [name for name in FORMATS if name in pillow.OPEN]
