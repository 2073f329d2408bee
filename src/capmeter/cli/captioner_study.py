"""`capmeter study captioner`: Tables A.1 to A.3 of SubICap's appendix, beside the paper's values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Format, Metrics, Seed, settings_of
from capmeter.cli.output import show
from capmeter.cli.train.options import Threads, need_torch
from capmeter.metrics.registry import parse_list
from capmeter.progress import shown
from capmeter.report import captioner as report

app = typer.Typer(
    add_completion=False, rich_markup_mode="markdown", no_args_is_help=True, help="Studies of the captioner."
)
DEV, TEST = 300, 1000
ENTRIES = {"word": 500, "bpe": 500, "unigram": 400, "char": 95}
"""The vocabularies for the made world, whose captions have some 230 words."""


@app.command()
def lengths(
    captions: str = typer.Argument(
        "coco=pycocoevalcap",
        help="Captions as SOURCE=FILE; `coco=pycocoevalcap` has those of COCO 2014 (train and val).",
        metavar="SOURCE=FILE",
    ),
    photos: int = typer.Option(0, help="Use so many photos, drawn by the seed; 0: all.", min=0),
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Count how many tokens leave 99 % of the captions whole, by vocabulary (Table A.1).

    `capmeter study captioner lengths --photos 20000`
    """
    from capmeter.learning.captioner.study import token_lengths
    from capmeter.learning.corpus import drawn_photos, named_file, read_corpus

    with shown():
        source, file = named_file(captions)
        corpus = read_corpus(source, file, {source: frozenset()})
        chosen = drawn_photos(corpus, photos, seed)
        texts = [text for photo in chosen for text in photo.captions]
        say(f"{source}: {len(texts):,} captions of {len(chosen):,} photos")
        found = list(token_lengths(texts))
    show(report.length_table(found), report.length_to_dict(found), format)


@app.command()
def segmentations(
    output: Path = typer.Option(..., "--output", "-o", help="Folder of the captioners; a stopped study is resumed."),
    segmentation: Annotated[
        list[str] | None,
        typer.Option("--segmentation", help=f"Only this one of {', '.join(ENTRIES)}; repeatable (default: all)."),
    ] = None,
    world: int = typer.Option(1000, "--world", help="Drawn pictures to learn from.", min=1),
    encoder: str = typer.Option("world-encoder", "--encoder", help="What gives regions their features."),
    epochs: int | None = typer.Option(None, help="Epochs of cross-entropy (default: as in training).", min=1),
    critical_epochs: int | None = typer.Option(
        None, "--self-critical-epochs", help="Epochs of self-critical training (default: likewise).", min=1
    ),
    metrics: Metrics = "bleu-1,bleu-2,bleu-3,bleu-4,meteor,rouge-l,cider-d,spice",
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Train captioners of the made world on words, characters and subwords, and compare them (Tables A.2 and A.3).

    `capmeter study captioner segmentations --world 1000 --output segmentations/`
    """
    chosen = list(segmentation or ENTRIES)
    wrong = [kind for kind in chosen if kind not in ENTRIES]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r} is not one of {', '.join(ENTRIES)}", param_hint="--segmentation")
    need_torch()
    import torch

    from capmeter.encoders.encoder import device_name
    from capmeter.encoders.world.encoder import load_world_encoder
    from capmeter.integrations.scst import reward
    from capmeter.learning.captioner.captioner import Captioner
    from capmeter.learning.captioner.examples import world_pictures
    from capmeter.learning.captioner.recipe import WORLD, WORLD_SELF_CRITICAL
    from capmeter.learning.captioner.run import END_WORD, train_captioner
    from capmeter.learning.captioner.study import segmented
    from capmeter.learning.world import World

    torch.set_num_threads(threads)
    settings = settings_of(device)
    place = device_name(settings.device)
    judges = parse_list(metrics)

    def rewards(metric: str, references: Any, end: str) -> Any:
        return reward(metric, references=references, eos=end or None, settings=settings)

    first = replace(WORLD, seed=seed, epochs=epochs or WORLD.epochs)
    then = replace(WORLD_SELF_CRITICAL, seed=seed, epochs=critical_epochs or WORLD_SELF_CRITICAL.epochs)
    found = {}
    with shown():
        seeing = load_world_encoder(encoder, place)
        pictures = world_pictures(World(split="train", size=world, seed=seed), seeing)
        checked = world_pictures(World(split="dev", size=DEV, seed=seed), seeing)
        test = world_pictures(World(split="test", size=TEST, seed=seed), seeing)
        for kind in chosen:
            recipe = replace(first, segmentation=kind, pieces=ENTRIES[kind])
            train_captioner(pictures, checked, recipe, then, output / kind, rewards, end=END_WORD, device=place)
            found[kind] = segmented(Captioner(output / kind, device=place), test, judges, settings)
            say(f"{kind}: {', '.join(f'{name} {value:.3f}' for name, value in found[kind].scores.items())}")
    show(report.segmentation_table(found), report.segmentation_to_dict(found), format)
