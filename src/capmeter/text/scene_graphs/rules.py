"""What a caption says about the scene, as tuples: objects, attributes of objects, relations between objects.

A tuple is (object), (object, attribute) or (subject, object, relation), in lemmas. The rules are SPICE's (Anderson et
al. 2016), in its order; they read collapsed dependencies after quantifiers are demoted and pronouns are replaced
by nouns.

>>> from capmeter.text.parsing.dependency_parse import CaptionParse, Parse
>>> words = ("A", "young", "girl", "rides", "two", "horses")
>>> tags, lemmas = ("DT", "JJ", "NN", "VBZ", "CD", "NNS"), ("a", "young", "girl", "ride", "two", "horse")
>>> parse = Parse(words, tags, lemmas, (3, 3, 4, 0, 6, 4), ("det", "amod", "nsubj", "root", "nummod", "dobj"))
>>> for each in extract_tuples(CaptionParse((parse,))):
...     print(each)
('girl', 'horse', 'ride')
('girl', 'young')
('horse', 'two')
('horse',)
('girl',)
"""

from __future__ import annotations

from collections.abc import Iterator

from capmeter.text.parsing.dependency_graph import DependencyGraph, Edge
from capmeter.text.parsing.dependency_parse import CaptionParse, truncate_parse
from capmeter.text.scene_graphs.collapsed_dependencies import collapse_dependencies
from capmeter.text.scene_graphs.pronouns import resolve_pronouns
from capmeter.text.scene_graphs.quantifiers import demote_quantifiers

SceneTuple = tuple[str, ...]

_NOUNS = frozenset(("NN", "NNS", "NNP", "NNPS"))
_PLURALS = frozenset(("NNS", "NNPS"))
_NO_PREPOSITION = ("poss", "agent")
MAX_WORDS = 1000  # words of a sentence that are read: of n conjoined subjects and objects there are n² relations


def extract_tuples(parse: CaptionParse) -> list[SceneTuple]:
    """The tuples of a caption, sentence by sentence, in SPICE's order; of the first `MAX_WORDS` words of a sentence."""
    scene_tuples: list[SceneTuple] = []
    for sentence_number, sentence in enumerate(parse.sentences):
        graph = collapse_dependencies(
            sentence if len(sentence) <= MAX_WORDS else truncate_parse(sentence, MAX_WORDS), sentence_number
        )
        demote_quantifiers(graph)
        resolve_pronouns(graph)
        scene = _Sentence(graph)
        scene_tuples += scene.subjects_and_objects()
        scene_tuples += scene.clauses()
        scene_tuples += scene.predicates()
        scene_tuples += scene.copulas()
        scene_tuples += scene.adjectives_before()
        scene_tuples += scene.adjectives_after()
        scene_tuples += scene.prepositions()
        scene_tuples += scene.possessions()
        scene_tuples += scene.agents()
        scene_tuples += scene.counts()
        scene_tuples += scene.compounds()
        scene_tuples += scene.nouns()
    return scene_tuples


