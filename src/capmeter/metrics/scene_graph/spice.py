"""SPICE (Anderson et al. 2016): F-score of a caption's scene graph: its objects, attributes and relations.

With T(c) the tuples of the candidate's scene graph and T(S) those of one graph of all references:

    P = |T(c) ⊗ T(S)| / |T(c)|        R = |T(c) ⊗ T(S)| / |T(S)|        SPICE = 2PR / (P + R)

T(c) ⊗ T(S) are the candidate's tuples that match one of the references': word by word by form or synset (METEOR's
WordNet dictionary). 0 (nothing in common, or no tuple) to 1. The corpus score is the mean. Parts: precision, recall,
and the same F over single kinds of tuples, `object`, `attribute`, `relation`, `color`, `cardinality`, `size`, each
averaged over the captions whose references have such tuples; `object-captions` and so on give their number.

The parser reads the tokens of MS COCO's evaluation (`input=tokens`: lower case, no punctuation; each sentence of a
text on its own), as pycocoevalcap hands them to the official program and papers report SPICE; `input=raw` gives it
captions as they are written, which is another number.

Graphs are built from parses (`parser`): `caption`, the bundled parser, needs no Java and approximates the official one;
`corenlp` is the official one and gives the official scores (docs/spice.md says how closely). `graphs=factual` takes
graphs of a network that was trained on human-written scene graphs (Li et al. 2023). `synonyms=false` matches by form
alone and merges nothing, as the program's `-noSynsets` does.

>>> from capmeter.text.scene_graphs.graph import build_scene_graph, no_synsets
>>> from capmeter.text.scene_graphs.matching import match
>>> candidate = build_scene_graph([("girl", "young"), ("girl", "horse", "ride")], no_synsets)  # and (girl), (horse)
>>> references = build_scene_graph([("girl", "horse", "ride"), ("horse", "brown")], no_synsets)
>>> counts = match(candidate, references).counts["all"]
>>> counts.true, counts.candidate, counts.reference, counts.f
(3, 4, 4, 0.75)

P. Anderson, B. Fernando, M. Johnson, S. Gould. SPICE: Semantic Propositional Image Caption Evaluation. ECCV 2016.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.text_checks import has_foreign_words
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Floats, Measurement, Metric, RunContext
from capmeter.evaluation.evidence import Evidence
from capmeter.evaluation.scene_evidence import build_scene_evidence
from capmeter.metrics.notes import note_captions
from capmeter.text.parsing.parsers import ParserName
from capmeter.text.scene_graphs.extraction import (
    GraphsName,
    InputName,
    Scenes,
    SceneTable,
    describe_source,
    find_synset_lookup,
    resolve_source,
)
from capmeter.text.scene_graphs.graph import SceneGraph
from capmeter.text.scene_graphs.matching import KINDS, Counts, match
from capmeter.text.scene_graphs.rules import MAX_WORDS
from capmeter.text.tokenization.ptb import VERSION as PTB_VERSION
from capmeter.text.tokenization.ptb import split_as_written

SUBSETS = tuple(kind for kind in KINDS if kind != "all")
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Spice(Metric):
    """F-score of scene graph tuples.

    Args:
        input: `tokens`, as papers report SPICE, or `raw`.
        graphs: `stanford` or `factual`.
        parser: `caption` or `corenlp`, for `stanford`.
        synonyms: whether words match by synset too.
    """

    NAME: ClassVar[str] = "spice"
    SUMMARY: ClassVar[str] = "objects, attributes and relations in common with the references' scene graph"
    EXTRA: ClassVar[str | None] = "meteor"
    columns: ClassVar[tuple[str, ...]] = (
        *("score", "precision", "recall"),
        *(name for kind in SUBSETS for name in (kind, f"{kind}-captions")),
    )

    input: InputName = "tokens"
    parser: ParserName = "caption"
    synonyms: Annotated[bool, "whether words match by synset too"] = True
    graphs: GraphsName = "stanford"

    def __post_init__(self) -> None:
        super().__post_init__()
        resolve_source(self.graphs, self.parser)

    @property
    def source(self) -> str:
        """The source of tuples: a parser, or the learned scene-graph parser."""
        return resolve_source(self.graphs, self.parser)

    def scenes(self, settings: Settings) -> Scenes:
        """The analysis that extracts the tuples of texts."""
        return Scenes(self.source, settings, self.input)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """F, precision and recall of each caption; by kind F and 1, or 0 and 0 if the references have no such tuple."""
        rows = [
            _row(match(candidate, reference).counts)
            for candidate, reference in scene_graphs(part, self.scenes(context.settings), synonyms=self.synonyms)
        ]
        values = np.array(rows, np.float64).reshape(len(part), len(self.columns))
        return Measurement(values, scene_notes(part, self.scenes(context.settings)))

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """The mean over all captions; for a single kind the mean over the captions that count, and their number."""
        means = sums / counts[..., None]
        scores = {column: means[..., k] for k, column in enumerate(self.columns[:3])}
        for k, kind in enumerate(SUBSETS):
            total, captions = sums[..., 3 + 2 * k], sums[..., 4 + 2 * k]
            scores[kind] = np.divide(total, captions, out=np.zeros_like(total), where=captions > 0)
            scores[f"{kind}-captions"] = captions
        return scores

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """What is parsed, the source of tuples with its hash, its rules, and the dictionary of synonyms."""
        synonyms = "meteor-1.5" if self.synonyms else "none"
        text = {"input": "tokens", "tokenizer": PTB_VERSION} if self.input == "tokens" else {"input": "raw"}
        return {**text, **describe_source(self.source), "synonyms": synonyms}

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The tuples of each caption and of its references: which match, and the most similar one of the others."""
        graphs = scene_graphs(part, self.scenes(context.settings), synonyms=self.synonyms)
        evidence = []
        for row, (candidate, reference) in enumerate(graphs):
            counts = match(candidate, reference).counts["all"]
            facts: dict[str, float | str] = {"precision": counts.precision, "recall": counts.recall}
            evidence.append(
                Evidence(
                    caption_words(part, int(part.candidates[row])),
                    tuple(caption_words(part, k) for k in part.references[row].tolist()),
                    facts=facts,
                    scene=build_scene_evidence(candidate, reference),
                )
            )
        return evidence


