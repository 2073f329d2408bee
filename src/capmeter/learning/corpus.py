"""Captions of photos to train on: read from any format, without the photos of benchmarks.

A photo is known by its source (`coco`, `flickr30k`) and its number: `COCO_val2014_000000391895.jpg` is photo 391895 of
coco, `1000092795.jpg` and `1000092795_c0ffee.jpg` are photo 1000092795 of flickr30k, so that renamed files are
recognised.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capmeter.assets import package_folder
from capmeter.captions.io import load_references
from capmeter.checkpoints import TrainingData
from capmeter.errors import AssetError, InputError

HELD_OUT_PERCENT = 3
PYCOCOEVALCAP = "pycocoevalcap"
"""In place of a file: the captions of COCO 2014 that lie in the installed package of this name."""
_COCO_FILE = re.compile(r"(?:COCO_\w+?_)?0*(\d+)(?:\.\w+)?")
_ANNOTATIONS = re.compile(r"(?:.*/)?captions_\w+\.json")


@dataclass(frozen=True)
class Photo:
    """A photo's captions, in the order of their file."""

    source: str
    number: str
    captions: tuple[str, ...]

    @property
    def held_out(self) -> bool:
        """Whether the photo is kept for evaluation (three per cent are, by a hash of source and number)."""
        digest = hashlib.sha256((self.source + self.number).encode()).hexdigest()
        return int(digest, 16) % 100 < HELD_OUT_PERCENT


@dataclass(frozen=True)
class Corpus:
    """The photos of a file that may be trained on.

    excluded: how many were left out as photos of benchmarks. data: the source, and the hash of its numbers and captions
    (the same from every format).
    """

    photos: tuple[Photo, ...]
    excluded: int
    data: TrainingData


def read_corpus(source: str, file: str | Path, exclusions: Mapping[str, frozenset[str]]) -> Corpus:
    """The photos of a file that are in no benchmark and have at least two captions.

    Args:
        source: whose photos they are, a key of the exclusions.
        file: captions in any format, a zip or jar with COCO's `captions_….json`, or `pycocoevalcap`.
        exclusions: the numbers of the photos of benchmarks, by source.

    Raises:
        InputError: the file cannot be read, or the exclusions do not list this source.
        AssetError: pycocoevalcap is not installed.
    """
    if source not in exclusions:
        raise InputError(
            f"photos of {source!r} are in no list of exclusions ({', '.join(sorted(exclusions))}), so they may be in a "
            "benchmark; name the source of the file: SOURCE=FILE"
        )
    path = _installed() if str(file) == PYCOCOEVALCAP else Path(file)
    photos: list[Photo] = []
    excluded = 0
    for image, captions in _references(path):
        number = photo_number(source, image)
        written = tuple(text for each in captions if (text := " ".join(each.split())))
        if number in exclusions[source]:
            excluded += 1
        elif len(written) > 1:
            photos.append(Photo(source, number, written))
    if len({photo.number for photo in photos}) < len(photos):
        raise InputError(f"{path}: two images have the same photo number; give every photo's captions together, once")
    digest = hashlib.sha256(json.dumps([(each.number, each.captions) for each in photos]).encode("ascii")).hexdigest()
    return Corpus(tuple(photos), excluded, TrainingData(source, digest, sum(len(each.captions) for each in photos)))


def drawn_photos(corpus: Corpus, count: int, seed: int = 0, *, more_than: int = 1) -> list[Photo]:
    """So many photos, in their order, drawn by the seed from those with more captions than `more_than`; 0: all of them.

    Raises:
        InputError: there are fewer.
    """
    having = [photo for photo in corpus.photos if len(photo.captions) > more_than]
    if len(having) < max(count, 1):
        raise InputError(
            f"{corpus.data.name}: expected {max(count, 1):,} photos with more than {more_than} captions, but got "
            f"{len(having):,}"
        )
    if not count:
        return having
    rows = np.random.default_rng(seed).choice(len(having), count, replace=False)
    return [having[row] for row in np.sort(rows).tolist()]


def photo_number(source: str, image: str) -> str:
    """The number of a photo from its file's name or its id.

    >>> photo_number("coco", "COCO_val2014_000000391895.jpg"), photo_number("flickr30k", "1000092795_c0ffee.jpg")
    ('391895', '1000092795')
    """
    coco = _COCO_FILE.fullmatch(image) if source == "coco" else None
    return coco.group(1) if coco else re.split(r"[_.]", image, maxsplit=1)[0]


def named_file(given: str) -> tuple[str, str]:
    """Source and file of `SOURCE=FILE`."""
    source, equals, file = given.partition("=")
    if not equals or not source or not file:
        raise InputError(f"{given!r}: expected SOURCE=FILE, such as flickr30k=captions.jsonl.gz or coco=pycocoevalcap")
    return source, file


def _references(path: Path) -> Iterator[tuple[str, Sequence[str]]]:
    if path.suffix not in (".jar", ".zip"):
        yield from load_references(path).items()
        return
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
            names = [name for name in sorted(archive.namelist()) if _ANNOTATIONS.fullmatch(name)]
            if not names:
                raise InputError(f"{path}: expected COCO's captions_….json in this archive, but there is none")
            for name in names:
                yield from load_references(archive.extract(name, folder)).items()
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not an archive of captions ({error})") from error


def _installed() -> Path:
    folder = package_folder(PYCOCOEVALCAP, "spice")
    archive = folder / "spice-1.0.jar" if folder else None
    if archive is None or not archive.is_file():
        raise AssetError('the captions of COCO lie in pycocoevalcap: pip install "capmeter[meteor]"')
    return archive
