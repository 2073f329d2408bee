"""Puts a larger encoder beside a trained `capmeter`: the weight of its logit, and the calibration of the sum.

Of a grid of weights λ_6 (`capmeter.metrics.own.trained_networks`), those are considered with which Kendall's
τ with a half of the judgments is within .0005 of the best; of these, the weight with the highest pairwise accuracy on
perturbed captions of held-out photos is selected, as for the other weights of the score (`tuning.py`). The other half
of the judgments confirms. Neither the network nor the encoder is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.messages import format_count
from capmeter.core.options import option
from capmeter.core.progress import report_progress, task
from capmeter.core.settings import Settings
from capmeter.report.tables import Table
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO, Photo, sample_splits
from capmeter_research.common.model_selection import describe_judgments, kendall_tau, load_selection_judgments
from capmeter_research.common.options import (
    RunOptions,
    TrainingReport,
    corpora_argument,
    exclusions_option,
    output_option,
    read_corpora,
)
from capmeter_research.networks.own_metric.batch import BatchRow, CaptionBatch
from capmeter_research.networks.own_metric.examples import PerturbedCaption
from capmeter_research.networks.own_metric.perturbations import KINDS, build_caption_set, perturb_captions

if TYPE_CHECKING:
    from capmeter.metrics.own.trained_networks import TrainedCapmeter

Floats = NDArray[np.float64]
_PART = 1024
_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)


@dataclass(frozen=True, kw_only=True)
class LargerOptions:
    """The captions, the network, the encoder, and the judgments."""

    captions: list[str] = corpora_argument()
    judgments: Path = option(..., "Benchmark file that selects the weight; a half of it is used.")
    exclusions: Path | None = exclusions_option()
    output: Path = output_option("The folder of the checkpoint.")
    network: str = option("capmeter", "Name or folder of the trained `capmeter`.")
    encoder: str = option("mpnet-captions", "Name or folder of an encoder that reads references.")
    select: str = option("flickr8k-cf", "Benchmark name, optionally with a protocol: flickr8k-expert:lceval.")
    held_out: int = option(200, "Number of held-out photos for selection and calibration.", minimum=2)
    run: RunOptions = RunOptions()


class ReadCaptions(NamedTuple):
    """What a matcher and the larger encoder beside it say of captions."""

    logits: Floats  # (captions,), of the matcher alone
    larger_terms: Floats  # (captions,), what the larger encoder adds; 0 without one
    pooled: NDArray[np.float32]  # (captions, k), the matcher's states

    @classmethod
    def from_captions(cls, captions: CaptionSet, trained: TrainedCapmeter, settings: Settings) -> ReadCaptions:
        """Reads captions in parts.

        Args:
            captions: to read.
            trained: the matcher and the larger encoder.
            settings: where they run.
        """
        from capmeter.metrics.own.trained_networks import EncodedPart

        parts = []
        with task("scoring captions", total=len(captions)) as advance:
            for captions_part in captions.chunks(_PART):
                encoded = EncodedPart.encode(captions_part, trained, settings)
                rows, outputs = zip(*encoded.run_matcher(replace(trained, larger=None), settings), strict=True)
                order = np.argsort(np.concatenate(rows))
                logits, pooled = (
                    np.concatenate([getattr(output, name).cpu().numpy() for output in outputs])[order]
                    for name in ("score", "pooled")
                )
                larger_terms = encoded.larger_terms(trained, settings)
                parts.append((logits.astype(np.float64), larger_terms.astype(np.float64), pooled))
                advance(len(captions_part))
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def score(self, weight: float) -> Floats:
        """The logits with this weight of what the larger encoder adds."""
        return self.logits + weight * self.larger_terms


def train(options: LargerOptions) -> TrainingReport:
    """Put a larger encoder beside a trained `capmeter`: selects the weight of its logit and calibrates the sum.

    The encoder is adapted before, by `capmeter train text-encoder --reads-references`.

    `capmeter train capmeter-large coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz --output capmeter-large/`

    `capmeter score results.json -r references.json -m "capmeter(size=large)"`
    """
    options.run.start()
    from capmeter.core.checkpoints import Checkpoint, load_checkpoint
    from capmeter.encoders import find_encoder
    from capmeter.metrics.own.capmeter import KIND as NETWORK
    from capmeter.metrics.own.capmeter import Capmeter
    from capmeter.metrics.own.trained_networks import LARGE
    from capmeter_research.networks.own_metric.larger_encoder import ReadingEncoder
    from capmeter_research.networks.own_metric.run import fit_logistic
    from capmeter_research.networks.own_metric.training import PAIRWISE_ACCURACY, pairwise_accuracy
    from capmeter_research.networks.own_metric.tuning import select_trial

    settings, seed = options.run.settings, options.run.seed
    encoder, network = find_encoder(options.encoder), load_checkpoint(options.network, NETWORK)
    trained = Capmeter(checkpoint=options.network).load(settings)
    trained = replace(trained, larger=ReadingEncoder(encoder, 1.0, (1.0, 0.0), ""))
    judgments = load_selection_judgments(options.select, options.judgments)
    half = load_selection_judgments(options.select, options.judgments, limit=len(judgments.captions) // 2)
    corpora = read_corpora(options.captions, options.exclusions)
    _, held_out = sample_splits(corpora, 2, options.held_out, seed)
    captions, batch = perturb_held_out(held_out, seed)
    report_progress(
        f"{len(half):,} of {len(judgments):,} judgments select; {format_count(len(captions), 'held-out caption')}"
    )

    judged, perturbed = (ReadCaptions.from_captions(each, trained, settings) for each in (half.captions, captions))
    trials = []
    for weight in _WEIGHTS:
        tau = kendall_tau(half.protocol.statistic, judged.score(weight)[half.rows], half.human)
        trials.append((tau, pairwise_accuracy(batch, perturbed.score(weight))[PAIRWISE_ACCURACY], weight))
    tau, _, weight = select_trial(trials)
    scores = perturbed.score(weight)
    is_original = np.array([row.perturbation is None for row in batch.rows])
    by_weight = {f"τ with weight {tried_weight:g}": value for value, _, tried_weight in trials}
    checkpoint = Checkpoint(
        kind=LARGE,
        parameters={
            "network_sha256": network.sha256,
            "encoder": encoder.name,
            "encoder_sha256": encoder.sha256,
            "weight": weight,
            "calibration": list(fit_logistic(scores[is_original], scores[~is_original])),
        },
        weights={},
        data=tuple(corpus.data for corpus in corpora),
        training={"held_out": options.held_out, "seed": seed, "weights": _WEIGHTS},
        selection=f"weight: {describe_judgments(half)}, and perturbed captions",
        scores={
            name: round(value, 4) for name, value in {**pairwise_accuracy(batch, scores), **by_weight, "τ": tau}.items()
        },
    )
    checkpoint.save(options.output)
    messages = f"weight of the larger encoder's logit: {weight:g}", f"capmeter(size=large): {options.output}"
    return report_scores({"scores": dict(checkpoint.scores), "weight": weight}, *messages)


def report_scores(data: dict[str, Any], *messages: str) -> TrainingReport:
    """The report of a training whose data have `scores`: pairwise accuracies and values of Kendall's τ."""
    table_rows = [[score_name, f"{100 * value:.1f}"] for score_name, value in data["scores"].items()]
    title = "pairwise accuracy, caption vs. perturbed caption, held-out photos; Kendall's τ"
    return TrainingReport(Table(title, ["kind", "%"], table_rows, [False, True]), data, messages)


