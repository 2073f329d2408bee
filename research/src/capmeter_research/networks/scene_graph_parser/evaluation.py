"""Agreement of scene graphs with gold graphs: the measures of FACTUAL (Li et al. 2023), as in its released code.

Both graphs are lemmatised word by word as nouns (except for "is"). `exact`: the sets of triples are equal. `spice`: F1
of tuples, where triples become (entity), (entity, attribute) and (subject, predicate, object); each candidate tuple
matches at most one reference tuple, first equal ones, then those whose parts share a synset (METEOR's dictionary).
NLTK lemmatises with WordNet's nouns; here METEOR's word list is used, which has the other parts of speech too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from capmeter.text.meteor.synonyms import Synonyms
from capmeter_research.networks.scene_graph_parser.triples import IS, Triple

_PLURAL_ENDINGS = (
    *(("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z")),
    *(("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y")),
)


@dataclass(frozen=True)
class SceneGraphScores:
    """Agreement with gold graphs, in per cent."""

    captions: int  # number of captions
    exact: float  # those with the same set of triples
    spice: float  # mean F1 of tuples, with synonyms
    as_written: float  # those with the same set of triples before lemmatisation


class SceneGraphEvaluator:
    """Compares scene graphs.

    Args:
        synonyms: METEOR's English dictionary.
    """

    def __init__(self, synonyms: Synonyms) -> None:
        self.synonyms = synonyms
        self._base_nouns: dict[str, str] = {}
        self._synsets: dict[str, frozenset[int]] = {}

    def scores(self, predicted: Sequence[Iterable[Triple]], gold: Sequence[Iterable[Triple]]) -> SceneGraphScores:
        """The agreement of predicted graphs with gold graphs."""
        exact = as_written = 0
        f1_sum = 0.0
        for predicted_triples, gold_triples in zip(predicted, gold, strict=True):
            as_written += set(predicted_triples) == set(gold_triples)
            candidate, reference = self.lemmatise(predicted_triples), self.lemmatise(gold_triples)
            exact += candidate == reference
            f1_sum += self.f1(spice_tuples(candidate), spice_tuples(reference))
        caption_count = max(1, len(gold))
        return SceneGraphScores(
            len(gold), 100 * exact / caption_count, 100 * f1_sum / caption_count, 100 * as_written / caption_count
        )

    def lemmatise(self, triples: Iterable[Triple]) -> frozenset[Triple]:
        """The set of triples, each word as the base form of a noun."""
        return frozenset(
            tuple(" ".join(word if word == IS else self.base_noun(word) for word in part.split()) for part in triple)
            for triple in triples
        )

    def base_noun(self, word: str) -> str:
        """The shortest known form of a word: itself, its base, or itself without a plural ending."""
        if word not in self._base_nouns:
            base_forms = self.synonyms.bases(word) or [
                word[: -len(ending)] + replacement for ending, replacement in _PLURAL_ENDINGS if word.endswith(ending)
            ]
            known_forms = (base_form for base_form in (word, *base_forms) if self.synonyms.knows(base_form))
            self._base_nouns[word] = min(known_forms, key=len, default=word)
        return self._base_nouns[word]

    def f1(self, candidate: set[Triple], reference: set[Triple]) -> float:
        """F1 of two graphs' tuples, each of which matches at most one other."""
        equal_tuples = candidate & reference
        unmatched_tuples, remaining_tuples = sorted(candidate - equal_tuples), sorted(reference - equal_tuples)
        matches = len(equal_tuples)
        for candidate_tuple in unmatched_tuples:
            matched_index = next(
                (k for k, other in enumerate(remaining_tuples) if self._tuples_match(candidate_tuple, other)), None
            )
            if matched_index is not None:
                del remaining_tuples[matched_index]
                matches += 1
        return 2 * matches / (len(candidate) + len(reference)) if matches else 0.0

    def _tuples_match(self, candidate_tuple: Triple, reference_tuple: Triple) -> bool:
        return len(candidate_tuple) == len(reference_tuple) and all(
            not self.synsets(a).isdisjoint(self.synsets(b))
            for a, b in zip(candidate_tuple, reference_tuple, strict=True)
        )

    def synsets(self, phrase: str) -> frozenset[int]:
        """The synsets of a word or phrase."""
        if phrase not in self._synsets:
            self._synsets[phrase] = self.synonyms.synsets(phrase.replace(" ", "_"))
        return self._synsets[phrase]


def spice_tuples(triples: Iterable[Triple]) -> set[Triple]:
    """Returns the tuples that FACTUAL's SPICE compares: (entity), (entity, attribute), (subject, predicate, object).

    >>> sorted(spice_tuples([("bus", "is", "red"), ("man", "on", "bus")]))
    [('bus',), ('bus', 'red'), ('man',), ('man', 'on', 'bus')]
    """
    scene_tuples: set[Triple] = set()
    for triple in triples:
        scene_tuples.add(triple[:1])
        if len(triple) == 3 and triple[1] == IS:
            scene_tuples.add((triple[0], triple[2]))
        elif len(triple) == 3:
            scene_tuples |= {triple, triple[2:]}
    return scene_tuples
