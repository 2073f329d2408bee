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


def _compare(side: str, graph: SceneGraph, other_graph: SceneGraph) -> list[TupleEvidence]:
    """The evidence for the tuples of one graph."""
    matches = match(graph, other_graph)
    match_flags = (*matches.objects, *matches.attributes, *matches.relations)
    by_length: dict[int, list[ConceptTuple]] = {}
    for concept_tuple in other_graph.tuples():
        by_length.setdefault(len(concept_tuple), []).append(concept_tuple)
    compared_counts = dict.fromkeys((1, 2, 3), 0)
    evidence = []
    for concept_tuple, is_matched in zip(graph.tuples(), match_flags, strict=True):
        nearest_words = None
        if not is_matched and compared_counts[len(concept_tuple)] < _MAX_COMPARED:
            compared_counts[len(concept_tuple)] += 1
            nearest_words = _nearest(concept_tuple, by_length.get(len(concept_tuple), [])[:_MAX_COMPARED])
        evidence.append(
            TupleEvidence(
                side, _KINDS[len(concept_tuple) - 1], tuple(map(str, concept_tuple)), is_matched, nearest_words
            )
        )
    return evidence


def _nearest(concept_tuple: ConceptTuple, other_tuples: Sequence[ConceptTuple]) -> tuple[str, ...] | None:
    """The words of the most similar of some tuples; None if no element of any is similar."""
    nearest = max(other_tuples, key=lambda other_tuple: _tuple_similarity(concept_tuple, other_tuple), default=None)
    return None if nearest is None or not _tuple_similarity(concept_tuple, nearest)[0] else tuple(map(str, nearest))


def _tuple_similarity(first_tuple: ConceptTuple, second_tuple: ConceptTuple) -> tuple[float, float]:
    """The number of similar elements, then the sum of the elements' similarities."""
    similar_count = sum(a.similar(b) for a, b in zip(first_tuple, second_tuple, strict=True))
    return float(similar_count), sum(_concept_similarity(a, b) for a, b in zip(first_tuple, second_tuple, strict=True))


def _concept_similarity(first_concept: Concept, second_concept: Concept) -> float:
    """1 for a common word, else the share of common synsets."""
    if not frozenset(first_concept.words).isdisjoint(second_concept.words):
        return 1.0
    synset_count = len(first_concept.synsets | second_concept.synsets)
    return len(first_concept.synsets & second_concept.synsets) / synset_count if synset_count else 0.0
