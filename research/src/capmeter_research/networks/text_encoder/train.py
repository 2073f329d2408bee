"""The adaptation of a text encoder to captions, from files of captions to its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capmeter.core.messages import format_count
from capmeter.core.options import option
from capmeter.core.progress import report_progress
from capmeter.report.tables import Table
from capmeter_research.common.corpus import sample_splits
from capmeter_research.common.options import (
    RunOptions,
    TrainingReport,
    corpora_argument,
    epochs_option,
    exclusions_option,
    output_option,
    override,
    read_corpora,
    steps_option,
)


@dataclass(frozen=True, kw_only=True)
class TextEncoderOptions:
    """The captions, the encoder, and the settings of the run."""

    captions: list[str] = corpora_argument()
    exclusions: Path | None = exclusions_option()
    output: Path = output_option("Write the adaptation, its checkpoint and its log to this folder.")
    encoder: str = option("minilm", "Alias, hub id or folder of the encoder.")
    photos: int = option(16000, "Number of training photos.", minimum=2)
    held_out: int = option(200, "Number of held-out photos for evaluation.", minimum=2)
    reads_references: bool = option(False, "Train an encoder that reads captions together with references.")
    rank: int | None = option(None, "Rank of the adaptation in training.", minimum=1)
    epochs: int | None = epochs_option()
    steps: int | None = steps_option()
    run: RunOptions = RunOptions()


def train(options: TextEncoderOptions) -> TrainingReport:
    """Adapt a text encoder to captions: captions of similar photos get similar vectors. No human judgment is used.

    The folder, or its name in the folder of weights, can then be used as an encoder. An interrupted run is resumed by
    the same command.

    `capmeter train text-encoder coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --output minilm-captions/`

    `capmeter score results.json -r references.json -m "sbert(encoder=minilm-captions,pooling=centroid)"`
    """
    device = options.run.start()
    from capmeter.encoders import find_encoder
    from capmeter_research.networks.text_encoder.training import READING, EncoderRecipe, train_encoder

    corpora = read_corpora(options.captions, options.exclusions)
    photos, held_out = sample_splits(corpora, options.photos, options.held_out, options.run.seed)
    report_progress(f"{format_count(len(photos), 'training photo')}, {len(held_out):,} held out")
    recipe = READING if options.reads_references else EncoderRecipe()
    scores = train_encoder(
        photos,
        held_out,
        override(recipe, options, "rank", "epochs", "steps", seed=options.run.seed),
        options.output,
        data=[corpus.data for corpus in corpora],
        encoder=find_encoder(options.encoder),
        device=device,
    ).scores
    table_rows = [[score_name, f"{value:.1f}"] for score_name, value in scores.items()]
    return TrainingReport(
        Table("held-out photos, %", ["nearest references", "captions"], table_rows, [False, True]),
        {"scores": dict(scores), "checkpoint": str(options.output)},
        (f"encoder: {options.output}",),
    )
