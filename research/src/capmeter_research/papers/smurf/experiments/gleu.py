"""GLEU: n-gram precision that punishes what should have been corrected (Napoles et al. 2015, 2016).

For a correction C of a source sentence S, and a reference R:

    pₙ    = max(|C ∩ R|ₙ − |C ∩ (S ∖ R)|ₙ, 0) / |C|ₙ        n-grams with their counts; S ∖ R: those of S that R lacks
    GLEU  = min(1, exp(1 − |R| / |C|)) · exp(1/4 Σₙ ln pₙ)   n = 1 … 4

The score of a sentence is the mean over its references, the score of a system the mean over its sentences. In a
sentence counts of 0 are taken as 1, as the authors smooth them. Range 0 to 1; 1 for a reference. Tokens are what white
space separates. This is the form of 2016, without the weight that the form of 2015 had to tune; the authors recommend
it instead of that.

A correction needs its source, which captions do not have: GLEU is a baseline of `conll14`, not a caption metric.
`references` are `every`, all that the file has (20 for each sentence of CoNLL-2014), or `protocol`, those of the
protocol (2).

>>> sentence_gleu("he go home", "he goes home", "he goes home")
1.0
>>> round(sentence_gleu("he go home", "he go home", "he goes home"), 4)  # 1-grams: (2 - 1) / 3, 2-grams: (0 → 1) / 2
0.6389

Napoles, Sakaguchi, Post, Tetreault: Ground Truth for Grammatical Error Correction Metrics. ACL 2015.
Napoles, Sakaguchi, Post, Tetreault: GLEU Without Tuning. arXiv:1605.02592, 2016.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import ProtocolError
from capmeter.judgments.prepared import Floats, PreparedJudgments, Systems
from capmeter.meta.metric_scores import Baseline

ORDERS = (1, 2, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Gleu(Baseline):
    """GLEU of corrected sentences."""

    NAME: ClassVar[str] = "gleu"
    SUMMARY: ClassVar[str] = "n-gram precision of corrections against references and source"

    references: Annotated[
        Literal["every", "protocol"], "every reference that the file has, or those of the protocol"
    ] = "every"

    def scores(self, judgments: PreparedJudgments) -> Floats:
        """The mean over each system's sentences."""
        if not isinstance(judgments, Systems) or not judgments.originals:
            raise ProtocolError(
                f"{judgments.benchmark} has no source sentences, which {self.name} needs: it is a baseline of conll14 "
                "with a file of sentences (source, systems, references)"
            )
        references: dict[str, tuple[str, ...]] = {}
        by_source: dict[str, dict[str, list[int]]] = {}  # source's id → correction → rows of the systems that wrote it
        for caption_row, caption in enumerate(judgments.captions):
            references[caption.image_id] = caption.references
            by_source.setdefault(caption.image_id, {}).setdefault(caption.candidate, []).append(caption_row)
        sentence_scores = np.zeros(len(judgments.captions))
        for source_id, corrections in by_source.items():
            original = judgments.originals[source_id]
            used_references = original.references if self.references == "every" else references[source_id]
            score_table = gleu_table(original.source, list(corrections), used_references)
            for system_rows, reference_scores in zip(corrections.values(), score_table.tolist(), strict=True):
                sentence_scores[system_rows] = (
                    sum(reference_scores) / len(reference_scores) if reference_scores else 0.0
                )
        return np.array([sentence_scores[members].mean() for members in judgments.members])

    def max_references(self, judgments: PreparedJudgments) -> int:
        """With `every`, more than the protocol's."""
        if self.references == "every" and isinstance(judgments, Systems):
            return max((len(original.references) for original in judgments.originals.values()), default=0)
        return super().max_references(judgments)


def sentence_gleu(source: str, candidate: str, reference: str) -> float:
    """GLEU of one sentence against one reference; an empty candidate scores 0 (1 where the reference is empty)."""
    return float(gleu_table(source, [candidate], [reference])[0, 0])


def gleu_table(source: str, candidates: Sequence[str], references: Sequence[str]) -> Floats:
    """GLEU of each candidate (rows) against each reference (columns)."""
    sentences = [text.split() for text in (source, *candidates, *references)]
    lengths, reference_lengths = np.split(
        np.array([len(words) for words in sentences[1:]], np.int64), [len(candidates)]
    )
    logarithms = np.zeros((len(candidates), len(references)))
    for n in ORDERS:
        counts = _ngram_counts(sentences, n)
        source_counts = counts[0]  # (n-grams)
        candidate_counts = counts[1 : len(candidates) + 1, None]  # (candidates, 1, n-grams)
        reference_counts = counts[len(candidates) + 1 :]  # (references, n-grams)
        match_counts = np.minimum(candidate_counts, reference_counts).sum(axis=2)
        uncorrected = (np.minimum(candidate_counts, source_counts) * (reference_counts == 0)).sum(axis=2)
        ngram_totals = np.maximum(lengths + 1 - n, 1)[:, None]
        logarithms += np.log(np.maximum(match_counts - uncorrected, 1)) - np.log(ngram_totals)
    log_brevity = np.minimum(0.0, 1 - np.maximum(reference_lengths, 1) / np.maximum(lengths, 1)[:, None])
    is_empty = lengths[:, None] == 0
    scores: Floats = np.where(is_empty, reference_lengths == 0, np.exp(log_brevity + logarithms / len(ORDERS)))
    return scores


def _ngram_counts(sentences: Sequence[Sequence[str]], n: int) -> npt.NDArray[np.int64]:
    """The counts (sentences, n-grams) of all n-grams that any of the sentences has."""
    ngram_columns: defaultdict[tuple[str, ...], int] = defaultdict()
    ngram_columns.default_factory = ngram_columns.__len__
    count_cells = [
        (sentence_row, ngram_columns[gram])
        for sentence_row, words in enumerate(sentences)
        for gram in zip(*(words[ngram_start:] for ngram_start in range(n)), strict=False)
    ]
    ngram_counts = np.zeros((len(sentences), len(ngram_columns)), np.int64)
    if count_cells:
        np.add.at(ngram_counts, tuple(np.array(count_cells).T), 1)
    return ngram_counts
