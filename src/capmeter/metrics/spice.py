"""SPICE (Anderson et al. 2016): the F-score of what a caption says of the scene, as objects, attributes and relations.

With T(c) the tuples of the candidate's scene graph and T(S) those of one graph of all references:

    P = |T(c) ⊗ T(S)| / |T(c)|        R = |T(c) ⊗ T(S)| / |T(S)|        SPICE = 2PR / (P + R)

T(c) ⊗ T(S) are the candidate's tuples that match one of the references': word by word by form or synset (METEOR's
WordNet dictionary). 0 (nothing in common, or no tuple) to 1. The corpus score is the mean. Parts: precision, recall,
and the same F over single kinds of tuples, `object`, `attribute`, `relation`, `color`, `cardinality`, `size`, each
averaged over those captions whose references have such tuples, which are counted in `object-captions` and so on.

Graphs are built from parses (`parser`): `caption`, the parser that ships, needs no Java and is an imitation; `corenlp`
is the official one, from which the official numbers follow (docs/spice.md says how closely). `graphs=factual` takes
other graphs: those of a network that was trained on graphs that people wrote (Li et al. 2023). `synonyms=false` matches
by form alone and merges nothing, as the program's `-noSynsets` does.

>>> from capmeter.text.scene_graphs import no_synsets, scene_graph
>>> from capmeter.text.scene_matching import match
>>> candidate = scene_graph([("girl", "young"), ("girl", "horse", "ride")], no_synsets)  # and (girl), (horse)
>>> references = scene_graph([("girl", "horse", "ride"), ("horse", "brown")], no_synsets)
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

from capmeter.captions.model import CaptionSet
from capmeter.metrics.base import Context, Floats, Measurement, Metric
from capmeter.metrics.evidence import Evidence
from capmeter.metrics.scene_evidence import scene_evidence
from capmeter.settings import Settings
from capmeter.store import store_of
from capmeter.text.parsers import ParserName
from capmeter.text.ptb import split_as_written
from capmeter.text.scene_graphs import SceneGraph
from capmeter.text.scene_matching import KINDS, Counts, match
from capmeter.text.scene_tuples import LONGEST
from capmeter.text.scenes import GraphsName, Scenes, SceneTable, scene_source, source_facts, synsets_of

SUBSETS = tuple(kind for kind in KINDS if kind != "all")
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Spice(Metric):
    """F-score of scene graph tuples.

    graphs: `stanford` or `factual`. parser: `caption` or `corenlp`, for `stanford`. synonyms: whether words match by
    synset too.
    """

    NAME: ClassVar[str] = "spice"
    SUMMARY: ClassVar[str] = "objects, attributes and relations in common with the references' scene graph"
    EXTRA: ClassVar[str | None] = "meteor"
    columns: ClassVar[tuple[str, ...]] = (
        *("score", "precision", "recall"),
        *(name for kind in SUBSETS for name in (kind, f"{kind}-captions")),
    )

    parser: ParserName = "caption"
    synonyms: Annotated[bool, "whether words match by synset too"] = True
    graphs: GraphsName = "stanford"

    def __post_init__(self) -> None:
        super().__post_init__()
        scene_source(self.graphs, self.parser)

    @property
    def source(self) -> str:
        """Where tuples come from."""
        return scene_source(self.graphs, self.parser)

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """F, precision and recall of every caption, then F and 1 (or twice 0, where nothing is to be found) by kind."""
        rows = [
            _row(match(candidate, reference).counts)
            for candidate, reference in scene_graphs(part, self.source, context.settings, synonyms=self.synonyms)
        ]
        values = np.array(rows, np.float64).reshape(len(part), len(self.columns))
        return Measurement(values, scene_notes(part, self.source, context.settings))

    def finish(self, sums: Floats, counts: Floats) -> dict[str, Floats]:
        """The mean over all captions; of a single kind the mean over those captions that count, and their number."""
        means = sums / counts[..., None]
        found = {column: means[..., k] for k, column in enumerate(self.columns[:3])}
        for k, kind in enumerate(SUBSETS):
            total, counting = sums[..., 3 + 2 * k], sums[..., 4 + 2 * k]
            found[kind] = np.divide(total, counting, out=np.zeros_like(total), where=counting > 0)
            found[f"{kind}-captions"] = counting
        return found

    def facts(self, context: Context) -> dict[str, str]:
        """The parser with its hash and the rules, or the graph maker with its hash; the dictionary of synonyms."""
        return {**source_facts(self.source), "synonyms": "meteor-1.5" if self.synonyms else "none"}

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """The tuples of each caption and of its references: what agrees, and what is nearest to the rest."""
        graphs = scene_graphs(part, self.source, context.settings, synonyms=self.synonyms)
        evidence = []
        for row, (candidate, reference) in enumerate(graphs):
            counts = match(candidate, reference).counts["all"]
            facts: dict[str, float | str] = {"precision": counts.precision, "recall": counts.recall}
            evidence.append(
                Evidence(
                    _words(part, int(part.candidates[row])),
                    tuple(_words(part, k) for k in part.references[row].tolist()),
                    facts=facts,
                    scene=scene_evidence(candidate, reference),
                )
            )
        return evidence


def scene_graphs(
    part: CaptionSet, source: str, settings: Settings, *, synonyms: bool
) -> list[tuple[SceneGraph, SceneGraph]]:
    """Each caption's graph and that of all its references; one graph for each distinct caption and list."""
    scenes: SceneTable = part.pool.analyse(Scenes(source, store_of(settings)))
    synsets = synsets_of(synonyms)
    references = [
        scenes.reference_graph(part.reference_sets[k].tolist(), synsets) for k in range(len(part.reference_sets))
    ]
    first = {scenes.sentences[k]: k for k in part.candidates.tolist()}  # samples of a system repeat captions
    candidates = {text: scenes.graph(k, synsets) for text, k in first.items()}
    return [
        (candidates[scenes.sentences[candidate]], references[k])
        for candidate, k in zip(part.candidates.tolist(), part.reference_set.tolist(), strict=True)
    ]


