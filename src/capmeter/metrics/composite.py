"""Metrics made of metrics: exact for each caption and for the corpus.

A composite names its members (`requires`) and defines how their scores are combined (`combine`). The run measures each
member only once. The members' needs, notes, signature facts and explanations are merged here.

The corpus score. By default a composite's row is the concatenation of its members' rows; sums of rows are split again,
each member computes its own corpus score from its sums, and `combine` is applied to these: `mean(bleu-4,cider-d)` is
the mean of corpus BLEU and corpus CIDEr-D, in every resample too. A composite with `is_mean` is combined caption by
caption instead, and its corpus score is the mean of the results (SMURF).

>>> from capmeter.metrics.registry import parse
>>> both = parse("mean(rouge-l,bleu-1)")
>>> rows = np.array([[1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]])
>>> both.finish(rows, np.ones(2))["score"].round(3).tolist()  # for each caption
[1.0, 0.0]
>>> round(float(both.finish(rows.sum(axis=0), np.float64(2))["score"]), 3)  # ROUGE-L's mean .5, BLEU of sums 3/4
0.625
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.metrics.base import Context, Floats, Measurement, Metric, column_means, merged_notes
from capmeter.metrics.evidence import Evidence

MemberScores = Mapping[Metric, Mapping[str, Floats]]


class DerivedMetric(Metric):
    """A metric computed from other metrics and maybe from the captions. A subclass defines `requires`, and how it
    measures.

    It needs what its members need; their facts (tokenizer, idf, weights …) appear in its signature, and an explanation
    consists of theirs.
    """

    @abstractmethod
    def requires(self) -> tuple[Metric, ...]:
        """The members: the metrics that this one is made of, without duplicates."""

    @property
    def needs(self) -> frozenset[str]:
        """What the members need."""
        return frozenset().union(*(member.needs for member in self.requires()))

    def facts(self, context: Context) -> dict[str, str]:
        """The members' facts; where members differ, their values in the members' order, joined by +."""
        found: dict[str, dict[str, None]] = {}
        for member in self.requires():
            for name, value in member.facts(context.required[member]).items():
                found.setdefault(name, {})[value] = None
        return {name: "+".join(values) for name, values in found.items()}

    @property
    def explains(self) -> bool:
        """Whether any member can give evidence."""
        return any(member.explains for member in self.requires())

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """For each caption the composite's parts, and under each member's name the member's evidence.

        For a member that cannot explain its scores, its score and parts.
        """
        rows = self.measure(part, context).values
        scores = self.finish(rows, np.ones(len(part)))
        told: dict[str, list[Evidence]] = {}
        for member in self.requires():
            if member.explains:
                told[str(member)] = member.explain(part, context.required[member])
            else:
                told[str(member)] = [_bare(part, row, context.scores[member]) for row in range(len(part))]
        return [_bare(part, row, scores, {name: each[row] for name, each in told.items()}) for row in range(len(part))]


class CompositeMetric(DerivedMetric):
    """A metric made of other metrics. A subclass defines `requires` and `combine`.

    `requires` names the members. `combine` gets each member's "score" and parts and returns the composite's: "score"
    first, all arrays of the same shape. It is called with the caption scores, and at corpus level with the members' own
    corpus scores, where `state` is None.

    If a subclass's `is_mean` is true, its corpus score is the mean of its caption scores. It then also defines
    `combined`: the names of what `combine` returns. Only such a composite may have a corpus state of its own
    (`corpus`), which is passed to `combine`: a sum of rows has no state.

    A member's notes become the composite's, its facts (tokenizer, idf, weights …) appear in the composite's signature,
    and an explanation consists of the members' explanations. None of this needs to be implemented.
    """

    @abstractmethod
    def combine(self, scores: MemberScores, state: Any = None) -> dict[str, Floats]:
        """The composite's score and parts from each member's score and parts."""

    @property
    def combined(self) -> tuple[str, ...]:
        """The names of what `combine` returns; needed only if `is_mean` is true."""
        return ("score",)

    @property
    def columns(self) -> tuple[str, ...]:
        """The members' columns, each prefixed by the member's name; for a mean, what `combine` returns."""
        if self.is_mean:
            return self.combined
        return tuple(f"{member} {column}" for member in self.requires() for column in member.columns)

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The members' rows side by side (for a mean: `combine` of each caption), and their notes."""
        members = self.requires()
        if self.is_mean:
            found = self.combine({member: context.scores[member] for member in members}, context.state)
            values = np.stack([found[column] for column in self.columns], axis=1)
        else:
            values = np.concatenate([context.measured[member].values for member in members], axis=1)
        return Measurement(values, merged_notes(context.measured[member].notes for member in members))

    def finish(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """`combine` of the scores that each member computes from its own sums; for a mean, the mean."""
        if self.is_mean:
            return column_means(self.columns, sums, counts)
        scores, start = {}, 0
        for member in self.requires():
            end = start + len(member.columns)
            scores[member] = member.finish(sums[..., start:end], counts)
            start = end
        return self.combine(scores)


def _bare(
    part: CaptionSet, row: int, scores: Mapping[str, Floats], members: dict[str, Evidence] | None = None
) -> Evidence:
    """A caption's words as written, with these scores as facts."""
    candidate = tuple(part.pool[int(part.candidates[row])].split())
    references = tuple(tuple(part.pool[int(k)].split()) for k in part.references[row])
    facts: dict[str, float | str] = {name: float(values[row]) for name, values in scores.items()}
    return Evidence(candidate, references, facts=facts, members=members or {})
