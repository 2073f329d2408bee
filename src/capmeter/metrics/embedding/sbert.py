"""Cosine similarity of sentence vectors (Reimers and Gurevych 2019): a simple, strong baseline.

    score = pool over references of cos(v(candidate), v(reference)),    v = mean of the last layer's hidden states

begin and end tokens included, as sentence-transformers models are trained. `pooling`: `max` (default) or `mean` over
references, or `centroid`, the cosine with the mean of the references' unit vectors. Range -1 to 1; 1, up
to rounding (1e-6: vectors are float32), for a candidate that equals a reference (with `centroid`, its only one). An
empty candidate scores 0. The corpus score is the mean.

>>> import capmeter
>>> results = capmeter.score(candidates=["a dog runs"], references=[["a dog runs", "cats sleep"]], metrics="sbert")
>>> round(results["sbert"].items["0"], 4)
1.0

Reimers, Gurevych: Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks. EMNLP 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.encoders import SentenceVectors, find_encoder, load_encoder
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext
from capmeter.metrics.embedding.word_pieces import encoder_facts, note_truncated_sentences
from capmeter.metrics.notes import empty_candidates


@dataclass(frozen=True, kw_only=True)
class Sbert(MeanMetric):
    """Cosine of sentence vectors.

    Args:
        encoder: alias, hub id or folder, preferably of a sentence-transformers model.
        pooling: over references.
    """

    NAME: ClassVar[str] = "sbert"
    SUMMARY: ClassVar[str] = "cosine of sentence vectors"
    MAX_WORDS: ClassVar[int | None] = 170  # MiniLM reads 256 word pieces
    EXTRA: ClassVar[str | None] = "neural"
    PART_SIZE: ClassVar[int] = 2048

    encoder: Annotated[str, "alias, hub id or folder, preferably of a sentence-transformers model"] = "minilm"
    pooling: Annotated[Literal["max", "mean", "centroid"], "how scores over several references are pooled"] = "max"

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        encoder = find_encoder(self.encoder)
        layer = load_encoder(encoder, context.settings).layers
        vectors: NDArray[np.float32] = part.pool.analyse(SentenceVectors(encoder, layer, context.settings))
        references, starts = vectors[part.references.values], part.references.offsets[:-1]
        if self.pooling == "centroid":
            centroid = np.add.reduceat(references, starts, axis=0, dtype=np.float64)
            length = np.linalg.norm(centroid, axis=1)
            scores = np.einsum("nd,nd->n", vectors[part.candidates], centroid) / np.where(length > 0, length, 1)
        else:
            candidates = vectors[part.candidates[part.references.rows]]
            cosine = np.einsum("nd,nd->n", candidates, references, dtype=np.float64)
            if self.pooling == "max":
                scores = np.maximum.reduceat(cosine, starts)
            else:
                scores = np.add.reduceat(cosine, starts) / part.references.lengths
        notes = note_truncated_sentences(part, encoder, context.settings)
        cosines = np.clip(scores, -1.0, 1.0)  # of float32 vectors, whose length is not exactly 1
        return Measurement(np.where(empty_candidates(part), 0.0, cosines)[:, None], notes)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The weights, the layer and the libraries."""
        encoder = find_encoder(self.encoder)
        return encoder_facts(encoder, load_encoder(encoder, context.settings).layers, context.settings)
