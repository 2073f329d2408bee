"""Judging submissions (§3.5, A.4 and appendix E of Cui et al.): each by critics that were trained against it alone.

The images are split into two folds. For each submission a critic is trained on one fold, with that submission's
captions as machine negatives, and scores the submission's captions of the other fold; and the other way round. The
submission's score is the mean probability of "human" over all images, averaged over runs with other seeds, since a
critic differs from run to run. Nothing of one submission enters the critics of another, so adding, removing or changing
a submission cannot move the scores of the others.

Beside it is s(Θ, D), Eq. 10, on the unseen fold: the mean of 1 − score of the submission's captions and of the score
of human captions (one per image, against the image's other captions); it says how well the critics tell them apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import format_count
from capmeter.evaluation.base import Floats
from capmeter.evaluation.runner import evaluate
from capmeter.report.figures import COLOURS, house_style, open_figure
from capmeter.report.tables import Table
from capmeter.stats.correlation import Pearson
from capmeter.stats.permutation import association_test
from capmeter_research.common.image_features import FeatureFile
from capmeter_research.papers.leic.leic import Leic
from capmeter_research.papers.leic.training.examples import CaptionedImage, MachineText
from capmeter_research.papers.leic.training.recipe import CriticRecipe

Samples = Mapping[str, Sequence[str]]
_LEAST = 3  # points of a correlation


@dataclass(frozen=True, eq=False)
class SubmissionScores:
    """A submission's values over runs.

    Args:
        system: its name.
        images: how many images it was judged on.
        scores: float64[runs]: mean probability of "human" of its captions.
        human: float64[runs]: the same of human captions.
        performance: float64[runs]: s(Θ, D).
        items: float64[images]: each caption's score, averaged over runs, in the order of its captions.
    """

    system: str
    images: int
    scores: Floats
    human: Floats
    performance: Floats
    items: Floats = field(repr=False)

    @staticmethod
    def spread(values: Floats) -> float:
        """Standard deviation over runs (n − 1); 0 for one run."""
        return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def judge(
    submission: CaptionSet,
    recipe: CriticRecipe,
    folder: Path,
    *,
    name: str,
    runs: int = 1,
    samples: Samples | None = None,
    features: FeatureFile | None = None,
    device: str = "cpu",
) -> SubmissionScores:
    """Judges one submission.

    Args:
        submission: one caption per image, with at least two references each.
        recipe: settings of the critics; its seed is that of the first run.
        folder: of the critics; an interrupted judging is resumed.
        name: the submission's name.
        runs: critics per fold, with consecutive seeds.
        samples: Monte-Carlo samples of the submission's captioner by image id.
        features: image features, for critics that see the image.
        device: a torch device.

    Raises:
        InputError: an image has several captions or fewer than two references.
    """
    from capmeter_research.papers.leic.training.training import train_critic

    _check(submission, name)
    image_folds = np.array([fold_of(image) for image in submission.image_ids])
    if min((image_folds == 0).sum(), (image_folds == 1).sum()) < 2:
        have = format_count(len(submission), "image is", "images are")
        raise InputError(f"{name}: {have} too few for two folds; give more captions")
    captioned_images = [_image(caption, samples or {}) for caption in submission]
    machine, human = np.zeros((runs, len(submission))), np.zeros((runs, len(submission)))
    for run in range(runs):
        for unseen in (0, 1):
            learned = [image for image, of in zip(captioned_images, image_folds.tolist(), strict=True) if of != unseen]
            critic_folder = folder / name / f"seed-{recipe.seed + run}-fold-{unseen}"
            train_critic(
                learned, (), replace(recipe, seed=recipe.seed + run), critic_folder, features=features, device=device
            )
            rows = np.flatnonzero(image_folds == unseen)
            metric = Leic(
                checkpoint=str(critic_folder), features=features.path if features and recipe.sees_image else None
            )
            for scores, captions in ((machine, submission.select(rows)), (human, _human(submission, rows))):
                scores[run, rows] = evaluate(captions, [metric])[metric].items.array
    performance = (1 - machine.mean(axis=1) + human.mean(axis=1)) / 2
    return SubmissionScores(
        name, len(submission), machine.mean(axis=1), human.mean(axis=1), performance, machine.mean(axis=0)
    )


@dataclass(frozen=True, eq=False)
class Scatter:
    """Submissions' scores against what people say of them (Figure 7): both by submission, Pearson's r and its p."""

    people: Mapping[str, float]
    scores: Mapping[str, float]
    pearson: float
    p: float


def ratings(systems: Mapping[str, CaptionSet], file: Path | None = None) -> dict[str, float]:
    """What people say of each submission: the values in this JSON file, or the mean of its captions' ratings.

    Raises:
        InputError: the file is not an object of numbers, or lacks a submission.
    """
    if file is None:
        mean_ratings = {}
        for system_name, captions in systems.items():
            caption_means = [np.mean(caption_ratings) for caption_ratings in captions.humans if caption_ratings]
            if caption_means:
                mean_ratings[system_name] = float(np.mean(caption_means))
        return mean_ratings
    saved = decode_json(CaptionSource.resolve(file).read_text(), str(file))
    try:
        ratings_by_system = {str(system_name): float(value) for system_name, value in saved.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f'{file}: expected what people say of each submission, {{"NAME": 0.27}} ({error})') from error
    unrated_systems = [system_name for system_name in systems if system_name not in ratings_by_system]
    if unrated_systems:
        raise InputError(f"{file}: has no value of {', '.join(unrated_systems)}; it has {', '.join(ratings_by_system)}")
    return {system_name: ratings_by_system[system_name] for system_name in systems}


def against_people(submissions: Sequence[SubmissionScores], people: Mapping[str, float]) -> Scatter | None:
    """The scatter of the submissions that people rated; None if these are fewer than three."""
    scores_by_system = {each.system: float(each.scores.mean()) for each in submissions if each.system in people}
    if len(scores_by_system) < _LEAST:
        return None
    human_scores = {system_name: people[system_name] for system_name in scores_by_system}
    x, y = list(human_scores.values()), list(scores_by_system.values())
    return Scatter(human_scores, scores_by_system, float(Pearson(x, y)()), association_test(x, y))


def fold_of(image: str) -> int:
    """The fold of an image, by a hash of its id: the same for every submission."""
    return hashlib.sha256(f"fold {image}".encode("utf-8", "surrogatepass")).digest()[0] % 2


def _check(submission: CaptionSet, system_name: str) -> None:
    if len(set(submission.image_ids)) < len(submission):
        raise InputError(f"{system_name}: several captions of one image; expected one caption per image, of one system")
    few_references = [
        image_id
        for image_id, reference_count in zip(submission.image_ids, submission.references.lengths, strict=True)
        if reference_count < 2
    ]
    if few_references:
        have = format_count(len(few_references), "image has", "images have")
        raise InputError(
            f"{system_name}: {have} fewer than two references (the first: {', '.join(few_references[:5])}); one is the "
            "context and another the human caption, so give more, or leave these images out"
        )


def _image(caption: Caption, samples: Samples) -> CaptionedImage:
    image_samples = samples.get(caption.image_id, ())
    return CaptionedImage(
        caption.image_id,
        caption.references,
        (MachineText(caption.candidate),),
        tuple(MachineText(sample_text) for sample_text in image_samples),
    )


def _human(captions: CaptionSet, caption_rows: npt.NDArray[np.int64]) -> CaptionSet:
    """One human caption of each image, drawn by a hash of its id, against the others."""
    human_captions = []
    for row in caption_rows.tolist():
        caption = captions[captions.ids[row]]
        digest = hashlib.sha256(f"human {caption.image_id}".encode("utf-8", "surrogatepass")).digest()
        held_index = int.from_bytes(digest[:4], "little") % len(caption.references)
        other_references = caption.references[:held_index] + caption.references[held_index + 1 :]
        human_captions.append(Caption(caption.id, caption.image_id, caption.references[held_index], other_references))
    return CaptionSet.from_captions(human_captions)


def submission_table(submissions: Sequence[SubmissionScores], scatter: Scatter | None = None) -> Table:
    """One row per submission: its score, that of human captions, and s(Θ, D), each with its deviation over runs.

    With a `scatter` also what people say of it, and their correlation.
    """
    table_rows = []
    for submission in sorted(submissions, key=lambda submission: -submission.scores.mean()):
        score_groups = (submission.scores, submission.human, submission.performance)
        cells = [
            f"{value.mean():.4f}" + (f" ± {submission.spread(value):.4f}" if len(value) > 1 else "")
            for value in score_groups
        ]
        table_rows.append([submission.system, f"{submission.images:,}", *cells])
        if scatter is not None:
            table_rows[-1].append(
                f"{scatter.people[submission.system]:.4f}" if submission.system in scatter.people else "-"
            )
    runs = len(submissions[0].scores) if submissions else 0
    note = f"{runs} runs per fold: mean ± standard deviation" if runs > 1 else "one run: use --runs to see the spread"
    columns = ["submission", "images", "score: P(human)", "human captions", "s(Θ, D)"]
    if scatter is not None:
        columns.append("people")
        note += f"; Pearson's r with people: {scatter.pearson:.3f} (p {scatter.p:.3f}, permutation test)"
    title = "submissions, each judged by critics trained against it alone"
    return Table(title, columns, table_rows, [False] + [True] * (len(columns) - 1), note)


def submission_to_dict(submissions: Sequence[SubmissionScores], scatter: Scatter | None = None) -> dict[str, Any]:
    """The same for a program, with the value of each run."""
    human_scores = {} if scatter is None else scatter.people
    return {
        submission.system: {
            "images": submission.images,
            "score": float(submission.scores.mean()),
            "deviation": submission.spread(submission.scores),
            "scores": submission.scores.tolist(),
            "human": submission.human.tolist(),
            "performance": submission.performance.tolist(),
            **({"people": human_scores[submission.system]} if submission.system in human_scores else {}),
        }
        for submission in submissions
    }


@house_style()
def submission_figure(submissions: Sequence[SubmissionScores], scatter: Scatter) -> Any:
    """Figure 7: the scores of submissions against what people say of them; bars: standard deviation over runs."""
    figure, axes = open_figure(width=5.4, height=4.4)
    panel = axes[0, 0]
    names = list(scatter.people)
    x, y = (np.array([values[name] for name in names]) for values in (scatter.people, scatter.scores))
    spread = {submission.system: submission.spread(submission.scores) for submission in submissions}
    line_ends = np.array([x.min(), x.max()])
    panel.plot(line_ends, np.polyval(np.polyfit(x, y, 1), line_ends), color="#B0B0B0", linewidth=1, zorder=1)
    panel.errorbar(x, y, [spread[name] for name in names], fmt="o", color=COLOURS[0], elinewidth=1, zorder=2)
    for name, point in zip(names, zip(x, y, strict=True), strict=True):
        panel.annotate(name, point, xytext=(5, 3), textcoords="offset points", fontsize=7.5)
    panel.set_xlabel("people")
    panel.set_ylabel("score: P(human)")
    panel.set_title(f"Pearson's r {scatter.pearson:.3f}, p {scatter.p:.3f}")
    return figure
