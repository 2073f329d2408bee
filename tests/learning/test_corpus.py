"""Captions to train on: photo numbers, benchmark photos, archives, hostile files."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from capmeter.errors import CapmeterError, InputError
from capmeter.learning.corpus import drawn_photos, named_file, photo_number, read_corpus
from capmeter.learning.parser.examples import read_exclusions

NONE = {"coco": frozenset[str](), "flickr30k": frozenset[str]()}


def rows_file(path: Path, rows: list[tuple[str, list[str]]]) -> Path:
    path.write_text("".join(json.dumps({"image_id": image, "references": texts}) + "\n" for image, texts in rows))
    return path


@pytest.mark.parametrize(
    ("source", "image", "number"),
    [
        ("coco", "COCO_val2014_000000391895.jpg", "391895"),
        ("coco", "391895", "391895"),
        ("coco", "000000391895.jpg", "391895"),
        ("coco", "COCO_train2017_000000000009", "9"),
        ("flickr30k", "1000092795.jpg", "1000092795"),
        ("flickr30k", "1000268201_693b08cb0e.jpg", "1000268201"),
        ("flickr30k", "1000268201", "1000268201"),
    ],
)
def test_photo_numbers(source: str, image: str, number: str) -> None:
    assert photo_number(source, image) == number


def test_renamed_photos_of_benchmarks_are_left_out(tmp_path: Path) -> None:
    rows = [("12_ab.jpg", ["a dog", "a cat"]), ("13.jpg", ["two", "words"]), ("14.jpg", ["one"])]
    path = rows_file(tmp_path / "rows.jsonl", rows)
    found = read_corpus("flickr30k", path, {"flickr30k": frozenset({"12"})})
    assert [photo.number for photo in found.photos] == ["13"]  # 14 has no other caption to read
    assert found.excluded == 1
    assert found.data.examples == 2


def test_the_hash_is_that_of_the_captions_in_any_format(tmp_path: Path) -> None:
    rows = rows_file(tmp_path / "rows.jsonl", [("9", ["a  dog ", "a cat"])])
    entries = [{"image_id": 9, "caption": text, "id": number} for number, text in enumerate(["a dog", "a cat"])]
    coco = {"images": [{"id": 9, "file_name": "COCO_train2014_000000000009.jpg"}], "annotations": entries}
    with zipfile.ZipFile(tmp_path / "coco.jar", "w") as archive:
        archive.writestr("x/annotations/captions_train2014.json", json.dumps(coco))
        archive.writestr("x/annotations/instances_train2014.json", "{}")
    one, two = (read_corpus("coco", path, NONE) for path in (rows, tmp_path / "coco.jar"))
    assert one.photos == two.photos
    assert one.data == two.data
    other = read_corpus("coco", rows_file(tmp_path / "other.jsonl", [("9", ["a dog", "a hat"])]), NONE)
    assert other.data.sha256 != one.data.sha256


def test_drawn_photos(tmp_path: Path) -> None:
    corpus = read_corpus("coco", rows_file(tmp_path / "r.jsonl", [(str(k), ["a", "b"]) for k in range(50)]), NONE)
    drawn = drawn_photos(corpus, 10, seed=3)
    assert drawn == drawn_photos(corpus, 10, seed=3) != drawn_photos(corpus, 10, seed=4)
    assert len(set(drawn)) == 10
    assert drawn == sorted(drawn, key=lambda photo: int(photo.number))
    assert drawn_photos(corpus, 0) == list(corpus.photos)
    with pytest.raises(InputError, match="expected 51 photos with more than 1 captions, but got 50"):
        drawn_photos(corpus, 51)
    with pytest.raises(InputError, match="more than 2 captions, but got 0"):
        drawn_photos(corpus, 0, more_than=2)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04broken"])
def test_bad_archives(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.jar"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not an archive of captions"):
        read_corpus("coco", path, NONE)


def test_bad_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("other.txt", "")
    with pytest.raises(InputError, match="there is none"):
        read_corpus("coco", tmp_path / "x.zip", NONE)
    with pytest.raises(InputError, match="in no list of exclusions"):
        read_corpus("elsewhere", tmp_path / "x.zip", NONE)
    twice = rows_file(tmp_path / "twice.jsonl", [("7.jpg", ["a", "b"]), ("7_x.jpg", ["c", "d"])])
    with pytest.raises(InputError, match="same photo number"):
        read_corpus("flickr30k", twice, NONE)
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"x")[:-3])
    with pytest.raises(CapmeterError):
        read_corpus("coco", tmp_path / "x.gz", NONE)
    for given in ("file.jsonl", "=file", "coco="):
        with pytest.raises(InputError, match="expected SOURCE=FILE"):
            named_file(given)
    assert named_file("coco=a=b.json") == ("coco", "a=b.json")


@pytest.mark.slow
@pytest.mark.meteor
def test_no_photo_of_a_benchmark_is_in_the_training_data(shared: Path) -> None:
    listed = json.loads(gzip.decompress((shared / "data" / "training_exclusions.json.gz").read_bytes()))
    exclusions = read_exclusions(shared / "data" / "training_exclusions.json.gz")
    coco = read_corpus("coco", "pycocoevalcap", exclusions)
    flickr = read_corpus("flickr30k", shared / "data" / "flickr30k_references.jsonl.gz", exclusions)
    assert {photo.number for photo in coco.photos}.isdisjoint(map(str, listed["coco"]))
    assert {photo.number for photo in flickr.photos}.isdisjoint(map(str, listed["flickr"]))
    assert (len(coco.photos), coco.data.examples) == (114_777, 574_195)
    assert len(flickr.photos) + flickr.excluded == 31_014
    held_out = sum(photo.held_out for photo in coco.photos) / len(coco.photos)
    assert 0.028 < held_out < 0.032
