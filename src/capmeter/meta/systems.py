"""Captioning systems compared with people in meaning, style and grammar (SMURF, section 4.3 and Figure 1).

Every caption of a system is a point (SPARCS', SPURTS'): meaning and style in standard deviations from human captions.
A system is summarised by the mean of its points; by the ellipse of 1.15 standard deviations around it; by how much of
that ellipse lies inside the human one, area(H ∩ M) / area(M), which is 1 at human level; by its *centroid caption*,
the one nearest to the mean; and by the sum of its grammatical outlier penalties G.

As in the released code the ellipses are polygons of 64 corners from the covariance with n − 1, and the penalty is a sum
over captions, so that it grows with their number. The paper calls it the "75%" ellipse: 1.15 standard deviations cover
75% of a normal distribution in one dimension, and 48% in two.

>>> square = ellipse(np.array([[0.0, 0], [2, 0], [0, 2], [2, 2]]), deviations=np.sqrt(0.75))
>>> round(area(square), 4), round(area(clip(square, square + [1, 0])), 4)
(3.1365, 1.225)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import Floats
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.mima import Mima, Spurts
from capmeter.metrics.normalisation import NormalisationConstants, require_encoders
from capmeter.metrics.registry import parse
from capmeter.metrics.scores import Results, read_all
from capmeter.metrics.smurf import fuse
from capmeter.metrics.sparcs import Sparcs
from capmeter.settings import Settings

DEVIATIONS = 1.15
CORNERS = 64
_LEAST = 3  # captions for an ellipse


@dataclass(frozen=True, eq=False)
class Components:
    """The raw scores of one system's captions, the encoders of MIMA and SPURTS that gave them, and of each caption its
    id, its image and, where known, its text.
    """

    sparcs: Floats
    mima: Floats
    spurts: Floats
    encoders: tuple[str, str]
    ids: Sequence[str]
    images: Sequence[str]
    texts: Sequence[str] | None = None


@dataclass(frozen=True, eq=False)
class System:
    """The summary of a system's captions. `points` [n, 2] are (SPARCS', SPURTS'), `outline` [64, 2] the ellipse.

    `overlap` is the share of the ellipse inside the human one; `penalty` the sum of G over all captions; `centroid` the
    position of the caption nearest to the mean.
    """

    name: str
    points: Floats
    mean: Floats
    outline: Floats
    overlap: float
    penalty: float
    centroid: int
    components: Components

    @property
    def example(self) -> str:
        """The centroid caption; its id where the text is not known."""
        texts = self.components.texts
        return self.components.ids[self.centroid] if texts is None else texts[self.centroid]


def measure(
    captions: Mapping[str, CaptionSet], mima_encoder: str, spurts_encoder: str, settings: Settings | None = None
) -> dict[str, Components]:
    """The components of every system's captions."""
    metrics = Sparcs(), Mima(encoder=mima_encoder), Spurts(encoder=spurts_encoder)
    found = {}
    for name, each in captions.items():
        texts = [each.pool[int(index)] for index in each.candidates]
        found[name] = replace(components(evaluate(each, metrics, settings=settings), name), texts=texts)
    return found


def saved_components(path: str | Path, name: str | None = None) -> dict[str, Components]:
    """The components in a file of `capmeter score --output`: of several systems, or of one (called `name`)."""
    found = read_all(path)
    if len(found) == 1 and name is not None:
        found = {name: next(iter(found.values()))}
    return {each: components(results, each) for each, results in found.items()}


def components(results: Results, name: str) -> Components:
    """The components among saved results; an `InputError` names a missing one."""
    scores, encoders = {}, {}
    for component in ("sparcs", "mima", "spurts"):
        matching = [each for each in results if each.partition("(")[0] == component]
        if len(matching) != 1:
            raise InputError(
                f"{name}: expected the scores of one {component}, but found {', '.join(matching) or 'none'} among "
                f"{', '.join(results)}; score with --metrics sparcs,mima(encoder=NAME),spurts(encoder=NAME)"
            )
        scores[component] = results[matching[0]].items.array
        encoders[component] = str(parse(matching[0]).parameters().get("encoder", ""))
    return Components(
        scores["sparcs"],
        scores["mima"],
        scores["spurts"],
        (encoders["mima"], encoders["spurts"]),
        results.ids.names,
        results.ids.images,
    )


