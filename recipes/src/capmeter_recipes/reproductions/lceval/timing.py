"""Table 7.12: what the metrics cost, and of the learned ones apart what features and what the network costs.

WEmbSim stands beside WMD, whose cost its section 8.3.3 compares with its own without a number.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import Evaluation
from capmeter.evaluation.scores import Scores
from capmeter.metrics.learned.lceval.lceval import LcEval, NnEval

HANDCRAFTED: Mapping[str, str] = {
    "meteor": "meteor",
    "spice": "spice",
    "bleu-4": "bleu-4",
    "n-gram precision": "lceval(features=precision-1+precision-2+precision-3+precision-4,learned=false)",
    "unigram recall": "lceval(features=unigram-recall,learned=false)",
    "rouge-l": "rouge-l",
    "cider-d": "cider-d",
    "wmd": "wmd",
    "wembsim": "wembsim",
    "mowe": "mowe",
    "hwcm": "hwcm",
}
"""Metrics by the name of their row."""


def measure_times(
    captions: CaptionSet, networks: Mapping[str, LcEval | NnEval], settings: Settings
) -> dict[str, float]:
    """Seconds by row: every metric alone, and of each network its features and its scores."""
    seconds = {name: _run(parse(text), captions, settings)[0] for name, text in HANDCRAFTED.items()}
    for name, metric in networks.items():
        extraction, scores = _run(replace(metric, learned=False, checkpoint=None), captions, settings)
        seconds[f"{name}, feature extraction"] = extraction
        features = np.stack([scores.part_items[feature].array for feature in metric.inputs], axis=1)
        started = time.perf_counter()
        metric.trained.network.score(features)
        seconds[f"{name}, score generation"] = time.perf_counter() - started
    return seconds


def _run(metric: Metric, captions: CaptionSet, settings: Settings) -> tuple[float, Scores]:
    """Seconds of a run whose models are loaded, and its scores."""
    warm = CaptionSet.from_captions([Caption("0", "0", "a dog", ("a dog runs",))])
    Evaluation((metric,), settings).with_collected_states(warm).run(warm)
    # a set of its own, so that no analysis is shared with the metric before
    own = CaptionSet.from_captions(iter(captions))
    started = time.perf_counter()
    scores = Evaluation((metric,), settings).with_collected_states(own).run(own)[metric]
    return time.perf_counter() - started, scores
