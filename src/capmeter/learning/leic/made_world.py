"""Critics on the made world, where it is known what of a caption holds: does a critic use its context?

Negatives are true captions with one controlled error. A critic that sees nothing (`context=none`) cannot tell which
colour is right, and should be at chance on wrong contents; one that sees the picture or a reference should find them;
every critic should find sentences that are no sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.learning.leic.examples import CaptionedImage, Given
from capmeter.learning.leic.recipe import CriticRecipe
from capmeter.learning.world import World
from capmeter.learning.world.errors import ERRORS
from capmeter.metrics.base import Metric
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.leic.image_features import FeatureTable
from capmeter.metrics.leic.leic import Leic
from capmeter.stats.kendall import tau_b

TRUE = "true"


@dataclass(frozen=True, eq=False)
class WorldShares:
    """How a metric does on held-out scenes.

    above: for each kind of error, the share of scenes whose true caption scores above the same caption with this error
    (equal scores count half). falls: the share whose true caption scores lower with another scene's picture; None for a
    critic without the picture. tau: Kendall's τb of all candidates' scores with the share of their facts that hold.
    """

    name: str
    above: Mapping[str, float]
    falls: float | None
    tau: float


def world_images(world: World) -> list[CaptionedImage]:
    """The scenes: true captions as human ones, captions with one error as machine captions."""
    found: dict[str, CaptionedImage] = {}
    for each in world.captions():
        known = found.setdefault(each.image_id, CaptionedImage(each.image_id, each.references))
        if each.system in ERRORS:
            given = Given(each.candidate, (), str(each.system))
            found[each.image_id] = replace(known, machine=(*known.machine, given))
    return list(found.values())


def world_shares(metric: Metric, world: World, *, name: str = "", picture: bool = False) -> WorldShares:
    """How this metric does on these scenes; `picture` says whether it sees the picture, found by image id."""
    rows = list(world.captions())
    items = evaluate(CaptionSet.from_captions(rows), [metric])[metric].items
    above: dict[str, list[float]] = {}
    for each in rows:
        if each.system in ERRORS:
            right, wrong = items[f"{each.image_id}#{TRUE}"], items[each.id]
            above.setdefault(str(each.system), []).append((right > wrong) + 0.5 * (right == wrong))
    falls = None
    if picture:
        names = list(dict.fromkeys(each.image_id for each in rows))
        following = dict(zip(names, names[1:] + names[:1], strict=True))
        swapped = [replace(each, image_id=following[each.image_id]) for each in rows if each.system == TRUE]
        other = evaluate(CaptionSet.from_captions(swapped), [metric])[metric].items
        falls = float(np.mean([items[each.id] > other[each.id] for each in swapped]))
    truth = np.array([each.human[0] if each.human else 0.0 for each in rows])
    shares = {kind: float(np.mean(above[kind])) for kind in ERRORS if kind in above}
    varies = np.ptp(items.array) > 0  # a metric that says the same of everything orders nothing
    return WorldShares(name or str(metric), shares, falls, float(tau_b(items.array, truth)) if varies else 0.0)


def contexts_on_world(
    learned: World,
    judged: World,
    recipe: CriticRecipe,
    contexts: Sequence[str],
    folder: Path,
    *,
    features: FeatureTable | None = None,
    device: str = "cpu",
) -> list[WorldShares]:
    """Trains a critic with each context on one world and judges it on another split.

    Raises:
        InputError: the worlds share a split, or a context needs features.
    """
    from capmeter.learning.leic.run import train_critic

    if learned.split == judged.split:
        raise InputError(f"{learned} and {judged} may share scenes; train and judge on different splits")
    images = world_images(learned)
    found = []
    for context in contexts:
        own = replace(recipe, context=context)
        if own.sees_image and features is None:
            raise InputError(f"context={context} needs the features of both worlds' pictures")
        place = folder / context
        train_critic(images, (), own, place, features=features, device=device)
        metric = Leic(checkpoint=str(place), features=str(features.path) if features and own.sees_image else None)
        found.append(world_shares(metric, judged, name=context, picture=own.sees_image))
    return found
