"""Words of a document that contradict a reference, although the reference has the same word elsewhere.

In 200 words nearly every colour occurs somewhere; what counts is whose it is, and where something stands:

* an attribute of an object, where the reference's object of the same name has another value of the same slot (colour,
  number, size …) and not this one, by both scene graphs;
* a word of place (left, above, behind, inside), where the most similar sentence of the reference has the opposite
  within `_NEAR` words of an object that both sentences place.

>>> candidate = SplitText.of(["A red dog sits on a green sofa.", "The lamp is on the left."])
>>> reference = SplitText.of(["A green dog sits on a red sofa.", "A lamp stands on the right side."])
>>> find_misplaced_words(candidate, reference, [0, 1])
{13: 13}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

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
        split = [sentence.split() for sentence in sentences]
        ends = list(accumulate(map(len, split), initial=0))
        return cls(tuple(word for words in split for word in words), tuple(pairwise(ends)))

    def find(self, word: str, noun: str) -> Iterator[int]:
        """Where a word stands in a sentence with this noun; both in any form."""
        for start, end in self.bounds:
            stems = [stem(bare_word(each)) for each in self.words[start:end]]
            if stem(noun) in stems:
                yield from (start + k for k, each in enumerate(stems) if each == stem(word))


def find_contradicted_words(
    candidate: SplitText, references: Sequence[SplitText], graph: SceneGraph, reference_graph: SceneGraph
) -> dict[int, tuple[int, int]]:
    """The candidate's attributes that contradict the references: word → reference and the word there."""
    stated: dict[str, set[str]] = {}
    for owner, attribute in reference_graph.attributes:
        for noun in reference_graph.objects[owner].words:
            stated.setdefault(noun, set()).update(attribute.words)
    found: dict[int, tuple[int, int]] = {}
    for owner, attribute in graph.attributes:
        for noun in graph.objects[owner].words:
            values = stated.get(noun, set())
            for word in set(attribute.words) - values:
                others = [value for value in values if contradicts(word, value)]
                places = (
                    (k, at) for value in others for k, text in enumerate(references) for at in text.find(value, noun)
                )
                place = next(places, None)
                if place is not None:
                    found.update(dict.fromkeys(candidate.find(word, noun), place))
    return found


def find_misplaced_words(candidate: SplitText, reference: SplitText, nearest: Sequence[int]) -> dict[int, int]:
    """The candidate's words of place that contradict a reference: word → the word there.

    Args:
        candidate, reference: both texts.
        nearest: the number of the reference's sentence that is most similar to each of the candidate's.
    """
    found: dict[int, int] = {}
    for own, other in zip(candidate.bounds, (reference.bounds[k] for k in nearest), strict=True):
        places = [at for at in range(*other) if find_slot(bare_word(reference.words[at])) in _PLACES]
        for k in range(*own):
            word = bare_word(candidate.words[k])
            if find_slot(word) not in _PLACES or any(bare_word(reference.words[at]) == word for at in places):
                continue
            for at in places:
                shared = _objects_near(candidate, k, own) & _objects_near(reference, at, other)
                if contradicts(word, bare_word(reference.words[at])) and shared:
                    found[k] = at
    return found


def _objects_near(text: SplitText, k: int, bounds: tuple[int, int]) -> set[str]:
    """The concepts around a word, other than words of place."""
    words = map(bare_word, text.words[max(bounds[0], k - _NEAR) : min(bounds[1], k + _NEAR + 1)])
    concepts = {token_concept(word) for word in words if word and find_slot(word) not in _PLACES}
    return {concept for concept in concepts if concept is not None}
