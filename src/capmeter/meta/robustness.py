"""Robustness: how a metric's score changes under controlled degradation of captions.

Human captions are degraded with increasing strength γ and scored against the remaining references (the caption itself
is removed from them). As in Cui et al. (2018, §3.4), scores are divided by that of the unmodified captions, and the
*area* under the curve over γ (their Eq. 11) summarises a curve: the lower, the more sensitive the metric. *Preferred*
is the forced choice of Sharif et al. (2019): the share of captions that a metric scores higher unmodified than
degraded, where a tie (scores that agree to six digits) counts as none.

Each corpus score is the metric's own (BLEU from sums, not a mean over captions), corpus statistics are collected from
the unmodified captions, and bands are 95% bootstrap intervals by image, in which the normalisation is resampled too.

>>> references = {
...     "1": ["a dog runs on the grass", "a dog is running on grass", "the dog runs"],
...     "2": ["two cats sleep on a sofa", "cats asleep on a sofa", "two cats on a couch"],
... }
>>> study = robustness(references, ["bleu-1"], ["permutation", "other-caption"], strengths=[0, 1], resamples=100)
>>> [f"{curve.degradation}: {curve.area.value:.2f}" for curve in study]  # BLEU-1 ignores word order
['permutation: 1.00', 'other-caption: 0.68']
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load import load_reference_table
from capmeter.core.errors import InputError
from capmeter.core.progress import task
from capmeter.core.settings import Settings
from capmeter.evaluation import registry
from capmeter.evaluation.base import CapmeterWarning, Floats, Metric
from capmeter.evaluation.results import Results, Scores
from capmeter.evaluation.runner import evaluate
from capmeter.images.reading import with_picture_files
from capmeter.stats.bootstrap import Clusters, Interval, check_level, check_random, percentile_interval, resample_blocks
from capmeter.stats.pairs import sign_with_tolerance
from capmeter.transforms.degradations import Degradation, parse_list


def leave_one_out(
    references: Mapping[str, Sequence[str]],
    *,
    images: int | None = None,
    seed: int = 0,
    image_files: Mapping[str, str] | None = None,
) -> CaptionSet:
    """One reference of each image as its candidate, the others as its references.

    Which one depends on the seed and the image id only. References identical to the candidate are removed too; an image
    without any other reference is skipped and noted. `images` samples that many of the rest; `image_files`: image id →
    file.

    Args:
        references: image id → captions.
        images: number of images to sample; None: all.
        seed: decides which reference, and which images.
        image_files: image id → file.
    """
    caption_rows: list[Caption] = []
    skipped: list[str] = []
    for image_id, reference_texts in references.items():
        non_empty = [text for text in reference_texts if text.strip()]
        candidate = non_empty[int(_hash_fraction("reference", seed, image_id) * len(non_empty))] if non_empty else ""
        other_references = tuple(text for text in non_empty if text.strip() != candidate.strip())
        if other_references:
            image = (image_files or {}).get(image_id)
            caption_rows.append(Caption(image_id, image_id, candidate, other_references, image))
        else:
            skipped.append(image_id)
    if not caption_rows:
        raise InputError(
            f"none of the {len(skipped)} images has two different references; each image needs two, one to degrade and "
            "one to compare with"
        )
    captions = CaptionSet.from_captions(caption_rows)
    if images is not None:
        captions = captions.select(_sample_images(captions, images, seed))
    captions.notes = {"images with less than two different references": skipped} if skipped else {}
    return captions


def _sample_images(captions: CaptionSet, images: int, seed: int) -> npt.NDArray[np.intp]:
    """The captions of this number of images, sampled by the seed and their ids only, in the order of the set."""
    if not isinstance(images, int | np.integer) or images < 1:
        raise InputError(f"expected at least one image, but got {images}")
    shuffled = sorted(dict.fromkeys(captions.image_ids), key=lambda image: _hash_fraction("image", seed, image))
    sampled_images = set(shuffled[:images])
    return np.array([row for row, image in enumerate(captions.image_ids) if image in sampled_images], np.intp)


def _hash_fraction(purpose: str, seed: int, id: str) -> float:
    """A pseudo-random number in [0, 1), from a hash of the arguments."""
    digest = hashlib.blake2b(f"{purpose}\0{seed}\0{id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


STRENGTHS = tuple(k / 10 for k in range(11))
DEGRADATIONS = ("other-caption", "permutation", "replacement")
"""Cui et al.'s three."""
_RESAMPLES_AT_ONCE = 200
_LEAST_SCORE = 1e-4
"""The lowest score of unmodified captions that others are relative to; less is what smoothing leaves of 0 (BLEU-4)."""


