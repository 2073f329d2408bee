"""Collapsed dependencies: hand-made sentences for each rule, and the official graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.written_parses import official_rows, parse

from capmeter.text.parsing.dependency_parse import DependencyGraph, Parse
from capmeter.text.scene_graphs.collapsed_dependencies import collapse_dependencies

Edges = set[tuple[str, str, str]]


def edges(graph: DependencyGraph) -> Edges:
    """(governor, dependent, label) in words; copies carry an apostrophe for each copy before and of them."""
    names = []
    for node, position in enumerate(graph.position):
        names.append(graph.words[node] + "'" * graph.position[:node].count(position))
    found = {(names[head], names[word], label) for head in range(len(graph)) for word, label in graph.dependents[head]}
    return found | {("ROOT", names[root], "root") for root in graph.roots}


SENTENCES = {
    "a preposition enters the label": (
        "Dogs/NNS/dog/2/nsubj run/VBP/run/0/root On/IN/on/4/case grass/NN/grass/2/nmod",
        "ROOT>run:root run>Dogs:nsubj grass>On:case run>grass:nmod:on",
    ),
    "of several prepositions the last counts": (
        "runs/VBZ/run/0/root from/IN/from/4/case under/IN/under/4/case trees/NNS/tree/1/nmod",
        "ROOT>runs:root trees>from:case trees>under:case runs>trees:nmod:under",
    ),
    "two words beside each other become one preposition": (
        "sits/VBZ/sit/0/root next/JJ/next/4/advmod to/TO/to/4/case wall/NN/wall/1/nmod",
        "ROOT>sits:root sits>wall:nmod:next_to wall>next:case next>to:mwe",
    ),
    "a word above its noun becomes part of the preposition": (
        "climbs/VBZ/climb/0/root out/RB/out/1/nmod of/IN/of/4/case boxes/NNS/box/2/nmod quickly/RB/quickly/2/advmod",
        "ROOT>climbs:root climbs>boxes:nmod:out_of boxes>out:case out>of:mwe boxes>quickly:advmod",
    ),
    "at the root the noun takes the place of the preposition": (
        "Next/JJ/next/0/root to/TO/to/3/case walls/NNS/wall/1/nmod",
        "ROOT>walls:root walls>Next:case Next>to:mwe",
    ),
    "three words become one preposition": (
        "parks/VBZ/park/0/root in/IN/in/3/case front/NN/front/1/nmod of/IN/of/6/case the/DT/the/6/det "
        "house/NN/house/3/nmod",
        "ROOT>parks:root parks>house:nmod:in_front_of house>in:case in>front:mwe in>of:mwe house>the:det",
    ),
    "conjuncts share what governs them and their subject": (
        "Dogs/NNS/dog/4/nsubj and/CC/and/1/cc cats/NNS/cat/1/conj run/VBP/run/0/root and/CC/and/4/cc "
        "jump/VBP/jump/4/conj",
        "ROOT>run:root run>Dogs:nsubj run>cats:nsubj Dogs>and:cc Dogs>cats:conj:and run>and:cc run>jump:conj:and "
        "jump>Dogs:nsubj",
    ),
    "a conjoined phrase hangs from a copy of the verb": (
        "Boys/NNS/boy/2/nsubj slide/VBP/slide/0/root down/IN/down/4/case hills/NNS/hill/2/nmod and/CC/and/4/cc "
        "into/IN/into/7/case water/NN/water/4/conj",
        "ROOT>slide:root slide>Boys:nsubj slide'>Boys:nsubj slide>slide':conj:and slide>and:cc slide>hills:nmod:down "
        "hills>down:case slide'>water:nmod:into water>into:case",
    ),
}


@pytest.mark.parametrize(("sentence", "expected"), SENTENCES.values(), ids=SENTENCES)
def test_sentences(sentence: str, expected: str) -> None:
    found = {f"{head}>{word}:{label}" for head, word, label in edges(collapse_dependencies(parse(sentence)))}
    assert found == set(expected.split())


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("or", "conj:or"),
        ("AND", "conj:and"),
        ("but rather", "conj:negcc"),
        ("but also", "conj:and"),
        ("instead of", "conj:negcc"),
        ("not to mention", "conj:and"),
        ("as well", "conj:and"),
    ],
)
def test_conjunctions_that_mean_another_thing(words, label):
    first, *others = words.split()
    last = len(others) + 3
    line = [f"dogs/NNS/dog/0/root {first}/CC/{first}/1/cc"]
    line += [f"{word}/RB/{word}/{last}/advmod" for word in others]
    graph = collapse_dependencies(parse(" ".join([*line, "cats/NNS/cat/1/conj"])))
    assert ("dogs", "cats", label) in edges(graph)


def test_conjoined_prepositions_give_an_edge_each():
    graph = collapse_dependencies(
        parse("play/VBP/play/0/root in/IN/in/5/case and/CC/and/2/cc around/IN/around/2/conj water/NN/water/1/nmod")
    )
    assert {("play", "water", "nmod:in"), ("play'", "water", "nmod:around"), ("play", "play'", "conj:and")} < edges(
        graph
    )


def test_passives():
    graph = collapse_dependencies(
        parse(
            "Ball/NN/ball/3/nsubj is/VBZ/be/3/auxpass caught/VBN/catch/0/root by/IN/by/5/case dogs/NNS/dog/3/nmod "
            "and/CC/and/3/cc rolls/VBZ/roll/3/conj"
        )
    )
    assert {("caught", "Ball", "nsubjpass"), ("caught", "dogs", "nmod:agent"), ("rolls", "Ball", "nsubj")} < edges(
        graph
    )


def graph_rows(graph: DependencyGraph) -> list[tuple[int, int, int, int, str]]:
    visits: dict[int, int] = {}
    copies = []
    for position in graph.position:
        copies.append(visits.get(position, 0))
        visits[position] = copies[-1] + 1
    rows = [(0, 0, graph.position[root], copies[root], "root") for root in graph.roots]
    for head in range(1, len(graph)):
        rows += [
            (graph.position[head], copies[head], graph.position[k], copies[k], x) for k, x in graph.dependents[head]
        ]
    return sorted(rows)


def differing(shared: Path, every: int) -> tuple[int, int]:
    count = wrong = 0
    for row in official_rows(shared, every):
        for number, sentence in enumerate(row["sentences"]):
            count += 1
            expected = sorted(
                (head, more[0] if more else 0, word, more[1] if more else 0, label)
                for head, word, label, *more in sentence["collapsed"]
            )
            wrong += graph_rows(collapse_dependencies(Parse.from_dict(sentence), number)) != expected
    return count, wrong


def test_official_graphs_of_every_tenth_caption(shared: Path):
    count, wrong = differing(shared, 10)
    assert count > 3000
    assert wrong == 0


@pytest.mark.slow
def test_official_graphs_of_all_captions(shared: Path):
    assert differing(shared, 1) == (30_304, 0)
