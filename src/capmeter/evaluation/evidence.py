"""Why a caption got its score: which tokens a metric matched, and which it did not.

Every metric that can explain its scores returns one `Evidence` per caption; reports use nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capmeter.text.scene_graphs.graph import SceneEvidence


@dataclass(frozen=True, slots=True)
class Contributions:
    """The contribution of each input of a learned metric to a caption's logit; with `start` they add up to `logit`."""

    base: str  # what the inputs are compared with, in words
    start: float  # the logit of the base
    logit: float
    inputs: tuple[tuple[str, float, float, float], ...]  # name, value, the base's value, contribution

    def to_dict(self) -> dict[str, Any]:
        """The contributions as JSON values."""
        keys = ("input", "value", "base_value", "contribution")
        inputs = [dict(zip(keys, input_values, strict=True)) for input_values in self.inputs]
        return {"base": self.base, "base_logit": self.start, "logit": self.logit, "inputs": inputs}


@dataclass(frozen=True, slots=True)
class Link:
    """Tokens of the candidate that the metric matched with tokens of one reference.

    Attributes:
        candidate, reference: token ranges [start, end).
        reference_index: which reference.
        kind: how they match: exact, stem, synonym, paraphrase, ngram, concept, embedding.
        weight: the match's contribution, in the metric's unit.
    """

    candidate: tuple[int, int]
    reference_index: int
    reference: tuple[int, int]
    kind: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation of the tokens [start, end) of one side.

    Attributes:
        side: "candidate" or "reference".
        reference_index: which reference; None for the candidate.
        kind: unmatched, cut, combined, removed, concept …
    """

    side: str
    reference_index: int | None
    start: int
    end: int
    kind: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class SentenceVerdict:
    """A sentence of a document, judged by the other side.

    Attributes:
        side, reference_index, start, end: its tokens, as of a `Mark`.
        verdict: of the candidate's, supported, contradicted or unsupported; of a reference's, covered or missing.
        score: the probability that it is right.
        judged_by: the tokens of the sentences that it was compared with: reference (None: the candidate), start, end.
    """

    side: str
    reference_index: int | None
    start: int
    end: int
    verdict: str
    score: float
    judged_by: tuple[tuple[int | None, int, int], ...]


@dataclass(frozen=True, slots=True)
class RegionEvidence:
    """The regions of the picture that a metric used."""

    boxes: tuple[tuple[float, ...], ...]  # (regions): x1, y1, x2, y2 relative to the picture
    weights: tuple[float, ...]  # (regions): their shares in the score, which sum to 1
    labels: tuple[str, ...] = ()  # (regions), or empty

    def to_dict(self) -> dict[str, Any]:
        """The regions as JSON values."""
        return {"boxes": [list(box) for box in self.boxes], "weights": list(self.weights), "labels": list(self.labels)}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One caption as a metric sees it.

    Attributes:
        candidate, references: the tokens of both sides.
        links, marks: matched tokens; annotations of one side.
        facts: numbers and texts by name.
        members: of a composite, the evidence of each member, which may be tokenised differently.
        scene, regions: scene graphs; regions of the picture.
        contributions: of a learned metric, the contribution of each input.
        word_scores: of a metric that scores each token of the candidate, these scores.
        sentences: of documents, their sentences with verdicts.
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
    sentences: tuple[SentenceVerdict, ...] = ()

    def words(self, reference_index: int | None, start: int, end: int) -> str:
        """The words [start, end) of the candidate (None) or of a reference.

        Args:
            reference_index: which reference; None: the candidate.
            start: the first word.
            end: the word after the last.
        """
        tokens = self.candidate if reference_index is None else self.references[reference_index]
        return " ".join(tokens[start:end])

    def to_dict(self) -> dict[str, Any]:
        """The evidence as JSON values, with the words of every match and sentence; without parts that it lacks."""
        optional = {"scene": self.scene, "contributions": self.contributions, "regions": self.regions}
        sentences = [
            {
                "side": each.side,
                "reference_index": each.reference_index,
                "place": [each.start, each.end],
                "sentence": self.words(each.reference_index, each.start, each.end),
                "verdict": each.verdict,
                "score": each.score,
                "judged_by": [self.words(*place) for place in each.judged_by],
            }
            for each in self.sentences
        ]
        return {
            "candidate": list(self.candidate),
            "references": [list(tokens) for tokens in self.references],
            "links": [
                {
                    "kind": link.kind,
                    "candidate": list(link.candidate),
                    "words": self.words(None, *link.candidate),
                    "reference_index": link.reference_index,
                    "reference": list(link.reference),
                    "reference_words": self.words(link.reference_index, *link.reference),
                    "weight": link.weight,
                }
                for link in self.links
            ],
            "marks": [
                {
                    "side": mark.side,
                    "reference_index": mark.reference_index,
                    "place": [mark.start, mark.end],
                    "kind": mark.kind,
                    "weight": mark.weight,
                }
                for mark in self.marks
            ],
            "facts": dict(self.facts),
            **({"members": {name: each.to_dict() for name, each in self.members.items()}} if self.members else {}),
            **{name: part.to_dict() for name, part in optional.items() if part is not None},
            **({"sentences": sentences} if sentences else {}),
            **({"word_scores": list(self.word_scores)} if self.word_scores else {}),
        }