def perturb_held_out(photos: Sequence[Photo], seed: int) -> tuple[CaptionSet, CaptionBatch]:
    """The first caption of each photo, followed by its perturbations, all against the photo's other captions.

    The rows of the batch are those of the captions; its sentence indices are the rows' own.
    """
    photo_captions = [(photo.source + photo.number, photo.captions[:CAPTIONS_PER_PHOTO]) for photo in photos]
    originals = build_caption_set(photo_captions)
    perturbations = list(perturb_captions(originals, range(len(photo_captions)), per_caption=len(KINDS), seed=seed))
    captions: list[Caption] = []
    batch, no_references = CaptionBatch(), np.zeros(0, np.int64)
    for photo_row, (photo, (candidate, *references)) in enumerate(photo_captions):
        original_row = len(captions)
        own_perturbations = [perturbation for perturbation in perturbations if perturbation.row == photo_row]
        for caption_number, text in enumerate([candidate, *(perturbation.text for perturbation in own_perturbations)]):
            captions.append(Caption(f"{photo} {caption_number}", photo, text, tuple(references)))
        batch.rows.append(BatchRow(original_row, no_references, original=original_row))
        for caption_number, perturbation in enumerate(own_perturbations, start=1):
            perturbed = PerturbedCaption(
                perturbation.kind, original_row + caption_number, perturbation.omitted, perturbation.wrong_words
            )
            batch.rows.append(
                BatchRow(original_row + caption_number, no_references, perturbation=perturbed, original=original_row)
            )
    return CaptionSet.from_captions(captions), batch
