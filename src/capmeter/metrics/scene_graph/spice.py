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
>>> from capmeter.text.scene_graphs.graph import match
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
from capmeter.evaluation.base import Floats, Measurement, Metric, RunContext, note_captions
from capmeter.evaluation.evidence import Evidence
from capmeter.stats.ratios import ratio
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
from capmeter.text.scene_graphs.graph import KINDS, Counts, SceneGraph, build_scene_evidence, match
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
    FAMILY: ClassVar[str] = "Meaning and grammar"
    MISLEADS: ClassVar[str] = (
        "Reads a parse: an ungrammatical caption with the right words can score high, and what the parser "
        "misreads is lost. Captions with few objects and attributes tie often, and so do a long caption and the same "
        "with sentences repeated or a spatial relation reversed."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"P = \frac{|T(c) \otimes T(S)|}{|T(c)|}, \quad R = \frac{|T(c) \otimes T(S)|}{|T(S)|}",
        r"\text{SPICE} = \frac{2 P R}{P + R}",
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
        score_rows = [
            _row(match(candidate, reference).counts)
            for candidate, reference in scene_graphs(part, self.scenes(context.settings), synonyms=self.synonyms)
        ]
        caption_scores = np.array(score_rows, np.float64).reshape(len(part), len(self.columns))
        return Measurement(caption_scores, scene_notes(part, self.scenes(context.settings)))

    def from_sums(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """The mean over all captions; for a single kind the mean over the captions that count, and their number."""
        mean_scores = sums / counts[..., None]
        corpus_scores = {column: mean_scores[..., k] for k, column in enumerate(self.columns[:3])}
        for k, tuple_kind in enumerate(SUBSETS):
            score_sums, counted_captions = sums[..., 3 + 2 * k], sums[..., 4 + 2 * k]
            corpus_scores[tuple_kind] = ratio(score_sums, counted_captions)
            corpus_scores[f"{tuple_kind}-captions"] = counted_captions
        return corpus_scores

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """What is parsed, the source of tuples with its hash, its rules, and the dictionary of synonyms."""
        synonyms = "meteor-1.5" if self.synonyms else "none"
        input_facts = {"input": "tokens", "tokenizer": PTB_VERSION} if self.input == "tokens" else {"input": "raw"}
        return {**input_facts, **describe_source(self.source), "synonyms": synonyms}

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The tuples of each caption and of its references: which match, and the most similar one of the others."""
        graph_pairs = scene_graphs(part, self.scenes(context.settings), synonyms=self.synonyms)
        evidence = []
        for caption_index, (candidate, reference) in enumerate(graph_pairs):
            tuple_counts = match(candidate, reference).counts["all"]
            facts: dict[str, float | str] = {"precision": tuple_counts.precision, "recall": tuple_counts.recall}
            evidence.append(
                Evidence(
                    caption_words(part, int(part.candidates[caption_index])),
                    tuple(caption_words(part, k) for k in part.references[caption_index].tolist()),
                    facts=facts,
                    scene=build_scene_evidence(candidate, reference),
                )
            )
        return evidence


def scene_graphs(part: CaptionSet, analysis: Scenes, *, synonyms: bool) -> list[tuple[SceneGraph, SceneGraph]]:
    """Each caption's graph and that of all its references; one graph per distinct caption and reference set.

    Args:
        part: the captions.
        analysis: which graphs.
        synonyms: whether words of one synset merge.
    """
    scene_table: SceneTable = part.pool.analyse(analysis)
    synsets, reference_sets = find_synset_lookup(synonyms), part.reference_sets
    reference_graphs = [
        scene_table.reference_graph(reference_sets[k].tolist(), synsets) for k in range(len(reference_sets))
    ]
    first = {scene_table.sentences[k]: k for k in part.candidates.tolist()}  # samples of a system repeat captions
    candidate_graphs = {text: scene_table.graph(k, synsets) for text, k in first.items()}
    return [
        (candidate_graphs[scene_table.sentences[candidate]], reference_graphs[k])
        for candidate, k in zip(part.candidates.tolist(), part.reference_set_indices.tolist(), strict=True)
    ]


def scene_notes(part: CaptionSet, analysis: Scenes) -> dict[str, list[str]]:
    """Notes of captions that could not be parsed, were truncated or are not English, and of those without a tuple."""
    scene_table: SceneTable = part.pool.analyse(analysis)
    scenes = scene_table.scenes
    is_failed = np.array([scene.tuples is None for scene in scenes], bool)
    is_empty = np.array([scene.tuples == () and bool(part.pool[k].strip()) for k, scene in enumerate(scenes)], bool)
    is_truncated = np.array([scene.truncated for scene in scenes], bool)
    # a name is not foreign: it has no function words of another language
    is_foreign = np.array(
        [not scene.english and has_foreign_words(part.pool[k]) for k, scene in enumerate(scenes)], bool
    )

    def any_reference(mask: Flags) -> Flags:
        return np.bincount(part.references.rows, mask[part.references.values], len(part)) > 0

    english_only = "the parser supports English only"
    note_masks = {
        f"sentence truncated after {MAX_WORDS} words": is_truncated[part.candidates],
        "candidate could not be parsed": is_failed[part.candidates],
        "reference could not be parsed": any_reference(is_failed),
        f"not English; {english_only}": is_foreign[part.candidates],
        "no tuple in candidate": is_empty[part.candidates],
    }
    noted_captions = {
        reason: ids for name, mask in note_masks.items() for reason, ids in note_captions(part, name, mask).items()
    }
    foreign_references = [
        f"{part.ids[caption_index]} (reference {reference_number})"
        for caption_index in np.flatnonzero(any_reference(is_foreign)).tolist()
        for reference_number, sentence in enumerate(part.references[caption_index].tolist(), 1)
        if is_foreign[sentence]
    ]
    return noted_captions | (
        {f"reference not English; {english_only}": foreign_references} if foreign_references else {}
    )


def _row(kind_counts: Mapping[str, Counts]) -> list[float]:
    all_counts = kind_counts["all"]
    score_row = [all_counts.f, all_counts.precision, all_counts.recall]
    for tuple_kind in SUBSETS:
        score_row += [kind_counts[tuple_kind].f, float(kind_counts[tuple_kind].reference > 0)]
    return score_row


def caption_words(part: CaptionSet, sentence: int) -> tuple[str, ...]:
    """A sentence's tokens, for evidence."""
    return tuple(split_as_written(part.pool[sentence]))
