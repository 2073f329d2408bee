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
from capmeter.evaluation.results import Scores
from capmeter.evaluation.runner import Evaluation
from capmeter_research.papers.lceval.lceval import LcEval, NnEval

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
    seconds = {metric_name: _run(parse(text), captions, settings)[0] for metric_name, text in HANDCRAFTED.items()}
    for metric_name, metric in networks.items():
        extraction_seconds, scores = _run(replace(metric, learned=False, checkpoint=None), captions, settings)
        seconds[f"{metric_name}, feature extraction"] = extraction_seconds
        features = np.stack([scores.part_items[feature].array for feature in metric.inputs], axis=1)
        start_time = time.perf_counter()
        metric.trained.network.score(features)
        seconds[f"{metric_name}, score generation"] = time.perf_counter() - start_time
    return seconds


def _run(metric: Metric, captions: CaptionSet, settings: Settings) -> tuple[float, Scores]:
    """Seconds of a run whose models are loaded, and its scores."""
    warmup_captions = CaptionSet.from_captions([Caption("0", "0", "a dog", ("a dog runs",))])
    Evaluation((metric,), settings).with_collected_states(warmup_captions).run(warmup_captions)
    # a set of its own, so that no analysis is shared with the metric before
    fresh_captions = CaptionSet.from_captions(iter(captions))
    start_time = time.perf_counter()
    scores = Evaluation((metric,), settings).with_collected_states(fresh_captions).run(fresh_captions)[metric]
    return time.perf_counter() - start_time, scores
