"""How well a joint encoder tells right from wrong on held-out pictures of synthetic scenes, by CLIPScore itself."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.settings import Settings
from capmeter.evaluation.scoring import evaluate
from capmeter.metrics.vision.clipscore import ClipScore
from capmeter_recipes.synthetic_scenes.scenes.errors import CONTENT_ERRORS
from capmeter_recipes.synthetic_scenes.scenes.world import World

WRONG = (*CONTENT_ERRORS, "hallucinated")
SWAPPED = "falls with another picture"


def shares_right(encoder: str, world: World, settings: Settings | None = None) -> dict[str, float]:
    """Shares of held-out pictures, in [0, 1].

    `right above wrong`: the true caption scores above the same caption with a wrong content, over all kinds of errors;
    each kind alone; and `falls with another picture`: the true caption scores lower with the next scene's picture.
    """
    metric = ClipScore(encoder=encoder, scale=1.0, clamp=False)
    with tempfile.TemporaryDirectory() as folder:
        for scene in world:
            scene.render().save(Path(folder) / f"{scene.id}.png")
        rows = [each for each in world.captions(folder) if each.system == "true" or each.system in WRONG]
        names = [scene.id for scene in world]
        following = dict(zip(names, names[1:] + names[:1], strict=True))
        swapped = [
            replace(each, id=f"{each.image_id}#swapped", image=str(Path(folder, f"{following[each.image_id]}.png")))
            for each in rows
            if each.system == "true"
        ]
        items = evaluate(CaptionSet.from_captions([*rows, *swapped]), [metric], settings=settings)[metric].items
    outcomes: dict[str, list[bool]] = {}
    for each in rows:
        if each.system in WRONG and each.system is not None:
            outcomes.setdefault(each.system, []).append(items[f"{each.image_id}#true"] > items[each.id])
    falls = [items[f"{name}#true"] > items[f"{name}#swapped"] for name in names]
    everything = [share for kind in outcomes.values() for share in kind]
    return {
        "right above wrong": float(np.mean(everything)),
        SWAPPED: float(np.mean(falls)),
        **{kind: float(np.mean(outcomes[kind])) for kind in WRONG if kind in outcomes},
    }
