"""What both networks of the metric `capmeter` learn: which words of a caption are right.

Cross-entropy of each word piece that is known to be right or wrong. Wrong ones weigh three times; for the judge, those
that fit the sentence (`substitution`) weigh more, which are the hardest to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from capmeter.encoders import StateTable
from capmeter.learning.capmeter.batch import Batch
from capmeter.learning.capmeter.examples import CAPTIONS, Examples, Judged, Rows
from capmeter.learning.capmeter.recipe import CapmeterRecipe, JudgeRecipe
from capmeter.learning.loop import Learner, seeded
from capmeter.metrics.capmeter.inputs import Words, side
from capmeter.metrics.capmeter.language_model import OwnCounts
from capmeter.metrics.capmeter.network import Side
from capmeter.metrics.word_pieces import Pieces
from capmeter.ragged import Ragged

HARDEST = "substitution"
_WRONG_WEIGHS = 3.0


@dataclass(frozen=True, eq=False)
class Read:
    """Sentences with the states of their word pieces.

    table: the states. words: what is known of pieces alone. numbers: whose the table is, ascending; none: all
    sentences'. learned: the unit states [pieces, width] in place of the table's, where they have gradients.
    """

    table: StateTable
    words: Words
    device: str = "cpu"
    numbers: Rows | None = None
    learned: Tensor | None = None

    def laid_out(self, sentences: Ragged, *, ends: bool) -> Pieces:
        """The pieces of rows of sentences, by their numbers."""
        if self.numbers is not None:
            sentences = Ragged(np.searchsorted(self.numbers, sentences.values), sentences.offsets)
        return Pieces.lay_out(self.table, sentences, ends=ends)

    def side(self, pieces: Pieces) -> Side:
        """The pieces as a network reads them."""
        found = side(pieces, self.words, self.device)
        if self.learned is None:
            return found
        at = torch.from_numpy(pieces.at).to(self.device)
        return found._replace(states=self.learned[at.clamp(min=0)] * (at >= 0)[:, :, None])


class WordLearner(Learner[bool]):
    """What both networks have in common: captions as pieces, and the loss of words. A batch is drawn by the step's own
    random numbers.
    """

    recipe: JudgeRecipe | CapmeterRecipe

    def __init__(self, examples: Examples, recipe: JudgeRecipe | CapmeterRecipe, device: str) -> None:
        seeded(recipe.seed)
        self.examples, self.recipe, self.on = examples, recipe, device
        self.of_words: Sequence[Judged] = examples.judged

    def sizes(self, encoder: int) -> dict[str, int]:
        """Those of the network, as fields of its shape; encoder: the width of its states."""
        words, recipe = self.examples.alone, self.recipe
        return {
            "encoder": encoder,
            "alone": words.vectors.shape[1],
            "associated": words.associated.shape[1],
            "width": recipe.width,
            "heads": recipe.heads,
            "narrow": recipe.narrow,
        }

    def optimizer(self, rate: float) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.module.parameters(), lr=rate, weight_decay=self.recipe.decayed)

    def judged(self, rng: np.random.Generator, number: int) -> Batch:
        """The captions of a step whose words alone are judged, with so many references each."""
        examples, batch = self.examples, Batch()
        for chosen in rng.integers(0, len(self.of_words), self.recipe.judged).tolist():
            each = self.of_words[chosen]
            captions = examples.captions[each.photo]
            references = np.delete(captions, each.place)[rng.permutation(CAPTIONS - 1)[:number]]
            batch.add_with_forms(int(captions[each.place]), references, each.forms, each.photo)
        return batch

    def sides(
        self, candidates: Sequence[int], references: Sequence[Rows], read: Read, photos: Sequence[int] = ()
    ) -> tuple[Side, Side, Tensor]:
        """The pieces of candidates and of their references, and how the candidates' follow one another (`alone`)."""
        mine, flow = self.alone(candidates, read, photos)
        rows = Ragged.from_rows([each.tolist() for each in references], np.int64)
        return mine, read.side(read.laid_out(rows, ends=False)), flow

    def alone(self, candidates: Sequence[int], read: Read, photos: Sequence[int] = ()) -> tuple[Side, Tensor]:
        """The pieces of candidates, and how they follow one another.

        photos: whose captions they are or are forms of. Those of a photo that the language model has counted are as new
        to it as the ones that the metric will read.
        """
        own = np.array(candidates, np.int64)
        pieces = read.laid_out(Ragged(own, np.arange(len(own) + 1, dtype=np.int64)), ends=True)
        taken = {photo: self._counted(photo) for photo in set(photos)}
        flow = self.examples.known.language.flow(pieces, [taken[photo] for photo in photos])
        return read.side(pieces), torch.from_numpy(flow).to(self.on)

    def _counted(self, photo: int) -> OwnCounts | None:
        """What the language model counted of a photo's captions; it counted those for the judge alone."""
        examples = self.examples
        if photo < examples.matched:
            return None
        return examples.known.language.own(examples.pieces[each] for each in examples.captions[photo].tolist())

    def _words(self, *judged: tuple[Batch, Tensor, Side], hardest: float = 1.0) -> Tensor:
        """The loss of the words of which it is known whether they are right; of some batches with logits and pieces.

        hardest: so many times a wrong word counts that fits the sentence.
        """
        right = [self._right(batch, mine) for batch, _, mine in judged]
        known = torch.cat([each[each.isfinite()] for each in right])
        told = torch.cat([logits[each.isfinite()] for each, (_, logits, _) in zip(right, judged, strict=True)])
        weighs = torch.cat(
            [
                torch.tensor([hardest if form and form.kind == HARDEST else 1.0 for form in batch.forms])[:, None]
                .to(self.on)
                .expand_as(each)[each.isfinite()]
                for each, (batch, _, _) in zip(right, judged, strict=True)
            ]
        )
        weight = torch.where(known == 0, _WRONG_WEIGHS * weighs, 1.0)
        return binary_cross_entropy_with_logits(told, known, weight)

    def _right(self, batch: Batch, mine: Side) -> Tensor:
        """Of each piece whether it is right; nan where that is not known."""
        right = torch.full(mine.there.shape, torch.nan)
        for row, (form, own) in enumerate(zip(batch.forms, batch.own, strict=True)):
            if own < 0 or (form is not None and not form.words):
                continue
            at = torch.nonzero(mine.there[row])[:, 0]
            if form is None:
                right[row, at.cpu()] = 1.0
                continue
            words = self.examples.words(form.sentence)
            if words is None:
                continue
            right[row, at.cpu()] = 1.0
            right[row, at[torch.from_numpy(np.isin(words, form.words))].cpu()] = 0.0
        return right.to(self.on)