def require_people(systems: Mapping[str, Any], human: str) -> None:
    """An `InputError` where no system has the name of the human captions."""
    if human not in systems:
        raise InputError(f"there is no system named {human!r} to compare with; there are {', '.join(systems)}")


def analyse(systems: Mapping[str, Components], human: str, standard: NormalisationConstants) -> dict[str, System]:
    """The summary of every system on the scale of these constants, compared with the human captions (`human`)."""
    require_people(systems, human)
    found: dict[str, System] = {}
    for name, each in sorted(systems.items(), key=lambda item: item[0] != human):  # people first
        require_encoders(standard, *each.encoders)
        fused = fuse(each.sparcs, each.mima, each.spurts, standard)
        points = fused[:, [3, 5]]
        mean = points.mean(axis=0)
        outline = ellipse(points, name=name)
        within = found[human].outline if found else outline
        found[name] = System(
            name=name,
            points=points,
            mean=mean,
            outline=outline,
            overlap=area(clip(outline, within)) / area(outline),
            penalty=float(fused[:, 1].sum()),
            centroid=int(np.argmin(((points - mean) ** 2).sum(axis=1))),
            components=each,
        )
    return found


def ellipse(points: Floats, *, deviations: float = DEVIATIONS, name: str = "the points") -> Floats:
    """The corners [64, 2], anticlockwise, of the ellipse that lies so many standard deviations around the mean."""
    if len(points) < _LEAST:
        raise InputError(f"{name}: an ellipse needs at least {_LEAST} captions, but there are {len(points)}")
    covariance = np.cov(points.T)
    spread = np.sqrt(np.diag(covariance))
    if not (spread > 0).all():
        raise InputError(f"{name}: all captions have the same SPARCS or SPURTS, so no ellipse can be drawn")
    correlation = np.clip(covariance[0, 1] / spread.prod(), -1, 1)
    angle = 2 * np.pi * np.arange(CORNERS) / CORNERS
    # the ellipse of two standardised variables has its axes on the diagonals
    along, across = np.sqrt(1 + correlation) * np.cos(angle), np.sqrt(1 - correlation) * np.sin(angle)
    corners = np.stack([along - across, along + across], axis=1) / np.sqrt(2)
    outline: Floats = points.mean(axis=0) + corners * spread * deviations
    return outline


def area(outline: Floats) -> float:
    """The area inside an outline whose corners go anticlockwise."""
    if not len(outline):
        return 0.0
    x, y = (outline - outline[0]).T
    return float((x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def clip(outline: Floats, within: Floats) -> Floats:
    """The part of a convex outline inside another convex one (Sutherland and Hodgman), both anticlockwise."""
    for start, end in zip(within, np.roll(within, -1, axis=0), strict=True):
        if not len(outline):
            break
        edge = end - start
        side = edge[0] * (outline[:, 1] - start[1]) - edge[1] * (outline[:, 0] - start[0])  # >= 0: inside
        kept = []
        for k in range(len(outline)):
            if (side[k - 1] >= 0) != (side[k] >= 0):
                share = side[k - 1] / (side[k - 1] - side[k])
                kept.append(outline[k - 1] + share * (outline[k] - outline[k - 1]))
            if side[k] >= 0:
                kept.append(outline[k])
        outline = np.array(kept).reshape(-1, 2)
    return outline


def sample(systems: Mapping[str, System], size: int, seed: int) -> dict[str, Floats]:
    """The points of the same randomly sampled images in every system: up to `size` images that all have captioned."""
    place = {name: {image: row for row, image in enumerate(each.components.images)} for name, each in systems.items()}
    shared = sorted(set.intersection(*(set(each) for each in place.values())))
    if not shared:
        raise InputError(f"{', '.join(systems)} have no image in common; use the same image ids in all files")
    drawn = [shared[k] for k in np.random.default_rng(seed).permutation(len(shared))[:size]]
    return {name: each.points[[place[name][image] for image in drawn]] for name, each in systems.items()}
