"""Scene graphs: what merges, how graphs are matched, and the official counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.call_counts import steps

from capmeter.text.scene_graphs.graph import (
    COLORS,
    KINDS,
    SIZES,
    Concept,
    Counts,
    SceneGraph,
    build_scene_graph,
    graph_from_concepts,
    match,
    no_synsets,
)

SYNSETS = {
    "man": {1, 2},
    "guy": {2, 3},
    "person": {3, 4, 5},
    "large": {10},
    "big": {10, 11},
    "huge": {11},
    "red": {20},
    "crimson": {20},
    "near": {30},
    "close_to": {30},
}


def synsets(word: str) -> frozenset[int]:
    return frozenset(SYNSETS.get(word, ()))


def test_a_word_joins_the_most_similar_object():
    graph = build_scene_graph([("man",), ("person",), ("guy",), ("guy", "tall")], synsets)
    assert [each.words for each in graph.objects] == [("man", "guy"), ("person",)]  # |∩|/|∪|: 1/3 and 1/4
    assert graph.objects[0].synsets == {1, 2, 3}
    assert graph.attributes == ((0, Concept(("tall",))),)


def test_attributes_and_relations_join_the_first_similar_one():
    tuples = [("man", "large"), ("man", "huge"), ("man", "big"), ("man", "big")]
    graph = build_scene_graph(tuples, synsets)
    assert [each.words for _, each in graph.attributes] == [("large", "big"), ("huge",)]
    graph = build_scene_graph([("man", "dog", "near"), ("guy", "dog", "be close to"), ("dog", "man", "near")], synsets)
    assert str(graph) == "man/guy\ndog\nman/guy -- near/close to --> dog\ndog -- near --> man/guy"


def test_words_alone_and_graphs_of_tuples():
    graph = build_scene_graph([("man",), ("guy",), ("man", "big"), ("man", "large"), ("man", "big")], no_synsets)
    assert len(graph) == 4
    graph = build_scene_graph([("man", "guy", "near"), ("man", "big"), ("dog", "large")], synsets)
    assert graph_from_concepts(list(graph.tuples())) == graph


def test_counts_by_hand():
    candidate = build_scene_graph([("guy", "dog", "near"), ("guy", "red"), ("dog", "two"), ("dog", "huge")], synsets)
    reference = build_scene_graph(
        [("man", "dog", "close to"), ("man", "crimson"), ("dog", "big"), ("dog", "black")], synsets
    )
    counts = match(candidate, reference).counts
    assert counts["all"] == Counts(true=5, candidate=6, reference=6)
    assert counts["object"] == Counts(2, 2, 2)
    assert counts["attribute"] == Counts(2, 3, 3)
    assert counts["relation"] == Counts(1, 1, 1)
    assert counts["color"] == Counts(0, 1, 1)  # crimson is no colour of the list, black is no match
    assert counts["cardinality"] == Counts(0, 1, 0)
    assert counts["size"] == Counts(1, 1, 1)
    assert counts["all"].f == 2 * (5 / 6) * (5 / 6) / (5 / 6 + 5 / 6)
    assert counts["cardinality"].precision == counts["cardinality"].recall == counts["cardinality"].f == 0


def test_tuples_that_match_one_and_merged_attributes():
    counts = match(build_scene_graph([("man",), ("person",)], synsets), build_scene_graph([("guy",)], synsets)).counts[
        "all"
    ]
    assert (counts.true, counts.candidate, counts.reference, counts.recall) == (2, 2, 1, 2.0)
    graph = build_scene_graph([("dog", "red"), ("dog", "crimson")], synsets)
    assert match(graph, graph).counts["color"] == Counts(0, 0, 0)
    assert len(COLORS) == 18
    assert len(SIZES) == 105


WORDS = st.sampled_from([*SYNSETS, "dog", "cat", "on", "two", "black"])
TUPLES = st.lists(st.one_of(st.tuples(WORDS), st.tuples(WORDS, WORDS), st.tuples(WORDS, WORDS, WORDS)), max_size=12)


def plain_counts(candidate: SceneGraph, reference: SceneGraph) -> tuple[int, int, int]:
    """The definition, pair by pair."""
    other_values = list(reference.tuples())
    true = sum(
        any(len(a) == len(b) and all(x.similar(y) for x, y in zip(a, b, strict=True)) for b in other_values)
        for a in candidate.tuples()
    )
    return true, len(list(candidate.tuples())), len(other_values)


@given(TUPLES, TUPLES)
def test_matching_is_its_definition(own_values, other_values):
    candidate, reference = build_scene_graph(own_values, synsets), build_scene_graph(other_values, synsets)
    counts = match(candidate, reference).counts
    assert plain_counts(candidate, reference) == (counts["all"].true, counts["all"].candidate, counts["all"].reference)
    for kind in KINDS:
        assert 0 <= counts[kind].f <= 2
    assert sum(counts[kind].true for kind in ("object", "attribute", "relation")) == counts["all"].true


@given(TUPLES)
def test_merging_keeps_every_word_once(tuples):
    graph = build_scene_graph(tuples, synsets)
    words = [word for each in graph.objects for word in each.words]
    assert len(words) == len(set(words))
    assert set(words) == {word for each in tuples for word in ((each[0], each[1]) if len(each) == 3 else each[:1])}
    assert match(graph, graph).counts["all"].f == (1.0 if tuples else 0.0)


def test_the_work_is_linear_in_attributes():
    def built(count):
        graph = build_scene_graph([("dog", f"a{k}") for k in range(count)], synsets)
        assert match(graph, graph).counts["all"].true == count + 1
        assert len(str(graph)) > count

    assert steps(lambda: built(10_000)) < 8 * steps(lambda: built(2_000))  # 5 and a little; 25 if it were quadratic
