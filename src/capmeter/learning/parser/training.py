"""What is learned of the caption parser: tags, governors, relations to the right governor.

The loss is the sum of three cross-entropies. Batches hold sentences of one length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from capmeter.learning.loop import Learner, seeded
from capmeter.learning.parser.examples import Packed
from capmeter.learning.parser.network import ParserModule
from capmeter.learning.recipe import Recipe
from capmeter.text.parser_network import NetworkShape
from capmeter.text.parser_vocabulary import ParserVocabulary

Batch = tuple[int, npt.NDArray[np.int64]]


@dataclass(frozen=True)
class ParserRecipe(Recipe):
    """The settings of a run.

    Args:
        tokens: tokens per batch.
        told: share of sentences whose gold tags are given to the layers after tagging.
        layers: self-attention layers.
        tags_after: those before tags are predicted.
        heads: attention heads.
        width: of the states.
        hidden: width of each layer's perceptron.
        dropout: inside the network.
        word_dropout: of the words' vectors.
    """

    epochs: int = 11
    rate: float = 2.5e-3
    warmup: float = 0.02
    decay: str = "linear"
    clip: float = 2.0
    average: float = 0.997
    tokens: int = 2400
    told: float = 0.5
    layers: int = 5
    tags_after: int = 3
    heads: int = 4
    width: int = 128
    hidden: int = 384
    dropout: float = 0.1
    word_dropout: float = 0.15

    @property
    def shape(self) -> NetworkShape:
        """What the weights' shapes do not tell."""
        return NetworkShape(self.heads, self.layers, self.tags_after)


class ParserLearner(Learner[Batch]):
    """The caption parser in training.

    Args:
        examples: training sentences, packed by length.
        held_out: sentences for evaluation after each epoch.
        vocabulary: features, tags and labels.
        rareness: from `learn_vocabulary`.
        recipe: settings.
    """

    def __init__(
        self,
        examples: Mapping[int, Packed],
        held_out: Mapping[int, Packed],
        vocabulary: ParserVocabulary,
        rareness: npt.NDArray[Any],
        recipe: ParserRecipe,
    ) -> None:
        self.recipe, self.examples, self.held_out = recipe, _Tensors(examples), _Tensors(held_out)
        seeded(recipe.seed)
        self.module: ParserModule = ParserModule(
            features=len(vocabulary.features) + 2,
            tags=len(vocabulary.tags),
            labels=len(vocabulary.labels),
            shape=recipe.shape,
            width=recipe.width,
            hidden=recipe.hidden,
            dropout=recipe.dropout,
            word_dropout=recipe.word_dropout,
            rareness=torch.from_numpy(np.asarray(rareness, np.float32)),
        )

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """Adam with a shorter memory for squares."""
        return torch.optim.Adam(self.module.parameters(), lr=rate, betas=(0.9, 0.98), fused=True)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """Sentences of one length, in a new order each epoch."""
        batches: list[Batch] = []
        for length, count in self.examples.counts.items():
            order, size = rng.permutation(count), max(8, self.recipe.tokens // length)
            batches += [(length, order[start : start + size]) for start in range(0, count, size)]
        order = rng.permutation(len(batches))
        return [batches[number] for number in order]

    def losses(self, batch: Batch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """Cross-entropies of tags, governors and relations."""
        length, chosen = batch
        packed = self.examples.at(length, self.device)
        rows, *right = (values[torch.from_numpy(chosen).to(self.device)] for values in packed)
        scores = self.module(rows, right[0], right[1], told=self.recipe.told)
        return {
            name: functional.cross_entropy(given.flatten(0, 1).float(), true.flatten())
            for name, given, true in zip(("tags", "governors", "relations"), scores, right, strict=True)
        }

    def measured(self) -> Mapping[str, float]:
        """On the held-out sentences, in per cent, each head on its own (no tree is built): `tags`, `uas`, `las`."""
        right, count = np.zeros(3), 0
        for length in self.held_out.counts:
            rows, true_tags, true_heads, true_labels = self.held_out.at(length, self.device)
            tags, heads, labels = (given.argmax(-1) for given in self.module(rows, true_tags))
            governed = heads == true_heads
            right += [float(found.sum()) for found in (tags == true_tags, governed, governed & (labels == true_labels))]
            count += true_tags.numel()
        return {
            name: round(100 * float(n) / max(1, count), 2)
            for name, n in zip(("tags", "uas", "las"), right, strict=True)
        }


class _Tensors:
    """Packed sentences as tensors: rows, tags, heads, labels, moved to a device once."""

    def __init__(self, packed: Mapping[int, Packed]) -> None:
        self.counts = {length: len(group) for length, group in packed.items()}
        self._tensors = {
            length: tuple(map(torch.from_numpy, (group.rows, group.tags, group.heads, group.labels)))
            for length, group in packed.items()
        }

    def at(self, length: int, device: torch.device) -> tuple[Tensor, ...]:
        """The sentences of this length."""
        found = self._tensors[length]
        if found[0].device != device:
            found = self._tensors[length] = tuple(values.to(device) for values in found)
        return found
