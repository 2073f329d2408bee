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

Replaces pronouns by their probable antecedent: the topmost noun of the sentence, if it precedes them.

As in SPICE's scene graph parser (Schuster et al. 2015): a breadth-first search from the root for the first noun.

Demotes quantifiers: in "a lot of dogs" and "three of the dogs" the dogs take the quantifier's place.

The quantifier's words depend on the noun: the first by "det:qmod", the others by "mwe" on the first. As in SPICE's
scene graph parser (Schuster et al. 2015): three patterns, each searched in the graph that the previous one left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from capmeter.text.parsing.dependency_parse import CaptionParse, DependencyGraph, Edge, truncate_parse
from capmeter.text.scene_graphs.collapsed_dependencies import collapse_dependencies

_SINGULAR = frozenset(
    "i me myself mine my yourself he him himself his she her herself hers it itself its one oneself one's".split()  # noqa: SIM905
)


def _resolve_pronouns(graph: DependencyGraph) -> None:
    """Moves the edges of every pronoun, except the first word, to its antecedent."""
    pronouns = [word for word in range(2, len(graph)) if graph.tags[word].startswith("PRP")]
    nouns = {singular: _topmost_noun(graph, singular=singular) for singular in (True, False)} if pronouns else {}
    pronoun_pairs = []
    for pronoun in pronouns:
        noun = nouns[graph.words[pronoun] in _SINGULAR]
        if graph.position[pronoun] == pronoun and graph.governors[pronoun] and 0 < graph.position[noun] < pronoun:
            pronoun_pairs.append((pronoun, graph.position[noun]))
    for pronoun, noun in pronoun_pairs:
        _stand_in(graph, pronoun, noun)


def _topmost_noun(graph: DependencyGraph, *, singular: bool) -> int:
    """The first noun of a breadth-first search from the root; only a singular one for a singular pronoun."""
    noun_tags = ("NN", "NNP") if singular else ("NN", "NNP", "NNS", "NNPS")
    queue = graph.roots[:1]
    seen_words = set(queue)
    for word in queue:  # grows while it is read
        if graph.tags[word] in noun_tags:
            return word
        for child, _ in sorted(graph.dependents[word], key=lambda edge: graph.position[edge[0]]):
            if child not in seen_words:
                seen_words.add(child)
                queue.append(child)
    return 0


def _stand_in(graph: DependencyGraph, pronoun: int, noun: int) -> None:
    """Moves all edges of the pronoun to the noun."""
    for governor, label in list(graph.governors[pronoun]):
        graph.remove(governor, pronoun, label)
        graph.add(governor, noun, label)
    graph.move_children(pronoun, noun)


# "a bunch of"
_WITH_ARTICLE = frozenset(
    "lot assortment number couple bunch handful litany sheaf slew dozen series variety multitude wad clutch wave "  # noqa: SIM905
    "mountain array spate string ton range plethora heap sort form kind type version bit pair triple total".split()
)
# "lots of"
_ALONE = re.compile(
    "lots|many|several|plenty|tons|dozens|multitudes|mountains|loads|pairs|tens|hundreds|thousands|millions|billions|"
    "trillions|[0-9]+s"
)
# "some of the"
_WITH_DETERMINER = re.compile(
    "some|all|both|neither|everyone|nobody|one|two|three|four|five|six|seven|eight|nine|ten|hundred|thousand|million|"
    "billion|trillion|[0-9]+"
)

QuantifierMatch = tuple[int, int, list[int]]  # the quantifier's head, the counted noun, the quantifier's words


def _demote_quantifiers(graph: DependencyGraph) -> None:
    """Rewrites every quantifier with "of"."""
    lower_words = [word.lower() for word in graph.words]
    if "of" not in lower_words or not any(after == "of" and _may_count(word) for word, after in pairwise(lower_words)):
        return
    for pattern in (_a_number_of, _many_of, _some_of_the):
        quantifier_matches = [match for match in (pattern(graph, word) for word in graph.nodes()) if match]
        for head, noun, words in quantifier_matches:
            if not _step_down(graph, head, noun, words):
                return


