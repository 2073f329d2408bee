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
    missing = []
    for image, file in image_files.items():
        if file.lower().startswith(_WEB):
            sources[image] = file
        elif not _is_file(root / file):
            missing.append(file)
        else:
            try:
                relative = os.path.relpath(root / file, page.resolve().parent)
            except ValueError:  # another drive
                sources[image] = (root / file).resolve().as_uri()
            else:
                sources[image] = quote(Path(relative).as_posix(), errors="surrogateescape")
    note = ""
    if missing:
        note = f"{len(missing):,} of {len(image_files):,} images were not found (--images-root names their folder)."
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
    used, web, broken = 0, 0, []
    images = [image for image in dict.fromkeys(order) if image in image_files]
    with task("thumbnails", total=len(images)) as advance:
        for image in images:
            advance(1)
            if image_files[image].lower().startswith(_WEB):
                web += 1
                continue
            content, file = io.BytesIO(), root / image_files[image]
            try:
                if file.exists() and not file.is_file():  # opening a pipe would wait for ever
                    raise OSError("not a file")
                with Image.open(file) as original:
                    original.draft("RGB", (_SIDE, _SIDE))
                    thumbnail = original.convert("RGB")
                    thumbnail.thumbnail((_SIDE, _SIDE))
                    thumbnail.save(content, "JPEG", quality=72, optimize=True)
            except (OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError) as problem:
                broken.append(f"{image_files[image]} ({problem})")
                continue
            source = "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode("ascii")
            if used + len(source) > room:
                break
            used += len(source)
            sources[image] = source
    if images and len(broken) == len(images):
        raise InputError(
            f"none of the {len(images)} images could be read, the first: {broken[0]}; relative paths start at {root} "
            "(--images-root names another folder)"
        )
    note = f"{len(sources):,} of {len(images):,} images are embedded as thumbnails"
    reasons = [f"{web:,} are on the web and are never downloaded"] if web else []
    reasons += [f"{len(broken):,} could not be read (the first: {broken[0]})"] if broken else []
    omitted = len(images) - len(sources) - web - len(broken)
    reasons += [f"{omitted:,} had no room"] if omitted else []
    return PageImages(sources, note + (f"; {', '.join(reasons)}" if reasons else "") + ".")
