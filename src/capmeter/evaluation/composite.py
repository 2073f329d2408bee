"""Metrics composed of metrics: exact for each caption and for the corpus.

A composite names its members (`required_metrics`) and defines how their scores are combined (`combine`). The run
measures each member only once. The members' needs, notes, signature facts and explanations are merged here.

By default a composite's row is the concatenation of its members' rows; sums of rows are split again,
each member computes its own corpus score from its sums, and `combine` is applied to these: `mean(bleu-4,cider-d)` is
the mean of corpus BLEU and corpus CIDEr-D, in every resample too. A composite with `is_mean` is combined caption by
caption instead, and its corpus score is the mean of the results (SMURF).

>>> from capmeter.evaluation.registry import parse
>>> both = parse("mean(rouge-l,bleu-1)")
>>> rows = np.array([[1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]])
>>> both.from_sums(rows, np.ones(2))["score"].round(3).tolist()  # for each caption
[1.0, 0.0]
>>> round(float(both.from_sums(rows.sum(axis=0), np.float64(2))["score"]), 3)  # ROUGE-L's mean .5, BLEU of sums 3/4
0.625
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.evaluation.base import Floats, Measurement, Metric, RunContext, column_means, merge_notes
from capmeter.evaluation.evidence import Evidence

MemberScores = Mapping[Metric, Mapping[str, Floats]]


class DerivedMetric(Metric):
    """A metric computed from other metrics, and possibly from the captions.

    A subclass defines `required_metrics` and `measure`. It needs what its members need; their facts (tokenizer, idf,
    weights …) appear in its signature, and an explanation consists of theirs.
    """

    @abstractmethod
    def required_metrics(self) -> tuple[Metric, ...]:
        """The members: the metrics that this one is composed of, without duplicates."""

    @property
    def needs(self) -> frozenset[str]:
        """What the members need."""
        return frozenset().union(*(member.needs for member in self.required_metrics()))

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The members' facts; where members differ, their values in the members' order, joined by +."""
        facts: dict[str, dict[str, None]] = {}
        for member in self.required_metrics():
            for fact_name, fact_value in member.signature_facts(context.required_contexts[member]).items():
                facts.setdefault(fact_name, {})[fact_value] = None
        return {fact_name: "+".join(fact_values) for fact_name, fact_values in facts.items()}

    @property
    def can_explain(self) -> bool:
        """Whether any member can explain its scores."""
        return any(member.can_explain for member in self.required_metrics())

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """For each caption the composite's parts, and under each member's name the member's evidence.

        The evidence of a member that cannot explain its scores is its score and parts.
        """
        scores = self.from_sums(self.measure(part, context).values, np.ones(len(part)))
        by_member: dict[str, list[Evidence]] = {}
        for member in self.required_metrics():
            if member.can_explain:
                by_member[str(member)] = member.explain(part, context.required_contexts[member])
            else:
                by_member[str(member)] = [_list_scores(part, k, context.scores[member]) for k in range(len(part))]
        member_evidence = [{name: evidence[k] for name, evidence in by_member.items()} for k in range(len(part))]
        return [_list_scores(part, k, scores, member_evidence[k]) for k in range(len(part))]


class CompositeMetric(DerivedMetric):
    """A metric composed of other metrics. A subclass defines `required_metrics` and `combine`.

    `required_metrics` names the members. `combine` gets each member's "score" and parts and returns the composite's:
    "score" first, all arrays of the same shape. It is called with the caption scores, and at corpus level with the
    members' own corpus scores, where `state` is None.

    If a subclass's `is_mean` is true, its corpus score is the mean of its caption scores. It then also defines
    `combined_columns`: the names of what `combine` returns. Only such a composite may have a corpus state of its own
    (`corpus_state`), which is passed to `combine`: a sum of rows has no state.
    """

    @abstractmethod
    def combine(self, scores: MemberScores, state: Any = None) -> dict[str, Floats]:
        """The composite's "score" and parts from those of each member; all arrays have the same shape."""

    @property
    def combined_columns(self) -> tuple[str, ...]:
        """The names of what `combine` returns; needed only if `is_mean` is true."""
        return ("score",)

    @property
    def columns(self) -> tuple[str, ...]:
        """The members' columns, each prefixed by the member's name; for a mean, what `combine` returns."""
        if self.is_mean:
            return self.combined_columns
        return tuple(f"{member} {column}" for member in self.required_metrics() for column in member.columns)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The members' rows concatenated (for a mean: `combine` of each caption), and their notes."""
        members = self.required_metrics()
        if self.is_mean:
            combined_scores = self.combine({member: context.scores[member] for member in members}, context.state)
            row_values = np.stack([combined_scores[column] for column in self.columns], axis=1)
        else:
            row_values = np.concatenate([context.measurements[member].values for member in members], axis=1)
        return Measurement(row_values, merge_notes(context.measurements[member].notes for member in members))

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """`combine` of the scores that each member computes from its own sums; for a mean, the mean."""
        if self.is_mean:
            return column_means(self.columns, sums, counts)
        member_scores, column_start = {}, 0
        for member in self.required_metrics():
            column_end = column_start + len(member.columns)
            member_scores[member] = member.from_sums(sums[..., column_start:column_end], counts)
            column_start = column_end
        return self.combine(member_scores)


def _list_scores(
    part: CaptionSet, row: int, scores: Mapping[str, Floats], members: dict[str, Evidence] | None = None
) -> Evidence:
    """The evidence that consists of a caption's words as written and its scores."""
    candidate = tuple(part.pool[int(part.candidates[row])].split())
    references = tuple(tuple(part.pool[int(k)].split()) for k in part.references[row])
    facts: dict[str, float | str] = {part_name: float(part_scores[row]) for part_name, part_scores in scores.items()}
    return Evidence(candidate, references, facts=facts, members=members or {})
