"""Robustness: how a metric's score changes under controlled degradation of captions.

Human captions are degraded with increasing strength γ and scored against the remaining references (the caption itself
is removed from them). As in Cui et al. (2018, §3.4), scores are divided by that of the unmodified captions, and the
*area* under the curve over γ (their Eq. 11) summarises a curve: the lower, the more sensitive the metric. *Preferred*
is the forced choice of Sharif et al. (2019): the share of captions that a metric scores higher unmodified than
degraded, where a tie (scores that agree to six digits) is no preference.

Each corpus score is the metric's own (BLEU from sums, not a mean over captions), corpus statistics are collected from
the unmodified captions, and bands are 95% bootstrap intervals by image, in which the normalisation is resampled too.

>>> references = {
...     "1": ["a dog runs on the grass", "a dog is running on grass", "the dog runs"],
...     "2": ["two cats sleep on a sofa", "cats asleep on a sofa", "two cats on a couch"],
... }
>>> found = robustness(references, ["bleu-1"], ["permutation", "other-caption"], strengths=[0, 1], resamples=100)
>>> [f"{curve.degradation}: {curve.area.value:.2f}" for curve in found]  # BLEU-1 ignores word order
['permutation: 1.00', 'other-caption: 0.68']
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.captions.files import write_atomic
from capmeter.captions.io import load_reference_table
from capmeter.captions.model import Caption, CaptionSet
from capmeter.captions.picture_files import with_picture_files, with_regions
from capmeter.errors import InputError
from capmeter.meta.metric_similarity import scores_between
from capmeter.metrics import registry
from capmeter.metrics.base import Floats, Metric
from capmeter.metrics.evaluation import evaluate
from capmeter.metrics.scores import Scores
from capmeter.progress import task
from capmeter.settings import Settings
from capmeter.stats.bootstrap import Clusters, Interval, percentile, resample_counts
from capmeter.stats.ties import preferred
from capmeter.transforms.degradations import Degradation
from capmeter.transforms.registry import parse_list

STRENGTHS = tuple(k / 10 for k in range(11))
DEGRADATIONS = ("other-caption", "permutation", "replacement")
"""Cui et al.'s three."""


