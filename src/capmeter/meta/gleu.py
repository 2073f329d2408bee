"""GLEU: n-gram precision that punishes what should have been corrected (Napoles et al. 2015, 2016).

For a correction C of a source sentence S, and a reference R:

    pₙ    = max(|C ∩ R|ₙ − |C ∩ (S ∖ R)|ₙ, 0) / |C|ₙ        n-grams with their counts; S ∖ R: those of S that R lacks
    GLEU  = min(1, exp(1 − |R| / |C|)) · exp(1/4 Σₙ ln pₙ)   n = 1 … 4

The score of a sentence is the mean over its references, the score of a system the mean over its sentences. In a
sentence counts of 0 are taken as 1, as the authors smooth them. Range 0 to 1; 1 for a reference. Tokens are what white
space separates. This is the form of 2016, without the weight that the form of 2015 had to tune; the authors recommend
it instead of that.

A correction needs its source, which captions do not have: GLEU is a baseline of `conll14`, and no caption metric.
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

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np

from capmeter.errors import ProtocolError
from capmeter.judgments.judged import Floats, Judgments, Systems
from capmeter.meta.baselines import Baseline

ORDERS = (1, 2, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Gleu(Baseline):
    """GLEU of corrected sentences."""

    NAME: ClassVar[str] = "gleu"
    SUMMARY: ClassVar[str] = "n-gram precision of corrections against references and source"

    references: Annotated[
        Literal["every", "protocol"], "every reference that the file has, or those of the protocol"
    ] = "every"

    def scores(self, judgments: Judgments) -> Floats:
        """The mean over each system's sentences."""
        if not isinstance(judgments, Systems) or not judgments.originals:
            raise ProtocolError(
                f"{judgments.benchmark} has no source sentences, which {self.name} needs: it is a baseline of conll14 "
                "with a file of sentences (source, systems, references)"
            )
        captions = judgments.captions
        known: dict[tuple[str, str], float] = {}
        found = np.zeros(len(captions))
        for row, caption in enumerate(captions):
            original = judgments.originals[caption.image_id]
            references = original.references if self.references == "every" else caption.references
            key = (caption.image_id, caption.candidate)  # what several systems wrote is scored once
            if key not in known:
                each = [sentence_gleu(original.source, caption.candidate, reference) for reference in references]
                known[key] = sum(each) / len(each) if each else 0.0
            found[row] = known[key]
        return np.array([found[members].mean() for members in judgments.members])


def sentence_gleu(source: str, candidate: str, reference: str) -> float:
    """GLEU of one sentence against one reference; an empty candidate scores 0 (1 where the reference is empty)."""
    length, expected = len(candidate.split()), len(reference.split())
    if not length:
        return 0.0 if expected else 1.0
    logarithms = 0.0
    for n in ORDERS:
        mine, theirs, before = _ngrams(candidate, n), _ngrams(reference, n), _ngrams(source, n)
        kept = sum(min(count, theirs[gram]) for gram, count in mine.items())
        uncorrected = sum(min(count, before[gram]) for gram, count in mine.items() if gram not in theirs)
        logarithms += math.log(max(kept - uncorrected, 0) or 1) - math.log(max(length + 1 - n, 0) or 1)
    return math.exp(min(0.0, 1 - (expected or 1) / length) + logarithms / len(ORDERS))


@lru_cache(maxsize=1 << 12)
def _ngrams(sentence: str, n: int) -> Counter[tuple[str, ...]]:
    words = sentence.split()
    return Counter(zip(*(words[k:] for k in range(n)), strict=False))
