"""The drawings of synthetic scenes: every kind of thing as a few shapes in a box of height and width 1.

They stand in `figures.json`. A shape is an ellipse, a rectangle, a polygon or a line, in parts of the thing's box
(0, 0 is the upper left corner), and a paint: `body` is the thing's own colour, `shade` a darker one and `light` a
lighter one, all others are fixed. Only `body` shapes get the thing's texture. Shapes are drawn in their order within
three layers: those below the body, the body, and those upon it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from capmeter_research.synthetic_scenes.scenes.vocabulary import Colour, read_table

HAND = (0.96, 0.5)
"""Where a person with a raised arm has the hand, in parts of the person's box."""


@dataclass(frozen=True)
class Figure:
    """One shape: `form` is ellipse, rectangle, polygon or line; `points` x0, y0, x1, y1, …; `width` of a line.

    `raised`: the points of an arm if the person holds something; empty for other shapes.
    """

    form: str
    paint: str
    points: tuple[float, ...]
    layer: int
    width: float = 0.0
    raised: tuple[float, ...] = ()


_DRAWINGS = read_table("figures.json")
PAINTS: dict[str, Colour] = _DRAWINGS["paints"]
_FIGURES = {kind: [Figure(**shape) for shape in shapes] for kind, shapes in _DRAWINGS["figures"].items()}


def figure(kind: str, holds: bool = False) -> tuple[Figure, ...]:
    """The shapes of a kind of thing; a person who holds something has an arm raised to `HAND`."""
    return tuple(replace(shape, points=shape.raised) if holds and shape.raised else shape for shape in _FIGURES[kind])
