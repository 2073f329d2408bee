"""Words of a document that contradict a reference, although the reference has the same word elsewhere.

In 200 words nearly every colour occurs somewhere; what counts is whose it is, and where something stands:

* an attribute of an object, where the reference's object of the same name has another value of the same slot (colour,
  number, size …) and not this one, by both scene graphs;
* a word of place (left, above, behind, inside), where the most similar sentence of the reference has the opposite
  within `_NEAR` words of an object that both sentences place.

A sentence is contradicted by the most similar ones of the other side if one of them contradicts a word of it in either
way, and none of them has that word.

>>> candidate = SplitText.of(["A red dog sits on a green sofa.", "The lamp is on the left."])
>>> reference = SplitText.of(["A green dog sits on a red sofa.", "A lamp stands on the right side."])
>>> find_misplaced_words(candidate, reference, [0, 1])
{13: 13}
>>> find_contradicted_sentences(candidate, [reference], [[0, 1]], {})
[False, True]
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import itemgetter

from capmeter.metrics.learned.capmeter.words import bare_word
from capmeter.text.concepts import token_concept
from capmeter.text.contrast_sets import contradicts, find_slot
from capmeter.text.scene_graphs.graph import SceneGraph
from capmeter.text.tokenization.porter import stem

_PLACES = ("side", "height", "before or behind", "in or out")
_NEAR = 6


@dataclass(frozen=True)
class SplitText:
    """A text's words in one row, and where its sentences start and end in it."""

    words: tuple[str, ...]
    bounds: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, sentences: Sequence[str]) -> SplitText:
        """The words between blanks of these sentences."""
        sentence_words = [sentence.split() for sentence in sentences]
        sentence_ends = list(accumulate(map(len, sentence_words), initial=0))
        return cls(tuple(word for words in sentence_words for word in words), tuple(pairwise(sentence_ends)))

    @cached_property
    def stems(self) -> list[list[str]]:
        """The stems of each sentence's words."""
        return [[stem(bare_word(each)) for each in self.words[start:end]] for start, end in self.bounds]

    @cached_property
    def positions(self) -> Mapping[str, list[tuple[int, int]]]:
        """For each stem the sentences that have it, and where it stands."""
        positions: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for sentence_index, (stems, (start, _)) in enumerate(zip(self.stems, self.bounds, strict=True)):
            for word_index, word_stem in enumerate(stems):
                positions[word_stem].append((sentence_index, start + word_index))
        return positions

    def find(self, word: str, noun: str) -> Iterator[int]:
        """Where a word stands in a sentence with this noun; both in any form."""
        with_noun = {sentence_index for sentence_index, _ in self.positions.get(stem(noun), ())}
        yield from (at for sentence_index, at in self.positions.get(stem(word), ()) if sentence_index in with_noun)


def find_conflicts(graph: SceneGraph, other: SceneGraph) -> list[tuple[str, str, list[str]]]:
    """The attributes of a graph that another contradicts: the object, the attribute, and the other's values."""
    stated_values: dict[str, set[str]] = {}
    for owner, attribute in other.attributes:
        for noun in other.objects[owner].words:
            stated_values.setdefault(noun, set()).update(attribute.words)
    conflicts: list[tuple[str, str, list[str]]] = []
    for owner, attribute in graph.attributes:
        for noun in graph.objects[owner].words:
            other_values = stated_values.get(noun, set())
            for word in set(attribute.words) - other_values:
                conflicting_values = [value for value in other_values if contradicts(word, value)]
                if conflicting_values:
                    conflicts.append((noun, word, conflicting_values))
    return conflicts


