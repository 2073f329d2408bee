"""Words of documents that contradict a reference that has them elsewhere."""

from __future__ import annotations

from capmeter.metrics.own.documents import (
    _find_contradicted_sentences,
    _find_contradicted_words,
    _find_misplaced_words,
    _index_conflicts,
    _SplitText,
)
from capmeter.text.scene_graphs.graph import build_scene_graph, no_synsets

CANDIDATE = _SplitText.from_sentences(["A red dog sits on a green sofa.", "The lamp is on the left."])
REFERENCE = _SplitText.from_sentences(["A green dog sits on a red sofa.", "A lamp stands on the right side."])


def test_words_and_bounds() -> None:
    assert CANDIDATE.words[7:] == ("sofa.", "The", "lamp", "is", "on", "the", "left.")
    assert CANDIDATE.bounds == ((0, 8), (8, 14))
    assert list(REFERENCE.find("lamps", "lamp")) == [9] and list(REFERENCE.find("red", "lamp")) == []


def test_exchanged_colours_contradict_though_both_texts_have_both() -> None:
    local = build_scene_graph([("dog",), ("dog", "red"), ("sofa",), ("sofa", "green")], no_synsets)
    other = build_scene_graph([("dog",), ("dog", "green"), ("sofa",), ("sofa", "red")], no_synsets)
    found = _find_contradicted_words(CANDIDATE, [REFERENCE], local, other)
    assert {CANDIDATE.words[k]: REFERENCE.words[at] for k, (_, at) in found.items()} == {"red": "green", "green": "red"}
    assert _find_contradicted_words(CANDIDATE, [REFERENCE], local, local) == {}


def test_an_object_that_has_both_values_contradicts_nothing() -> None:
    local = build_scene_graph([("dog",), ("dog", "red")], no_synsets)
    both = build_scene_graph([("dog",), ("dog", "red"), ("dog", "green")], no_synsets)
    assert _find_contradicted_words(CANDIDATE, [REFERENCE], local, both) == {}


def test_a_place_is_compared_with_that_of_the_same_object_alone() -> None:
    assert _find_misplaced_words(CANDIDATE, REFERENCE, [0, 1]) == {13: 13}
    other = _SplitText.from_sentences(["A green dog sits on a red sofa.", "A window is on the right side."])
    assert _find_misplaced_words(CANDIDATE, other, [0, 1]) == {}
    same = _SplitText.from_sentences(["A dog.", "The lamp is on the left, not on the right."])
    assert _find_misplaced_words(CANDIDATE, same, [0, 1]) == {}


def test_a_sentence_is_contradicted_by_the_most_similar_one_alone() -> None:
    """The lamp's place by what the sentences say, the shirt's colour by the graphs."""
    text = _SplitText.from_sentences(["The lamp is on the left.", "A man in a blue shirt waves."])
    other = _SplitText.from_sentences(
        ["A woman in a red shirt sings.", "A lamp stands on the right side.", "A man in a red shirt."]
    )
    own_graph = build_scene_graph([("shirt",), ("shirt", "blue")], no_synsets)
    other_graph = build_scene_graph([("shirt",), ("shirt", "red")], no_synsets)
    conflicts = _index_conflicts(own_graph, other_graph)
    assert conflicts == {"blue": [("shirt", frozenset({"red"}))]}
    assert _find_contradicted_sentences(text, [other], [[1, 2]], conflicts) == [True, True]
    assert _find_contradicted_sentences(text, [other], [[0, 1]], conflicts) == [False, False]
    assert _find_contradicted_sentences(text, [other], [[1, 2]], {}) == [True, False]


def test_what_one_of_the_references_says_is_not_contradicted() -> None:
    text = _SplitText.from_sentences(["The lamp is on the left.", "A man in a blue shirt waves."])
    other = _SplitText.from_sentences(["A lamp stands on the right side.", "A man in a red shirt."])
    conflicts = {"blue": [("shirt", frozenset({"red"}))]}
    assert _find_contradicted_sentences(text, [other, text], [[0, 1], [0, 1]], conflicts) == [False, False]
    both = _SplitText.from_sentences(
        ["A lamp is on the right, one on the left.", "A man in a red shirt and blue trousers."]
    )
    assert _find_contradicted_sentences(text, [both], [[0, 1]], conflicts) == [False, False]
