"""The training of the metric `capmeter`, from files of captions to its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capmeter.core.messages import format_count
from capmeter.core.options import option
from capmeter.core.progress import report_progress
from capmeter_research.common.corpus import sample_more, sample_splits
from capmeter_research.common.model_selection import load_selection_judgments
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
    workers_option,
)
from capmeter_research.networks.own_metric.larger import report_scores
from capmeter_research.networks.own_metric.recipe import CapmeterRecipe, TaggerRecipe


@dataclass(frozen=True, kw_only=True)
class CapmeterOptions:
    """The captions, the encoder, and the settings of the run."""

    captions: list[str] = corpora_argument()
    exclusions: Path | None = exclusions_option()
    output: Path = output_option("The folder of the checkpoint.")
    encoder: str = option("minilm-captions", "Alias, hub id or folder of the encoder, or of its adaptation.")
    layer: int | None = option(
        None, "Encoder layer to use (default: last). The word tagger uses the layer at half that depth."
    )
    photos: int = option(16000, "Number of training photos.", minimum=2)
    tagger_photos: int = option(120000, "Number of additional photos for the word tagger (capped at all).", minimum=0)
    held_out: int = option(200, "Number of held-out photos for calibration.", minimum=2)
    judgments: Path | None = option(None, "Benchmark file used to tune the component weights (default: the recipe's).")
    select: str = option("flickr8k-cf", "Benchmark name, optionally with a protocol: flickr8k-expert:lceval.")
    perturbations: int = option(6, "Perturbed versions of each photo's first caption.", minimum=1)
    epochs: int | None = epochs_option()
    tagger_epochs: int | None = option(None, "Epochs for the word tagger.", minimum=1)
    steps: int | None = steps_option()
    workers: int = workers_option("Processes that prepare batches; several for a GPU.")
    run: RunOptions = RunOptions()


def train(options: CapmeterOptions) -> TrainingReport:
    """Train the metric `capmeter` on captions of similar photos and on perturbed captions.

    An interrupted run is resumed by the same command.

    `capmeter train capmeter coco=pycocoevalcap flickr30k=flickr30k_references.jsonl.gz --exclusions
    training_exclusions.json.gz --judgments flickr8k_cf.jsonl.gz --output capmeter/`
    """
    device = options.run.start()
    from capmeter.encoders import find_encoder, load_encoder
    from capmeter_research.networks.own_metric.examples import build_examples
    from capmeter_research.networks.own_metric.priors import build_token_priors
    from capmeter_research.networks.own_metric.run import train_capmeter

    seed, settings = options.run.seed, options.run.settings
    recipe = override(CapmeterRecipe(), options, "epochs", "steps", seed=seed)
    tagger_recipe = override(TaggerRecipe(), options, "steps", seed=seed, epochs=options.tagger_epochs)
    judgments = None if options.judgments is None else load_selection_judgments(options.select, options.judgments)
    corpora = read_corpora(options.captions, options.exclusions)
    photos, held_out = sample_splits(corpora, options.photos, options.held_out, seed)
    encoder = find_encoder(options.encoder)
    tagger_photos = sample_more(corpora, photos, options.tagger_photos, seed)
    examples = build_examples(
        photos,
        held_out,
        tagger_photos,
        priors=build_token_priors(corpora, photos, encoder, settings),
        encoder=encoder,
        layer=load_encoder(encoder, settings).layer(options.layer),
        perturbations=options.perturbations,
        seed=seed,
        settings=settings,
    )
    report_progress(
        f"{format_count(len(photos), 'training photo')}, {len(tagger_photos):,} more for the word tagger, "
        f"{len(held_out):,} held out, {format_count(len(examples.sentences), 'sentence')}"
    )
    scores = train_capmeter(
        examples,
        recipe,
        tagger_recipe,
        options.output,
        data=[corpus.data for corpus in corpora],
        judgments=judgments,
        device=device,
        workers=options.workers,
    ).scores
    return report_scores({"scores": dict(scores), "checkpoint": str(options.output)}, f"capmeter: {options.output}")
