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
    words = [word.lower() for word in graph.words]
    pairs = list(pairwise(words))
    if _STARTS.isdisjoint(pairs):
        return
    where: dict[str, list[int]] = {}
    for start, (first, second) in enumerate(pairs):
        where.setdefault(f"{first} {second}", []).append(start)
        if start + 2 < len(words):
            where.setdefault(f"{first} {second} {words[start + 2]}", []).append(start)
    for phrases, join in ((_TWO_BESIDE, _join_beside), (_TWO_ABOVE, _join_above), (_THREE, _join_three)):
        for phrase in phrases:
            for start in where.get(phrase, ()):
                join(graph, start)


def _join_beside(graph: DependencyGraph, first: int) -> None:
    """Two dependents of one noun: (noun → next, noun → to) becomes (noun → next → to)."""
    second = first + 1
    if not (graph.leaf(first) and graph.leaf(second)):
        return
    for governor, label in graph.governors[first]:
        if label in ("case", "advmod") and (governor, "case") in graph.governors[second]:
            _group(graph, governor, "case", (first, second))
            return


def _join_above(graph: DependencyGraph, first: int) -> None:
    """A first word that governs the noun: (x → out → surf → of) becomes (x → surf → out → of)."""
    second = first + 1
    for noun, label in graph.children(first):
        if label == "nmod" and (second, "case") in graph.dependents[noun] and graph.leaf(second):
            break
    else:
        return
    if first in graph.roots:
        graph.roots[graph.roots.index(first)] = noun
        graph.remove(first, noun, "nmod")
    else:
        (governor, noun_label) = graph.governors[first][0]
        graph.remove(first, noun, "nmod")
        graph.add(governor, noun, noun_label if noun_label in _CLAUSES and graph.has_child(first, "cop") else "nmod")
    graph.move_children(first, noun)
    _group(graph, noun, "case", (first, second))


def _join_three(graph: DependencyGraph, first: int) -> None:
    """(x → front → in, front → house → of) becomes (x → house → in → front, of)."""
    second, third = first + 1, first + 2
    if (first, "case") not in graph.dependents[second] or not (graph.leaf(first) and graph.leaf(third)):
        return
    for noun, label in graph.children(second):
        marked = [found for word, found in graph.dependents[noun] if word == third]
        if label in ("nmod", "acl", "advcl") and marked and marked[0] in ("case", "mark"):
            break
    else:
        return
    marker = "case"
    if second in graph.roots:
        graph.roots[graph.roots.index(second)] = noun
        graph.remove(second, noun, label)
    else:
        (governor, noun_label) = graph.governors[second][0]
        graph.remove(second, noun, label)
        if noun_label == "nmod" and label != "nmod":
            noun_label, marker = label, "mark"
        graph.add(governor, noun, noun_label)
    graph.move_children(second, noun)
    _group(graph, noun, marker, (first, second, third))


def _group(graph: DependencyGraph, governor: int, label: str, words: tuple[int, ...]) -> None:
    """Attaches the first of some words to a governor, and the others to the first as one multi-word expression."""
    for word in words:
        graph.detach(word)
    graph.add(governor, words[0], label)
    for word in words[1:]:
        graph.add(words[0], word, "mwe")
