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
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext, empty_candidates
from capmeter.metrics.embedding.word_pieces import encoder_facts, note_sentences


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
    FAMILY: ClassVar[str] = "Vectors of words and sentences"
    MISLEADS: ClassVar[str] = (
        'Rates words with similar contexts as similar, including opposites and colours ("red car", "blue car"). '
        "Differences between good systems are small on its scale."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \max_{r \in R} \cos(v(c), v(r))",)

    encoder: Annotated[str, "alias, hub id or folder, preferably of a sentence-transformers model"] = "minilm"
    pooling: Annotated[Literal["max", "mean", "centroid"], "how scores over several references are pooled"] = "max"

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        encoder_handle = find_encoder(self.encoder)
        layer = load_encoder(encoder_handle, context.settings).layers
        sentence_vectors: NDArray[np.float32] = part.pool.analyse(
            SentenceVectors(encoder_handle, layer, context.settings)
        )
        reference_vectors, reference_starts = sentence_vectors[part.references.values], part.references.offsets[:-1]
        if self.pooling == "centroid":
            centroid = np.add.reduceat(reference_vectors, reference_starts, axis=0, dtype=np.float64)
            centroid_norms = np.linalg.norm(centroid, axis=1)
            caption_scores = np.einsum("nd,nd->n", sentence_vectors[part.candidates], centroid) / np.where(
                centroid_norms > 0, centroid_norms, 1
            )
        else:
            candidate_vectors = sentence_vectors[part.candidates[part.references.rows]]
            pair_cosines = np.einsum("nd,nd->n", candidate_vectors, reference_vectors, dtype=np.float64)
            if self.pooling == "max":
                caption_scores = np.maximum.reduceat(pair_cosines, reference_starts)
            else:
                caption_scores = np.add.reduceat(pair_cosines, reference_starts) / part.references.lengths
        notes = note_sentences(part, encoder_handle, context.settings)
        clipped_scores = np.clip(caption_scores, -1.0, 1.0)  # of float32 vectors, whose length is not exactly 1
        return Measurement(np.where(empty_candidates(part), 0.0, clipped_scores)[:, None], notes)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The weights, the layer and the libraries."""
        encoder_handle = find_encoder(self.encoder)
        return encoder_facts(encoder_handle, load_encoder(encoder_handle, context.settings).layers, context.settings)
