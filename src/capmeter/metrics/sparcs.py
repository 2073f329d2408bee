"""SPARCS: how much of what people named in the image a caption names, weighted by how many of them named it.

A concept is the stem of a content word. With S the concepts of an image's m references, C those of the candidate and
df(c) the number of references that name c (Eqs. 9 to 11 of the paper):

    P = Σ_{c ∈ C} df(c)/m  /  Σ_{c ∈ C} (df(c)/m + [df(c) = 0])
    R = Σ_{c ∈ C} df(c)    /  Σ_{s ∈ S} df(s)
    SPARCS = 2PR / (P + R)

df(c)/m is the concept's *typicality*. A concept that no reference names costs as much as a concept that all of them
name earns. C is a set: repetitions count once. Range 0 (nothing in common, or no content words) to 1 (the candidate
names exactly what the references name). The corpus score is the mean. Parts: precision, recall.

Parity with the released code: docs/parity.md.

>>> from capmeter.captions.model import Caption, CaptionSet
>>> captions = CaptionSet.from_captions([Caption("1", "1", "a dog on grass", ("Dogs run.", "A dog sleeps!"))])
>>> Sparcs().measure(captions, Context()).values.round(3).tolist()  # P = 1/(1+1), R = 1/(1+1/2+1/2), F1 = 1/2
[[0.5, 0.5, 0.5]]

J. Feinglass and Y. Yang. SMURF: SeMantic and linguistic UndeRstanding Fusion for Caption Evaluation via Typicality
Analysis. ACL 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.model import CaptionSet
from capmeter.metrics.base import Context, Floats, MeanMetric, Measurement, wordless
from capmeter.metrics.evidence import Evidence, Link, Mark
from capmeter.text.concepts import CONCEPTS_BY, Concepts, concept, plain, word_tokens


@dataclass(frozen=True, kw_only=True)
class Sparcs(MeanMetric):
    """Typicality-weighted F1 of the concepts that candidate and references name."""

    NAME: ClassVar[str] = "sparcs"
    SUMMARY: ClassVar[str] = "concepts in common with the references, weighted by how typical they are"
    columns: ClassVar[tuple[str, ...]] = ("score", "precision", "recall")

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """F1, precision and recall of every caption, float64[captions, 3]."""
        table = part.pool.analyse(Concepts())
        captions, size = len(part), max(len(table.vocabulary), 1)
        said = table.concepts.take(part.candidates)
        sets, own = part.reference_sets, part.reference_set.astype(np.int64)
        named = table.concepts.take(sets.values)

        # Concepts of the k-th reference list have the keys k * size + concept; df is how often each occurs in it.
        named_keys, df = np.unique(sets.rows[named.rows] * size + named.values, return_counts=True)
        typicality = df / sets.lengths[named_keys // size]
        said_keys = own[said.rows] * size + said.values
        place = np.searchsorted(named_keys, said_keys)
        known = place < len(named_keys)
        known[known] = named_keys[place[known]] == said_keys[known]

        matched = np.bincount(said.rows[known], typicality[place[known]], captions)
        unknown = np.bincount(said.rows[~known], minlength=captions)
        everything = np.bincount(named_keys // size, typicality, len(sets))[own]
        precision = _ratio(matched, matched + unknown)
        recall = _ratio(matched, everything)
        score = _ratio(2 * precision * recall, precision + recall)
        return Measurement(np.stack([score, precision, recall], axis=1), wordless(part, table.concepts.lengths))

    def facts(self, context: Context) -> dict[str, str]:
        """How concepts are extracted from text."""
        return dict(CONCEPTS_BY)

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """For each caption its concepts with their typicality, matched and unmatched on either side."""
        values = self.measure(part, context).values
        return [
            _evidence(caption.candidate, caption.references, dict(zip(self.columns, row, strict=True)))
            for caption, row in zip(part, values.tolist(), strict=True)
        ]


def _ratio(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any]) -> Floats:
    ratio: Floats = np.zeros(len(numerator))
    np.divide(numerator, denominator, out=ratio, where=denominator > 0)
    return ratio


def _evidence(candidate: str, references: tuple[str, ...], facts: dict[str, float | str]) -> Evidence:
    """A link to each reference for every matched concept, and a mark with its weight for every concept."""
    tokens = word_tokens(plain(candidate))
    reference_tokens = [word_tokens(plain(reference)) for reference in references]
    said = [concept(token) for token in tokens]
    named = [[concept(token) for token in each] for each in reference_tokens]
    df = {each: sum(each in sentence for sentence in named) for sentence in named for each in sentence if each}
    links: list[Link] = []
    marks: list[Mark] = []
    for at, found in enumerate(said):
        if found is None or found in said[:at]:  # a set: only the first mention counts
            continue
        weight = df.get(found, 0) / max(len(references), 1)
        marks.append(Mark("candidate", None, at, at + 1, "concept" if weight else "unmatched", weight or 1.0))
        for k, sentence in enumerate(named):
            if found in sentence:
                there = sentence.index(found)
                links.append(Link((at, at + 1), k, (there, there + 1), "concept", weight))
    for k, sentence in enumerate(named):
        for at, found in enumerate(sentence):
            if found is not None and found not in sentence[:at]:
                kind = "concept" if found in said else "unmatched"
                marks.append(Mark("reference", k, at, at + 1, kind, df[found] / len(references)))
    return Evidence(tuple(tokens), tuple(tuple(each) for each in reference_tokens), tuple(links), tuple(marks), facts)
