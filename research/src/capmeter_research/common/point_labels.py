"""Labels of points, placed so that they cover neither each other nor points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capmeter.evaluation.base import Floats

_SIZE = 7.5
# the positions of a label relative to its point: horizontally and vertically -1, 0, 1 (before, centred, after)
_PLACES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
_ALIGNED = {-1: ("right", "top"), 0: ("center", "center"), 1: ("left", "bottom")}


def name_points(panel: Any, names: Sequence[str], x: Floats, y: Floats) -> None:
    """Writes each label beside its point, in the first free position, the most crowded points first."""
    panel.autoscale_view()
    to_pixels = panel.transData.transform
    points = to_pixels(np.stack([x, y], axis=1))
    pixels_per_point = panel.figure.dpi / 72
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2)) + np.diag(np.full(len(points), np.inf))
    occupied_boxes = [_around(point, 5 * pixels_per_point, 5 * pixels_per_point) for point in points]
    for point_index in np.argsort(distances.min(axis=1)) if len(points) > 1 else range(len(points)):
        width, height = 0.62 * _SIZE * pixels_per_point * len(names[point_index]), 1.1 * _SIZE * pixels_per_point
        other_boxes = occupied_boxes[:point_index] + occupied_boxes[point_index + 1 :]
        label_boxes = [
            _beside(points[point_index], position, width, height, 5 * pixels_per_point) for position in _PLACES
        ]
        box_overlaps = [sum(_overlap(box, other) for other in other_boxes) for box in label_boxes]
        best_place = int(np.argmin(box_overlaps))
        occupied_boxes.append(label_boxes[best_place])
        x_side, y_side = _PLACES[best_place]
        panel.annotate(
            names[point_index],
            (x[point_index], y[point_index]),
            xytext=(5 * x_side, 5 * y_side),
            textcoords="offset points",
            ha=_ALIGNED[x_side][0],
            va=_ALIGNED[y_side][1],
            fontsize=_SIZE,
        )


_Box = tuple[float, float, float, float]  # left, bottom, right, top


def _around(point: Any, across: float, up: float) -> _Box:
    return (point[0] - across / 2, point[1] - up / 2, point[0] + across / 2, point[1] + up / 2)


def _beside(point: Any, position: tuple[int, int], width: float, height: float, gap: float) -> _Box:
    middle = point[0] + position[0] * (gap + width / 2), point[1] + position[1] * (gap + height / 2)
    return _around(middle, width, height)


def _overlap(one: _Box, other: _Box) -> float:
    across = min(one[2], other[2]) - max(one[0], other[0])
    up = min(one[3], other[3]) - max(one[1], other[1])
    return max(across, 0) * max(up, 0)
