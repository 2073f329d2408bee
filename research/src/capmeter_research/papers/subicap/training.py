"""What the loop of training sees of a captioner: cross-entropy of captions, then the reward of sampled captions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.integrations.scst import Reward, reward, word_based
from capmeter_research.common.loop import Learner, Outcome, Run, set_seed, split_rows
from capmeter_research.common.transformer import decoding
from capmeter_research.common.transformer.decoding import BEGIN, END, PAD
from capmeter_research.papers.subicap.captioner import KIND
from capmeter_research.papers.subicap.examples import CaptionedImages
from capmeter_research.papers.subicap.network import CaptionerModule, RegionBatch
from capmeter_research.papers.subicap.recipe import CaptionerRecipe, SelfCriticalRecipe
from capmeter_research.papers.subicap.segmentation import Segmentation, plain, unaltered_length

Rows = npt.NDArray[np.int64]
CHECKED = "cider-d"
END_WORD = "<end>"
"""The word that ends a caption in a reward."""
_TOGETHER = 96
"""Number of captions, of about the same length, that are padded together."""
_CHECKED_AT_ONCE = 64


def freeze_references(
    metric: str, pictures: CaptionedImages, settings: Settings | None = None, end: str = ""
) -> Reward:
    """A metric with the captions of pictures as its references: `capmeter.reward`.

    Args:
        metric: its name.
        pictures: with captions.
        settings: of the metric.
        end: the word that ends a caption; "": none.
    """
    references: Any = pictures.references
    return reward(metric, references=references, eos=end or None, settings=settings)


def measure_captions(captions: Sequence[str], scores: Sequence[float] | npt.NDArray[Any]) -> dict[str, float]:
    """Mean of the CIDEr-D scores, mean number of words, share of distinct captions (*unique captions* of Table A.2).

    >>> measure_captions(["a cat", "a cat", "a big dog"], [1.0, 1.0, 4.0])
    {'cider_d': 2.0, 'words': 2.3333333333333335, 'distinct': 0.6666666666666666}
    """
    return {
        "cider_d": float(np.mean(scores)),
        "words": float(np.mean([len(caption.split()) for caption in captions])),
        "distinct": len(set(captions)) / len(captions),
    }


@dataclass(frozen=True, eq=False)
class Checked:
    """Held-out pictures and the metric, CIDEr-D, that judges their captions."""

    pictures: CaptionedImages
    scorer: Reward

    def scores(self, module: CaptionerModule, segmentation: Segmentation) -> dict[str, float]:
        """CIDEr-D, words and share of distinct captions, decoded greedily."""
        captions = _greedy_captions(module, segmentation, self.pictures)
        return measure_captions(captions, self.scorer(captions, self.pictures.ids))


def _greedy_captions(module: CaptionerModule, segmentation: Segmentation, pictures: CaptionedImages) -> list[str]:
    """The most probable token at each step, for every image."""
    device = next(module.parameters()).device
    decoded_captions: list[decoding.DecodedCaption] = []
    for batch_start in range(0, len(pictures), _CHECKED_AT_ONCE):
        batch_rows = np.arange(batch_start, min(batch_start + _CHECKED_AT_ONCE, len(pictures)))
        decoded_captions += decoding.greedy_search(module, _region_batch(pictures, batch_rows, device))
    return segmentation.decode([caption.pieces for caption in decoded_captions])


def _region_batch(pictures: CaptionedImages, rows: Rows, device: torch.device) -> RegionBatch:
    """The regions of these pictures."""
    return RegionBatch.from_regions([pictures.regions(row) for row in rows.tolist()], device)


class CaptionLearner(Learner[Rows]):
    """Learns captions by cross-entropy; a batch is the rows of its pictures.

    Args:
        module: the network.
        pictures: to learn from.
        tokens: of each caption of each picture, truncated, without an end.
        checked: held-out pictures.
        segmentation: the vocabulary.
        recipe: settings.
    """

    select = "cider_d"
    betas = (0.9, 0.98)  # of Vaswani et al. (2017)

    def __init__(
        self,
        module: CaptionerModule,
        pictures: CaptionedImages,
        tokens: Sequence[Sequence[Sequence[int]]],
        checked: Checked,
        segmentation: Segmentation,
        recipe: CaptionerRecipe,
    ) -> None:
        self.module: CaptionerModule = module
        self.pictures, self.tokens, self.checked, self.segmentation = pictures, tokens, checked, segmentation
        self.recipe = recipe

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Rows]:
        """All pictures in random order."""
        return split_rows(rng.permutation(len(self.pictures)), self.recipe.batch)

    def losses(self, batch: Rows, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The cross-entropy per token of several captions per image."""
        sampled_captions = [_some(self.tokens[row], self.recipe.captions, rng) for row in batch.tolist()]
        caption_pictures = np.repeat(np.arange(len(batch)), [len(captions) for captions in sampled_captions])
        read = self.module.read(_region_batch(self.pictures, batch, self.device))
        total_loss = torch.zeros((), device=self.device)
        tokens = list(chain.from_iterable(sampled_captions))
        for caption_rows, targets in _together(tokens, self.module.longest):
            target_ids = targets.to(self.device)
            picture_index = torch.from_numpy(caption_pictures[caption_rows]).to(self.device)
            scores = self.module.scores(read, pad(target_ids[:, :-1], (1, 0), value=BEGIN), picture_index)
            total_loss = total_loss + cross_entropy(
                scores.flatten(0, 1).float(), target_ids.flatten(), ignore_index=PAD, reduction="sum"
            )
        return {"cross_entropy": total_loss / sum(len(caption_tokens) + 1 for caption_tokens in tokens)}

    def evaluate(self) -> Mapping[str, float]:
        """CIDEr-D, words and distinct captions of held-out pictures."""
        return self.checked.scores(self.module, self.segmentation)


