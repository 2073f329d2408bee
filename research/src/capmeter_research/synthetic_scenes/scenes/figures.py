"""The drawings of synthetic scenes: every kind of thing as a few shapes in a box of height and width 1.

A `Figure` is an ellipse, a rectangle, a polygon or a line, in parts of the thing's box (0, 0 is the upper left corner),
and a paint: `body` is the thing's own colour, `shade` a darker one and `light` a lighter one, all others are fixed.
Only `body` shapes get the thing's texture. Shapes are drawn in their order within three layers: those below the body,
the body, and those upon it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

PAINTS = {
    "skin": (240, 196, 158),
    "hair": (92, 58, 34),
    "dark": (38, 38, 44),
    "wood": (142, 92, 52),
    "glass": (190, 226, 244),
    "metal": (120, 124, 132),
    "leaf": (70, 148, 66),
    "cream": (252, 240, 214),
    "lamp": (255, 236, 150),
    "door": (110, 66, 40),
    "inside": (216, 198, 172),
    "eye": (20, 20, 24),
    "pale": (250, 250, 250),
    "rose": (236, 120, 120),
}


@dataclass(frozen=True)
class Figure:
    """One shape: `form` is ellipse, rectangle, polygon or line; `points` x0, y0, x1, y1, …; `width` of a line."""

    form: str
    paint: str
    points: tuple[float, ...]
    layer: int
    width: float = 0.0


def _ellipse(paint: str, *points: float, layer: int = 2) -> Figure:
    return Figure("ellipse", paint, points, layer)


def _rectangle(paint: str, *points: float, layer: int = 2) -> Figure:
    return Figure("rectangle", paint, points, layer)


def _polygon(paint: str, *points: float, layer: int = 2) -> Figure:
    return Figure("polygon", paint, points, layer)


def _line(paint: str, width: float, *points: float, layer: int = 2) -> Figure:
    return Figure("line", paint, points, layer, width)


def _star() -> tuple[float, ...]:
    """A star with five points."""
    points: list[float] = []
    for k in range(10):
        radius, angle = (0.5, 0.225)[k % 2], -math.pi / 2 + math.pi * k / 5
        points += [0.5 + radius * math.cos(angle), 0.5 + radius * math.sin(angle)]
    low_x, low_y = min(points[::2]), min(points[1::2])
    x_range, y_range = max(points[::2]) - low_x, max(points[1::2]) - low_y
    return tuple((p - (low_x, low_y)[k % 2]) / (x_range, y_range)[k % 2] for k, p in enumerate(points))


def _heart() -> tuple[float, ...]:
    points: list[float] = []
    for k in range(28):
        t = 2 * math.pi * k / 28
        points += [
            0.5 + math.sin(t) ** 3 / 2,
            0.43 - (13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)) / 30,
        ]
    return tuple(min(1.0, max(0.0, p)) for p in points)


HAND = (0.96, 0.5)
"""Where a person with a raised arm has the hand, in parts of the person's box."""


