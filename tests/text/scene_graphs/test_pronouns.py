"""Pronouns give way to the topmost noun before them."""

from __future__ import annotations

from support.written_parses import parse

from capmeter.text.scene_graphs.collapsed_dependencies import collapse_dependencies
from capmeter.text.scene_graphs.rules import _resolve_pronouns


def resolved(line: str) -> set[tuple[str, str, str]]:
    graph = collapse_dependencies(parse(line))
    _resolve_pronouns(graph)
    words = graph.words
    return {(words[head], words[word], label) for head in range(len(graph)) for word, label in graph.dependents[head]}


def test_a_possessive_pronoun():
    result = resolved("Men/NNS/man/2/nsubj hold/VBP/hold/0/root their/PRP$/they/4/nmod:poss dogs/NNS/dog/2/dobj")
    assert result == {("hold", "Men", "nsubj"), ("hold", "dogs", "dobj"), ("dogs", "Men", "nmod:poss")}


def test_a_singular_pronoun_means_a_singular_noun():
    line = (
        "Men/NNS/man/2/nsubj hold/VBP/hold/0/root dog/NN/dog/2/dobj with/IN/with/6/case "
        "its/PRP$/its/6/nmod:poss ball/NN/ball/3/nmod"
    )
    assert ("ball", "dog", "nmod:poss") in resolved(line)
    assert ("ball", "Men", "nmod:poss") in resolved(line.replace("its/PRP$", "their/PRP$"))


def test_a_noun_after_the_pronoun_and_a_first_word_stay():
    assert resolved("now/RB/now/3/advmod he/PRP/he/3/nsubj holds/VBZ/hold/0/root dog/NN/dog/3/dobj") == {
        ("holds", "now", "advmod"),
        ("holds", "he", "nsubj"),
        ("holds", "dog", "dobj"),
    }
    assert resolved("He/PRP/he/2/nsubj runs/VBZ/run/0/root") == {("runs", "He", "nsubj")}
