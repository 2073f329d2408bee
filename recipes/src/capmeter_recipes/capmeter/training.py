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
from capmeter.metrics.learned.capmeter.network import SCORE_TERMS, Matcher, MatcherOutput, MatcherShape
from capmeter_recipes.capmeter.batch import BatchRow, CaptionBatch
from capmeter_recipes.capmeter.examples import PhotoExamples
from capmeter_recipes.capmeter.perturbations import DISFLUENT_KINDS, OMISSION_KINDS, TRUE_KINDS
from capmeter_recipes.capmeter.recipe import CapmeterRecipe
from capmeter_recipes.capmeter.word_loss import LaidOutCaptions, WordLearner
from capmeter_recipes.common.corpus import CAPTIONS_PER_PHOTO
from capmeter_recipes.common.similar_photos import nearest_neighbours

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
        return [self.lay_out(each) for each in batches]

    def losses(self, batch: list[LaidOutCaptions], rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        recipe, (words, *more) = self.recipe, batch
        word_loss = self.word_loss((words, self.forward(words).right))
        if not more:
            return {"words": recipe.word_loss_weight * word_loss}
        captions, fluency = more
        output = self.forward(captions)
        word_loss = word_loss + self.word_loss((captions, output.right))
        losses = {"words": recipe.word_loss_weight * word_loss}
        for name in ("correctness", "coverage"):
            loss = self._component_loss(name, getattr(output, name), captions.batch)
            losses[name] = recipe.component_loss_weight * loss
        candidates, _, lm_features = self.inputs(fluency, self.states)
        losses["fluency"] = self._component_loss(
            "fluency", self.network.fluency_logit(candidates, lm_features), fluency.batch
        )
        return losses

    def _component_loss(self, name: str, logits: Tensor, batch: CaptionBatch) -> Tensor:
        """The loss of a component: on the labels of all captions, and on perturbations that are worse in it."""
        labels = torch.tensor(
            [_component_label(name, row, k) for k, row in enumerate(batch.rows)], device=self.device_name
        )
        originals = torch.tensor([row.original for row in batch.rows], device=self.device_name)
        worse = torch.nonzero((originals >= 0) & (labels < 1))[:, 0]
        known = labels.isfinite()
        loss = binary_cross_entropy_with_logits(logits[known], labels[known])
        if not len(worse):
            return loss
        return loss + softplus(2 * (logits[worse] - logits[originals[worse]])).mean() / 2

    def sample_fluency_batch(self, rng: np.random.Generator) -> CaptionBatch:
        """Captions of a step for fluency, without references: of some photos one, of others one with perturbations."""
        captions, batch = self.examples.captions, CaptionBatch()
        no_references = np.zeros(0, np.int64)
        for i in rng.integers(0, self.examples.train_count, self.recipe.fluency_photos).tolist():
            batch.rows.append(BatchRow(int(captions[i, rng.integers(CAPTIONS_PER_PHOTO)]), no_references))
        for i in rng.integers(0, self.examples.train_count, self.recipe.fluency_photos).tolist():
            batch.add_with_perturbations(int(captions[i, 0]), no_references, self.examples.perturbed[i])
        return batch

    def sample_batch(self, rng: np.random.Generator) -> CaptionBatch:
        """Captions of a step: with references of similar photos, and with perturbations."""
        recipe, captions, batch = self.recipe, self.examples.captions, CaptionBatch()
        embeddings, count = self._photo_embeddings, self.examples.train_count
        reference_count = int(rng.integers(1, CAPTIONS_PER_PHOTO + 1))  # one number per step saves padding
        for i in rng.integers(0, count, recipe.pairs).tolist():
            kind, order = rng.random(), rng.permutation(CAPTIONS_PER_PHOTO)
            if kind < _OWN_SHARE:
                references = captions[i, order[1 : 1 + min(reference_count, CAPTIONS_PER_PHOTO - 1)]]
                batch.rows.append(BatchRow(int(captions[i, order[0]]), references, 1.0))
                continue
            if kind < _NEIGHBOUR_SHARE:
                rank = min(self._neighbours.shape[1] - 1, int(rng.exponential(recipe.mean_neighbour_rank)))
                j = int(self._neighbours[i, rank])
            else:
                j = int(rng.integers(count))
            similarity = 1.0 if i == j else max(0.0, float(embeddings[i] @ embeddings[j])) ** recipe.target_power
            candidate = int(captions[j, rng.integers(CAPTIONS_PER_PHOTO)])
            batch.rows.append(BatchRow(candidate, captions[i, order[:reference_count]], similarity))
        for i in rng.integers(0, count, recipe.perturbed_photos).tolist():
            references = captions[i, 1 + rng.permutation(CAPTIONS_PER_PHOTO - 1)[:reference_count]]
            batch.add_with_perturbations(int(captions[i, 0]), references, self.examples.perturbed[i])
        return batch

    def forward(self, captions: LaidOutCaptions) -> MatcherOutput:
        """The network's output."""
        batch = captions.batch
        references = Ragged.from_rows([each.tolist() for each in batch.references], np.int64)
        similarities = self.examples.encodings.similarities(np.array(batch.candidates, np.int64), references)
        candidates, reference_pieces, lm_features = self.inputs(captions, self.states)
        tensor = torch.from_numpy(similarities).to(self.device_name)
        output: MatcherOutput = self.module(candidates, reference_pieces, tensor, lm_features)
        return output

    def evaluate(self) -> Mapping[str, float]:
        """Pairwise accuracy on held-out photos, by kind of perturbation and mean."""
        batch = held_out_batch(self.examples)
        return pairwise_accuracy(batch, self.logits(batch)["score"])

    def logits(self, batch: CaptionBatch) -> dict[str, NDArray[np.float64]]:
        """The score and its terms (captions), as logits."""
        parts: dict[str, list[NDArray[np.float64]]] = {name: [] for name in ("score", *SCORE_TERMS)}
        with torch.no_grad():
            for start in range(0, len(batch.rows), _EVALUATION_BATCH):
                output = self.forward(self.lay_out(CaptionBatch(batch.rows[start : start + _EVALUATION_BATCH])))
                for name, values in parts.items():
                    values.append(getattr(output, name).cpu().numpy().astype(np.float64))
        return {name: np.concatenate(values) for name, values in parts.items()}


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
    below: dict[str, list[bool]] = {}
    for k, row in enumerate(batch.rows):
        if row.perturbation is not None:
            below.setdefault(row.perturbation.kind, []).append(bool(scores[k] < scores[row.original]))
    shares = {kind: float(np.mean(each)) for kind, each in sorted(below.items())}
    return {**shares, PAIRWISE_ACCURACY: float(np.mean(list(shares.values() or (0.0,))))}


def _component_label(name: str, row: BatchRow, number: int) -> float:
    """The label of a component of a caption, 0 to 1; nan if it is unknown."""
    perturbed = row.perturbation
    if perturbed is None:
        if row.original == number or name == "fluency":
            return 1.0
        return float(row.target**_TRUE_EXPONENT)
    if name == "correctness":
        return float(perturbed.kind in TRUE_KINDS)
    if name == "coverage":
        return 1.0 - perturbed.omitted if perturbed.kind in OMISSION_KINDS and perturbed.omitted else float("nan")
    return float("nan") if perturbed.kind in _FLUENCY_UNKNOWN else float(perturbed.kind not in DISFLUENT_KINDS)
