"""Trains UMIC: from data to a checkpoint with its scores on held-out pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.checkpoints import Checkpoint, TrainingData
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders.batches import Precision
from capmeter_research.papers.umic.pairs import PairEncoder
from capmeter_research.papers.umic.training.evaluation import pairwise_accuracy
from capmeter_research.papers.umic.training.examples import RegionEncoder, RegionExamples, scene_examples
from capmeter_research.papers.umic.training.negatives import Negatives
from capmeter_research.papers.umic.training.training import SCENE_SHAPE, UmicLearner, UmicModule, UmicRecipe
from capmeter_research.papers.umic.training.weights import initial_weights, learn_vocabulary, uniter_checkpoint
from capmeter_research.papers.umic.uniter import UniterShape, head_shapes
from capmeter_research.papers.umic.word_piece import WordPieceTokenizer
from capmeter_research.synthetic_scenes.scenes import World

_INITIAL_STD = 0.08
"""Of the initial weights of a small network, 1 / sqrt(width): the authors' .02 suits a width of 768."""
_POSITIONS = "uniter.embeddings.position_embeddings.weight"


def sinusoids(positions: int, width: int) -> npt.NDArray[np.float32]:
    """Position embeddings (positions, width) of the Transformer (Vaswani et al. 2017): sines, then cosines.

    >>> [round(float(number), 2) for number in sinusoids(2, 4)[1]]
    [0.84, 0.01, 0.54, 1.0]
    """
    angles = np.arange(positions)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


@dataclass(frozen=True)
class StartingPoint:
    """The initial weights of a run."""

    weights: Mapping[str, Any]  # tensors by their published names
    shape: UniterShape  # of the network
    vocabulary: tuple[str, ...]  # word pieces
    lowercase: bool  # whether captions are lower-cased
    name: str  # in the checkpoint

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> StartingPoint:
        """From a checkpoint; without a ranking head, row 1 of the matching head becomes it, as in the released code.

        Heads of pretraining that are not used here are dropped. Weights in half precision are converted to single
        precision.
        """
        import torch

        shape = UniterShape(**checkpoint.parameters["shape"])
        names = {*shape.weights(), *head_shapes(shape, "itm_output"), *head_shapes(shape, "rank_output")}
        weights = {name: torch.tensor(array).float() for name, array in checkpoint.weights.items() if name in names}
        if "rank_output.weight" not in weights:
            if "itm_output.weight" not in weights:
                raise InputError(f"{checkpoint.label}: no ranking or matching head; expected UNITER's or UMIC's")
            for part_name in ("weight", "bias"):
                weights[f"rank_output.{part_name}"] = weights[f"itm_output.{part_name}"][1:].clone()
        lowercase = bool(checkpoint.parameters["lowercase"])
        return cls(weights, shape, checkpoint.vocabulary, lowercase, checkpoint.label)

    @classmethod
    def random(cls, sentences: tuple[str, ...], features: int, seed: int) -> StartingPoint:
        """Random weights of a small network, with the vocabulary of these sentences.

        The attention keys start equal to the queries, so that at first every token attends to similar ones; the
        position embeddings start as sinusoids, so that neighbours are similar.

        Args:
            sentences: whose words are the vocabulary.
            features: width of the regions' features.
            seed: of the weights.
        """
        import torch

        vocabulary = learn_vocabulary(sentences)
        shape = UniterShape(vocabulary=len(vocabulary), features=features, **SCENE_SHAPE)
        weights = initial_weights(shape, seed, _INITIAL_STD)
        for weight_name in weights:
            if ".key." in weight_name:
                weights[weight_name] = weights[weight_name.replace(".key.", ".query.")].clone()
        position_embeddings = sinusoids(shape.positions, shape.width) * np.float32(_INITIAL_STD * 2**0.5)
        weights[_POSITIONS] = torch.from_numpy(position_embeddings)
        return cls(weights, shape, vocabulary, True, "random weights")


