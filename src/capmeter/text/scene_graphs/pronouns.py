"""Replaces pronouns by their probable antecedent: the topmost noun of the sentence, if it precedes them.

As in SPICE's scene graph parser (Schuster et al. 2015): a breadth-first search from the root for the first noun.
"""

from __future__ import annotations

from capmeter.text.parsing.dependency_graph import DependencyGraph

_SINGULAR = frozenset(
    "i me myself mine my yourself he him himself his she her herself hers it itself its one oneself one's".split()  # noqa: SIM905
)


def resolve_pronouns(graph: DependencyGraph) -> None:
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
