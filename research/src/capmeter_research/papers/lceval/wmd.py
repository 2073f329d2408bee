"""Word Mover's Distance (Kusner et al. 2015) as a similarity: the cost of turning one caption's words into another's.

    d(C, R) = min Σ_{i,j} T_ij |v_i - v_j|     over flows T ≥ 0 with Σ_j T_ij = c_i, Σ_i T_ij = r_j
    score   = exp(-min over references of d)

c and r are the captions' normalised word counts, v unit word vectors; words are those that are not stop words (NLTK's
list) and have a vector, as in the code of LCEval, of which this is a feature. Range 0 to 1; 1 if the candidate has the
same content words as a reference, 0 if it or all references have none. The corpus score is the mean.

The distance is exact. Words that both captions share do not move (distances obey the triangle inequality, so some
optimal flow leaves them in place). The rest moves m words of weight 1/m to n of weight 1/n: with each word split into
equal parts this is an assignment of lcm(m, n) parts, solved exactly by scipy's shortest augmenting paths; if that is
large (captions of dozens of words) HiGHS solves the linear program itself.

>>> import capmeter
>>> results = capmeter.score(
...     candidates=["the dog runs", "a red car"], references=[["a dog runs"], ["a dog"]], metrics="wmd"
... )  # doctest: +SKIP
>>> results["wmd"].items["0"], 0 < results["wmd"].items["1"] < 0.5  # doctest: +SKIP
(1.0, True)

Kusner, Sun, Kolkin, Weinberger: From Word Embeddings To Document Distances. ICML 2015.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.evaluation.base import Measurement, RunContext
from capmeter_research.common.movers_distance import movers_distance
from capmeter_research.common.word_tables import ContentWords, MeanVectors, WordTable, note_missing_vectors


@dataclass(frozen=True, kw_only=True)
class Wmd(MeanVectors):
    """exp(-distance) to the nearest reference; `vectors` is `minilm` or a file."""

    NAME: ClassVar[str] = "wmd"
    SUMMARY: ClassVar[str] = "exact earth mover's distance between word vectors, as a similarity"
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"d(c, r) = \min_{T \geq 0} \sum_{i,j} T_{ij} \|v_i - v_j\|, \quad \sum_j T_{ij} = c_i, \quad \sum_i "
        r"T_{ij} = r_j",
        r"\text{score} = \exp\left( -\min_{r} d(c, r) \right)",
    )

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        word_table: WordTable = part.pool.analyse(ContentWords(self.vectors, settings=context.settings))
        word_bags = {
            int(sentence_index): Counter(word_table.words[int(sentence_index)].tolist())
            for sentence_index in np.unique([*part.candidates, *part.references.values])
        }
        nearest_distances = np.full(len(part), np.inf)
        for caption_index, candidate in enumerate(part.candidates.tolist()):
            if word_bags[candidate]:
                distances = [
                    movers_distance(word_bags[candidate], word_bags[reference], word_table.unit)
                    for reference in dict.fromkeys(part.references[caption_index].tolist())
                    if word_bags[reference]
                ]
                nearest_distances[caption_index] = min(distances, default=np.inf)
        return Measurement(np.exp(-nearest_distances)[:, None], note_missing_vectors(part, word_table))
