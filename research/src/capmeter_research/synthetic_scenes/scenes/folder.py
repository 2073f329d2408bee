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

import json
import os
import tempfile
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
from capmeter_research.common.region_files import npz_bytes
from capmeter_research.synthetic_scenes.scenes.captions import truth
from capmeter_research.synthetic_scenes.scenes.scenes import Scene
from capmeter_research.synthetic_scenes.scenes.world import World


class FeatureEncoder(Protocol):
    """What gives features to pictures and regions: `synthetic_scenes.encoder.encoder.WorldEncoder`."""

    def pictures(self, pixels: Sequence[npt.NDArray[np.uint8]]) -> npt.NDArray[np.float32]:
        """float32 [n, width] of pictures, uint8 [height, width, 3]."""

    def regions(self, pixels: npt.NDArray[np.uint8], boxes: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """float32 [n, d] of one picture's boxes, [n, 4] in pixels."""


DESCRIPTION = "world.json"


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
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as temporary_folder:
            scene_folder = Path(temporary_folder, "world")
            _write(world, captions, scene_folder, encoder)
            scene_folder.replace(target)
    except OSError as error:
        raise InputError(f"cannot write synthetic scenes to {target} ({error.strerror}); name another folder") from None
    return {"pictures": len(world), "captions": len(captions)}


def _write(world: World, captions: CaptionSet, folder: Path, encoder: FeatureEncoder | None) -> None:
    for folder_name in ("images", "regions"):
        (folder / folder_name).mkdir(parents=True)
    picture_features: list[npt.NDArray[np.float32]] = []
    with task("drawing", len(world)) as advance:
        for scene in world:
            picture = scene.render()
            picture.save(folder / "images" / f"{scene.id}.png")
            scene_arrays = region_arrays(scene)
            if encoder is not None:
                pixels = np.asarray(picture)
                scene_arrays["features"] = encoder.regions(pixels, scene_arrays["bbox"])
                picture_features.append(encoder.pictures([pixels])[0])
            (folder / "regions" / f"{scene.id}.npz").write_bytes(npz_bytes(scene_arrays))
            advance(1)
    if picture_features:
        image_ids = np.array([scene.id for scene in world])
        (folder / "features.npz").write_bytes(
            npz_bytes({"image_ids": image_ids, "features": np.stack(picture_features)})
        )
    save(captions, folder / "captions.jsonl", to="jsonl")
    with (folder / "facts.jsonl").open("w", encoding="utf-8") as facts_file:
        for scene_index, scene in enumerate(world):
            for system, caption in world.candidates(scene_index).items():
                caption_truth = truth(scene, caption.content)
                fact_pairs = zip(caption_truth.facts, caption_truth.holds, strict=True)
                fact_rows = [{**asdict(fact), "holds": holds} for fact, holds in fact_pairs]
                caption_row = {"id": f"{scene.id}#{system}", "coverage": caption_truth.coverage, "facts": fact_rows}
                facts_file.write(json.dumps(caption_row) + "\n")
    described = {"world": str(world), "capmeter": __version__, "pillow": version("pillow"), "numpy": np.__version__}
    (folder / DESCRIPTION).write_text(json.dumps(described, indent=1) + "\n", "utf-8")


def region_arrays(scene: Scene) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a scene's regions, with the names that readers of region files know; no pickled objects."""
    regions, image_side = scene.regions(), np.float32(scene.pixels)
    relative_boxes = regions.boxes / image_side
    box_sizes = relative_boxes[:, 2:] - relative_boxes[:, :2]
    return {
        "bbox": regions.boxes,
        "norm_bb": np.concatenate([relative_boxes, box_sizes], axis=1).astype(np.float32),
        "image_w": np.array(scene.pixels),
        "image_h": np.array(scene.pixels),
        "labels": np.array(regions.labels),
        "attributes": np.array([" ".join(attribute_words) for attribute_words in regions.attributes]),
    }
