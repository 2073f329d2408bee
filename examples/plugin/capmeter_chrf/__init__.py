"""chrF (Popović 2015): (1 + β²) P R / (β² P + R) of character n-grams; of several references the best counts."""

from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Annotated

import numpy as np

from capmeter import Evidence, Link, MeanMetric, Measurement


@dataclass(frozen=True, kw_only=True)
class ChrF(MeanMetric):
    NAME, SUMMARY, columns = "chrf", "F-score of character n-grams", ("score",)
    n: Annotated[int, "longest n-gram"] = 6  # the fields are the parameters: chrf(n=4,blanks=true)
    blanks: Annotated[bool, "whether blanks count as characters"] = False
    beta: Annotated[float, "how many times as much recall weighs"] = 2.0

    def measure(self, part, context):  # one row of scores for each caption
        return Measurement(np.array([max(self.f(*pair) for pair in self.pairs(each)) for each in part])[:, None])

    def explain(self, part, context):  # the characters, and those in common with the best reference
        return [self.evidence(self.pairs(each)) for each in part]

    def pairs(self, caption):
        texts = [text if self.blanks else "".join(text.split()) for text in (caption.candidate, *caption.references)]
        return [(texts[0], text) for text in texts[1:]]

    def evidence(self, pairs):
        best = max(range(len(pairs)), key=lambda k: self.f(*pairs[k]))
        same = SequenceMatcher(None, *pairs[best], autojunk=False).get_matching_blocks()[:-1]
        links = tuple(Link((a, a + size), best, (b, b + size), "ngram") for a, b, size in same)
        return Evidence(tuple(pairs[best][0]), tuple(tuple(text) for _, text in pairs), links)

    def f(self, *texts):
        grams = [[Counter(t[k : k + n] for k in range(len(t) - n + 1)) for t in texts] for n in range(1, self.n + 1)]
        shares = [(sum((a & b).values()) / np.array([sum(a.values()), sum(b.values())])) for a, b in grams if a and b]
        p, r = np.mean(shares or [(0.0, 0.0)], axis=0)
        return (1 + self.beta**2) * p * r / (self.beta**2 * p + r) if p + r else 0.0
