"""A made world as files: read back by the house's readers, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.cli.scenes import app
from capmeter_research.synthetic_scenes.scenes import World, truth, write_world
from typer.testing import CliRunner

from capmeter.captions.caption_set import ImageRef
from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.images.reading import read_image

WORLD = World(split="dev", size=4, seed=2, pixels=48)


class Means:
    """An encoder whose features are mean colours."""

    def pictures(self, pixels: Any) -> np.ndarray:
        return np.array([each.mean((0, 1)) for each in pixels], np.float32)

    def regions(self, pixels: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        corners = np.round(boxes).astype(int)
        return np.array([pixels[y0:y1, x0:x1].mean((0, 1)) for x0, y0, x1, y1 in corners], np.float32)


def test_files_hold_the_world(tmp_path: Path) -> None:
    assert write_world(WORLD, tmp_path / "made") == {"pictures": 4, "captions": len(WORLD.captions())}
    captions = load(tmp_path / "made" / "captions.jsonl")
    assert list(captions) == list(WORLD.captions())
    for scene in WORLD:
        picture = read_image(ImageRef(str(tmp_path / "made" / "images" / f"{scene.id}.png"), scene.id))
        assert picture.pixels.tobytes() == scene.render().tobytes() and not picture.notes
        with np.load(tmp_path / "made" / "regions" / f"{scene.id}.npz") as arrays:
            assert arrays["bbox"].tolist() == scene.regions().boxes.tolist()
            assert arrays["labels"].tolist() == list(scene.regions().labels) and "features" not in arrays
            assert np.allclose(arrays["norm_bb"][:, 2] - arrays["norm_bb"][:, 0], arrays["norm_bb"][:, 4])
    facts = [json.loads(line) for line in (tmp_path / "made" / "facts.jsonl").open()]
    assert [each["id"] for each in facts] == list(captions.ids)
    caption = WORLD.candidates(0)["true"]
    assert [each["holds"] for each in facts[0]["facts"]] == list(truth(WORLD[0], caption.content).holds)
    assert json.loads((tmp_path / "made" / "world.json").read_text())["world"] == str(WORLD)


def test_the_same_world_is_written_with_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_world(WORLD, tmp_path / name, encoder=Means())
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) == 12
    assert all((tmp_path / "a" / each).read_bytes() == (tmp_path / "b" / each).read_bytes() for each in files)


def test_an_encoder_adds_features_of_pictures_and_regions(tmp_path: Path) -> None:
    write_world(WORLD, tmp_path / "made", encoder=Means())
    scene = WORLD[1]
    pixels = np.asarray(scene.render(), np.float32)
    with np.load(tmp_path / "made" / "regions" / f"{scene.id}.npz") as arrays:
        assert len(arrays["features"]) == len(scene.regions().labels)
        assert np.allclose(arrays["features"][-1], pixels.mean((0, 1)))
    with np.load(tmp_path / "made" / "features.npz") as arrays:
        assert arrays["image_ids"].tolist() == [each.id for each in WORLD]
        assert np.allclose(arrays["features"][1], pixels.mean((0, 1)))


def test_nothing_is_left_of_a_world_that_could_not_be_written(tmp_path: Path) -> None:
    class Broken(Means):
        def pictures(self, pixels: object) -> np.ndarray:
            raise InputError("no features")

    with pytest.raises(InputError, match="no features"):
        write_world(WORLD, tmp_path / "made", encoder=Broken())
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is not an empty folder"):
        write_world(WORLD, tmp_path / "full")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write synthetic scenes to"):
        write_world(WORLD, tmp_path / "file" / "made")


def test_the_command_writes_a_world(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [str(tmp_path / "made"), "--split", "dev", "--size", "3", "--pixels", "32"])
    assert done.exit_code == 0 and "3 pictures of world(split=dev,size=3,pixels=32)" in done.stdout
    assert len(list((tmp_path / "made" / "images").iterdir())) == 3
    assert CliRunner().invoke(app, [str(tmp_path / "x"), "--split", "val"]).exit_code == 2
