"""The pictures of the page: linked, or embedded as thumbnails as long as there is room."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from capmeter.errors import InputError, MissingBackend
from capmeter.progress import task

MODES = ("link", "embed", "none")
_SIDE = 240
_WEB = ("http://", "https://")


@dataclass
class Pictures:
    """The source of each image's picture, and a sentence on what was embedded or left out."""

    sources: dict[str, str]
    note: str = ""


def link_pictures(places: dict[str, str], page: Path, root: Path) -> Pictures:
    """A link for each image: URLs unchanged, existing files relative to the page."""
    sources = {}
    missing = []
    for image, place in places.items():
        if place.lower().startswith(_WEB):
            sources[image] = place
        elif not _is_file(root / place):
            missing.append(place)
        else:
            try:
                relative = os.path.relpath(root / place, page.resolve().parent)
            except ValueError:  # another drive
                sources[image] = (root / place).resolve().as_uri()
            else:
                sources[image] = quote(Path(relative).as_posix(), errors="surrogateescape")
    note = ""
    if missing:
        note = f"{len(missing):,} of {len(places):,} pictures were not found (--images-root names their folder)."
    return Pictures(sources, note)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or has a null character
        return False


def embed_pictures(places: dict[str, str], order: Iterable[str], root: Path, room: int) -> Pictures:
    """Thumbnails inside the page, in this order of images, until `room` bytes are used."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise MissingBackend(
            "embedding pictures needs Pillow; install it with: pip install 'capmeter[report]', or use --images link"
        ) from None
    sources: dict[str, str] = {}
    used, web, broken = 0, 0, []
    wanted = [image for image in dict.fromkeys(order) if image in places]
    with task("thumbnails", total=len(wanted)) as advance:
        for image in wanted:
            advance(1)
            if places[image].lower().startswith(_WEB):
                web += 1
                continue
            content = io.BytesIO()
            try:
                with Image.open(root / places[image]) as opened:
                    opened.draft("RGB", (_SIDE, _SIDE))
                    small = opened.convert("RGB")
                    small.thumbnail((_SIDE, _SIDE))
                    small.save(content, "JPEG", quality=72, optimize=True)
            except (OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError) as problem:
                broken.append(f"{places[image]} ({problem})")
                continue
            source = "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode("ascii")
            if used + len(source) > room:
                break
            used += len(source)
            sources[image] = source
    if wanted and len(broken) == len(wanted):
        raise InputError(
            f"none of the {len(wanted)} pictures could be read, the first: {broken[0]}; relative paths start at {root} "
            "(--images-root names another folder)"
        )
    note = f"{len(sources):,} of {len(wanted):,} pictures are embedded as thumbnails"
    reasons = [f"{web:,} are on the web and are never downloaded"] if web else []
    reasons += [f"{len(broken):,} could not be read (the first: {broken[0]})"] if broken else []
    left = len(wanted) - len(sources) - web - len(broken)
    reasons += [f"{left:,} had no room"] if left else []
    return Pictures(sources, note + (f"; {', '.join(reasons)}" if reasons else "") + ".")
