"""Names of metrics: `parse("cider-d(sigma=5.0)")` is the metric whose text form is `cider-d(sigma=5.0)`.

Case, hyphens and underscores do not matter (`Bleu_4`, `ROUGE_L`), with one exception: what papers and pycocoevalcap
call CIDEr is `cider-d`, and only lower-case `cider` is the formula of the first paper. A list may contain bundles:
`bleu` and `coco`. Other packages add metrics through the entry point group `capmeter.metrics` (name = "module:Class").

>>> str(parse("cider-d( n = 4, sigma=5 )"))
'cider-d(sigma=5.0)'
>>> [str(metric) for metric in parse_list("BLEU,ROUGE_L")]
['bleu-1', 'bleu-2', 'bleu-3', 'bleu-4', 'rouge-l']

Checks before a run that the captions have what the metrics need, and of what a metric returns, are here, too: metrics
may come from other packages. Rows must be finite float64 of shape (captions, columns), and scores one finite number per
caption; otherwise a `MetricError` names the metric, its package and the package's version.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.rows import MAX_NUMBER
from capmeter.core.errors import InputError, MetricError
from capmeter.core.json_text import read_bundled_json
from capmeter.core.messages import format_count
from capmeter.core.named import split_name
from capmeter.core.registry import Entry, Registry, fold_name
from capmeter.evaluation.base import CapmeterWarning, Measurement, Metric

BUNDLES = {
    "bleu": ("bleu-1", "bleu-2", "bleu-3", "bleu-4"),
    "coco": ("bleu-1", "bleu-2", "bleu-3", "bleu-4", "meteor", "rouge-l", "cider-d", "spice"),
}
"""Names of several metrics, for lists: BLEU of all orders, and what MS COCO's evaluation reports."""


class _MetricRegistry(Registry[Metric]):
    """The registry of metrics, with the names that people type."""

    def builtin_name(self, name: str) -> str | None:
        """capmeter's name that this is; CIDEr, in any case but the lower one, is `cider-d`."""
        return "cider-d" if _is_papers_cider(name) else super().builtin_name(name)

    def suggest(self, name: str) -> str:
        """What may have been meant: the metrics of a bundle, what is near a metric that is absent, or similar names."""
        if name.lower() in BUNDLES:
            return (
                f"it is the bundle of {', '.join(BUNDLES[name.lower()])}, which lists of metrics may contain; name one"
            )
        # what people ask for and capmeter lacks: what is near, and why
        absent: dict[str, str] = read_bundled_json("absent_metrics.json")
        return absent.get(fold_name(name)) or super().suggest(name)

    def parse(self, text: str | Metric) -> Metric:
        """The metric with this text form, with a warning where the name is read as another metric's."""
        if isinstance(text, str) and _is_papers_cider(split_name(text, self.what)[0]):
            warnings.warn(
                f"{text.strip()} is read as cider-d, which papers and pycocoevalcap call CIDEr; the first paper's "
                "formula is cider, in lower case",
                CapmeterWarning,
                stacklevel=2,
            )
        return super().parse(text)


def _is_papers_cider(name: str) -> bool:
    return name.lower() == "cider" and name != "cider"


