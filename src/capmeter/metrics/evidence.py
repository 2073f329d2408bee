"""Why a caption got its score: what a metric matched, and what it did not.

Every metric that can explain its scores gives one `Evidence` per caption; reports use nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capmeter.metrics.contributions import Contributions
    from capmeter.metrics.scene_evidence import SceneEvidence


@dataclass(frozen=True, slots=True)
class Link:
    """Tokens of the candidate that the metric matched with tokens of one reference.

    `candidate` and `reference` are token ranges [start, end); `kind` says how they match (exact, stem, synonym,
    paraphrase, ngram, concept, embedding); `weight` is the match's contribution in the metric's own unit.
    """

    candidate: tuple[int, int]
    reference_index: int
    reference: tuple[int, int]
    kind: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation of tokens on one side alone: unmatched, cut, combined, removed, concept …

    `side` is "candidate" or "reference"; `reference_index` is None for the candidate.
    """

    side: str
    reference_index: int | None
    start: int
    end: int
    kind: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class RegionEvidence:
    """The regions of the picture that a metric looked at.

    boxes: x1, y1, x2, y2 relative to the picture. weights: how much each counted; they sum to 1. labels: of each, or
    empty.
    """

    boxes: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    labels: tuple[str, ...] = ()

    def heaviest(self, most: int) -> list[tuple[str, tuple[float, ...], float]]:
        """Label, box and weight of the regions that counted most, the heaviest first."""
        order = sorted(range(len(self.weights)), key=lambda k: -self.weights[k])[:most]
        return [(self.labels[k] if self.labels else "", self.boxes[k], self.weights[k]) for k in order]

    def to_dict(self) -> dict[str, Any]:
        """The regions as JSON values."""
        return {"boxes": [list(box) for box in self.boxes], "weights": list(self.weights), "labels": list(self.labels)}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One caption as the metric saw it: the tokens of both sides, links, marks, facts, scene graphs and regions.

    `word_scores`: of a metric that scores every token of the candidate, its scores. `contributions`: of a learned
    metric, what each of its inputs contributed to the score. `members`: for a composite metric, each member's own
    evidence, which may be tokenised differently.
    """

    candidate: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    links: tuple[Link, ...] = ()
    marks: tuple[Mark, ...] = ()
    facts: dict[str, float | str] = field(default_factory=dict)
    members: dict[str, Evidence] = field(default_factory=dict)
    scene: SceneEvidence | None = None
    contributions: Contributions | None = None
    regions: RegionEvidence | None = None
    word_scores: tuple[float, ...] = ()