def find_contradicted_words(
    candidate: SplitText, references: Sequence[SplitText], graph: SceneGraph, reference_graph: SceneGraph
) -> dict[int, tuple[int, int]]:
    """The candidate's attributes that contradict the references: word → reference and the word there."""
    contradicted_words: dict[int, tuple[int, int]] = {}
    for noun, word, values in find_conflicts(graph, reference_graph):
        places = ((k, at) for value in values for k, text in enumerate(references) for at in text.find(value, noun))
        reference_place = next(places, None)
        if reference_place is not None:
            contradicted_words.update(dict.fromkeys(candidate.find(word, noun), reference_place))
    return contradicted_words


def find_misplaced_words(candidate: SplitText, reference: SplitText, nearest: Sequence[int]) -> dict[int, int]:
    """The candidate's words of place that contradict a reference: word → the word there.

    Args:
        candidate, reference: both texts.
        nearest: the number of the reference's sentence that is most similar to each of the candidate's.
    """
    misplaced_words: dict[int, int] = {}
    for candidate_bounds, reference_bounds in zip(
        candidate.bounds, (reference.bounds[k] for k in nearest), strict=True
    ):
        place_positions = [
            at for at in range(*reference_bounds) if find_slot(bare_word(reference.words[at])) in _PLACES
        ]
        for k in range(*candidate_bounds):
            word = bare_word(candidate.words[k])
            if find_slot(word) not in _PLACES or any(bare_word(reference.words[at]) == word for at in place_positions):
                continue
            for at in place_positions:
                shared_objects = _objects_near(candidate, k, candidate_bounds) & _objects_near(
                    reference, at, reference_bounds
                )
                if contradicts(word, bare_word(reference.words[at])) and shared_objects:
                    misplaced_words[k] = at
    return misplaced_words


def find_contradicted_sentences(
    text: SplitText,
    others: Sequence[SplitText],
    nearest: Sequence[Sequence[int]],
    conflicts: Mapping[str, Sequence[tuple[str, frozenset[str]]]],
) -> list[bool]:
    """Says of each sentence of a text whether the most similar sentences of other texts contradict it.

    Args:
        text, others: the texts.
        nearest: for each of the other texts the number of its sentence that is most similar to each of the text's.
        conflicts: the result of `index_conflicts`.
    """
    misplaced_stems: list[set[str]] = [set() for _ in text.bounds]
    for other, sentence_numbers in zip(others, nearest, strict=True):
        for k in find_misplaced_words(text, other, sentence_numbers):
            sentence_index = bisect_right(text.bounds, k, key=itemgetter(0)) - 1
            misplaced_stems[sentence_index].add(text.stems[sentence_index][k - text.bounds[sentence_index][0]])
    contradicted = []
    for k, place_stems in enumerate(misplaced_stems):
        sentence_stems = set(text.stems[k])
        nearest_stems = [
            set(other.stems[sentence_numbers[k]]) for other, sentence_numbers in zip(others, nearest, strict=True)
        ]
        new_stems = sentence_stems.difference(*nearest_stems)
        contradicted.append(
            bool(place_stems & new_stems)
            or any(
                noun in sentence_stems and any(noun in judge and values & judge for judge in nearest_stems)
                for word in new_stems
                for noun, values in conflicts.get(word, ())
            )
        )
    return contradicted


def index_conflicts(graph: SceneGraph, other: SceneGraph) -> dict[str, list[tuple[str, frozenset[str]]]]:
    """The conflicts of two graphs by the stem of the attribute: the object's stem and those of the other's values."""
    conflict_index: defaultdict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for noun, word, values in find_conflicts(graph, other):
        conflict_index[stem(word)].append((stem(noun), frozenset(map(stem, values))))
    return dict(conflict_index)


def _objects_near(text: SplitText, word_index: int, bounds: tuple[int, int]) -> set[str]:
    """The concepts around a word, other than words of place."""
    bare_words = map(bare_word, text.words[max(bounds[0], word_index - _NEAR) : min(bounds[1], word_index + _NEAR + 1)])
    concepts = {token_concept(word) for word in bare_words if word and find_slot(word) not in _PLACES}
    return {concept for concept in concepts if concept is not None}
