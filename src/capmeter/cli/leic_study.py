"""`capmeter study leic`: the studies of Cui et al. 2018, on your own captions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from capmeter.captions.io import load_systems
from capmeter.captions.model import CaptionSet
from capmeter.cli.main import say
from capmeter.cli.options import Device, Files, Format, References, Seed, one_of
from capmeter.cli.output import show
from capmeter.cli.train.options import Exclusions, Runs, Threads, need_torch
from capmeter.errors import InputError
from capmeter.learning.leic.recipe import PRESETS, CriticRecipe, read_shares
from capmeter.metrics.leic.shape import CONTEXTS
from capmeter.progress import shown
from capmeter.report import leic as report

app = typer.Typer(
    add_completion=False, rich_markup_mode="markdown", no_args_is_help=True, help="Studies of LEIC's critics."
)

Context = Annotated[
    str, typer.Option("--context", help="What the critic knows besides the candidate.", **one_of(CONTEXTS))
]
Negatives = Annotated[
    str | None, typer.Option("--negatives", help="Sources of negatives with their shares: machine=3,permutation=1.")
]
Features = Annotated[
    str | None, typer.Option("--features", help="Image features: an .npz file with image_ids and features.")
]
Epochs = Annotated[int, typer.Option("--epochs", help="The number of epochs.", min=1)]
Width = Annotated[int, typer.Option("--width", help="Width of the LSTM.", min=1)]
Embedding = Annotated[int, typer.Option("--embedding", help="Width of the word vectors.", min=1)]
Images = Annotated[int, typer.Option("--images", help="Images per batch.", min=2)]
_AUGMENTED = "machine=3,other-caption=1,permutation=1,replacement=1"


@app.command()
def submission(
    files: Files,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the critics; a stopped run is resumed.")],
    references: References = None,
    negatives: Negatives = _AUGMENTED,
    context: Context = "reference",
    features: Features = None,
    epochs: Epochs = 10,
    width: Width = 512,
    embedding: Embedding = 300,
    images: Images = 50,
    runs: Runs = 1,
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Judge submissions, each by critics that were trained against it alone (§3.5 and appendix E).

    The images are split into two folds; a critic trained on one scores the other. Adding or changing a submission does
    not move the scores of the others.

    `capmeter study leic submission a=a.json b=b.json --references captions_val2014.json --runs 3 -o judged/`
    """
    need_torch()
    import torch

    from capmeter.encoders.encoder import device_name
    from capmeter.learning.leic.submission import judge
    from capmeter.metrics.leic.image_features import read_features

    torch.set_num_threads(threads)
    recipe = _recipe(context, negatives, epochs, width, embedding, images, seed)
    with shown():
        found = []
        for name, captions in _systems(files, references).items():
            found.append(
                judge(
                    captions,
                    recipe,
                    output,
                    name=name,
                    runs=runs,
                    features=None if features is None else read_features(features),
                    device=device_name(device or "cpu"),
                )
            )
            say(f"{name}: {found[-1].scores.mean():.4f}")
    show(report.submission_table(found), report.submission_to_dict(found), format)