def scene_notes(part: CaptionSet, source: str, settings: Settings) -> dict[str, list[str]]:
    """Notes of captions of which nothing or too little, and of those without a tuple."""
    table: SceneTable = part.pool.analyse(Scenes(source, store_of(settings)))
    scenes = table.scenes
    failed = np.array([scene.tuples is None for scene in scenes], bool)
    silent = np.array([scene.tuples == () and bool(part.pool[k].strip()) for k, scene in enumerate(scenes)], bool)
    cut = np.array([scene.cut for scene in scenes], bool)
    foreign = np.array([not scene.english for scene in scenes], bool)

    def candidates(flags: Flags) -> list[str]:
        return [part.ids[k] for k in np.flatnonzero(flags[part.candidates]).tolist()]

    def references(flags: Flags) -> list[str]:
        return [part.ids[k] for k in np.unique(part.references.rows[flags[part.references.values]]).tolist()]

    notes = {
        f"sentence cut after {LONGEST} words": candidates(cut),
        "candidate could not be parsed": candidates(failed),
        "reference could not be parsed": references(failed),
        "not in English, which alone the parser reads": candidates(foreign),
        "reference not in English, which alone the parser reads": references(foreign),
        "no tuple in candidate": candidates(silent),
    }
    return {reason: ids for reason, ids in notes.items() if ids}


def _row(counts: Mapping[str, Counts]) -> list[float]:
    everything = counts["all"]
    row = [everything.f, everything.precision, everything.recall]
    for kind in SUBSETS:
        row += [counts[kind].f, float(counts[kind].reference > 0)]
    return row


def _words(part: CaptionSet, sentence: int) -> tuple[str, ...]:
    return tuple(split_as_written(part.pool[sentence]))
