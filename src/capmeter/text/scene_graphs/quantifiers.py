"""Demotes quantifiers: in "a lot of dogs" and "three of the dogs" the dogs take the quantifier's place.

The quantifier's words depend on the noun: the first by "det:qmod", the others by "mwe" on the first. As in SPICE's
scene graph parser (Schuster et al. 2015): three patterns, each searched in the graph that the previous one left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from capmeter.text.parsing.dependency_graph import DependencyGraph

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


def demote_quantifiers(graph: DependencyGraph) -> None:
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
