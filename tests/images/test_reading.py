"""Pictures drawn here, in every way in which a file of a picture can be unusual or wrong."""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capmeter.captions.caption_set import Caption, CaptionSet, ImagePool, ImageRef
from capmeter.captions.load import load
from capmeter.core.errors import InputError, MissingBackend
from capmeter.images.reading import MAX_PIXELS, ContentHashes, content_hash, read_image

Image = pytest.importorskip("PIL.Image")
RED, BLUE = (200, 30, 40), (10, 20, 220)


def drawn(path: Path, size: tuple[int, int] = (6, 4), colour: Any = RED, mode: str = "RGB", **how: Any) -> ImageRef:
    Image.new(mode, size, colour).save(path, **how)
    return ImageRef(str(path), "seven")


def png(width: int, height: int) -> bytes:
    """A small file that says to be so large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )


def test_a_plain_picture(tmp_path: Path) -> None:
    picture = read_image(drawn(tmp_path / "a.png"))
    assert picture.pixels.shape == (4, 6, 3) and picture.pixels.dtype == np.uint8
    assert picture.pixels[3, 5].tolist() == list(RED) and picture.notes == ()


def test_of_an_animation_the_first_frame(tmp_path: Path) -> None:
    second = Image.new("RGB", (6, 4), BLUE)
    location = drawn(tmp_path / "a.gif", save_all=True, append_images=[second])
    picture = read_image(location)
    assert picture.notes == ("first frame of an animation",)
    assert picture.pixels[0, 0].tolist() == list(RED)


def test_a_turned_photograph(tmp_path: Path) -> None:
    upright = Image.new("RGB", (6, 4), RED)
    upright.paste(BLUE, (0, 0, 6, 1))
    exif = upright.getexif()
    exif[0x0112] = 6  # the camera was turned: the picture's top is its right-hand side
    upright.save(tmp_path / "a.png", exif=exif)
    picture = read_image(ImageRef(str(tmp_path / "a.png"), "seven"))
    assert picture.pixels.shape == (6, 4, 3) and picture.notes == ("turned as its EXIF says",)
    assert picture.pixels[:, -1].tolist() == [list(BLUE)] * 6


def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    grey = np.array([[0, 257 * 100, 65535]], np.uint16)
    Image.fromarray(grey).save(tmp_path / "a.png")
    picture = read_image(ImageRef(str(tmp_path / "a.png"), "seven"))
    assert picture.pixels[0].tolist() == [[0] * 3, [100] * 3, [255] * 3]
    assert picture.notes == ("16 bits scaled to 8", "one pixel wide or high")


@pytest.mark.parametrize(
    ("mode", "colour", "name", "note"),
    [
        ("CMYK", (0, 255, 255, 0), "a.jpg", "CMYK converted to RGB"),
        ("RGBA", (255, 0, 0, 0), "a.png", "transparency dropped"),
        ("P", 0, "a.gif", None),
        ("L", 0, "a.png", None),
    ],
)
def test_other_colour_modes(tmp_path: Path, mode: str, colour: Any, name: str, note: str | None) -> None:
    picture = read_image(drawn(tmp_path / name, colour=colour, mode=mode))
    assert picture.notes == (() if note is None else (note,))
    expected = [255, 0, 0] if note else [0, 0, 0]
    assert np.abs(picture.pixels[0, 0].astype(int) - expected).max() <= 2  # JPEG is not exact


def test_one_pixel(tmp_path: Path) -> None:
    picture = read_image(drawn(tmp_path / "a.png", (1, 1)))
    assert picture.pixels.tolist() == [[list(RED)]] and picture.notes == ("one pixel wide or high",)


def test_floating_point_grey_is_refused(tmp_path: Path) -> None:
    location = drawn(tmp_path / "a.tiff", colour=0.5, mode="F")
    with pytest.raises(InputError, match="'seven': its grey values have neither 8 nor 16 bits"):
        read_image(location)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF"])
def test_cut_off(tmp_path: Path, kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (60, 60, 3), np.uint8)
    content = io.BytesIO()
    Image.fromarray(noise).save(content, kind)
    (tmp_path / "a").write_bytes(content.getvalue()[: len(content.getvalue()) // 2])
    with pytest.raises(InputError, match=r"image file .* of image 'seven': (damaged or truncated|not an image)"):
        read_image(ImageRef(str(tmp_path / "a"), "seven"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an image"),
        (b"a dog runs", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not an image"),
        *(
            (png(*size), ".*more than the 89 megapixels")  # which is found before they are decoded
            for size in ((10_000, 10_000), (MAX_PIXELS + 1, 1), (50_000, 50_000))
        ),
    ],
)
def test_no_picture_or_too_large_a_one(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=f"of image 'seven': {message}"):
        read_image(ImageRef(str(tmp_path / "a"), "seven"))


@pytest.mark.parametrize("read", [read_image, content_hash])
def test_what_is_no_regular_file(tmp_path: Path, read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name in ("fifo", "socket", "/dev/zero"):
            with pytest.raises(InputError, match="'seven': this is a pipe, a socket or a device"):
                read(ImageRef(name, "seven"))
    for name, message in (
        (str(tmp_path), "this is a folder"),
        ("none.jpg", "file not found"),
        ("a\0b", "a NUL character"),
        ("https://example.org/a.jpg", "nothing is downloaded"),
        ("x" * 5000, "cannot be read"),
    ):
        with pytest.raises(InputError, match=f"'seven': .*{message}"):
            read(ImageRef(name, "seven"))


def test_no_mutation_of_a_picture_is_a_traceback(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    image = Image.fromarray(rng.integers(0, 255, (20, 20, 3), np.uint8))
    location, read = ImageRef(str(tmp_path / "a"), "seven"), 0
    for kind in ("PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP"):
        content = io.BytesIO()
        image.save(content, kind)
        for _ in range(60):
            data = bytearray(content.getvalue())
            for at in rng.integers(0, len(data), rng.integers(1, 12)):
                data[at] = rng.integers(256)
            Path(location.path).write_bytes(bytes(data))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    assert read_image(location).pixels.shape[2] == 3
                read += 1
            except InputError as error:
                assert "'seven'" in str(error)
    assert 0 < read < 360


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = drawn(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingBackend, match=r"pip install 'capmeter\[images\]'"):
        read_image(location)


ROWS = [
    Caption("1", "a", "a dog", ("the dog",), image="a.png"),
    Caption("2", "b", "a cat", ("the cat",)),
    Caption("3", "c", "a dog", ("the dog",), image="c.png"),
    Caption("4", "a", "one dog", ("the dog",), image="a.png"),
    Caption("5", "e", "one cat", ("the cat",), image="e.png"),
]


def test_each_picture_of_a_set_stands_once(tmp_path: Path) -> None:
    captions = CaptionSet.from_captions(ROWS, images_root=str(tmp_path))
    assert captions.image_indices.tolist() == [0, -1, 1, 0, 2]
    assert captions.image_pool[1] == ImageRef(str(tmp_path / "c.png"), "c")
    part = captions.select([4, 1, 0])
    assert part.image_indices.tolist() == [1, -1, 0]
    assert [location.image_id for location in part.image_pool.items] == ["a", "e"]
    assert captions.select([1]).image_indices.tolist() == [-1] and len(captions.select([1]).image_pool) == 0
    again = pickle.loads(pickle.dumps(part))
    assert again.image_indices.tolist() == [1, -1, 0] and again.image_pool[0] == part.image_pool[0]
    assert list(captions) == ROWS, "outputs name pictures as the input does"


def test_the_same_content_is_decoded_once(tmp_path: Path) -> None:
    for name, colour in (("a", RED), ("c", BLUE), ("e", RED)):
        drawn(tmp_path / f"{name}.png", colour=colour)
    captions = CaptionSet.from_captions(ROWS, images_root=str(tmp_path))
    contents = captions.image_pool.analyse(ContentHashes())
    assert contents.first.tolist() == [0, 1, 0]
    assert captions.select([2]).image_pool.analyse(ContentHashes()).hashes == contents.hashes[1:2]
    colours = [read_image(each).pixels[0, 0].tolist() for each in captions.image_pool.items]
    assert colours == [list(RED), list(BLUE), list(RED)]
    (tmp_path / "a.png").unlink()
    assert captions.image_pool.analyse(ContentHashes()) is contents, "remembered by the pool"


def test_a_missing_picture_is_named_by_its_image(tmp_path: Path) -> None:
    captions = CaptionSet.from_captions(ROWS, images_root=str(tmp_path))
    with pytest.raises(InputError, match=r"image file '.*a\.png' of image 'a': file not found; .*images_root"):
        captions.image_pool.analyse(ContentHashes())


def test_load_says_where_pictures_lie(tmp_path: Path) -> None:
    row = {"image_id": "a", "candidate": "a dog", "references": ["the dog"], "image": "pictures/a.png"}
    captions = load([row], images_root=tmp_path)
    assert captions.image_pool[0].path == str(tmp_path / "pictures" / "a.png")
    assert captions["a"].image == "pictures/a.png"


def test_real_pictures(shared: Path) -> None:
    files = sorted((shared / "data" / "images").glob("*.jpg"))
    assert files
    pool = ImagePool([ImageRef(str(path), path.name) for path in files])
    assert len(pool.analyse(ContentHashes()).hashes) == len(files)
    for image, path in zip(pool.items, files, strict=True):
        with Image.open(path) as opened:
            width, height = opened.size
        pixels = read_image(image).pixels
        assert pixels.shape == (height, width, 3)
        assert 5 < pixels.std() < 128, "a photograph is neither one colour nor noise"
