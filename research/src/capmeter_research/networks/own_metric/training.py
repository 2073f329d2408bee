"""The training of the matcher of the metric `capmeter`: the sum of four losses. The tagger is trained with the last of
them only (`tagging.py`).

    correctness, coverage, fluency
                cross-entropy of σ(component) with its label, of a caption c and perturbations c' of it: whether
                everything in it is true, the share of words that is left, whether it is fluent; and
                log(1 + exp(2 component(c') - 2 component(c))) / 2 if c' is worse in that component; fluency of other
                captions.
                A caption of photo j is true of photo i to the degree cos(photo i, photo j)^target_power, to the fourth
                power
    words       cross-entropy of each word of c and c' that is known to be right or wrong, and of more captions with one
                wrong word each; wrong words have three times the weight

cos compares the mean embeddings of all captions of the two photos: a soft target. A caption has one to five references,
so that the network works with any number of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from capmeter.core.ragged import Ragged
from capmeter.metrics.own.network import SCORE_TERMS, Matcher, MatcherOutput, MatcherShape
from capmeter_research.common.corpus import CAPTIONS_PER_PHOTO
from capmeter_research.common.similar_photos import nearest_neighbours
from capmeter_research.networks.own_metric.batch import BatchRow, CaptionBatch
from capmeter_research.networks.own_metric.examples import PhotoExamples
from capmeter_research.networks.own_metric.perturbations import DISFLUENT_KINDS, OMISSION_KINDS, TRUE_KINDS
from capmeter_research.networks.own_metric.recipe import CapmeterRecipe
from capmeter_research.networks.own_metric.word_loss import LaidOutCaptions, WordLearner

PAIRWISE_ACCURACY = "pairwise accuracy"
"""The mean, over kinds of perturbation, of the share of perturbed captions that score below their original."""
_FLUENCY_UNKNOWN = ("substitution", "pos-substitution")
_NEIGHBOURS = 200
_OWN_SHARE, _NEIGHBOUR_SHARE = 0.3, 0.75  # cumulative: pairs with the photo's own caption, or that of a near photo
_TRUE_EXPONENT = 4.0  # captions of other photos are rarely true in every word
_EVALUATION_BATCH = 256


class CapmeterLearner(WordLearner):
    """The matcher in training. A batch is whether only the word loss is used."""

    recipe: CapmeterRecipe

    def __init__(self, examples: PhotoExamples, recipe: CapmeterRecipe, device: str = "cpu") -> None:
        super().__init__(examples, recipe, device)
        self.states = torch.from_numpy(examples.encodings.table.states).to(device)
        sizes = self.shape_sizes(self.states.shape[1])
        shape = MatcherShape(**sizes, component_weights=recipe.score_weights)
        self.network = self.module = Matcher(shape, recipe.dropout)
        self._photo_embeddings = examples.photo_embeddings()
        self._neighbours = nearest_neighbours(self._photo_embeddings, _NEIGHBOURS)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[bool]:
        """For each step whether only the word loss is used."""
        return [epoch < self.recipe.word_only_epochs] * self.recipe.steps

    def prepare(self, batch: bool, rng: np.random.Generator) -> list[LaidOutCaptions]:
        """The captions of a step: for the word loss, and unless it is used alone those of `sample_batch` and
        `sample_fluency_batch`.
        """
        batches = [self.sample_word_batch(rng, int(rng.integers(1, CAPTIONS_PER_PHOTO)))]
        if not batch:
            batches += [self.sample_batch(rng), self.sample_fluency_batch(rng)]
        return [self.lay_out(caption_batch) for caption_batch in batches]

    def losses(self, batch: list[LaidOutCaptions], rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        recipe, (word_captions, *other_captions) = self.recipe, batch
        word_loss = self.word_loss((word_captions, self.forward(word_captions).right))
        if not other_captions:
            return {"words": recipe.word_loss_weight * word_loss}
        captions, fluency_captions = other_captions
        output = self.forward(captions)
        word_loss = word_loss + self.word_loss((captions, output.right))
        losses = {"words": recipe.word_loss_weight * word_loss}
        for component_name in ("correctness", "coverage"):
            component_loss = self._component_loss(component_name, getattr(output, component_name), captions.batch)
            losses[component_name] = recipe.component_loss_weight * component_loss
        candidates, _, lm_features = self.inputs(fluency_captions, self.states)
        flow = self.network.pool_flow(candidates, lm_features)
        losses["fluency"] = self._component_loss("fluency", self.network.fluency(flow)[:, 0], fluency_captions.batch)
        return losses

    def _component_loss(self, component_name: str, logits: Tensor, batch: CaptionBatch) -> Tensor:
        """The loss of a component: on the labels of all captions, and on perturbations that are worse in it."""
        labels = torch.tensor(
            [_component_label(component_name, row, row_index) for row_index, row in enumerate(batch.rows)],
            device=self.device_name,
        )
        original_rows = torch.tensor([row.original for row in batch.rows], device=self.device_name)
        worse_rows = torch.nonzero((original_rows >= 0) & (labels < 1))[:, 0]
        is_known = labels.isfinite()
        loss = binary_cross_entropy_with_logits(logits[is_known], labels[is_known])
        if not len(worse_rows):
            return loss
        return loss + softplus(2 * (logits[worse_rows] - logits[original_rows[worse_rows]])).mean() / 2

    def sample_fluency_batch(self, rng: np.random.Generator) -> CaptionBatch:
        """Captions of a step for fluency, without references: of some photos one, of others one with perturbations."""
        captions, batch = self.examples.captions, CaptionBatch()
        no_references = np.zeros(0, np.int64)
        for photo in rng.integers(0, self.examples.train_count, self.recipe.fluency_photos).tolist():
            batch.rows.append(BatchRow(int(captions[photo, rng.integers(CAPTIONS_PER_PHOTO)]), no_references))
        for photo in rng.integers(0, self.examples.train_count, self.recipe.fluency_photos).tolist():
            batch.add_with_perturbations(int(captions[photo, 0]), no_references, self.examples.perturbed[photo])
        return batch

    def sample_batch(self, rng: np.random.Generator) -> CaptionBatch:
        """Captions of a step: with references of similar photos, and with perturbations."""
        recipe, captions, batch = self.recipe, self.examples.captions, CaptionBatch()
        embeddings, photo_count = self._photo_embeddings, self.examples.train_count
        reference_count = int(rng.integers(1, CAPTIONS_PER_PHOTO + 1))  # one number per step saves padding
        for photo in rng.integers(0, photo_count, recipe.pairs).tolist():
            kind_draw, caption_order = rng.random(), rng.permutation(CAPTIONS_PER_PHOTO)
            if kind_draw < _OWN_SHARE:
                references = captions[photo, caption_order[1 : 1 + min(reference_count, CAPTIONS_PER_PHOTO - 1)]]
                batch.rows.append(BatchRow(int(captions[photo, caption_order[0]]), references, 1.0))
                continue
            if kind_draw < _NEIGHBOUR_SHARE:
                neighbour_rank = min(self._neighbours.shape[1] - 1, int(rng.exponential(recipe.mean_neighbour_rank)))
                other_photo = int(self._neighbours[photo, neighbour_rank])
            else:
                other_photo = int(rng.integers(photo_count))
            similarity = (
                1.0
                if photo == other_photo
                else max(0.0, float(embeddings[photo] @ embeddings[other_photo])) ** recipe.target_power
            )
            candidate = int(captions[other_photo, rng.integers(CAPTIONS_PER_PHOTO)])
            batch.rows.append(BatchRow(candidate, captions[photo, caption_order[:reference_count]], similarity))
        for photo in rng.integers(0, photo_count, recipe.perturbed_photos).tolist():
            references = captions[photo, 1 + rng.permutation(CAPTIONS_PER_PHOTO - 1)[:reference_count]]
            batch.add_with_perturbations(int(captions[photo, 0]), references, self.examples.perturbed[photo])
        return batch

    def forward(self, captions: LaidOutCaptions) -> MatcherOutput:
        """The network's output."""
        batch = captions.batch
        references = Ragged.from_rows([reference_rows.tolist() for reference_rows in batch.references], np.int64)
        similarities = self.examples.encodings.similarities(np.array(batch.candidates, np.int64), references)
        candidates, reference_pieces, lm_features = self.inputs(captions, self.states)
        similarity_tensor = torch.from_numpy(similarities).to(self.device_name)
        output: MatcherOutput = self.module(candidates, reference_pieces, similarity_tensor, lm_features)
        return output

    def evaluate(self) -> Mapping[str, float]:
        """Pairwise accuracy on held-out photos, by kind of perturbation and mean."""
        batch = held_out_batch(self.examples)
        return pairwise_accuracy(batch, self.logits(batch)["score"])

    def logits(self, batch: CaptionBatch) -> dict[str, NDArray[np.float64]]:
        """The score and its terms (captions), as logits."""
        term_logits: dict[str, list[NDArray[np.float64]]] = {term_name: [] for term_name in ("score", *SCORE_TERMS)}
        with torch.no_grad():
            for batch_start in range(0, len(batch.rows), _EVALUATION_BATCH):
                output = self.forward(
                    self.lay_out(CaptionBatch(batch.rows[batch_start : batch_start + _EVALUATION_BATCH]))
                )
                for term_name, logit_parts in term_logits.items():
                    logit_parts.append(getattr(output, term_name).cpu().numpy().astype(np.float64))
        return {term_name: np.concatenate(logit_parts) for term_name, logit_parts in term_logits.items()}


