"""The captions of a training step, with what is known of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from capmeter.learning.capmeter.examples import Rows, WrongForm


class Batch:
    """The captions of a step: candidates and references as numbers of sentences, and what is known of each.

    target: of a pair, else nan. form: the wrong form, None for a pair, "own" for the caption that it is a form of.
    photo: whose caption the candidate is or is a form of; -1 where that is not told.
    """

    def __init__(self) -> None:
        self.candidates: list[int] = []
        self.references: list[Rows] = []
        self.target: list[float] = []
        self.forms: list[WrongForm | None] = []
        self.own: list[int] = []  # of a wrong form the row of its caption, of that itself, of a pair -1
        self.photo: list[int] = []

    def add(
        self,
        candidate: int,
        references: Rows,
        target: float,
        form: WrongForm | None = None,
        own: int = -1,
        photo: int = -1,
    ) -> int:
        """A row; its number."""
        self.candidates.append(candidate)
        self.references.append(references)
        self.target.append(target)
        self.forms.append(form)
        self.own.append(own)
        self.photo.append(photo)
        return len(self.own) - 1

    def add_with_forms(self, caption: int, references: Rows, forms: Iterable[WrongForm], photo: int = -1) -> None:
        """A row for a photo's own caption, and one for each wrong form of it."""
        own = self.add(caption, references, float("nan"), photo=photo)
        self.own[own] = own
        for form in forms:
            self.add(form.sentence, references, float("nan"), form, own, photo)

    def by_length(self, pieces: Rows, groups: int) -> Iterator[Batch]:
        """The rows in so many batches of about equal length, which saves padding; pieces: how many each sentence has.

        A form's caption may be in another batch than the form.
        """
        rows = zip(self.candidates, self.references, strict=True)
        # of the work on a row, that on one of its own pieces is about three times that on one of a reference
        work = [3 * int(pieces[own]) + int(pieces[references].sum()) for own, references in rows]
        for some in np.array_split(np.argsort(work, kind="stable"), groups):
            batch = Batch()
            for row in some.tolist():
                of_row = self.candidates[row], self.references[row], self.target[row], self.forms[row], self.own[row]
                batch.add(*of_row, self.photo[row])
            yield batch
