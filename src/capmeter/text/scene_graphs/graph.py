"""Scene graphs: objects, their attributes, and relations between them; what is mentioned twice is in the graph once.

A *concept* is a set of words and the synsets that they belong to; two concepts are similar if they share a word or a
synset. A word that is similar to an object of the graph joins it ("man", then "guy": one object, man/guy), the same
holds for an object's attributes and for relations between the same two objects. As in SPICE (Anderson et al. 2016).

>>> graph = build_scene_graph([("dog", "cat", "chase"), ("dog", "brown"), ("dog",)], lambda word: frozenset())
>>> print(graph)
dog: brown
cat
dog -- chase --> cat
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from typing import Any

from capmeter.core.errors import InputError
from capmeter.core.messages import describe_failure

_LONG = 32  # lists with this many concepts get an index

Synsets = Callable[[str], frozenset[int]]  # a word, blanks as "_": the numbers of its synsets


@dataclass(frozen=True, slots=True)
class Concept:
    """Words with the same meaning, in order of occurrence, and their synsets."""

    words: tuple[str, ...]
    synsets: frozenset[int] = frozenset()

    @classmethod
    def of(cls, words: Sequence[str], synsets: Synsets) -> Concept:
        """The words with their synsets."""
        return cls(tuple(words), frozenset().union(*(synsets(synset_key(word)) for word in words)))

    def __str__(self) -> str:
        return "/".join(self.words)

    def similar(self, other: Concept) -> bool:
        """Whether both have a word or a synset in common."""
        return not self.synsets.isdisjoint(other.synsets) or not frozenset(self.words).isdisjoint(other.words)

    def joined(self, other: Concept) -> Concept:
        """Both in one."""
        words = tuple(dict.fromkeys((*self.words, *other.words)))
        return Concept(words, self.synsets | other.synsets)


ConceptTuple = tuple[Concept, ...]


@dataclass(frozen=True, slots=True)
class SceneGraph:
    """Objects; attributes as (object's number, attribute); relations as (subject's number, relation, object's number).

    Numbers count `objects` from 0.
    """

    objects: tuple[Concept, ...] = ()
    attributes: tuple[tuple[int, Concept], ...] = ()
    relations: tuple[tuple[int, Concept, int], ...] = ()

    def __len__(self) -> int:
        """The number of tuples."""
        return len(self.objects) + len(self.attributes) + len(self.relations)

    def __str__(self) -> str:
        owned_attributes = self.owned()
        lines = []
        for object_number, concept in enumerate(self.objects):
            attributes = ", ".join(
                str(self.attributes[attribute_index][1]) for attribute_index in owned_attributes.get(object_number, ())
            )
            lines.append(f"{concept}: {attributes}" if attributes else str(concept))
        lines += [f"{self.objects[a]} -- {relation} --> {self.objects[b]}" for a, relation, b in self.relations]
        return "\n".join(lines)

    def owned(self) -> dict[int, list[int]]:
        """For each object with attributes, their positions in `attributes`."""
        owned: dict[int, list[int]] = {}
        for attribute_index, (owner, _) in enumerate(self.attributes):
            owned.setdefault(owner, []).append(attribute_index)
        return owned

    def tuples(self) -> Iterator[ConceptTuple]:
        """(object), (object, attribute) and (subject, relation, object), the kinds in this order."""
        for concept in self.objects:
            yield (concept,)
        for owner, attribute in self.attributes:
            yield self.objects[owner], attribute
        for subject, relation, thing in self.relations:
            yield self.objects[subject], relation, self.objects[thing]

    def phrases(self) -> list[str]:
        """Each tuple as words, "dog", "brown dog", "dog run on grass", for every choice of merged words; each once.

        Of one tuple at most 1,000 are made.
        """
        word_choices = (
            words for concepts in self.tuples() for words in islice(product(*(c.words for c in concepts)), 1000)
        )
        return list(dict.fromkeys(" ".join(reversed(words) if len(words) == 2 else words) for words in word_choices))

    def to_dict(self) -> dict[str, Any]:
        """The graph's words, as JSON values."""
        return {
            "objects": [list(concept.words) for concept in self.objects],
            "attributes": [[owner, list(concept.words)] for owner, concept in self.attributes],
            "relations": [[subject, list(concept.words), thing] for subject, concept, thing in self.relations],
        }

    @classmethod
    def from_dict(cls, saved: Any, synsets: Synsets) -> SceneGraph:
        """The graph that `to_dict` gave; synsets are looked up again."""
        try:
            objects = tuple(_concept(concept_words, synsets) for concept_words in saved["objects"])
            attributes = tuple(
                (_number(owner, objects), _concept(concept_words, synsets))
                for owner, concept_words in saved["attributes"]
            )
            relations = tuple(
                (_number(subject, objects), _concept(concept_words, synsets), _number(thing, objects))
                for subject, concept_words, thing in saved["relations"]
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise InputError(
                f"not a scene graph ({describe_failure(problem)}); expected objects, attributes and relations "
                "as SceneGraph.to_dict gives them"
            ) from problem
        return cls(objects, attributes, relations)


def _number(object_number: Any, objects: Sequence[Concept]) -> int:
    if type(object_number) is not int or not 0 <= object_number < len(objects):
        raise ValueError(f"{object_number!r} is not the number of one of {len(objects)} objects")
    return object_number


def _concept(words: Any, synsets: Synsets) -> Concept:
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"expected a list of words, got {words!r:.80}")
    return Concept.of(words, synsets)


def synset_key(phrase: str) -> str:
    """A word or phrase as in the synonym dictionary."""
    return phrase.strip().lower().replace(" ", "_")


def build_scene_graph(tuples: Iterable[Sequence[str]], synsets: Synsets) -> SceneGraph:
    """The graph of tuples (object), (object, attribute), (subject, object, relation), in their order.

    Without synonyms (`synsets` always empty) only identical words merge.
    """
    graph_builder = _Builder(synsets)
    for scene_tuple in tuples:
        if len(scene_tuple) == 1:
            graph_builder.object(scene_tuple[0])
        elif len(scene_tuple) == 2:
            graph_builder.attribute(scene_tuple[0], scene_tuple[1])
        else:
            graph_builder.relation(scene_tuple[0], scene_tuple[1], scene_tuple[2])
    return graph_builder.graph()


class _Builder:
    """A graph that grows tuple by tuple."""

    def __init__(self, synsets: Synsets) -> None:
        self._synsets = synsets
        self._objects: list[Concept] = []
        self._known: dict[str, int] = {}  # word: the one object that has it
        self._sharing: dict[int, list[int]] = {}  # synset: the objects that have it
        self._attributes = _Groups()
        self._relations = _Groups()

    def graph(self) -> SceneGraph:
        return SceneGraph(
            tuple(self._objects),
            tuple(
                (owner, concept)
                for (owner, _), concepts in sorted(self._attributes.concepts.items())
                for concept in concepts
            ),
            tuple((a, concept, b) for (a, b), concepts in self._relations.concepts.items() for concept in concepts),
        )

    def object(self, word: str) -> int:
        """The number of the object that a word names: one that has the word, else the most similar, else a new one."""
        object_number = self._known.get(word)
        if object_number is not None:
            return object_number
        new_concept = self._concept(word)
        number = self._most_similar(new_concept)
        if number is None:
            number = len(self._objects)
            self._objects.append(new_concept)
        else:
            self._objects[number] = self._objects[number].joined(new_concept)
        self._known[word] = number
        for synset in new_concept.synsets:
            sharing_objects = self._sharing.setdefault(synset, [])
            if number not in sharing_objects:
                sharing_objects.append(number)
        return number

    def attribute(self, owner: str, word: str) -> None:
        """An attribute joins the first similar one of the same object."""
        self._attributes.join((self.object(owner), -1), self._concept(word))

    def relation(self, subject: str, thing: str, words: str) -> None:
        """A relation, without a leading "be", joins the first similar one between the same objects."""
        object_pair = self.object(subject), self.object(thing)
        self._relations.join(object_pair, self._concept(words.removeprefix("be ")))

    def _concept(self, word: str) -> Concept:
        return _one_word(word, self._synsets)

    def _most_similar(self, new_concept: Concept) -> int | None:
        """The first object with the largest share of common synsets, |∩| / |∪|."""
        common_counts: dict[int, int] = {}
        for synset in new_concept.synsets:
            for object_number in self._sharing.get(synset, ()):
                common_counts[object_number] = common_counts.get(object_number, 0) + 1
        best_object, largest_share = None, 0.0
        for object_number in sorted(common_counts):
            common_count = common_counts[object_number]
            share = common_count / (len(new_concept.synsets) + len(self._objects[object_number].synsets) - common_count)
            if share > largest_share:
                best_object, largest_share = object_number, share
        return best_object


@lru_cache(maxsize=1 << 16)
def _one_word(word: str, synsets: Synsets) -> Concept:
    return Concept.of((word,), synsets)


class _Groups:
    """Lists of concepts, of one object or of one pair of objects each."""

    def __init__(self) -> None:
        self.concepts: dict[tuple[int, int], list[Concept]] = {}
        self._first: dict[
            tuple[int, int], dict[str | int, int]
        ] = {}  # of long lists: word or synset: the first with it

    def join(self, key: tuple[int, int], new: Concept) -> None:
        """Adds a concept of one word to a list: to the first similar one, unless an equal one is there."""
        concepts = self.concepts.setdefault(key, [])
        if len(concepts) < _LONG:
            if new in concepts:
                return
            position = next(
                (concept_index for concept_index, concept in enumerate(concepts) if concept.similar(new)), len(concepts)
            )
        else:
            first_positions = self._index(key)
            first_position = first_positions.get(new.words[0])
            if first_position is not None and concepts[first_position] == new:
                return
            marks: tuple[str | int, ...] = (*new.words, *new.synsets)
            position = min((first_positions[mark] for mark in marks if mark in first_positions), default=len(concepts))
            for mark in marks:
                first_positions[mark] = min(position, first_positions.get(mark, position))
        if position == len(concepts):
            concepts.append(new)
        else:
            concepts[position] = concepts[position].joined(new)

    def _index(self, key: tuple[int, int]) -> dict[str | int, int]:
        """Where the words and synsets of a list first occur, computed once the list is long."""
        if key not in self._first:
            first_positions: dict[str | int, int] = {}
            for position, concept in enumerate(self.concepts[key]):
                marks: tuple[str | int, ...] = (*concept.words, *concept.synsets)
                for mark in marks:
                    first_positions.setdefault(mark, position)
            self._first[key] = first_positions
        return self._first[key]


def graph_from_concepts(tuples: Iterable[Sequence[Concept]]) -> SceneGraph:
    """The graph whose tuples (object), (object, attribute), (subject, relation, object) these are."""
    object_numbers: dict[frozenset[str], int] = {}
    objects: list[Concept] = []
    attributes: list[tuple[int, Concept]] = []
    relations: list[tuple[int, Concept, int]] = []

    def number(concept: Concept) -> int:
        object_number = object_numbers.setdefault(frozenset(concept.words), len(object_numbers))
        if object_number == len(objects):
            objects.append(concept)
        return object_number

    ordered_tuples = sorted(tuples, key=len)
    for concept_tuple in ordered_tuples:
        if len(concept_tuple) == 1:
            number(concept_tuple[0])
        elif len(concept_tuple) == 2:
            attributes.append((number(concept_tuple[0]), concept_tuple[1]))
        else:
            relations.append((number(concept_tuple[0]), concept_tuple[1], number(concept_tuple[2])))
    return SceneGraph(tuple(objects), tuple(attributes), tuple(relations))


def no_synsets(phrase: str) -> frozenset[int]:
    """The synsets of a word if synonyms do not count: none."""
    return frozenset()
