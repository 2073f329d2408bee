"""Synthetic scenes as files, for programs that read files.

    images/ID.png     the pictures
    captions.jsonl    candidates with references, picture, system and truth (`human`), as capmeter's native rows
    facts.jsonl       what every candidate states: {"id", "facts": [{"kind", "value", "mention", "other", "holds"}]}
    regions/ID.npz    boxes of all things and of the whole picture: norm_bb, bbox (pixels), image_w, image_h, labels,
                      attributes and, with an encoder, features
    features.npz      with an encoder: image_ids, and the features of whole pictures
    world.json        the world's text form, and the versions that drew it

The same world is written with the same bytes by the same versions of capmeter, Pillow and numpy.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.writing import save
from capmeter.core.errors import InputError
from capmeter.core.progress import task
from capmeter_recipes.synthetic_scenes.scenes.captions import truth
from capmeter_recipes.synthetic_scenes.scenes.scenes import Scene
from capmeter_recipes.synthetic_scenes.scenes.world import World


class FeatureEncoder(Protocol):
    """What gives features to pictures and regions: `capmeter_recipes.synthetic_scenes.encoder.encoder.WorldEncoder`."""

    def pictures(self, pixels: Sequence[npt.NDArray[np.uint8]]) -> npt.NDArray[np.float32]:
        """float32 [n, width] of pictures, uint8 [height, width, 3]."""

    def regions(self, pixels: npt.NDArray[np.uint8], boxes: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """float32 [n, d] of one picture's boxes, [n, 4] in pixels."""


DESCRIPTION = "world.json"
_THEN = (1980, 1, 1, 0, 0, 0)


def write_world(
    world: World, folder: str | os.PathLike[str], *, encoder: FeatureEncoder | None = None
) -> dict[str, int]:
    """Writes the files of a world, whole or not at all, and returns how many pictures and captions there are.

    Args:
        world: the world.
        folder: does not exist, or is empty. It is renamed into place when everything is written.
        encoder: gives features to pictures and regions; without it regions have boxes and labels alone.

    Raises:
        InputError: the folder is not empty, or cannot be written to.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} exists and is not an empty folder; name a new one, or remove it first")
    captions = world.captions()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as temporary:
            scene_folder = Path(temporary, "world")
            _write(world, captions, scene_folder, encoder)
            scene_folder.replace(target)
    except OSError as error:
        raise InputError(f"cannot write synthetic scenes to {target} ({error.strerror}); name another folder") from None
    return {"pictures": len(world), "captions": len(captions)}


def _write(world: World, captions: CaptionSet, folder: Path, encoder: FeatureEncoder | None) -> None:
    for name in ("images", "regions"):
        (folder / name).mkdir(parents=True)
    vectors: list[npt.NDArray[np.float32]] = []
    with task("drawing", len(world)) as advance:
        for scene in world:
            picture = scene.render()
            picture.save(folder / "images" / f"{scene.id}.png")
            arrays = region_arrays(scene)
            if encoder is not None:
                pixels = np.asarray(picture)
                arrays["features"] = encoder.regions(pixels, arrays["bbox"])
                vectors.append(encoder.pictures([pixels])[0])
            (folder / "regions" / f"{scene.id}.npz").write_bytes(_npz(arrays))
            advance(1)
    if vectors:
        ids = np.array([scene.id for scene in world])
        (folder / "features.npz").write_bytes(_npz({"image_ids": ids, "features": np.stack(vectors)}))
    save(captions, folder / "captions.jsonl", to="jsonl")
    with (folder / "facts.jsonl").open("w", encoding="utf-8") as file:
        for index, scene in enumerate(world):
            for system, caption in world.candidates(index).items():
                accuracy = truth(scene, caption.content)
                pairs = zip(accuracy.facts, accuracy.holds, strict=True)
                facts = [{**asdict(fact), "holds": holds} for fact, holds in pairs]
                row = {"id": f"{scene.id}#{system}", "coverage": accuracy.coverage, "facts": facts}
                file.write(json.dumps(row) + "\n")
    described = {"world": str(world), "capmeter": __version__, "pillow": version("pillow"), "numpy": np.__version__}
    (folder / DESCRIPTION).write_text(json.dumps(described, indent=1) + "\n", "utf-8")


def region_arrays(scene: Scene) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a scene's regions, with the names that readers of region files know; no pickled objects."""
    regions, side = scene.regions(), np.float32(scene.pixels)
    corners = regions.boxes / side
    size = corners[:, 2:] - corners[:, :2]
    return {
        "bbox": regions.boxes,
        "norm_bb": np.concatenate([corners, size], axis=1).astype(np.float32),
        "image_w": np.array(scene.pixels),
        "image_h": np.array(scene.pixels),
        "labels": np.array(regions.labels),
        "attributes": np.array([" ".join(each) for each in regions.attributes]),
    }


def _npz(arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    """The arrays as an npz whose bytes do not depend on the time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            one = io.BytesIO()
            np.lib.format.write_array(one, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _THEN), one.getvalue())
    return buffer.getvalue()
