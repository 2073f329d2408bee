"""Why a caption got its score: what a metric found in common, and what it did not.

Every metric that can explain itself gives one `Evidence` per caption; reports know only this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from capmeter.metrics.scene_evidence import SceneEvidence


@dataclass(frozen=True, slots=True)
class Link:
    """Tokens of the candidate that the metric matched with tokens of one reference.

    `candidate` and `reference` are token ranges [start, end); `kind` says how they match (exact, stem, synonym,
    paraphrase, ngram, concept, embedding); `weight` is what the match counts in the metric's own unit.
    """

    candidate: tuple[int, int]
    reference_index: int
    reference: tuple[int, int]
    kind: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """Something said of tokens of one side alone: unmatched, cut, combined, removed, concept …

    `side` is "candidate" or "reference"; `reference_index` is None for the candidate.
    """

    side: str
    reference_index: int | None
    start: int
    end: int
    kind: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """One caption as the metric saw it: tokens of both sides, links, marks, single facts, scene graphs.

    `members`: of a metric made of metrics, each one's own evidence, which may have other tokens.
    """

    candidate: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    links: tuple[Link, ...] = ()
    marks: tuple[Mark, ...] = ()
    facts: dict[str, float | str] = field(default_factory=dict)
    members: dict[str, Evidence] = field(default_factory=dict)
    scene: SceneEvidence | None = None
