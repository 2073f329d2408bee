"""Pictures of synthetic scenes, drawn with Pillow at twice the size and averaged down.

`draw(background, things, pixels)` is a pure function: the same things give the same pixels with the same Pillow.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capmeter.core.errors import MissingBackend
from capmeter_recipes.synthetic_scenes.scenes.backgrounds import paint_background
from capmeter_recipes.synthetic_scenes.scenes.figures import PAINTS, Figure, figure
from capmeter_recipes.synthetic_scenes.scenes.vocabulary import COLOURS, Colour

if TYPE_CHECKING:
    from PIL.Image import Image

SAMPLES = 2
"""Pixels drawn per pixel of the picture, in each direction."""
_DARK = 70


@dataclass(frozen=True)
class Thing:
    """One thing in a picture: its kind, look and box (x0, y0, x1, y1, in parts of the picture's side)."""

    kind: str
    colour: str
    texture: str
    box: tuple[float, float, float, float]
    mirrored: bool = False
    holds: bool = False
    stands: bool = False


def draw(background: str, variant: int, objects: Iterable[Thing], pixels: int) -> Image:
    """The picture of these things, later ones before earlier ones: RGB, `pixels` wide and high."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise MissingBackend("drawing needs Pillow; install it with: pip install 'capmeter[images]'") from None
    side = SAMPLES * pixels
    empty = _background(background, variant, side)
    canvas = empty.copy()
    pen = ImageDraw.Draw(canvas)
    for thing in objects:
        shapes = figure(thing.kind, thing.holds)
        if any(shape.paint == "hole" for shape in shapes):
            behind = canvas.copy()
            _draw_thing(canvas, pen, thing, shapes, side)
            mask = Image.new("L", canvas.size, 0)
            hole = next(shape for shape in shapes if shape.paint == "hole")
            ImageDraw.Draw(mask).ellipse(_corners(hole, thing, side), fill=255)
            canvas.paste(behind, (0, 0), mask)
        else:
            _draw_thing(canvas, pen, thing, shapes, side)
    return canvas.reduce(SAMPLES)


@functools.lru_cache(maxsize=256)
def _background(name: str, variant: int, side: int) -> Image:
    return paint_background(name, variant, side)


def _draw_thing(canvas: Image, pen: Any, thing: Thing, shapes: tuple[Figure, ...], side: int) -> None:
    paints, outline = _paints(thing.colour)
    for layer in range(3):
        for shape in shapes:
            if shape.layer == layer and shape.paint != "hole":
                _draw_shape(pen, shape, thing, side, paints[shape.paint], outline if layer == 1 else None)
        if layer == 1 and thing.texture:
            _draw_texture(canvas, thing, [shape for shape in shapes if shape.layer == 1], side)


def _draw_shape(pen: Any, shape: Figure, thing: Thing, side: int, fill: Any, outline: Any) -> None:
    points = _placed(shape, thing, side)
    if shape.form == "line":
        width = max(1, round(shape.width * (thing.box[2] - thing.box[0]) * side))
        pen.line(points, fill=fill, width=width, joint="curve")
    elif shape.form == "polygon":
        pen.polygon(points, fill=fill, outline=outline)
    else:
        corners = _corners(shape, thing, side)
        (pen.ellipse if shape.form == "ellipse" else pen.rectangle)(corners, fill=fill, outline=outline)


def _placed(shape: Figure, thing: Thing, side: int) -> list[tuple[float, float]]:
    """The shape's points in pixels, within the thing's box: the last row and column are its own."""
    x0, y0, x1, y1 = (side * each for each in thing.box)
    width, height = x1 - x0 - 1, y1 - y0 - 1
    points = shape.points
    pairs = [(points[k], points[k + 1]) for k in range(0, len(points), 2)]
    if shape.form == "line":  # half of its width lies on either side
        reach = shape.width / 2
        high = reach * (x1 - x0) / (y1 - y0)
        pairs = [(min(max(x, reach), 1 - reach), min(max(y, high), 1 - high)) for x, y in pairs]
    return [(x0 + width * (1 - x if thing.mirrored else x), y0 + height * y) for x, y in pairs]


def _corners(shape: Figure, thing: Thing, side: int) -> tuple[float, float, float, float]:
    (a, b), (c, d) = _placed(shape, thing, side)
    return min(a, c), min(b, d), max(a, c), max(b, d)


def _draw_texture(canvas: Image, thing: Thing, shapes: list[Figure], side: int) -> None:
    from PIL import Image, ImageDraw

    mask = Image.new("1", canvas.size, 0)
    pen = ImageDraw.Draw(mask)
    for shape in shapes:
        _draw_shape(pen, shape, thing, side, 1, None)
    x0, y0, x1, y1 = (round(side * each) for each in thing.box)
    box = (max(0, x0), max(0, y0), min(side, x1), min(side, y1))
    wide, high = box[2] - box[0], box[3] - box[1]
    if wide < 1 or high < 1:
        return
    pattern = _pattern(thing.texture, wide, high, side)
    cut = mask.crop(box)
    from PIL import ImageChops

    canvas.paste(_ink(thing.colour), box, ImageChops.logical_and(cut, pattern))


@functools.lru_cache(maxsize=512)
def _pattern(texture: str, wide: int, high: int, side: int) -> Image:
    from PIL import Image, ImageDraw

    step = max(4, side // 20)
    pattern = Image.new("1", (wide, high), 0)
    pen = ImageDraw.Draw(pattern)
    if texture == "striped":
        for x in range(step // 3, wide, step):
            pen.rectangle((x, 0, x + step // 2 - 1, high), fill=1)
    elif texture == "checked":
        for row, y in enumerate(range(0, high, step)):
            for x in range(step * (row % 2), wide, 2 * step):
                pen.rectangle((x, y, x + step - 1, y + step - 1), fill=1)
    else:
        size = step * 0.55
        for row, y in enumerate(range(step // 3, high, step)):
            for x in range(step // 3 + (row % 2) * step // 2, wide, step):
                pen.ellipse((x, y, x + size, y + size), fill=1)
    return pattern


@functools.cache
def _paints(colour: str) -> tuple[dict[str, Colour], Colour]:
    body = COLOURS[colour]
    shade = _mixed(body, (0, 0, 0), 0.28) if max(body) > _DARK else _mixed(body, (255, 255, 255), 0.14)
    light = _mixed(body, (255, 255, 255), 0.5 if max(body) > _DARK else 0.3)
    outline = _mixed(body, (0, 0, 0), 0.5) if max(body) > _DARK else (104, 104, 112)
    return {**PAINTS, "body": body, "shade": shade, "light": light}, outline


@functools.cache
def _ink(colour: str) -> Colour:
    """The colour of a texture's marks: white on dark things, black on light ones."""
    red, green, blue = COLOURS[colour]
    return (26, 26, 30) if 0.3 * red + 0.59 * green + 0.11 * blue > 140 else (250, 250, 250)


def _mixed(a: Colour, b: Colour, share: float) -> Colour:
    red, green, blue = (round(x + share * (y - x)) for x, y in zip(a, b, strict=True))
    return red, green, blue