def _person(kind: str, holds: bool) -> Iterable[Figure]:
    if kind == "child":
        head, neck, waist = (0.22, 0.0, 0.78, 0.42), 0.4, 0.76
    else:
        head, neck, waist = (0.31, 0.0, 0.69, 0.235), 0.23, 0.58
    yield _line("skin", 0.13, 0.36, neck + 0.09, 0.1, waist - 0.06, layer=0)
    hand_position = (HAND[0] - 0.06, HAND[1]) if holds else (0.9, waist - 0.06)
    yield _line("skin", 0.13, 0.64, neck + 0.09, *hand_position, layer=0)
    if kind == "woman":
        yield _line("skin", 0.12, 0.4, 0.75, 0.4, 0.96, layer=0)
        yield _line("skin", 0.12, 0.6, 0.75, 0.6, 0.96, layer=0)
        yield _ellipse("hair", 0.24, 0.0, 0.76, 0.3, layer=0)
        yield _polygon("body", 0.36, neck, 0.64, neck, 0.66, 0.45, 0.88, 0.82, 0.12, 0.82, 0.34, 0.45, layer=1)
        yield _rectangle("dark", 0.34, 0.95, 0.47, 1.0)
        yield _rectangle("dark", 0.53, 0.95, 0.66, 1.0)
    else:
        yield _rectangle("dark", 0.31, waist - 0.02, 0.48, 1.0, layer=0)
        yield _rectangle("dark", 0.52, waist - 0.02, 0.69, 1.0, layer=0)
        yield _polygon(
            "body", 0.27, neck, 0.73, neck, 0.84, neck + 0.16, 0.72, neck + 0.2, 0.72, waist, 0.28, waist,
            0.28, neck + 0.2, 0.16, neck + 0.16, layer=1,
        )  # fmt: skip
    yield _ellipse("skin", *head)
    head_width, head_height = head[2] - head[0], head[3]
    if kind == "man":
        yield _polygon("hair", head[0], 0.1, head[0] + 0.03, 0.02, 0.5, 0.0, head[2] - 0.03, 0.02, head[2], 0.1)
    elif kind == "woman":
        yield _polygon("hair", 0.29, 0.12, 0.33, 0.0, 0.67, 0.0, 0.71, 0.12, 0.5, 0.06)
    else:
        yield _ellipse("hair", 0.4, 0.0, 0.6, 0.08)
    for eye_position in (0.33, 0.67):
        eye_centre = head[0] + eye_position * head_width
        yield _ellipse("eye", eye_centre - 0.035, 0.45 * head_height, eye_centre + 0.035, 0.45 * head_height + 0.035)


def _four_legs(left: float, right: float, top: float, leg_width: float) -> Iterable[Figure]:
    for x in (left, left + 1.6 * leg_width, right - 2.6 * leg_width, right - leg_width):
        yield _rectangle("shade", x, top, x + leg_width, 1.0, layer=0)


