"""Regions: files of every kind read back, the choice of boxes, and hostile files that get a sentence each."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from capmeter.core.errors import InputError
from capmeter.images.regions import RegionSource, open_regions

pytest.importorskip("capmeter_research", reason="needs capmeter-research")

from capmeter_research.common.region_files import arrays_of, write_npz_regions
from support.hostile_values import Evil
from support.uniter_examples import random_region_folder, random_regions


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
    result = open_regions(tmp_path).read("7.npz")
    np.testing.assert_array_equal(result.features, regions.features)
    np.testing.assert_array_equal(result.boxes, regions.boxes)
    np.testing.assert_array_equal(result.confidence, regions.confidence)
    assert result.labels == regions.labels


def test_labels_that_are_no_characters(tmp_path: Path) -> None:
    labels = np.frombuffer(np.full(12, 0x110000, "<u4").tobytes(), "<U1")
    with pytest.raises(InputError, match=r"1\.npz.*a label is not text"):
        saved(tmp_path / "r", **good(labels=labels)).read("1.npz")


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
    changed, message = BROKEN[name]
    with pytest.raises(InputError, match=message) as caught:
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


def test_what_is_not_regions(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        open_regions(tmp_path / "absent")
    with pytest.raises(InputError, match="no image in it"):
        open_regions(tmp_path)
