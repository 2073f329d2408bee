"""Vectors of pictures from files and networks."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.common.image_features import (
    FeatureFile,
    ImageFeatures,
    VisionEncoder,
    parse_feature_source,
    write_feature_file,
)
from PIL import Image

from capmeter.captions.caption_set import ImagePool, ImageRef
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings

POOL = ImagePool([ImageRef("a.png", "a"), ImageRef("b.png", "b")])


def test_names_are_values() -> None:
    assert parse_feature_source("features.npz") == FeatureFile("features.npz")
    source = parse_feature_source('network(path="my nets/resnet152.pth",pool=overlapping)')
    assert source == VisionEncoder(path="my nets/resnet152.pth", pool="overlapping")
    assert parse_feature_source(str(source)) == source
    for text, message in (("resnet", "expected an .npz file"), ("network", "network requires path")):
        with pytest.raises(InputError, match=message):
            parse_feature_source(text)
    with pytest.raises(InputError, match="pool=max is not mean or overlapping"):
        parse_feature_source("network(path=x.pth,pool=max)")


def test_a_file_of_vectors_is_found_by_image_id(tmp_path: Path) -> None:
    path = tmp_path / "features.npz"
    write_feature_file(path, ["b", "c", "a"], np.arange(6, dtype=np.float32).reshape(3, 2))
    table = POOL.analyse(ImageFeatures(FeatureFile(str(path))))
    assert table.features.tolist() == [[4, 5], [0, 1]]
    with pytest.raises(InputError, match="1 of 2 images have none; the first: z"):
        FeatureFile(str(path)).features(["a", "z"])
    write_feature_file(path, ["a", "b"], np.array([[1.0], [np.nan]], np.float32))
    with pytest.raises(InputError, match="all finite"):
        FeatureFile(str(path)).features(["a"])
    np.savez(path, image_ids=["a"], features=np.array([object()], object))
    with pytest.raises(InputError, match="with `image_ids`"):
        FeatureFile(str(path)).features(["a"])
    with pytest.raises(InputError, match="No such file"):
        FeatureFile(str(tmp_path / "no.npz")).features(["a"])


def test_an_lmdb_of_vectors(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    pytest.importorskip("msgpack")
    folder = tmp_path / "vectors"

    def npy(array: np.ndarray) -> bytes:
        output = io.BytesIO()
        np.save(output, array)
        return output.getvalue()

    with lmdb.open(str(folder), map_size=1 << 20) as file, file.begin(write=True) as writing:
        for name, value in (("a", npy(np.array([1.0, 2.0]))), ("b", npy(np.array([3.0, 4.0]))), ("bad", b"nothing")):
            writing.put(name.encode(), value)
        writing.put(b"inf", npy(np.array([np.inf, 0.0])))
    source = parse_feature_source(str(folder))
    assert POOL.analyse(ImageFeatures(source)).features.tolist() == [[1, 2], [3, 4]]
    for name, message in (("bad", "neither .npy nor .npz"), ("inf", "finite"), ("z", "the first: z")):
        with pytest.raises(InputError, match=message):
            FeatureFile(str(folder)).features(["a", name])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no data\.mdb"):
        FeatureFile(str(tmp_path / "empty")).features(["a"])


@pytest.fixture
def network(tmp_path: Path) -> Path:
    torch = pytest.importorskip("torch")
    from transformers import ResNetConfig, ResNetModel

    torch.manual_seed(0)
    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])
    ResNetModel(config).save_pretrained(tmp_path / "net")
    return tmp_path / "net"


@pytest.mark.neural
def test_a_network_reads_every_distinct_picture_once(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    for name, size in (("a", (40, 90)), ("b", (231, 33))):
        Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)).save(tmp_path / f"{name}.png")
    (tmp_path / "c.png").write_bytes((tmp_path / "a.png").read_bytes())
    pool = ImagePool([ImageRef(str(tmp_path / f"{name}.png"), name) for name in "abc"])
    source = parse_feature_source(f"network(path={tmp_path / 'net'})")
    visits: list[object] = []
    encode = VisionEncoder.encode
    monkeypatch.setattr(VisionEncoder, "encode", lambda *inputs: (visits.append(inputs), encode(*inputs))[1])
    settings = Settings(device="cpu", cache=tmp_path / "store")
    table = pool.analyse(ImageFeatures(source, settings))
    assert table.features.shape == (3, 32) and (table.features[0] == table.features[2]).all() and len(visits) == 2
    again = ImagePool(pool.items).analyse(ImageFeatures(source, settings))
    assert (again.features == table.features).all() and len(visits) == 2  # from the store
    released = ImageFeatures(parse_feature_source(f"network(path={tmp_path / 'net'},pool=overlapping)"), settings)
    assert not np.allclose(ImagePool(pool.items).analyse(released).features, table.features)
    (tmp_path / "d.png").write_bytes(b"nothing")
    with pytest.raises(InputError, match="of image 'd': not an image"):
        ImagePool([ImageRef(str(tmp_path / "d.png"), "d")]).analyse(ImageFeatures(source, settings))


@pytest.mark.neural
def test_real_pictures(network: Path, shared: Path) -> None:
    places = [ImageRef(str(path), path.stem) for path in sorted((shared / "data" / "images").glob("*.jpg"))]
    table = ImagePool(places).analyse(ImageFeatures(parse_feature_source(f"network(path={network})")))
    assert table.features.shape == (len(places), 32)
    assert len(np.unique(table.features.round(5), axis=0)) == len(places) > 0
