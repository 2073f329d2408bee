"""Benchmark photos, whose captions are never trained on.

A photo is identified by its source (`coco`, `flickr30k`) and its number, so that renamed files are recognised.

`evaluation_photos.json` lists evaluation photos that a file of exclusions may lack, and that are excluded always:
those of `reformulations`, of Flickr30k's Karpathy test split, and the 1,000 of COCO val2017 on which the documentation
evaluates (`leave_one_out(…, images=1000)` of the file of its references).
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe_failure
from capmeter.evaluation.base import CapmeterWarning

PhotoId = tuple[str, str]
"""Source and number of a photo."""
Exclusions = Mapping[str, frozenset[str]]
"""Numbers of the excluded photos by source."""

ANY_SOURCE = "*"
"""As a source: photos of sources that are not listed are in no benchmark."""
_LISTS = {"coco": "coco", "flickr": "flickr30k"}  # beginning of a list's name, up to "_": source
_COCO_NAME = re.compile(r"COCO_\w+?_0*(\d+)")


def read_exclusions(path: Path | None) -> dict[str, frozenset[str]]:
    """The benchmark photos by source: every list of the file, and `evaluation_photos.json`.

    Args:
        path: `training_exclusions.json.gz`: `{"coco": [photos], "flickr": [photos], "coco_…": [photos], …}`; None: only
            the evaluation photos, with a warning, and photos of any other source are allowed.

    Raises:
        InputError: the file cannot be read, lacks one of the two lists, or has a list of another source.
    """
    evaluation_photos = _merge_lists(
        json.loads((files("capmeter_research.common") / "evaluation_photos.json").read_bytes())
    )
    if path is None:
        warnings.warn(
            "no --exclusions: photos of benchmarks may be among the training photos, and scores on these benchmarks "
            "would be too high; give the file of their photos, unless no photo is COCO's or Flickr's",
            CapmeterWarning,
            stacklevel=2,
        )
        return {**evaluation_photos, ANY_SOURCE: frozenset()}
    photo_lists = decode_json(CaptionSource.resolve(path).read_text(), str(path))
    try:
        if missing_lists := _LISTS.keys() - photo_lists.keys():
            raise ValueError(f"no list {', '.join(sorted(missing_lists))}")
        exclusions = _merge_lists(photo_lists)
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(
            f'{path}: expected the object {{"coco": [photos], "flickr": [photos]}} of excluded photos, with '
            f'further lists named "coco_…" or "flickr_…": {describe_failure(error)}'
        ) from error
    return {source: photos | evaluation_photos[source] for source, photos in exclusions.items()}


def _merge_lists(lists: Mapping[str, list[int | str]]) -> dict[str, frozenset[str]]:
    numbers_by_source: dict[str, set[str]] = {source: set() for source in _LISTS.values()}
    for list_name, numbers in lists.items():
        source = _LISTS.get(list_name.partition("_")[0])
        if source is None or not isinstance(numbers, list):
            raise ValueError(f"{list_name} is not a list of photos of COCO or Flickr30k")
        numbers_by_source[source].update(map(str, numbers))
    return {source: frozenset(numbers) for source, numbers in numbers_by_source.items()}


def identify_photo(image_id: str, source: str | None = None) -> PhotoId:
    """Source and number of the photo that an image id or a file name refers to.

    The number ends at the first underscore or dot. Without a source, COCO's file names and bare numbers are COCO's,
    others Flickr30k's.

    >>> identify_photo("COCO_val2014_000000226128.jpg"), identify_photo("99679241_adc853a5c0.jpg")
    (('coco', '226128'), ('flickr30k', '99679241'))
    """
    file_name = image_id.rpartition("/")[2]
    coco_match = _COCO_NAME.match(file_name)
    if coco_match and source in (None, "coco"):
        return "coco", coco_match.group(1)
    if source is not None and source not in (*_LISTS.values(), "world"):
        return source, file_name.rpartition(".")[0] or file_name  # of one's own: the name without its ending
    photo_number = re.split(r"[_.]", file_name, maxsplit=1)[0]
    if source is None:
        source = "coco" if photo_number == file_name else "flickr30k"
    return source, photo_number.lstrip("0") or photo_number if source == "coco" else photo_number


def is_excluded(photo: PhotoId, exclusions: Exclusions) -> bool:
    """Whether a photo is in a benchmark.

    Raises:
        InputError: the exclusions do not list its source.
    """
    source, number = photo
    if source not in exclusions and ANY_SOURCE not in exclusions:
        raise InputError(
            f"photo {number}: no exclusions are listed for source {source!r} ({', '.join(sorted(exclusions))}), so it "
            "may be in a benchmark"
        )
    return number in exclusions.get(source, frozenset())
