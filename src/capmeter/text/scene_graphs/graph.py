"""Scene graphs: objects, their attributes, and relations between them; what is mentioned twice is in the graph once.

A *concept* is a set of words and the synsets that they belong to; two concepts are similar if they share a word or a
synset. A word that is similar to an object of the graph joins it ("man", then "guy": one object, man/guy), the same
holds for an object's attributes and for relations between the same two objects. As in SPICE (Anderson et al. 2016).

>>> graph = build_scene_graph([("dog", "cat", "chase"), ("dog", "brown"), ("dog",)], lambda word: frozenset())
>>> print(graph)
dog: brown
cat
dog -- chase --> cat

Which tuples of a candidate's scene graph are confirmed by the references' graph.

A candidate tuple is true if some reference tuple of the same kind shares a word or a synset with it in every position.

`SceneEvidence` is why SPICE gave its score: both graphs, the tuples that match, and the nearest tuple to each that does
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

_LONG = 32  # lists with this many concepts get an index

Synsets = Callable[[str], frozenset[int]]  # a word, blanks as "_": the numbers of its synsets


@dataclass(frozen=True, slots=True)
class Concept:
    """Words with the same meaning, in order of occurrence, and their synsets."""

    words: tuple[str, ...]
    synsets: frozenset[int] = frozenset()

    @classmethod
    def from_words(cls, words: Sequence[str], synsets: Synsets) -> Concept:
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

    def to_dict(self) -> dict[str, Any]:
        """The graph's words, as JSON values."""
        return {
            "objects": [list(concept.words) for concept in self.objects],
            "attributes": [[owner, list(concept.words)] for owner, concept in self.attributes],
            "relations": [[subject, list(concept.words), thing] for subject, concept, thing in self.relations],
        }


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
    return Concept.from_words((word,), synsets)


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


KINDS = ("all", "object", "attribute", "relation", "color", "cardinality", "size")

