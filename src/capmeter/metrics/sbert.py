"""Cosine similarity of sentence vectors (Reimers and Gurevych 2019): a simple, strong baseline.

    score = pool over references of cos(v(candidate), v(reference)),    v = mean of the last layer's hidden states

begin and end tokens included, as sentence-transformers models are trained. `pooling`: `max` (default) or `mean` over
references, or `centroid`, the cosine with the mean of the references' unit vectors. Range -1 to 1, up to rounding
(1e-6: vectors are float32); 1 for a candidate that equals a reference (with `centroid`, its only one). An empty
candidate scores 0.

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

from capmeter.captions.model import CaptionSet
from capmeter.encoders import SentenceVectors, load_encoder
from capmeter.metrics.base import Context, MeanMetric, Measurement
from capmeter.metrics.word_pieces import encoder_facts, truncation_note


@dataclass(frozen=True, kw_only=True)
class Sbert(MeanMetric):
    """Cosine of sentence vectors.

    encoder: alias, hub id or folder, preferably of a sentence-transformers model. pooling: `max`, `mean` or `centroid`.
    """

    NAME: ClassVar[str] = "sbert"
    SUMMARY: ClassVar[str] = "cosine of sentence vectors"
    EXTRA: ClassVar[str | None] = "neural"
    ROWS: ClassVar[int] = 2048

    encoder: Annotated[str, "alias, hub id or folder, preferably of a sentence-transformers model"] = "minilm"
    pooling: Annotated[Literal["max", "mean", "centroid"], "how scores over several references are pooled"] = "max"

    @property
    def columns(self) -> tuple[str, ...]:
        """The score."""
        return ("score",)

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption."""
        layer = load_encoder(self.encoder, context.settings).layers
        vectors: NDArray[np.float32] = part.pool.analyse(SentenceVectors(self.encoder, layer, context.settings))
        starts = part.references.offsets[:-1]
        if self.pooling == "centroid":
            centre = np.add.reduceat(vectors[part.references.values], starts, axis=0, dtype=np.float64)
            length = np.linalg.norm(centre, axis=1)
            scores = np.einsum("nd,nd->n", vectors[part.candidates], centre) / np.where(length > 0, length, 1)
        else:
            cosine = np.einsum(
                "nd,nd->n",
                vectors[part.candidates[part.references.rows]],
                vectors[part.references.values],
                dtype=np.float64,
            )
            if self.pooling == "max":
                scores = np.maximum.reduceat(cosine, starts)
            else:
                scores = np.add.reduceat(cosine, starts) / part.references.lengths
        blank = np.array([not part.pool[k].strip() for k in part.candidates.tolist()], np.bool_)
        return Measurement(np.where(blank, 0.0, scores)[:, None], truncation_note(part, self.encoder, context.settings))

    def facts(self, context: Context) -> dict[str, str]:
        """The weights, the layer and the libraries."""
        return encoder_facts(self.encoder, load_encoder(self.encoder, context.settings).layers, context.settings)
