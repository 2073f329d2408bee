"""A whole run: from pictures with captions to a captioner, by cross-entropy and then by self-critical training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter_research.common.loop import Outcome, Run, set_seed
from capmeter_research.papers.subicap.captioner import KIND
from capmeter_research.papers.subicap.examples import CaptionedImages
from capmeter_research.papers.subicap.measures import CaptionScorer
from capmeter_research.papers.subicap.network import CaptionerModule
from capmeter_research.papers.subicap.recipe import CaptionerRecipe, SelfCriticalRecipe
from capmeter_research.papers.subicap.segmentation import Segmentation, plain, unaltered_length
from capmeter_research.papers.subicap.training import CaptionLearner, Checked, SelfCriticalLearner

CROSS_ENTROPY, SELF_CRITICAL = "cross-entropy", "self-critical"
CHECKED = "cider-d"
END_WORD = "<end>"
"""The word that ends a caption in a reward."""
_SCALED_BY = 256  # pictures


class RewardMetric(CaptionScorer, Protocol):
    """A frozen metric that says what affects its scores."""

    signature: str


Rewards = Callable[[str, Mapping[str, Sequence[str]], str], RewardMetric]
"""Makes a reward from a metric's name, references, and the word that ends a caption ("": none)."""


@dataclass(frozen=True, eq=False)
class CaptionerRun:
    """What a run ended with: the held-out scores after each stage, and how the seconds of self-critical steps split."""

    scores: Mapping[str, Mapping[str, float]]
    seconds: Mapping[str, float] = field(default_factory=dict)


def train_captioner(
    pictures: CaptionedImages,
    held_out: CaptionedImages,
    recipe: CaptionerRecipe,
    then: SelfCriticalRecipe | None,
    folder: Path,
    rewards: Rewards,
    *,
    end: str = "",
    device: str = "cpu",
) -> CaptionerRun:
    """Trains a captioner and writes its checkpoints; an interrupted run is resumed.

    `folder/cross-entropy` gets the captioner after cross-entropy, `folder` the final one.

    Args:
        pictures: to learn from, with captions.
        held_out: pictures with captions, whose CIDEr-D selects the epochs.
        recipe: settings.
        then: settings of self-critical training; None: there is none.
        folder: the output folder.
        rewards: makes rewards: `capmeter.reward`.
        end: the word that ends a caption for the reward, where it knows words; "": none.
        device: a torch device.

    Raises:
        InputError: too few pictures, or the folder holds another run.
        MissingBackend: sentencepiece is not installed.
    """
    _check(pictures, held_out)
    segmentation, tokens, longest = _tokenised(pictures, recipe)
    set_seed(recipe.seed)
    module = CaptionerModule(recipe.shape(pictures.features), len(segmentation), longest + 1)
    module.scale.fill_(_size(pictures))
    checked = Checked(_first(held_out, recipe.checked), rewards(CHECKED, held_out.references, ""))
    learner = CaptionLearner(module, pictures, tokens, checked, segmentation, recipe)
    run = Run(learner, recipe, folder / CROSS_ENTROPY, description="captioner, cross-entropy", device=device)
    outcome = run.train()

    data = (TrainingData("pictures", pictures.digest, len(pictures)),)
    pieces = {"kind": segmentation.kind, "model": segmentation.model}
    network_parameters = {"shape": asdict(module.shape), "segmentation": pieces, "longest": longest}
    parameters: dict[str, Any] = {"kind": KIND, "parameters": network_parameters, "data": data}
    training: dict[str, Any] = {CROSS_ENTROPY: asdict(recipe), "device": device}
    _save(folder / CROSS_ENTROPY, parameters, training, outcome)
    scores = {CROSS_ENTROPY: dict(outcome.scores)}
    if then is None:
        _save(folder, parameters, training, outcome)
        return CaptionerRun(scores)

    module.load_state_dict({name: torch.from_numpy(values) for name, values in outcome.weights.items()})
    reward = rewards(then.reward, pictures.references, end)
    checked = Checked(_first(held_out, then.checked), checked.scorer)
    critical_learner = SelfCriticalLearner(module, pictures, reward, end, checked, segmentation, then)
    second = Run(critical_learner, then, folder / SELF_CRITICAL, description="captioner, self-critical", device=device)
    outcome = second.train()
    training |= {SELF_CRITICAL: asdict(then), "reward": reward.signature}
    _save(folder, parameters, training, outcome)
    return CaptionerRun({**scores, SELF_CRITICAL: dict(outcome.scores)}, dict(critical_learner.seconds))


def _check(pictures: CaptionedImages, held_out: CaptionedImages) -> None:
    if not len(pictures) or not len(held_out):
        raise InputError(f"{len(pictures)} pictures to learn from and {len(held_out)} held out; expected some of each")
    if pictures.features != held_out.features:
        raise InputError(
            f"regions have {pictures.features} features each, but those of held-out pictures {held_out.features}; "
            "extract both in one way"
        )


def _tokenised(pictures: CaptionedImages, recipe: CaptionerRecipe) -> tuple[Segmentation, list[list[list[int]]], int]:
    """The segmentation learned from the captions, their token ids by image, and the length at which they are cut."""
    texts = [[prepared(text, recipe) for text in captions] for captions in pictures.captions]
    segmentation = Segmentation.learned(
        (text for picture_texts in texts for text in picture_texts), recipe.segmentation, recipe.pieces
    )
    tokens = [segmentation.encode(picture_texts) for picture_texts in texts]
    longest = unaltered_length([row for rows in tokens for row in rows])
    return segmentation, [[row[:longest] for row in rows] for rows in tokens], longest


def prepared(caption: str, recipe: CaptionerRecipe) -> str:
    """The caption as it is learned."""
    if recipe.plain:
        return plain(caption, recipe.words)
    words = caption.split()
    return " ".join(words[: recipe.words] if recipe.words else words)


def _first(pictures: CaptionedImages, count: int) -> CaptionedImages:
    return pictures.take(range(min(count, len(pictures))))


def _size(pictures: CaptionedImages) -> float:
    """The root mean square of the features of the first pictures."""
    features = [pictures.regions(row)[0] for row in range(min(_SCALED_BY, len(pictures)))]
    size = float(np.sqrt(np.mean(np.concatenate([array.ravel() for array in features], dtype=np.float64) ** 2)))
    return size or 1.0


def _save(folder: Path, parameters: Mapping[str, Any], training: Mapping[str, Any], outcome: Outcome) -> None:
    Checkpoint(
        **parameters,
        weights=outcome.weights,
        training=dict(training),
        selection=f"the highest CIDEr-D of held-out pictures, decoded greedily (epoch {outcome.epoch})",
        scores=dict(outcome.scores),
    ).save(folder)
