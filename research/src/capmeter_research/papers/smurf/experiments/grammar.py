"""Do metrics rank systems that correct grammar as people do? (SMURF, Table 1; after Napoles et al. 2016)

Every system corrected the same sentences. Its score is the metric's mean over them; Spearman's ρ and Pearson's r
compare the systems' scores with their human scores. Intervals resample sentences.

On the thirteen systems of CoNLL-2014 (with the uncorrected input) and the rankings of Grundkiewicz et al. 2015, the
paper gives ρ = .852, r = .913 for MIMA with DistilBERT and .885, .878 with DistilRoBERTa; `mima(encoder=minilm)` gives
.720 and .648.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load import load_systems
from capmeter.captions.sources import open_bytes, text_lines
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Floats, Metric
from capmeter.evaluation.runner import evaluate
from capmeter.stats.bootstrap import Interval, percentile_interval, resample_counts
from capmeter.stats.correlation import pearson, spearman


@dataclass(frozen=True, eq=False)
class GrammarAgreement:
    """One metric's system scores, and their correlation with human scores."""

    metric: str
    scores: dict[str, float]
    spearman: Interval
    pearson: Interval


@dataclass(frozen=True, eq=False)
class Grammar:
    """The study: each system's human score, and each metric's agreement."""

    human: dict[str, float]
    sentences: int
    agreements: list[GrammarAgreement]


def read_corrections(path: str, columns: Mapping[str, str] | None = None) -> dict[str, CaptionSet]:
    """The sentences of each system: rows with `systems: {name: sentence}` (and maybe references), or any format with
    several systems.
    """
    rows = []
    with open_bytes(path) as file:
        first_byte = file.read(1)
    if first_byte == b"{":
        for line_number, line in text_lines(path):
            if line.strip():
                try:
                    rows.append(json.loads(line))
                except ValueError as problem:
                    raise InputError(f"{path}, line {line_number}: not JSON ({problem})") from None
                if not isinstance(rows[-1], dict) or not isinstance(rows[-1].get("systems"), dict):
                    break
        else:
            return _gathered(rows, path)
    return load_systems(path, on_missing="keep", columns=columns)


def _gathered(rows: Sequence[Mapping[str, object]], path: str) -> dict[str, CaptionSet]:
    captions_by_system: dict[str, list[Caption]] = {}
    for row_number, correction_row in enumerate(rows):
        system_sentences, references = correction_row["systems"], correction_row.get("references", [])
        if not isinstance(system_sentences, dict) or not isinstance(references, list):
            raise InputError(
                f"{path}, row {row_number + 1}: expected systems: {{name: sentence}} and a list of references"
            )
        sentence_id = str(correction_row.get("sent_id", row_number))
        for system, sentence in system_sentences.items():
            if not isinstance(sentence, str):
                raise InputError(
                    f"{path}, row {row_number + 1}: the sentence of {system} is {sentence!r}; expected a text"
                )
            captions_by_system.setdefault(system, []).append(
                Caption(sentence_id, sentence_id, sentence, tuple(map(str, references)))
            )
    return {system: CaptionSet.from_captions(captions) for system, captions in captions_by_system.items()}


def grammar(
    systems: Mapping[str, CaptionSet],
    human: Mapping[str, float],
    metrics: Sequence[Metric],
    *,
    resamples: int = 1000,
    seed: int = 0,
    settings: Settings | None = None,
) -> Grammar:
    """How the metrics' scores of these systems agree with their human scores."""
    ranked_systems = [system_name for system_name in systems if system_name in human]
    if len(ranked_systems) < 3:
        raise InputError(
            f"expected at least three systems with human scores, but got {', '.join(ranked_systems) or 'none'}; the "
            f"sentences are of {', '.join(systems)}, the judgments of {', '.join(human)}"
        )
    sentence_ids = list(systems[ranked_systems[0]].ids)
    for system_name in ranked_systems:
        if list(systems[system_name].ids) != sentence_ids:
            raise InputError(
                f"the systems {ranked_systems[0]} and {system_name} have different sentences; expected the same ones"
            )
    # all systems at once, so that what several of them say is measured once
    all_sentences = CaptionSet.from_captions(
        Caption(f"{system_name}/{caption.id}", caption.image_id, caption.candidate, caption.references)
        for system_name in ranked_systems
        for caption in systems[system_name]
    )
    results = evaluate(all_sentences, metrics, settings=settings)
    human_scores = np.array([human[system_name] for system_name in ranked_systems])
    resample_weights = resample_counts(len(sentence_ids), resamples, seed)
    agreements = []
    for metric in metrics:
        sentence_scores = results[metric].items.array.reshape(len(ranked_systems), len(sentence_ids))
        resampled_means = resample_weights @ sentence_scores.T / len(sentence_ids)
        scores = dict(zip(ranked_systems, sentence_scores.mean(axis=1).tolist(), strict=True))
        system_means = sentence_scores.mean(axis=1)
        agreements.append(
            GrammarAgreement(
                str(metric),
                scores,
                _interval(spearman, system_means, resampled_means, human_scores),
                _interval(pearson, system_means, resampled_means, human_scores),
            )
        )
    return Grammar(dict(zip(ranked_systems, human_scores.tolist(), strict=True)), len(sentence_ids), agreements)


def _interval(
    correlation: Callable[[Floats, Floats], float], system_means: Floats, resampled_means: Floats, human_scores: Floats
) -> Interval:
    # a resample in which all systems score alike orders nothing: 0, as everywhere inside resamples
    is_constant = np.ptp(resampled_means, axis=1) <= 1e-12 * np.abs(resampled_means).max(axis=1)
    resampled_correlations = np.array(
        [
            0.0 if constant else correlation(system_scores, human_scores)
            for system_scores, constant in zip(resampled_means, is_constant, strict=True)
        ]
    )
    low, high = percentile_interval(resampled_correlations)
    return Interval(float(correlation(system_means, human_scores)), low, high, 0.95, resampled_correlations)
