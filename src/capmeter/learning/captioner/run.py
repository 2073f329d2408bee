"""A whole run: from pictures with captions to a captioner, by cross-entropy and then by self-critical training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.errors import InputError
from capmeter.learning.captioner.captioner import KIND
from capmeter.learning.captioner.examples import Pictures
from capmeter.learning.captioner.measures import Scorer
from capmeter.learning.captioner.network import CaptionerModule
from capmeter.learning.captioner.recipe import CaptionerRecipe, SelfCriticalRecipe
from capmeter.learning.captioner.segmentation import Segmentation, plain, unaltered_length
from capmeter.learning.captioner.training import CaptionLearner, Checked, SelfCriticalLearner
from capmeter.learning.loop import Outcome, Run, seeded

CROSS_ENTROPY, SELF_CRITICAL = "cross-entropy", "self-critical"
CHECKED = "cider-d"
END_WORD = "<end>"
"""The word that ends a caption in a reward."""
_SCALED_BY = 256  # pictures


class Reward(Scorer, Protocol):
    """A frozen metric that says what affects its scores."""

    signature: str


Rewards = Callable[[str, Mapping[str, Sequence[str]], str], Reward]
"""Makes a reward from a metric's name, references, and the word that ends a caption ("": none)."""


@dataclass(frozen=True, eq=False)
class Trained:
    """What a run ended with: the held-out scores after each stage, and how the seconds of self-critical steps split."""

    scores: Mapping[str, Mapping[str, float]]
    seconds: Mapping[str, float] = field(default_factory=dict)


def train_captioner(
    pictures: Pictures,
    held_out: Pictures,
    recipe: CaptionerRecipe,
    then: SelfCriticalRecipe | None,
    folder: Path,
    rewards: Rewards,
    *,
    end: str = "",
    device: str = "cpu",
) -> Trained:
    """Trains a captioner and writes its checkpoints; an interrupted run is resumed.

    `folder/cross-entropy` gets the captioner after cross-entropy, `folder` the one after self-critical training (the
    former again if there is none).

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
    if not len(pictures) or not len(held_out):
        raise InputError(f"{len(pictures)} pictures to learn from and {len(held_out)} held out; expected some of each")
    if pictures.features != held_out.features:
        raise InputError(
            f"regions have {pictures.features} features each, but those of held-out pictures {held_out.features}; "
            "extract both in one way"
        )
    texts = [[prepared(text, recipe) for text in captions] for captions in pictures.captions]
    segmentation = Segmentation.learned((text for each in texts for text in each), recipe.segmentation, recipe.pieces)
    tokens = [segmentation.encode(each) for each in texts]
    longest = unaltered_length([row for each in tokens for row in each])
    tokens = [[row[:longest] for row in each] for each in tokens]

    seeded(recipe.seed)
    module = CaptionerModule(recipe.shape(pictures.features), len(segmentation), longest + 1)
    module.scale.fill_(_size(pictures))
    checked = Checked(_first(held_out, recipe.checked), rewards(CHECKED, held_out.references, ""))
    learner = CaptionLearner(module, pictures, tokens, checked, segmentation, recipe)
    run = Run(learner, recipe, folder / CROSS_ENTROPY, description="captioner, cross-entropy", device=device)
    outcome = run.train()

    said: dict[str, Any] = {
        "kind": KIND,
        "parameters": {
            "shape": asdict(module.shape),
            "segmentation": {"kind": segmentation.kind, "model": segmentation.model},
            "longest": longest,
        },
        "data": (TrainingData("pictures", pictures.digest, len(pictures)),),
    }
    training: dict[str, Any] = {CROSS_ENTROPY: asdict(recipe), "device": device}
    _save(folder / CROSS_ENTROPY, said, training, outcome)
    scores = {CROSS_ENTROPY: dict(outcome.scores)}
    if then is None:
        _save(folder, said, training, outcome)
        return Trained(scores)

    module.load_state_dict({name: torch.from_numpy(values) for name, values in outcome.weights.items()})
    reward = rewards(then.reward, pictures.references, end)
    checked = Checked(_first(held_out, then.checked), checked.scorer)
    critical = SelfCriticalLearner(module, pictures, reward, end, checked, segmentation, then)
    second = Run(critical, then, folder / SELF_CRITICAL, description="captioner, self-critical", device=device)
    outcome = second.train()
    training |= {SELF_CRITICAL: asdict(then), "reward": reward.signature}
    _save(folder, said, training, outcome)
    return Trained({**scores, SELF_CRITICAL: dict(outcome.scores)}, dict(critical.seconds))


def prepared(caption: str, recipe: CaptionerRecipe) -> str:
    """The caption as it is learned."""
    if recipe.plain:
        return plain(caption, recipe.words)
    words = caption.split()
    return " ".join(words[: recipe.words] if recipe.words else words)


def _first(pictures: Pictures, count: int) -> Pictures:
    return pictures.take(range(min(count, len(pictures))))


def _size(pictures: Pictures) -> float:
    """The root mean square of the features of the first pictures."""
    found = [pictures.regions(row)[0] for row in range(min(_SCALED_BY, len(pictures)))]
    size = float(np.sqrt(np.mean(np.concatenate([each.ravel() for each in found], dtype=np.float64) ** 2)))
    return size or 1.0


def _save(folder: Path, said: Mapping[str, Any], training: Mapping[str, Any], outcome: Outcome) -> None:
    Checkpoint(
        **said,
        weights=outcome.weights,
        training=dict(training),
        selection=f"the highest CIDEr-D of held-out pictures, decoded greedily (epoch {outcome.epoch})",
        scores=dict(outcome.scores),
    ).save(folder)