@app.command()
def capability(
    captions: Annotated[
        list[str],
        typer.Argument(help="Captions that people wrote, as for `capmeter train leic`.", metavar="SOURCE=FILE..."),
    ],
    exclusions: Exclusions,
    machine: Annotated[list[str], typer.Option("--machine", help="Captions that captioners wrote; repeatable.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the critics; a stopped study is resumed.")],
    vary: Annotated[
        str,
        typer.Option(
            "--vary",
            help="What differs between the critics.",
            **one_of(("augmentation", "strategy", "layers", "width")),
        ),
    ] = "augmentation",
    contexts: Annotated[str, typer.Option("--contexts", help="With --vary strategy: none, reference …")] = "reference",
    negatives: Negatives = _AUGMENTED,
    features: Features = None,
    photos: Annotated[int, typer.Option("--photos", help="Use so many photos of each source; 0: all.", min=0)] = 0,
    epochs: Epochs = 30,
    width: Width = 512,
    embedding: Embedding = 300,
    images: Images = 50,
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Compare critics that differ in one respect, on captions of held-out photos (Figures 5, 8 and 9).

    `capmeter study leic capability coco=pycocoevalcap --exclusions training_exclusions.json.gz --machine
    machine.jsonl.gz --vary strategy --contexts none,reference -o capability/`
    """
    need_torch()
    import torch

    from capmeter.encoders.encoder import device_name
    from capmeter.learning.corpus import named_file, read_corpus
    from capmeter.learning.leic.capability import capability as compare
    from capmeter.learning.leic.capability import variants
    from capmeter.learning.leic.reading import read_images
    from capmeter.learning.parser.examples import read_exclusions
    from capmeter.metrics.leic.image_features import read_features

    torch.set_num_threads(threads)
    recipe = _recipe("reference", negatives, epochs, width, embedding, images, seed)
    listed = {**read_exclusions(exclusions), "world": frozenset[str]()}
    with shown():
        found = read_images([read_corpus(*named_file(each), listed) for each in captions], machine, most=photos)
        compared = compare(
            found.learned,
            found.held_out,
            variants(vary, recipe, [each.strip() for each in contexts.split(",")]),
            output,
            features=None if features is None else read_features(features),
            device=device_name(device or "cpu"),
        )
    show(report.capability_table(compared, len(found.held_out)), report.capability_to_dict(compared), format)


@app.command()
def words(
    files: Files,
    references: References = None,
    bins: Annotated[int, typer.Option("--bins", help="Number of frequency ranges.", min=2)] = 8,
    format: Format = "table",
) -> None:
    """Compare how often systems and people use frequent and rare words (Figure 4).

    `capmeter study leic words a=a.json b=b.json --references captions_val2014.json`
    """
    from capmeter.learning.leic.word_frequency import word_frequency

    found = word_frequency(_systems(files, references), bins)
    show(report.words_table(found), report.words_to_dict(found), format)


@app.command()
def world(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the critics; a stopped study is resumed.")],
    train: Annotated[str, typer.Option("--train", help="The scenes to train on.")] = "world(split=train,size=4000)",
    test: Annotated[str, typer.Option("--test", help="The scenes to judge on.")] = "world(split=test,size=400)",
    contexts: Annotated[str, typer.Option("--contexts", help="Of none, reference, image, both.")] = "none,reference",
    features: Features = None,
    negatives: Negatives = "machine",
    epochs: Epochs = 20,
    width: Width = 128,
    embedding: Embedding = 64,
    images: Images = 50,
    threads: Threads = 1,
    device: Device = None,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Does a critic use its context? On made scenes, where it is known what of a caption holds.

    Features of the pictures of both worlds are in one file, as `capmeter world` writes them with `--encoder`.

    `capmeter study leic world --contexts none,reference -o world-critics/`
    """
    need_torch()
    import torch

    from capmeter.encoders.encoder import device_name
    from capmeter.learning.leic.made_world import contexts_on_world
    from capmeter.learning.world import parse_world
    from capmeter.metrics.leic.image_features import read_features

    torch.set_num_threads(threads)
    judged = parse_world(test)
    with shown():
        found = contexts_on_world(
            parse_world(train),
            judged,
            _recipe("reference", negatives, epochs, width, embedding, images, seed),
            [each.strip() for each in contexts.split(",")],
            output,
            features=None if features is None else read_features(features),
            device=device_name(device or "cpu"),
        )
    show(report.world_table(found, len(judged)), report.world_to_dict(found), format)


def _recipe(
    context: str, negatives: str | None, epochs: int, width: int, embedding: int, images: int, seed: int
) -> CriticRecipe:
    import dataclasses

    chosen: dict[str, Any] = {} if negatives is None else {"negatives": read_shares(negatives)}
    return dataclasses.replace(
        PRESETS["coco"],
        context=context,
        epochs=epochs,
        width=width,
        embedding=embedding,
        images=images,
        seed=seed,
        **chosen,
    )


def _systems(files: list[str], references: str | None) -> dict[str, CaptionSet]:
    systems: dict[str, CaptionSet] = {}
    for given in files:
        name, equals, path = given.partition("=")
        named = bool(equals and name) and not Path(given).exists()
        several = load_systems(path if named else given, references)
        if named and len(several) == 1:
            several = {name: next(iter(several.values()))}
        twice = [each for each in several if each in systems]
        if twice:
            raise InputError(f"{given}: two systems have the name {twice[0]!r}; name each one: NAME=FILE")
        systems |= several
    return systems
