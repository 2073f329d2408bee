"""The training of a head of InfoMetIC's shape.

L = mean (σ(s) - y)²  +  mean over pairs of captions of one picture with y_a > y_b of log(1 + exp(s_b - s_a))
    + cross-entropy of words (right or wrong)  +  cross-entropy of regions (mentioned or not)

s: the logit of the score, y: the human score, scaled to 0 to 1. Words and regions count where they are known. As in the
paper, whole captions are learned by contrast, with wrong captions of the same picture, and words by which of them were
exchanged; there the contrast is with all other captions and pictures of a batch as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from capmeter.stats.kendall import TauC
from capmeter_research.common.loop import Learner, Outcome, set_seed
from capmeter_research.papers.infometic.infometic import MIN_PROBABILITY, word_scores
from capmeter_research.papers.infometic.network import HeadOutput, HeadShape, InfoMetIC
from capmeter_research.papers.infometic.training.infometic.examples import StateExamples
from capmeter_research.papers.infometic.training.recipe import RegressorRecipe

Rows = npt.NDArray[np.int64]
_AT_ONCE = 256


class InfoMetICLearner(Learner[Rows]):
    """The learner of the shared loop; a batch is the numbers of its captions, those of a picture together."""

    select = "tau-c and words"

    def __init__(self, examples: StateExamples, shape: HeadShape, recipe: RegressorRecipe, device: str) -> None:
        set_seed(recipe.seed)
        self.examples, self.recipe, self.on = examples, recipe, device
        self.network = self.module = InfoMetIC(shape, recipe.dropout)
        self._human = torch.from_numpy(examples.rated.human.astype(np.float32)).to(device)
        self._picture = torch.from_numpy(examples.states.image).to(device)
        self._regions = torch.from_numpy(examples.regions.astype(np.float32)).to(device)
        trained_rows = examples.rated.trained
        image_order = np.argsort(examples.states.image[trained_rows], kind="stable")
        group_starts = np.flatnonzero(np.diff(examples.states.image[trained_rows][image_order])) + 1
        self._groups = np.split(trained_rows[image_order], group_starts)

    def optimizer(self, lr: float) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.module.parameters(), lr=lr, weight_decay=self.recipe.weights)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Rows]:
        """Pictures in random order, with all their captions."""
        batches: list[Rows] = []
        batch: list[Rows] = []
        for group_index in rng.permutation(len(self._groups)).tolist():
            batch.append(self._groups[group_index])
            if sum(map(len, batch)) >= self.recipe.batch:
                batches.append(np.concatenate(batch))
                batch = []
        return [*batches, np.concatenate(batch)] if batch else batches

    def losses(self, batch: Rows, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        output, rows = self._output(batch), torch.from_numpy(batch).to(self.on)
        human, score = self._human[rows], output.score.float()
        losses = {"error": (score.sigmoid() - human).square().mean()}
        same_picture = self._picture[rows][:, None] == self._picture[rows]
        is_better = same_picture & (human[:, None] > human + 1e-6)
        if is_better.any():
            losses["order"] = softplus(score - score[:, None])[is_better].mean()
        for loss_name, logits, labels in (
            ("words", output.right, self._piece_labels(batch, output.right.shape[1])),
            ("regions", output.mentioned, self._regions[rows]),
        ):
            is_labelled = labels.isfinite()
            if is_labelled.any():
                losses[loss_name] = binary_cross_entropy_with_logits(logits[is_labelled].float(), labels[is_labelled])
        return losses

    def evaluate(self) -> Mapping[str, float]:
        """On held-out images: Kendall's tau-c with the human scores, and the mean squared error.

        And shares: of pairs of a picture's captions, those in the order of their human scores; of the exchanged words
        those that are found, of the others those that are kept, of captions with wrong words those in which the worst
        word is one; of regions those that are judged rightly.
        """
        held_out = self.examples.rated.held_out
        scores = np.zeros(len(held_out))
        words: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]] = []
        regions_right: list[bool] = []
        for batch_start in range(0, len(held_out), _AT_ONCE):
            batch_rows = held_out[batch_start : batch_start + _AT_ONCE]
            output = self._output(batch_rows)
            scores[batch_start : batch_start + _AT_ONCE] = output.score.float().sigmoid().cpu().numpy()
            right = output.right.float().sigmoid().cpu().numpy().astype(np.float64)
            is_mentioned = (output.mentioned > 0).cpu().numpy()
            for k, row in enumerate(batch_rows.tolist()):
                places = self.examples.states.sentences.word_indices[self.examples.states.sentence[row]]
                words.append((word_scores(right[k], places, len(self.examples.words[row])), self.examples.words[row]))
                is_labelled = np.isfinite(self.examples.regions[row])
                regions_right.extend(is_mentioned[k, is_labelled] == (self.examples.regions[row, is_labelled] > 0.5))
        human_scores = self.examples.rated.human[held_out]
        measures = {"tau-c": float(TauC(scores, human_scores)()), "error": float(((scores - human_scores) ** 2).mean())}
        measures["right order"] = _ordered(scores, human_scores, self.examples.states.image[held_out])
        measures |= shares_of_words(words)
        if regions_right:
            measures["regions right"] = float(np.mean(regions_right))
        f1 = 0.0
        if "wrong words found" in measures:
            f1 = 0.5 * (measures["wrong words found"] + measures["right words kept"])
        return {**measures, "tau-c and words": measures["tau-c"] - measures["error"] + f1}

    def _output(self, rows: Rows) -> HeadOutput:
        output: HeadOutput = self.network(self.examples.states.batch(rows, self.on))
        return output

    def _piece_labels(self, rows: Rows, longest: int) -> Tensor:
        labels = np.full((len(rows), longest), np.nan, np.float32)
        for row_index, row in enumerate(rows.tolist()):
            pieces_of_row = self.examples.of_pieces(row)
            labels[row_index, : len(pieces_of_row)] = pieces_of_row
        return torch.from_numpy(labels).to(self.on)

    def weights(self, outcome: Outcome) -> dict[str, npt.NDArray[np.float32]]:
        """The selected weights."""
        return {weight_name: array.astype(np.float32) for weight_name, array in outcome.weights.items()}


def shares_of_words(words: Sequence[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]) -> dict[str, float]:
    """How well right and wrong words are distinguished, from each caption's scores and labels; empty without labels.

    >>> shares_of_words([(np.array([0.9, 0.2, 0.8]), np.array([1.0, 0.0, 0.0])), (np.array([0.4]), np.array([1.0]))])
    {'wrong words found': 0.5, 'right words kept': 0.5, 'worst word is wrong': 1.0}
    """
    labelled = [
        (caption_scores, labels) for caption_scores, labels in words if len(labels) and np.isfinite(labels).all()
    ]
    if not labelled:
        return {}
    scores, labels = (np.concatenate(parts) for parts in zip(*labelled, strict=True))
    is_wrong = labels < 0.5
    if not is_wrong.any() or is_wrong.all():
        return {}
    worst_is_wrong = [
        labels[int(caption_scores.argmin())] < 0.5 for caption_scores, labels in labelled if (labels < 0.5).any()
    ]
    return {
        "wrong words found": float((scores[is_wrong] < MIN_PROBABILITY).mean()),
        "right words kept": float((scores[~is_wrong] >= MIN_PROBABILITY).mean()),
        "worst word is wrong": float(np.mean(worst_is_wrong)),
    }


def _ordered(scores: npt.NDArray[np.float64], human: npt.NDArray[np.float64], pictures: Rows) -> float:
    """The share of pairs of one picture's captions, of different human scores, in the order of these."""
    in_order: list[npt.NDArray[np.bool_]] = []
    for picture in np.unique(pictures):
        same_picture = pictures == picture
        own_scores, own_human = scores[same_picture], human[same_picture]
        is_better = own_human[:, None] > own_human + 1e-6
        in_order.append((own_scores[:, None] > own_scores)[is_better])
    all_pairs = np.concatenate(in_order)
    return float(all_pairs.mean()) if len(all_pairs) else 0.0
