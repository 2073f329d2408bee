"""MOWE (Sharif et al. 2019): cosine of mean word vectors with the best reference, a feature of LCEval.

    v(C) = 1/n Σ_{w ∈ C} V_w          MOWE = max over references of v(C) · v(R) / |v(C)| |v(R)|

over the words of a caption that are not stop words (NLTK's list) and have a vector. The corpus score is the mean; range
-1 to 1: 1 means that the mean vectors agree, as for a candidate that equals a reference, and -1 also that the candidate
or every reference has no word with a vector. Before looking words up, LCEval's code deletes `. , " '`, and it leaves
out stop words, where the paper's text has "all the words in the caption". `vectors` is `minilm` (distilled from the
default encoder) or a GloVe, word2vec or fastText file.

>>> import capmeter
>>> results = capmeter.score(
...     candidates=["a dog runs"], references=[["the dog runs", "dogs sleep"]], metrics="mowe"
... )  # doctest: +SKIP
>>> round(results["mowe"].score, 4)  # doctest: +SKIP
1.0

Sharif, White, Bennamoun, Liu, Shah: LCEval: Learned Composite Metric for Caption Evaluation. IJCV 127, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.evaluation.base import Measurement, RunContext
from capmeter_research.common.reference_pooling import Pooling, pool_over_references
from capmeter_research.common.word_tables import (
    ContentWords,
    MeanVectors,
    WordTable,
    note_missing_vectors,
    reference_cosines,
)

DELETED = ".,\"'"


@dataclass(frozen=True, kw_only=True)
class Mowe(MeanVectors):
    """Cosine of mean word vectors.

    Args:
        vectors: `minilm` or a file.
        pooling: over references: max, as in LCEval, mean or min (its appendix B.2).
    """

    NAME: ClassVar[str] = "mowe"
    SUMMARY: ClassVar[str] = "cosine of mean word vectors, best reference (LCEval's feature)"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\bar{v}(x) = \frac{1}{n} \sum_{w \in x} V_w",
        r"\text{MOWE} = \max_{r \in R} \cos(\bar{v}(c), \bar{v}(r))",
    )

    pooling: Annotated[Pooling, "how cosines with several references are pooled"] = "max"

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        word_table: WordTable = part.pool.analyse(ContentWords(self.vectors, DELETED, context.settings))
        cosine, present = reference_cosines(part, word_table)
        pooled_scores = pool_over_references(np.where(present, cosine, -1.0), part, self.pooling)
        return Measurement(pooled_scores[:, None], note_missing_vectors(part, word_table))