def _may_count(word: str) -> bool:
    return word in _WITH_ARTICLE or any(pattern.fullmatch(word) for pattern in (_ALONE, _WITH_DETERMINER))


def _counted_nouns(graph: DependencyGraph, word: int, tag_prefix: str) -> Iterator[tuple[int, int]]:
    """Modifiers of a word with a tag of this beginning, each with its "of", which must follow the word."""
    for noun, label in graph.children(word):
        if label.startswith("nmod") and graph.tags[noun].startswith(tag_prefix):
            for preposition, marker in graph.children(noun):
                follows_word = graph.position[preposition] == graph.position[word] + 1
                if marker == "case" and follows_word and graph.words[preposition].lower() == "of":
                    yield noun, preposition


def _first_counted(graph: DependencyGraph, word: int, *tags: str) -> tuple[int, int] | None:
    counted_nouns = sorted((noun, of) for tag in tags for noun, of in _counted_nouns(graph, word, tag))
    return counted_nouns[0] if counted_nouns else None


def _a_number_of(graph: DependencyGraph, word: int) -> QuantifierMatch | None:
    """ "a (large) number of dogs": article, noun, "of", and adjectives before the noun."""
    if graph.words[word].lower() not in _WITH_ARTICLE:
        return None
    edges = graph.children(word)
    articles = [child for child, label in edges if label == "det" and graph.words[child].lower() in ("a", "an")]
    counted_noun = _first_counted(graph, word, "NN", "PRP") if articles else None
    if counted_noun is None:
        return None
    noun, preposition = counted_noun
    word_positions = graph.position
    adjectives = [child for child, label in edges if label == "amod" and word_positions[child] < word_positions[word]]
    return word, noun, [articles[0], word, preposition, *adjectives]


def _many_of(graph: DependencyGraph, word: int) -> QuantifierMatch | None:
    """ "lots of dogs": the word, "of", and the dependents of the word before it."""
    if not _ALONE.fullmatch(graph.words[word].lower()):
        return None
    counted_noun = _first_counted(graph, word, "NN", "PRP")
    return counted_noun and (word, counted_noun[0], _words_before(graph, word, counted_noun[1]))


def _some_of_the(graph: DependencyGraph, word: int) -> QuantifierMatch | None:
    """ "some of the dogs", "two of them": as before, but a noun must have a determiner right after "of"."""
    if not _WITH_DETERMINER.fullmatch(graph.words[word].lower()):
        return None
    for noun, preposition in _counted_nouns(graph, word, "NN"):
        siblings = sorted((graph.position[dependent], label) for dependent, label in graph.dependents[noun])
        following_labels = [label for position, label in siblings if position > graph.position[preposition]]
        if following_labels[:1] == ["det"]:
            return word, noun, _words_before(graph, word, preposition)
    counted_noun = _first_counted(graph, word, "PRP")
    return counted_noun and (word, counted_noun[0], _words_before(graph, word, counted_noun[1]))


def _words_before(graph: DependencyGraph, word: int, preposition: int) -> list[int]:
    positions = graph.position
    return [word, preposition, *(child for child, _ in graph.children(word) if positions[child] < positions[word])]


def _step_down(graph: DependencyGraph, head: int, noun: int, words: list[int]) -> bool:
    """The noun takes the head's place and governs the words; False if the head is not in the graph."""
    if head in graph.roots:
        graph.roots.remove(head)
        graph.roots.append(noun)
    else:
        parent_edge = graph.parent(head)
        if parent_edge is None:
            return False
        graph.remove(parent_edge[0], head, parent_edge[1])
        graph.add(parent_edge[0], noun, parent_edge[1])
    edge_label = graph.label(head, noun)
    if edge_label is not None:
        graph.remove(head, noun, edge_label)
    first_word, *other_words = sorted(words, key=graph.position.__getitem__)
    for quantifier_word in (first_word, *other_words):
        graph.detach(quantifier_word)
    graph.add(noun, first_word, "det:qmod")
    for quantifier_word in other_words:
        graph.add(first_word, quantifier_word, "mwe")
    return True


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
        _demote_quantifiers(graph)
        _resolve_pronouns(graph)
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
