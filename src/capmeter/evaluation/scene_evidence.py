"""Why SPICE gave its score: both graphs, the tuples that match, and the nearest tuple to each that does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from capmeter.text.scene_graphs.graph import Concept, ConceptTuple, SceneGraph
from capmeter.text.scene_graphs.matching import match

_KINDS = ("object", "attribute", "relation")
_MAX_COMPARED = 300  # tuples of a kind that are compared with each other; a hostile caption would take an hour


@dataclass(frozen=True, slots=True)
class TupleEvidence:
    """One tuple of one graph, and whether the other graph has a similar one."""

    side: str  # candidate or reference
    kind: str  # object, attribute or relation
    words: tuple[str, ...]  # (object), (object, attribute) or (subject, relation, object); merged words joined by "/"
    matched: bool
    nearest: tuple[str, ...] | None = None  # of an unmatched tuple: the most similar one of its kind in the other graph


@dataclass(frozen=True, slots=True)
class SceneEvidence:
    """The candidate's graph, the references' graph, and their tuples, the candidate's first."""

    candidate: SceneGraph
    reference: SceneGraph
    tuples: tuple[TupleEvidence, ...]

    def to_dict(self) -> dict[str, Any]:
        """Graphs and tuples as JSON values."""
        return {
            "candidate_graph": self.candidate.to_dict(),
            "reference_graph": self.reference.to_dict(),
            "tuples": [
                asdict(each) | {"words": list(each.words), "nearest": each.nearest and list(each.nearest)}
                for each in self.tuples
            ],
        }


def build_scene_evidence(candidate: SceneGraph, reference: SceneGraph) -> SceneEvidence:
    """Compares two graphs. A reference tuple is matched if any candidate tuple is similar to it.

    The nearest tuple is one of the first 300 of its kind.
    """
    tuples = (*_compare("candidate", candidate, reference), *_compare("reference", reference, candidate))
    return SceneEvidence(candidate, reference, tuples)


def _compare(side: str, graph: SceneGraph, other: SceneGraph) -> list[TupleEvidence]:
    """The evidence for the tuples of one graph."""
    matches = match(graph, other)
    flags = (*matches.objects, *matches.attributes, *matches.relations)
    by_length: dict[int, list[ConceptTuple]] = {}
    for each in other.tuples():
        by_length.setdefault(len(each), []).append(each)
    compared = dict.fromkeys((1, 2, 3), 0)
    evidence = []
    for each, matched in zip(graph.tuples(), flags, strict=True):
        nearest = None
        if not matched and compared[len(each)] < _MAX_COMPARED:
            compared[len(each)] += 1
            nearest = _nearest(each, by_length.get(len(each), [])[:_MAX_COMPARED])
        evidence.append(TupleEvidence(side, _KINDS[len(each) - 1], tuple(map(str, each)), matched, nearest))
    return evidence


def _nearest(each: ConceptTuple, others: Sequence[ConceptTuple]) -> tuple[str, ...] | None:
    """The words of the most similar of some tuples; None if no element of any is similar."""
    nearest = max(others, key=lambda other: _tuple_similarity(each, other), default=None)
    return None if nearest is None or not _tuple_similarity(each, nearest)[0] else tuple(map(str, nearest))


def _tuple_similarity(one: ConceptTuple, other: ConceptTuple) -> tuple[float, float]:
    """The number of similar elements, then the sum of the elements' similarities."""
    similar_count = sum(a.similar(b) for a, b in zip(one, other, strict=True))
    return float(similar_count), sum(_concept_similarity(a, b) for a, b in zip(one, other, strict=True))


def _concept_similarity(one: Concept, other: Concept) -> float:
    """1 for a common word, else the share of common synsets."""
    if not frozenset(one.words).isdisjoint(other.words):
        return 1.0
    union = len(one.synsets | other.synsets)
    return len(one.synsets & other.synsets) / union if union else 0.0
