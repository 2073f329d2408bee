"""How faithful graphs are: the measures of FACTUAL (Li et al. 2023), by its released code.

Both graphs are lemmatised word by word as nouns (except for "is"). `exact`: the facts are the same set. `spice`: F of
tuples, where facts become (entity), (entity, attribute) and (subject, predicate, object); each candidate tuple takes
one reference tuple, first the equal ones, then those whose parts have a common synset (METEOR's dictionary). NLTK takes
WordNet's nouns for lemmas; here it is METEOR's word list, which holds the other parts of speech too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from capmeter.text.facts import IS, Fact, tuples_of
from capmeter.text.wordnet import Synonyms

_ENDINGS = (
    *(("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z")),
    *(("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y")),
)


@dataclass(frozen=True)
class FactScores:
    """Agreement with graphs that people wrote, in per cent.

    Args:
        captions: their number.
        exact: those with the same set of facts.
        spice: mean F of tuples, synonyms counted.
        as_written: those with the same set of facts without lemmas.
    """

    captions: int
    exact: float
    spice: float
    as_written: float


class FactJudge:
    """Compares facts.

    Args:
        synonyms: METEOR's English dictionary.
    """

    def __init__(self, synonyms: Synonyms) -> None:
        self.synonyms = synonyms
        self._nouns: dict[str, str] = {}
        self._synsets: dict[str, frozenset[int]] = {}

    def scores(self, made: Sequence[Iterable[Fact]], right: Sequence[Iterable[Fact]]) -> FactScores:
        """The agreement of graphs with the right ones."""
        exact = same = 0
        total = 0.0
        for mine, theirs in zip(made, right, strict=True):
            same += set(mine) == set(theirs)
            one, two = self.lemmatised(mine), self.lemmatised(theirs)
            exact += one == two
            total += self.f(tuples_of(one), tuples_of(two))
        count = max(1, len(right))
        return FactScores(len(right), 100 * exact / count, 100 * total / count, 100 * same / count)

    def lemmatised(self, facts: Iterable[Fact]) -> frozenset[Fact]:
        """The set of facts, each word as the base form of a noun."""
        return frozenset(
            tuple(" ".join(word if word == IS else self.noun(word) for word in part.split()) for part in fact)
            for fact in facts
        )

    def noun(self, word: str) -> str:
        """The shortest form of a word that is known: itself, its base, or itself without a plural's ending."""
        if word not in self._nouns:
            self._nouns[word] = self._noun(word)
        return self._nouns[word]

    def _noun(self, word: str) -> str:
        forms = self.synonyms.bases(word) or [
            word[: -len(ending)] + instead for ending, instead in _ENDINGS if word.endswith(ending)
        ]
        return min((form for form in (word, *forms) if self.synonyms.knows(form)), key=len, default=word)

    def f(self, candidate: set[Fact], reference: set[Fact]) -> float:
        """F of two graphs' tuples, each of which takes part in one pair at most."""
        equal = candidate & reference
        left, free = sorted(candidate - equal), sorted(reference - equal)
        found = len(equal)
        for each in left:
            other = next((k for k, other in enumerate(free) if self._alike(each, other)), None)
            if other is not None:
                del free[other]
                found += 1
        return 2 * found / (len(candidate) + len(reference)) if found else 0.0

    def _alike(self, one: Fact, two: Fact) -> bool:
        return len(one) == len(two) and all(
            not self.synsets(a).isdisjoint(self.synsets(b)) for a, b in zip(one, two, strict=True)
        )

    def synsets(self, phrase: str) -> frozenset[int]:
        """The synsets of a word or phrase."""
        if phrase not in self._synsets:
            self._synsets[phrase] = self.synonyms.synsets(phrase.replace(" ", "_"))
        return self._synsets[phrase]
