"""`capmeter study leic`: the studies of Cui et al. 2018, on your own captions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capmeter.captions.io import load_systems
from capmeter.captions.model import CaptionSet
from capmeter.cli.main import say
from capmeter.cli.options import Files, Format, Plots, References, one_of
from capmeter.cli.output import show
from capmeter.cli.train.critic import Images, critic_options
from capmeter.cli.train.options import Runs
from capmeter.errors import InputError
from capmeter.images.picture_vectors import VectorFile
from capmeter.learning.leic.recipe import VARIED, WORLD_CAPTIONS, CriticRecipe
from capmeter.metrics.registry import parse_list
from capmeter.progress import shown
from capmeter.report import leic as report
from capmeter.report import leic_figures as figures
from capmeter.report.figures import save_figures

app = typer.Typer(
    add_completion=False, rich_markup_mode="markdown", no_args_is_help=True, help="Studies of LEIC's critics."
)
Critics = Annotated[Path, typer.Option("--output", "-o", help="Folder of the critics; a stopped study is resumed.")]
_AUGMENTED = "machine=3,other-caption=1,permutation=1,replacement=1"


@app.command()
@critic_options(context="reference", negatives=_AUGMENTED, epochs=10)
def submission(
    recipe: CriticRecipe,
    files: Files,
    output: Critics,
    references: References = None,
    samples: Annotated[
        list[str],
        typer.Option("--samples", help="Monte-Carlo samples of a submission's captioner: NAME=FILE; repeatable."),
    ] = [],
    human: Annotated[
        Path | None,
        typer.Option("--human", help='What people say of each submission, as JSON: {"NAME": 0.27} (Figure 7: M1).'),
    ] = None,
    features: VectorFile | None = None,
    runs: Runs = 1,
    plot: Plots = [],
    format: Format = "table",
    device: str = "",
) -> None:
    """Judge submissions, each by critics that were trained against it alone (§3.5 and appendix E).

    The images are split into two folds; a critic trained on one scores the other. Adding or changing a submission does
    not move the scores of the others. Where captions carry human ratings, or with `--human`, the scores stand against
    those of people (Figure 7; `--plot` draws it), with Pearson's r and its permutation test.

    `capmeter study leic submission a=a.json b=b.json --references captions_val2014.json --runs 3 -o judged/`
    """
    from capmeter.learning.leic.reading import read_samples
    from capmeter.learning.leic.submission import against_people, judge, ratings

    with shown():
        systems = _systems(files, references)
        drawn = read_samples(samples, systems)
        people = ratings(systems, human)
        found = []
        for name, captions in systems.items():
            found.append(
                judge(
                    captions,
                    recipe,
                    output,
                    name=name,
                    runs=runs,
                    samples=drawn.get(name),
                    features=features,
                    device=device,
                )
            )
            say(f"{name}: {found[-1].scores.mean():.4f}")
    scatter = against_people(found, people)
    if plot:
        if scatter is None:
            raise InputError("--plot draws scores against those of people: give --human, for at least 3 submissions")
        save_figures(figures.submission_figure(found, scatter), plot)
    show(report.submission_table(found, scatter), report.submission_to_dict(found, scatter), format)


@app.command()
@critic_options(context="reference", negatives=_AUGMENTED)
def capability(
    recipe: CriticRecipe,
    images: Images,
    output: Critics,
    vary: Annotated[
        str, typer.Option("--vary", help="What differs between the critics.", **one_of(VARIED))
    ] = "augmentation",
    contexts: Annotated[
        str, typer.Option("--contexts", help="With --vary strategy or context: of none, reference, image, both.")
    ] = "none,reference",
    features: VectorFile | None = None,
    plot: Plots = [],
    format: Format = "table",
    device: str = "",
) -> None:
    """Compare critics that differ in one respect, on captions of held-out photos (Figures 5, 8 and 9).

    The paper draws its values as bars and does not print them.

    `capmeter study leic capability coco=pycocoevalcap --exclusions training_exclusions.json.gz --machine
    machine.jsonl.gz --vary strategy --contexts none,reference -o capability/`
    """
    from capmeter.learning.leic.capability import capability as compare
    from capmeter.learning.leic.capability import variants

    critics = variants(vary, recipe, _names(contexts))
    with shown():
        found = images()
        compared = compare(
            found.learned, found.held_out, critics, output, features=features, data=found.data, device=device
        )
    if plot:
        save_figures(figures.capability_figure(compared), plot)
    show(report.capability_table(compared, len(found.held_out)), report.capability_to_dict(compared), format)


@app.command()
@critic_options(context="reference", negatives=_AUGMENTED)
def robustness(
    recipe: CriticRecipe,
    images: Images,
    judged: Annotated[str, typer.Option("--judged", help="Captions of unseen photos, to be degraded; any format.")],
    output: Critics,
    metrics: Annotated[str, typer.Option("--metrics", "-m", help="Metrics to show beside.")] = "cider-d,meteor,spice",
    judged_images: Annotated[
        int, typer.Option("--judged-images", help="Sample so many of the unseen photos.", min=2)
    ] = 1000,
    features: VectorFile | None = None,
    plot: Plots = [],
    format: Format = "table",
    device: str = "",
) -> None:
    """Train critics with and without each augmentation, and degrade captions of unseen photos (Figure 6).

    The table has the area under each curve (lower is better); `--plot` draws the curves, with the areas in the legend.

    `capmeter study leic robustness coco=pycocoevalcap --exclusions training_exclusions.json.gz --machine
    machine.jsonl.gz --judged captions_val2017.json -o robustness/ --plot curves.png`
    """
    from capmeter.captions.io import load_references
    from capmeter.learning.leic.capability import trained, without_each
    from capmeter.meta.robustness import robustness as study_of
    from capmeter.report.robustness import robustness_figure, robustness_table

    others = parse_list(metrics)
    with shown():
        found = images()
        critics = trained(
            found.learned, without_each(recipe), output, features=features, data=found.data, device=device
        )
        study = study_of(
            load_references(judged),
            [*critics.values(), *others],
            "other-caption,permutation,replacement",
            images=judged_images,
            seed=recipe.seed,
        )
    named = {str(metric): name for name, metric in critics.items()}
    if plot:
        save_figures(robustness_figure(study, named), plot)
    table = report.renamed(robustness_table(study), named)
    show(table, {"critics": named, **study.to_dict()}, format)


@app.command()
def words(
    files: Files,
    references: References = None,
    bins: Annotated[int, typer.Option("--bins", help="Number of frequency ranges.", min=2)] = 8,
    plot: Plots = [],
    format: Format = "table",
) -> None:
    """Compare how often systems and people use frequent and rare words (Figure 4).

    `capmeter study leic words a=a.json b=b.json --references captions_val2014.json`
    """
    from capmeter.learning.leic.word_frequency import word_frequency

    found = word_frequency(_systems(files, references), bins)
    if plot:
        save_figures(figures.words_figure(found), plot)
    show(report.words_table(found), report.words_to_dict(found), format)


@app.command()
def cases(
    file: Annotated[str, typer.Argument(help="Captions with references and human ratings.", metavar="FILE")],
    metric: Annotated[str, typer.Option("--metric", help="The critic, as a metric.")] = "leic",
    beside: Annotated[str, typer.Option("--beside", help="The metric to compare it with.")] = "spice",
    show_: Annotated[int, typer.Option("--show", help="How many cases of each side.", min=1)] = 5,
    format: Format = "table",
) -> None:
    """Show the captions on which the critic is nearer to people than another metric, and those where it is not
    (Figure 10), with the words that raised and lowered the critic's score, by occlusion.

    `capmeter study leic cases flickr8k_expert.jsonl.gz --beside spice --show 5`
    """
    from capmeter.captions.io import load
    from capmeter.learning.leic.cases import cases as compare

    ((critic,), (other,)) = parse_list(metric), parse_list(beside)
    with shown():
        found = compare(load(file), critic, other, show_)
    show(report.cases_table(found), report.cases_to_dict(found), format)


@app.command()
@critic_options(
    negatives="machine=8,other-caption=1,permutation=0.5,replacement=0.5",
    others=8,
    brief=8,
    fusion="bilinear",
    steps=32,
    width=128,
    embedding=64,
    hidden="0",
    pooled=4096,
    images=100,
    least=1,
    epochs=20,
    rate=0.0025,
    gamma=1.0,
    decay="linear",
    dropout=0.0,
)
def world(
    recipe: CriticRecipe,
    output: Critics,
    train: Annotated[str, typer.Option("--train", help="The scenes to train on.")] = "world(split=train,size=12000)",
    test: Annotated[str, typer.Option("--test", help="The scenes to judge on.")] = "world(split=test,size=1000)",
    contexts: Annotated[
        str, typer.Option("--contexts", help="Of none, reference, image, both.")
    ] = "none,reference,image,both",
    captions: Annotated[
        int, typer.Option("--captions", help="True captions of each scene to learn from.", min=2)
    ] = WORLD_CAPTIONS,
    critic: Annotated[
        list[str],
        typer.Option("--critic", help="Judge this critic (a name or folder) and train none. Repeatable."),
    ] = [],
    reader: Annotated[
        str, typer.Option("--reader", help="What makes the pictures' features: a world reader.")
    ] = "world-reader",
    plot: Plots = [],
    format: Format = "table",
    device: str = "",
) -> None:
    """Does a critic use its context? On made scenes, where it is known what of a caption holds.

    `capmeter study leic world --contexts none,both -o world-critics/`

    `capmeter study leic world --critic world-critics/both -o world-critics/`
    """
    from capmeter.learning.leic.made_world import contexts_on_world, critic_on_world, write_features
    from capmeter.learning.world import parse_world
    from capmeter.metrics.leic.critic import load_critic

    learned, judged, chosen = parse_world(train), parse_world(test), _names(contexts)
    sees = [load_critic(each).shape.sees_image for each in critic] or [each in ("image", "both") for each in chosen]
    with shown():
        features = None
        if any(sees):
            features = write_features((judged,) if critic else (learned, judged), reader, output)
        if critic:
            found = [critic_on_world(each, judged, features) for each in critic]
        else:
            found = contexts_on_world(
                learned, judged, recipe, chosen, output, features=features, captions=captions, device=device
            )
    if plot:
        save_figures(figures.world_figure(found), plot)
    show(report.world_table(found, len(judged)), report.world_to_dict(found), format)


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _systems(files: list[str], references: str | None) -> dict[str, CaptionSet]:
    systems: dict[str, CaptionSet] = {}
    for each in files:
        name, equals, path = each.partition("=")
        named = bool(equals and name) and not Path(each).exists()
        several = load_systems(path if named else each, references)
        if named and len(several) == 1:
            several = {name: next(iter(several.values()))}
        twice = [system for system in several if system in systems]
        if twice:
            raise InputError(f"{each}: two systems have the name {twice[0]!r}; name each one: NAME=FILE")
        systems |= several
    return systems
