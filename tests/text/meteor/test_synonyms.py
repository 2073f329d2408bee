"""METEOR's synonyms, by single words and by the index."""

from __future__ import annotations

import pytest
from support.plain_meteor import EXCEPTIONS, SYNSETS, pairs_text

from capmeter.text.meteor.synonyms import SynonymIndex, Synonyms

LISTS = (
    pairs_text({**SYNSETS, "glass": "7", "glas": "8", "go": "9", "box": "10", "man": "11", "make": "12", "big": "13"}),
    pairs_text({**EXCEPTIONS, "go": "went gone", "box": "went"}),
)


@pytest.mark.parametrize(
    ("word", "synsets"),
    [
        ("car", {1}),
        ("cars", {1}),
        ("automobile", {1, 2}),
        ("geese", {3}),
        ("went", {9, 10}),  # irregular form of two words: the synsets of both
        ("boxes", {10}),
        ("men", {11}),
        ("making", {12}),
        ("bigs", {13}),
        ("bigger", set()),  # no rule undoes the doubled letter
        ("glass", {7}),  # a word in -ss is its own base, though "glas" is known
        ("xylophone", set()),
        ("", set()),
    ],
)
def test_synsets_of_a_word_and_its_base_forms(word: str, synsets: set[int]) -> None:
    assert Synonyms(*LISTS).synsets(word) == synsets
    assert set(SynonymIndex.from_lists(*LISTS).synsets([word]).values.tolist()) == synsets


def test_synonyms_share_a_synset_with_a_word_or_its_base_form() -> None:
    dictionary = Synonyms("car\n1 2\nautomobile\n1\ntruck\n2 3\nlorry\n3\n", "")
    assert dictionary.synonyms("cars") == {"car", "automobile", "truck"}
    assert dictionary.synonyms("lorry") == {"truck", "lorry"}
    assert dictionary.synonyms("xylophone") == frozenset()
    assert Synonyms("bigg\n1\nbigge\n2\n", "").synsets("bigger") == {1}
