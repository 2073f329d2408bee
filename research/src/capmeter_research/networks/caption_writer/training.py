"""What the loop of training sees of a writer: batches of photos read and captions to write, and the cross-entropy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from capmeter.core.ragged import Ragged
from capmeter_research.common.loop import Learner, set_seed
from capmeter_research.common.transformer.decoding import BEGIN, PAD
from capmeter_research.networks.caption_writer.network import WriterModule
from capmeter_research.networks.caption_writer.reading import FORMS, InputCorruption, Integers, SourceReader, padded
from capmeter_research.networks.caption_writer.recipe import STEPS_PER_EPOCH, WriterRecipe

Batch = tuple[Integers, Integers]  # sources and targets, padded


class WriterLearner(Learner[Batch]):
    """A writer in training.

    Args:
        reader: of the captions to learn from.
        photos: the rows of each photo's captions in that table, consecutive and at least two: their bounds [n + 1].
        styles: the mark of each photo's style.
        held_out: sources and targets for evaluation.
        recipe: settings.
        pieces: number of subwords.
    """

    select = "log_likelihood"

    def __init__(
        self,
        reader: SourceReader,
        photos: Integers,
        styles: Integers,
        held_out: tuple[Ragged, Ragged],
        recipe: WriterRecipe,
        pieces: int,
    ) -> None:
        set_seed(recipe.seed)
        self.module: WriterModule = WriterModule(recipe.shape, pieces)
        self.reader, self.photos, self.styles, self.recipe = reader, photos, styles, recipe
        self.held_out = _make_batches(*held_out, recipe.batch)

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """Adam with the decay of Vaswani et al. (2017)."""
        return torch.optim.Adam(self.module.parameters(), lr=lr, betas=(0.9, 0.98))

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Batch]:
        """Batches of examples of about the same length, in random order; captions to write are drawn uniformly."""
        targets = rng.integers(0, len(self.reader.table), STEPS_PER_EPOCH * self.recipe.batch)
        target_photos = np.searchsorted(self.photos, targets, side="right") - 1
        read_captions = sample_other_captions(self.photos, target_photos, targets, self.recipe, rng)
        sources = self.reader.read(
            read_captions, _sample_corruption(len(targets), self.recipe, rng), self.styles[target_photos], rng
        )
        batches = _make_batches(sources, self.reader.targets.take(targets), self.recipe.batch)
        return [batches[batch_index] for batch_index in rng.permutation(len(batches))]

    def losses(self, batch: Batch, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The cross-entropy per subword."""
        return {"cross_entropy": self._cross_entropy(batch, "mean")}

    def evaluate(self) -> Mapping[str, float]:
        """The mean log-probability of a subword, and the perplexity, of held-out captions read as words."""
        total_loss, subword_count = 0.0, 0
        for batch in self.held_out:
            total_loss += float(self._cross_entropy(batch, "sum").double())
            subword_count += int((batch[1] != PAD).sum())
        return {"log_likelihood": -total_loss / subword_count, "perplexity": float(np.exp(total_loss / subword_count))}

    def _cross_entropy(self, batch: Batch, reduction: str) -> Tensor:
        sources, targets = (torch.from_numpy(array).to(self.device, non_blocking=True) for array in batch)
        logits = self.module(sources, pad(targets[:, :-1], (1, 0), value=BEGIN))
        return cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=PAD, reduction=reduction)


def _make_batches(sources: Ragged, targets: Ragged, size: int) -> list[Batch]:
    """Padded batches of examples with about the same lengths, the shortest first."""
    length_order = np.lexsort((sources.lengths, targets.lengths))
    row_groups = [length_order[batch_start : batch_start + size] for batch_start in range(0, len(length_order), size)]
    return [(padded(sources.take(group_rows), PAD), padded(targets.take(group_rows), PAD)) for group_rows in row_groups]


def sample_other_captions(
    photos: Integers, photo: Integers, targets: Integers, recipe: WriterRecipe, rng: np.random.Generator
) -> Ragged:
    """For each caption to write, one or two others of its photo, or none, to read.

    Args:
        photos: where the captions of each photo begin, and the number of all captions, (photos + 1,).
        photo: of each example, (examples,).
        targets: the captions to write, (examples,).
        recipe: how often two or none are read.
        rng: of the sample.

    Returns:
        Captions, a row per example.
    """
    start, size = photos[photo], photos[photo + 1] - photos[photo]
    first_offset = 1 + (rng.random(len(photo)) * (size - 1)).astype(np.int64)
    second_offset = 1 + (first_offset - 1 + 1 + (rng.random(len(photo)) * (size - 2)).astype(np.int64)) % (size - 1)
    target_index = targets - start
    rows = np.stack(
        [start + (target_index + first_offset) % size, start + (target_index + second_offset) % size], axis=1
    )
    read_counts = 1 + ((rng.random(len(photo)) < recipe.two) & (size > 2)).astype(np.int64)
    read_counts[rng.random(len(photo)) < recipe.blank] = 0
    return Ragged.from_lengths(rows[np.arange(2) < read_counts[:, None]], read_counts)


def _sample_corruption(count: int, recipe: WriterRecipe, rng: np.random.Generator) -> InputCorruption:
    """How examples are read, drawn from the recipe. Captions as they are lose half as much as bags."""
    uniforms = rng.random(count)
    form = np.full(count, FORMS.index("words"), np.int64)
    form[uniforms < recipe.captions] = FORMS.index("captions")
    form[uniforms >= 1 - recipe.nouns] = FORMS.index("nouns")
    lost_shares = rng.random(count) * recipe.lost
    lost_shares[form == FORMS.index("captions")] /= 2
    near_shares: npt.NDArray[np.float64] = np.zeros(count)
    return InputCorruption(form, 1 - lost_shares, near_shares, np.full(count, recipe.noise))
