"""The training of the word error tagger of the metric `capmeter`, with the lower layers of its encoder.

The loss is that of words (`word_loss.py`), on captions with one wrong word, with several wrong words, and on captions
of other photos, whose content words are wrong if no caption of the photo has them. The encoder's layers have low-rank
adapters (`capmeter.encoders.text.layers`), which are trained with the tagger; the layers of an encoder without adapters
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

from capmeter.core.ragged import gather
from capmeter.encoders import Encoder, PieceTable, load_encoder
from capmeter.encoders.text.bert import Bert
from capmeter.metrics.own.network import TaggerShape, WordErrorTagger
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO
from capmeter_research.common.transformer.network import AdaptedLayers
from capmeter_research.networks.own_metric.batch import BatchRow, CaptionBatch
from capmeter_research.networks.own_metric.examples import PerturbedCaption, PhotoExamples
from capmeter_research.networks.own_metric.perturbations import OTHER_PHOTO, unsupported_words
from capmeter_research.networks.own_metric.recipe import TaggerRecipe
from capmeter_research.networks.own_metric.training import held_out_batch
from capmeter_research.networks.own_metric.word_loss import LaidOutCaptions, WordLearner

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
        length_order = np.argsort(pieces.lengths, kind="stable")
        state_parts = []
        for batch_rows in np.split(length_order, range(_ENCODER_BATCH, len(length_order), _ENCODER_BATCH)):
            ids, mask = pieces.padded(batch_rows)
            padding = ((0, _ENCODER_BATCH - len(batch_rows)), (0, 0))  # products of shapes seen before are much faster
            padded_mask = torch.from_numpy(np.pad(mask, padding)).to(device)
            states = layers.states(torch.from_numpy(np.pad(ids, padding)).to(device), padded_mask)
            state_parts.append(states[padded_mask])
        piece_positions, _ = gather(pieces.offsets, length_order)
        return torch.cat(state_parts)[torch.from_numpy(np.argsort(piece_positions)).to(device)]


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
        held_out_photos = slice(examples.train_count, examples.matcher_count)
        self.photos = np.delete(np.arange(len(examples.captions)), held_out_photos)
        base_encoder = examples.encoder.unadapted
        encoder = load_encoder(base_encoder, examples.settings)
        tagger = WordErrorTagger(TaggerShape(**self.shape_sizes(encoder.width)), recipe.dropout)
        layers = None
        if recipe.rank and Bert.supports(base_encoder.folder):
            layers = AdaptedLayers(Bert(base_encoder.folder, device, torch.float32), recipe.rank, layer)
        self.network, self.module = tagger, TaggerModule(layers, encoder, layer, tagger)

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """AdamW, with a lower learning rate for the encoder's adapters."""
        recipe, layers = self.recipe, self.module.layers
        parameter_groups: list[dict[str, Any]] = [{"params": list(self.network.parameters())}]
        if layers is not None:
            parameter_groups.append({"params": layers.adapter_parameters(), "lr_scale": recipe.encoder_lr_scale})
        return torch.optim.AdamW(parameter_groups, lr=lr, weight_decay=recipe.weight_decay)

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
        sentence_numbers = np.unique(np.concatenate([[row.candidate, *row.references] for row in rows]))
        pieces = self.examples.pieces.take(sentence_numbers)
        return TaggerStep(pieces, [self.lay_out(caption_batch, pieces, sentence_numbers) for caption_batch in batches])

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
        for photo in rng.integers(0, examples.train_count, self.recipe.perturbed_photos).tolist():
            references = examples.captions[photo, 1 + rng.permutation(CAPTIONS_PER_PHOTO - 1)[:reference_count]]
            perturbed_captions = [
                perturbation for perturbation in examples.perturbed[photo] if perturbation.wrong_words
            ]
            batch.add_with_perturbations(int(examples.captions[photo, 0]), references, perturbed_captions, photo)
        for photo, other_photo in rng.choice(self.photos, (self.recipe.other_photo_captions, 2)).tolist():
            candidate, captions = (
                int(examples.captions[other_photo, rng.integers(CAPTIONS_PER_PHOTO)]),
                examples.captions[photo],
            )
            reference_texts = [examples.sentences[sentence] for sentence in captions.tolist()]
            wrong_words = unsupported_words(examples.sentences[candidate], reference_texts)
            references = captions[rng.permutation(CAPTIONS_PER_PHOTO)[:reference_count]]
            perturbed_caption = PerturbedCaption(OTHER_PHOTO, candidate, 1.0, wrong_words)
            row = BatchRow(
                candidate, references, perturbation=perturbed_caption, original=len(batch.rows), photo=other_photo
            )
            batch.rows.append(row)
        return batch

    def forward(self, step: TaggerStep) -> list[Tensor]:
        """The logits (candidates, pieces) of being right, of each group of captions."""
        states = self.module.states(step.pieces).to(self.device_name)
        inputs = [self.inputs(captions, states) for captions in step.captions]
        with torch.autocast(torch.device(self.device_name).type, enabled=False):
            return [self.network(*network_inputs) for network_inputs in inputs]

    def logits(self) -> list[Floats]:
        """The logits of the pieces of each caption of `tagger_batch`."""
        batch_rows = tagger_batch(self.examples).rows
        caption_logits: list[Floats] = []
        with torch.no_grad():
            for batch_start in range(0, len(batch_rows), _EVALUATION_BATCH):
                step = self.lay_out_step(CaptionBatch(batch_rows[batch_start : batch_start + _EVALUATION_BATCH]))
                (logits,), (captions,) = self.forward(step), step.captions
                masks = captions.candidates.word_mask
                caption_logits.extend(
                    piece_logits[mask]
                    for piece_logits, mask in zip(logits.cpu().numpy().astype(np.float64), masks, strict=True)
                )
        return caption_logits

    def evaluate(self) -> Mapping[str, float]:
        """`detection_rates` on held-out photos."""
        return detection_rates(*split_by_label(self.examples, self.logits()))


