"""How well a joint encoder tells right from wrong on held-out pictures of synthetic scenes, by CLIPScore itself."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.settings import Settings
from capmeter.evaluation.runner import evaluate
from capmeter.metrics.vision.clipscore import ClipScore
from capmeter_research.synthetic_scenes.scenes.errors import CONTENT_ERRORS
from capmeter_research.synthetic_scenes.scenes.world import World

WRONG = (*CONTENT_ERRORS, "hallucinated")
SWAPPED = "falls with another picture"


def shares_right(encoder: str, world: World, settings: Settings | None = None) -> dict[str, float]:
    """Shares of held-out pictures, in [0, 1].

    `right above wrong`: the true caption scores above the same caption with a wrong content, over all kinds of errors;
    each kind alone; and `falls with another picture`: the true caption scores lower with the next scene's picture.

    Args:
        encoder: name or folder of a CLIP.
        world: held-out scenes.
        settings: where it runs.
    """
    metric = ClipScore(encoder=encoder, scale=1.0, clamp=False)
    with tempfile.TemporaryDirectory() as folder:
        for scene in world:
            scene.render().save(Path(folder) / f"{scene.id}.png")
        caption_rows = [each for each in world.captions(folder) if each.system == "true" or each.system in WRONG]
        image_ids = [scene.id for scene in world]
        next_image = dict(zip(image_ids, image_ids[1:] + image_ids[:1], strict=True))
        swapped = [
            replace(each, id=f"{each.image_id}#swapped", image=str(Path(folder, f"{next_image[each.image_id]}.png")))
            for each in caption_rows
            if each.system == "true"
        ]
        items = evaluate(CaptionSet.from_captions([*caption_rows, *swapped]), [metric], settings=settings)[metric].items
    outcomes_by_kind: dict[str, list[bool]] = {}
    for each in caption_rows:
        if each.system in WRONG and each.system is not None:
            outcomes_by_kind.setdefault(each.system, []).append(items[f"{each.image_id}#true"] > items[each.id])
    swap_outcomes = [items[f"{image_id}#true"] > items[f"{image_id}#swapped"] for image_id in image_ids]
    all_outcomes = [share for kind_outcomes in outcomes_by_kind.values() for share in kind_outcomes]
    return {
        "right above wrong": float(np.mean(all_outcomes)),
        SWAPPED: float(np.mean(swap_outcomes)),
        **{kind: float(np.mean(outcomes_by_kind[kind])) for kind in WRONG if kind in outcomes_by_kind},
    }
