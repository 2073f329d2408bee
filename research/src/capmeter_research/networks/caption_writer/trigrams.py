"""A word trigram model, to measure how usual captions are: interpolated Kneser-Ney (Chen and Goodman 1999).

p(w | u v) = (max(c(u v w) − D, 0) + D · n(u v ·) · p(w | v)) / c(u v ·), where n counts distinct successors; lower
orders count distinct predecessors instead of occurrences, and the lowest is mixed with a uniform distribution over the
words, the end and an unknown word. D = 0.75. A context that never occurred gives the lower order.

>>> model = Trigrams([["a", "dog", "runs"], ["a", "dog", "sleeps"]])
>>> round(sum(model.probability(("a", "dog"), word) for word in [*model.words, END, UNKNOWN]), 12)
1.0
>>> model.probability(("a", "dog"), "runs") > model.probability(("a", "dog"), "a")
True
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

DISCOUNT = 0.75
BEGIN, END, UNKNOWN = "\x02", "\x03", "\x1a"
_Context = tuple[str, ...]


class Trigrams:
    """The model of some sentences.

    Args:
        sentences: their words.
    """

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        self.words: set[str] = set()
        context_counts: Counter[_Context] = Counter()
        for sentence in sentences:
            self.words.update(sentence)
            padded = (BEGIN, BEGIN, *sentence, END)
            context_counts.update(zip(padded, padded[1:], padded[2:], strict=False))
        bigrams: Counter[_Context] = Counter(gram[1:] for gram in context_counts)
        unigrams: Counter[_Context] = Counter(gram[1:] for gram in bigrams)
        self._counts = (unigrams, bigrams, context_counts)
        self._totals: tuple[Counter[_Context], ...] = (Counter(), Counter(), Counter())
        self._successors: tuple[Counter[_Context], ...] = (Counter(), Counter(), Counter())
        for counts, totals, successors in zip(self._counts, self._totals, self._successors, strict=True):
            for gram, count in counts.items():
                totals[gram[:-1]] += count
                successors[gram[:-1]] += 1

    def probability(self, context: _Context, word: str) -> float:
        """p(word | the two words before it)."""
        probability = 1 / (len(self.words) + 2)
        word = word if word in self.words or word == END else UNKNOWN
        for order, (counts, totals, successors) in enumerate(
            zip(self._counts, self._totals, self._successors, strict=True)
        ):
            shorter_context = context[len(context) - order :]
            context_count = totals[shorter_context]
            if context_count:
                gram = (*shorter_context, word)
                discounted_count = max(counts[gram] - DISCOUNT, 0)
                probability = (discounted_count + DISCOUNT * successors[shorter_context] * probability) / context_count
        return probability

    def perplexity(self, sentences: Iterable[Sequence[str]]) -> float:
        """exp of the mean negative log-probability of a word, the ends included; 1 for no sentence."""
        log_sum, word_count = 0.0, 0
        for sentence in sentences:
            padded = [BEGIN, BEGIN, *(word if word in self.words else UNKNOWN for word in sentence), END]
            for position in range(2, len(padded)):
                log_sum += math.log(self.probability((padded[position - 2], padded[position - 1]), padded[position]))
                word_count += 1
        return math.exp(-log_sum / word_count) if word_count else 1.0
