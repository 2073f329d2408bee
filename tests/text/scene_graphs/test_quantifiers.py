"""Quantifiers step down from the nouns that they count."""

from __future__ import annotations

import pytest
from support.written_parses import parse

from capmeter.text.scene_graphs.collapsed_dependencies import collapse_dependencies
from capmeter.text.scene_graphs.rules import _demote_quantifiers


def demoted(line: str) -> set[str]:
    """governor>dependent:label in words."""
    graph = collapse_dependencies(parse(line))
    _demote_quantifiers(graph)
    words = graph.words
    found = {f"{words[head]}>{words[k]}:{label}" for head in range(len(graph)) for k, label in graph.dependents[head]}
    return found | {f"ROOT>{words[root]}:root" for root in graph.roots}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "A/DT/a/3/det large/JJ/large/3/amod bunch/NN/bunch/6/nsubj of/IN/of/5/case dogs/NNS/dog/3/nmod "
            "run/VBP/run/0/root",
            "ROOT>run:root run>dogs:nsubj dogs>A:det:qmod A>large:mwe A>bunch:mwe A>of:mwe",
        ),
        (
            "Lots/NNS/lot/0/root of/IN/of/3/case dogs/NNS/dog/1/nmod",  # the root steps down, too
            "ROOT>dogs:root dogs>Lots:det:qmod Lots>of:mwe",
        ),
        (
            "Only/RB/only/2/advmod two/CD/two/0/root of/IN/of/5/case the/DT/the/5/det dogs/NNS/dog/2/nmod",
            "ROOT>dogs:root dogs>Only:det:qmod Only>two:mwe Only>of:mwe dogs>the:det",
        ),
        (
            "all/DT/all/4/nsubj of/IN/of/3/case them/PRP/they/1/nmod run/VBP/run/0/root",
            "ROOT>run:root run>them:nsubj them>all:det:qmod all>of:mwe",
        ),
    ],
)
def test_the_noun_takes_the_place_of_its_quantifier(line: str, expected: str) -> None:
    assert demoted(line) == set(expected.split())


@pytest.mark.parametrize(
    "line",
    [
        "the/DT/the/2/det bunch/NN/bunch/0/root of/IN/of/4/case dogs/NNS/dog/2/nmod",  # no "a"
        "two/CD/two/0/root of/IN/of/3/case dogs/NNS/dog/1/nmod",  # no determiner
        "a/DT/a/2/det photo/NN/photo/0/root of/IN/of/4/case dogs/NNS/dog/2/nmod",  # no quantifier
        "lots/NNS/lot/0/root big/JJ/big/1/amod of/IN/of/4/case dogs/NNS/dog/1/nmod",  # not next to "of"
        "lots/NNS/lot/0/root of/IN/of/3/case running/VBG/run/1/nmod",  # no noun
    ],
)
def test_what_is_no_quantifier_stays(line):
    graph = collapse_dependencies(parse(line))
    before = [list(edges) for edges in graph.dependents], list(graph.roots)
    _demote_quantifiers(graph)
    assert (graph.dependents, graph.roots) == before
