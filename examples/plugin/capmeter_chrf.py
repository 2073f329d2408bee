"""chrF (Popović 2015): F-score of character n-grams; of several references the best counts.

chrF = (1 + β²) P R / (β² P + R),  P and R the means over n of the shares of n-grams in common; 0 to 1
"""

from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Annotated

import numpy as np

from capmeter import Evidence, Link, MeanMetric, Measurement


@dataclass(frozen=True, kw_only=True)
class ChrF(MeanMetric):
    """The fields are the metric's parameters: `chrf(n=4,blanks=true)`."""

    NAME = "chrf"
    SUMMARY = "F-score of character n-grams"
    columns = ("score", "precision", "recall")

    n: Annotated[int, "longest n-gram"] = 6
    blanks: Annotated[bool, "whether blanks count as characters"] = False
    beta: Annotated[float, "how many times as much recall weighs"] = 2.0

    def measure(self, part, context):
        """One row of scores for each caption of the part."""
        rows = [max(self.scores(each.candidate, text) for text in each.references) for each in part]
        return Measurement(np.array(rows, np.float64).reshape(-1, 3))

    def explain(self, part, context):
        """The characters, and those in common with the best reference."""
        return [self.evidence(self.plain(each.candidate), [*map(self.plain, each.references)]) for each in part]

    def evidence(self, candidate, references):
        best = max(range(len(references)), key=lambda k: self.scores(candidate, references[k]))
        same = SequenceMatcher(None, candidate, references[best], autojunk=False).get_matching_blocks()
        links = [Link((a, a + size), best, (b, b + size), "ngram") for a, b, size in same if size]
        return Evidence(tuple(candidate), tuple(map(tuple, references)), tuple(links))

    def plain(self, text):
        return text if self.blanks else "".join(text.split())

    def scores(self, candidate, reference):
        texts, shares = (self.plain(candidate), self.plain(reference)), []
        for n in range(1, self.n + 1):
            mine, theirs = (Counter(text[k : k + n] for k in range(len(text) - n + 1)) for text in texts)
            if mine and theirs:  # an order that one of the texts is too short for does not count
                common = (mine & theirs).total()
                shares.append((common / mine.total(), common / theirs.total()))
        precision, recall = np.mean(shares, axis=0) if shares else (0.0, 0.0)
        both = self.beta**2 * precision + recall
        return (1 + self.beta**2) * precision * recall / both if both else 0.0, precision, recall
