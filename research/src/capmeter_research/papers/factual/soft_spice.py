"""Soft-SPICE (Li et al. 2023): SPICE with tuples compared by the cosine of sentence vectors instead of exact matches.

Each tuple becomes a phrase: "dog", "brown dog", "dog run on grass" (one for each choice of words where SPICE merged
several). With C the phrases of the candidate's graph, S those of the graph of all its references and v(p) the unit
sentence vector of a phrase:

    soft-SPICE = mean over c ∈ C of max over s ∈ S of v(c) · v(s)

`bidirectional=true` is the released code's: with cosines mapped from [-1, 1] to [0, 1], the harmonic mean of that mean
and its mirror image (over s ∈ S of the largest over c ∈ C); parts precision and recall. Range -1 (with `bidirectional`,
0) to 1; 0 if either side has no tuple. The corpus score is the mean.

The paper uses graphs of a T5 parser trained on FACTUAL; here they are built from parses, like SPICE's (`parser`), or
predicted by a small network trained on FACTUAL (`graphs=factual`). `encoder` is an alias, a hub id or a folder,
preferably of a sentence-transformers model.

>>> from capmeter.text.scene_graphs.graph import build_scene_graph, no_synsets
>>> list_phrases(build_scene_graph([("dog", "grass", "run on"), ("dog", "brown")], no_synsets))
['dog', 'grass', 'brown dog', 'dog run on grass']

Z. Li, Y. Chai, T. Y. Zhuo, L. Qu, G. Haffari, F. Li, D. Ji, Q. H. Tran. FACTUAL: A Benchmark for Faithful and
Consistent Textual Scene Graph Parsing. Findings of ACL 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, product
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.encoders import SentenceVectors, find_encoder, load_encoder
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext
from capmeter.metrics.embedding.word_pieces import encoder_facts
from capmeter.metrics.scene_graph.spice import scene_graphs, scene_notes
from capmeter.text.parsing.parsers import ParserName
from capmeter.text.scene_graphs.extraction import GraphsName, Scenes, describe_source, resolve_source
from capmeter.text.scene_graphs.graph import SceneGraph


@dataclass(frozen=True, kw_only=True)
class SoftSpice(MeanMetric):
    """Cosine of the candidate's phrases with the most similar ones of the references.

    Args:
        encoder: alias, hub id or folder.
        graphs: `stanford` or `factual`.
        parser: `caption` or `corenlp`, for `stanford`.
        bidirectional: precision and recall, as released.
    """

    NAME: ClassVar[str] = "soft-spice"
    SUMMARY: ClassVar[str] = "scene graph tuples compared as phrases by the cosine of sentence vectors"
    EXTRA: ClassVar[str | None] = "meteor,neural"
    PART_SIZE: ClassVar[int] = 2048
    FAMILY: ClassVar[str] = "Meaning and grammar"
    MISLEADS: ClassVar[str] = (
        "Reads a parse, as SPICE: what the parser misreads is lost. Words with similar contexts count as similar, "
        "opposites too."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{soft-SPICE} = \frac{1}{|C|} \sum_{c \in C} \max_{s \in S} v(c) \cdot v(s)",
    )

    encoder: Annotated[str, "alias, hub id or folder, preferably of a sentence-transformers model"] = "minilm"
    parser: ParserName = "caption"
    bidirectional: Annotated[bool, "precision and recall, as the released code"] = False
    graphs: GraphsName = "stanford"

    def __post_init__(self) -> None:
        super().__post_init__()
        resolve_source(self.graphs, self.parser)

    @property
    def columns(self) -> tuple[str, ...]:
        """The score, and with both directions precision and recall."""
        return ("score", "precision", "recall") if self.bidirectional else ("score",)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        phrase_positions: dict[str, int] = {}
        graph_phrases: dict[SceneGraph, list[int]] = {}  # candidates with the same references share their graph

        def phrase_ids(graph: SceneGraph) -> list[int]:
            if graph not in graph_phrases:
                graph_phrases[graph] = [
                    phrase_positions.setdefault(phrase, len(phrase_positions)) for phrase in list_phrases(graph)
                ]
            return graph_phrases[graph]

        scenes = Scenes(resolve_source(self.graphs, self.parser), context.settings)
        graph_pairs = scene_graphs(part, scenes, synonyms=True)
        pairs = [(phrase_ids(candidate), phrase_ids(references)) for candidate, references in graph_pairs]
        encoder_handle = find_encoder(self.encoder)
        layer = load_encoder(encoder_handle, context.settings).layers
        vector_analysis = SentenceVectors(encoder_handle, layer, context.settings)
        phrase_vectors: NDArray[np.float32] = SentencePool(tuple(phrase_positions)).analyse(vector_analysis)
        score_rows = [
            self._row(phrase_vectors[candidate], phrase_vectors[references]) for candidate, references in pairs
        ]
        caption_scores = np.array(score_rows, np.float64).reshape(len(part), len(self.columns))
        return Measurement(caption_scores, scene_notes(part, scenes))

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The parser and the rules, or the scene-graph parser; and the encoder's weights."""
        encoder_handle = find_encoder(self.encoder)
        facts = encoder_facts(encoder_handle, load_encoder(encoder_handle, context.settings).layers, context.settings)
        return {**describe_source(resolve_source(self.graphs, self.parser)), **facts}

    def _row(self, candidate_vectors: NDArray[np.float32], reference_vectors: NDArray[np.float32]) -> list[float]:
        if not len(candidate_vectors) or not len(reference_vectors):
            return [0.0] * len(self.columns)
        phrase_cosines = np.asarray(candidate_vectors @ reference_vectors.T, np.float64)
        if not self.bidirectional:
            return [float(phrase_cosines.max(axis=1).mean())]
        similarity = (phrase_cosines + 1) / 2
        precision, recall = float(similarity.max(axis=1).mean()), float(similarity.max(axis=0).mean())
        total = precision + recall
        return [2 * precision * recall / total if total else 0.0, precision, recall]


def list_phrases(graph: SceneGraph) -> list[str]:
    """Each tuple as words, "dog", "brown dog", "dog run on grass", for every choice of merged words; each once.

    Of one tuple at most 1,000 are made.
    """
    word_choices = (
        words for concepts in graph.tuples() for words in islice(product(*(c.words for c in concepts)), 1000)
    )
    return list(dict.fromkeys(" ".join(reversed(words) if len(words) == 2 else words) for words in word_choices))