class SelfCriticalLearner(Learner[Rows]):
    """Raises the probability of sampled captions that score above the greedy caption of their picture.

        loss = - mean over samples of (r(sample) - r(greedy)) · log p(sample)

    per token, where p is the distribution that is sampled from, at the recipe's temperature. Where the reward knows
    words, a caption that ended has a last word of its own, `end`, so that truncated captions do not gain. Dropout is
    off, so that captions are samples of what is trained.

    Args:
        module: the network, trained by cross-entropy.
        pictures: to learn from.
        reward: the metric with the captions of these pictures frozen.
        end: the word that ends a caption for the reward; "": none.
        checked: held-out pictures.
        segmentation: the vocabulary.
        recipe: settings.

    Attributes:
        seconds: how long steps, and the reward in them, have taken.
    """

    select = "cider_d"
    betas = (0.9, 0.98)  # of Vaswani et al. (2017)

    def __init__(
        self,
        module: CaptionerModule,
        pictures: CaptionedImages,
        reward: Reward,
        end: str,
        checked: Checked,
        segmentation: Segmentation,
        recipe: SelfCriticalRecipe,
    ) -> None:
        self.module: CaptionerModule = module
        self.pictures, self.reward, self.end, self.checked = pictures, reward, end, checked
        self.segmentation, self.recipe = segmentation, recipe
        self.seconds = {"decoding": 0.0, "reward": 0.0, "gradient": 0.0}
        self._marked = time.perf_counter()

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Rows]:
        """All pictures in random order."""
        self._marked = time.perf_counter()
        return split_rows(rng.permutation(len(self.pictures)), self.recipe.batch)

    def losses(self, batch: Rows, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The loss of samples of each picture."""
        self._spent("gradient")  # of the step before, with the optimiser's
        self.module.eval()
        sample_count = self.recipe.samples
        pictures = _region_batch(self.pictures, batch, self.device)
        uniform = rng.random((len(batch) * sample_count, self.module.longest), dtype=np.float32)
        with torch.no_grad():
            sampled_captions = decoding.sample(
                self.module, pictures.repeated(sample_count), uniform, self.recipe.temperature
            )
            greedy_captions = decoding.greedy_search(self.module, pictures)
        self._spent("decoding")
        image_ids = [self.pictures.ids[row] for row in batch.tolist()]
        advantage = self._advantage(sampled_captions, greedy_captions, image_ids)
        self._spent("reward")
        read = self.module.read(pictures)
        total_loss = torch.zeros((), device=self.device)
        tokens = [row.pieces for row in sampled_captions]
        for caption_rows, targets in _together(tokens, self.module.longest):
            target_ids = targets.to(self.device)
            picture_index = torch.from_numpy(caption_rows // sample_count).to(self.device)
            scores = self.module.scores(read, pad(target_ids[:, :-1], (1, 0), value=BEGIN), picture_index)
            scores = scores.float() / self.recipe.temperature
            scores[..., :END] = -torch.inf  # as in sampling
            sample_losses = cross_entropy(scores.transpose(1, 2), target_ids, ignore_index=PAD, reduction="none").sum(1)
            total_loss = (
                total_loss + (sample_losses * torch.from_numpy(advantage[caption_rows]).to(sample_losses)).sum()
            )
        return {"self_critical": total_loss / sum(min(len(row) + 1, self.module.longest) for row in tokens)}

    def evaluate(self) -> Mapping[str, float]:
        """CIDEr-D, words and distinct captions of held-out pictures."""
        self._spent("gradient")
        return self.checked.scores(self.module, self.segmentation)

    def _advantage(
        self,
        sampled: Sequence[decoding.DecodedCaption],
        greedy: Sequence[decoding.DecodedCaption],
        image_ids: Sequence[str],
    ) -> npt.NDArray[np.float64]:
        """r(sample) - r(greedy)."""
        sample_count = self.recipe.samples
        rewards = self.reward(
            self._texts([*sampled, *greedy]),
            [*(image_id for image_id in image_ids for _ in range(sample_count)), *image_ids],
        )
        return rewards[: len(sampled)] - np.repeat(rewards[len(sampled) :], sample_count)

    def _texts(self, decoded: Sequence[decoding.DecodedCaption]) -> list[str]:
        texts = self.segmentation.decode([caption.pieces for caption in decoded])
        if not self.end:
            return texts
        longest = self.module.longest
        decoded_pairs = zip(texts, decoded, strict=True)
        return [
            f"{text} {self.end}".lstrip() if len(caption.pieces) < longest else text for text, caption in decoded_pairs
        ]

    def _spent(self, phase_name: str) -> None:
        now = time.perf_counter()
        self.seconds[phase_name] += now - self._marked
        self._marked = now


def _some(captions: Sequence[Sequence[int]], count: int, rng: np.random.Generator) -> list[Sequence[int]]:
    """A sample of `count` captions without replacement; all where there are no more."""
    if len(captions) <= count:
        return list(captions)
    return [captions[caption_index] for caption_index in rng.choice(len(captions), count, replace=False).tolist()]


def _together(tokens: Sequence[Sequence[int]], longest: int) -> list[tuple[Rows, Tensor]]:
    """Rows of captions with about the same length, and their tokens with an end, padded: [n, T]."""
    lengths = np.array([len(row) for row in tokens])
    padded_groups = []
    for group_rows in split_rows(np.argsort(lengths, kind="stable"), _TOGETHER):
        width = min(int(lengths[group_rows].max()) + 1, longest)
        targets = np.full((len(group_rows), width), PAD, np.int64)
        for row_index, row in enumerate(group_rows.tolist()):
            target_ids = [*tokens[row], END][:width]
            targets[row_index, : len(target_ids)] = target_ids
        padded_groups.append((group_rows, torch.from_numpy(targets)))
    return padded_groups


CROSS_ENTROPY, SELF_CRITICAL = "cross-entropy", "self-critical"
_SCALED_BY = 256  # pictures


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
    *,
    settings: Settings | None = None,
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
        settings: of the metrics.
        device: a torch device.

    Raises:
        InputError: too few pictures, or the folder holds another run.
        MissingBackend: sentencepiece is not installed.
    """
    _check(pictures, held_out)
    end = END_WORD if then is not None and word_based(then.reward) else ""
    segmentation, tokens, longest = _tokenised(pictures, recipe)
    set_seed(recipe.seed)
    module = CaptionerModule(recipe.shape(pictures.features), len(segmentation), longest + 1)
    module.scale.fill_(_size(pictures))
    checked = Checked(_first(held_out, recipe.checked), freeze_references(CHECKED, held_out, settings))
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
    caption_reward = freeze_references(then.reward, pictures, settings, end)
    checked = Checked(_first(held_out, then.checked), checked.scorer)
    critical_learner = SelfCriticalLearner(module, pictures, caption_reward, end, checked, segmentation, then)
    second = Run(critical_learner, then, folder / SELF_CRITICAL, description="captioner, self-critical", device=device)
    outcome = second.train()
    training |= {SELF_CRITICAL: asdict(then), "reward": caption_reward.signature}
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