METRICS = _MetricRegistry(
    "metric",
    Metric,  # type: ignore[type-abstract]
    "capmeter.metrics",
    {
        "bleu-1": Entry("capmeter.metrics.ngram.bleu:Bleu", {"n": 1}),
        "bleu-2": Entry("capmeter.metrics.ngram.bleu:Bleu", {"n": 2}),
        "bleu-3": Entry("capmeter.metrics.ngram.bleu:Bleu", {"n": 3}),
        "bleu-4": Entry("capmeter.metrics.ngram.bleu:Bleu", {"n": 4}),
        "rouge-l": Entry("capmeter.metrics.ngram.rouge:RougeL", aliases=("rouge",)),
        "cider": Entry("capmeter.metrics.ngram.cider:Cider"),
        "cider-d": Entry("capmeter.metrics.ngram.cider:CiderD"),
        "cider-r": Entry("capmeter.metrics.ngram.cider:CiderR"),
        "meteor": Entry("capmeter.metrics.ngram.meteor:Meteor"),
        "spice": Entry("capmeter.metrics.scene_graph.spice:Spice"),
        "spider": Entry("capmeter.metrics.combined.spider:Spider"),
        "bertscore": Entry("capmeter.metrics.embedding.bertscore:BertScore"),
        "sbert": Entry("capmeter.metrics.embedding.sbert:Sbert"),
        "hallucination": Entry("capmeter.metrics.hallucination.hallucination:Hallucination"),
        "chair": Entry("capmeter.metrics.hallucination.chair:Chair"),
        "capmeter": Entry("capmeter.metrics.own.capmeter:Capmeter"),
        "clipscore": Entry("capmeter.metrics.vision.clipscore:ClipScore", aliases=("clip-s",)),
        "refclipscore": Entry("capmeter.metrics.vision.clipscore:RefClipScore", aliases=("refclip-s",)),
        "pac-s": Entry("capmeter.metrics.vision.pac_s:PacS", aliases=("pacscore",)),
        "refpac-s": Entry("capmeter.metrics.vision.pac_s:RefPacS", aliases=("refpacscore",)),
        "siglip-score": Entry("capmeter.metrics.vision.siglip_score:SiglipScore"),
        "judge": Entry("capmeter.metrics.judges.judge:OwnJudge"),
        "clair": Entry("capmeter.metrics.judges.judge:Clair"),
        "soda-c": Entry("capmeter.metrics.video.soda:SodaC"),
        "dense": Entry("capmeter.metrics.video.dense:Dense"),
        "gated": Entry("capmeter.metrics.video.gated:Gated"),
        "proposals": Entry("capmeter.metrics.video.proposals:Proposals"),
        "fer": Entry("capmeter.metrics.audio.fluency:FluencyErrorRate"),
        "penalised": Entry("capmeter.metrics.audio.fluency:Penalised"),
        "spider-fl": Entry("capmeter.metrics.audio.fluency:SpiderFl"),
        "fense": Entry("capmeter.metrics.audio.fluency:Fense"),
        "repetition": Entry("capmeter.metrics.ngram.repetition:RepetitionShare"),
        "distinct": Entry("capmeter.metrics.ngram.repetition:DistinctShare"),
        "mean": Entry("capmeter.metrics.combined.combination:Combination", {"weights": None}),
        "combine": Entry("capmeter.metrics.combined.combination:Combination"),
    },
    BUNDLES,
)
parse, parse_list, names = METRICS.parse, METRICS.parse_list, METRICS.names


_MESSAGES = {  # need: what its absence is called, and what to do
    "references": ("have no reference", "references; add them{skip}, or choose metrics that need none"),
    "events": (
        "have no events in time",
        "events; give results and references whose sentences have a start and an end (docs/video.md), or choose "
        "metrics of whole captions",
    ),
    "image": (
        "name no picture",
        "images; name each caption's picture in the field image, or the folder of the pictures (images_root=, "
        "--images-root), or choose metrics that need none",
    ),
    "regions": (
        "have no regions of their picture",
        "regions; name the folder of .npz files or the LMDB that has them (regions=, --regions), or choose metrics "
        "that need none",
    ),
}


