"""The training of a captioner, from captions and regions, or synthetic scenes, to its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capmeter.core.errors import InputError
from capmeter.core.messages import format_count
from capmeter.core.options import argument, option
from capmeter.core.progress import report_progress
from capmeter.report.tables import Table
from capmeter_research.common.options import RunOptions, TrainingReport, output_option, override, precision_option
from capmeter_research.papers.subicap.recipe import WORLD, WORLD_SELF_CRITICAL, CaptionerRecipe, SelfCriticalRecipe
from capmeter_research.papers.subicap.segmentation import KINDS

if TYPE_CHECKING:
    from capmeter_research.papers.subicap.examples import CaptionedImages

SHUFFLED = "of other pictures"
"""The row of scores of captions that were written from the regions of other pictures."""


@dataclass(frozen=True, kw_only=True)
class SceneOptions:
    """Synthetic scenes instead of captioned images."""

    encoder: str = option("world-encoder", "With --scenes: region encoder, a name or folder.")
    dev_scenes: int = option(300, "With --scenes: number of scenes that select the epoch.", minimum=1)
    test_scenes: int = option(1000, "With --scenes: number of scenes to evaluate on.", minimum=1)

    def read(self, scenes: int, seed: int, device: str) -> tuple[CaptionedImages, CaptionedImages, CaptionedImages]:
        """The captioned pictures to train on, to select the epoch, and to evaluate on.

        Args:
            scenes: number of scenes to train on.
            seed: of all scenes.
            device: of the region encoder.
        """
        from capmeter_research.papers.subicap.examples import world_pictures
        from capmeter_research.synthetic_scenes.encoder.encoder import load_world_encoder
        from capmeter_research.synthetic_scenes.scenes import World

        encoder = load_world_encoder(self.encoder, device)
        return (
            world_pictures(World(split="train", size=scenes, seed=seed), encoder),
            world_pictures(World(split="dev", size=self.dev_scenes, seed=seed), encoder),
            world_pictures(World(split="test", size=self.test_scenes, seed=seed), encoder),
        )


@dataclass(frozen=True, kw_only=True)
class CaptionerOptions:
    """The captions, and the settings of both stages."""

    captions: str | None = argument(None, "Captions by image, in any format of references (COCO …).")
    output: Path = output_option("Write the checkpoints, state and logs to this folder.")
    regions: str = option("", "Pictures' regions for metrics that need them: a folder of .npz files, or an LMDB.")
    held_out: str | None = option(None, "Validation captions (default: those of three per cent of the images).")
    scenes: int = option(0, "Train on this many synthetic images instead.", minimum=0)
    synthetic: SceneOptions = SceneOptions()
    segmentation: str | None = option(None, "Tokenisation (default: unigram).", choices=KINDS)
    pieces: int | None = option(None, "Entries in the vocabulary (default: 1,085).", minimum=5)
    words: int | None = option(None, "Truncate captions to this many words first; 0: not (default: 16).", minimum=0)
    width: int | None = option(None, "Width of the states (default: 512).", minimum=2)
    hidden: int | None = option(None, "Width of the feed-forward layers (default: 2,048).", minimum=1)
    heads: int | None = option(None, "Attention heads (default: 8).", minimum=1)
    layers: int | None = option(None, "Layers of the encoder and of the decoder (default: 6 each).", minimum=1)
    geometry: int | None = option(
        None, "Dimension of the relative-position embedding, a multiple of 8; 0: no geometry (default: 64).", minimum=0
    )
    epochs: int | None = option(None, "Epochs of cross-entropy (default: 30).", minimum=1)
    lr: float | None = option(None, "Highest learning rate of cross-entropy (default: 5e-4).", minimum=1e-8)
    batch: int | None = option(None, "Images per step of cross-entropy (default: 15).", minimum=1)
    reward: str = option("cider-d", 'The metric of self-critical training, such as "mean(cider-d,spice)".')
    self_critical_epochs: int | None = option(
        None, "Epochs of self-critical training; 0: none (default: 15).", minimum=0
    )
    self_critical_lr: float | None = option(
        None, "Learning rate of self-critical training (default: 2e-5).", minimum=1e-8
    )
    self_critical_batch: int | None = option(
        None, "Images per step of self-critical training (default: 10).", minimum=1
    )
    samples: int | None = option(None, "Captions sampled for each image (default: 5).", minimum=1)
    temperature: float | None = option(None, "Temperature of these samples (default: 1).", minimum=0.01)
    precision: str = precision_option()
    run: RunOptions = RunOptions()

    def __post_init__(self) -> None:
        if bool(self.scenes) == bool(self.captions):
            raise InputError("expected either captions, or --scenes N")
        if self.captions and not self.regions:
            raise InputError("expected the regions of the images: --regions")

    @property
    def recipe(self) -> CaptionerRecipe:
        """The settings of cross-entropy."""
        names = ("width", "hidden", "heads", "geometry", "pieces", "words", "segmentation", "epochs", "lr", "batch")
        default_recipe = WORLD if self.scenes else CaptionerRecipe()
        layer_counts = {"encoder_layers": self.layers, "decoder_layers": self.layers}
        return override(default_recipe, self, *names, "precision", seed=self.run.seed, **layer_counts)

    @property
    def self_critical_recipe(self) -> SelfCriticalRecipe | None:
        """The settings of self-critical training; None: there is none."""
        if self.self_critical_epochs == 0:
            return None
        return override(
            WORLD_SELF_CRITICAL if self.scenes else SelfCriticalRecipe(),
            self,
            *("samples", "temperature", "reward", "precision"),
            seed=self.run.seed,
            epochs=self.self_critical_epochs,
            lr=self.self_critical_lr,
            batch=self.self_critical_batch,
        )


def train(options: CaptionerOptions) -> TrainingReport:
    """Train a captioner: by cross-entropy, then by the reward of a metric (self-critical training).

    SubICap's Transformer (six layers, eight heads, geometric attention), whose sizes are options, takes regions and
    writes subwords. `OUTPUT/cross-entropy` has the captioner after cross-entropy, OUTPUT the final one. An interrupted
    run is resumed. With `--scenes` a small one (two layers of width 128; minutes on one core) is trained on synthetic
    images, and evaluated on others.

    **Examples**

    `capmeter train captioner --scenes 3000 --output captioner/`

    `capmeter train captioner captions_train2014.json --regions coco/ --held-out captions_val2014.json
    --output captioner/ --device cuda --precision bfloat16`

    `capmeter train captioner --scenes 3000 --reward "mean(cider-d,bleu-4)" --output captioner/`
    """
    device = options.run.start()
    from capmeter_research.papers.subicap.training import train_captioner

    recipe, self_critical = options.recipe, options.self_critical_recipe
    test_pictures = None
    if options.scenes:
        pictures, held_out, test_pictures = options.synthetic.read(options.scenes, options.run.seed, device)
    else:
        pictures, held_out = _read_pictures(options)
    report_progress(f"{format_count(len(pictures), 'training image')}, {len(held_out):,} held out")
    settings = options.run.settings
    run = train_captioner(pictures, held_out, recipe, self_critical, options.output, settings=settings, device=device)
    scores: Mapping[str, Mapping[str, float]] = run.scores
    if test_pictures is not None:
        scores = _evaluate(options, test_pictures, list(run.scores), device)
    columns = list(next(iter(scores.values())))
    table_rows = [
        [stage_name, *(f"{stage_scores[measure_name]:.3f}" for measure_name in columns)]
        for stage_name, stage_scores in scores.items()
    ]
    messages = [f"captioner: {options.output}"]
    if total_seconds := sum(run.seconds.values()):
        reward_share = run.seconds["reward"] / total_seconds
        messages.insert(0, f"the reward took {reward_share:.1%} of the time of self-critical steps")
    return TrainingReport(
        Table("captions of unseen images", ["captioner", *columns], table_rows, [False] + [True] * len(columns)),
        {"captions": scores, "held_out": run.scores, "seconds": run.seconds},
        tuple(messages),
    )


def _evaluate(
    options: CaptionerOptions, test: CaptionedImages, stages: Sequence[str], device: str
) -> dict[str, Mapping[str, float]]:
    """The scores of each stage's captions of unseen pictures, and of captions from shuffled pictures."""
    from capmeter_research.papers.subicap.captioner import Captioner
    from capmeter_research.papers.subicap.training import CHECKED, CROSS_ENTROPY, freeze_references, measure_captions

    scorer = freeze_references(CHECKED, test, options.run.settings)
    scores: dict[str, Mapping[str, float]] = {}
    for stage in stages:
        stage_folder = options.output / CROSS_ENTROPY if stage == CROSS_ENTROPY else options.output
        captioner = Captioner(stage_folder, device=device)
        captions = captioner.write(test)
        scores[stage] = measure_captions(captions, scorer(captions, test.ids))
    captions = captioner.write(test.shuffled(options.run.seed))
    scores[SHUFFLED] = measure_captions(captions, scorer(captions, test.ids))
    return scores


def _read_pictures(options: CaptionerOptions) -> tuple[CaptionedImages, CaptionedImages]:
    """The captioned images of files: to train on, and held out."""
    from capmeter.captions.load import load_references
    from capmeter_research.papers.subicap.examples import divided, file_pictures

    pictures = file_pictures(load_references(options.captions or ""), options.regions)
    if options.held_out:
        return pictures, file_pictures(load_references(options.held_out), options.regions)
    return divided(pictures)
