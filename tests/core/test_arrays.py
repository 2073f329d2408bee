"""Files of arrays that capmeter makes for itself, and .npz files of users; both may be damaged."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from capmeter.core.arrays import read_arrays, read_npz, write_arrays
from capmeter.core.errors import AssetError, InputError
from capmeter.metrics.ngram.document_frequencies import DocumentFrequencies
from capmeter.transforms.similarity import _features

ARRAYS = {
    "hashes": np.arange(9, dtype=np.uint64) * 2**60,
    "table": np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4),
    "none": np.zeros((0, 3), np.int32),
}
FACTS = {"kind": "text", "width": 4, "word": "été"}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_arrays(tmp_path / "made" / "a.index", ARRAYS, FACTS)
    result = read_arrays(tmp_path / "made" / "a.index")
    assert result is not None
    arrays, facts = result
    assert facts == FACTS and arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype and arrays[name].flags.aligned
    assert not arrays["table"].flags.writeable


def test_other_programs_read_the_file(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", ARRAYS | {"mask": np.array([True, False, True])}, FACTS)
    others = load_file(tmp_path / "a")
    assert others.pop("mask").tolist() == [True, False, True] and others.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(others[name], array)


def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "a.index"
    write_arrays(path, ARRAYS, FACTS)
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at])
        assert read_arrays(path) is None, at
    for other in (good + b"\0", b"not arrays " * 1000, bytes(9000), b"\xff" * 9000):
        path.write_bytes(other)
        assert read_arrays(path) is None
    draw = random.Random(2)
    for _ in range(500):
        path.write_bytes(mutated(good, draw))
        read_arrays(path)  # whatever is damaged, nothing is raised
    assert read_arrays(tmp_path / "none") is None
    assert read_arrays(tmp_path) is None


def mutated(good: bytes, draw: random.Random) -> bytes:
    data = bytearray(good)
    kind = draw.randrange(4)
    if kind == 0:
        del data[draw.randrange(len(data)) :]
    elif kind == 1:
        at = draw.randrange(len(data))
        data[at:at] = draw.randbytes(draw.randrange(1, 20))
    else:
        for _ in range(draw.randrange(1, 6)):
            data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("packed", [False, True])
def test_damaged_npz_files_are_value_errors(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "a.npz"
    save = np.savez_compressed if packed else np.savez
    save(path, image_ids=np.array(["1", "2", "3"]), features=ARRAYS["table"])
    good, draw, refused = path.read_bytes(), random.Random(3), 0
    for _ in range(1500):
        path.write_bytes(mutated(good, draw))
        try:
            ids, features = read_npz(path, "image_ids", "features")
        except ValueError as error:
            assert str(error)
            refused += 1
        else:
            assert ids.tolist() == ["1", "2", "3"]
            np.testing.assert_array_equal(features, ARRAYS["table"])
    assert refused > 1000


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "not an .npz"), (b"PK", "."), (b"\x93NUMPY\x01\x00", "not an .npz"), (None, "no such")],
)
def test_other_files_are_told(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_npz(tmp_path / "a", "x")


def test_a_missing_array_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", features=np.zeros(3))
    with pytest.raises(ValueError, match="no array named 'image_ids'"):
        read_npz(tmp_path / "a.npz", "image_ids", "features")


def test_a_damaged_table_of_document_frequencies_is_named(tmp_path: Path) -> None:
    path = tmp_path / "idf.npz"
    table = DocumentFrequencies(np.arange(50, dtype=np.uint64), np.arange(1, 51), 50, 4, "ptb/1")
    table.save(path)
    good, draw, refused = path.read_bytes(), random.Random(4), 0
    for _ in range(1000):
        path.write_bytes(mutated(good, draw))
        try:
            result = DocumentFrequencies.read(path)
        except AssetError as error:
            assert "idf.npz: not a table of document frequencies" in str(error)
            refused += 1
        else:
            assert result.documents == 50 and result.counts.tolist() == table.counts.tolist()
    assert refused > 700


def test_damaged_image_features_are_named(tmp_path: Path) -> None:
    path = tmp_path / "features.npz"
    np.savez(path, image_ids=np.array(["1", "2", "3"]), features=ARRAYS["table"])
    good, draw, refused = path.read_bytes(), random.Random(5), 0
    for _ in range(1000):
        path.write_bytes(mutated(good, draw))
        try:
            np.testing.assert_allclose(_features(str(path), ["3", "1"]), ARRAYS["table"][[2, 0]])  # type: ignore[index]
        except InputError as error:
            assert "features.npz: expected an .npz file" in str(error)
            refused += 1
    assert refused > 700