def with_required(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    """The metrics and everything they require, without duplicates, required metrics first."""
    ordered_metrics: dict[Metric, None] = {}

    def visit(metric: Metric) -> None:
        if metric not in ordered_metrics:
            for required_metric in metric.required_metrics():
                visit(required_metric)
            ordered_metrics[metric] = None

    for metric in metrics:
        visit(metric)
    return tuple(ordered_metrics)


def is_needed(need: str, metrics: Iterable[Metric]) -> bool:
    """Whether any of these metrics, or of those that they require, needs this of a caption."""
    return any(need in metric.needs for metric in with_required(metrics))


def check_needs(captions: CaptionSet, metrics: Sequence[Metric]) -> None:
    """Checks that the captions have what the metrics need.

    Raises:
        InputError: some captions lack it; the metrics and the first captions are named.
    """
    for need, (lack, advice) in _MESSAGES.items():
        metric_names = [str(metric) for metric in metrics if need in metric.needs]
        lacking_count, first_ids = _count_lacking(captions, need) if metric_names else (0, ())
        if lacking_count:
            subject = f"{', '.join(metric_names)} {'needs' if len(metric_names) == 1 else 'need'}"
            if need == "image" and captions.images_root:
                lack = f"have no picture in {captions.images_root}"
                advice = (
                    "images; files there are found by image id (391895.jpg, COCO_val2014_000000391895.jpg); name them "
                    "so, or name each caption's picture in the field image"
                )
            if lacking_count == 1:
                lack = lack.replace("have ", "has ", 1).replace("name ", "names ", 1)
            skip = ", leave these captions out (on_missing='skip', --on-missing skip)"
            advice = advice.format(skip=skip if lacking_count < len(captions) else "")
            captions_lack = f"{format_count(lacking_count, 'caption')} {lack}"
            raise InputError(f"{captions_lack} (the first: {', '.join(first_ids)}), but {subject} {advice}")


def _count_lacking(captions: CaptionSet, need: str) -> tuple[int, Sequence[str]]:
    """The number of captions that lack this, and the first ids."""
    if need == "regions":
        from capmeter.images.regions import region_keys  # half of the start of a run that needs no picture

        is_lacking = np.array([key is None for key in region_keys(captions)], np.bool_)
    elif need == "events":
        is_lacking = np.array(
            [caption_events is None or not caption_events.references for caption_events in captions.events], np.bool_
        )
    else:
        is_lacking = captions.references.lengths == 0 if need == "references" else captions.image_indices < 0
    lacking_rows = np.flatnonzero(is_lacking)
    return len(lacking_rows), [captions.ids[k] for k in lacking_rows[:5].tolist()]


def check_measurement(metric: Metric, measurement: Any, ids: Sequence[str]) -> Measurement:
    """Returns the measurement; a `MetricError` unless its rows match the metric's declaration.

    Args:
        metric: the metric.
        measurement: what its `measure` returned.
        ids: of the captions.
    """
    expected = (len(ids), len(metric.columns))
    if not isinstance(measurement, Measurement):
        value_type = type(measurement).__name__
        raise MetricError(f"{_describe_metric(metric)}: measure returned {value_type}; expected a Measurement")
    values: Any = measurement.values
    if not isinstance(values, np.ndarray) or values.shape != expected or values.dtype != np.float64:
        value_type = f"{values.dtype}{list(values.shape)}" if isinstance(values, np.ndarray) else type(values).__name__
        raise MetricError(
            f"{_describe_metric(metric)}: measure returned {value_type} for {len(ids)} captions; expected "
            f"float64{list(expected)}: one row per caption, with the columns {', '.join(metric.columns)}"
        )
    if not (is_number := np.abs(values) <= MAX_NUMBER).all():
        first_ids = [ids[k] for k in np.flatnonzero(~is_number.all(axis=1))[:5].tolist()]
        expected_values = f"a finite number of at most {MAX_NUMBER:g}"
        raise MetricError(f"{_describe_metric(metric)}: a value is not {expected_values} for the captions {first_ids}")
    return measurement


def check_scores(metric: Metric, caption_scores: Any, corpus_scores: Any, ids: Sequence[str]) -> None:
    """A `MetricError` unless `from_sums` returned finite scores for the rows of the captions and for their sum.

    Args:
        metric: the metric.
        caption_scores, corpus_scores: what its `from_sums` returned.
        ids: of the captions.
    """
    if not isinstance(caption_scores, Mapping) or next(iter(caption_scores), None) != "score":
        raise MetricError(f'{_describe_metric(metric)}: from_sums must return a dict with "score" first')
    for part_name in caption_scores:
        for values, expected_shape in ((caption_scores[part_name], (len(ids),)), (corpus_scores[part_name], ())):
            if np.shape(values) != expected_shape:
                raise MetricError(
                    f"{_describe_metric(metric)}: from_sums returned {part_name} of shape {list(np.shape(values))} for "
                    f"counts of shape {list(expected_shape)}; expected the shape of counts"
                )
        if not (np.isfinite(caption_scores[part_name]).all() and np.isfinite(corpus_scores[part_name])):
            first_ids = [ids[k] for k in np.flatnonzero(~np.isfinite(caption_scores[part_name]))[:5].tolist()]
            raise MetricError(
                f"{_describe_metric(metric)}: {part_name} is not a finite number for the captions {first_ids}"
            )


def _describe_metric(metric: Metric) -> str:
    """The metric's name; that of another package is followed by its package and version, or its module."""
    module = type(metric).__module__
    if module.startswith("capmeter."):
        return str(metric)
    return f"{metric} (from {METRICS.package_of(metric) or f'the module {module}'})"
