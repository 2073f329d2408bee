"""METEOR's statistics: upper bounds against those of alignments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plain_meteor import small_language

from capmeter.metrics.ngram.meteor import (
    CHUNKS,
    COLUMNS,
    _bound_statistics,
    _count_alignment_statistics,
    compute_scores,
)
from capmeter.text.meteor.aligner import MatchedPairs
from capmeter.text.meteor.resources import MeteorResources
from capmeter.text.meteor.sentence_features import compute_features, prepare_sentences
from capmeter.text.tokenization.token_tables import TokenTable

WORDS = st.sampled_from(["a", "the", "on", "of", "top", "dog", "dogs", "car", "automobile", "machine", "geese", "bird"])
SENTENCES = st.lists(WORDS, max_size=9)


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> MeteorResources:
    return small_language(tmp_path_factory.mktemp("meteor"))


def bounds_and_statistics(
    pairs: list[tuple[list[str], list[str]]], language: MeteorResources
) -> tuple[np.ndarray, ...]:
    """The upper bounds of the statistics and the statistics of the alignments."""
    features = compute_features(TokenTable.from_lists([side for pair in pairs for side in pair]), language)
    candidates = np.arange(0, 2 * len(pairs), 2)
    words = prepare_sentences(features, language, candidates)
    matched = MatchedPairs.from_sentences(words, candidates, candidates + 1)
    bounds = np.zeros((len(pairs), len(COLUMNS)))
    bounds[matched.order] = _bound_statistics(words, candidates, candidates + 1, matched, language)
    aligned = matched.align(np.arange(len(pairs)))
    return bounds, _count_alignment_statistics(words, candidates, candidates + 1, aligned, language.modules)


def test_bounds_by_hand(language: MeteorResources) -> None:
    # each "a" of the reference matches the one of the candidate; "cars" has the stem of "car", and its synset
    bounds, statistics = bounds_and_statistics(
        [(["a", "cars", "dog"], ["a", "a", "car"]), (["dog"], ["car"])], language
    )
    assert bounds[0, :4].tolist() == [3, 3, 1, 2]
    first = dict(zip(COLUMNS, bounds[0].tolist(), strict=True))
    assert (first["candidate-function-1"], first["reference-function-1"]) == (1, 2)
    assert (first["candidate-content-3"], first["reference-content-3"]) == (1, 1)
    assert (first["chunks"], first["candidate-matched"], first["reference-matched"]) == (1, 2, 3)
    assert bounds[1, 4:].tolist() == statistics[1, 4:].tolist() == [0] * (len(COLUMNS) - 4)


@settings(max_examples=100)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=8))
def test_no_alignment_scores_more_than_its_bound(language, pairs) -> None:
    bounds, statistics = bounds_and_statistics(pairs, language)
    parameters = language.settings.parameters, language.weights
    assert (compute_scores(bounds, *parameters).score >= compute_scores(statistics, *parameters).score - 1e-12).all()
    assert (bounds[:, CHUNKS + 1 :] >= statistics[:, CHUNKS + 1 :]).all()
    assert ((bounds[:, CHUNKS] <= statistics[:, CHUNKS]) | (statistics[:, CHUNKS] == 0)).all()
