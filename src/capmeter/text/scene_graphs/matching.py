"""Which tuples of a candidate's scene graph are confirmed by the references' graph.

A candidate tuple is true if some reference tuple of the same kind shares a word or a synset with it in every position.
"""

from __future__ import annotations

from dataclasses import dataclass

from capmeter.text.scene_graphs.graph import Concept, SceneGraph

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
class GraphMatch:
    """Which of a candidate's objects, attributes and relations are true, in its graph's order; the counts by kind."""

    objects: tuple[bool, ...]
    attributes: tuple[bool, ...]
    relations: tuple[bool, ...]
    counts: dict[str, Counts]


def match(candidate: SceneGraph, reference: SceneGraph) -> GraphMatch:
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
    return GraphMatch(object_matches, attribute_matches, relation_matches, counts)


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