class _Sentence:
    """A sentence's final graph, read-only, with the rules that read it."""

    def __init__(self, graph: DependencyGraph) -> None:
        self.graph = graph
        self.edges: list[list[Edge]] = [graph.children(word) for word in range(len(graph))]
        self.nodes = graph.ordered(self.edges)
        self.noun = [tag in _NOUNS for tag in graph.tags]
        self.name = [lemma.strip().lower() for lemma in graph.lemmas]
        self.labels = {label for edges in self.edges for _, label in edges}
        subjects = [self._nouns_by(word, "nsubj") for word in range(len(graph))] if "nsubj" in self.labels else []
        self.subjects = [(word, subjects[word]) for word in self.nodes if subjects and subjects[word]]

    def subjects_and_objects(self) -> Iterator[SceneTuple]:
        """A man rides a horse: (man, horse, ride)."""
        for verb, subjects in self.subjects:
            if not self._has(verb, "cop"):
                objects = self._objects(verb)
                for subject in subjects:
                    for thing, relation in objects:
                        yield self.name[subject], self.name[thing], relation

    def clauses(self) -> Iterator[SceneTuple]:
        """A cat sitting in a chair: (cat, chair, sit in)."""
        if "acl" in self.labels:
            for head in self.nodes:
                for verb, label in self.edges[head]:
                    if label == "acl" and self.graph.tags[verb].startswith("V"):
                        for thing, relation in self._objects(verb):
                            yield self.name[head], self.name[thing], relation

    def predicates(self) -> Iterator[SceneTuple]:
        """A woman smiles: (woman, smile)."""
        for verb, subjects in self.subjects:
            if not self._has(verb, "cop") and not self._objects(verb):
                for subject in subjects:
                    yield from self._predicated(subject, verb)

    def copulas(self) -> Iterator[SceneTuple]:
        """The man is a rider: (man, rider). The woman is in the house: (woman, house, in)."""
        for predicate, subjects in self.subjects:
            if self._has(predicate, "cop"):
                for subject in subjects:
                    yield from self._predicated(subject, predicate)

    def adjectives_before(self) -> Iterator[SceneTuple]:
        """A young girl: (girl, young)."""
        return self._pairs("amod")

    def adjectives_after(self) -> Iterator[SceneTuple]:
        """The man is tall: (man, tall)."""
        if "nsubj" in self.labels:
            for adjective in self.nodes:
                if self.graph.tags[adjective].startswith("J"):
                    for subject, label in self.edges[adjective]:
                        if label == "nsubj":
                            yield self.name[subject], self.name[adjective]

    def prepositions(self) -> Iterator[SceneTuple]:
        """A woman in the house: (woman, house, in)."""
        for head in self.nodes:
            if self.noun[head]:
                for modifier, label in self.edges[head]:
                    preposition = label.removeprefix("nmod:").replace("_", " ")
                    if label.startswith("nmod:") and preposition not in _NO_PREPOSITION:
                        yield self.name[head], self.name[modifier], preposition

    def possessions(self) -> Iterator[SceneTuple]:
        """The boy's hat: (boy, hat, have)."""
        if "nmod:poss" in self.labels:
            for thing in self.nodes:
                if self.noun[thing]:
                    for owner in self._nouns_by(thing, "nmod:poss"):
                        yield self.name[owner], self.name[thing], "have"

    def agents(self) -> Iterator[SceneTuple]:
        """A ball is caught by a dog: (dog, ball, catch)."""
        if "nmod:agent" in self.labels:
            for verb in self.nodes:
                if self.graph.tags[verb].startswith("V"):
                    for agent in self._nouns_by(verb, "nmod:agent"):
                        for thing in self._nouns_by(verb, "nsubjpass"):
                            yield self.name[agent], self.name[thing], self._predicate(verb)

    def counts(self) -> Iterator[SceneTuple]:
        """Two dogs: (dog, two). A lot of dogs: (dog, a). Numbers after the noun ("bus 5 …") do not count."""
        if "nummod" in self.labels or "det:qmod" in self.labels:
            for noun in self._plurals():
                if self._has(noun, "nummod"):
                    number_word = next(word for word, label in self.edges[noun] if label == "nummod")
                    if self.graph.position[number_word] < self.graph.position[noun]:
                        yield self.name[noun], self.name[number_word]
                elif self._has(noun, "det:qmod"):
                    yield self.name[noun], next(self.name[word] for word, x in self.edges[noun] if x == "det:qmod")

    def compounds(self) -> Iterator[SceneTuple]:
        """A fire truck: (truck, fire)."""
        for head, modifier in self._compounds():
            yield self.name[head], self.name[modifier]

    def nouns(self) -> Iterator[SceneTuple]:
        """Every noun outside compounds."""
        compound_words = {word for pair in self._compounds() for word in pair}
        for word in self.nodes:
            if self.noun[word] and word not in compound_words:
                yield (self.name[word],)

    def _has(self, word: int, label: str) -> bool:
        return label in self.labels and self.graph.has_child(word, label)

    def _pairs(self, label: str) -> Iterator[SceneTuple]:
        if label in self.labels:
            for head in self.nodes:
                for word, child_label in self.edges[head]:
                    if child_label == label:
                        yield self.name[head], self.name[word]

    def _nouns_by(self, word: int, label: str) -> list[int]:
        return [
            dependent for dependent, child_label in self.edges[word] if child_label == label and self.noun[dependent]
        ]

    def _objects(self, verb: int) -> Iterator[tuple[int, str]] | list[tuple[int, str]]:
        """The nouns that a verb acts on or is modified by, each with the relation: predicate and preposition."""
        object_relations = []
        for word, label in self.edges[verb]:
            is_modifier = label.startswith("nmod:")
            if self.noun[word] and (is_modifier or label in ("iobj", "dobj")):
                preposition = label.removeprefix("nmod:").replace("_", " ") if is_modifier else ""
                preposition_text = f" {preposition}" if preposition and preposition not in _NO_PREPOSITION else ""
                object_relations.append((word, self._predicate(verb) + preposition_text))
        return object_relations

    def _predicate(self, verb: int) -> str:
        """A verb's lemma with its particle: "hold out"; of "be" only the blank before the particle is left."""
        lemma = self.graph.lemmas[verb]
        particle = next((word for word, label in self.edges[verb] if label == "compound:prt"), 0)
        if not particle:
            return lemma
        return f"{'' if lemma == 'be' else lemma} {self.graph.words[particle]}"

    def _predicated(self, subject: int, predicate: int) -> Iterator[SceneTuple]:
        """The predicate of a subject: a preposition with its noun, or an attribute; "be" adds nothing."""
        case = next((word for word, label in self.edges[predicate] if label == "case"), 0)
        if case:
            other_words = [word for word, label in self.edges[case] if label == "mwe"]
            yield self.name[subject], self.name[predicate], " ".join(self.graph.words[k] for k in (case, *other_words))
        elif self.graph.lemmas[predicate] != "be":
            yield self.name[subject], self.name[predicate]

    def _compounds(self) -> Iterator[tuple[int, int]]:
        if "compound" in self.labels:
            for head in self.nodes:
                if self.noun[head]:
                    for modifier in self._nouns_by(head, "compound"):
                        yield head, modifier

    def _plurals(self) -> Iterator[int]:
        """Plural nouns as SPICE finds them: a subject with its first plural object, other subjects, the others."""
        is_plural = [tag in _PLURALS for tag in self.graph.tags]
        paired_verbs: set[int] = set()  # verbs with plural subjects and a plural object
        by_subject: dict[int, list[int]] = {}
        objects: set[int] = set()  # of verbs with plural subjects
        for verb, subjects in self.subjects:
            by_subject[verb] = [word for word in subjects if is_plural[word]]
        for verb in self.nodes:
            plural_objects = [word for word in self._acted_on(verb) if is_plural[word]]
            if plural_objects:
                paired_verbs.add(verb)
                if by_subject.get(verb):
                    yield by_subject[verb][0]
                    yield plural_objects[0]
            if by_subject.get(verb):
                objects.update(word for word, x in self.edges[verb] if x in ("dobj", "iobj") or x.startswith("nmod"))
        subject_of: dict[int, list[int]] = {}
        for verb in self.nodes:
            for word, label in self.edges[verb]:
                if label == "nsubj":
                    subject_of.setdefault(word, []).append(verb)
        for word in self.nodes:
            verbs = subject_of.get(word, [])
            if is_plural[word] and (word in self.graph.roots or any(verb not in paired_verbs for verb in verbs)):
                yield word
        for word in self.nodes:
            if is_plural[word] and word not in self.graph.roots and word not in subject_of and word not in objects:
                yield word

    def _acted_on(self, verb: int) -> list[int]:
        """Direct and indirect objects first, then modifiers with a preposition."""
        edges = self.edges[verb]
        object_words = [word for word, label in edges if label in ("dobj", "iobj")]
        modifier_words = [word for word, label in edges if label.startswith("nmod:") and "agent" not in label]
        return object_words + [word for word in modifier_words if self._has(word, "case")]
