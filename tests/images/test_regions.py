"""Regions: files of every kind read back, the choice of boxes, and hostile files that get a sentence each."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.uniter_examples import random_region_folder, random_regions

from capmeter.core.errors import InputError
from capmeter.images.region_lmdb import write_lmdb_regions
from capmeter.images.region_npz import arrays_of, write_npz_regions
from capmeter.images.region_source import RegionSource, open_regions
from capmeter.images.regions import BoxRule, Regions


class Evil:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def saved(folder: Path, name: str = "1.npz", **arrays) -> RegionSource:
    folder.mkdir(exist_ok=True)
    np.savez(folder / name, **arrays)
    return open_regions(folder)


def good(**changed) -> dict:
    arrays = arrays_of(random_regions(0), half=False) | changed
    return {name: array for name, array in arrays.items() if array is not None}


def test_npz_files_come_back(tmp_path: Path) -> None:
    regions = random_regions(3, labels=tuple(f"thing {k}" for k in range(12)))
    write_npz_regions(tmp_path, [("7", regions)], half=False)
    found = open_regions(tmp_path).read("7.npz")
    np.testing.assert_array_equal(found.features, regions.features)
    np.testing.assert_array_equal(found.boxes, regions.boxes)
    np.testing.assert_array_equal(found.confidence, regions.confidence)
    assert found.labels == regions.labels


@pytest.mark.parametrize("compress", [True, False])
def test_lmdb_comes_back(tmp_path: Path, compress: bool) -> None:
    pytest.importorskip("lmdb")
    pictures = {f"coco_val2014_{k:012}": random_regions(k) for k in range(5)}
    assert write_lmdb_regions(tmp_path / "feat_th0.2_max100_min10", pictures.items(), compress=compress) == 5
    source = open_regions(tmp_path)  # the folder that holds UNITER's folder
    assert len(source) == 5 and source.find("3") == "coco_val2014_000000000003.npz"
    found = source.read("coco_val2014_000000000003.npz")
    np.testing.assert_array_equal(found.features, pictures["coco_val2014_000000000003"].features.astype(np.float16))
    np.testing.assert_allclose(found.boxes, pictures["coco_val2014_000000000003"].boxes, atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["feat_th0.2_max100_min10"]


def test_lmdb_of_msgpack_numpy(tmp_path: Path) -> None:
    """As msgpack-numpy writes it, keys in bytes, without a list of keys."""
    lmdb, msgpack = pytest.importorskip("lmdb"), pytest.importorskip("msgpack")
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
    for name, said in (("b", "pickled objects"), ("c", "neither an .npz file nor msgpack"), ("d", "holds list")):
        with pytest.raises(InputError, match=said):
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
    lmdb, msgpack = pytest.importorskip("lmdb"), pytest.importorskip("msgpack")
    changed, said = HOSTILE[name]
    array = np.ones((2, 6), np.float32)
    packed = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": array.shape, b"data": array.tobytes()}
    features = packed | changed if isinstance(changed, dict) else changed
    with lmdb.open(str(tmp_path / "all"), map_size=1 << 20) as file, file.begin(write=True) as writing:
        writing.put(b"a.npz", msgpack.packb({"features": features, "norm_bb": packed}))
    with pytest.raises(InputError, match=said) as caught:
        open_regions(tmp_path).read("a.npz")
    assert "a.npz" in str(caught.value), "the message names the picture"


def test_labels_that_are_no_characters(tmp_path: Path) -> None:
    labels = np.frombuffer(np.full(12, 0x110000, "<u4").tobytes(), "<U1")
    with pytest.raises(InputError, match=r"1\.npz.*a label is not text"):
        saved(tmp_path / "r", **good(labels=labels)).read("1.npz")


def test_positions_by_hand() -> None:
    regions = Regions(np.ones((1, 2), np.float32), np.array([[0.1, 0.2, 0.5, 0.8]], np.float32))
    np.testing.assert_allclose(regions.positions, [[0.1, 0.2, 0.5, 0.8, 0.4, 0.6, 0.24]], atol=1e-6)


@pytest.mark.parametrize(("sure", "count"), [(0, 10), (15, 15), (40, 36)])
def test_the_number_of_boxes(sure: int, count: int) -> None:
    confidence = np.where(np.arange(50) < sure, 0.9, 0.1).astype(np.float32)
    assert BoxRule(0.2, 10, 36).count(confidence, 50) == count


def test_fewer_boxes_than_the_least_are_all_used() -> None:
    assert BoxRule().count(np.zeros(4, np.float32), 4) == 4
    assert BoxRule(max_boxes=3, min_boxes=1).count(None, 4) == 3


def test_the_most_confident_boxes_or_the_first() -> None:
    regions = random_regions(0, count=3)
    shuffled = regions.take(np.array([2, 0, 1]))
    best = shuffled.select(BoxRule(0.0, 1, 2))
    np.testing.assert_array_equal(best.features, regions.features[:2])
    first = shuffled.select(BoxRule(0.0, 1, 2, in_order=True))
    np.testing.assert_array_equal(first.features, regions.features[[2, 0]])


def test_a_rule_without_boxes() -> None:
    with pytest.raises(InputError, match="min_boxes <= max_boxes"):
        BoxRule(min_boxes=5, max_boxes=2)


def test_images_find_their_regions(tmp_path: Path) -> None:
    names = (
        "COCO_val2014_000000000042",
        "flickr30k_000001",
        "1000_ab12.jpg",
        "COCO_train2014_000000000007",
        "x_000007",
    )
    write_npz_regions(tmp_path, ((name, random_regions(0)) for name in names))
    source = open_regions(tmp_path)
    assert source.find("42") == "COCO_val2014_000000000042.npz"
    assert source.find("COCO_val2014_000000000042.jpg") == "COCO_val2014_000000000042.npz"
    assert source.find("1000_ab12") == source.find("1000_ab12.jpg") == "1000_ab12.jpg.npz"
    assert source.find("a caption's id", "pictures/1000_ab12.jpg") == "1000_ab12.jpg.npz"
    assert source.find("1") == "flickr30k_000001.npz"
    assert source.find("7") is None, "two pictures have this number"
    assert source.find("43") is None


def test_detector_files_with_pixel_boxes(tmp_path: Path) -> None:
    """bottom-up-attention's own .npz: x, bbox, the picture's size, and a pickled dict that nobody needs."""
    boxes = np.array([[0, 10, 50, 100]], np.float32)
    info = np.array({"objects": Evil(tmp_path / "ran")}, dtype=object)
    source = saved(
        tmp_path / "r",
        x=np.ones((1, 4), np.float32),
        bbox=boxes,
        image_w=np.int64(100),
        image_h=np.int64(200),
        info=info,
    )
    assert source.read("1.npz").boxes.tolist() == [[0, 0.05000000074505806, 0.5, 0.5]]
    assert not (tmp_path / "ran").exists()


def test_soft_labels_give_the_likeliest_label_but_not_background(tmp_path: Path) -> None:
    soft = np.zeros((12, 5), np.float32)
    soft[:, 0], soft[:, 3] = 0.9, 0.1
    assert saved(tmp_path / "r", **good(soft_labels=soft)).read("1.npz").labels == ("3",) * 12


BROKEN = {
    "no features": ({"features": None}, "no array features or x"),
    "no boxes": ({"norm_bb": None}, "no array norm_bb"),
    "text": ({"features": np.full((12, 4), "dog")}, "features holds <U3, expected numbers"),
    "one dimension": ({"features": np.ones(12)}, r"shape \[12\], expected \[boxes, features\]"),
    "NaN": ({"features": np.full((12, 4), np.nan)}, "NaN or infinite"),
    "infinite": ({"features": np.full((12, 4), np.inf)}, "NaN or infinite"),
    "too large for float32": ({"features": np.full((12, 4), 1e300)}, "NaN or infinite"),
    "zero boxes": ({"features": np.ones((0, 4)), "norm_bb": np.ones((0, 6))}, "0 boxes, expected 1 to 1,000"),
    "10,000 boxes": ({"features": np.ones((10000, 4)), "norm_bb": np.ones((10000, 6))}, "10,000 boxes, expected"),
    "other number of boxes": ({"norm_bb": np.ones((3, 6))}, r"boxes have the shape \[3, 6\], expected \[12"),
    "boxes of three": ({"norm_bb": np.ones((12, 3))}, r"expected \[12, 4 or more\]"),
    "pixels without size": ({"norm_bb": None, "bbox": np.ones((12, 4))}, "no array image_w"),
    "pixels as if relative": ({"norm_bb": np.full((12, 6), 50.0)}, "outside its image"),
    "ends before it begins": ({"norm_bb": np.tile([0.5, 0.5, 0.1, 0.9], (12, 1))}, "ends before it begins"),
    "other confidences": ({"conf": np.ones(3)}, "conf has the shape"),
    "other labels": ({"labels": np.array(["a"])}, "labels must be 12"),
    "pickle": ({"features": np.array([[{}]], dtype=object)}, "pickled objects, which are never loaded"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_arrays_get_a_sentence(tmp_path: Path, name: str) -> None:
    changed, said = BROKEN[name]
    with pytest.raises(InputError, match=said) as caught:
        saved(tmp_path / "r", **good(**changed)).read("1.npz")
    assert "1.npz" in str(caught.value), "the message names the picture"


def test_code_in_an_npz_is_never_run(tmp_path: Path) -> None:
    arrays = good(features=np.array([[Evil(tmp_path / "ran")]], dtype=object))
    with pytest.raises(InputError, match="pickled objects"):
        saved(tmp_path / "r", **arrays).read("1.npz")
    (tmp_path / "r" / "1.npz").write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    with pytest.raises(InputError, match=r"not an .npz file"):
        open_regions(tmp_path / "r").read("1.npz")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_truncated_npz(tmp_path: Path, share: float) -> None:
    path = random_region_folder(tmp_path) / "0.npz"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"damaged, truncated or not an .npz file"):
        open_regions(tmp_path).read("0.npz")


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "0.npz", "w", zipfile.ZIP_DEFLATED) as packed:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 17, 1 << 8)}
        )
        packed.writestr("features.npy", header.getvalue() + bytes(1 << 27))
    with pytest.raises(InputError, match="unpacks to 134,"):
        open_regions(tmp_path).read("0.npz")


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
def test_truncated_lmdb(tmp_path: Path, share: float) -> None:
    """Reading beyond the end of a map would end the process."""
    pytest.importorskip("lmdb")
    write_lmdb_regions(tmp_path / "r", ((str(k), random_regions(k, features=512)) for k in range(20)))
    path = tmp_path / "r" / "data.mdb"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"data\.mdb is truncated, damaged or not an LMDB"):
        open_regions(tmp_path / "r")


def test_what_is_not_regions(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        open_regions(tmp_path / "absent")
    with pytest.raises(InputError, match="no image in it"):
        open_regions(tmp_path)


def test_what_is_no_lmdb(tmp_path: Path) -> None:
    pytest.importorskip("lmdb")
    (tmp_path / "data.mdb").write_bytes(b"not a database" * 1000)
    with pytest.raises(InputError, match="not an LMDB"):
        open_regions(tmp_path)


def test_writers_refuse_what_cannot_be_read_back(tmp_path: Path) -> None:
    pytest.importorskip("lmdb")
    with pytest.raises(InputError, match="cannot be the name of a file"):
        write_npz_regions(tmp_path / "r", [("../up", random_regions(0))])
    with pytest.raises(InputError, match="duplicate image"):
        write_lmdb_regions(tmp_path / "l", [("a", random_regions(0)), ("a.npz", random_regions(1))])
    assert not (tmp_path / "l").exists(), "written whole or not at all"
    write_lmdb_regions(tmp_path / "l", [("a", random_regions(0))])
    with pytest.raises(InputError, match="exists"):
        write_lmdb_regions(tmp_path / "l", [("b", random_regions(0))])