@dataclass(frozen=True, eq=False)
class DegradationCurve:
    """How one metric responds to one degradation.

    `area`: under the normalised curve. At each of the `strengths` (strengths): `scores`: the corpus scores;
    `normalised`: relative to the unmodified captions, with the bounds `low` and `high`; `preferred`: the share of
    captions scored better unmodified than degraded, with its bounds; `tied`: the share scored equally.
    """

    metric: str
    degradation: str
    area: Interval
    strengths: Floats
    scores: Floats
    normalised: Floats
    low: Floats
    high: Floats
    preferred: Floats
    preferred_low: Floats
    preferred_high: Floats
    tied: Floats
    signature: str

    def to_dict(self) -> dict[str, Any]:
        """The curve as in the JSON output."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["area"] = {name: getattr(self.area, name) for name in ("value", "low", "high")}
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


@dataclass(frozen=True, eq=False)
class Robustness(Sequence[DegradationCurve]):
    """The curves of all metrics under all degradations.

    `captions`: the unmodified ones; `unchanged`: per degradation the share of captions at each strength that were left
    unchanged; `examples`: per degradation the first caption at each strength.
    """

    curves: list[DegradationCurve] = field(repr=False)
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

    def curve(self, metric: str | Metric, degradation: str | Degradation) -> DegradationCurve:
        """The curve of this metric under this degradation."""
        curve_key = str(registry.parse(metric)), str(parse_list([degradation])[0])
        for each in self.curves:
            if (each.metric, each.degradation) == curve_key:
                return each
        measured_curves = f"{', '.join(self.metrics)} under {', '.join(self.degradations)}"
        raise InputError(f"{curve_key[0]} under {curve_key[1]} was not measured; this study has {measured_curves}")

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
            "unchanged": {degradation_name: shares.tolist() for degradation_name, shares in self.unchanged.items()},
            "examples": self.examples,
            "curves": [each.to_dict() for each in self.curves],
            "notes": self.captions.notes,
        }


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
    image_files: Mapping[str, str] | None = None,
    images_root: str | os.PathLike[str] | None = None,
    regions: str | os.PathLike[str] = "",
    settings: Settings | None = None,
) -> Robustness:
    """The curves of metrics over captions that are degraded with increasing strength.

    Args:
        captions: references (a dict image id → list, or a file of them): one per image, chosen by the seed, is degraded
            and removed from the references. Or a `CaptionSet`, whose candidates are degraded.
        metrics: names or values; one that gives the unmodified captions less than .0001 is left out, with a warning.
        degradations: names or values; by default Cui et al.'s three.
        strengths: γ from 0 (unmodified, always included) to 1 (strongest).
        images: sample at most this number of images.
        seed: of samples, degradations and resamples.
        resamples: number of bootstrap resamples of images.
        level: of the intervals, such as 0.95.
        image_files: image id → file or address, for metrics that need images (a file of references may name them).
        images_root: the folder of images, where those that are not named are found by image id.
        regions: a folder or LMDB of their regions.
        settings: device, precision, threads and cache.

    Raises:
        InputError: wrong strengths, too few references, or no metric gives the unmodified captions .0001 or more.
    """
    parsed_metrics, parsed_degradations = registry.parse_list(metrics), parse_list(degradations)
    check_random(resamples, seed)
    check_level(level)
    if resamples < 1:
        raise InputError(f"expected at least one resample, but got {resamples}")
    strengths = list(strengths) if isinstance(strengths, Iterable) else [strengths]
    are_shares = all(isinstance(each, int | float | np.number) and 0 <= each <= 1 for each in strengths)
    if not are_shares or not any(strengths):
        raise InputError(
            f"the strengths are {strengths}, expected numbers from 0 (unmodified) to 1 (strongest), such as 0, 0.5, 1"
        )
    points = np.unique(np.array([0.0, *strengths], np.float64))
    unmodified_captions = _unmodified_captions(captions, images, seed, image_files)
    if images_root is not None:
        unmodified_captions = with_picture_files(unmodified_captions, images_root)
    if regions:
        unmodified_captions = unmodified_captions.replace(regions=str(regions))
    degraded_captions, caption_texts = _degrade(unmodified_captions, parsed_degradations, points, seed)
    results = evaluate(degraded_captions, parsed_metrics, corpus=unmodified_captions, settings=settings)
    clusters = Clusters(unmodified_captions.image_ids)
    strength_count = len(points) - 1
    cells = {  # of each degradation the positions of its states: the unmodified caption, then its strengths
        str(each): [0, *range(1 + number * strength_count, 1 + (number + 1) * strength_count)]
        for number, each in enumerate(parsed_degradations)
    }
    weights = np.concatenate(list(resample_blocks(len(clusters), resamples, seed)))
    curve_measure = _CurveMeasure(points, cells, clusters, weights, level)
    curves: list[list[DegradationCurve]] = []
    with task("measuring", total=len(parsed_metrics)) as advance:
        for metric in curve_measure.measurable(results, parsed_metrics):
            curves.append(list(curve_measure.curves(results[metric], metric)))
            advance(1)
    examples = {name: [caption_texts[0][cell] for cell in cell_indices] for name, cell_indices in cells.items()}
    unchanged = {
        name: np.mean([[texts[cell] == texts[0] for cell in cell_indices] for texts in caption_texts], axis=0)
        for name, cell_indices in cells.items()
    }
    ordered_curves = [each for curve_row in zip(*curves, strict=True) for each in curve_row]
    return Robustness(ordered_curves, unmodified_captions, level, resamples, seed, unchanged, examples)


def _unmodified_captions(
    captions: CaptionSet | Mapping[str, Sequence[str]] | str | os.PathLike[str],
    images: int | None,
    seed: int,
    image_files: Mapping[str, str] | None,
) -> CaptionSet:
    if isinstance(captions, CaptionSet):
        return captions if images is None else captions.select(_sample_images(captions, images, seed))
    if not isinstance(image_files, Mapping | None):
        raise InputError(f"expected the picture's file of each image, {{image_id: file}}, but got {image_files!r:.40}")
    table = load_reference_table(captions)
    return leave_one_out(table.references, images=images, seed=seed, image_files=table.images | dict(image_files or {}))


def _degrade(
    unmodified_captions: CaptionSet, degradations: Sequence[Degradation], points: Floats, seed: int
) -> tuple[CaptionSet, list[list[str]]]:
    """Every caption unmodified, then under each degradation at each strength: one set, grouped by image."""
    functions = [each.fit(unmodified_captions, seed) for each in degradations]
    caption_texts: list[list[str]] = []
    with task("degrading", total=len(unmodified_captions)) as advance:
        for caption_index, sentence_index in enumerate(unmodified_captions.candidates.tolist()):
            degraded_texts = [
                degrade(caption_index, float(strength)) for degrade in functions for strength in points[1:]
            ]
            caption_texts.append([unmodified_captions.pool[sentence_index], *degraded_texts])
            advance(1)
    caption_rows = (
        Caption(f"{caption.id} {cell_index}", caption.image_id, text, caption.references, caption.image)
        for caption, state_texts in zip(unmodified_captions, caption_texts, strict=True)
        for cell_index, text in enumerate(state_texts)
    )
    return CaptionSet.from_captions(
        caption_rows, images_root=unmodified_captions.images_root, regions=unmodified_captions.regions
    ), caption_texts


@dataclass(frozen=True, eq=False)
class _CurveMeasure:
    """Measures curves from the rows of every caption in every state (unmodified, and each degradation and strength)."""

    strengths: Floats  # (strengths,)
    cells: Mapping[str, list[int]]  # degradation → its states, the unmodified one first
    clusters: Clusters
    weights: npt.NDArray[np.int64]  # (resamples, clusters)
    level: float

    def measurable(self, results: Results, metrics: Sequence[Metric]) -> list[Metric]:
        """The metrics to whose score of the unmodified captions curves can be relative; it warns of the others."""
        scores = {metric: float(self._corpus_scores(results[metric], metric)[1][0]) for metric in metrics}
        too_low = {metric: score for metric, score in scores.items() if score < _LEAST_SCORE}
        if too_low:
            listed = ", ".join(
                f"{metric} gives the unmodified captions {score:.4g}" for metric, score in too_low.items()
            )
            message = (
                f"{listed}; curves are relative to this score, which must be {_LEAST_SCORE:g} at least: use more "
                "captions or references, or another metric"
            )
            if len(too_low) == len(scores):
                raise InputError(message)
            warnings.warn(f"left out: {message}", CapmeterWarning, stacklevel=3)
        return [metric for metric in scores if metric not in too_low]

    def _corpus_scores(self, scores: Scores, metric: Metric) -> tuple[Floats, Floats]:
        """The rows of all captions, (captions, states, columns), and the corpus score of each state."""
        if scores.values is None:
            raise InputError(f"{scores.name}: its rows were not kept")
        captions = len(self.clusters.codes)
        rows = scores.values.reshape(captions, -1, scores.values.shape[1])
        return rows, metric.from_sums(rows.sum(axis=0), np.full(rows.shape[1], float(captions)))["score"]

    def curves(self, scores: Scores, metric: Metric) -> Iterator[DegradationCurve]:
        """One metric's curve under each degradation."""
        rows, corpus = self._corpus_scores(scores, metric)
        captions = len(rows)
        counts = self.weights @ self.clusters.sums(np.ones(captions))
        resampled_scores = self._resample(metric, rows, counts)
        is_usable = resampled_scores[:, 0] >= _LEAST_SCORE
        caption_scores = scores.items.array.reshape(captions, -1)
        for degradation_name, cell_indices in self.cells.items():
            ratios = resampled_scores[is_usable][:, cell_indices] / resampled_scores[is_usable, :1]
            normalised = corpus[cell_indices] / corpus[0]
            low, high = self._bounds(ratios)
            signs = sign_with_tolerance(caption_scores[:, :1], caption_scores[:, cell_indices])
            if metric.lower_is_better:
                signs = -signs
            preferred = (signs > 0).astype(np.float64)
            preferred_low, preferred_high = self._bounds(
                (self.weights @ self.clusters.sums(preferred)) / counts[:, None]
            )
            yield DegradationCurve(
                metric=scores.name,
                degradation=degradation_name,
                area=self._area_interval(normalised, ratios),
                strengths=self.strengths,
                scores=corpus[cell_indices],
                normalised=normalised,
                low=low,
                high=high,
                preferred=preferred.mean(axis=0),
                preferred_low=preferred_low,
                preferred_high=preferred_high,
                tied=(signs == 0).mean(axis=0),
                signature=scores.signature,
            )

    def _bounds(self, resamples: Floats) -> Any:
        """Both ends of the intervals of resamples (resamples, strengths): (2, strengths)."""
        return np.quantile(resamples, [(1 - self.level) / 2, (1 + self.level) / 2], axis=0)

    def _resample(self, metric: Metric, rows: Floats, counts: npt.NDArray[Any]) -> Floats:
        """The corpus score of every state in every resample: (resamples, states)."""
        _, states, columns = rows.shape
        sums: Any = self.clusters.sums(rows.reshape(len(rows), -1)).reshape(len(self.clusters), -1)
        score_blocks = []
        for block_start in range(0, len(self.weights), _RESAMPLES_AT_ONCE):
            resample_block = slice(block_start, block_start + _RESAMPLES_AT_ONCE)
            resampled_sums: Floats = (self.weights[resample_block] @ sums).reshape(-1, states, columns)
            score_blocks.append(
                metric.from_sums(
                    resampled_sums, np.broadcast_to(counts[resample_block, None], resampled_sums.shape[:2])
                )["score"]
            )
        return np.concatenate(score_blocks)

    def _area_interval(self, values: Floats, resamples: Floats) -> Interval:
        """The area under a curve over the strengths (trapezoidal rule), divided by the range of strengths."""
        widths = np.diff(self.strengths)

        def area(heights: Floats) -> Any:
            return ((heights[..., 1:] + heights[..., :-1]) / 2) @ widths / widths.sum()

        areas = area(resamples)
        return Interval(float(area(values)), *percentile_interval(areas, self.level), self.level, areas)
