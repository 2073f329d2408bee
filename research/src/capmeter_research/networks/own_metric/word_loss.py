"""What both networks of the metric `capmeter` have in common in training: the loss on words.

It is the cross-entropy of each word piece that is known to be right or wrong. Wrong pieces have three times the weight;
for the tagger, hard negatives, which fit the sentence (`substitution`), have more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from capmeter.core.ragged import Ragged
from capmeter.encoders import PieceTable, StateTable
from capmeter.metrics.embedding.word_pieces import Pieces
from capmeter.metrics.own.network import PieceBatch, piece_batch
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO
from capmeter_research.common.loop import Learner, set_seed
from capmeter_research.networks.own_metric.batch import CaptionBatch
from capmeter_research.networks.own_metric.examples import PhotoExamples, Rows, WordExample
from capmeter_research.networks.own_metric.priors import CaptionCounts, HeldOutLanguageModel, count_captions
from capmeter_research.networks.own_metric.recipe import NetworkRecipe

HARD_NEGATIVE = "substitution"
_WRONG_WEIGHT = 3.0


@dataclass(frozen=True, eq=False)
class LaidOutCaptions:
    """Captions laid out for a network: the word pieces, without states, of n captions and of their references."""

    batch: CaptionBatch  # the captions
    candidates: Pieces  # with begin and end
    references: Pieces  # without
    lm_features: NDArray[np.float32]  # (n, c, lm_dim)
    labels: NDArray[np.float32]  # (n, c): 1 for right, 0 for wrong, nan if unknown
    hard: NDArray[np.bool_]  # (n,), hard negatives


class WordLearner(Learner[bool]):
    """The base of both learners. Captions are sampled with the step's random numbers."""

    recipe: NetworkRecipe

    def __init__(self, examples: PhotoExamples, recipe: NetworkRecipe, device: str) -> None:
        set_seed(recipe.seed)
        self.examples, self.recipe, self.device_name = examples, recipe, device
        self.word_examples: Sequence[WordExample] = examples.word_examples
        self._table = _without_states(examples.pieces)

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
        for example_number in rng.integers(0, len(self.word_examples), self.recipe.word_captions).tolist():
            word_example = self.word_examples[example_number]
            photo_captions = examples.captions[word_example.photo]
            other_captions = np.delete(photo_captions, word_example.caption)
            references = other_captions[rng.permutation(CAPTIONS_PER_PHOTO - 1)[:reference_count]]
            batch.add_with_perturbations(
                int(photo_captions[word_example.caption]), references, word_example.perturbations, word_example.photo
            )
        return batch

    def lay_out(
        self, batch: CaptionBatch, pieces: PieceTable | None = None, numbers: Rows | None = None
    ) -> LaidOutCaptions:
        """The captions laid out for the network.

        If the language model was estimated on the captions of a candidate's photo, their counts are subtracted, so
        that the candidates are as new to it as those that the metric will score.

        Args:
            batch: the captions.
            pieces: of the sentences whose states there are; None: of all sentences.
            numbers: ascending indices of these sentences.
        """
        state_table = self._table if pieces is None else _without_states(pieces)
        candidates, references = (
            Ragged.from_rows(sentence_rows, np.int64)
            for sentence_rows in (
                [[sentence] for sentence in batch.candidates],
                [sentences.tolist() for sentences in batch.references],
            )
        )
        if numbers is not None:
            candidates, references = (
                Ragged(np.searchsorted(numbers, ragged.values), ragged.offsets) for ragged in (candidates, references)
            )
        candidate_pieces = Pieces.lay_out(state_table, candidates)
        photo_counts = {photo: self._count_photo(photo) for photo in set(batch.photos)}
        return LaidOutCaptions(
            batch,
            candidate_pieces,
            Pieces.lay_out(state_table, references, ends=False),
            HeldOutLanguageModel.hold_out(
                self.examples.priors.language_model, [photo_counts[photo] for photo in batch.photos]
            ).features(candidate_pieces),
            self._word_labels(batch, candidate_pieces),
            np.array([row.perturbation is not None and row.perturbation.kind == HARD_NEGATIVE for row in batch.rows]),
        )

    def inputs(self, captions: LaidOutCaptions, states: Tensor) -> tuple[PieceBatch, PieceBatch, Tensor]:
        """The network's input: the pieces of candidates and of their references, and language-model features.

        Args:
            captions: laid out.
            states: (pieces, width), of the sentences that the captions were laid out with.
        """

        def batch_of(pieces: Pieces) -> PieceBatch:
            batch = piece_batch(pieces, self.examples.piece_features, self.device_name)
            piece_positions = torch.from_numpy(pieces.positions).to(self.device_name)
            unit_states = normalize(states[piece_positions.clamp(min=0)].float(), dim=2)
            return batch._replace(states=unit_states * (piece_positions >= 0)[:, :, None])

        lm_features = torch.from_numpy(captions.lm_features).to(self.device_name)
        return batch_of(captions.candidates), batch_of(captions.references), lm_features

    def _count_photo(self, photo: int) -> CaptionCounts | None:
        """The counts of a photo's captions, if the language model was estimated on them."""
        examples = self.examples
        if photo < examples.matcher_count:
            return None
        captions = examples.captions[photo].tolist()
        return count_captions(examples.priors.language_model, (examples.pieces[sentence] for sentence in captions))

    def _word_labels(self, batch: CaptionBatch, pieces: Pieces) -> NDArray[np.float32]:
        labels = np.full(pieces.word_mask.shape, np.nan, np.float32)
        for row_index, batch_row in enumerate(batch.rows):
            perturbed = batch_row.perturbation
            if batch_row.original < 0 or (perturbed is not None and not perturbed.wrong_words):
                continue
            if perturbed is None:
                labels[row_index, pieces.word_mask[row_index]] = 1.0
            elif (word_indices := self.examples.word_indices(perturbed.sentence)) is not None:
                labels[row_index, pieces.word_mask[row_index]] = ~np.isin(word_indices, perturbed.wrong_words)
        return labels

    def word_loss(self, *parts: tuple[LaidOutCaptions, Tensor], hard_negative_weight: float = 1.0) -> Tensor:
        """The loss on the words that are known to be right or wrong.

        Args:
            parts: captions, and the logits (captions, pieces) of each.
            hard_negative_weight: of wrong words that fit the sentence.
        """
        known_logits, known_labels, label_weights = [], [], []
        for captions, logits in parts:
            label_rows, label_columns = np.nonzero(np.isfinite(captions.labels))
            labels = captions.labels[label_rows, label_columns]
            wrong_weights = np.where(captions.hard[label_rows], _WRONG_WEIGHT * hard_negative_weight, _WRONG_WEIGHT)
            known_logits.append(
                logits.flatten()[torch.from_numpy(label_rows * logits.shape[1] + label_columns).to(self.device_name)]
            )
            known_labels.append(labels)
            label_weights.append(np.where(labels == 0, wrong_weights, 1.0).astype(np.float32))
        target, weight = (
            torch.from_numpy(np.concatenate(label_parts)).to(self.device_name)
            for label_parts in (known_labels, label_weights)
        )
        return binary_cross_entropy_with_logits(torch.cat(known_logits), target, weight)


def _without_states(pieces: PieceTable) -> StateTable:
    return StateTable(pieces, np.zeros((len(pieces.ids), 0), np.float32))
