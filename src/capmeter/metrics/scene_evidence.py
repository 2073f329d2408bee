"""Why SPICE gave its score: the two graphs, which tuples agree, and what is nearest to those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from capmeter.text.scene_graphs import Concept, SceneGraph, Tuple

_KINDS = ("object", "attribute", "relation")


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
    """The evidence of two graphs. A reference tuple is matched if any candidate tuple is similar to it."""
    mine, theirs = list(candidate.tuples()), list(reference.tuples())
    tuples = (*_side("candidate", mine, theirs), *_side("reference", theirs, mine))
    return SceneEvidence(candidate, reference, tuples)


def _side(side: str, tuples: Sequence[Tuple], others: Sequence[Tuple]) -> list[TupleEvidence]:
    found = []
    for each in tuples:
        same_kind = [other for other in others if len(other) == len(each)]
        nearest = max(same_kind, key=lambda other: _nearness(each, other), default=None)
        places = 0.0 if nearest is None else _nearness(each, nearest)[0]
        matched = places == len(each)
        words = None if nearest is None or matched or not places else tuple(map(str, nearest))
        found.append(TupleEvidence(side, _KINDS[len(each) - 1], tuple(map(str, each)), matched, words))
    return found


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
