"""The training of the metric `capmeter`: four losses in one. The network that judges words learns by the last alone
(`judging.py`).

    correctness, coverage, fluency
                cross-entropy of σ(part) with what is known of it, of a caption c and wrong forms c' of it: whether all
                that it says is true, the share of the words that is left, whether it is well said; and
                log(1 + exp(2 part(c') - 2 part(c))) / 2 where c' is worse in that part; fluency of captions of its own.
                A caption of photo j is true of photo i as far as cos(photo i, photo j)^power, to the fourth power
    words       cross-entropy of each word of c and c' that is known to be right or wrong, and of more captions with one
                wrong word each; wrong ones weigh three times

cos compares the mean vectors of all captions of the two photos: a soft target. The references of a caption are one to
five, so that the network knows any number of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from capmeter.learning.capmeter.batch import Batch
from capmeter.learning.capmeter.examples import CAPTIONS, Examples, Rows, WrongForm
from capmeter.learning.capmeter.recipe import CapmeterRecipe
from capmeter.learning.capmeter.words import Read, WordLearner
from capmeter.learning.capmeter.wrong import STILL_TRUE
from capmeter.metrics.capmeter.network import SCORED, Matcher, Shape, Side, Told
from capmeter.ragged import Ragged

TOLD_APART = "told apart"
"""What is the mean over all kinds of wrong forms of the share that scores below its caption."""
LESS = ("removal", "cut", "repetition-removal")
BADLY_SAID = (*STILL_TRUE, "swap", "replacement")
_UNSURE = ("substitution", "pos-substitution")  # well said or not, as it happens
_NEAREST = 200
_BLOCK = 1024
_OWN, _NEAR = 0.3, 0.75  # of the pairs, those with an own caption, and those with it or a near photo's
_SELDOM_TRUE = 4.0


class CapmeterLearner(WordLearner):
    """The learner of everything else. A batch is whether words are learned alone."""

    recipe: CapmeterRecipe

    def __init__(self, examples: Examples, recipe: CapmeterRecipe, device: str = "cpu") -> None:
        super().__init__(examples, recipe, device)
        self.read = Read(examples.encoded.table, examples.alone, device)
        shape = Shape(**self.sizes(self.read.table.states.shape[1]), parts=recipe.counted)
        self.network = self.module = Matcher(shape, recipe.dropout)
        self._means = examples.means()
        self._near = nearest(self._means, _NEAREST)

    def batches(self, epoch: int, rng: np.random.Generator) -> Sequence[bool]:
        """Of each step whether words are learned alone."""
        return [epoch < self.recipe.alone] * self.recipe.steps

    def losses(self, batch: bool, rng: np.random.Generator) -> Mapping[str, Tensor]:
        """See the module."""
        judged = self.judged(rng, int(rng.integers(1, CAPTIONS)))
        of_judged, theirs = self.told(judged.candidates, judged.references)
        words = self._words((judged, of_judged.right, theirs))
        if batch:
            return {"words": self.recipe.words * words}
        drawn = self.drawn(rng)
        told, mine = self.told(drawn.candidates, drawn.references)
        losses = {"words": self.recipe.words * (words + self._words((drawn, told.right, mine)))}
        for part in ("correctness", "coverage"):
            losses[part] = self.recipe.parts * self._part(part, getattr(told, part), drawn)
        said = self.said(rng)
        losses["fluency"] = self._part("fluency", self.network.said(*self.alone(said.candidates, self.read)), said)
        return losses

    def _part(self, part: str, logits: Tensor, batch: Batch) -> Tensor:
        """The loss of a part: of what is known of each caption, and of each form that is worse than its caption."""
        known = torch.tensor([_known(part, batch, k) for k in range(len(batch.own))], device=self.on)
        own = torch.tensor(batch.own, device=self.on)
        worse = torch.nonzero((own >= 0) & (known < 1))[:, 0]
        there = known.isfinite()
        loss = binary_cross_entropy_with_logits(logits[there], known[there])
        if not len(worse):
            return loss
        return loss + softplus(2 * (logits[worse] - logits[own[worse]])).mean() / 2

    def said(self, rng: np.random.Generator) -> Batch:
        """The captions of a step that are read for fluency alone, without references: photos' captions, of some with
        their wrong forms.
        """
        captions, batch = self.examples.captions, Batch()
        none = np.zeros(0, np.int64)
        for i in rng.integers(0, self.examples.trained, self.recipe.said).tolist():
            batch.add(int(captions[i, rng.integers(CAPTIONS)]), none, np.nan)
        for i in rng.integers(0, self.examples.trained, self.recipe.said).tolist():
            batch.add_with_forms(int(captions[i, 0]), none, self.examples.wrong[i])
        return batch

    def drawn(self, rng: np.random.Generator) -> Batch:
        """The captions of a step."""
        recipe, captions, batch = self.recipe, self.examples.captions, Batch()
        number = int(rng.integers(1, CAPTIONS + 1))  # of references: one for a step, which saves padding
        for i in rng.integers(0, self.examples.trained, recipe.pairs).tolist():
            kind, order = rng.random(), rng.permutation(CAPTIONS)
            if kind < _OWN:
                references = captions[i, order[1 : 1 + min(number, CAPTIONS - 1)]]
                batch.add(int(captions[i, order[0]]), references, 1.0)
                continue
            if kind < _NEAR:
                j = int(self._near[i, min(self._near.shape[1] - 1, int(rng.exponential(recipe.nearest)))])
            else:
                j = int(rng.integers(self.examples.trained))
            target = 1.0 if i == j else max(0.0, float(self._means[i] @ self._means[j])) ** recipe.power
            batch.add(int(captions[j, rng.integers(CAPTIONS)]), captions[i, order[:number]], target)
        for i in rng.integers(0, self.examples.trained, recipe.photos).tolist():
            references = captions[i, 1 + rng.permutation(CAPTIONS - 1)[:number]]
            batch.add_with_forms(int(captions[i, 0]), references, self.examples.wrong[i])
        return batch

    def told(self, candidates: Sequence[int], references: Sequence[Rows]) -> tuple[Told, Side]:
        """What the network says of candidates with these references, and the candidates' pieces."""
        mine, theirs, flow = self.sides(candidates, references, self.read)
        rows, own = Ragged.from_rows([each.tolist() for each in references], np.int64), np.array(candidates, np.int64)
        similar = torch.from_numpy(self.examples.encoded.similar(own, rows)).to(self.on)
        return self.module(mine, theirs, similar, flow), mine

    def measured(self) -> Mapping[str, float]:
        """On held-out photos: per kind the share of wrong forms that score below their caption, and their mean."""
        rows = held_out_rows(self.examples)
        return told_apart(rows, self.logits(rows)["score"])

    def logits(self, rows: Sequence[HeldOut]) -> dict[str, NDArray[np.float64]]:
        """The score of these captions and what it is made of, as logits."""
        found: dict[str, list[NDArray[np.float64]]] = {name: [] for name in ("score", *SCORED)}
        with torch.no_grad():
            for start in range(0, len(rows), 256):
                some = rows[start : start + 256]
                told, _ = self.told([each[0] for each in some], [each[1] for each in some])
                for name, each in found.items():
                    each.append(getattr(told, name).cpu().numpy().astype(np.float64))
        return {name: np.concatenate(each) for name, each in found.items()}


