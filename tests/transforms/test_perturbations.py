"""Perturbed sentences: what is touched, how much, and that more strength touches the same words and more."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.transforms.perturbations import (
    ReplacementWords,
    SentenceWords,
    is_content,
    permute_words,
    remove_words,
    repeat_words,
    replace_words,
    substitute_words,
)

WORDS = st.lists(st.sampled_from(["a", "dog", "cat", "runs", "on", "the", "grass", "red", "ball"]), max_size=12)
SEEDS = st.integers(0, 2**32)
VOCABULARY = ReplacementWords.collect(
    ["a red ball lies on the grass", "a dog jumps", "a cat jumps over the fence", "A Dog barks."]
)


def _differing(one: list[str], other: list[str]) -> set[int]:
    return {location for location, (a, b) in enumerate(zip(one, other, strict=True)) if a != b}


@pytest.mark.parametrize(
    ("sentence", "core", "end"),
    [
        ("A dog runs.", ("A", "dog", "runs"), "."),
        ("  a  dog,\trunning !! ", ("a", "dog,", "running"), "!!"),
        ("no stop", ("no", "stop"), ""),
        ("...", (), "..."),
        ("", (), ""),
        ("the u.s. flag …", ("the", "u.s.", "flag"), "…"),
    ],
)
def test_the_mark_at_the_end_is_kept_apart(sentence: str, core: tuple[str, ...], end: str) -> None:
    words = SentenceWords.split(sentence)
    assert (words.core, words.end) == (core, end)


def test_content_words_are_those_that_say_something() -> None:
    assert [word for word in ["The", "dog,", "on", "a", "'red'", "mat", "-", "3", "--", "..."] if is_content(word)] == [
        "dog,",
        "'red'",
        "mat",
        "3",
    ]


@given(WORDS, st.integers(0, 14), SEEDS)
def test_a_permutation_keeps_the_words_and_changes_the_sentence_where_it_can(
    words: list[str], touched: int, seed: int
) -> None:
    result = permute_words(words, touched, np.random.default_rng(seed))
    assert Counter(result) == Counter(words)
    if touched and len(set(words)) > 1:
        assert result != words
    else:
        assert result == words


@given(st.integers(2, 12), st.data(), SEEDS)
def test_every_touched_word_moves(number: int, data: st.DataObject, seed: int) -> None:
    words = [f"word{k}" for k in range(number)]
    touched = data.draw(st.integers(2, number))
    moved = _differing(words, permute_words(words, touched, np.random.default_rng(seed)))
    assert len(moved) == touched
    if touched < number:
        assert moved <= _differing(words, permute_words(words, touched + 1, np.random.default_rng(seed)))


def test_all_permutations_of_three_words_that_leave_none_in_place_are_as_likely() -> None:
    found = Counter(" ".join(permute_words(["x", "y", "z"], 3, np.random.default_rng(seed))) for seed in range(2000))
    assert set(found) == {"y z x", "z x y"}
    assert 900 < found["y z x"] < 1100


@given(WORDS, st.integers(0, 12), SEEDS)
def test_replaced_words_are_other_words_of_the_vocabulary(words: list[str], touched: int, seed: int) -> None:
    result = replace_words(words, touched, np.random.default_rng(seed), VOCABULARY)
    changed = _differing(words, result)
    assert len(changed) == min(touched, len(words))
    assert {result[location] for location in changed} <= set(VOCABULARY.words)
    more = replace_words(words, touched + 1, np.random.default_rng(seed), VOCABULARY)
    assert all(more[location] == result[location] for location in changed)


def test_every_word_of_the_vocabulary_is_as_likely_to_replace() -> None:
    vocabulary = ReplacementWords.collect(["a b c d e", "a a a a"])
    found = Counter(replace_words(["a"], 1, np.random.default_rng(seed), vocabulary)[0] for seed in range(4000))
    assert set(found) == set("bcde")
    assert min(found.values()) > 900


@given(WORDS, st.integers(0, 12), SEEDS)
def test_substitution_touches_content_words_alone(words: list[str], touched: int, seed: int) -> None:
    result = substitute_words(words, touched, np.random.default_rng(seed), VOCABULARY)
    changed = _differing(words, result)
    content = {location for location, word in enumerate(words) if is_content(word)}
    assert changed <= content
    assert len(changed) == min(touched, len(content))
    assert all(is_content(result[location]) for location in changed)


def test_a_substitute_fits_the_word_before_and_is_no_form_of_the_same_word() -> None:
    vocabulary = ReplacementWords.collect(["the dog barks", "the dogs bark", "the cat sleeps"])
    found = {
        " ".join(substitute_words(["the", "dog"], 1, np.random.default_rng(seed), vocabulary)) for seed in range(50)
    }
    assert found == {"the cat"}


def test_without_a_fitting_frame_any_content_word_substitutes() -> None:
    vocabulary = ReplacementWords.collect(["the dog barks"])
    found = {substitute_words(["under", "trees"], 1, np.random.default_rng(seed), vocabulary)[1] for seed in range(50)}
    assert found == {"dog", "barks"}
    assert substitute_words(["dogs"], 1, np.random.default_rng(0), ReplacementWords.collect(["the dog"])) == ["dogs"]


@given(WORDS, st.integers(0, 14), SEEDS)
def test_repetition_says_some_words_twice(words: list[str], touched: int, seed: int) -> None:
    result = repeat_words(words, touched, np.random.default_rng(seed))
    assert len(result) == len(words) + min(touched, len(words))
    remaining = iter(result)
    assert all(word in remaining for word in words)  # the sentence is still inside, in order


def test_repeated_words_follow_each_other() -> None:
    assert repeat_words(["a", "b"], 2, np.random.default_rng(0)) == ["a", "a", "b", "b"]


@given(WORDS, st.integers(0, 14), SEEDS)
def test_removal_keeps_one_word_and_the_order(words: list[str], touched: int, seed: int) -> None:
    result = remove_words(words, touched, np.random.default_rng(seed))
    assert len(result) == (max(1, len(words) - touched) if words else 0)
    rest = iter(words)
    assert all(word in rest for word in result)


@given(st.permutations(["a red ball", "a dog runs", "two dogs"]))
def test_a_vocabulary_does_not_depend_on_the_order_of_its_sentences(sentences: list[str]) -> None:
    assert ReplacementWords.collect(sentences) == ReplacementWords.collect(["two dogs", "a red ball", "a dog runs"])
