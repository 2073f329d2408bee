"""Captions of photos to train on: read from any format, without benchmark photos."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from capmeter.captions.load import load_references
from capmeter.core.assets import package_folder
from capmeter.core.checkpoints import TrainingData, hash_texts
from capmeter.core.errors import AssetError, InputError
from capmeter.core.progress import report_progress
from capmeter_research.common.benchmark_exclusions import ANY_SOURCE, Exclusions, PhotoId, identify_photo

HELD_OUT_PERCENT, SMALL_PERCENT = 3, 10
SMALL_CORPUS = 3000
"""Corpora of fewer photos hold out `SMALL_PERCENT`."""
CAPTIONS_PER_PHOTO = 5
"""Captions of each photo that recipes with a fixed number use."""
PYCOCOEVALCAP = "pycocoevalcap"
"""In place of a file: the captions of COCO 2014 in the installed package of this name."""
_ANNOTATIONS = re.compile(r"(?:.*/)?captions_\w+\.json")


@dataclass(frozen=True)
class Photo:
    """A photo's captions, in the order of their file."""

    source: str
    number: str
    captions: tuple[str, ...]
    held_out_percent: int = HELD_OUT_PERCENT

    @property
    def id(self) -> PhotoId:
        """Source and number."""
        return self.source, self.number

    @property
    def held_out(self) -> bool:
        """Whether the photo is held out for evaluation (three per cent are, of small corpora ten)."""
        return is_held_out(self.id, self.held_out_percent)


def is_held_out(photo: PhotoId, percent: int = HELD_OUT_PERCENT) -> bool:
    """Whether a photo is held out for evaluation, by a hash of its id: the same photos in every run."""
    return int(hashlib.sha256("".join(photo).encode()).hexdigest(), 16) % 100 < percent


@dataclass(frozen=True)
class PhotoCorpus:
    """The photos of a file that may be trained on."""

    photos: tuple[Photo, ...]  # those with at least two captions
    excluded: int  # number of benchmark photos that were left out
    data: TrainingData  # source, and hash of the photos' numbers and captions (the same for every format)

    def sample(self, count: int, seed: int = 0, *, min_captions: int = 2) -> list[Photo]:
        """A random sample of the photos, in their order.

        Args:
            count: number of photos; 0: all.
            seed: of the sample.
            min_captions: photos with fewer captions are not sampled.

        Raises:
            InputError: there are fewer photos.
        """
        photos = [photo for photo in self.photos if len(photo.captions) >= min_captions]
        if len(photos) < max(count, 1):
            raise InputError(
                f"{self.data.name}: expected {max(count, 1):,} photos with at least {min_captions} captions, but got "
                f"{len(photos):,}"
            )
        if not count:
            return photos
        sampled_rows = np.random.default_rng(seed).choice(len(photos), count, replace=False)
        return [photos[row] for row in np.sort(sampled_rows).tolist()]


def read_corpus(source: str, file: str | Path, exclusions: Exclusions) -> PhotoCorpus:
    """The photos of a file that are in no benchmark and have at least two captions.

    Args:
        source: whose photos they are, a key of the exclusions.
        file: captions in any format, a zip or jar with COCO's `captions_….json`, or `pycocoevalcap`.
        exclusions: numbers of the benchmark photos by source.

    Raises:
        InputError: the file cannot be read, or the exclusions do not list this source.
        AssetError: pycocoevalcap is not installed.
    """
    if source not in exclusions and ANY_SOURCE not in exclusions:
        raise InputError(
            f"no exclusions are listed for photos of {source!r} ({', '.join(sorted(exclusions))}), so they may be in a "
            "benchmark; name the source of the file: SOURCE=FILE"
        )
    path = _installed_coco() if str(file) == PYCOCOEVALCAP else Path(file)
    photos: list[Photo] = []
    excluded_count = 0
    for image_id, references in _read_references(path):
        photo_number = identify_photo(image_id, source)[1]
        captions = tuple(text for reference_text in references if (text := " ".join(reference_text.split())))
        if photo_number in exclusions.get(source, frozenset()):
            excluded_count += 1
        elif len(captions) > 1:
            photos.append(Photo(source, photo_number, captions))
    if len({photo.number for photo in photos}) < len(photos):
        raise InputError(
            f"{path}: two images have the same photo number of {source}; give every photo's captions together, once, "
            f"and name the source of photos that are not {source}'s otherwise: mine={path}"
        )
    if len(photos) < SMALL_CORPUS:
        photos = [replace(photo, held_out_percent=SMALL_PERCENT) for photo in photos]
    digest = hashlib.sha256(
        json.dumps([(photo.number, photo.captions) for photo in photos]).encode("ascii")
    ).hexdigest()
    texts = [text for photo in photos for text in photo.captions]
    data = TrainingData(source, digest, len(texts), hash_texts(texts))
    return PhotoCorpus(tuple(photos), excluded_count, data)


