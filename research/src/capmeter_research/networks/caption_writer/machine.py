"""Captions of a writer's systems for many photos, as rows to train metrics with.

A row is `{"source", "photo", "system", "candidate", "read"}`: `read` has the places, from 0, of the photo's own
captions that the writer read. The photo's other captions are unknown to the writer, and they alone may be references.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.sources import text_lines
from capmeter.core.errors import InputError
from capmeter_research.common.corpus import Photo
from capmeter_research.networks.caption_writer.similar import near_captions
from capmeter_research.networks.caption_writer.writer import Writer, strength_folder
from capmeter_research.networks.caption_writer.writing import WriterSystem


@dataclass(frozen=True)
class WrittenRow:
    """A row: a system's caption of a photo, and the places of the captions that it read."""

    source: str
    photo: str
    system: str
    candidate: str
    read: tuple[int, ...]


def read_rows(path: str | Path) -> Iterator[WrittenRow]:
    """The rows of a file of JSON lines; other keys are not looked at, and without `read` nothing was read.

    Raises:
        InputError: a line is not such a row.
    """
    for line_number, line in text_lines(path):
        try:
            row = json.loads(line)
            row_texts = [row[field_name] for field_name in ("source", "photo", "system", "candidate")]
            places = row.get("read", [])
            if not all(isinstance(text, str) for text in row_texts) or not all(type(place) is int for place in places):
                raise TypeError("source, photo, system and candidate are text, read is a list of places")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f'{path}, line {line_number}: expected {{"source", "photo", "system", "candidate", "read"}}: {error!r}'
            ) from error
        yield WrittenRow(row_texts[0], row_texts[1], row_texts[2], row_texts[3], tuple(places))


def machine_captions(
    photos: Sequence[Photo],
    systems: Mapping[str, WriterSystem],
    checkpoint: str | Path,
    *,
    each: int = 0,
    style: str | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> Iterator[dict[str, Any]]:
    """The rows of each system in turn, in the order of the photos.

    Args:
        photos: with more captions each than a system reads.
        systems: how each writes, by name.
        checkpoint: the writer's folder, with its weaker versions where a system names one.
        each: number of systems that write for each photo, sampled by the seed; 0: all.
        style: whose captions to imitate; None: each photo's source.
        seed: of what is read, lost and sampled; each system has its own choices.
        device: a torch device.

    Raises:
        InputError: a photo has too few captions.
        AssetError: a checkpoint is missing.
    """
    similar_captions: dict[int, str] = {}
    if any(writing.near for writing in systems.values()):
        for source in sorted({photo.source for photo in photos}):
            rows = [row for row, photo in enumerate(photos) if photo.source == source]
            similar_captions |= dict(zip(rows, near_captions([photos[row] for row in rows], seed), strict=True))
    write_for = [sample_systems(tuple(systems), each, photo, seed) for photo in photos]
    writers: dict[str, Writer] = {}
    for system, writing in systems.items():
        writer_folder = strength_folder(checkpoint, writing.strength)
        if writer_folder not in writers:
            writers[writer_folder] = Writer(writer_folder, device=device)
        rows = [row for row, system_names in enumerate(write_for) if system in system_names]
        batch_photos = [photos[row] for row in rows]
        read = [read_places(photo, writing.read, f"{seed} {system}") for photo in batch_photos]
        captions = writers[writer_folder].write(
            [[photo.captions[index] for index in places] for photo, places in zip(batch_photos, read, strict=True)],
            writing,
            style=[style or photo.source for photo in batch_photos],
            similar=[similar_captions[row] for row in rows] if writing.near else None,
            seed=_number(f"{seed} {system}"),
        )
        for photo, places, candidate in zip(batch_photos, read, captions, strict=True):
            row = {"source": photo.source, "photo": photo.number, "system": system, "candidate": candidate}
            yield {**row, "read": places}


def read_places(photo: Photo, count: int, salt: str) -> list[int]:
    """Which captions of a photo are read, by a hash, so that other photos do not matter.

    Args:
        photo: with its captions.
        count: number of captions that are read.
        salt: of the hash.

    Returns:
        The captions' positions, in order.

    Raises:
        InputError: the photo has no caption left as a reference.
    """
    if len(photo.captions) <= count:
        raise InputError(
            f"photo {photo.number} of {photo.source} has {len(photo.captions)} captions; expected more than the "
            f"{count} that are read, so that a reference is left"
        )
    order = np.random.default_rng(_number(f"{salt} {photo.source} {photo.number}")).permutation(len(photo.captions))
    return sorted(order[:count].tolist())


def unread(photo: Photo, places: Sequence[int]) -> tuple[str, ...]:
    """The captions that were not read: the references of what was written."""
    return tuple(caption for index, caption in enumerate(photo.captions) if index not in places)


def sample_systems(systems: tuple[str, ...], count: int, photo: Photo, seed: int) -> frozenset[str]:
    """The systems that write for a photo, by a hash, so that other photos do not matter.

    Args:
        systems: their names.
        count: number of systems; 0: all.
        photo: to write of.
        seed: of the hash.
    """
    if not count:
        return frozenset(systems)
    system_order = np.random.default_rng(_number(f"{seed} {photo.source} {photo.number}")).permutation(len(systems))
    return frozenset(systems[index] for index in system_order[:count].tolist())


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "little")