# the kind of an attribute, by its text; a merged one ("red/crimson") has none
COLORS = frozenset(
    "black brown blue red yellow pink gray grey green dark light white cream orange purple maroon beige violet".split()  # noqa: SIM905
)
NUMBERS = frozenset(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"))
SIZES = frozenset(
    "baby beefy big bony boundless brawny broad bulky chunky colossal compact corpulent cosmic cubby curvy elfin "  # noqa: SIM905
    "emaciated endless enormous epic expansive extensive fat fleshy full-size gargantuan gaunt giant gigantic grand "
    "great heavy hefty huge hulking illimitable immeasurable immense infinitesimal lanky large lean life-size "
    "limitless little mammoth massive meager measly microscopic mini miniature minuscule minute narrow obese outsized "
    "oversize overweight paltry petite pint-size plump pocket-size portly pudgy puny rotund scanty scraggy scrawny "
    "short sizable skeletal skimpy skinny slender slim small squat stocky stout strapping sturdy tall teensy teeny "
    "teeny-tiny teeny-weeny thick thickset thin tiny titanic towering trifling trim tubby undersized underweight "
    "unlimited vast wee whopping wide".split()
)


@dataclass(frozen=True, slots=True)
class Counts:
    """True candidate tuples, and the numbers of candidate and of reference tuples."""

    true: int
    candidate: int
    reference: int

    @property
    def precision(self) -> float:
        """The share of the candidate's tuples that are true; 0 without reference tuples, as in the program."""
        return self.true / self.candidate if self.candidate and self.reference else 0.0

    @property
    def recall(self) -> float:
        """True candidate tuples for each reference tuple (above 1 where several match the same one)."""
        return self.true / self.reference if self.reference else 0.0

    @property
    def f(self) -> float:
        """The harmonic mean of precision and recall, 0 where nothing matches."""
        precision, recall = self.precision, self.recall
        return 2 * (precision * recall) / (precision + recall) if self.true else 0.0


@dataclass(frozen=True, slots=True)
class _GraphMatch:
    """Which of a candidate's objects, attributes and relations are true, in its graph's order; the counts by kind."""

    objects: tuple[bool, ...]
    attributes: tuple[bool, ...]
    relations: tuple[bool, ...]
    counts: dict[str, Counts]


def match(candidate: SceneGraph, reference: SceneGraph) -> _GraphMatch:
    """Compares two graphs; `counts` has all `KINDS`."""
    matching_objects = _matching_triples(candidate, reference)
    owned = _Marks()
    for owner, attribute in reference.attributes:
        owned.add((owner, owner), attribute)
    related = _Marks()
    for subject, relation, thing in reference.relations:
        related.add((subject, thing), relation)

    object_matches = tuple(bool(matched_objects) for matched_objects in matching_objects)
    attribute_matches = tuple(
        any(owned.confirm((owner_number, owner_number), attribute) for owner_number in matching_objects[owner])
        for owner, attribute in candidate.attributes
    )
    relation_matches = tuple(
        any(related.confirm((a, b), relation) for a in matching_objects[subject] for b in matching_objects[thing])
        for subject, relation, thing in candidate.relations
    )
    counts = {
        "all": Counts(
            sum(object_matches) + sum(attribute_matches) + sum(relation_matches), len(candidate), len(reference)
        ),
        "object": Counts(sum(object_matches), len(object_matches), len(reference.objects)),
        "attribute": Counts(sum(attribute_matches), len(attribute_matches), len(reference.attributes)),
        "relation": Counts(sum(relation_matches), len(relation_matches), len(reference.relations)),
    }
    for count_kind, kind_words in (("color", COLORS), ("cardinality", NUMBERS), ("size", SIZES)):
        counts[count_kind] = _attributes_among(kind_words, candidate, reference, matching_objects)
    return _GraphMatch(object_matches, attribute_matches, relation_matches, counts)


def _matching_triples(candidate: SceneGraph, reference: SceneGraph) -> list[list[int]]:
    """For each object of the candidate the reference's objects that are similar."""
    by_word: dict[str, list[int]] = {}
    by_synset: dict[int, list[int]] = {}
    for object_number, scene_object in enumerate(reference.objects):
        for word in scene_object.words:
            by_word.setdefault(word, []).append(object_number)
        for synset in scene_object.synsets:
            by_synset.setdefault(synset, []).append(object_number)
    matching_objects = []
    for scene_object in candidate.objects:
        similar_objects = {object_number for word in scene_object.words for object_number in by_word.get(word, ())}
        similar_objects.update(
            object_number for synset in scene_object.synsets for object_number in by_synset.get(synset, ())
        )
        matching_objects.append(sorted(similar_objects))
    return matching_objects


class _Marks:
    """The words and synsets of all attributes of an object, or of all relations between two."""

    def __init__(self) -> None:
        self._words: dict[tuple[int, int], set[str]] = {}
        self._synsets: dict[tuple[int, int], set[int]] = {}

    def add(self, key: tuple[int, int], concept: Concept) -> None:
        self._words.setdefault(key, set()).update(concept.words)
        self._synsets.setdefault(key, set()).update(concept.synsets)

    def confirm(self, key: tuple[int, int], concept: Concept) -> bool:
        """Whether any of them is similar to a concept."""
        marked_words = self._words.get(key)
        return marked_words is not None and not (
            marked_words.isdisjoint(concept.words) and self._synsets[key].isdisjoint(concept.synsets)
        )


def _attributes_among(
    words: frozenset[str], candidate: SceneGraph, reference: SceneGraph, matching_objects: list[list[int]]
) -> Counts:
    """The counts of those attributes alone, on both sides, whose text is one of some words."""
    candidate_attributes = [(owner, concept) for owner, concept in candidate.attributes if str(concept) in words]
    reference_attributes = [(owner, concept) for owner, concept in reference.attributes if str(concept) in words]
    if not candidate_attributes or not reference_attributes:
        return Counts(0, len(candidate_attributes), len(reference_attributes))
    reference_marks = _Marks()
    for owner, concept in reference_attributes:
        reference_marks.add((owner, owner), concept)
    true_count = sum(
        any(reference_marks.confirm((owner_number, owner_number), concept) for owner_number in matching_objects[owner])
        for owner, concept in candidate_attributes
    )
    return Counts(true_count, len(candidate_attributes), len(reference_attributes))


_KINDS = ("object", "attribute", "relation")
_MAX_COMPARED = 300  # tuples of a kind that are compared with each other; a hostile caption would take an hour


@dataclass(frozen=True, slots=True)
class _TupleEvidence:
    """One tuple of one graph, and whether the other graph has a similar one."""

    side: str  # candidate or reference
    kind: str  # object, attribute or relation
    words: tuple[str, ...]  # (object), (object, attribute) or (subject, relation, object); merged words joined by "/"
    matched: bool
    nearest: tuple[str, ...] | None = None  # of an unmatched tuple: the most similar one of its kind in the other graph


@dataclass(frozen=True, slots=True)
class SceneEvidence:
    """The candidate's graph, the references' graph, and their tuples, the candidate's first."""

    candidate: SceneGraph
    reference: SceneGraph
    tuples: tuple[_TupleEvidence, ...]

    def to_dict(self) -> dict[str, Any]:
        """Graphs and tuples as JSON values."""
        return {
            "candidate_graph": self.candidate.to_dict(),
            "reference_graph": self.reference.to_dict(),
            "tuples": [
                asdict(each) | {"words": list(each.words), "nearest": each.nearest and list(each.nearest)}
                for each in self.tuples
            ],
        }


def build_scene_evidence(candidate: SceneGraph, reference: SceneGraph) -> SceneEvidence:
    """Compares two graphs. A reference tuple is matched if any candidate tuple is similar to it.

    The nearest tuple is one of the first 300 of its kind.
    """
    tuples = (*_compare("candidate", candidate, reference), *_compare("reference", reference, candidate))
    return SceneEvidence(candidate, reference, tuples)


def _compare(side: str, graph: SceneGraph, other_graph: SceneGraph) -> list[_TupleEvidence]:
    """The evidence for the tuples of one graph."""
    matches = match(graph, other_graph)
    match_flags = (*matches.objects, *matches.attributes, *matches.relations)
    by_length: dict[int, list[ConceptTuple]] = {}
    for concept_tuple in other_graph.tuples():
        by_length.setdefault(len(concept_tuple), []).append(concept_tuple)
    compared_counts = dict.fromkeys((1, 2, 3), 0)
    evidence = []
    for concept_tuple, is_matched in zip(graph.tuples(), match_flags, strict=True):
        nearest_words = None
        if not is_matched and compared_counts[len(concept_tuple)] < _MAX_COMPARED:
            compared_counts[len(concept_tuple)] += 1
            nearest_words = _nearest(concept_tuple, by_length.get(len(concept_tuple), [])[:_MAX_COMPARED])
        evidence.append(
            _TupleEvidence(
                side, _KINDS[len(concept_tuple) - 1], tuple(map(str, concept_tuple)), is_matched, nearest_words
            )
        )
    return evidence


def _nearest(concept_tuple: ConceptTuple, other_tuples: Sequence[ConceptTuple]) -> tuple[str, ...] | None:
    """The words of the most similar of some tuples; None if no element of any is similar."""
    nearest = max(other_tuples, key=lambda other_tuple: _tuple_similarity(concept_tuple, other_tuple), default=None)
    return None if nearest is None or not _tuple_similarity(concept_tuple, nearest)[0] else tuple(map(str, nearest))


def _tuple_similarity(first_tuple: ConceptTuple, second_tuple: ConceptTuple) -> tuple[float, float]:
    """The number of similar elements, then the sum of the elements' similarities."""
    similar_count = sum(a.similar(b) for a, b in zip(first_tuple, second_tuple, strict=True))
    return float(similar_count), sum(_concept_similarity(a, b) for a, b in zip(first_tuple, second_tuple, strict=True))


def _concept_similarity(first_concept: Concept, second_concept: Concept) -> float:
    """1 for a common word, else the share of common synsets."""
    if not frozenset(first_concept.words).isdisjoint(second_concept.words):
        return 1.0
    synset_count = len(first_concept.synsets | second_concept.synsets)
    return len(first_concept.synsets & second_concept.synsets) / synset_count if synset_count else 0.0
