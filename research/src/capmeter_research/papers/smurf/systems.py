"""Captioning systems compared with human captions in meaning, style and grammar (SMURF, section 4.3 and Figure 1).

Every caption of a system is a point (SPARCS', SPURTS'): meaning and style in standard deviations from human captions.
A system is summarised by the mean of its points; by the ellipse of 1.15 standard deviations around it; by how much of
that ellipse is inside the human one, area(H ∩ M) / area(M), which is 1 at human level; by its *centroid caption*,
the one nearest to the mean; and by the sum of its grammatical outlier penalties G.

As in the released code the ellipses are polygons of 64 corners from the covariance with n − 1, and the penalty is a sum
over captions, so that it grows with their number. The paper calls it the "75%" ellipse: 1.15 standard deviations cover
75% of a normal distribution in one dimension, and 48% in two.

>>> square = ellipse_outline(np.array([[0.0, 0], [2, 0], [0, 2], [2, 2]]), deviations=np.sqrt(0.75))
>>> round(polygon_area(square), 4), round(polygon_area(clip_polygon(square, square + [1, 0])), 4)
(3.1365, 1.225)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Floats
from capmeter.evaluation.runner import evaluate
from capmeter_research.papers.smurf.mima import Mima, Spurts
from capmeter_research.papers.smurf.normalisation import NormalisationConstants, require_encoders
from capmeter_research.papers.smurf.smurf import fuse
from capmeter_research.papers.smurf.sparcs import Sparcs

DEVIATIONS = 1.15
CORNERS = 64
_MIN_CAPTIONS = 3  # for an ellipse


@dataclass(frozen=True, eq=False)
class Components:
    """The raw scores (float64[captions]) of one system, the encoders of MIMA and SPURTS that gave them, and of each
    caption its id, its image and its text.
    """

    sparcs: Floats
    mima: Floats
    spurts: Floats
    encoders: tuple[str, str]
    ids: Sequence[str]
    images: Sequence[str]
    texts: Sequence[str]


@dataclass(frozen=True, eq=False)
class SystemSummary:
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
        """The centroid caption."""
        return self.components.texts[self.centroid]


def measure_components(
    captions: Mapping[str, CaptionSet], mima_encoder: str, spurts_encoder: str, settings: Settings | None = None
) -> dict[str, Components]:
    """The components of every system's captions.

    Args:
        captions: of each system.
        mima_encoder, spurts_encoder: names.
        settings: where encoders run.
    """
    metrics = Sparcs(), Mima(encoder=mima_encoder), Spurts(encoder=spurts_encoder)
    systems = {}
    for system_name, system_captions in captions.items():
        results = evaluate(system_captions, metrics, settings=settings)
        sparcs, mima, spurts = (results[metric].items.array for metric in metrics)
        systems[system_name] = Components(
            sparcs,
            mima,
            spurts,
            encoders=(mima_encoder, spurts_encoder),
            ids=system_captions.ids,
            images=system_captions.image_ids,
            texts=[system_captions.pool[int(sentence_index)] for sentence_index in system_captions.candidates],
        )
    return systems


def require_human_system(systems: Mapping[str, Any], human: str) -> None:
    """An `InputError` where no system has the name of the human captions."""
    if human not in systems:
        raise InputError(f"unknown system {human!r}; the systems are {', '.join(systems)}")


def summarise_systems(
    systems: Mapping[str, Components], human: str, constants: NormalisationConstants
) -> dict[str, SystemSummary]:
    """The summary of every system, compared with the human captions, which come first.

    Args:
        systems: the components of their captions.
        human: name of the system that is the human captions.
        constants: the scale.

    Raises:
        InputError: there is no such system, or the constants are of other encoders.
    """
    require_human_system(systems, human)
    summaries: dict[str, SystemSummary] = {}
    for system_name, each in sorted(systems.items(), key=lambda item: item[0] != human):  # the human captions first
        require_encoders(constants, *each.encoders)
        fused_scores = fuse(each.sparcs, each.mima, each.spurts, constants)
        points = fused_scores[:, [3, 5]]
        mean = points.mean(axis=0)
        outline = ellipse_outline(points, name=system_name)
        human_outline = summaries[human].outline if summaries else outline
        summaries[system_name] = SystemSummary(
            name=system_name,
            points=points,
            mean=mean,
            outline=outline,
            overlap=polygon_area(clip_polygon(outline, human_outline)) / polygon_area(outline),
            penalty=float(fused_scores[:, 1].sum()),
            centroid=int(np.argmin(((points - mean) ** 2).sum(axis=1))),
            components=each,
        )
    return summaries


def ellipse_outline(points: Floats, *, deviations: float = DEVIATIONS, name: str = "the points") -> Floats:
    """The corners of an ellipse around the mean, anticlockwise, (64, 2).

    Args:
        points: (captions, 2).
        deviations: radius in standard deviations.
        name: of the points, for messages.

    Raises:
        InputError: too few points, or all have the same value on an axis.
    """
    if len(points) < _MIN_CAPTIONS:
        raise InputError(f"{name}: an ellipse needs at least {_MIN_CAPTIONS} captions, but there are {len(points)}")
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


def polygon_area(outline: Floats) -> float:
    """The area inside an outline whose corners go anticlockwise."""
    if not len(outline):
        return 0.0
    x, y = (outline - outline[0]).T
    return float((x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def clip_polygon(outline: Floats, within: Floats) -> Floats:
    """The part of a convex outline inside another convex one (Sutherland and Hodgman), both anticlockwise."""
    for start, end in zip(within, np.roll(within, -1, axis=0), strict=True):
        if not len(outline):
            break
        edge = end - start
        side = edge[0] * (outline[:, 1] - start[1]) - edge[1] * (outline[:, 0] - start[0])  # >= 0: inside
        corners = []
        for k in range(len(outline)):
            if (side[k - 1] >= 0) != (side[k] >= 0):
                share = side[k - 1] / (side[k - 1] - side[k])
                corners.append(outline[k - 1] + share * (outline[k] - outline[k - 1]))
            if side[k] >= 0:
                corners.append(outline[k])
        outline = np.array(corners).reshape(-1, 2)
    return outline


def sample_points(systems: Mapping[str, SystemSummary], size: int, seed: int) -> dict[str, Floats]:
    """The points of the same randomly sampled images in every system.

    Args:
        systems: their summaries.
        size: number of images at most.
        seed: of the sample.

    Raises:
        InputError: no image has a caption by every system.
    """
    rows = {name: {image: row for row, image in enumerate(each.components.images)} for name, each in systems.items()}
    shared_images = sorted(set.intersection(*(set(each) for each in rows.values())))
    if not shared_images:
        raise InputError(f"{', '.join(systems)} have no image in common; use the same image ids in all files")
    sampled_images = [shared_images[k] for k in np.random.default_rng(seed).permutation(len(shared_images))[:size]]
    return {name: each.points[[rows[name][image] for image in sampled_images]] for name, each in systems.items()}
