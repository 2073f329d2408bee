"""The training of a head of InfoMetIC's shape.

L = mean (σ(s) - y)²  +  mean over pairs of captions of one picture with y_a > y_b of log(1 + exp(s_b - s_a))
    + cross-entropy of words (right or wrong)  +  cross-entropy of regions (mentioned or not)

s: the logit of the score, y: the human score, scaled to 0 to 1. Words and regions count where they are known. As in the
paper, whole captions are learned by contrast, with wrong captions of the same picture, and words by which of them were
made wrong; there the contrast is with all other captions and pictures of a batch as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from capmeter.learning.infometic.examples import StateExamples
from capmeter.learning.loop import Learner, Outcome, seeded
from capmeter.learning.regressor.recipe import RegressorRecipe
from capmeter.metrics.regressor.infometic import WRONG, word_scores
from capmeter.metrics.regressor.network import InfoMetIC, NetworkShape, Told
from capmeter.stats.kendall import tau_c

Rows = npt.NDArray[np.int64]
_AT_ONCE = 256


class InfoMetICLearner(Learner[Rows]):
    """The learner of the shared loop; a batch is the numbers of its captions, those of a picture together."""

    select = "tau-c and words"

    def __init__(self, examples: StateExamples, shape: NetworkShape, recipe: RegressorRecipe, device: str) -> None:
        seeded(recipe.seed)
        self.examples, self.recipe, self.on = examples, recipe, device
        self.network = self.module = InfoMetIC(shape, recipe.dropout)
        self._human = torch.from_numpy(examples.rated.human.astype(np.float32)).to(device)
        self._picture = torch.from_numpy(examples.states.seen).to(device)
        self._regions = torch.from_numpy(examples.regions.astype(np.float32)).to(device)
        trained = examples.rated.trained
        order = np.argsort(examples.states.seen[trained], kind="stable")
        starts = np.flatnonzero(np.diff(examples.states.seen[trained][order])) + 1
        self._groups = np.split(trained[order], starts)

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.module.parameters(), lr=rate, weight_decay=self.recipe.weights)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[Rows]:
        """Pictures in random order, with all their captions."""
        found: list[Rows] = []
        batch: list[Rows] = []
        for k in rng.permutation(len(self._groups)).tolist():
            batch.append(self._groups[k])
            if sum(map(len, batch)) >= self.recipe.batch:
                found.append(np.concatenate(batch))
                batch = []
        return [*found, np.concatenate(batch)] if batch else found

    def losses(self, batch: Rows, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        told, rows = self._told(batch), torch.from_numpy(batch).to(self.on)
        human, score = self._human[rows], told.score.float()
        losses = {"error": (score.sigmoid() - human).square().mean()}
        same = self._picture[rows][:, None] == self._picture[rows]
        better = same & (human[:, None] > human + 1e-6)
        if better.any():
            losses["order"] = softplus(score - score[:, None])[better].mean()
        for name, logits, labels in (
            ("words", told.right, self._piece_labels(batch, told.right.shape[1])),
            ("regions", told.mentioned, self._regions[rows]),
        ):
            known = labels.isfinite()
            if known.any():
                losses[name] = binary_cross_entropy_with_logits(logits[known].float(), labels[known])
        return losses

    def measured(self) -> Mapping[str, float]:
        """On held-out images: Kendall's tau-c with the human scores, and the mean squared error.

        And shares: of pairs of a picture's captions, those in the order of their human scores; of the words made wrong
        those that are found, of the others those that are kept, of captions with wrong words those in which the worst
        word is one; of regions those that are judged rightly.
        """
        held_out = self.examples.rated.held_out
        scores = np.zeros(len(held_out))
        words: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]] = []
        regions: list[bool] = []
        for start in range(0, len(held_out), _AT_ONCE):
            rows = held_out[start : start + _AT_ONCE]
            told = self._told(rows)
            scores[start : start + _AT_ONCE] = told.score.float().sigmoid().cpu().numpy()
            right = told.right.float().sigmoid().cpu().numpy().astype(np.float64)
            mentioned = (told.mentioned > 0).cpu().numpy()
            for k, row in enumerate(rows.tolist()):
                places = self.examples.states.sentences.words[self.examples.states.said[row]]
                words.append((word_scores(right[k], places, len(self.examples.words[row])), self.examples.words[row]))
                known = np.isfinite(self.examples.regions[row])
                regions.extend(mentioned[k, known] == (self.examples.regions[row, known] > 0.5))
        human = self.examples.rated.human[held_out]
        found = {"tau-c": float(tau_c(scores, human)), "error": float(((scores - human) ** 2).mean())}
        found["right order"] = _ordered(scores, human, self.examples.states.seen[held_out])
        found |= shares_of_words(words)
        if regions:
            found["regions right"] = float(np.mean(regions))
        f1 = 0.0
        if "wrong words found" in found:
            f1 = 0.5 * (found["wrong words found"] + found["right words kept"])
        return {**found, "tau-c and words": found["tau-c"] - found["error"] + f1}

    def _told(self, rows: Rows) -> Told:
        told: Told = self.network(self.examples.states.batch(rows, self.on))
        return told

    def _piece_labels(self, rows: Rows, longest: int) -> Tensor:
        labels = np.full((len(rows), longest), np.nan, np.float32)
        for k, row in enumerate(rows.tolist()):
            own = self.examples.of_pieces(row)
            labels[k, : len(own)] = own
        return torch.from_numpy(labels).to(self.on)

    def weights(self, outcome: Outcome) -> dict[str, npt.NDArray[np.float32]]:
        """The selected weights."""
        return {name: each.astype(np.float32) for name, each in outcome.weights.items()}


def shares_of_words(
    words: Sequence[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]],
) -> dict[str, float]:
    """How well words are told apart, from the scores and the labels of each caption's; nothing if none is known.

    >>> shares_of_words([(np.array([0.9, 0.2, 0.8]), np.array([1.0, 0.0, 0.0])), (np.array([0.4]), np.array([1.0]))])
    {'wrong words found': 0.5, 'right words kept': 0.5, 'worst word is wrong': 1.0}
    """
    known = [(each, labels) for each, labels in words if len(labels) and np.isfinite(labels).all()]
    if not known:
        return {}
    scores, labels = (np.concatenate(each) for each in zip(*known, strict=True))
    wrong = labels < 0.5
    if not wrong.any() or wrong.all():
        return {}
    worst = [labels[int(each.argmin())] < 0.5 for each, labels in known if (labels < 0.5).any()]
    return {
        "wrong words found": float((scores[wrong] < WRONG).mean()),
        "right words kept": float((scores[~wrong] >= WRONG).mean()),
        "worst word is wrong": float(np.mean(worst)),
    }


def _ordered(scores: npt.NDArray[np.float64], human: npt.NDArray[np.float64], pictures: Rows) -> float:
    """The share of pairs of one picture's captions, of different human scores, in the order of these."""
    right: list[npt.NDArray[np.bool_]] = []
    for picture in np.unique(pictures):
        own = pictures == picture
        mine, theirs = scores[own], human[own]
        pairs = theirs[:, None] > theirs + 1e-6
        right.append((mine[:, None] > mine)[pairs])
    everything = np.concatenate(right)
    return float(everything.mean()) if len(everything) else 0.0
