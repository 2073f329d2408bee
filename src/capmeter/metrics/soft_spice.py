"""Soft-SPICE (Li et al. 2023): SPICE with tuples compared by meaning: the cosine of sentence vectors, not yes or no.

Each tuple becomes a phrase: "dog", "brown dog", "dog run on grass" (one for each choice of words where SPICE merged
several). With C the phrases of the candidate's graph, S those of the graph of all its references and v(p) the unit
sentence vector of a phrase:

    soft-SPICE = mean over c ∈ C of max over s ∈ S of v(c) · v(s)

`bidirectional=true` is the released code's: with cosines mapped from [-1, 1] to [0, 1], the harmonic mean of that mean
and its mirror image (over s ∈ S of the largest over c ∈ C); parts precision and recall. -1 (with `bidirectional`, 0)
to 1; 0 where either side has no tuple. The corpus score is the mean.

The paper takes graphs of a T5 parser trained on FACTUAL; here they are built from parses, as SPICE's (`parser`), or
written by a small network trained on FACTUAL (`graphs=factual`). `encoder` is an alias, a hub id or a folder, best a
sentence-transformers model.

>>> from capmeter.text.scene_graphs import no_synsets, scene_graph
>>> scene_graph([("dog", "grass", "run on"), ("dog", "brown")], no_synsets).phrases()
['dog', 'grass', 'brown dog', 'dog run on grass']

Z. Li, Y. Chai, T. Y. Zhuo, L. Qu, G. Haffari, F. Li, D. Ji, Q. H. Tran. FACTUAL: A Benchmark for Faithful and
Consistent Textual Scene Graph Parsing. Findings of ACL 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.model import CaptionSet, SentencePool
from capmeter.encoders import SentenceVectors, load_encoder
from capmeter.metrics.base import Context, MeanMetric, Measurement
from capmeter.metrics.spice import scene_graphs, scene_notes
from capmeter.metrics.word_pieces import encoder_facts
from capmeter.text.parsers import ParserName
from capmeter.text.scene_graphs import SceneGraph
from capmeter.text.scenes import GraphsName, scene_source, source_facts


@dataclass(frozen=True, kw_only=True)
class SoftSpice(MeanMetric):
    """Cosine of the candidate's scene phrases to the nearest of the references'.

    encoder: alias, hub id or folder. graphs: `stanford` or `factual`. parser: `caption` or `corenlp`, for
    `stanford`. bidirectional: precision and recall, as released.
    """

    NAME: ClassVar[str] = "soft-spice"
    SUMMARY: ClassVar[str] = "scene graph tuples compared as phrases by the cosine of sentence vectors"
    EXTRA: ClassVar[str | None] = "meteor,neural"
    ROWS: ClassVar[int] = 2048

    encoder: Annotated[str, "alias, hub id or folder, best a sentence-transformers model"] = "minilm"
    parser: ParserName = "caption"
    bidirectional: Annotated[bool, "precision and recall, as the released code"] = False
    graphs: GraphsName = "stanford"

    def __post_init__(self) -> None:
        super().__post_init__()
        scene_source(self.graphs, self.parser)

    @property
    def columns(self) -> tuple[str, ...]:
        """The score, and with both directions what it is made of."""
        return ("score", "precision", "recall") if self.bidirectional else ("score",)

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption."""
        numbers: dict[str, int] = {}
        found: dict[SceneGraph, list[int]] = {}  # the references' graph is one for all candidates that share them

        def phrases(graph: SceneGraph) -> list[int]:
            if graph not in found:
                found[graph] = [numbers.setdefault(each, len(numbers)) for each in graph.phrases()]
            return found[graph]

        source = scene_source(self.graphs, self.parser)
        graphs = scene_graphs(part, source, context.settings, synonyms=True)
        pairs = [(phrases(mine), phrases(theirs)) for mine, theirs in graphs]
        pool = SentencePool(tuple(numbers))
        layer = load_encoder(self.encoder, context.settings).layers
        vectors: NDArray[np.float32] = pool.analyse(SentenceVectors(self.encoder, layer, context.settings))
        rows = [self._row(mine, theirs, vectors) for mine, theirs in pairs]
        values = np.array(rows, np.float64).reshape(len(part), len(self.columns))
        return Measurement(values, scene_notes(part, source, context.settings))

    def facts(self, context: Context) -> dict[str, str]:
        """The parser and the rules, or the graph maker; and the encoder's weights."""
        facts = encoder_facts(self.encoder, load_encoder(self.encoder, context.settings).layers, context.settings)
        return {**source_facts(scene_source(self.graphs, self.parser)), **facts}

    def _row(self, mine: list[int], theirs: list[int], vectors: NDArray[np.float32]) -> list[float]:
        if not mine or not theirs:
            return [0.0] * len(self.columns)
        cosine = np.asarray(vectors[mine] @ vectors[theirs].T, np.float64)
        if not self.bidirectional:
            return [float(cosine.max(axis=1).mean())]
        nearness = (cosine + 1) / 2
        precision, recall = float(nearness.max(axis=1).mean()), float(nearness.max(axis=0).mean())
        total = precision + recall
        return [2 * precision * recall / total if total else 0.0, precision, recall]
