"""Pictures of synthetic scenes, drawn with Pillow at twice the size and averaged down.

`draw(background, things, pixels)` is a pure function: the same things give the same pixels with the same Pillow.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from capmeter.core.errors import MissingBackend
from capmeter_research.synthetic_scenes.scenes.backgrounds import paint_background
from capmeter_research.synthetic_scenes.scenes.figures import PAINTS, Figure, figure
from capmeter_research.synthetic_scenes.scenes.vocabulary import COLOURS, Colour

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
    """The picture of these things, RGB.

    Args:
        background, variant: as in `paint_background`.
        objects: the things; later ones cover earlier ones.
        pixels: width and height of the picture.

    Raises:
        MissingBackend: Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise MissingBackend("drawing needs Pillow; install it with: pip install 'capmeter[images]'") from None
    side = SAMPLES * pixels
    empty_canvas = _background(background, variant, side)
    canvas = empty_canvas.copy()
    pen = ImageDraw.Draw(canvas)
    for thing in objects:
        thing_shapes = figure(thing.kind, thing.holds)
        if any(shape.paint == "hole" for shape in thing_shapes):
            canvas_behind = canvas.copy()
            _draw_thing(canvas, pen, thing, thing_shapes, side)
            hole_mask = Image.new("L", canvas.size, 0)
            hole_shape = next(shape for shape in thing_shapes if shape.paint == "hole")
            ImageDraw.Draw(hole_mask).ellipse(_corners(hole_shape, thing, side), fill=255)
            canvas.paste(canvas_behind, (0, 0), hole_mask)
        else:
            _draw_thing(canvas, pen, thing, thing_shapes, side)
    return canvas.reduce(SAMPLES)


@functools.lru_cache(maxsize=256)
def _background(background_name: str, variant: int, side: int) -> Image:
    return paint_background(background_name, variant, side)


def _draw_thing(canvas: Image, pen: Any, thing: Thing, thing_shapes: tuple[Figure, ...], side: int) -> None:
    paints, outline = _paints(thing.colour)
    for layer in range(3):
        for shape in thing_shapes:
            if shape.layer == layer and shape.paint != "hole":
                _draw_shape(pen, shape, thing, side, paints[shape.paint], outline if layer == 1 else None)
        if layer == 1 and thing.texture:
            _draw_texture(canvas, thing, [shape for shape in thing_shapes if shape.layer == 1], side)


def _draw_shape(pen: Any, shape: Figure, thing: Thing, side: int, fill: Any, outline: Any) -> None:
    pixel_points = _placed(shape, thing, side)
    if shape.form == "line":
        line_width = max(1, round(shape.width * (thing.box[2] - thing.box[0]) * side))
        pen.line(pixel_points, fill=fill, width=line_width, joint="curve")
    elif shape.form == "polygon":
        pen.polygon(pixel_points, fill=fill, outline=outline)
    else:
        corners = _corners(shape, thing, side)
        (pen.ellipse if shape.form == "ellipse" else pen.rectangle)(corners, fill=fill, outline=outline)


def _placed(shape: Figure, thing: Thing, side: int) -> list[tuple[float, float]]:
    """The shape's points in pixels, within the thing's box: the last row and column are its own."""
    x0, y0, x1, y1 = (side * box_edge for box_edge in thing.box)
    box_width, box_height = x1 - x0 - 1, y1 - y0 - 1
    points = shape.points
    point_pairs = [(points[k], points[k + 1]) for k in range(0, len(points), 2)]
    if shape.form == "line":  # half of its width lies on either side
        half_width = shape.width / 2
        high = half_width * (x1 - x0) / (y1 - y0)
        point_pairs = [(min(max(x, half_width), 1 - half_width), min(max(y, high), 1 - high)) for x, y in point_pairs]
    return [(x0 + box_width * (1 - x if thing.mirrored else x), y0 + box_height * y) for x, y in point_pairs]


def _corners(shape: Figure, thing: Thing, side: int) -> tuple[float, float, float, float]:
    (a, b), (c, d) = _placed(shape, thing, side)
    return min(a, c), min(b, d), max(a, c), max(b, d)


def _draw_texture(canvas: Image, thing: Thing, thing_shapes: list[Figure], side: int) -> None:
    from PIL import Image, ImageDraw

    shape_mask = Image.new("1", canvas.size, 0)
    pen = ImageDraw.Draw(shape_mask)
    for shape in thing_shapes:
        _draw_shape(pen, shape, thing, side, 1, None)
    x0, y0, x1, y1 = (round(side * box_edge) for box_edge in thing.box)
    pixel_box = (max(0, x0), max(0, y0), min(side, x1), min(side, y1))
    box_width, box_height = pixel_box[2] - pixel_box[0], pixel_box[3] - pixel_box[1]
    if box_width < 1 or box_height < 1:
        return
    texture_pattern = _pattern(thing.texture, box_width, box_height, side)
    cropped_mask = shape_mask.crop(pixel_box)
    from PIL import ImageChops

    canvas.paste(_ink(thing.colour), pixel_box, ImageChops.logical_and(cropped_mask, texture_pattern))


@functools.lru_cache(maxsize=512)
def _pattern(texture: str, box_width: int, box_height: int, side: int) -> Image:
    from PIL import Image, ImageDraw

    mark_spacing = max(4, side // 20)
    pattern = Image.new("1", (box_width, box_height), 0)
    pen = ImageDraw.Draw(pattern)
    if texture == "striped":
        for x in range(mark_spacing // 3, box_width, mark_spacing):
            pen.rectangle((x, 0, x + mark_spacing // 2 - 1, box_height), fill=1)
    elif texture == "checked":
        for mark_row, y in enumerate(range(0, box_height, mark_spacing)):
            for x in range(mark_spacing * (mark_row % 2), box_width, 2 * mark_spacing):
                pen.rectangle((x, y, x + mark_spacing - 1, y + mark_spacing - 1), fill=1)
    else:
        mark_size = mark_spacing * 0.55
        for mark_row, y in enumerate(range(mark_spacing // 3, box_height, mark_spacing)):
            for x in range(mark_spacing // 3 + (mark_row % 2) * mark_spacing // 2, box_width, mark_spacing):
                pen.ellipse((x, y, x + mark_size, y + mark_size), fill=1)
    return pattern


@functools.cache
def _paints(colour: str) -> tuple[dict[str, Colour], Colour]:
    body = COLOURS[colour]
    shade_colour = _mixed(body, (0, 0, 0), 0.28) if max(body) > _DARK else _mixed(body, (255, 255, 255), 0.14)
    light_colour = _mixed(body, (255, 255, 255), 0.5 if max(body) > _DARK else 0.3)
    outline_colour = _mixed(body, (0, 0, 0), 0.5) if max(body) > _DARK else (104, 104, 112)
    return {**PAINTS, "body": body, "shade": shade_colour, "light": light_colour}, outline_colour


@functools.cache
def _ink(colour: str) -> Colour:
    """The colour of a texture's marks: white on dark things, black on light ones."""
    red, green, blue = COLOURS[colour]
    return (26, 26, 30) if 0.3 * red + 0.59 * green + 0.11 * blue > 140 else (250, 250, 250)


def _mixed(a: Colour, b: Colour, share: float) -> Colour:
    red, green, blue = (round(x + share * (y - x)) for x, y in zip(a, b, strict=True))
    return red, green, blue
