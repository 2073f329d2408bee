"""Prepositions of two and three words become one: "in front of", "next to", "out of".

The words become one group, the first a `case` of the noun and the others `mwe` of the first. Groups are searched
among neighbouring words, list by list, so that the earlier entry wins if two overlap.
"""

from __future__ import annotations

from itertools import pairwise

from capmeter.text.parsing.dependency_graph import DependencyGraph

# "next" beside "to", both dependents of the noun
_TWO_BESIDE = (  # noqa: SIM905
    "across from,along with,alongside of,apart from,as for,as from,as of,as per,as to,aside from,based on,close by,"
    "close to,contrary to,compared to,compared with,except for,exclusive of,far from,followed by,inside of,"
    "irrespective of,next to,near to,off of,out of,outside of,owing to,preliminary to,preparatory to,previous to,"
    "pursuant to,regardless of,subsequent to,thanks to,together with"
).split(",")

# "next" governing the noun that "to" belongs to
_TWO_ABOVE = (  # noqa: SIM905
    "apart from,as from,aside from,away from,close by,close to,contrary to,far from,next to,near to,out of,outside of,"
    "pursuant to,regardless of,together with"
).split(",")

_THREE = (  # noqa: SIM905
    "by means of,in accordance with,in addition to,in case of,in front of,in lieu of,in place of,in spite of,"
    "on account of,on behalf of,on top of,with regard to,with respect to"
).split(",")

_STARTS = {tuple(phrase.split()[:2]) for phrase in (*_TWO_BESIDE, *_TWO_ABOVE, *_THREE)}
_CLAUSES = frozenset("conj xcomp ccomp acl advcl acl:relcl parataxis appos list".split())  # noqa: SIM905


def join_prepositions(graph: DependencyGraph) -> None:
    """Rewrites every preposition of several words in a tree."""
    lower_words = [word.lower() for word in graph.words]
    word_pairs = list(pairwise(lower_words))
    if _STARTS.isdisjoint(word_pairs):
        return
    phrase_positions: dict[str, list[int]] = {}
    for phrase_start, (first_word, second_word) in enumerate(word_pairs):
        phrase_positions.setdefault(f"{first_word} {second_word}", []).append(phrase_start)
        if phrase_start + 2 < len(lower_words):
            phrase_positions.setdefault(f"{first_word} {second_word} {lower_words[phrase_start + 2]}", []).append(
                phrase_start
            )
    for phrases, join_phrase in ((_TWO_BESIDE, _join_beside), (_TWO_ABOVE, _join_above), (_THREE, _join_three)):
        for phrase in phrases:
            for phrase_start in phrase_positions.get(phrase, ()):
                join_phrase(graph, phrase_start)


def _join_beside(graph: DependencyGraph, first_word: int) -> None:
    """Two dependents of one noun: (noun → next, noun → to) becomes (noun → next → to)."""
    second_word = first_word + 1
    if not (graph.leaf(first_word) and graph.leaf(second_word)):
        return
    for governor, label in graph.governors[first_word]:
        if label in ("case", "advmod") and (governor, "case") in graph.governors[second_word]:
            _group(graph, governor, "case", (first_word, second_word))
            return


def _join_above(graph: DependencyGraph, first_word: int) -> None:
    """A first word that governs the noun: (x → out → surf → of) becomes (x → surf → out → of)."""
    second_word = first_word + 1
    for noun, label in graph.children(first_word):
        if label == "nmod" and (second_word, "case") in graph.dependents[noun] and graph.leaf(second_word):
            break
    else:
        return
    if first_word in graph.roots:
        graph.roots[graph.roots.index(first_word)] = noun
        graph.remove(first_word, noun, "nmod")
    else:
        (governor, noun_label) = graph.governors[first_word][0]
        graph.remove(first_word, noun, "nmod")
        graph.add(
            governor, noun, noun_label if noun_label in _CLAUSES and graph.has_child(first_word, "cop") else "nmod"
        )
    graph.move_children(first_word, noun)
    _group(graph, noun, "case", (first_word, second_word))


def _join_three(graph: DependencyGraph, first_word: int) -> None:
    """(x → front → in, front → house → of) becomes (x → house → in → front, of)."""
    second_word, third_word = first_word + 1, first_word + 2
    if (first_word, "case") not in graph.dependents[second_word] or not (
        graph.leaf(first_word) and graph.leaf(third_word)
    ):
        return
    for noun, label in graph.children(second_word):
        marker_labels = [child_label for word, child_label in graph.dependents[noun] if word == third_word]
        if label in ("nmod", "acl", "advcl") and marker_labels and marker_labels[0] in ("case", "mark"):
            break
    else:
        return
    marker = "case"
    if second_word in graph.roots:
        graph.roots[graph.roots.index(second_word)] = noun
        graph.remove(second_word, noun, label)
    else:
        (governor, noun_label) = graph.governors[second_word][0]
        graph.remove(second_word, noun, label)
        if noun_label == "nmod" and label != "nmod":
            noun_label, marker = label, "mark"
        graph.add(governor, noun, noun_label)
    graph.move_children(second_word, noun)
    _group(graph, noun, marker, (first_word, second_word, third_word))


def _group(graph: DependencyGraph, governor: int, label: str, words: tuple[int, ...]) -> None:
    """Attaches the first of some words to a governor, and the others to the first as one multi-word expression."""
    for word in words:
        graph.detach(word)
    graph.add(governor, words[0], label)
    for word in words[1:]:
        graph.add(words[0], word, "mwe")