def sample_splits(
    corpora: Sequence[PhotoCorpus], photos: int, held_out: int, seed: int
) -> tuple[list[Photo], list[Photo]]:
    """Training photos and held-out photos with five captions, as many of each corpus.

    Args:
        corpora: to sample from.
        photos, held_out: number of photos to train on and to hold out, over all corpora.
        seed: of the sample.

    Raises:
        InputError: there are fewer.
    """
    splits: tuple[list[Photo], list[Photo]] = [], []
    for corpus in corpora:
        candidate_photos = corpus.sample(0, min_captions=CAPTIONS_PER_PHOTO)
        for split, is_held_out_split, split_size in ((splits[0], False, photos), (splits[1], True, held_out)):
            available_photos = [photo for photo in candidate_photos if photo.held_out is is_held_out_split]
            count = -(-split_size // len(corpora))
            if len(available_photos) < count:
                purpose = "to hold out" if is_held_out_split else "to train on"
                shortage = f"{len(available_photos):,} photos with {CAPTIONS_PER_PHOTO} captions {purpose}"
                if len(available_photos) < 2 or len(corpus.photos) >= SMALL_CORPUS:
                    raise InputError(f"{corpus.data.name}: expected {count:,}, but there are {shortage}")
                report_progress(f"{corpus.data.name}: {shortage}, fewer than the {count:,} asked for: all are used")
                count = len(available_photos)
            sampled_rows = np.random.default_rng(seed).choice(len(available_photos), count, replace=False)
            split.extend(available_photos[row] for row in np.sort(sampled_rows).tolist())
    return splits


def sample_more(corpora: Sequence[PhotoCorpus], train: Sequence[Photo], count: int, seed: int) -> list[Photo]:
    """More training photos with five captions.

    Args:
        corpora: to sample from.
        train: photos that are left out.
        count: number of photos at most.
        seed: of the sample.
    """
    train_ids = {photo.id for photo in train}
    candidate_photos = (photo for corpus in corpora for photo in corpus.sample(0, min_captions=CAPTIONS_PER_PHOTO))
    available_photos = [photo for photo in candidate_photos if not photo.held_out and photo.id not in train_ids]
    sampled_rows = np.random.default_rng(seed).permutation(len(available_photos))[:count]
    return [available_photos[row] for row in np.sort(sampled_rows).tolist()]


def split_source_file(text: str) -> tuple[str, str]:
    """Source and file of `SOURCE=FILE`."""
    source, equals, file = text.partition("=")
    if not equals or not source or not file:
        raise InputError(
            f"{text!r}: expected SOURCE=FILE, such as flickr30k=captions.jsonl.gz, coco=pycocoevalcap, or "
            "mine=captions.json for photos of your own"
        )
    return source, file


def _read_references(path: Path) -> Iterator[tuple[str, Sequence[str]]]:
    if path.suffix not in (".jar", ".zip"):
        yield from load_references(path).items()
        return
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
            member_names = [member for member in sorted(archive.namelist()) if _ANNOTATIONS.fullmatch(member)]
            if not member_names:
                raise InputError(f"{path}: expected COCO's captions_….json in this archive, but there is none")
            for member in member_names:
                yield from load_references(archive.extract(member, folder)).items()
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not an archive of captions ({error})") from error


def _installed_coco() -> Path:
    spice_folder = package_folder(PYCOCOEVALCAP, "spice")
    archive = spice_folder / "spice-1.0.jar" if spice_folder else None
    if archive is None or not archive.is_file():
        raise AssetError('the COCO captions come with pycocoevalcap: pip install "capmeter[meteor]"')
    return archive
