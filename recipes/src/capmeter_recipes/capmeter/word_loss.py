"""What both networks of the metric `capmeter` have in common in training: the loss on words.

It is the cross-entropy of each word piece that is known to be right or wrong. Wrong pieces have three times the weight;
for the tagger, hard negatives, which fit the sentence (`substitution`), have more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from capmeter.core.ragged import Ragged
from capmeter.encoders import StateTable
from capmeter.metrics.embedding.word_pieces import Pieces
from capmeter.metrics.learned.capmeter.inputs import PieceFeatures, piece_batch
from capmeter.metrics.learned.capmeter.language_model import CaptionCounts
from capmeter.metrics.learned.capmeter.matching import PieceBatch
from capmeter_recipes.capmeter.batch import CaptionBatch
from capmeter_recipes.capmeter.examples import PhotoExamples, Rows, WordExample
from capmeter_recipes.capmeter.recipe import NetworkRecipe
from capmeter_recipes.common.corpus import CAPTIONS_PER_PHOTO
from capmeter_recipes.common.loop import Learner, set_seed

HARD_NEGATIVE = "substitution"
_WRONG_WEIGHT = 3.0


@dataclass(frozen=True, eq=False)
class EncodedSentences:
    """Sentences with the hidden states of their word pieces."""

    table: StateTable  # the states
    features: PieceFeatures  # static features of word pieces
    device: str = "cpu"  # of the batches
    numbers: Rows | None = None  # (sentences), ascending indices of the table's sentences; none: all sentences
    states: Tensor | None = None  # (pieces, width), unit states with gradients, in place of the table's

    def lay_out(self, sentences: Ragged, *, ends: bool) -> Pieces:
        """The pieces of rows of sentences, by sentence index."""
        if self.numbers is not None:
            sentences = Ragged(np.searchsorted(self.numbers, sentences.values), sentences.offsets)
        return Pieces.lay_out(self.table, sentences, ends=ends)

    def to_batch(self, pieces: Pieces) -> PieceBatch:
        """The pieces as input of a network."""
        batch = piece_batch(pieces, self.features, self.device)
        if self.states is None:
            return batch
        positions = torch.from_numpy(pieces.positions).to(self.device)
        return batch._replace(states=self.states[positions.clamp(min=0)] * (positions >= 0)[:, :, None])


class WordLearner(Learner[bool]):
    """The base of both learners. Batches are sampled with the step's random numbers."""

    recipe: NetworkRecipe

    def __init__(self, examples: PhotoExamples, recipe: NetworkRecipe, device: str) -> None:
        set_seed(recipe.seed)
        self.examples, self.recipe, self.device_name = examples, recipe, device
        self.word_examples: Sequence[WordExample] = examples.word_examples

    def shape_sizes(self, encoder_dim: int) -> dict[str, int]:
        """The network's sizes, as fields of its shape."""
        features, recipe = self.examples.piece_features, self.recipe
        return {
            "encoder_dim": encoder_dim,
            "static_dim": features.static.shape[1],
            "association_dim": features.associations.shape[1],
            "width": recipe.width,
            "heads": recipe.heads,
            "bottleneck_dim": recipe.bottleneck_dim,
        }

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.module.parameters(), lr=lr, weight_decay=self.recipe.weight_decay)

    def sample_word_batch(self, rng: np.random.Generator, reference_count: int) -> CaptionBatch:
        """Captions of a step with their perturbations of one word, and this number of references each."""
        examples, batch = self.examples, CaptionBatch()
        for number in rng.integers(0, len(self.word_examples), self.recipe.word_captions).tolist():
            example = self.word_examples[number]
            captions = examples.captions[example.photo]
            others = np.delete(captions, example.caption)
            references = others[rng.permutation(CAPTIONS_PER_PHOTO - 1)[:reference_count]]
            batch.add_with_perturbations(
                int(captions[example.caption]), references, example.perturbations, example.photo
            )
        return batch

    def piece_batches(
        self,
        candidates: Sequence[int],
        references: Sequence[Rows],
        encoded: EncodedSentences,
        photos: Sequence[int] = (),
    ) -> tuple[PieceBatch, PieceBatch, Tensor]:
        """The pieces of candidates and of their references, and language-model features (`candidate_batch`)."""
        batch, lm_features = self.candidate_batch(candidates, encoded, photos)
        rows = Ragged.from_rows([each.tolist() for each in references], np.int64)
        return batch, encoded.to_batch(encoded.lay_out(rows, ends=False)), lm_features

    def candidate_batch(
        self, candidates: Sequence[int], encoded: EncodedSentences, photos: Sequence[int] = ()
    ) -> tuple[PieceBatch, Tensor]:
        """The pieces of candidates, and their language-model features (candidates, pieces, lm_dim).

        Args:
            candidates: sentence indices.
            encoded: the sentences.
            photos: of each candidate. If the language model was estimated on a photo's captions, their counts are
                subtracted, so that the candidates are as new to it as those that the metric will score.
        """
        sentences = np.array(candidates, np.int64)
        pieces = encoded.lay_out(Ragged(sentences, np.arange(len(sentences) + 1, dtype=np.int64)), ends=True)
        counts = {photo: self._count_photo(photo) for photo in set(photos)}
        features = self.examples.priors.language_model.features(pieces, [counts[photo] for photo in photos])
        return encoded.to_batch(pieces), torch.from_numpy(features).to(self.device_name)

    def _count_photo(self, photo: int) -> CaptionCounts | None:
        """The counts of a photo's captions, if the language model was estimated on them."""
        examples = self.examples
        if photo < examples.matcher_count:
            return None
        captions = examples.captions[photo].tolist()
        return examples.priors.language_model.count_captions(examples.pieces[each] for each in captions)

    def word_loss(self, *parts: tuple[CaptionBatch, Tensor, PieceBatch], hard_negative_weight: float = 1.0) -> Tensor:
        """The loss on the words that are known to be right or wrong.

        Args:
            parts: captions, with the logits (captions, pieces) and the pieces of each.
            hard_negative_weight: of wrong words that fit the sentence.
        """
        labels = [self.word_labels(batch, pieces) for batch, _, pieces in parts]
        known = torch.cat([each[each.isfinite()] for each in labels])
        logits = torch.cat([values[each.isfinite()] for each, (_, values, _) in zip(labels, parts, strict=True)])
        kind_weights = []
        for each, (batch, _, _) in zip(labels, parts, strict=True):
            kinds = (row.perturbation.kind if row.perturbation else "" for row in batch.rows)
            weights = torch.tensor([hard_negative_weight if kind == HARD_NEGATIVE else 1.0 for kind in kinds])
            kind_weights.append(weights[:, None].to(self.device_name).expand_as(each)[each.isfinite()])
        weight = torch.where(known == 0, _WRONG_WEIGHT * torch.cat(kind_weights), 1.0)
        return binary_cross_entropy_with_logits(logits, known, weight)

    def word_labels(self, batch: CaptionBatch, pieces: PieceBatch) -> Tensor:
        """Labels (captions, pieces): 1 for right, 0 for wrong, nan if unknown."""
        labels = torch.full(pieces.mask.shape, torch.nan)
        for k, row in enumerate(batch.rows):
            perturbed = row.perturbation
            if row.original < 0 or (perturbed is not None and not perturbed.wrong_words):
                continue
            columns = torch.nonzero(pieces.mask[k])[:, 0]
            if perturbed is None:
                labels[k, columns.cpu()] = 1.0
                continue
            words = self.examples.word_indices(perturbed.sentence)
            if words is None:
                continue
            labels[k, columns.cpu()] = 1.0
            labels[k, columns[torch.from_numpy(np.isin(words, perturbed.wrong_words))].cpu()] = 0.0
        return labels.to(self.device_name)
