from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plainmeteor import small_language

from capmeter.text.meteor_aligner import MatchedPairs
from capmeter.text.meteor_resources import MeteorLanguage
from capmeter.text.meteor_statistics import CHUNKS, COLUMNS, most, scores, statistics
from capmeter.text.meteor_texts import texts_of
from capmeter.text.meteor_words import meteor_sentences
from capmeter.text.tokens import TokenTable

WORDS = st.sampled_from(["a", "the", "on", "of", "top", "dog", "dogs", "car", "automobile", "machine", "geese", "bird"])
SENTENCES = st.lists(WORDS, max_size=9)


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> MeteorLanguage:
    return small_language(tmp_path_factory.mktemp("meteor"))


def limits_and_found(pairs: list[tuple[list[str], list[str]]], language: MeteorLanguage) -> tuple[np.ndarray, ...]:
    """The statistics that no alignment exceeds and those of the alignments."""
    texts = texts_of(TokenTable.from_lists([side for pair in pairs for side in pair]), language)
    said = np.arange(0, 2 * len(pairs), 2)
    words = meteor_sentences(texts, language, said)
    matched = MatchedPairs.of(words, said, said + 1)
    limit = np.zeros((len(pairs), len(COLUMNS)))
    limit[matched.order] = most(words, said, said + 1, matched, language)
    aligned = matched.aligned(np.arange(len(pairs)))
    return limit, statistics(words, said, said + 1, aligned, language.modules)


def test_most_by_hand(language: MeteorLanguage) -> None:
    # both "a" of the reference match the only one of the candidate; "cars" has the stem of "car", and its synset
    limit, found = limits_and_found([(["a", "cars", "dog"], ["a", "a", "car"]), (["dog"], ["car"])], language)
    assert limit[0, :4].tolist() == [3, 3, 1, 2]
    one = dict(zip(COLUMNS, limit[0].tolist(), strict=True))
    assert (one["candidate-function-1"], one["reference-function-1"]) == (1, 2)
    assert (one["candidate-content-3"], one["reference-content-3"]) == (1, 1)
    assert (one["chunks"], one["candidate-matched"], one["reference-matched"]) == (1, 2, 3)
    assert limit[1, 4:].tolist() == found[1, 4:].tolist() == [0] * (len(COLUMNS) - 4)


@settings(max_examples=100)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=8))
def test_no_alignment_scores_more_than_most(language, pairs) -> None:
    limit, found = limits_and_found(pairs, language)
    known = language.settings.parameters, language.weights
    assert (scores(limit, *known).score >= scores(found, *known).score - 1e-12).all()
    assert (limit[:, CHUNKS + 1 :] >= found[:, CHUNKS + 1 :]).all()
    assert ((limit[:, CHUNKS] <= found[:, CHUNKS]) | (found[:, CHUNKS] == 0)).all()
