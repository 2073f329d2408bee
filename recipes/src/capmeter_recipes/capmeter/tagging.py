"""The training of the word error tagger of the metric `capmeter`, with the lower layers of its encoder.

The loss is that of words (`word_loss.py`), on captions with one wrong word, with several wrong words, and on captions
of other photos, whose content words are wrong if no caption of the photo has them. The encoder's layers have low-rank
adapters (`capmeter.encoders.text.lora`), which are trained with the tagger; the layers of an encoder without adapters
are frozen. Each step encodes its own sentences, so that the states of millions of others need not be stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from capmeter.encoders import Encoder, PieceTable, load_encoder
from capmeter.encoders.pieces import gather
from capmeter.encoders.text.bert import Bert
from capmeter.encoders.text.network import AdaptedLayers
from capmeter.metrics.learned.capmeter.network import TaggerShape, WordErrorTagger
from capmeter_recipes.capmeter.batch import BatchRow, CaptionBatch
from capmeter_recipes.capmeter.examples import PerturbedCaption, PhotoExamples
from capmeter_recipes.capmeter.perturbations import OTHER_PHOTO, unsupported_words
from capmeter_recipes.capmeter.recipe import TaggerRecipe
from capmeter_recipes.capmeter.training import held_out_batch
from capmeter_recipes.capmeter.word_loss import LaidOutCaptions, WordLearner
from capmeter_recipes.common.corpus import CAPTIONS_PER_PHOTO

FALSE_ALARM_RATE = 0.049
"""The share of word pieces of held-out captions that are flagged: fewer than one in twenty words of human captions."""
_LENGTH_GROUPS = 4
_ENCODER_BATCH = 64
_EVALUATION_BATCH = 256
Floats = NDArray[np.float64]


class TaggerModule(nn.Module):
    """The tagger with its encoder: adapted layers, or frozen ones."""

    def __init__(self, layers: AdaptedLayers | None, encoder: Encoder, layer: int, tagger: WordErrorTagger) -> None:
        super().__init__()
        self.layers, self.judge = layers, tagger  # names of weights in training
        self._encoder, self._layer = encoder, layer

    def states(self, pieces: PieceTable) -> Tensor:
        """The hidden states (pieces, width), in the pieces' order."""
        layers = self.layers
        if layers is None:
            return torch.from_numpy(self._encoder.hidden_states(pieces, self._layer))
        device = next(self.parameters()).device
        order = np.argsort(pieces.lengths, kind="stable")
        parts = []
        for rows in np.split(order, range(_ENCODER_BATCH, len(order), _ENCODER_BATCH)):
            ids, mask = pieces.padded(rows)
            padding = ((0, _ENCODER_BATCH - len(rows)), (0, 0))  # products of shapes seen before are much faster
            padded_mask = torch.from_numpy(np.pad(mask, padding)).to(device)
            states = layers.states(torch.from_numpy(np.pad(ids, padding)).to(device), padded_mask)
            parts.append(states[padded_mask])
        positions, _ = gather(pieces.offsets, order)
        return torch.cat(parts)[torch.from_numpy(np.argsort(positions)).to(device)]


@dataclass(frozen=True, eq=False)
class TaggerStep:
    """The captions of a step in groups, and the word pieces of their sentences."""

    pieces: PieceTable
    captions: list[LaidOutCaptions]


