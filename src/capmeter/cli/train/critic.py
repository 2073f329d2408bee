"""The options of a critic's training, for every command that trains critics: said once, with what differs as defaults.

    @critic_options(epochs=10)
    def submission(recipe: CriticRecipe, files: Files, …) -> None:

adds the options of `CRITIC` and of the run to the command, which is called with the recipe that they make. A parameter
`images: Images` stands for the options that say where the captions are (`IMAGES`); `features` is the file of image
features.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from capmeter.cli.main import say
from capmeter.cli.options import Device, Seed, one_of
from capmeter.cli.train.options import Exclusions, Threads, need_torch
from capmeter.learning.leic.recipe import PRESETS, read_shares
from capmeter.learning.recipe import DECAYS
from capmeter.metrics.leic.shape import CONTEXTS, FUSIONS

if TYPE_CHECKING:
    from capmeter.learning.leic.reading import TrainingImages


def _widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(width for width in map(int, text.split("+")) if width)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected widths joined by +, such as 512", param_hint="--hidden") from None


CRITIC: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "context": (str, "What the critic knows besides the candidate.", one_of(CONTEXTS)),
    "fusion": (str, "How context and candidate are fused.", one_of(FUSIONS)),
    "hidden": (str, "Widths of the classifier's hidden layers joined by +; 0 for none.", {}),
    "layers": (int, "LSTM layers.", {"min": 1}),
    "width": (int, "Width of the LSTM.", {"min": 1}),
    "embedding": (int, "Width of the word vectors.", {"min": 1}),
    "steps": (int, "How many words of a caption are read.", {"min": 1}),
    "pooled": (int, "Width of bilinear pooling.", {"min": 1}),
    "negatives": (
        str,
        "Where negatives come from: machine, monte-carlo, other-caption, permutation, replacement, each with its "
        "share: machine=3,permutation=1.",
        {},
    ),
    "others": (int, "Captions of other images that share the weight of one.", {"min": 1}),
    "words": (int, "Largest size of the vocabulary.", {"min": 1}),
    "least": (int, "How often a word of the vocabulary occurs.", {"min": 1}),
    "brief": (int, "So many first epochs leave out images with long captions.", {"min": 0}),
    "images": (int, "Images per batch.", {"min": 2}),
    "epochs": (int, "The number of epochs.", {"min": 1}),
    "rate": (float, "Learning rate.", {}),
    "gamma": (float, "The rate's factor after every epoch.", {}),
    "decay": (str, "How the rate falls.", one_of(DECAYS)),
    "clip": (float, "Gradients are clipped to this norm; 0: they are not.", {"min": 0}),
    "dropout": (float, "Share of numbers dropped in training.", {}),
}
"""The fields of a recipe that have an option: its type, its help, and what restricts it."""
HumanCaptions = Annotated[
    list[str],
    typer.Argument(
        help="Captions that people wrote of photos, and whose photos they are: coco=FILE, coco=pycocoevalcap (the "
        "captions in that package), flickr30k=FILE, world=FOLDER/captions.jsonl.",
        metavar="SOURCE=FILE...",
    ),
]
MachineCaptions = Annotated[
    list[str], typer.Option("--machine", help="Captions that captioners wrote of these photos; repeatable.")
]
Samples = Annotated[list[str], typer.Option("--samples", help="Monte-Carlo samples of a captioner; repeatable.")]
Features = Annotated[
    str | None, typer.Option("--features", help="Image features: an .npz file with image_ids and features, or an LMDB.")
]
Photos = Annotated[int, typer.Option("--photos", help="Use so many photos of each source; 0: all.", min=0)]
_READ: dict[str, Callable[[str], Any]] = {"hidden": _widths, "negatives": read_shares}
_PRESET = Annotated[str, typer.Option("--preset", help="The settings that other options change.", **one_of(PRESETS))]


IMAGES: dict[str, tuple[Any, Any]] = {
    "captions": (HumanCaptions, inspect.Parameter.empty),
    "exclusions": (Exclusions, inspect.Parameter.empty),
    "machine": (MachineCaptions, inspect.Parameter.empty),
    "samples": (Samples, []),
    "photos": (Photos, 0),
}
"""The options that say which captions a critic is trained on, and their defaults."""
Images: TypeAlias = "Callable[[], TrainingImages]"
"""Reads the captions of `IMAGES`, and says how many there are."""


def critic_options(*, optional: Sequence[str] = (), **defaults: Any) -> Callable[[Callable[..., None]], Any]:
    """A decorator: the command's parameters `recipe`, `images` and `features` are made from options.

    Args:
        optional: lists of `IMAGES` that need not be given.
        defaults: what the options are unless given, where that is not the preset's value.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())[1:]
        reads = any(each.name == "images" for each in own)

        @functools.wraps(command)
        def run(preset: str, threads: int, seed: int, device: str | None, **given: Any) -> None:
            need_torch()
            import torch

            from capmeter.encoders.encoder import device_name
            from capmeter.images.picture_vectors import VectorFile

            chosen = {name: given.pop(name) for name in CRITIC}
            known = {
                name: _READ[name](value) if name in _READ else value
                for name, value in {**defaults, **{k: v for k, v in chosen.items() if v is not None}}.items()
            }
            torch.set_num_threads(threads)
            recipe = dataclasses.replace(PRESETS[preset], seed=seed, **known)
            if reads:
                given["images"] = functools.partial(_read_images, **{name: given.pop(name) for name in IMAGES})
            if given.get("features") is not None:
                given["features"] = VectorFile(given["features"])
            command(recipe, device=device_name(device or "cpu"), **given)

        parameter = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
        typed = inspect.get_annotations(command, eval_str=True)
        kept = [
            parameter(
                each.name, default=each.default, annotation=Features if each.name == "features" else typed[each.name]
            )
            for each in own
            if each.name not in ("device", "images")
        ]
        if reads:
            kept += [
                parameter(name, default=[] if name in optional else default, annotation=annotation)
                for name, (annotation, default) in IMAGES.items()
            ]
        options = [
            parameter("preset", default="coco", annotation=_PRESET),
            *(parameter(name, default=None, annotation=_option(name, defaults.get(name))) for name in CRITIC),
            parameter("threads", default=1, annotation=Threads),
            parameter("seed", default=0, annotation=Seed),
            parameter("device", default=None, annotation=Device),
        ]
        signature = inspect.Signature([*kept, *options])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
        return run

    return decorate


def _read_images(
    captions: Sequence[str], exclusions: Path, machine: Sequence[str], samples: Sequence[str], photos: int
) -> TrainingImages:
    """The images of these files, without photos of benchmarks; says how many there are."""
    from capmeter.learning.corpus import named_file, read_corpus
    from capmeter.learning.leic.reading import read_images
    from capmeter.learning.parser.examples import read_exclusions

    listed = {**read_exclusions(exclusions), "world": frozenset[str]()}  # made photos are in no benchmark
    corpora = []
    for source, file in map(named_file, captions):
        corpora.append(read_corpus(source, file, listed))
        say(f"{source}: {len(corpora[-1].photos):,} photos; {corpora[-1].excluded:,} of benchmarks were left out")
    return read_images(corpora, machine, samples, most=photos)


def _option(name: str, default: Any) -> Any:
    kind, told, limits = CRITIC[name]
    shown: dict[str, Any] = {"show_default": str(default)} if default is not None else {}
    return Annotated[kind | None, typer.Option(f"--{name}", help=told, **shown, **limits)]
