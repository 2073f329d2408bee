"""Regions in an LMDB: written, read back, hostile and truncated."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.common.region_lmdb import write_lmdb_regions
from support.hostile_values import Evil
from support.uniter_examples import random_regions

from capmeter.core.errors import InputError
from capmeter.images.regions import open_regions

lmdb, msgpack = pytest.importorskip("lmdb"), pytest.importorskip("msgpack")


@pytest.mark.parametrize("compress", [True, False])
def test_lmdb_comes_back(tmp_path: Path, compress: bool) -> None:
    pictures = {f"coco_val2014_{k:012}": random_regions(k) for k in range(5)}
    assert write_lmdb_regions(tmp_path / "feat_th0.2_max100_min10", pictures.items(), compress=compress) == 5
    source = open_regions(tmp_path)  # the folder that holds UNITER's folder
    assert len(source) == 5 and source.find("3") == "coco_val2014_000000000003.npz"
    result = source.read("coco_val2014_000000000003.npz")
    np.testing.assert_array_equal(result.features, pictures["coco_val2014_000000000003"].features.astype(np.float16))
    np.testing.assert_allclose(result.boxes, pictures["coco_val2014_000000000003"].boxes, atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["feat_th0.2_max100_min10"]


def test_lmdb_of_msgpack_numpy(tmp_path: Path) -> None:
    """As msgpack-numpy writes it, keys in bytes, without a list of keys."""
    features, boxes = np.ones((2, 3), np.float16), np.array([[0, 0, 1, 1, 1, 1]] * 2, np.float16)

    def packed(array):
        return {b"nd": True, b"type": array.dtype.str, b"kind": b"", b"shape": array.shape, b"data": array.tobytes()}

    with lmdb.open(str(tmp_path / "all"), map_size=1 << 20) as file, file.begin(write=True) as writing:
        value = {"features": packed(features), "norm_bb": packed(boxes), "conf": packed(np.float32([0.5, 0.1]))}
        writing.put(b"a.npz", msgpack.dumps(value, use_bin_type=True))
        evil = {**packed(features), b"kind": b"O", b"data": pickle.dumps(Evil(tmp_path / "ran"))}
        writing.put(b"b.npz", msgpack.dumps({**value, "features": evil}, use_bin_type=True))
        writing.put(b"c.npz", b"\x93\x01")
        writing.put(b"d.npz", msgpack.dumps([1, 2]))
    source = open_regions(tmp_path)
    assert source.read("a.npz").boxes.tolist() == [[0, 0, 1, 1]] * 2
    for name, message in (("b", "pickled objects"), ("c", "neither an .npz file nor msgpack"), ("d", "holds list")):
        with pytest.raises(InputError, match=message):
            source.read(f"{name}.npz")
    assert not (tmp_path / "ran").exists()


HOSTILE = {
    "an endless shape": ({b"shape": [float("inf"), 1]}, "features is not an array of numbers"),
    "a huge shape": ({b"shape": [1 << 63, 1 << 63]}, "features is not an array of numbers"),
    "another type": ({b"type": "<f4,<f4"}, "features is not an array of numbers"),
    "text for data": ({b"data": "text"}, "features is not an array of numbers"),
    "ragged lists": ([[1, 2], [3]], "features is not an array"),
    "no characters": ({b"type": "<U1", b"shape": [2], b"data": b"\xff" * 8}, "features holds <U1, expected numbers"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_msgpack_gets_a_sentence(tmp_path: Path, name: str) -> None:
    changed, message = HOSTILE[name]
    array = np.ones((2, 6), np.float32)
    packed = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": array.shape, b"data": array.tobytes()}
    features = packed | changed if isinstance(changed, dict) else changed
    with lmdb.open(str(tmp_path / "all"), map_size=1 << 20) as file, file.begin(write=True) as writing:
        writing.put(b"a.npz", msgpack.packb({"features": features, "norm_bb": packed}))
    with pytest.raises(InputError, match=message) as caught:
        open_regions(tmp_path).read("a.npz")
    assert "a.npz" in str(caught.value), "the message names the picture"


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
def test_truncated_lmdb(tmp_path: Path, share: float) -> None:
    """Reading beyond the end of a map would end the process."""
    write_lmdb_regions(tmp_path / "r", ((str(k), random_regions(k, features=512)) for k in range(20)))
    path = tmp_path / "r" / "data.mdb"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"truncated|not a readable LMDB"):
        open_regions(tmp_path / "r")


def test_what_is_no_lmdb(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"not a database" * 1000)
    with pytest.raises(InputError, match="not a readable LMDB"):
        open_regions(tmp_path)


def test_a_writer_refuses_what_cannot_be_read_back(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="duplicate image"):
        write_lmdb_regions(tmp_path / "l", [("a", random_regions(0)), ("a.npz", random_regions(1))])
    assert not (tmp_path / "l").exists(), "written whole or not at all"
    write_lmdb_regions(tmp_path / "l", [("a", random_regions(0))])
    with pytest.raises(InputError, match="exists"):
        write_lmdb_regions(tmp_path / "l", [("b", random_regions(0))])
