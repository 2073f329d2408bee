"""`capmeter study leic`: the studies of Cui et al. 2018, on your own captions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.captions.load import load_references
from capmeter.captions.load_options import LoadOptions
from capmeter.cli.command import Application
from capmeter.cli.inputs import load_named_systems
from capmeter.cli.main import echo
from capmeter.cli.options import FormatOptions, metrics_option, plot_option, systems_argument
from capmeter.cli.output import show
from capmeter.core.errors import InputError
from capmeter.core.options import option, option_group
from capmeter.core.output_files import check_targets
from capmeter.core.progress import show_progress
from capmeter.evaluation.registry import parse_list
from capmeter.report.figures import save_figures
from capmeter_research.common.image_features import FeatureFile
from capmeter_research.common.options import output_option, runs_option
from capmeter_research.common.study_table import Part, part_figure, part_table, part_to_dict
from capmeter_research.papers.leic.training.recipe import VARIED, WORLD_CAPTIONS
from capmeter_research.papers.leic.training.train import CriticImages, CriticOptions, features_option

app = Application(no_args_is_help=True, help="Studies of LEIC's critics.")
_AUGMENTED = "machine=3,other-caption=1,permutation=1,replacement=1"


def _folder_option() -> Any:
    return output_option("Folder of the critics; a stopped study is resumed.")


@dataclass(frozen=True, kw_only=True)
class SubmissionOptions:
    """The submissions, and the critics that judge them."""

    files: list[str] = systems_argument()
    output: Path = _folder_option()
    load: LoadOptions = option_group(LoadOptions, "references", "columns")
    samples: list[str] = option([], "Monte-Carlo samples of a submission's captioner: NAME=FILE; repeatable.")
    human: Path | None = option(None, 'Human score of each submission, as JSON: {"NAME": 0.27} (Figure 7: M1).')
    features: FeatureFile | None = features_option()
    runs: int = runs_option()
    plot: list[Path] = plot_option()
    critic: CriticOptions = option_group(CriticOptions, context="reference", negatives=_AUGMENTED, epochs=10)


@app.command()
def submission(options: SubmissionOptions, table: FormatOptions) -> None:
    """Judge submissions, each by critics that were trained against it alone (§3.5 and appendix E).

    The images are split into two folds; a critic trained on one scores the other. Adding or changing a submission does
    not change the scores of the others. Where captions carry human ratings, or with `--human`, the scores are compared
    with human scores (Figure 7; `--plot` draws it) by Pearson's r and its permutation test.

    `capmeter study leic submission a=a.json b=b.json --references captions_val2014.json --runs 3 -o judged/`
    """
    check_targets(*options.plot)
    device = options.critic.run.start()
    from capmeter_research.papers.leic.training import submission as study
    from capmeter_research.papers.leic.training.reading import read_samples

    with show_progress():
        systems = load_named_systems(options.files, options.load)
        samples = read_samples(options.samples, systems)
        human = study.ratings(systems, options.human)
        scores = []
        for system_name, captions in systems.items():
            submission_scores = study.judge(
                captions,
                options.critic.recipe,
                options.output,
                name=system_name,
                runs=options.runs,
                samples=samples.get(system_name),
                features=options.features,
                device=device,
            )
            scores.append(submission_scores)
            echo(f"{system_name}: {submission_scores.scores.mean():.4f}")
    scatter = study.against_people(scores, human)
    if options.plot:
        if scatter is None:
            raise InputError("--plot plots scores against human scores: give --human, for at least 3 submissions")
        save_figures(study.submission_figure(scores, scatter), options.plot)
    show(study.submission_table(scores, scatter), study.submission_to_dict(scores, scatter), table.format)


@dataclass(frozen=True, kw_only=True)
class CapabilityOptions:
    """The captions, and the critics that are compared."""

    images: CriticImages
    output: Path = _folder_option()
    vary: str = option("augmentation", "What differs between the critics.", choices=VARIED)
    contexts: str = option("none,reference", "With --vary strategy or context: of none, reference, image, both.")
    features: FeatureFile | None = features_option()
    plot: list[Path] = plot_option()
    critic: CriticOptions = option_group(CriticOptions, context="reference", negatives=_AUGMENTED)


@app.command()
def capability(options: CapabilityOptions, table: FormatOptions) -> None:
    """Compare critics that differ in one respect, on captions of held-out photos (Figures 5, 8 and 9).

    The paper plots its values as bars and does not print them.

    `capmeter study leic capability coco=pycocoevalcap --exclusions training_exclusions.json.gz --machine
    machine.jsonl.gz --vary strategy --contexts none,reference -o capability/`
    """
    check_targets(*options.plot)
    device = options.critic.run.start()
    from capmeter_research.papers.leic.training.capability import capability as compare_critics
    from capmeter_research.papers.leic.training.capability import variants

    critics = variants(options.vary, options.critic.recipe, _split_names(options.contexts))
    with show_progress():
        images = options.images.read()
        results = compare_critics(
            images.learned,
            images.held_out,
            critics,
            options.output,
            features=options.features,
            data=images.data,
            device=device,
        )
    show_part(results, options.plot, table)


@dataclass(frozen=True, kw_only=True)
class CriticRobustnessOptions:
    """The captions, the captions that are degraded, and the critics."""

    images: CriticImages
    judged: str = option(..., "Captions of unseen photos to degrade; any format.")
    output: Path = _folder_option()
    metrics: str = metrics_option("cider-d,meteor,spice", "Metrics to compare with.")
    judged_images: int = option(1000, "Number of unseen photos to sample.", minimum=2)
    features: FeatureFile | None = features_option()
    plot: list[Path] = plot_option()
    critic: CriticOptions = option_group(CriticOptions, context="reference", negatives=_AUGMENTED)


@app.command()
def robustness(options: CriticRobustnessOptions, table: FormatOptions) -> None:
    """Train critics with and without each augmentation, and degrade captions of unseen photos (Figure 6).

    The table has the area under each curve (lower is better); `--plot` draws the curves, with the areas in the legend.

    `capmeter study leic robustness coco=pycocoevalcap --exclusions training_exclusions.json.gz --machine
    machine.jsonl.gz --judged captions_val2017.json -o robustness/ --plot curves.png`
    """
    check_targets(*options.plot)
    device = options.critic.run.start()
    from capmeter.meta.robustness import robustness as measure_robustness
    from capmeter.report.robustness import robustness_figure, robustness_table
    from capmeter_research.papers.leic.training.capability import train_critics, without_each

    metrics, recipe = parse_list(options.metrics), options.critic.recipe
    with show_progress():
        images = options.images.read()
        critics = train_critics(
            images.learned,
            without_each(recipe),
            options.output,
            features=options.features,
            data=images.data,
            device=device,
        )
        study = measure_robustness(
            load_references(options.judged),
            [*critics.values(), *metrics],
            "other-caption,permutation,replacement",
            images=options.judged_images,
            seed=recipe.seed,
        )
    names = {str(metric): name for name, metric in critics.items()}
    if options.plot:
        save_figures(robustness_figure(study, names), options.plot)
    show(robustness_table(study, names=names), {"critics": names, **study.to_dict()}, table.format)


_SCENE_CRITIC: dict[str, Any] = {
    "negatives": "machine=8,other-caption=1,permutation=0.5,replacement=0.5",
    "others": 8,
    "brief": 8,
    "fusion": "bilinear",
    "steps": 32,
    "width": 128,
    "embedding": 64,
    "hidden": "0",
    "pooled": 4096,
    "images": 100,
    "least": 1,
    "epochs": 20,
    "lr": 0.0025,
    "gamma": 1.0,
    "lr_schedule": "linear",
    "dropout": 0.0,
}


@dataclass(frozen=True, kw_only=True)
class SceneStudyOptions:
    """The scenes, and the critics that are trained on them."""

    output: Path = _folder_option()
    train: str = option("world(split=train,size=12000)", "The scenes to train on.")
    test: str = option("world(split=test,size=1000)", "The scenes to evaluate on.")
    contexts: str = option("none,reference,image,both", "Of none, reference, image, both.")
    captions: int = option(WORLD_CAPTIONS, "True captions of each training scene.", minimum=2)
    trained: list[str] = option(
        [], "Evaluate this critic (a name or folder) instead of training one; repeatable.", "--critic"
    )
    reader: str = option("world-reader", "Image encoder: a reader of attributes.")
    plot: list[Path] = plot_option()
    critic: CriticOptions = option_group(CriticOptions, **_SCENE_CRITIC)


@app.command()
def scenes(options: SceneStudyOptions, table: FormatOptions) -> None:
    """Does a critic use its context? On synthetic scenes, where it is known which parts of a caption are true.

    `capmeter study leic scenes --contexts none,both -o scene-critics/`

    `capmeter study leic scenes --critic scene-critics/both -o scene-critics/`
    """
    check_targets(*options.plot)
    device = options.critic.run.start()
    from capmeter_research.papers.leic.critic import load_critic
    from capmeter_research.papers.leic.training.synthetic_scenes import (
        contexts_on_world,
        critic_on_world,
        world_part,
        write_features,
    )
    from capmeter_research.synthetic_scenes.scenes import parse_world

    train, test, contexts = parse_world(options.train), parse_world(options.test), _split_names(options.contexts)
    if options.trained:
        sees_image = any(load_critic(critic_name).shape.sees_image for critic_name in options.trained)
    else:
        sees_image = any(context in ("image", "both") for context in contexts)
    with show_progress():
        worlds = (test,) if options.trained else (train, test)
        features = write_features(worlds, options.reader, options.output) if sees_image else None
        if options.trained:
            results = [critic_on_world(critic_name, test, features) for critic_name in options.trained]
        else:
            results = contexts_on_world(
                train,
                test,
                options.critic.recipe,
                contexts,
                options.output,
                features=features,
                captions=options.captions,
                device=device,
            )
    show_part(world_part(results, len(test)), options.plot, table)


def show_part(part: Part, plot: list[Path], table: FormatOptions) -> None:
    """Prints a study's table, and saves its figure.

    Args:
        part: the table.
        plot: files of the figure.
        table: what is printed.
    """
    if plot:
        save_figures(part_figure(part), plot)
    show(part_table(part), part_to_dict(part), table.format)


def _split_names(text: str) -> list[str]:
    return [part_text.strip() for part_text in text.split(",") if part_text.strip()]