def tagger_batch(examples: PhotoExamples) -> CaptionBatch:
    """`held_out_batch`, then the same photos' other captions, each with the photo's others as references."""
    batch = held_out_batch(examples)
    for photo_captions in examples.captions[examples.train_count : examples.matcher_count]:
        for caption_index in range(1, CAPTIONS_PER_PHOTO):
            batch.add_with_perturbations(
                int(photo_captions[caption_index]), np.delete(photo_captions, caption_index), ()
            )
    return batch


def split_by_label(examples: PhotoExamples, values: Sequence[Floats]) -> tuple[Floats, dict[str, Floats]]:
    """Values of the pieces of unperturbed captions, and by kind those of wrong words.

    Args:
        examples: the photos.
        values: for each caption of `tagger_batch`, (pieces).
    """
    right_values: list[Floats] = []
    wrong_values: dict[str, list[Floats]] = {}
    for batch_row, piece_values in zip(tagger_batch(examples).rows, values, strict=True):
        perturbed = batch_row.perturbation
        if perturbed is None:
            right_values.append(piece_values)
        elif perturbed.wrong_words and (words := examples.word_indices(batch_row.candidate)) is not None:
            wrong_values.setdefault(perturbed.kind, []).append(piece_values[np.isin(words, perturbed.wrong_words)])
    return np.concatenate(right_values), {
        kind: np.concatenate(kind_values) for kind, kind_values in sorted(wrong_values.items())
    }


def detection_rates(right: Floats, wrong: Mapping[str, Floats]) -> dict[str, float]:
    """By kind the share of the pieces of wrong words that are flagged if `FALSE_ALARM_RATE` of right pieces are.

    >>> detection_rates(np.arange(1000.0), {"exchange": np.array([3.0, 500.0])})
    {'wrong words flagged, exchange': 0.5}
    """
    threshold = np.quantile(right, FALSE_ALARM_RATE)
    return {f"wrong words flagged, {kind}": float((logits < threshold).mean()) for kind, logits in wrong.items()}
