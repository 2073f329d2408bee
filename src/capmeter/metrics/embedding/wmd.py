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

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.evaluation.base import Measurement, RunContext
from capmeter.metrics.embedding.mowe import MeanVectors
from capmeter.metrics.embedding.word_vectors import ContentWords, WordTable, note_missing_vectors

_MAX_ASSIGNMENT = 400


@dataclass(frozen=True, kw_only=True)
class Wmd(MeanVectors):
    """exp(-distance) to the nearest reference; `vectors` is `minilm` or a file."""

    NAME: ClassVar[str] = "wmd"
    SUMMARY: ClassVar[str] = "exact earth mover's distance between word vectors, as a similarity"

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


def movers_distance(one: Mapping[int, int], other: Mapping[int, int], vectors: NDArray[np.float64]) -> float:
    """Exact distance between two non-empty bags (row of `vectors` → count), each of total weight 1."""
    m, n = sum(one.values()), sum(other.values())
    total = math.lcm(m, n)  # each word of one has total/m parts, each of the other total/n
    supply = {word: count * (total // m) for word, count in one.items()}
    demand = {word: count * (total // n) for word, count in other.items()}
    for word in one.keys() & other.keys():
        shared_mass = min(supply[word], demand[word])
        supply[word] -= shared_mass
        demand[word] -= shared_mass
    source_words = [word for word, parts in supply.items() if parts]
    if not source_words:
        return 0.0
    target_words = [word for word, parts in demand.items() if parts]
    masses = [supply[word] for word in source_words], [demand[word] for word in target_words]
    cost = np.sqrt(np.maximum(2 - 2 * (vectors[source_words] @ vectors[target_words].T), 0))
    return transport(cost, *masses) / total


def transport(cost: NDArray[np.float64], supply: list[int], demand: list[int]) -> float:
    """The minimum cost of moving integer supplies (rows) to demands (columns) of equal sum; exact."""
    common = math.gcd(*supply, *demand)
    if len(supply) == 1 or len(demand) == 1:  # only one flow is possible
        return float((np.array(supply)[:, None] * np.array(demand) * cost).sum() / max(sum(supply), 1))
    if sum(supply) // common <= _MAX_ASSIGNMENT:
        from scipy.optimize import linear_sum_assignment

        unit_costs = np.repeat(
            np.repeat(cost, [s // common for s in supply], axis=0), [d // common for d in demand], axis=1
        )
        row_indices, column_indices = linear_sum_assignment(unit_costs)
        return float(unit_costs[row_indices, column_indices].sum() * common)
    from scipy.optimize import linprog
    from scipy.sparse import identity, kron, vstack

    m, n = cost.shape
    marginals = vstack([kron(identity(m), np.ones((1, n))), kron(np.ones((1, m)), identity(n))])
    masses: Any = np.array([*supply, *demand], np.float64)
    constraints: Any = marginals.tocsr()
    solved = linprog(cost.ravel(), A_eq=constraints, b_eq=masses, method="highs")
    return float(solved.fun or 0.0)