def held_out_batch(examples: PhotoExamples) -> CaptionBatch:
    """The held-out photos' first captions with the others as references, each followed by its perturbations."""
    batch = CaptionBatch()
    for photo in range(examples.train_count, examples.matcher_count):
        captions = examples.captions[photo]
        batch.add_with_perturbations(int(captions[0]), captions[1:], examples.perturbed[photo])
    return batch


def pairwise_accuracy(batch: CaptionBatch, scores: NDArray[np.float64]) -> dict[str, float]:
    """By kind the share of perturbed captions that score below their original, and the mean over kinds.

    Args:
        batch: captions with their perturbations.
        scores: (captions).
    """
    below_original: dict[str, list[bool]] = {}
    for row_index, batch_row in enumerate(batch.rows):
        if batch_row.perturbation is not None:
            below_original.setdefault(batch_row.perturbation.kind, []).append(
                bool(scores[row_index] < scores[batch_row.original])
            )
    kind_shares = {kind: float(np.mean(is_below)) for kind, is_below in sorted(below_original.items())}
    return {**kind_shares, PAIRWISE_ACCURACY: float(np.mean(list(kind_shares.values() or (0.0,))))}


def _component_label(component_name: str, row: BatchRow, row_index: int) -> float:
    """The label of a component of a caption, 0 to 1; nan if it is unknown."""
    perturbed = row.perturbation
    if perturbed is None:
        if row.original == row_index or component_name == "fluency":
            return 1.0
        return float(row.target**_TRUE_EXPONENT)
    if component_name == "correctness":
        return float(perturbed.kind in TRUE_KINDS)
    if component_name == "coverage":
        return 1.0 - perturbed.omitted if perturbed.kind in OMISSION_KINDS and perturbed.omitted else float("nan")
    return float("nan") if perturbed.kind in _FLUENCY_UNKNOWN else float(perturbed.kind not in DISFLUENT_KINDS)
