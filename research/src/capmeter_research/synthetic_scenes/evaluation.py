"""How well a metric tells right from wrong on held-out synthetic scenes."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.results import Items
from capmeter.evaluation.runner import evaluate
from capmeter.metrics.vision.clipscore import ClipScore
from capmeter_research.synthetic_scenes.scenes.errors import CONTENT_ERRORS, ERRORS
from capmeter_research.synthetic_scenes.scenes.world import World

TRUE = "true"
SWAPPED = "falls with another picture"


def scene_outcomes(
    metric: Metric, captions: CaptionSet, *, swap: bool, settings: Settings | None = None
) -> tuple[Items, dict[str, list[float]]]:
    """Scores captions of scenes (`World.captions`).

    Args:
        metric: scores the captions.
        captions: of several scenes.
        swap: whether true captions are also scored with the next scene's picture.
        settings: where the metric runs.

    Returns:
        The scores. For each kind of error, of every scene with it: 1 where the true caption scores above the same
        caption with this error, .5 where both are equal, else 0; and under `SWAPPED` whether it scores above itself
        with another picture.
    """
    items = evaluate(captions, [metric], settings=settings)[metric].items
    outcomes: dict[str, list[float]] = {}
    for each in captions:
        if each.system in ERRORS:
            right, wrong = items[f"{each.image_id}#{TRUE}"], items[each.id]
            outcomes.setdefault(str(each.system), []).append((right > wrong) + 0.5 * (right == wrong))
    if swap:
        true_captions = [each for each in captions if each.system == TRUE]
        swapped = CaptionSet.from_captions(
            replace(each, image_id=other.image_id, image=other.image)
            for each, other in zip(true_captions, true_captions[1:] + true_captions[:1], strict=True)
        )
        swapped_items = evaluate(swapped, [metric], settings=settings)[metric].items
        outcomes[SWAPPED] = [float(items[each.id] > swapped_items[each.id]) for each in swapped]
    return items, outcomes


def clip_shares(encoder: str, world: World, settings: Settings | None = None) -> dict[str, float]:
    """Shares of held-out pictures on which CLIPScore tells right from wrong, in [0, 1].

    `right above wrong`: the true caption scores above the same caption with a wrong content, over all kinds of errors;
    each kind alone; and `SWAPPED`.

    Args:
        encoder: name or folder of a CLIP.
        world: held-out scenes.
        settings: where it runs.
    """
    kinds = (*CONTENT_ERRORS, "hallucinated")
    metric = ClipScore(encoder=encoder, scale=1.0, clamp=False)
    with tempfile.TemporaryDirectory() as folder:
        for scene in world:
            scene.render().save(Path(folder) / f"{scene.id}.png")
        captions = CaptionSet.from_captions(
            each for each in world.captions(folder) if each.system == TRUE or each.system in kinds
        )
        _, outcomes = scene_outcomes(metric, captions, swap=True, settings=settings)
    right_above_wrong = np.concatenate([outcomes[kind] for kind in kinds if kind in outcomes])
    shares = {kind: float(np.mean(outcomes[kind])) for kind in (SWAPPED, *kinds) if kind in outcomes}
    return {"right above wrong": float(right_above_wrong.mean()), **shares}