class TaggerLearner(WordLearner):
    """The tagger in training, on states of a lower layer, which are closer to words."""

    recipe: TaggerRecipe
    module: TaggerModule

    def __init__(self, examples: PhotoExamples, recipe: TaggerRecipe, layer: int, device: str = "cpu") -> None:
        super().__init__(examples, recipe, device)
        self.word_examples = [*examples.word_examples, *examples.tagger_examples]
        held_out = slice(examples.train_count, examples.matcher_count)
        self.photos = np.delete(np.arange(len(examples.captions)), held_out)
        base = examples.encoder.unadapted
        encoder = load_encoder(base, examples.settings)
        tagger = WordErrorTagger(TaggerShape(**self.shape_sizes(encoder.width)), recipe.dropout)
        layers = None
        if recipe.rank and Bert.supports(base.folder):
            layers = AdaptedLayers(Bert(base.folder, device, torch.float32), recipe.rank, layer)
        self.network, self.module = tagger, TaggerModule(layers, encoder, layer, tagger)

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """AdamW, with a lower learning rate for the encoder's adapters."""
        recipe, layers = self.recipe, self.module.layers
        groups: list[dict[str, Any]] = [{"params": list(self.network.parameters())}]
        if layers is not None:
            groups.append({"params": layers.adapter_parameters(), "lr_scale": recipe.encoder_lr_scale})
        return torch.optim.AdamW(groups, lr=lr, weight_decay=recipe.weight_decay)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[bool]:
        """One item per step."""
        return [True] * self.recipe.steps

    def prepare(self, batch: bool, rng: np.random.Generator) -> TaggerStep:
        """The captions of a step, in groups of similar length."""
        captions = self.sample_batch(rng)
        return self.lay_out_step(*captions.split_by_length(self.examples.pieces.lengths, _LENGTH_GROUPS))

    def lay_out_step(self, *batches: CaptionBatch) -> TaggerStep:
        """Captions laid out for the network, and their sentences, each once."""
        rows = [row for batch in batches for row in batch.rows]
        numbers = np.unique(np.concatenate([[row.candidate, *row.references] for row in rows]))
        pieces = self.examples.pieces.take(numbers)
        return TaggerStep(pieces, [self.lay_out(each, pieces, numbers) for each in batches])

    def losses(self, batch: TaggerStep, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """The loss on words."""
        parts = zip(batch.captions, self.forward(batch), strict=True)
        return {"words": self.word_loss(*parts, hard_negative_weight=self.recipe.hard_negative_weight)}

    def sample_batch(self, rng: np.random.Generator) -> CaptionBatch:
        """Captions of a step: with one wrong word, with several, and of other photos; with more often many references
        than few.
        """
        reference_count = int(rng.integers(1, CAPTIONS_PER_PHOTO, 2).max())
        examples, batch = self.examples, self.sample_word_batch(rng, reference_count)
        for i in rng.integers(0, examples.train_count, self.recipe.perturbed_photos).tolist():
            references = examples.captions[i, 1 + rng.permutation(CAPTIONS_PER_PHOTO - 1)[:reference_count]]
            perturbed = [each for each in examples.perturbed[i] if each.wrong_words]
            batch.add_with_perturbations(int(examples.captions[i, 0]), references, perturbed, i)
        for i, j in rng.choice(self.photos, (self.recipe.other_photo_captions, 2)).tolist():
            candidate, captions = int(examples.captions[j, rng.integers(CAPTIONS_PER_PHOTO)]), examples.captions[i]
            texts = [examples.sentences[each] for each in captions.tolist()]
            wrong_words = unsupported_words(examples.sentences[candidate], texts)
            references = captions[rng.permutation(CAPTIONS_PER_PHOTO)[:reference_count]]
            perturbed_caption = PerturbedCaption(OTHER_PHOTO, candidate, 1.0, wrong_words)
            row = BatchRow(candidate, references, perturbation=perturbed_caption, original=len(batch.rows), photo=j)
            batch.rows.append(row)
        return batch

    def forward(self, step: TaggerStep) -> list[Tensor]:
        """The logits (candidates, pieces) of being right, of each group of captions."""
        states = self.module.states(step.pieces).to(self.device_name)
        inputs = [self.inputs(captions, states) for captions in step.captions]
        with torch.autocast(torch.device(self.device_name).type, enabled=False):
            return [self.network(*each) for each in inputs]

    def logits(self) -> list[Floats]:
        """The logits of the pieces of each caption of `tagger_batch`."""
        rows = tagger_batch(self.examples).rows
        parts: list[Floats] = []
        with torch.no_grad():
            for start in range(0, len(rows), _EVALUATION_BATCH):
                step = self.lay_out_step(CaptionBatch(rows[start : start + _EVALUATION_BATCH]))
                (logits,), (captions,) = self.forward(step), step.captions
                masks = captions.candidates.word_mask
                parts.extend(
                    values[mask] for values, mask in zip(logits.cpu().numpy().astype(np.float64), masks, strict=True)
                )
        return parts

    def evaluate(self) -> Mapping[str, float]:
        """`detection_rates` on held-out photos."""
        return detection_rates(*split_by_label(self.examples, self.logits()))


def tagger_batch(examples: PhotoExamples) -> CaptionBatch:
    """`held_out_batch`, then the same photos' other captions, each with the photo's others as references."""
    batch = held_out_batch(examples)
    for captions in examples.captions[examples.train_count : examples.matcher_count]:
        for k in range(1, CAPTIONS_PER_PHOTO):
            batch.add_with_perturbations(int(captions[k]), np.delete(captions, k), ())
    return batch


def split_by_label(examples: PhotoExamples, values: Sequence[Floats]) -> tuple[Floats, dict[str, Floats]]:
    """Values of the pieces of unperturbed captions, and by kind those of wrong words.

    Args:
        examples: the photos.
        values: for each caption of `tagger_batch`, (pieces).
    """
    right: list[Floats] = []
    wrong: dict[str, list[Floats]] = {}
    for row, each in zip(tagger_batch(examples).rows, values, strict=True):
        perturbed = row.perturbation
        if perturbed is None:
            right.append(each)
        elif perturbed.wrong_words and (words := examples.word_indices(row.candidate)) is not None:
            wrong.setdefault(perturbed.kind, []).append(each[np.isin(words, perturbed.wrong_words)])
    return np.concatenate(right), {kind: np.concatenate(parts) for kind, parts in sorted(wrong.items())}


def detection_rates(right: Floats, wrong: Mapping[str, Floats]) -> dict[str, float]:
    """By kind the share of the pieces of wrong words that are flagged if `FALSE_ALARM_RATE` of right pieces are.

    >>> detection_rates(np.arange(1000.0), {"exchange": np.array([3.0, 500.0])})
    {'wrong words flagged, exchange': 0.5}
    """
    threshold = np.quantile(right, FALSE_ALARM_RATE)
    return {f"wrong words flagged, {kind}": float((each < threshold).mean()) for kind, each in wrong.items()}
