"""How often a text repeats itself: R@4 of video paragraphs (Xiong et al. 2018), and distinct n-grams.

    repetition(n) = 1 − distinct n-grams / n-grams     of one text: the share of n-grams that occurred before in it
    distinct(n)   = distinct n-grams / n-grams         of one text (Div-n)

Range 0 to 1. R@4 is `repetition`; less is better, but what people write of long videos is not free of it either. Both
need no references. Words are what blanks separate, full stops included: the released evaluation splits paragraphs so,
which are tokenised already; `tokenizer=ptb` reads texts as written and drops punctuation. A text shorter than n words
repeats nothing: 0 and 1. The corpus score is the mean over texts.

>>> from capmeter.evaluation.runner import score
>>> text = "the man runs and the man runs and the man stops"
>>> results = score(candidates=[text], references=[["a man runs"]], metrics="repetition,distinct(n=1)")
>>> [round(results[name].score, 3) for name in ("repetition", "distinct(n=1)")]  # 3 of 8 and 5 of 11
[0.375, 0.455]

Y. Xiong, B. Dai, D. Lin. Move Forward and Tell: A Progressive Generator of Video Descriptions. ECCV 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Floats, MeanMetric, Measurement, RunContext, note_empty_candidates
from capmeter.text.ngrams import NGrams, NGramTable
from capmeter.text.tokenization.token_tables import Tokenizer, tokenizer_version


@dataclass(frozen=True, kw_only=True)
class DistinctShare(MeanMetric):
    """The share of distinct n-grams among the n-grams of a text."""

    NAME: ClassVar[str] = "distinct"
    SUMMARY: ClassVar[str] = "distinct n-grams as a share of all n-grams of a text"
    MICROSECONDS: ClassVar[float] = 20.0
    needs: ClassVar[frozenset[str]] = frozenset()
    FAMILY: ClassVar[str] = "Events in time"
    MISLEADS: ClassVar[str] = "Sees one text alone: an empty one is perfect."
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{distinct-}n = \frac{|\text{distinct } n\text{-grams}|}{|n\text{-grams}|}",
    )

    n: Annotated[int, "words of an n-gram"] = 2
    tokenizer: Annotated[Tokenizer, "how texts are split into words; ptb for texts as written"] = "whitespace"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n <= 16:
            raise InputError(f"{self.name}: expected n from 1 to 16, but got {self.n}")

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The value of each candidate."""
        ngram_table: NGramTable = part.pool.analyse(NGrams(self.n, self.tokenizer))
        is_of_order = ngram_table.order[ngram_table.entries.values] == self.n
        sentence_indices, sentence_count = ngram_table.entries.rows[is_of_order], len(part.pool)
        ngram_totals = np.bincount(sentence_indices, ngram_table.counts[is_of_order], sentence_count)
        distinct_shares = np.where(
            ngram_totals > 0, np.bincount(sentence_indices, minlength=sentence_count) / np.maximum(ngram_totals, 1), 1.0
        )
        notes = note_empty_candidates(part, ngram_table.lengths)
        return Measurement(self.value(distinct_shares)[part.candidates][:, None], notes)

    def value(self, distinct: Floats) -> Floats:
        """The score from the share of distinct n-grams."""
        return distinct

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The tokenizer."""
        return {"tokenizer": tokenizer_version(self.tokenizer)}


@dataclass(frozen=True, kw_only=True)
class RepetitionShare(DistinctShare):
    """R@n: the share of n-grams that repeat an earlier one of the same text."""

    NAME: ClassVar[str] = "repetition"
    SUMMARY: ClassVar[str] = "R@4: the share of n-grams that repeat earlier ones of the same text"
    lower_is_better: ClassVar[bool] = True
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{R@}n = 1 - \frac{|\text{distinct } n\text{-grams}|}{|n\text{-grams}|}",
    )

    n: Annotated[int, "words of an n-gram"] = 4

    def value(self, distinct: Floats) -> Floats:
        """One minus the share of distinct n-grams."""
        return 1.0 - distinct
