"""The regression of `hallucination`: its weights, fitted on captions of photos outside all benchmarks, and how well
its probabilities are calibrated on others.

    python benchmarks/hallucination.py CORPUS ... --exclusions training_exclusions.json.gz [--photos 1200]

CORPUS is SOURCE=FILE (`coco=pycocoevalcap`, `flickr30k=captions.jsonl.gz`), as for `capmeter train`. The photos are
those that the networks of `capmeter` held out in training. One caption of each stands against the four others, as it
is, with one word exchanged for another that fills the same slot (`perturbations` of the own metric's training), and
replaced by the most similar caption of another photo that has a word that no reference has. Right captions weigh as
much as hallucinated ones, of which both kinds weigh the same. Every second photo is for fitting, by Newton's method.
The other photos show the reliability of the probabilities of the metric as it is: mean probability and share of
hallucinated captions in ten intervals, and the expected calibration error, the mean of their differences.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from capmeter_research.common.benchmark_exclusions import read_exclusions
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO, Photo, read_corpus, sample_splits, split_source_file
from capmeter_research.common.logistic_regression import fit_logistic_regression
from capmeter_research.networks.own_metric.perturbations import perturb, unsupported_words
from numpy.typing import NDArray

from capmeter.captions.caption_set import Caption, CaptionSet, SentencePool
from capmeter.core.settings import Settings
from capmeter.encoders import SentenceVectors, find_encoder, load_encoder
from capmeter.evaluation.base import RunContext
from capmeter.metrics.hallucination.hallucination import CaptionFindings, find_errors

Floats = NDArray[np.float64]
KINDS = ("right", "exchange", "another photo")
SHARES = (0.5, 0.25, 0.25)
INTERVALS, NEIGHBOURS, BLOCK = 10, 40, 512


class Example(NamedTuple):
    """A caption against its references: its kind, an index of `KINDS`, and the number of its photo."""

    candidate: str
    references: tuple[str, ...]
    kind: int
    photo: int


def build_examples(photos: Sequence[Photo], seed: int) -> Iterator[Example]:
    """Each photo's caption, with an exchanged word, and the most similar caption of another photo."""
    captions = [photo.captions[:CAPTIONS_PER_PHOTO] for photo in photos]
    encoder = find_encoder("minilm")
    layer = load_encoder(encoder, Settings()).layers
    first = [texts[0] for texts in captions]
    index = {text: k for k, text in enumerate(dict.fromkeys(first))}
    distinct = SentencePool(tuple(index)).analyse(SentenceVectors(encoder, layer, Settings()))
    vectors = distinct[[index[text] for text in first]]
    for number, (candidate, *others) in enumerate(captions):
        references = tuple(others)
        yield Example(candidate, references, 0, number)
        exchanged = perturb(candidate, "exchange", np.random.default_rng((seed, number)))
        if exchanged is not None:
            yield Example(exchanged, references, 1, number)
        nearest = np.argsort(-(vectors @ vectors[number]), kind="stable")[: NEIGHBOURS + 1].tolist()
        for other in nearest:
            if other != number and unsupported_words(first[other], captions[number]):
                yield Example(first[other], references, 2, number)
                break


def read_findings(examples: Sequence[Example]) -> list[CaptionFindings]:
    """What the metric knows of each caption."""
    findings: list[CaptionFindings] = []
    for start in range(0, len(examples), BLOCK):
        block = examples[start : start + BLOCK]
        captions = CaptionSet.from_captions(
            Caption(str(k), str(k), each.candidate, each.references) for k, each in enumerate(block)
        )
        findings += find_errors(captions, RunContext())
    return findings


def reliability(probabilities: Floats, hallucinated: Floats, weights: Floats) -> list[tuple[float, float, float]]:
    """For each interval of probabilities with captions: its share, their mean probability, and the share that
    hallucinates.
    """
    intervals = np.minimum((probabilities * INTERVALS).astype(int), INTERVALS - 1)
    rows = []
    for interval in np.unique(intervals).tolist():
        own = intervals == interval
        probability, share = (np.average(values[own], weights=weights[own]) for values in (probabilities, hallucinated))
        rows.append((float(weights[own].sum() / weights.sum()), float(probability), float(share)))
    return rows


def calibration_error(rows: Sequence[tuple[float, float, float]]) -> float:
    """The expected calibration error."""
    return sum(share * abs(mean - observed) for share, mean, observed in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+")
    parser.add_argument("--exclusions", type=Path)
    parser.add_argument("--photos", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    exclusions = read_exclusions(arguments.exclusions)
    corpora = [read_corpus(*split_source_file(each), exclusions) for each in arguments.corpora]
    _, photos = sample_splits(corpora, 2, arguments.photos, arguments.seed)
    examples = list(build_examples(photos, arguments.seed))
    findings = read_findings(examples)
    kinds = np.array([each.kind for each in examples])
    fitting = np.array([each.photo % 2 == 0 for each in examples])
    hallucinated = (kinds > 0).astype(np.float64)
    weights = np.zeros(len(examples))
    for kind, share in enumerate(SHARES):
        for half in (fitting, ~fitting):
            own = (kinds == kind) & half
            weights[own] = share / max(own.sum(), 1)
    quantities = np.array([each.quantities for each in findings])
    inputs = np.concatenate([quantities, np.ones((len(quantities), 1))], axis=1)
    parameters = fit_logistic_regression(inputs[fitting], hallucinated[fitting], weights[fitting])
    print(f"{len(photos):,} photos; captions:", dict(zip(KINDS, np.bincount(kinds).tolist(), strict=False)))
    print("fitted: 1 − cos, max t, m, offset:", parameters.round(2).tolist())
    logits = np.array([each.logit for each in findings])
    probabilities = 1 / (1 + np.exp(-logits))
    table = reliability(probabilities[~fitting], hallucinated[~fitting], weights[~fitting])
    for share, mean, observed in table:
        print(f"{share:6.1%} of captions: mean probability {mean:.3f}, hallucinated {observed:.3f}")
    print(f"expected calibration error {calibration_error(table):.3f}")


if __name__ == "__main__":
    main()
