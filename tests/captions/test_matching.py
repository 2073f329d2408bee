"""Candidates and references that are matched by name, and references in several files."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

import capmeter
from capmeter.captions.matching import KEYS
from capmeter.core.errors import InputError

AMBIGUOUS = [
    ({"COCO_train2014_000000000009.jpg": "a dog", "COCO_val2014_000000000009.jpg": "a cat"}, {"9": ["a dog"]}),
    ({"a/1.jpg": "a dog", "b/1.jpg": "a cat"}, {"1.jpg": ["a dog"]}),
    ({"1": "a dog", "001": "a cat"}, {"1.jpg": ["a dog"]}),
    ({"dog.jpg": "a dog", "dog.png": "a cat"}, {"dog": ["a dog"]}),
    ({"7": "a dog"}, {"a/7.jpg": ["a dog"], "b/7.jpg": ["a cat"]}),
]


@pytest.mark.parametrize(("candidates", "references"), AMBIGUOUS)
def test_names_that_could_mean_several_images_match_none(
    candidates: dict[str, str], references: dict[str, list[str]]
) -> None:
    with pytest.raises(InputError, match="match ambiguously") as caught:
        capmeter.load(candidates, references)
    names = candidates if len(candidates) > 1 else references
    assert all(f'"{name}"' in str(caught.value) for name in names)


def test_ambiguous_names_equal_ids_and_numbers_without_zeros() -> None:
    candidates = {"a/1.jpg": "a dog", "b/1.jpg": "a cat", "c/2.jpg": "a cow"}
    captions = capmeter.load(candidates, {"1.jpg": ["a dog"], "2.jpg": ["a cow"]}, on_missing="skip")
    assert captions.ids == ("c/2.jpg",)
    assert captions.notes["ambiguous_names"] == ["a/1.jpg", "b/1.jpg"]
    captions = capmeter.load({"1": "a dog", "001": "a cat", "2": "a cow"}, {"1": ["x"], "2": ["y"]}, on_missing="skip")
    assert captions.ids == ("1", "2") and "matched_by" not in captions.notes
    captions = capmeter.load({"000": "a dog", "0012": "a cat"}, {"0": ["x"], "12": ["y"]})
    assert [caption.references for caption in captions] == [("x",), ("y",)]


@given(st.text("ab1./\\ ", max_size=12))
def test_names_are_those_of_paths(name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/").strip())  # of Windows and of cells, too
    assert KEYS["file name"](name) == path.name
    if not path.name.endswith("."):  # of which the ending depends on the version of Python
        has_ending = re.fullmatch(r"\.\d?[a-z][^. ]* *", path.suffix) is not None
        assert KEYS["file name without its ending"](name) == (path.stem if has_ending else path.name)


def test_a_name_of_zeros_takes_no_time() -> None:
    with pytest.raises(InputError, match="has no references"):
        capmeter.load({"0" * 500_000 + "x": "a dog"}, {"1": ["a dog"]})


def write(folder: Path, **contents: object) -> list[Path]:
    paths = [folder / f"{name}.json" for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_text(json.dumps(content))
    return paths


def test_references_of_several_files_are_joined_by_image(tmp_path: Path) -> None:
    files = write(tmp_path, first={"1": ["a"], "2": ["b"]}, second=[{"image_id": 1, "caption": "c"}])
    candidates = {"1": "x", "2": "y"}
    expected = [("a", "c"), ("b",)]
    assert [caption.references for caption in capmeter.load(candidates, files)] == expected
    assert [caption.references for caption in capmeter.load(candidates, [str(file) for file in files])] == expected
    assert capmeter.load_references(files) == {"1": ("a", "c"), "2": ("b",)}


def test_files_of_references_are_equally_long_and_named_once(tmp_path: Path) -> None:
    files = write(tmp_path, first=[["a"], ["b"]], second=[["c"], ["d"]], third=[["e"]])
    assert capmeter.load(["x", "y"], files[:2])["1"].references == ("b", "d")
    with pytest.raises(InputError, match=r"references of 2 images, .*third\.json of 1"):
        capmeter.load(["x", "y"], files)
    (file,) = write(tmp_path, first={"1": ["a"]})
    (tmp_path / "link.json").symlink_to(file)
    with pytest.raises(InputError, match=r"link\.json is named twice"):
        capmeter.load({"1": "x"}, [file, tmp_path / "link.json"])


def test_several_splits() -> None:
    rows = [{"image_id": k, "references": ["a"], "split": split} for k, split in enumerate(("train", "val", "test"))]
    assert list(capmeter.load_references(rows, split=["train", "test"])) == ["0", "2"]
    assert capmeter.load({"0": "a", "2": "b"}, rows, split=["train", "test"]).ids == ("0", "2")
    with pytest.raises(InputError, match="no image belongs to the split 'none'; the splits are test, train, val"):
        capmeter.load_references(rows, split=["train", "none"])
    with pytest.raises(InputError, match="no candidates of split 'none'; it has split test, split train, split val"):
        capmeter.load([{**row, "candidate": "a dog"} for row in rows], split=["train", "none"])
