"""The backgrounds of synthetic scenes; each has `VARIANTS` variants of light, horizon and small things."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from capmeter_research.synthetic_scenes.scenes.vocabulary import Colour

if TYPE_CHECKING:
    from PIL.Image import Image

VARIANTS = 8
_SKY = (168, 214, 246)


def paint_background(name: str, variant: int, side: int) -> Image:
    """An empty picture of a background, RGB.

    Args:
        name: of the background.
        variant: number of the variant, which sets its colours.
        side: width and height in pixels.
    """
    from PIL import Image, ImageDraw

    rng = np.random.default_rng([zlib.crc32(name.encode()), variant])
    canvas = Image.new("RGB", (side, side), _similar_colour(_SKY, rng, 10))
    pen = ImageDraw.Draw(canvas)
    _PAINTERS[name](pen, side, rng)
    return canvas


def _similar_colour(colour: Colour, rng: np.random.Generator, spread: int) -> Colour:
    colour_shift = rng.integers(-spread, spread + 1)
    red, green, blue = (int(np.clip(channel + colour_shift, 0, 255)) for channel in colour)
    return red, green, blue


def _clouds(pen: Any, side: int, rng: np.random.Generator, colour: Colour) -> None:
    for _ in range(rng.integers(1, 4)):
        x, y = rng.uniform(0.05, 0.85) * side, rng.uniform(0.04, 0.3) * side
        for dx, dy, size in ((0, 0.02, 0.05), (0.06, 0, 0.07), (0.13, 0.02, 0.05)):
            pen.ellipse((x + dx * side, y + dy * side, x + (dx + 2 * size) * side, y + (dy + size) * side), fill=colour)


def _ground(pen: Any, side: int, top: float, colour: Colour) -> None:
    pen.rectangle((0, round(top * side), side, side), fill=colour)


def _tufts(pen: Any, side: int, rng: np.random.Generator, top: float, colour: Colour, tuft_count: int) -> None:
    for _ in range(tuft_count):
        x, y = rng.uniform(0, 1) * side, rng.uniform(top + 0.05, 0.99) * side
        tuft_size = 0.018 * side
        for lean in (-1, 0, 1):
            pen.line((x, y, x + lean * tuft_size, y - tuft_size), fill=colour, width=max(1, side // 140))


def _grass(pen: Any, side: int, rng: np.random.Generator) -> None:
    top = rng.uniform(0.52, 0.58)
    _clouds(pen, side, rng, (238, 247, 252))
    hill_left = rng.uniform(-0.3, 0.7) * side
    pen.ellipse((hill_left, (top - 0.07) * side, hill_left + 0.8 * side, (top + 0.3) * side), fill=(164, 208, 128))
    _ground(pen, side, top, _similar_colour((150, 202, 106), rng, 8))
    _tufts(pen, side, rng, top, (120, 176, 82), 26)


def _beach(pen: Any, side: int, rng: np.random.Generator) -> None:
    top = rng.uniform(0.46, 0.52)
    _clouds(pen, side, rng, (238, 247, 252))
    _ground(pen, side, top, (104, 178, 216))
    for k in range(3):
        y = (top + 0.03 + 0.03 * k) * side
        pen.line((0, y, side, y), fill=(140, 202, 230), width=max(1, side // 160))
    _ground(pen, side, top + 0.12, _similar_colour((240, 222, 176), rng, 6))
    for _ in range(40):
        x, y = rng.uniform(0, 1) * side, rng.uniform(top + 0.14, 0.99) * side
        pen.point((x, y), fill=(206, 180, 128))
        pen.ellipse((x, y, x + side / 110, y + side / 110), fill=(220, 198, 148))


def _street(pen: Any, side: int, rng: np.random.Generator) -> None:
    top = 0.56
    x = -0.05
    while x < 1:
        house_width, house_height = rng.uniform(0.13, 0.24), rng.uniform(0.16, 0.4)
        wall_colour = _similar_colour((206, 200, 194), rng, 14)
        pen.rectangle((x * side, (top - house_height) * side, (x + house_width) * side, top * side), fill=wall_colour)
        for window_row in np.arange(top - house_height + 0.03, top - 0.06, 0.07):
            for column in np.arange(x + 0.02, x + house_width - 0.03, 0.05):
                window_box = (column * side, window_row * side, (column + 0.025) * side, (window_row + 0.035) * side)
                pen.rectangle(window_box, fill=(176, 184, 194))
        x += house_width
    _ground(pen, side, top, (214, 212, 208))
    _ground(pen, side, top + 0.05, _similar_colour((172, 172, 178), rng, 5))
    stripe_offset = rng.uniform(0, 0.1)
    for k in range(7):
        stripe_left = (0.16 * k - stripe_offset) * side
        pen.rectangle((stripe_left, 0.79 * side, stripe_left + 0.09 * side, 0.805 * side), fill=(244, 244, 238))


def _snow(pen: Any, side: int, rng: np.random.Generator) -> None:
    top = rng.uniform(0.5, 0.56)
    _ground(pen, side, 0, _similar_colour((196, 210, 226), rng, 6))
    for _ in range(3):
        x, hill_height = rng.uniform(-0.1, 0.9), rng.uniform(0.12, 0.24)
        pen.polygon(
            [(x * side, top * side), ((x + 0.2) * side, (top - hill_height) * side), ((x + 0.4) * side, top * side)],
            fill=(214, 224, 236),
        )
    _ground(pen, side, top, _similar_colour((240, 244, 250), rng, 4))
    for _ in range(34):
        x, y = rng.uniform(0, 1) * side, rng.uniform(0, 0.98) * side
        pen.ellipse((x, y, x + side / 80, y + side / 80), fill=(253, 253, 255) if y < top * side else (222, 230, 240))


def _room(pen: Any, side: int, rng: np.random.Generator) -> None:
    top = rng.uniform(0.66, 0.7)
    wall_colour = _similar_colour((236, 222, 204), rng, 8)
    _ground(pen, side, 0, wall_colour)
    for x in np.arange(0.03, 1, 0.12):
        pen.rectangle((x * side, 0, (x + 0.03) * side, top * side), fill=(228, 212, 192))
    window_left = rng.uniform(0.08, 0.6)
    pen.rectangle((window_left * side, 0.08 * side, (window_left + 0.26) * side, 0.34 * side), fill=(250, 250, 246))
    for dx, dy in ((0.015, 0.015), (0.135, 0.015), (0.015, 0.135), (0.135, 0.135)):
        x, y = (window_left + dx) * side, (0.08 + dy) * side
        pen.rectangle((x, y, x + 0.11 * side, y + 0.11 * side), fill=(188, 222, 240))
    _ground(pen, side, top, _similar_colour((198, 162, 122), rng, 6))
    pen.rectangle((0, (top - 0.02) * side, side, top * side), fill=(250, 246, 238))
    for y in np.arange(top + 0.07, 1, 0.08):
        pen.line((0, y * side, side, y * side), fill=(178, 142, 104), width=max(1, side // 160))


def _night(pen: Any, side: int, rng: np.random.Generator) -> None:
    top = rng.uniform(0.54, 0.6)
    _ground(pen, side, 0, _similar_colour((34, 40, 84), rng, 6))
    for _ in range(30):
        x, y = rng.uniform(0, 1) * side, rng.uniform(0, top) * side
        pen.ellipse((x, y, x + side / 130, y + side / 130), fill=(226, 228, 244))
    x = rng.uniform(0.04, 0.8)
    pen.ellipse((x * side, 0.03 * side, (x + 0.14) * side, 0.17 * side), fill=(248, 240, 200))
    pen.ellipse(((x + 0.045) * side, 0.02 * side, (x + 0.165) * side, 0.14 * side), fill=(34, 40, 84))
    _ground(pen, side, top, _similar_colour((58, 74, 92), rng, 5))
    _tufts(pen, side, rng, top, (78, 96, 112), 20)


def _sea(pen: Any, side: int, rng: np.random.Generator) -> None:
    top = rng.uniform(0.48, 0.54)
    _clouds(pen, side, rng, (238, 247, 252))
    _ground(pen, side, top, _similar_colour((98, 174, 214), rng, 6))
    for _ in range(16):
        x, y = rng.uniform(-0.05, 0.95) * side, rng.uniform(top + 0.04, 0.98) * side
        pen.arc((x, y, x + 0.09 * side, y + 0.05 * side), 20, 160, fill=(160, 212, 236), width=max(1, side // 110))


def _plain(pen: Any, side: int, rng: np.random.Generator) -> None:
    _ground(pen, side, 0, _similar_colour((234, 234, 228), rng, 8))


_PAINTERS = {
    "grass": _grass,
    "beach": _beach,
    "street": _street,
    "snow": _snow,
    "room": _room,
    "night": _night,
    "sea": _sea,
    "plain": _plain,
}
