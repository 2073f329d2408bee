"""`capmeter train captioner`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Regions, Seed, one_of, settings_of
from capmeter.cli.output import show
from capmeter.cli.train.options import Threads, TrainingPrecision, need_torch
from capmeter.learning.captioner.segmentation import KINDS
from capmeter.progress import shown
from capmeter.report.tables import Table

DEV, TEST = 300, 1000
"""Drawn pictures that select epochs, and those that judge."""


def captioner(
    captions: Annotated[
        str | None, typer.Argument(help="Captions by image, in any format of references (COCO …).")
    ] = None,
    output: Path = typer.Option(..., "--output", "-o", help="Write the checkpoints, state and logs to this folder."),
    regions: Regions = "",
    held_out: str | None = typer.Option(
        None, "--held-out", help="Captions of the images that select the epoch (default: three per cent of the images)."
    ),
    world: int = typer.Option(0, "--world", help="Learn from so many drawn pictures instead.", min=0),
    encoder: str = typer.Option(
        "world-encoder", "--encoder", help="With --world: what gives regions their features, a name or folder."
    ),
    segmentation: Annotated[
        str | None, typer.Option(help="How captions are taken apart (default: unigram).", **one_of(KINDS))
    ] = None,
    pieces: int | None = typer.Option(None, help="Entries in the vocabulary (default: 1,085).", min=5),
    words: int | None = typer.Option(
        None, help="Truncate captions to this many words first; 0: not (default: 16).", min=0
    ),
    width: int | None = typer.Option(None, help="Width of the states (default: 512).", min=2),
    hidden: int | None = typer.Option(None, help="Width of the feed-forward layers (default: 2,048).", min=1),
    heads: int | None = typer.Option(None, help="Heads of attention (default: 8).", min=1),
    layers: int | None = typer.Option(None, help="Layers of the encoder and of the decoder (default: 6 each).", min=1),
    geometry: int | None = typer.Option(
        None, help="Numbers in the embedding of a displacement, a multiple of 8; 0: no geometry (default: 64).", min=0
    ),
    epochs: int | None = typer.Option(None, help="Epochs of cross-entropy (default: 30).", min=1),
    rate: float | None = typer.Option(None, help="Highest learning rate of cross-entropy (default: 5e-4)."),
    batch: int | None = typer.Option(None, help="Images per step of cross-entropy (default: 15).", min=1),
    reward: str = typer.Option(
        "cider-d", "--reward", help='The metric of self-critical training, such as "mean(cider-d,spice)".'
    ),
    critical_epochs: int | None = typer.Option(
        None, "--self-critical-epochs", help="Epochs of self-critical training; 0: none (default: 15).", min=0
    ),
    critical_rate: float | None = typer.Option(
        None, "--self-critical-rate", help="Learning rate of self-critical training (default: 2e-5)."
    ),
    critical_batch: int | None = typer.Option(
        None, "--self-critical-batch", help="Images per step of self-critical training (default: 10).", min=1
    ),
    samples: int | None = typer.Option(None, help="Captions sampled for each image (default: 5).", min=1),
    temperature: float | None = typer.Option(None, help="Temperature of these samples (default: 1)."),
    precision: TrainingPrecision = "float32",
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train a captioner: by cross-entropy, then by the reward of a metric (self-critical training).

    SubICap's Transformer (six layers, eight heads, geometric attention), whose sizes are options, reads regions and
    writes subwords. `OUTPUT/cross-entropy` has the captioner after cross-entropy, OUTPUT the final one. An interrupted
    run is resumed. With `--world` a small one (two layers of width 128; minutes on a core) learns from drawn pictures,
    and is judged on others.

    **Examples**

    `capmeter train captioner --world 3000 --output captioner/`

    `capmeter train captioner captions_train2014.json --regions coco/ --held-out captions_val2014.json
    --output captioner/ --device cuda --precision bfloat16`

    `capmeter train captioner --world 3000 --reward "mean(cider-d,bleu-4)" --output captioner/`
    """
    need_torch()
    import torch

    from capmeter.captions.io import load_references
    from capmeter.encoders.encoder import device_name
    from capmeter.encoders.world.encoder import load_world_encoder
    from capmeter.integrations.scst import Reward, word_based
    from capmeter.integrations.scst import reward as frozen
    from capmeter.learning.captioner.captioner import Captioner
    from capmeter.learning.captioner.examples import divided, file_pictures, world_pictures
    from capmeter.learning.captioner.measures import judged
    from capmeter.learning.captioner.recipe import WORLD, WORLD_SELF_CRITICAL, CaptionerRecipe, SelfCriticalRecipe
    from capmeter.learning.captioner.run import CHECKED, CROSS_ENTROPY, END_WORD, train_captioner
    from capmeter.learning.world import World

    if bool(world) == bool(captions):
        raise typer.BadParameter("expected either captions, or --world N", param_hint="CAPTIONS")
    if captions and not regions:
        raise typer.BadParameter("expected the regions of the images", param_hint="--regions")
    torch.set_num_threads(threads)
    settings = settings_of(device)
    place = device_name(settings.device)
    sizes = {"width": width, "hidden": hidden, "heads": heads, "geometry": geometry}
    sizes |= {"encoder_layers": layers, "decoder_layers": layers, "pieces": pieces, "words": words}
    common: dict[str, Any] = {"precision": precision, "seed": seed}
    first = replace(
        WORLD if world else CaptionerRecipe(),
        **common,
        **_given({**sizes, "segmentation": segmentation, "epochs": epochs, "rate": rate, "batch": batch}),
    )
    then = None
    if critical_epochs != 0:
        then = replace(
            WORLD_SELF_CRITICAL if world else SelfCriticalRecipe(),
            **common,
            **_given({"epochs": critical_epochs, "rate": critical_rate, "batch": critical_batch}),
            **_given({"samples": samples, "temperature": temperature}),
            reward=reward,
        )

    def rewards(metric: str, references: Mapping[str, Sequence[str]], end: str) -> Reward:
        given: Any = dict(references)
        return frozen(metric, references=given, eos=end or None, settings=settings)

    with shown():
        test = None
        if world:
            seeing = load_world_encoder(encoder, place)
            pictures = world_pictures(World(split="train", size=world, seed=seed), seeing)
            checked = world_pictures(World(split="dev", size=DEV, seed=seed), seeing)
            test = world_pictures(World(split="test", size=TEST, seed=seed), seeing)
        else:
            pictures = file_pictures(load_references(captions or ""), regions)
            if held_out:
                checked = file_pictures(load_references(held_out), regions)
            else:
                pictures, checked = divided(pictures)
        say(f"{len(pictures):,} images to learn from, {len(checked):,} held out")
        trained = train_captioner(
            pictures,
            checked,
            first,
            then,
            output,
            rewards,
            end=END_WORD if word_based(reward) else "",
            device=place,
        )
        scores: dict[str, Mapping[str, float]] = dict(trained.scores)
        if test is not None:
            scorer = rewards(CHECKED, test.references, "")
            scores = {}
            for stage in trained.scores:
                made = Captioner(output / CROSS_ENTROPY if stage == CROSS_ENTROPY else output, device=place)
                scores[stage] = judged(made, test, scorer)
            scores["of other pictures"] = judged(made, test.shuffled(seed), scorer)
    columns = list(next(iter(scores.values())))
    rows = [[name, *(f"{values[each]:.3f}" for each in columns)] for name, values in scores.items()]
    table = Table("captions of unseen images", ["captioner", *columns], rows, [False, *(True for _ in columns)])
    data = {"captions": scores, "held_out": trained.scores, "seconds": trained.seconds}
    show(table, data, format)
    spent = sum(trained.seconds.values())
    if spent:
        say(f"the reward took {trained.seconds['reward'] / spent:.1%} of the time of self-critical steps")
    say(f"captioner: {output}")


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
