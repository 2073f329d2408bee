"""The uncertainty of `capmeter(uncertainty=true)`: its coefficients, fitted on perturbed captions of photos outside all
benchmarks, and how well it predicts errors on others.

    python benchmarks/uncertainty.py CORPUS ... --exclusions training_exclusions.json.gz [--photos 800] [--size base]
        [--judgments flickr8k-cf=flickr8k_cf.jsonl.gz ...]

CORPUS is SOURCE=FILE (`coco=pycocoevalcap`, `flickr30k=captions.jsonl.gz`), as for `capmeter train`. The photos are
those that the networks of `capmeter` held out in training. One caption of each and its perturbations
(`perturb_held_out` of the own metric's training) stand against one to four of its other captions; right captions
weigh as much as perturbed ones. A score is an error if it is below .5 for a right caption, or not below .5 for a
perturbed one. Every second photo is for fitting: what is printed as fitted replaces `COEFFICIENTS` of
`capmeter.metrics.own.trained_networks`. The others show what the metric as it is predicts, and what is gained
if the most uncertain captions are left out; beside it the same by the nearness of the score to .5 alone. A pair of a
caption and its perturbation is as uncertain as the more uncertain of them, or by the nearness of both scores.

With judgments, the agreement with people on the most certain captions of these benchmarks.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from capmeter_research.common.corpus import sample_splits
from capmeter_research.common.logistic_regression import fit_logistic_regression
from capmeter_research.common.model_selection import kendall_tau, load_selection_judgments
from capmeter_research.common.options import read_corpora
from capmeter_research.networks.own_metric.batch import CaptionBatch
from capmeter_research.networks.own_metric.larger import perturb_held_out
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.progress import show_progress, task
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.metrics.own.capmeter import Capmeter
from capmeter.metrics.own.trained_networks import EncodedPart, compute_logits, expected_errors, reference_corrections

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
MOST_REFERENCES = 4
COVERAGES = (1.0, 0.8, 0.5)


class Predictions(NamedTuple):
    """The scores of captions with some number of references, and what they say of their errors, (captions,) each."""

    scores: Floats
    corrections: Floats
    uncertainties: Floats

    @property
    def orders(self) -> dict[str, Floats]:
        """The quantities by which captions can be left out, largest first."""
        return {"uncertainty": self.uncertainties, "nearness to .5": -np.abs(compute_logits(self.scores))}


def predict(captions: CaptionSet, metric: Capmeter, count: int | None = None) -> Predictions:
    """The predictions for captions with the first `count` of their references; none: with all."""
    trained, settings, rows = metric.load(Settings()), Settings(), []
    with task("scoring captions", total=len(captions)) as advance:
        for part in captions.chunks(Capmeter.PART_SIZE):
            encoded = EncodedPart.encode(part, trained, settings)
            if count is not None:
                encoded = replace(encoded, references=first_references(encoded.references, count))
            scores = encoded.scores(trained, settings)[:, 0]
            corrections = reference_corrections(encoded, scores, trained, settings)
            rows.append([scores, corrections, expected_errors(scores, corrections, encoded.references.lengths)])
            advance(len(part))
    return Predictions(*np.concatenate(rows, axis=1))


def first_references(references: Ragged, count: int) -> Ragged:
    """The first so many references of each row."""
    return Ragged.from_rows([row[:count] for row in (references[k] for k in range(len(references)))], np.int64)


def fit_coefficients(predictions: Predictions, right: Flags) -> tuple[float, float, float]:
    """a, b and c; c is 0 where there is nothing to correct, with one reference."""
    inputs = np.stack([np.ones(len(right)), compute_logits(predictions.scores), predictions.corrections], axis=1)
    offset, slope, weight = fit_logistic_regression(inputs, right, weigh(right)).round(2).tolist()
    return offset, slope, weight


def weigh(right: Flags) -> Floats:
    """Weights (captions,) that sum to 1: right captions together as much as the others."""
    return np.where(right, 0.5 / max(right.sum(), 1), 0.5 / max((~right).sum(), 1))


def accuracies(order: Floats, correct: Flags, weights: Floats) -> Iterator[float]:
    """The weighted share of correct ones among those with the lowest values of a quantity, for each coverage."""
    ranking = np.argsort(order, kind="stable")
    covered = np.cumsum(weights[ranking])
    shares = np.cumsum((weights * correct)[ranking]) / covered
    for coverage in COVERAGES:
        yield float(shares[np.searchsorted(covered, coverage * covered[-1] - 1e-9)])


def tenth(order: Floats, values: Floats, weights: Floats, *, lowest: bool) -> float:
    """The weighted mean of values over the tenth with the lowest or highest values of a quantity."""
    ranking = np.argsort(order if lowest else -order, kind="stable")
    rows = ranking[np.cumsum(weights[ranking]) <= 0.1 * weights.sum()]
    return float(np.average(values[rows], weights=weights[rows]))


def show_errors(by_count: dict[int, Predictions], right: Flags) -> None:
    """The reliability of the uncertainty on the confirming half, by number of references."""
    weights = weigh(right)
    table = Table(title=f"{len(right):,} captions, {right.sum():,} of them right: errors of the scores, %")
    for name in ("references", "left out by", "all", "predicted", "most uncertain tenth", "predicted", "most certain"):
        table.add_column(name)
    for name in ("predicted", *(f"right of {coverage:.0%}" for coverage in COVERAGES)):
        table.add_column(name)
    for count, each in by_count.items():
        wrong = (each.scores >= 0.5) != right
        for name, order in each.orders.items():
            cells = [np.average(values, weights=weights) for values in (wrong, each.uncertainties)]
            for lowest in (False, True):
                cells += [tenth(order, values, weights, lowest=lowest) for values in (wrong, each.uncertainties)]
            cells += accuracies(order, ~wrong, weights)
            table.add_row(str(count), name, *(f"{100 * cell:.1f}" for cell in cells))
    Console(width=160).print(table)


def show_reliability(each: Predictions, right: Flags) -> None:
    """Mean uncertainty and share of errors in tenths of the captions, by uncertainty."""
    weights, wrong = weigh(right), (each.scores >= 0.5) != right
    ranking = np.argsort(each.uncertainties, kind="stable")
    group = np.minimum((10 * (np.cumsum(weights[ranking]) - weights[ranking] / 2)).astype(int), 9)
    rows = [ranking[group == k] for k in range(10) if (group == k).any()]  # few captions: fewer groups
    means, shares = (
        [np.average(values[own], weights=weights[own]) for own in rows] for values in (each.uncertainties, wrong)
    )
    print("tenths by uncertainty, mean uncertainty, %:", " ".join(f"{100 * value:.0f}" for value in means))
    print("                               errors, %:", " ".join(f"{100 * value:.0f}" for value in shares))
    print(f"expected calibration error {np.mean(np.abs(np.subtract(means, shares))):.3f}")


def show_pairs(each: Predictions, batch: CaptionBatch, included: Flags) -> None:
    """The share of perturbed captions that score below their original, of the most certain pairs."""
    pairs = [(k, row.original) for k, row in enumerate(batch.rows) if row.perturbation and included[k]]
    perturbed, original = np.array(pairs).T
    correct = each.scores[perturbed] < each.scores[original]
    logits = compute_logits(each.scores)
    orders = {name: np.maximum(order[perturbed], order[original]) for name, order in each.orders.items()}
    orders["nearness of both scores"] = -np.abs(logits[perturbed] - logits[original])
    print(f"{len(pairs):,} pairs of a caption and its perturbation, ranked correctly, %, of", end=" ")
    print(", ".join(f"{coverage:.0%}" for coverage in COVERAGES), "and of the most uncertain tenth")
    equal = np.ones(len(pairs))
    for name, order in orders.items():
        shares = [*accuracies(order, correct, equal), tenth(order, correct, equal, lowest=False)]
        print(f"  by {name}:", " ".join(f"{100 * share:.1f}" for share in shares))


def show_agreement(benchmark: str, file: str, metric: Capmeter) -> None:
    """Kendall's τ with the judgments of the most certain captions, and how many scores and ratings are on the same side
    of the middle of their scales.
    """
    judgments = load_selection_judgments(benchmark, Path(file))
    each, human, statistic = predict(judgments.captions, metric), judgments.human, judgments.protocol.statistic
    scores = each.scores[judgments.rows]
    same_side = (scores >= 0.5) == (human >= (human.min() + human.max()) / 2)
    print(f"{benchmark}: {statistic} and same side, %, of", ", ".join(f"{coverage:.0%}" for coverage in COVERAGES))
    for name, order in each.orders.items():
        ranking = np.argsort(order[judgments.rows], kind="stable")
        rows = [ranking[: round(coverage * len(ranking))] for coverage in COVERAGES]
        taus = " ".join(f"{100 * kendall_tau(statistic, scores[own], human[own]):.1f}" for own in rows)
        print(f"  by {name}:", taus, "and", " ".join(f"{100 * same_side[own].mean():.1f}" for own in rows))


def evaluate(corpora: Sequence[str], exclusions: Path | None, photos: int, seed: int, metric: Capmeter) -> None:
    """Fits the coefficients on a half of held-out photos, and shows the reliability on the other."""
    _, held_out = sample_splits(read_corpora(corpora, exclusions), 2, photos, seed)
    captions, batch = perturb_held_out(held_out, seed)
    right = np.array([row.perturbation is None for row in batch.rows])
    number = {photo: k for k, photo in enumerate(dict.fromkeys(captions.image_ids))}
    fitting = np.array([number[photo] % 2 == 0 for photo in captions.image_ids])
    by_count = {count: predict(captions, metric, count) for count in range(1, MOST_REFERENCES + 1)}
    coefficients = {count: fit_coefficients(select(each, fitting), right[fitting]) for count, each in by_count.items()}
    print(f"{len(held_out):,} photos, {len(captions):,} captions; fitted: {coefficients}")
    show_errors({count: select(each, ~fitting) for count, each in by_count.items()}, right[~fitting])
    most = by_count[MOST_REFERENCES]
    show_reliability(select(most, ~fitting), right[~fitting])
    show_pairs(most, batch, ~fitting)


def select(predictions: Predictions, rows: Flags) -> Predictions:
    """The predictions for some captions."""
    return Predictions(*(values[rows] for values in predictions))


def main() -> None:
    """Runs the evaluation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="*")
    parser.add_argument("--exclusions", type=Path)
    parser.add_argument("--photos", type=int, default=800)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--checkpoint")
    parser.add_argument("--size", default="base")
    parser.add_argument("--judgments", nargs="*", default=[], metavar="BENCHMARK=FILE")
    arguments = parser.parse_args()
    metric = Capmeter(checkpoint=arguments.checkpoint, size=arguments.size)
    with show_progress():
        if arguments.corpora:
            evaluate(arguments.corpora, arguments.exclusions, arguments.photos, arguments.seed, metric)
        for each in arguments.judgments:
            benchmark, _, file = each.partition("=")
            show_agreement(benchmark, file, metric)


if __name__ == "__main__":
    main()
