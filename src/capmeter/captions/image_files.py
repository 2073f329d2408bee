"""The pictures of images that name none: files of a folder, found by image id.

An image is found under its id as it is, without the file's ending, or as a number: image 391895 of MS COCO is
`COCO_val2014_000000391895.jpg` or `000000391895.jpg`. A name that two files could mean finds neither.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = Path(folder, "COCO_val2014_000000391895.jpg").write_bytes(b"")
...     _ = Path(folder, "photo.png").write_bytes(b"")
...     files = PictureFiles(folder)
...     files.find("391895"), files.find("photo"), files.find("photo.png"), files.find("other")
('COCO_val2014_000000391895.jpg', 'photo.png', 'photo.png', None)
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from pathlib import Path

from capmeter.captions.caption_set import CaptionSet

ENDINGS = {".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".avif"}
_NUMBER = re.compile(r"(?:.*_)?0*(\d+)")


class PictureFiles:
    """The pictures in a folder (not in folders inside it); the folder is listed once, when first asked."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser()

    def find(self, image_id: str) -> str | None:
        """The name of the image's file in the folder, or None."""
        for files in self._files:
            if (file_name := files.get(image_id)) is not None:
                return file_name
        return None

    @cached_property
    def _files(self) -> tuple[dict[str, str | None], ...]:
        """Files by their name, by their name without its ending, and by number; None where two have the same."""
        try:
            file_names = sorted(
                entry.name for entry in os.scandir(self.folder) if Path(entry.name).suffix.lower() in ENDINGS
            )
        except OSError:
            file_names = []
        files_by_stem: dict[str, str | None] = {}
        files_by_number: dict[str, str | None] = {}
        for file_name in file_names:
            file_stem = Path(file_name).stem
            files_by_stem[file_stem] = None if file_stem in files_by_stem else file_name
            if (number_match := _NUMBER.fullmatch(file_stem)) is not None:
                files_by_number[number_match[1]] = None if number_match[1] in files_by_number else file_name
        return {file_name: file_name for file_name in file_names}, files_by_stem, files_by_number


def with_picture_files(captions: CaptionSet, folder: str | os.PathLike[str]) -> CaptionSet:
    """The captions, where those that name no picture have that of their image in this folder."""
    files = PictureFiles(folder)
    images = [name or files.find(image_id) for name, image_id in zip(captions.images, captions.image_ids, strict=True)]
    return captions.replace(images=images, images_root=os.fspath(files.folder))
