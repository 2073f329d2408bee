"""A hand-size writer, trained once: made captions, photos, files and recipe."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from capmeter_research.common.corpus import Photo, PhotoCorpus

from capmeter.core.checkpoints import TrainingData

THINGS = ("dog", "cat", "girl", "boy", "horse", "bird")
PLACES = ("beach", "street", "garden", "kitchen", "field", "boat")
VERBS = ("runs", "sleeps", "waits", "jumps")


def made_photo(source: str, number: int) -> Photo:
    thing, place = THINGS[number % 6], PLACES[number // 6 % 6]
    verb = VERBS[number // 36 % 4]
    captions = (f"A {thing} {verb} in the {place}.", f"There is a {thing} in a {place}.", f"The {place} has a {thing}.")
    return Photo(source, str(number), captions)


def made_corpus(source: str, count: int) -> PhotoCorpus:
    photos = tuple(made_photo(source, number) for number in range(count))
    return PhotoCorpus(photos, 0, TrainingData(source, "0" * 64, 3 * count))


def corpus_file(path: Path, count: int) -> Path:
    rows = [made_photo("coco", number) for number in range(count)]
    lines = [json.dumps({"image_id": int(row.number), "references": row.captions}) + "\n" for row in rows]
    path.write_bytes(gzip.compress("".join(lines).encode()))
    return path


def exclusions_file(path: Path) -> Path:
    path.write_bytes(gzip.compress(json.dumps({"coco": [5, 7], "flickr": ["1"]}).encode()))
    return path
