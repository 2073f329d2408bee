"""Captions to train on: photo numbers, benchmark photos, archives, hostile files."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest
from capmeter_research.common.benchmark_exclusions import identify_photo, read_exclusions
from capmeter_research.common.corpus import read_corpus, sample_splits, split_source_file

from capmeter.core.errors import CapmeterError, InputError
from capmeter.evaluation.base import CapmeterWarning

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
    assert identify_photo(image, source) == (source, number)


def test_renamed_photos_of_benchmarks_are_left_out(tmp_path: Path) -> None:
    rows = [("12_ab.jpg", ["a dog", "a cat"]), ("13.jpg", ["two", "words"]), ("14.jpg", ["one"])]
    path = rows_file(tmp_path / "rows.jsonl", rows)
    result = read_corpus("flickr30k", path, {"flickr30k": frozenset({"12"})})
    assert [photo.number for photo in result.photos] == ["13"]  # 14 has no other caption to read
    assert result.excluded == 1
    assert result.data.examples == 2


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


def test_samples_depend_on_the_seed_alone(tmp_path: Path) -> None:
    corpus = read_corpus("coco", rows_file(tmp_path / "r.jsonl", [(str(k), ["a", "b"]) for k in range(50)]), NONE)
    sampled = corpus.sample(10, seed=3)
    assert sampled == corpus.sample(10, seed=3) != corpus.sample(10, seed=4)
    assert len(set(sampled)) == 10
    assert sampled == sorted(sampled, key=lambda photo: int(photo.number))
    assert corpus.sample(0) == list(corpus.photos)
    with pytest.raises(InputError, match="expected 51 photos with at least 2 captions, but got 50"):
        corpus.sample(51)
    with pytest.raises(InputError, match="at least 3 captions, but got 0"):
        corpus.sample(0, min_captions=3)


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
    with pytest.raises(InputError, match="no exclusions are listed"):
        read_corpus("elsewhere", tmp_path / "x.zip", NONE)
    twice = rows_file(tmp_path / "twice.jsonl", [("7.jpg", ["a", "b"]), ("7_x.jpg", ["c", "d"])])
    with pytest.raises(InputError, match="same photo number"):
        read_corpus("flickr30k", twice, NONE)
    with pytest.warns(CapmeterWarning, match="no --exclusions"):
        result = read_corpus("mine", twice, read_exclusions(None))  # of one's own, the whole name
    assert [photo.number for photo in result.photos] == ["7", "7_x"]
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"x")[:-3])
    with pytest.raises(CapmeterError):
        read_corpus("coco", tmp_path / "x.gz", NONE)
    for inputs in ("file.jsonl", "=file", "coco="):
        with pytest.raises(InputError, match="expected SOURCE=FILE"):
            split_source_file(inputs)
    assert split_source_file("coco=a=b.json") == ("coco", "a=b.json")


def test_ones_own_photos_need_no_exclusions_and_hold_out_a_tenth(tmp_path: Path) -> None:
    with pytest.warns(CapmeterWarning, match="no --exclusions"):
        exclusions = read_exclusions(None)
    captions = ["a dog", "the dog", "a brown dog", "one dog", "a dog here"]
    rows = rows_file(tmp_path / "own.jsonl", [(f"IMG_{k:04}.jpg", captions) for k in range(300)])
    corpus = read_corpus("own", rows, exclusions)
    assert (len(corpus.photos), corpus.excluded, corpus.photos[0].id) == (300, 0, ("own", "IMG_0000"))
    train, held_out = sample_splits([corpus], 16000, 200, seed=0)
    assert len(train) + len(held_out) == 300 and 15 < len(held_out) < 50
    assert not set(train) & set(held_out)
    evaluated = next(iter(exclusions["coco"]))
    coco = rows_file(tmp_path / "coco.jsonl", [(evaluated, captions), ("999999999", captions)])
    assert read_corpus("coco", coco, exclusions).excluded == 1
    with pytest.raises(InputError, match="expected 5, but there are 1 photos with 5 captions to train on"):
        sample_splits([read_corpus("coco", coco, exclusions)], 5, 1, seed=0)
