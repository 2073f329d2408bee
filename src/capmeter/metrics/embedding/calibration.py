"""Calibration of an encoder's similarities on captions alone: TBR's β and BERTScore's baselines.

Captions of different images are unrelated, yet a word's best match in an unrelated caption has a cosine well above 0,
because the encoder's vectors share directions. A match is informative only if it exceeds this level. So β is the mean
greedy match between captions of different images, over words (the recall of Eq. 3 without idf and cut). The paper's two
values, set by hand, are similar: .4 for bert (layer 8) and .83 for roberta (layer 17), where the baselines that the
bert-score package measured in this way on web text are .372 and .831. No human judgments are used. BERTScore's baseline
is the mean P, R and F1 of the same pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import METRICS
from capmeter.evaluation.runner import evaluate
from capmeter.metrics.embedding import bertscore


@dataclass(frozen=True)
class Calibration:
    """The result for a layer of an encoder.

    Attributes:
        encoder, layer: what was calibrated.
        pairs: number of caption pairs.
        beta, error: β for `tbr`, and its standard error; None where no installed package has `tbr`.
        baseline: precision, recall and F1 for `bertscore`.
    """

    encoder: str
    layer: int
    pairs: int
    beta: float | None
    error: float | None
    baseline: tuple[float, float, float]


def calibrate(
    captions: Sequence[tuple[str, str]],
    encoder: str,
    layer: int | None = None,
    *,
    pairs: int = 10000,
    seed: int = 0,
    settings: Settings | None = None,
) -> Calibration:
    """Calibrates an encoder on random pairs of captions of different images.

    Args:
        captions: (image, sentence) pairs of at least two images.
        encoder: alias, hub id or folder.
        layer: None for the last.
        pairs: number of pairs.
        seed: of the random pairs.
        settings: device, precision and threads.

    Raises:
        InputError: there are no pairs.
    """
    if pairs < 1:
        raise InputError(f"calibrate: expected at least one pair, but got {pairs}")
    settings = settings or Settings()
    encoder_handle = find_encoder(encoder)
    depth = load_encoder(encoder_handle, settings).layer(layer)
    nonempty = [(image, sentence) for image, sentence in captions if sentence.strip()]
    images = np.unique([image for image, _ in nonempty], return_inverse=True)[1] if nonempty else np.zeros(0, np.int64)
    if not len(images) or images.max() == 0:
        raise InputError("calibrate: captions of at least two images are needed to form pairs; give more captions")
    rng = np.random.default_rng(seed)
    left, right = (rng.integers(len(nonempty), size=pairs) for _ in range(2))
    while len(same_image := np.flatnonzero(images[left] == images[right])):
        right[same_image] = rng.integers(len(nonempty), size=len(same_image))

    paired_captions = CaptionSet.from_captions(
        Caption(str(pair), str(pair), nonempty[left[pair]][1], (nonempty[right[pair]][1],)) for pair in range(pairs)
    )
    metrics: list[Metric] = [bertscore.BertScore(encoder=encoder, layer=depth), *_threshold_metrics(encoder, depth)]
    results = evaluate(paired_captions, metrics, settings=settings)
    bertscore_results, *threshold_results = results.values()
    beta = error = None
    if threshold_results:
        pair_recalls = threshold_results[0].part_items["r-comb"].array
        beta, error = float(pair_recalls.mean()), float(pair_recalls.std() / np.sqrt(pairs))
    parts = bertscore_results.part_items
    precision, recall = (float(parts[part].array.mean()) for part in ("precision", "recall"))
    baseline = precision, recall, float(bertscore_results.items.array.mean())
    return Calibration(encoder, depth, pairs, beta, error, baseline)


def _threshold_metrics(encoder: str, layer: int) -> list[Metric]:
    """TBR's recall of a single reference without idf, cut and removal of stop words, where TBR is installed."""
    if "tbr" not in METRICS:
        return []
    parameters: dict[str, Any] = {"encoder": encoder, "layer": layer, "beta": 0.0, "idf": False, "remove": False}
    return [METRICS.class_of("tbr")(**parameters)]


def bundled_calibration(encoder: str, layer: int) -> tuple[float | None, ...]:
    """The bundled β and baseline P, R, F1 for an encoder's layer; None where there is none."""
    beta = METRICS.class_of("tbr").BETAS.get((encoder, layer)) if "tbr" in METRICS else None  # type: ignore[attr-defined]
    return (beta, *bertscore.BASELINES.get((encoder, layer), (None, None, None)))
