"""Machine captions of photos, from files.

A row is `{"photo" or "image_id", "candidate", "source"?, "system"?, "read"?}`, one JSON object per line, plain or
gzipped: `read` has the places, from 0, of the photo's own captions that the system had read (`capmeter write` writes
such rows). `captions`, an object of a caption per system, or `candidate_a`, the machine caption of a pair, may stand in
place of the candidate. Files of other layouts are read as those of any systems.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.captions.load import load_systems
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter_research.common.benchmark_exclusions import PhotoId, identify_photo


@dataclass(frozen=True)
class MachineCaption:
    """A machine caption of a photo."""

    photo: PhotoId  # its id
    system: str  # the name of the captioner; "": unknown
    caption: str  # the text
    inputs: tuple[int, ...] = ()  # indices of the photo's human captions that the captioner had as input


def read_machine_captions(path: str | Path, source: str | None = None) -> list[MachineCaption]:
    """The machine captions in a file.

    Args:
        path: the file.
        source: of photos whose row names none; None: by their image id.

    Raises:
        InputError: a row is not a machine caption.
    """
    rows = iter_machine_rows(path)
    if rows is None:
        return [
            MachineCaption(identify_photo(each.image_id, source), system, each.candidate)
            for system, captions in load_systems(str(path), on_missing="keep").items()
            for each in captions
            if each.candidate.strip()
        ]
    captions: list[MachineCaption] = []
    for row in rows:
        photo_source = row.get("source", source)
        if "photo" in row and photo_source is not None:
            photo = (str(photo_source), str(row["photo"]))
        else:
            photo = identify_photo(str(row.get("photo", row.get("image_id"))), photo_source)
        inputs, texts = tuple(row.get("read", ())), row["captions"].items()
        captions += [MachineCaption(photo, system, text, inputs) for system, text in texts if text.strip()]
    return captions


def iter_machine_rows(path: str | Path) -> Iterator[dict[str, Any]] | None:
    """The rows of a file of machine captions, each with `captions` by system; None: it has another layout.

    Raises:
        InputError: a row is not a machine caption.
    """
    first_row = next((_parse_row(line) for _, line in CaptionSource.resolve(path).lines() if line.strip()), None)
    return None if first_row is None else _iter_rows(path)


def _iter_rows(path: str | Path) -> Iterator[dict[str, Any]]:
    for line_number, line in CaptionSource.resolve(path).lines():
        if not line.strip():
            continue
        row = _parse_row(line) or {}
        captions, read = row.get("captions"), row.get("read", [])
        if not isinstance(captions, Mapping):
            captions = {str(row.get("system") or ""): row.get("candidate", row.get("candidate_a"))}
        if not (all(isinstance(text, str) for text in captions.values()) and isinstance(read, list)) or any(
            type(index) is not int for index in read
        ):
            raise InputError(
                f"{path}, line {line_number}: expected a machine caption such as "
                f'{{"photo": "391895", "candidate": "a man rides a bike", "read": [0]}}, but got {line[:80]!r}'
            )
        yield {**row, "captions": captions}


def _parse_row(line: str) -> dict[str, Any] | None:
    """The object of a line; None: it is not an object with a photo."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    is_row = isinstance(row, dict) and {"image_id", "photo"} & row.keys() and "annotations" not in row
    return row if is_row else None