def scene_graphs(part: CaptionSet, analysis: Scenes, *, synonyms: bool) -> list[tuple[SceneGraph, SceneGraph]]:
    """Each caption's graph and that of all its references; one graph per distinct caption and reference set."""
    scenes: SceneTable = part.pool.analyse(analysis)
    synsets, sets = find_synset_lookup(synonyms), part.reference_sets
    references = [scenes.reference_graph(sets[k].tolist(), synsets) for k in range(len(sets))]
    first = {scenes.sentences[k]: k for k in part.candidates.tolist()}  # samples of a system repeat captions
    candidates = {text: scenes.graph(k, synsets) for text, k in first.items()}
    return [
        (candidates[scenes.sentences[candidate]], references[k])
        for candidate, k in zip(part.candidates.tolist(), part.reference_set_indices.tolist(), strict=True)
    ]


def scene_notes(part: CaptionSet, analysis: Scenes) -> dict[str, list[str]]:
    """Notes of captions that could not be parsed, were truncated or are not English, and of those without a tuple."""
    table: SceneTable = part.pool.analyse(analysis)
    scenes = table.scenes
    failed = np.array([scene.tuples is None for scene in scenes], bool)
    empty = np.array([scene.tuples == () and bool(part.pool[k].strip()) for k, scene in enumerate(scenes)], bool)
    truncated = np.array([scene.truncated for scene in scenes], bool)
    # a name is not foreign: it has no function words of another language
    foreign = np.array([not scene.english and has_foreign_words(part.pool[k]) for k, scene in enumerate(scenes)], bool)

    def any_reference(mask: Flags) -> Flags:
        return np.bincount(part.references.rows, mask[part.references.values], len(part)) > 0

    english_only = "the parser supports English only"
    notes = {
        f"sentence truncated after {MAX_WORDS} words": truncated[part.candidates],
        "candidate could not be parsed": failed[part.candidates],
        "reference could not be parsed": any_reference(failed),
        f"not English; {english_only}": foreign[part.candidates],
        "no tuple in candidate": empty[part.candidates],
    }
    found = {reason: ids for name, mask in notes.items() for reason, ids in note_captions(part, name, mask).items()}
    foreign_references = [
        f"{part.ids[row]} (reference {place})"
        for row in np.flatnonzero(any_reference(foreign)).tolist()
        for place, sentence in enumerate(part.references[row].tolist(), 1)
        if foreign[sentence]
    ]
    return found | ({f"reference not English; {english_only}": foreign_references} if foreign_references else {})


def _row(counts: Mapping[str, Counts]) -> list[float]:
    total = counts["all"]
    row = [total.f, total.precision, total.recall]
    for kind in SUBSETS:
        row += [counts[kind].f, float(counts[kind].reference > 0)]
    return row


def caption_words(part: CaptionSet, sentence: int) -> tuple[str, ...]:
    """A sentence's tokens, for evidence."""
    return tuple(split_as_written(part.pool[sentence]))
