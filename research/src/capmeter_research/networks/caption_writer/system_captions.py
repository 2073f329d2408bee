"""Captions of systems and of the writer for the same photos, so that their statistics are comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capmeter.captions.load import load_systems
from capmeter.core.errors import InputError
from capmeter.core.progress import report_progress
from capmeter_research.common.benchmark_exclusions import identify_photo
from capmeter_research.common.corpus import Photo, split_source_file
from capmeter_research.networks.caption_writer.machine import read_rows


@dataclass(frozen=True)
class SystemCaptions:
    """The captions of several systems for the photos that all of them captioned.

    Args:
        photos: the photos with their human captions, by key.
        systems: each system's caption of each photo.
        read: which captions of a photo each system of the writer read, by position.
    """

    photos: dict[str, Photo]
    systems: dict[str, dict[str, str]]
    read: dict[str, dict[str, list[int]]]


def collect_captions(files: Sequence[str], written: Sequence[Path]) -> SystemCaptions:
    """Reads captions of systems, and captions by the writer for the same photos.

    Args:
        files: captions of systems with references, as `SOURCE=FILE`.
        written: files of `capmeter write`.

    Raises:
        InputError: a file cannot be read, or no photo has captions of all systems.
    """
    photos: dict[str, Photo] = {}
    systems: dict[str, dict[str, str]] = {}
    for source, file in map(split_source_file, files):
        for system, captions in load_systems(file).items():
            for system_caption in captions:
                photo = Photo(*identify_photo(system_caption.image_id, source), system_caption.references)
                key = f"{source} {photo.number}"
                photos.setdefault(key, photo)
                systems.setdefault(system, {})[key] = system_caption.candidate
    places_read: dict[str, dict[str, list[int]]] = {}
    for path in written:
        for row in read_rows(path):
            key = f"{row.source} {row.photo}"
            if key not in photos:
                raise InputError(f"{path}: photo {row.photo} of {row.source} is in none of the files; write for these")
            systems.setdefault(row.system, {})[key] = row.candidate
            places_read.setdefault(row.system, {})[key] = list(row.read)
    common_keys = set(photos).intersection(*systems.values())  # statistics of different photos are not comparable
    if not common_keys:
        raise InputError("no photo has captions of all systems; write for the photos of the files")
    if len(common_keys) < len(photos):
        report_progress(
            f"{len(common_keys):,} of {len(photos):,} photos have captions of all systems; the others are left out"
        )
    return SystemCaptions(
        {key: photo for key, photo in photos.items() if key in common_keys},
        {system: {key: texts[key] for key in photos if key in common_keys} for system, texts in systems.items()},
        places_read,
    )
