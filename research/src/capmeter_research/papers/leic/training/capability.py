"""Capability (§4.2; Figures 5, 8 and 9 of Cui et al.): can a critic tell human from machine captions it has not seen?

Critics that differ in one respect (context, fusion, classifier, LSTM layers or width, augmentation) are trained alike
and score captions of held-out images: human ones, each against the image's others, and those of every captioner. A
good critic gives human captions 1 and machine captions 0; balanced s(Θ, D) is the mean of the two classes' means. (Eq.
10 averages over all pairs, where the captions of k captioners weigh k times as much as human ones.) The paper adds: a
critic trained without augmentation may tell them apart even better, and yet never look at the context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.checkpoints import TrainingData
from capmeter.core.errors import InputError
from capmeter.evaluation.runner import evaluate
from capmeter_research.common.image_features import FeatureFile
from capmeter_research.common.study_table import Part, StudyRow
from capmeter_research.papers.leic.leic import Leic
from capmeter_research.papers.leic.training.examples import CaptionedImage
from capmeter_research.papers.leic.training.recipe import MACHINE, PATHOLOGICAL, VARIED, CriticRecipe

ALL = "machine"
HUMAN = "human"
PERFORMANCE = "balanced s(Θ, D)"
_STRATEGIES: dict[str, dict[str, Any]] = {
    "concat + linear": {"fusion": "concatenation", "hidden": ()},
    "bilinear + linear": {"fusion": "bilinear", "hidden": ()},
    "concat + MLP": {"fusion": "concatenation", "hidden": (512,)},
}
_FUSIONS: dict[str, dict[str, Any]] = {
    **_STRATEGIES,
    "concat + two layers": {"fusion": "concatenation", "hidden": (512, 512)},
    "bilinear + MLP": {"fusion": "bilinear", "hidden": (512,)},
}
_LAYERS, _WIDTHS = (1, 2, 3), (128, 256, 512, 1024)


def variants(study: str, recipe: CriticRecipe, contexts: Sequence[str] = ("reference",)) -> dict[str, CriticRecipe]:
    """The recipes of a study's critics, by name.

    Args:
        Studies are `strategy` (Fig. 5: fusion and classifier, for each context), `augmentation` (with and without: Fig.
            5 and 9), `layers` or `width` (Fig. 8), and `context` or `fusion` alone.
        study: its name.
        recipe: that the variants change.
        contexts: of the studies `strategy` and `context`.

    Raises:
        InputError: there is no such study.
    """
    if study == "strategy":
        return {
            f"{variant_name}, context {context}": replace(recipe, context=context, **changed_fields)
            for context in contexts
            for variant_name, changed_fields in _STRATEGIES.items()
            if not (context == "none" and changed_fields["fusion"] == "bilinear")
        }
    if study == "augmentation":
        return {"with augmentation": recipe, "without augmentation": replace(recipe, negatives=((MACHINE, 1.0),))}
    if study == "context":
        return {f"context {context}": replace(recipe, context=context) for context in contexts}
    if study == "fusion":
        return {variant_name: replace(recipe, **changed_fields) for variant_name, changed_fields in _FUSIONS.items()}
    if study == "layers":
        return {f"{layers} layers": replace(recipe, layers=layers) for layers in _LAYERS}
    if study == "width":
        return {f"width {width}": replace(recipe, width=width) for width in _WIDTHS}
    raise InputError(f"unknown study {study!r}; expected {', '.join(VARIED[:-1])} or {VARIED[-1]}")


def without_each(recipe: CriticRecipe) -> dict[str, CriticRecipe]:
    """The recipe with all its sources of negatives, without each pathological one (T_RC, T_WP, T_RW), and without all.

    Raises:
        InputError: the recipe has no other source of negatives.
    """
    other_negatives = tuple(source_share for source_share in recipe.negatives if source_share[0] not in PATHOLOGICAL)
    if not other_negatives:
        raise InputError("without pathological negatives none are left; add machine captions: negatives=machine=3,…")
    recipes_by_name = {"all negatives": recipe}
    for source in PATHOLOGICAL:
        fewer_negatives = tuple(source_share for source_share in recipe.negatives if source_share[0] != source)
        if fewer_negatives != recipe.negatives:
            recipes_by_name[f"without {source}"] = replace(recipe, negatives=fewer_negatives)
    return {**recipes_by_name, "without augmentation": replace(recipe, negatives=other_negatives)}


def train_critics(
    images: Sequence[CaptionedImage],
    recipes: Mapping[str, CriticRecipe],
    folder: Path,
    *,
    features: FeatureFile | None = None,
    data: Sequence[TrainingData] = (),
    device: str = "cpu",
) -> dict[str, Leic]:
    """The critics that recipes give, as metrics by name; each has a folder of its own, and is resumed there.

    Args:
        images: to train on.
        recipes: by the critics' names.
        folder: of the critics' folders.
        features: of the images, for recipes that see them.
        data: describes the captions, for the checkpoints.
        device: of torch.
    """
    from capmeter_research.papers.leic.training.training import train_critic

    critic_metrics = {}
    for critic_name, recipe in recipes.items():
        critic_folder = folder / critic_name.replace(", ", "-").replace(" ", "-").replace("+", "and")
        train_critic(images, (), recipe, critic_folder, data=data, features=features, device=device)
        critic_metrics[critic_name] = Leic(
            checkpoint=str(critic_folder), features=features.path if features and recipe.sees_image else None
        )
    return critic_metrics


def capability(
    learned: Sequence[CaptionedImage],
    held_out: Sequence[CaptionedImage],
    recipes: Mapping[str, CriticRecipe],
    folder: Path,
    *,
    features: FeatureFile | None = None,
    data: Sequence[TrainingData] = (),
    device: str = "cpu",
) -> Part:
    """Trains a critic with each recipe and scores the captions of the held-out images.

    Args:
        learned: images to train on.
        held_out: images whose captions, human and machine, no critic has seen.
        recipes: by name.
        folder: of the critics; an interrupted study is resumed.
        features: image features, for critics that see the image.
        data: the files of the captions.
        device: a torch device.

    Raises:
        InputError: no held-out image has a machine caption.

    Returns:
        A row per critic: the mean scores of human captions and of each captioner's, and balanced s(Θ, D).
    """
    caption_sets = held_out_captions(held_out)
    results = []
    for critic_name, metric in train_critics(
        learned, recipes, folder, features=features, data=data, device=device
    ).items():
        mean_scores = {kind: evaluate(captions, [metric])[metric].score for kind, captions in caption_sets.items()}
        machine_score = float(np.mean([score for kind, score in mean_scores.items() if kind != HUMAN]))
        performance = (mean_scores[HUMAN] + 1 - machine_score) / 2
        results.append(StudyRow(critic_name, {**mean_scores, PERFORMANCE: performance}))
    title = f"mean scores of captions of {len(held_out):,} held-out images"
    return Part(title, (*caption_sets, PERFORMANCE), tuple(results))


def held_out_captions(images: Sequence[CaptionedImage]) -> dict[str, CaptionSet]:
    """Human captions of these images, each against the others, and each captioner's against those it had not read."""
    captions_by_kind: dict[str, list[Caption]] = {HUMAN: []}
    for image in images:
        other_captions = image.human[1:]
        captions_by_kind[HUMAN].append(Caption(image.id, image.id, image.human[0], other_captions))
        for machine_index, machine_caption in enumerate(image.machine):
            unread = tuple(caption for index, caption in enumerate(image.human) if index not in machine_caption.read)
            captions_of_system = captions_by_kind.setdefault(machine_caption.system or ALL, [])
            captions_of_system.append(Caption(f"{image.id}#{machine_index}", image.id, machine_caption.caption, unread))
    if len(captions_by_kind) == 1:
        raise InputError("none of the held-out images has a machine caption; give captions of more images")
    return {caption_kind: CaptionSet.from_captions(captions) for caption_kind, captions in captions_by_kind.items()}