def _figures() -> dict[str, list[Figure]]:
    figures: dict[str, list[Figure]] = {}
    figures["dog"] = [
        *_four_legs(0.2, 0.74, 0.62, 0.09),
        _line("shade", 0.1, 0.18, 0.5, 0.04, 0.22, layer=0),
        _ellipse("body", 0.12, 0.36, 0.78, 0.8, layer=1),
        _ellipse("body", 0.6, 0.08, 0.92, 0.54, layer=1),
        _ellipse("light", 0.76, 0.26, 1.0, 0.48),
        _ellipse("shade", 0.58, 0.08, 0.7, 0.46),
        _ellipse("eye", 0.76, 0.18, 0.82, 0.26),
        _ellipse("dark", 0.94, 0.28, 1.0, 0.37),
    ]
    figures["cat"] = [
        _line("shade", 0.1, 0.2, 0.9, 0.06, 0.62, 0.1, 0.36, layer=0),
        _ellipse("body", 0.18, 0.44, 0.72, 1.0, layer=1),
        _polygon("body", 0.44, 0.3, 0.46, 0.0, 0.64, 0.16, layer=1),
        _polygon("body", 0.94, 0.3, 0.94, 0.0, 0.76, 0.16, layer=1),
        _ellipse("body", 0.42, 0.1, 0.98, 0.58, layer=1),
        _ellipse("light", 0.58, 0.36, 0.82, 0.54),
        _ellipse("eye", 0.54, 0.26, 0.63, 0.36),
        _ellipse("eye", 0.77, 0.26, 0.86, 0.36),
        _polygon("rose", 0.66, 0.39, 0.74, 0.39, 0.7, 0.44),
        _line("shade", 0.05, 0.56, 0.7, 0.56, 0.98),
    ]
    figures["horse"] = [
        *_four_legs(0.18, 0.7, 0.6, 0.07),
        _line("hair", 0.09, 0.14, 0.42, 0.04, 0.72, layer=0),
        _ellipse("body", 0.1, 0.36, 0.74, 0.7, layer=1),
        _polygon("body", 0.54, 0.5, 0.7, 0.1, 0.84, 0.14, 0.74, 0.6, layer=1),
        _polygon("body", 0.68, 0.08, 0.8, 0.04, 1.0, 0.26, 0.94, 0.34, 0.7, 0.24, layer=1),
        _line("hair", 0.08, 0.54, 0.42, 0.62, 0.16, 0.7, 0.05),
        _polygon("shade", 0.7, 0.08, 0.74, 0.0, 0.78, 0.08),
        _ellipse("eye", 0.78, 0.12, 0.83, 0.17),
    ]
    figures["elephant"] = [
        *_four_legs(0.14, 0.7, 0.6, 0.11),
        _line("shade", 0.05, 0.08, 0.38, 0.02, 0.62, layer=0),
        _ellipse("body", 0.04, 0.1, 0.74, 0.8, layer=1),
        _ellipse("body", 0.56, 0.06, 0.92, 0.54, layer=1),
        _line("shade", 0.13, 0.86, 0.36, 0.93, 0.6, 0.9, 0.86),
        _ellipse("light", 0.48, 0.08, 0.72, 0.58),
        _ellipse("eye", 0.77, 0.2, 0.82, 0.27),
        _polygon("pale", 0.8, 0.5, 0.86, 0.5, 0.99, 0.66),
    ]
    figures["bird"] = [
        _polygon("shade", 0.24, 0.5, 0.0, 0.34, 0.02, 0.62, layer=0),
        _line("lamp", 0.05, 0.46, 0.8, 0.46, 0.98, layer=0),
        _line("lamp", 0.05, 0.58, 0.8, 0.58, 0.98, layer=0),
        _polygon("lamp", 0.86, 0.2, 1.0, 0.3, 0.86, 0.38, layer=0),
        _ellipse("body", 0.14, 0.32, 0.78, 0.86, layer=1),
        _ellipse("body", 0.58, 0.06, 0.92, 0.52, layer=1),
        _polygon("shade", 0.3, 0.46, 0.64, 0.46, 0.26, 0.0),
        _ellipse("eye", 0.75, 0.18, 0.82, 0.28),
    ]
    figures["fish"] = [
        _polygon("shade", 0.28, 0.5, 0.0, 0.12, 0.0, 0.88, layer=0),
        _polygon("shade", 0.4, 0.2, 0.66, 0.2, 0.44, 0.0, layer=0),
        _ellipse("body", 0.2, 0.12, 1.0, 0.92, layer=1),
        _ellipse("pale", 0.76, 0.3, 0.88, 0.5),
        _ellipse("eye", 0.8, 0.35, 0.87, 0.46),
        _polygon("shade", 0.5, 0.5, 0.64, 0.6, 0.46, 0.74),
    ]
    figures["butterfly"] = [
        _ellipse("body", 0.0, 0.0, 0.48, 0.58, layer=1),
        _ellipse("body", 0.52, 0.0, 1.0, 0.58, layer=1),
        _ellipse("body", 0.08, 0.48, 0.48, 1.0, layer=1),
        _ellipse("body", 0.52, 0.48, 0.92, 1.0, layer=1),
        _ellipse("dark", 0.44, 0.14, 0.56, 0.9),
        _line("dark", 0.03, 0.48, 0.18, 0.36, 0.02),
        _line("dark", 0.03, 0.52, 0.18, 0.64, 0.02),
    ]
    figures["car"] = [
        _polygon("body", 0.2, 0.46, 0.32, 0.02, 0.68, 0.02, 0.82, 0.46, layer=1),
        _polygon("body", 0.0, 0.52, 0.06, 0.42, 0.94, 0.44, 1.0, 0.56, 1.0, 0.78, 0.0, 0.78, layer=1),
        _polygon("glass", 0.28, 0.42, 0.36, 0.12, 0.48, 0.12, 0.48, 0.42),
        _polygon("glass", 0.53, 0.42, 0.53, 0.12, 0.65, 0.12, 0.74, 0.42),
        _ellipse("dark", 0.12, 0.58, 0.33, 1.0),
        _ellipse("dark", 0.68, 0.58, 0.89, 1.0),
        _ellipse("metal", 0.18, 0.7, 0.27, 0.88),
        _ellipse("metal", 0.74, 0.7, 0.83, 0.88),
        _ellipse("lamp", 0.95, 0.5, 1.0, 0.62),
    ]
    figures["bus"] = [
        _rectangle("body", 0.0, 0.02, 1.0, 0.84, layer=1),
        *[_rectangle("glass", x, 0.14, x + 0.13, 0.44) for x in (0.05, 0.22, 0.39, 0.56, 0.73)],
        _rectangle("glass", 0.9, 0.14, 1.0, 0.5),
        _rectangle("light", 0.0, 0.6, 1.0, 0.66),
        _ellipse("dark", 0.12, 0.64, 0.3, 1.0),
        _ellipse("dark", 0.7, 0.64, 0.88, 1.0),
        _ellipse("metal", 0.17, 0.74, 0.25, 0.9),
        _ellipse("metal", 0.75, 0.74, 0.83, 0.9),
    ]
    figures["truck"] = [
        _rectangle("body", 0.0, 0.0, 0.66, 0.76, layer=1),
        _polygon("metal", 0.7, 0.2, 0.88, 0.2, 1.0, 0.5, 1.0, 0.76, 0.7, 0.76, layer=0),
        _rectangle("dark", 0.6, 0.66, 0.8, 0.78, layer=0),
        _polygon("glass", 0.76, 0.28, 0.86, 0.28, 0.94, 0.5, 0.76, 0.5),
        *[_ellipse("dark", x, 0.62, x + 0.17, 1.0) for x in (0.06, 0.36, 0.76)],
        *[_ellipse("metal", x + 0.05, 0.73, x + 0.12, 0.89) for x in (0.06, 0.36, 0.76)],
    ]
    figures["bicycle"] = [
        *[
            shape
            for x in (0.0, 0.56)
            for shape in (
                _ellipse("dark", x, 0.36, x + 0.44, 1.0, layer=0),
                _ellipse("pale", x + 0.07, 0.46, x + 0.37, 0.9, layer=0),
            )
        ],
        _line("body", 0.085, 0.22, 0.68, 0.36, 0.3, 0.7, 0.3, 0.5, 0.7, 0.22, 0.68, layer=1),
        _line("body", 0.085, 0.36, 0.3, 0.5, 0.7, layer=1),
        _line("body", 0.085, 0.78, 0.68, 0.68, 0.1, layer=1),
        _line("dark", 0.07, 0.6, 0.06, 0.8, 0.06),
        _line("dark", 0.09, 0.26, 0.24, 0.44, 0.24),
    ]
    figures["boat"] = [
        _line("wood", 0.05, 0.46, 0.02, 0.46, 0.76, layer=0),
        _polygon("pale", 0.5, 0.04, 0.5, 0.64, 0.92, 0.64),
        _polygon("cream", 0.42, 0.14, 0.42, 0.64, 0.12, 0.64),
        _polygon("body", 0.0, 0.7, 1.0, 0.7, 0.84, 1.0, 0.16, 1.0, layer=1),
        _line("light", 0.04, 0.04, 0.73, 0.96, 0.73),
    ]
    figures["plane"] = [
        _polygon("shade", 0.0, 0.04, 0.14, 0.04, 0.28, 0.42, 0.08, 0.46, layer=0),
        _polygon("shade", 0.4, 0.4, 0.5, 0.04, 0.6, 0.04, 0.6, 0.4, layer=0),
        _ellipse("body", 0.02, 0.32, 1.0, 0.76, layer=1),
        _polygon("shade", 0.34, 0.58, 0.62, 0.58, 0.42, 1.0, 0.28, 1.0),
        *[_ellipse("glass", x, 0.42, x + 0.06, 0.52) for x in (0.34, 0.46, 0.58, 0.7)],
        _polygon("glass", 0.84, 0.4, 0.92, 0.44, 0.84, 0.52),
    ]
    figures["tree"] = [
        _rectangle("wood", 0.4, 0.56, 0.6, 1.0, layer=0),
        _ellipse("body", 0.0, 0.22, 0.6, 0.68, layer=1),
        _ellipse("body", 0.4, 0.22, 1.0, 0.68, layer=1),
        _ellipse("body", 0.16, 0.0, 0.84, 0.56, layer=1),
    ]
    figures["flower"] = [
        _line("leaf", 0.12, 0.5, 0.4, 0.5, 1.0, layer=0),
        _ellipse("leaf", 0.5, 0.7, 0.94, 0.84, layer=0),
        *[
            _ellipse("body", 0.5 + 0.3 * dx - 0.2, 0.25 + 0.15 * dy - 0.1, 0.5 + 0.3 * dx + 0.2, 0.25 + 0.15 * dy + 0.1,
                     layer=1)
            for dx, dy in ((0, -1), (0.95, -0.31), (0.59, 0.81), (-0.59, 0.81), (-0.95, -0.31))
        ],
        _ellipse("lamp", 0.34, 0.17, 0.66, 0.33),
    ]  # fmt: skip
    figures["cactus"] = [
        _ellipse("body", 0.0, 0.24, 0.24, 0.62, layer=1),
        _ellipse("body", 0.76, 0.14, 1.0, 0.54, layer=1),
        _rectangle("body", 0.1, 0.48, 0.5, 0.6, layer=1),
        _rectangle("body", 0.5, 0.4, 0.9, 0.52, layer=1),
        _ellipse("body", 0.3, 0.0, 0.7, 0.4, layer=1),
        _rectangle("body", 0.3, 0.2, 0.7, 0.86, layer=1),
        _polygon("door", 0.16, 0.82, 0.84, 0.82, 0.76, 1.0, 0.24, 1.0),
    ]
    figures["mushroom"] = [
        _polygon("cream", 0.36, 0.4, 0.64, 0.4, 0.72, 1.0, 0.28, 1.0, layer=0),
        _polygon(
            "body", 0.0, 0.56, 0.06, 0.3, 0.26, 0.08, 0.5, 0.0, 0.74, 0.08, 0.94, 0.3, 1.0, 0.56, layer=1
        ),
    ]  # fmt: skip
    figures["chair"] = [
        _rectangle("body", 0.06, 0.0, 0.24, 0.62, layer=1),
        _rectangle("body", 0.06, 0.52, 0.94, 0.66, layer=1),
        _rectangle("shade", 0.06, 0.66, 0.2, 1.0),
        _rectangle("shade", 0.8, 0.66, 0.94, 1.0),
    ]
    figures["table"] = [
        _rectangle("shade", 0.08, 0.2, 0.18, 1.0, layer=0),
        _rectangle("shade", 0.82, 0.2, 0.92, 1.0, layer=0),
        _rectangle("body", 0.0, 0.0, 1.0, 0.3, layer=1),
    ]
    figures["sofa"] = [
        _rectangle("body", 0.1, 0.02, 0.9, 0.6, layer=1),
        _rectangle("light", 0.14, 0.46, 0.86, 0.7),
        _ellipse("body", 0.0, 0.3, 0.2, 0.6, layer=1),
        _ellipse("body", 0.8, 0.3, 1.0, 0.6, layer=1),
        _rectangle("body", 0.0, 0.44, 0.16, 0.88, layer=1),
        _rectangle("body", 0.84, 0.44, 1.0, 0.88, layer=1),
        _rectangle("shade", 0.12, 0.68, 0.88, 0.88),
        _rectangle("dark", 0.06, 0.88, 0.14, 1.0),
        _rectangle("dark", 0.86, 0.88, 0.94, 1.0),
    ]
    figures["bed"] = [
        _rectangle("wood", 0.0, 0.0, 0.07, 1.0, layer=0),
        _rectangle("wood", 0.93, 0.3, 1.0, 1.0, layer=0),
        _rectangle("body", 0.07, 0.42, 0.93, 0.84, layer=1),
        _ellipse("pale", 0.08, 0.24, 0.3, 0.5),
    ]
    figures["lamp"] = [
        _rectangle("metal", 0.45, 0.3, 0.55, 0.94, layer=0),
        _ellipse("metal", 0.2, 0.9, 0.8, 1.0, layer=0),
        _polygon("body", 0.26, 0.0, 0.74, 0.0, 1.0, 0.4, 0.0, 0.4, layer=1),
        _ellipse("lamp", 0.38, 0.36, 0.62, 0.48),
    ]
    figures["house"] = [
        _rectangle("body", 0.1, 0.38, 0.9, 1.0, layer=1),
        _polygon("door", 0.0, 0.42, 0.5, 0.0, 1.0, 0.42),
        _rectangle("wood", 0.42, 0.66, 0.6, 1.0),
        _rectangle("glass", 0.17, 0.54, 0.34, 0.72),
        _rectangle("glass", 0.68, 0.54, 0.84, 0.72),
    ]
    figures["box"] = [_rectangle("body", 0.0, 0.0, 1.0, 1.0, layer=1), _rectangle("inside", 0.1, 0.1, 0.9, 0.9)]
    figures["ring"] = [_ellipse("body", 0.0, 0.0, 1.0, 1.0, layer=1), _ellipse("hole", 0.14, 0.14, 0.86, 0.86)]
    figures["umbrella"] = [
        _line("metal", 0.06, 0.5, 0.0, 0.5, 0.92, 0.62, 0.97, 0.7, 0.88, layer=0),
        _polygon(
            "body", 0.0, 0.56, 0.08, 0.3, 0.28, 0.12, 0.5, 0.06, 0.72, 0.12, 0.92, 0.3, 1.0, 0.56, 0.83, 0.48,
            0.66, 0.56, 0.5, 0.48, 0.34, 0.56, 0.17, 0.48, layer=1,
        ),
    ]  # fmt: skip
    figures["balloon"] = [
        _line("metal", 0.05, 0.5, 0.6, 0.42, 0.8, 0.54, 1.0, layer=0),
        _polygon("shade", 0.5, 0.58, 0.38, 0.68, 0.62, 0.68, layer=0),
        _ellipse("body", 0.04, 0.0, 0.96, 0.62, layer=1),
        _ellipse("light", 0.24, 0.1, 0.4, 0.24),
    ]
    figures["kite"] = [
        _line("metal", 0.05, 0.5, 0.6, 0.36, 0.76, 0.58, 0.88, 0.44, 1.0, layer=0),
        _polygon("body", 0.5, 0.0, 1.0, 0.3, 0.5, 0.7, 0.0, 0.3, layer=1),
        _line("shade", 0.05, 0.5, 0.02, 0.5, 0.68),
        _line("shade", 0.05, 0.04, 0.3, 0.96, 0.3),
        _polygon("rose", 0.5, 0.88, 0.36, 0.82, 0.36, 0.94),
        _polygon("rose", 0.5, 0.88, 0.64, 0.82, 0.64, 0.94),
    ]
    figures["ball"] = [_ellipse("body", 0.0, 0.0, 1.0, 1.0, layer=1), _ellipse("light", 0.22, 0.16, 0.42, 0.36)]
    figures["cube"] = [
        _polygon("light", 0.0, 0.26, 0.26, 0.0, 1.0, 0.0, 0.74, 0.26, layer=0),
        _polygon("shade", 0.74, 0.26, 1.0, 0.0, 1.0, 0.74, 0.74, 1.0, layer=0),
        _rectangle("body", 0.0, 0.26, 0.74, 1.0, layer=1),
    ]
    figures["star"] = [_polygon("body", *_star(), layer=1)]
    figures["heart"] = [_polygon("body", *_heart(), layer=1)]
    figures["triangle"] = [_polygon("body", 0.5, 0.0, 1.0, 1.0, 0.0, 1.0, layer=1)]
    return figures


_FIGURES = {kind: tuple(shapes) for kind, shapes in _figures().items()}
_PEOPLE = {(kind, holds): tuple(_person(kind, holds)) for kind in ("man", "woman", "child") for holds in (False, True)}


def figure(kind: str, holds: bool = False) -> tuple[Figure, ...]:
    """The shapes of a kind of thing; a person who holds something has an arm raised to `HAND`."""
    return _PEOPLE[kind, holds] if (kind, holds) in _PEOPLE else _FIGURES[kind]