def nearest(vectors: NDArray[np.float32], number: int) -> NDArray[np.int64]:
    """The rows of the nearest so many others of each unit vector, nearest first.

    >>> nearest(np.array([[1, 0], [0, 1], [0.8, 0.6]], np.float32), 1).tolist()
    [[2], [2], [0]]
    """
    found = []
    for start in range(0, len(vectors), _BLOCK):
        alike = vectors[start : start + _BLOCK] @ vectors.T
        alike[np.arange(len(alike)), np.arange(start, start + len(alike))] = -np.inf
        found.append(np.argsort(-alike, axis=1, kind="stable")[:, : min(number, len(vectors) - 1)])
    return np.concatenate(found)


HeldOut = tuple[int, Rows, WrongForm | None, int]
"""Candidate, references, the wrong form if it is one, and the row of the caption that it is a form of."""


def held_out_rows(examples: Examples) -> list[HeldOut]:
    """The held-out photos' first captions with the others as references, each followed by its wrong forms."""
    rows: list[HeldOut] = []
    for photo in range(examples.trained, examples.matched):
        own = len(rows)
        references = examples.captions[photo, 1:]
        rows.append((int(examples.captions[photo, 0]), references, None, own))
        rows.extend((form.sentence, references, form, own) for form in examples.wrong[photo])
    return rows


def told_apart(rows: Sequence[HeldOut], scores: NDArray[np.float64]) -> dict[str, float]:
    """By kind the share of wrong forms that score below their caption, and the mean of these shares."""
    below: dict[str, list[bool]] = {}
    for k, (_, _, form, own) in enumerate(rows):
        if form is not None:
            below.setdefault(form.kind, []).append(bool(scores[k] < scores[own]))
    shares = {kind: float(np.mean(each)) for kind, each in sorted(below.items())}
    return {**shares, TOLD_APART: float(np.mean(list(shares.values() or (0.0,))))}


def _known(part: str, batch: Batch, row: int) -> float:
    """What is known of a part of a caption, 0 to 1; nan where nothing is."""
    form, own = batch.forms[row], batch.own[row]
    unknown = float("nan")
    if form is None:
        if own == row:  # the photo's own caption
            return 1.0
        if part == "fluency":
            return 1.0
        return float(batch.target[row] ** _SELDOM_TRUE)  # what is said of another photo is seldom all true
    if part == "correctness":
        return float(form.kind in STILL_TRUE)
    if part == "coverage":
        return 1.0 - form.lost if form.kind in LESS and form.lost else unknown
    return unknown if form.kind in _UNSURE else float(form.kind not in BADLY_SAID)