@dataclass(frozen=True, eq=False)
class Band:
    """Values over strengths, with the bounds of their intervals."""

    values: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats, resamples: Floats, level: float) -> Band:
        """The band of these resamples [resamples, strengths]."""
        low, high = np.quantile(resamples, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return cls(values, low, high)


@dataclass(frozen=True, eq=False)
class Curve:
    """How one metric responds to one degradation.

    `scores`: the corpus scores at each strength; `normalised`: the same relative to the unmodified captions; `area`:
    under the normalised curve; `preferred`: the share of captions scored higher unmodified than degraded; `tied`: the
    share scored equally.
    """

    metric: str
    degradation: str
    strengths: Floats
    scores: Floats
    normalised: Band
    area: Interval
    preferred: Band
    tied: Floats
    signature: str

    def to_dict(self) -> dict[str, Any]:
        """The curve as in the JSON output."""
        return {
            "metric": self.metric,
            "degradation": self.degradation,
            "area": {"value": self.area.value, "low": self.area.low, "high": self.area.high},
            "strengths": self.strengths.tolist(),
            "scores": self.scores.tolist(),
            "normalised": self.normalised.values.tolist(),
            "low": self.normalised.low.tolist(),
            "high": self.normalised.high.tolist(),
            "preferred": self.preferred.values.tolist(),
            "preferred_low": self.preferred.low.tolist(),
            "preferred_high": self.preferred.high.tolist(),
            "tied": self.tied.tolist(),
            "signature": self.signature,
        }


@dataclass(frozen=True, eq=False)
class Robustness(Sequence[Curve]):
    """The curves of all metrics under all degradations.

    `captions`: the unmodified ones; `unchanged`: per degradation the share of captions at each strength that were left
    unchanged; `examples`: per degradation the first caption at each strength.
    """

    curves: list[Curve] = field(repr=False)
    captions: CaptionSet
    level: float
    resamples: int
    seed: int
    unchanged: dict[str, Floats] = field(repr=False)
    examples: dict[str, list[str]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.curves)

    def __getitem__(self, index: Any) -> Any:
        return self.curves[index]

    def __iter__(self) -> Iterator[Curve]:
        return iter(self.curves)

    def curve(self, metric: str | Metric, degradation: str | Degradation) -> Curve:
        """The curve of this metric under this degradation."""
        names = str(registry.parse(metric)), str(parse_list([degradation])[0])
        for each in self.curves:
            if (each.metric, each.degradation) == names:
                return each
        raise InputError(f"there is no curve of {names[0]} under {names[1]}; this study has {self._known()}")

    @property
    def metrics(self) -> list[str]:
        """The metrics, in the order asked for."""
        return list(dict.fromkeys(each.metric for each in self.curves))

    @property
    def degradations(self) -> list[str]:
        """The degradations, in the order asked for."""
        return list(dict.fromkeys(each.degradation for each in self.curves))

    def to_dict(self) -> dict[str, Any]:
        """The study as in the JSON output."""
        return {
            "capmeter": __version__,
            "captions": len(self.captions),
            "images": len(set(self.captions.image_ids)),
            "seed": self.seed,
            "resamples": self.resamples,
            "level": self.level,
            "unchanged": {name: shares.tolist() for name, shares in self.unchanged.items()},
            "examples": self.examples,
            "curves": [each.to_dict() for each in self.curves],
            "notes": self.captions.notes,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the study as JSON, whole or not at all."""
        write_atomic(path, json.dumps(self.to_dict(), indent=1) + "\n")

    def _known(self) -> str:
        return f"{', '.join(self.metrics)} under {', '.join(self.degradations)}"


def robustness(
    captions: CaptionSet | Mapping[str, Sequence[str]] | str | os.PathLike[str],
    metrics: str | Iterable[str | Metric],
    degradations: str | Iterable[str | Degradation] = DEGRADATIONS,
    *,
    strengths: Sequence[float] = STRENGTHS,
    images: int | None = None,
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
    pictures: Mapping[str, str] | None = None,
    images_root: str | os.PathLike[str] | None = None,
    regions: str | os.PathLike[str] = "",
    settings: Settings | None = None,
) -> Robustness:
    """The curves of metrics over captions that are degraded with increasing strength.

    `captions` are references (a dict image id → list, or a file of them): one per image, chosen by the seed, is
    degraded and removed from the references; at most `images` images are sampled. Or they are a `CaptionSet`, whose
    candidates are degraded and whose references are kept. For metrics that need pictures, `pictures` says which file
    an image of the references has (a file of references names them itself), `images_root` is the folder of pictures,
    where those that are not named are found by image id, and `regions` is a folder or LMDB of their regions.
    """
    chosen, ways = registry.parse_list(metrics), parse_list(degradations)
    if resamples < 1:
        raise InputError(f"expected at least one resample, but got {resamples}")
    points = _points(strengths)
    if isinstance(captions, CaptionSet):
        untouched = captions if images is None else captions.select(_drawn_images(captions, images, seed))
    else:
        if not isinstance(captions, Mapping):
            table = load_reference_table(captions)
            captions, pictures = table.references, {**table.images, **(pictures or {})}
        untouched = leave_one_out(captions, images=images, seed=seed, pictures=pictures)
    if images_root is not None:
        untouched = with_picture_files(untouched, images_root)
    if regions:
        untouched = with_regions(untouched, regions)
    whole, texts = _degraded(untouched, ways, points, seed)
    results = evaluate(whole, chosen, corpus=untouched, settings=settings)
    clusters = Clusters(untouched.image_ids)
    weights = resample_counts(len(clusters), resamples, seed)
    states = {str(way): _cells(number, len(points)) for number, way in enumerate(ways)}
    curves: dict[tuple[str, str], Curve] = {}
    with task("drawing", total=len(chosen)) as advance:
        for metric in chosen:
            for curve in _curves(results[metric], metric, states, points, clusters, weights, level):
                curves[curve.metric, curve.degradation] = curve
            advance(1)
    return Robustness(
        curves=[curves[str(metric), str(way)] for way in ways for metric in chosen],
        captions=untouched,
        level=level,
        resamples=resamples,
        seed=seed,
        unchanged={
            name: np.mean([[row[cell] == row[0] for cell in cells] for row in texts], axis=0)
            for name, cells in states.items()
        },
        examples={name: [texts[0][cell] for cell in cells] for name, cells in states.items()},
    )


def leave_one_out(
    references: Mapping[str, Sequence[str]],
    *,
    images: int | None = None,
    seed: int = 0,
    pictures: Mapping[str, str] | None = None,
) -> CaptionSet:
    """One reference of each image as its candidate, the others as its references.

    Which one depends on the seed and the image id only. References identical to the candidate are removed too; an image
    without any other reference is skipped and noted. `images` samples that many of the rest. `pictures` names their
    files.
    """
    shown = pictures or {}
    rows: list[Caption] = []
    alone: list[str] = []
    for image, texts in references.items():
        known = [text for text in texts if text.strip()]
        candidate = known[int(_hashed("reference", seed, image) * len(known))] if known else ""
        others = tuple(text for text in known if text.strip() != candidate.strip())
        if others:
            rows.append(Caption(image, image, candidate, others, shown.get(image)))
        else:
            alone.append(image)
    if not rows:
        raise InputError(
            f"none of the {len(alone)} images has two different references; each image needs two, one to degrade and "
            "one to compare with"
        )
    whole = CaptionSet.from_captions(rows)
    chosen = whole if images is None else whole.select(_drawn_images(whole, images, seed))
    chosen.notes = {"images with less than two different references": alone} if alone else {}
    return chosen


def _drawn_images(captions: CaptionSet, images: int, seed: int) -> npt.NDArray[np.intp]:
    """The captions of `images` images, sampled by the seed and their ids only, in the order of the set."""
    if images < 1:
        raise InputError(f"expected at least one image, but got {images}")
    known = sorted(dict.fromkeys(captions.image_ids), key=lambda image: _hashed("image", seed, image))
    drawn = set(known[:images])
    return np.array([row for row, image in enumerate(captions.image_ids) if image in drawn], np.intp)


def _hashed(purpose: str, seed: int, id: str) -> float:
    """A pseudo-random number in [0, 1), from a hash of the arguments."""
    digest = hashlib.blake2b(f"{purpose}\0{seed}\0{id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


def _points(strengths: Sequence[float]) -> Floats:
    points = np.unique(np.array([0.0, *strengths], np.float64))
    if not np.isfinite(points).all() or points[0] < 0 or points[-1] > 1 or len(points) < 2:
        raise InputError(
            f"the strengths are {list(strengths)}, expected numbers from 0 (unmodified) to 1 (strongest), such as "
            "0, 0.5, 1"
        )
    return points


def _degraded(
    untouched: CaptionSet, ways: Sequence[Degradation], points: Floats, seed: int
) -> tuple[CaptionSet, list[list[str]]]:
    """Every caption unmodified, then under each degradation at each strength: one set, grouped by image."""
    fitted = [way.fitted(untouched, seed, scores_between) for way in ways]
    texts: list[list[str]] = []
    with task("degrading", total=len(untouched)) as advance:
        for row, index in enumerate(untouched.candidates.tolist()):
            worse = [degrade(row, float(strength)) for degrade in fitted for strength in points[1:]]
            texts.append([untouched.pool[index], *worse])
            advance(1)
    rows = (
        Caption(f"{caption.id} {cell}", caption.image_id, text, caption.references, caption.image)
        for caption, cells in zip(untouched, texts, strict=True)
        for cell, text in enumerate(cells)
    )
    return CaptionSet.from_captions(rows, images_root=untouched.images_root, regions=untouched.regions), texts


def _curves(
    scores: Scores,
    metric: Metric,
    states: Mapping[str, list[int]],
    points: Floats,
    clusters: Clusters,
    weights: npt.NDArray[np.int64],
    level: float,
) -> Iterator[Curve]:
    """One metric's curves, from its rows of every caption in every state."""
    if scores.values is None:
        raise InputError(f"{scores.name}: its rows were not kept")
    captions, columns = len(clusters.codes), scores.values.shape[1]
    rows = scores.values.reshape(captions, -1, columns)
    corpus = metric.finish(rows.sum(axis=0), np.full(rows.shape[1], float(captions)))["score"]
    if corpus[0] <= 0:
        raise InputError(
            f"{scores.name} gives the unmodified captions {corpus[0]:.4g}; curves are relative to this score, "
            "which must be above 0: use more captions or references, or another metric"
        )
    sums = clusters.sums(rows.reshape(captions, -1)).reshape(len(clusters), -1)
    counts = weights @ clusters.sums(np.ones(captions))
    drawn = _drawn_scores(metric, weights, sums, counts, columns)
    usable = drawn[:, 0] > 0
    items = scores.items.array.reshape(captions, -1)
    for way, cells in states.items():
        ratios = drawn[usable][:, cells] / drawn[usable, :1]
        relative = Band.of(corpus[cells] / corpus[0], ratios, level)
        area_resamples = _area(ratios, points)
        area = Interval(
            float(_area(relative.values, points)), *percentile(area_resamples, level), level, area_resamples
        )
        judged = preferred(items[:, :1], items[:, cells])
        better = (judged > 0).astype(np.float64)
        drawn_better = (weights @ clusters.sums(better)) / counts[:, None]
        yield Curve(
            metric=scores.name,
            degradation=way,
            strengths=points,
            scores=corpus[cells],
            normalised=relative,
            area=area,
            preferred=Band.of(better.mean(axis=0), drawn_better, level),
            tied=(judged == 0).mean(axis=0),
            signature=scores.signature,
        )


def _drawn_scores(
    metric: Metric, weights: npt.NDArray[np.int64], sums: Floats, counts: npt.NDArray[Any], columns: int
) -> Floats:
    """The corpus score of every state in every resample: [resamples, states]."""
    parts = []
    for some in range(0, len(weights), 200):
        drawn = (weights[some : some + 200] @ sums).reshape(-1, sums.shape[1] // columns, columns)
        many = np.broadcast_to(counts[some : some + 200, None], drawn.shape[:2])
        parts.append(metric.finish(drawn, many)["score"])
    return np.concatenate(parts)


def _cells(number: int, points: int) -> list[int]:
    """The positions of the k-th degradation's states: the unmodified caption, then its strengths."""
    start = 1 + number * (points - 1)
    return [0, *range(start, start + points - 1)]


def _area(values: Floats, points: Floats) -> Any:
    """The area under curves over the strengths (trapezoidal rule), divided by the range of strengths."""
    widths = np.diff(points)
    return ((values[..., 1:] + values[..., :-1]) / 2) @ widths / widths.sum()
