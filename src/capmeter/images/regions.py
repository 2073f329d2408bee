"""Regions of a picture: what a detector found, as features and boxes.

Files name the arrays as bottom-up-attention and UNITER do: `features` [n, d], `norm_bb` [n, 4 or more] (x1, y1, x2, y2
relative to the picture, then width and height), `conf` [n], `soft_labels` [n, labels]. `x` may stand for `features`,
and `bbox` in pixels with `image_w` and `image_h` for `norm_bb`. See `capmeter.images.region_source` for the files.

>>> regions = Regions(np.ones((2, 3), np.float32), np.array([[0, 0, 0.5, 1], [0.2, 0.2, 0.4, 0.6]], np.float32))
>>> [round(float(number), 2) for number in regions.positions[1, 4:]]
[0.2, 0.4, 0.08]

Anderson, He, Buehler, Teney, Johnson, Gould, Zhang: Bottom-Up and Top-Down Attention for Image Captioning and Visual
Question Answering. CVPR 2018.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.errors import InputError

Floats = npt.NDArray[np.float32]
MOST_BOXES = 1000
"""More boxes than any detector gives to a picture; a file with more is damaged."""
MOST_BYTES = 1 << 26
"""The maximum unpacked size of one picture's arrays."""
_OUTSIDE = 0.01  # detectors round boxes at the edge of a picture


@dataclass(frozen=True, eq=False)
class Regions:
    """The regions of one picture, in the order of the file (detectors write the most confident first).

    features: float32[n, d]. boxes: float32[n, 4], x1, y1, x2, y2 relative to the picture. confidence: float32[n], or
    None. labels: each region's label as text, or its number in the detector's list; None where the file has none.
    """

    features: Floats
    boxes: Floats
    confidence: Floats | None = None
    labels: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.features)

    @property
    def positions(self) -> Floats:
        """The 7 numbers per box that UNITER reads, float32[n, 7]: x1, y1, x2, y2, width, height, area."""
        size = self.boxes[:, 2:] - self.boxes[:, :2]
        return np.concatenate([self.boxes, size, size[:, :1] * size[:, 1:]], axis=1)

    def chosen(self, rule: BoxRule) -> Regions:
        """The regions that a rule chooses."""
        count = rule.count(self.confidence, len(self))
        if self.confidence is None or rule.in_order:
            rows = np.arange(count)
        else:
            rows = np.argsort(-self.confidence, kind="stable")[:count]
        return self.take(rows)

    def take(self, rows: npt.NDArray[Any]) -> Regions:
        """These regions, in this order."""
        return replace(
            self,
            features=self.features[rows],
            boxes=self.boxes[rows],
            confidence=None if self.confidence is None else self.confidence[rows],
            labels=None if self.labels is None else tuple(self.labels[k] for k in rows.tolist()),
        )


@dataclass(frozen=True)
class BoxRule:
    """Which regions are used: those with a confidence above `conf_th`, at least `least`, at most `most` of them.

    Without confidences all, up to `most`. in_order: take the first ones of the file, as UNITER's code does, which
    relies on their order; else the most confident ones.
    """

    conf_th: float = 0.2
    least: int = 10
    most: int = 100
    in_order: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise InputError(f"expected 1 <= least boxes <= most boxes, but got {self.least} and {self.most}")

    def count(self, confidence: Floats | None, boxes: int) -> int:
        """How many of these boxes are used."""
        sure = boxes if confidence is None else int((confidence > self.conf_th).sum())
        return min(boxes, self.most, max(self.least, sure))


def regions_of(arrays: Mapping[str, Any], place: str) -> Regions:
    """The regions in a picture's arrays, checked.

    Raises:
        InputError: an array is missing, or of a wrong shape or type, or holds NaN; says which, and what was expected.
    """
    features = _numbers(arrays, ("features", "x"), place)
    if features.ndim != 2 or not features.shape[1]:
        raise InputError(f"{place}: features have the shape {list(features.shape)}, expected [boxes, features]")
    if not 1 <= len(features) <= MOST_BOXES:
        raise InputError(
            f"{place}: {len(features):,} boxes, expected 1 to {MOST_BOXES:,}; extract the regions of this picture again"
        )
    boxes = _boxes(arrays, len(features), place)
    confidence = None
    if "conf" in arrays:
        confidence = _numbers(arrays, ("conf",), place)
        if confidence.shape != (len(features),):
            raise InputError(f"{place}: conf has the shape {list(confidence.shape)}, expected [{len(features)}]")
    return Regions(features, boxes, confidence, _labels(arrays, len(features), place))


def _boxes(arrays: Mapping[str, Any], count: int, place: str) -> Floats:
    boxes = _numbers(arrays, ("norm_bb", "bbox", "boxes"), place)
    if boxes.ndim != 2 or len(boxes) != count or boxes.shape[1] < 4:
        raise InputError(f"{place}: boxes have the shape {list(boxes.shape)}, expected [{count}, 4 or more]")
    boxes = boxes[:, :4]
    if "norm_bb" not in arrays:
        width, height = (_numbers(arrays, (name,), place).ravel() for name in ("image_w", "image_h"))
        if width.shape != (1,) or height.shape != (1,) or min(width[0], height[0]) <= 0:
            raise InputError(f"{place}: image_w and image_h must be the picture's size in pixels, for boxes in pixels")
        boxes = boxes / np.concatenate([width, height, width, height])
    inside = (boxes >= -_OUTSIDE).all() and (boxes <= 1 + _OUTSIDE).all()
    if not inside or (boxes[:, 2:] < boxes[:, :2]).any():
        raise InputError(
            f"{place}: a box is outside its picture or ends before it begins; expected x1 <= x2 and y1 <= y2, from 0 "
            "to 1 (norm_bb), or in pixels with image_w and image_h (bbox)"
        )
    return boxes


def _labels(arrays: Mapping[str, Any], count: int, place: str) -> tuple[str, ...] | None:
    if "labels" in arrays:
        named = np.asarray(arrays["labels"])
        if named.dtype.kind not in "UiuS" or named.shape != (count,):
            raise InputError(f"{place}: labels must be {count} texts or numbers, but are {named.dtype}{named.shape}")
        try:
            texts = named.tolist()
        except (SystemError, ValueError) as error:  # what Python and numpy raise on numbers that are no characters
            raise InputError(f"{place}: a label is not text ({error}); write the labels again") from error
        return tuple(each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in texts)
    if "soft_labels" in arrays:
        soft = _numbers(arrays, ("soft_labels",), place)
        if soft.ndim != 2 or len(soft) != count or soft.shape[1] < 2:
            raise InputError(f"{place}: soft_labels have the shape {list(soft.shape)}, expected [{count}, labels]")
        return tuple(map(str, (soft[:, 1:].argmax(axis=1) + 1).tolist()))  # label 0 is the background
    return None


def _numbers(arrays: Mapping[str, Any], names: tuple[str, ...], place: str) -> Floats:
    name = next((name for name in names if name in arrays), None)
    if name is None:
        had = ", ".join(sorted(map(str, arrays))[:8]) or "nothing"
        raise InputError(f"{place}: there is no array {' or '.join(names)}; it has {had}")
    try:
        found = np.asarray(arrays[name])
    except ValueError as error:
        raise InputError(f"{place}: {name} is not an array ({error}); extract the regions again") from error
    if found.dtype.kind not in "fiu":
        raise InputError(f"{place}: {name} holds {found.dtype}, expected numbers")
    with np.errstate(over="ignore"):
        numbers = found.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise InputError(f"{place}: {name} holds NaN or infinite values; extract the regions of this picture again")
    return numbers
