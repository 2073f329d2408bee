"""How well a metric tells right from wrong on held-out synthetic scenes."""

from __future__ import annotations

from dataclasses import replace

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.results import Items
from capmeter.evaluation.runner import evaluate
from capmeter_research.synthetic_scenes.scenes.errors import ERRORS

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