def train_umic(
    start: StartingPoint,
    train: RegionExamples,
    held_out: RegionExamples,
    negatives: Negatives,
    recipe: UmicRecipe,
    folder: Path,
    *,
    data: tuple[TrainingData, ...],
    device: str = "cpu",
    workers: int = 1,
) -> Checkpoint:
    """Trains UMIC and writes its checkpoint.

    Args:
        start: initial weights.
        train: training examples.
        held_out: examples for model selection.
        negatives: how negatives are sampled.
        recipe: settings.
        folder: the output folder; an interrupted run there is resumed.
        data: the sources of the examples.
        device: a torch device.
        workers: processes that sample negatives.

    Returns:
        The checkpoint with the lowest loss on held-out captions, with its scores there.
    """
    from capmeter_research.common.loop import Run, set_seed

    set_seed(recipe.seed)
    tokenizer = WordPieceTokenizer(start.vocabulary, start.lowercase)
    negative_sampler = negatives.sampler(train.captions, tags=train.tags)
    negative_sampler.prepare()
    held_out_sampler = negatives.sampler(held_out.captions, vocabulary=negative_sampler.vocabulary, tags=held_out.tags)
    learner = UmicLearner(
        start.weights, start.shape, tokenizer, (train, negative_sampler), (held_out, held_out_sampler), recipe, workers
    )
    outcome = Run(learner, recipe, folder, description="training umic", device=device).train()
    checkpoint = uniter_checkpoint(
        UmicModule.published(outcome.weights),
        start.shape,
        start.vocabulary,
        lowercase=start.lowercase,
        data=data,
        training={**asdict(recipe), "negatives": str(negatives), "start": start.name},
        selection=f"the lowest ranking loss on held-out pictures: epoch {outcome.epoch} of {len(outcome.history)}",
        scores={score_name: round(value, 4) for score_name, value in outcome.scores.items()},
    )
    checkpoint.save(folder)
    return checkpoint


def evaluate_umic(
    checkpoint: Checkpoint, examples: RegionExamples, negatives: Negatives, device: str
) -> dict[str, float]:
    """`pairwise_accuracy` of a checkpoint by kind of negative, also with the matching head (`umic-c …`).

    Args:
        checkpoint: of the network.
        examples: true captions with pictures.
        negatives: their kinds.
        device: of torch.
    """
    negative_sampler = negatives.sampler(examples.captions, tags=examples.tags)
    negative_sampler.prepare()
    encoder = PairEncoder(checkpoint, Precision.from_settings(Settings(device=device, precision="float32")))
    prefixes = {"rank_output": "", "itm_output": "umic-c "}
    heads = [head for head in prefixes if head in {"rank_output", *encoder.heads}]
    accuracies = pairwise_accuracy(encoder, examples, negative_sampler, heads=heads)
    return {
        prefixes[head] + kind: value
        for head, by_kind in zip(heads, accuracies, strict=True)
        for kind, value in by_kind.items()
    }


@dataclass(frozen=True, eq=False)
class SceneData:
    """Synthetic scenes for training, selection and test, with features of their regions."""

    train: RegionExamples
    dev: RegionExamples
    test: RegionExamples
    data: tuple[TrainingData, ...]


def build_scene_data(
    sizes: tuple[int, int, int], encoder: RegionEncoder, *, seed: int = 0, workers: int = 1
) -> SceneData:
    """Renders synthetic scenes and encodes their regions.

    Args:
        sizes: numbers of scenes for training, selection and test.
        encoder: of the regions.
        seed: of the scenes.
        workers: processes that render.
    """
    split_sizes = zip(("train", "dev", "test"), sizes, strict=True)
    worlds = [World(split=name, size=size, seed=seed) for name, size in split_sizes]  # type: ignore[arg-type]
    examples = [scene_examples(world, encoder, workers) for world in worlds]
    data = tuple(TrainingData(str(worlds[k]), examples[k][1], len(examples[k][0])) for k in (0, 1))
    train, dev, test = (split_examples for split_examples, _ in examples)
    return SceneData(train, dev, test, data)
