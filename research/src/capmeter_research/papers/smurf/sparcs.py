"""SPARCS: how many of the concepts that the references name a caption names, weighted by how many name each.

A concept is the stem of a content word. With S the concepts of an image's m references, C those of the candidate and
df(c) the number of references that name c (Eqs. 9 to 11 of the paper):

    P = Σ_{c ∈ C} df(c)/m  /  Σ_{c ∈ C} (df(c)/m + [df(c) = 0])
    R = Σ_{c ∈ C} df(c)    /  Σ_{s ∈ S} df(s)
    SPARCS = 2PR / (P + R)

df(c)/m is the concept's *typicality*. A concept that no reference names costs as much as a concept that all of them
name earns. C is a set: repetitions count once. Range 0 (nothing in common, or no content words) to 1 (the candidate
names exactly what the references name). The corpus score is the mean. Parts: precision, recall.

Parity with the released code: docs/parity.md.

>>> from capmeter.captions.caption_set import Caption, CaptionSet
>>> captions = CaptionSet.from_captions([Caption("1", "1", "a dog on grass", ("Dogs run.", "A dog sleeps!"))])
>>> Sparcs().measure(captions, RunContext()).values.round(3).tolist()  # P = 1/(1+1), R = 1/(1+1/2+1/2), F1 = 1/2
[[0.5, 0.5, 0.5]]

J. Feinglass and Y. Yang. SMURF: SeMantic and linguistic UndeRstanding Fusion for Caption Evaluation via Typicality
Analysis. ACL 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext, note_empty_candidates
from capmeter.evaluation.evidence import Evidence, Link, Mark
from capmeter.stats.ratios import f1, ratio
from capmeter.text.concepts import token_concept
from capmeter.text.tokenization.treebank import tokenise_words
from capmeter_research.papers.smurf.concepts import CONCEPT_SETTINGS, Concepts, normalise_caption


@dataclass(frozen=True, kw_only=True)
class Sparcs(MeanMetric):
    """Typicality-weighted F1 of the concepts that candidate and references name."""

    NAME: ClassVar[str] = "sparcs"
    SUMMARY: ClassVar[str] = "concepts in common with the references, weighted by how typical they are"
    columns: ClassVar[tuple[str, ...]] = ("score", "precision", "recall")
    FAMILY: ClassVar[str] = "Meaning and grammar"
    MISLEADS: ClassVar[str] = (
        'Counts concepts without order, so "a dog bites a man" equals "a man bites a dog". With few references, '
        "typicality is coarse."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"P = \frac{\sum_{c \in C} \text{df}(c) / m}{\sum_{c \in C} \left( \text{df}(c) / m + [\text{df}(c) = 0] "
        r"\right)}, \quad R = \frac{\sum_{c \in C} \text{df}(c)}{\sum_{s \in S} \text{df}(s)}",
        r"\text{SPARCS} = \frac{2 P R}{P + R}",
    )

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """F1, precision and recall of every caption, float64[captions, 3]."""
        concept_table = part.pool.analyse(Concepts())
        captions, size = len(part), max(len(concept_table.vocabulary), 1)
        candidate_concepts = concept_table.concepts.take(part.candidates)
        reference_sets, set_of_caption = part.reference_sets, part.reference_set_indices.astype(np.int64)
        reference_concepts = concept_table.concepts.take(reference_sets.values)

        # Concepts of the k-th reference set have the keys k * size + concept; df is the number of references with each.
        reference_keys, df = np.unique(
            reference_sets.rows[reference_concepts.rows] * size + reference_concepts.values, return_counts=True
        )
        candidate_keys = set_of_caption[candidate_concepts.rows] * size + candidate_concepts.values
        key_positions = np.searchsorted(reference_keys, candidate_keys)
        is_match = key_positions < len(reference_keys)
        is_match[is_match] = reference_keys[key_positions[is_match]] == candidate_keys[is_match]

        # typicality is df by the number of references; sums of whole numbers do not depend on the order of concepts
        reference_counts = np.maximum(reference_sets.lengths, 1)
        matched_df = np.bincount(candidate_concepts.rows[is_match], df[key_positions[is_match]], captions)
        matched = matched_df / reference_counts[set_of_caption]
        unmatched = np.bincount(candidate_concepts.rows[~is_match], minlength=captions)
        total = (np.bincount(reference_keys // size, df, len(reference_sets)) / reference_counts)[set_of_caption]
        precision, recall = ratio(matched, matched + unmatched), ratio(matched, total)
        notes = note_empty_candidates(part, concept_table.concepts.lengths)
        return Measurement(np.stack([f1(precision, recall), precision, recall], axis=1), notes)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """How concepts are extracted from text."""
        return dict(CONCEPT_SETTINGS)

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """For each caption its concepts with their typicality, matched and unmatched on either side."""
        caption_scores = self.measure(part, context).values
        return [
            _evidence(caption.candidate, caption.references, dict(zip(self.columns, row, strict=True)))
            for caption, row in zip(part, caption_scores.tolist(), strict=True)
        ]


def _evidence(candidate: str, references: tuple[str, ...], facts: dict[str, float | str]) -> Evidence:
    """A link to each reference for every matched concept, and a mark with its weight for every concept."""
    candidate_tokens = tokenise_words(normalise_caption(candidate))
    reference_tokens = [tokenise_words(normalise_caption(reference)) for reference in references]
    candidate_concepts = [token_concept(token) for token in candidate_tokens]
    named = [[token_concept(token) for token in words] for words in reference_tokens]
    df = {name: sum(name in sentence for sentence in named) for sentence in named for name in sentence if name}
    links: list[Link] = []
    marks: list[Mark] = []
    for at, name in enumerate(candidate_concepts):
        if name is None or name in candidate_concepts[:at]:  # a set: only the first mention counts
            continue
        weight = df.get(name, 0) / max(len(references), 1)
        marks.append(Mark("candidate", None, at, at + 1, "concept" if weight else "unmatched", weight or 1.0))
        for reference_index, sentence in enumerate(named):
            if name in sentence:
                start = sentence.index(name)
                links.append(Link((at, at + 1), reference_index, (start, start + 1), "concept", weight))
    for reference_index, sentence in enumerate(named):
        for at, name in enumerate(sentence):
            if name is not None and name not in sentence[:at]:
                mark_kind = "concept" if name in candidate_concepts else "unmatched"
                marks.append(Mark("reference", reference_index, at, at + 1, mark_kind, df[name] / len(references)))
    return Evidence(tuple(candidate_tokens), tuple(map(tuple, reference_tokens)), tuple(links), tuple(marks), facts)
