"""The images of the page: linked, or embedded as thumbnails while there is room."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.progress import task

MODES = ("link", "embed", "none")
_SIDE = 240
_WEB = ("http://", "https://")


@dataclass
class PageImages:
    """Image id → source of its element, and a sentence on what was embedded or omitted."""

    sources: dict[str, str]
    note: str = ""


def require_mode(mode: str) -> None:
    """An `InputError` if this is not one of `MODES`."""
    if mode not in MODES:
        raise InputError(f"images is {mode!r}; expected one of {', '.join(MODES)}")


def link_images(image_files: Mapping[str, str], page: Path, root: Path) -> PageImages:
    """A link for each image: URLs unchanged, existing files relative to the page."""
    sources = {}
    missing_files = []
    for image, image_file in image_files.items():
        if image_file.lower().startswith(_WEB):
            sources[image] = image_file
        elif not _is_file(root / image_file):
            missing_files.append(image_file)
        else:
            try:
                relative_path = os.path.relpath(root / image_file, page.resolve().parent)
            except ValueError:  # another drive
                sources[image] = (root / image_file).resolve().as_uri()
            else:
                sources[image] = quote(Path(relative_path).as_posix(), errors="surrogateescape")
    note = ""
    if missing_files:
        note = (
            f"{len(missing_files):,} of {len(image_files):,} images were not found (--images-root names their folder)."
        )
    return PageImages(sources, note)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or has a null character
        return False


def embed_images(image_files: Mapping[str, str], order: Iterable[str], root: Path, room: int) -> PageImages:
    """Thumbnails inside the page, in this order of images, until `room` bytes are used."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise MissingBackend(
            "embedding images needs Pillow; install it with: pip install 'capmeter[report]', or use --images link"
        ) from None
    sources: dict[str, str] = {}
    used_bytes, web_count, broken = 0, 0, []
    images = [image for image in dict.fromkeys(order) if image in image_files]
    with task("thumbnails", total=len(images)) as advance:
        for image in images:
            advance(1)
            if image_files[image].lower().startswith(_WEB):
                web_count += 1
                continue
            thumbnail_bytes, image_file = io.BytesIO(), root / image_files[image]
            try:
                if image_file.exists() and not image_file.is_file():  # opening a pipe would wait for ever
                    raise OSError("not a file")
                with Image.open(image_file) as original:
                    original.draft("RGB", (_SIDE, _SIDE))
                    thumbnail = original.convert("RGB")
                    thumbnail.thumbnail((_SIDE, _SIDE))
                    thumbnail.save(thumbnail_bytes, "JPEG", quality=72, optimize=True)
            except (OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError) as problem:
                reason = problem.strerror if isinstance(problem, OSError) else None  # without the error's number
                broken.append(f"{image_files[image]} ({reason or problem})")
                continue
            source = "data:image/jpeg;base64," + base64.b64encode(thumbnail_bytes.getvalue()).decode("ascii")
            if used_bytes + len(source) > room:
                break
            used_bytes += len(source)
            sources[image] = source
    if images and len(broken) == len(images):
        raise InputError(
            f"none of the {len(images)} images could be read, the first: {broken[0]}; relative paths start at {root} "
            "(--images-root names another folder)"
        )
    note = f"{len(sources):,} of {len(images):,} images are embedded as thumbnails"
    reasons = [f"{web_count:,} are on the web and are never downloaded"] if web_count else []
    reasons += [f"{len(broken):,} could not be read (the first: {broken[0]})"] if broken else []
    omitted_count = len(images) - len(sources) - web_count - len(broken)
    reasons += [f"{omitted_count:,} had no room"] if omitted_count else []
    return PageImages(sources, note + (f"; {', '.join(reasons)}" if reasons else "") + ".")
