"""Which tuples of a candidate's scene graph are confirmed by the references' graph.

A candidate tuple is true if some reference tuple of the same kind shares a word or a synset with it in every position.

`SceneEvidence` is why SPICE gave its score: both graphs, the tuples that match, and the nearest tuple to each that does
not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from capmeter.text.scene_graphs.graph import Concept, ConceptTuple, SceneGraph

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


_KINDS = ("object", "attribute", "relation")
_MAX_COMPARED = 300  # tuples of a kind that are compared with each other; a hostile caption would take an hour


@dataclass(frozen=True, slots=True)
class TupleEvidence:
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
    tuples: tuple[TupleEvidence, ...]

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


def _compare(side: str, graph: SceneGraph, other_graph: SceneGraph) -> list[TupleEvidence]:
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
            TupleEvidence(
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
