"""Why SPICE gave its score: the two graphs, which tuples agree, and what is nearest to those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from capmeter.text.scene_graphs import Concept, SceneGraph, Tuple
from capmeter.text.scene_matching import match

_KINDS = ("object", "attribute", "relation")
_COMPARED = 300  # tuples of a kind that are compared with each other, so that a hostile caption costs no hour


@dataclass(frozen=True, slots=True)
class TupleEvidence:
    """One tuple of one side: whether the other side has a similar one, and if not, the nearest of its kind there.

    `kind` is object, attribute or relation; `words` are (object), (object, attribute) or (subject, relation, object),
    merged words joined by "/". `nearest` is None for a matched tuple, and where nothing has a place in common with it.
    """

    side: str
    kind: str
    words: tuple[str, ...]
    matched: bool
    nearest: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SceneEvidence:
    """The candidate's graph, the references' graph, and their tuples, the candidate's first."""

    candidate: SceneGraph
    reference: SceneGraph
    tuples: tuple[TupleEvidence, ...]

    def to_dict(self) -> dict[str, Any]:
        """Graphs and tuples, as JSON holds them."""
        return {
            "candidate_graph": self.candidate.to_dict(),
            "reference_graph": self.reference.to_dict(),
            "tuples": [
                {
                    "side": each.side,
                    "kind": each.kind,
                    "words": list(each.words),
                    "matched": each.matched,
                    "nearest": None if each.nearest is None else list(each.nearest),
                }
                for each in self.tuples
            ],
        }


def scene_evidence(candidate: SceneGraph, reference: SceneGraph) -> SceneEvidence:
    """The evidence of two graphs. A reference tuple is matched if any candidate tuple is similar to it.

    What is nearest is looked for among the first 300 tuples of a kind.
    """
    tuples = (*_side("candidate", candidate, reference), *_side("reference", reference, candidate))
    return SceneEvidence(candidate, reference, tuples)


def _side(side: str, graph: SceneGraph, others: SceneGraph) -> list[TupleEvidence]:
    found = match(graph, others)
    flags = (*found.objects, *found.attributes, *found.relations)
    by_kind: dict[int, list[Tuple]] = {}
    for each in others.tuples():
        by_kind.setdefault(len(each), []).append(each)
    compared = dict.fromkeys((1, 2, 3), 0)
    evidence = []
    for each, matched in zip(graph.tuples(), flags, strict=True):
        nearest = None
        if not matched and compared[len(each)] < _COMPARED:
            compared[len(each)] += 1
            nearest = _nearest(each, by_kind.get(len(each), [])[:_COMPARED])
        evidence.append(TupleEvidence(side, _KINDS[len(each) - 1], tuple(map(str, each)), matched, nearest))
    return evidence


def _nearest(each: Tuple, others: Sequence[Tuple]) -> tuple[str, ...] | None:
    """The words of the most similar of some tuples; None where none has a place in common."""
    nearest = max(others, key=lambda other: _nearness(each, other), default=None)
    return None if nearest is None or not _nearness(each, nearest)[0] else tuple(map(str, nearest))


def _nearness(one: Tuple, other: Tuple) -> tuple[float, float]:
    """How many places are similar, then how similar the places are in all."""
    places = sum(a.similar(b) for a, b in zip(one, other, strict=True))
    return float(places), sum(_similarity(a, b) for a, b in zip(one, other, strict=True))


def _similarity(one: Concept, other: Concept) -> float:
    """1 for a common word, else the share of common synsets."""
    if not frozenset(one.words).isdisjoint(other.words):
        return 1.0
    union = len(one.synsets | other.synsets)
    return len(one.synsets & other.synsets) / union if union else 0.0
