"""The metric: scores from a critic whose probabilities are known by hand, notes, needs, signature and mistakes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import capmeter
from capmeter.captions.model import Caption, CaptionSet
from capmeter.checkpoints import Checkpoint
from capmeter.errors import AssetError, InputError
from capmeter.metrics.base import Context
from capmeter.metrics.leic.critic import Critic, SentenceStates, load_critic
from capmeter.metrics.leic.forward import CriticNetwork, human_probability, weight_shapes
from capmeter.metrics.leic.leic import Leic
from capmeter.metrics.leic.shape import CriticShape
from capmeter.metrics.leic.vocabulary import CriticVocabulary

WORDS = ("a", "dog", "runs", "cat", "sleeps", "on", "the", "grass")


def checkpoint(shape: CriticShape, seed: int = 0) -> Checkpoint:
    random = np.random.default_rng(seed)
    weights = {
        name: random.normal(size=[len(WORDS) + 4 if n == -1 else n for n in size]).astype(np.float16)
        for name, size in weight_shapes(shape).items()
    }
    return Checkpoint(
        "leic",
        {"shape": shape.to_dict(), "start": "seeded 0"},
        weights,
        features=("made",) if shape.sees_image else (),
        vocabulary=WORDS,
    )


REFERENCE = CriticShape(context="reference", hidden=(6,), width=5, embedding=4)
BOTH = CriticShape(context="both", hidden=(6,), width=5, embedding=4, image=3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoint(REFERENCE).save(tmp_path / "critic")
    return tmp_path / "critic"


def alone(critic: Critic, candidate: str, reference: str) -> float:
    """One pair, step by step: numbers, states, shares, logits."""
    states = critic.network.read(
        capmeter_rows([critic.vocabulary.numbers(text.split()) for text in (candidate, reference)])
    )
    shares = {
        "candidate": critic.network.shares("candidate", states[:1]),
        "reference": critic.network.shares("reference", states[1:]),
    }
    pairs = {part: np.array([0]) for part in shares}
    return float(human_probability(critic.network.logits(shares, pairs))[0])


def capmeter_rows(rows: list[list[int]]) -> object:
    from capmeter.ragged import Ragged

    return Ragged.from_rows(rows, np.int32)


ROWS = [
    Caption("1", "i", "a dog runs", ("the dog runs", "a dog sleeps on the grass")),
    Caption("2", "i", "a zebra sleeps", ("the dog runs", "a dog sleeps on the grass")),
    Caption("3", "j", "the cat", ("a cat sleeps",)),
]


def test_score_is_the_mean_over_references(folder: Path) -> None:
    critic = load_critic(str(folder))
    results = capmeter.score(CaptionSet.from_captions(ROWS), [f"leic(checkpoint={folder})"])
    found = results[f"leic(checkpoint={folder})"]
    for row in ROWS:
        expected = np.mean([alone(critic, row.candidate, reference) for reference in row.references])
        assert found.items[row.id] == pytest.approx(expected, abs=1e-6)
    assert found.score == pytest.approx(np.mean([found.items[k] for k in "123"]), abs=1e-12)
    assert 0 < found.items["1"] < 1


def test_parts_give_the_numbers_of_the_whole(folder: Path) -> None:
    metric = Leic(checkpoint=str(folder))
    whole = capmeter.score(CaptionSet.from_captions(ROWS), [metric])[str(metric)]
    for row in ROWS:
        single = capmeter.score(CaptionSet.from_captions([row]), [metric])[str(metric)]
        assert single.score == pytest.approx(whole.items[row.id], abs=1e-6)
    turned = [replace(row, references=row.references[::-1]) for row in reversed(ROWS)]
    other = capmeter.score(CaptionSet.from_captions(turned), [metric])[str(metric)]
    assert dict(other.items) == pytest.approx(dict(whole.items), abs=1e-6)


def test_many_captions_are_scored_in_parts_that_share_what_was_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captions = CaptionSet.from_captions(
        Caption(f"{k}", f"{k}", f"a {WORDS[k % 7]} {WORDS[k % 5]}", ("the cat", f"on the {WORDS[k % 8]}"))
        for k in range(70)
    )
    metric = Leic(checkpoint=str(folder))
    whole = capmeter.score(captions, [metric])[str(metric)]
    monkeypatch.setattr(Leic, "ROWS", 9)
    read: list[int] = []
    original = CriticNetwork.read
    monkeypatch.setattr(CriticNetwork, "read", lambda self, rows: read.append(len(rows)) or original(self, rows))
    again = CaptionSet.from_captions(captions)
    parts = capmeter.score(again, [metric])[str(metric)]
    assert dict(parts.items) == pytest.approx(dict(whole.items), abs=1e-6)
    assert read == [len(again.pool)]  # once, not once per part


def test_every_distinct_sentence_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    original = CriticNetwork.read
    monkeypatch.setattr(CriticNetwork, "read", lambda self, rows: read.append(len(rows)) or original(self, rows))
    captions = CaptionSet.from_captions(
        Caption(f"{k}", "i", "a dog runs" if k % 2 else "the cat", ("the cat", "a dog sleeps")) for k in range(40)
    )
    capmeter.score(captions, [Leic(checkpoint=str(folder))])
    assert read == [3]


def test_long_and_empty_captions(folder: Path) -> None:
    """The paper cuts at 15 words; as released, captions without an end token in the window have the zero vector."""
    fourteen, fifteen = "a dog runs " * 4 + "on the", "a dog runs " * 5
    said = [fourteen, fifteen, fifteen + "on the grass", "", "..."]
    rows = [Caption(f"{k}", f"{k}", text, ("the cat sleeps",)) for k, text in enumerate(said)]
    metric, released = Leic(checkpoint=str(folder)), Leic(checkpoint=str(folder), as_released=True)
    captions = CaptionSet.from_captions(rows)
    results = capmeter.score(captions, [metric, released])
    found, other = results[str(metric)], results[str(released)]
    assert found.items["1"] == pytest.approx(found.items["2"], abs=1e-9)  # cut at 15 words
    assert found.items["0"] != pytest.approx(found.items["1"], abs=1e-3)
    assert (found.items["3"], found.items["4"]) == (0.0, 0.0)
    assert found.notes["cut at 15 words"] == ["2"]
    assert found.notes["empty candidate"] == ["3"] and found.notes["no words in candidate"] == ["4"]
    assert other.items["0"] == pytest.approx(found.items["0"], abs=1e-6)
    assert other.items["1"] == other.items["2"] == other.items["3"] > 0
    assert other.notes["15 words or more: zero vector"] == ["1", "2"]
    states = captions.pool.analyse(SentenceStates(str(folder), True)).states
    zero = [not states[row].any() for row in captions.candidates.tolist()]
    assert zero == [False, True, True, True, False]  # `...` is a word of the released code


def test_as_released_takes_one_random_reference_per_image(folder: Path) -> None:
    references = ("the dog runs", "a cat", "the grass", "on the grass a dog", "sleeps")
    rows = [Caption(f"{k}", "same image", text, references) for k, text in enumerate(("a dog", "the cat runs"))]
    critic, drawn = load_critic(str(folder)), set()
    for seed in range(12):
        metric = Leic(checkpoint=str(folder), as_released=True, seed=seed)
        found = capmeter.score(CaptionSet.from_captions(rows), [metric])[str(metric)]
        matches = [
            [abs(found.items[row.id] - alone(critic, row.candidate, each)) < 1e-6 for each in references]
            for row in rows
        ]
        assert matches[0] == matches[1] and sum(matches[0]) == 1  # one reference, the same for the image's captions
        drawn.add(matches[0].index(True))
    assert len(drawn) > 2


def test_image_features_by_image_id(tmp_path: Path) -> None:
    checkpoint(BOTH).save(tmp_path / "both")
    table = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 0.5]])
    np.savez(tmp_path / "features.npz", image_ids=np.array(["j", "i"]), features=table)
    metric = Leic(checkpoint=str(tmp_path / "both"), features=str(tmp_path / "features.npz"))
    results = capmeter.score(CaptionSet.from_captions(ROWS), [metric])[str(metric)]
    network = load_critic(str(tmp_path / "both")).network
    vocabulary = CriticVocabulary(WORDS)
    for row in ROWS:
        states = network.read(
            capmeter_rows([vocabulary.numbers(text.split()) for text in (row.candidate, *row.references)])
        )
        count = len(row.references)
        image = network.project(table[[0 if row.image_id == "j" else 1]])
        shares = {
            "image": network.shares("image", image),
            "reference": network.shares("reference", states[1:]),
            "candidate": network.shares("candidate", states[:1]),
        }
        zeros = np.zeros(count, np.int64)
        logits = network.logits(shares, {"image": zeros, "reference": np.arange(count), "candidate": zeros})
        assert results.items[row.id] == pytest.approx(human_probability(logits).mean(), abs=1e-6)
    assert "features:features.npz@" in str(results.signature)


def test_a_critic_with_the_image_alone_needs_no_references(tmp_path: Path) -> None:
    checkpoint(CriticShape(context="image", hidden=(), width=5, embedding=4, image=3)).save(tmp_path / "image")
    np.savez(tmp_path / "f.npz", image_ids=np.array(["i"]), features=np.ones((1, 3)))
    metric = Leic(checkpoint=str(tmp_path / "image"), features=str(tmp_path / "f.npz"))
    assert metric.needs == frozenset()
    found = capmeter.score(CaptionSet.from_captions([Caption("1", "i", "a dog runs")]), [metric])[str(metric)]
    assert 0 < found.score < 1


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, r"sees the image \(context=both\); give its image features \(made\): leic\(features=FILE.npz\)"),
        ("absent.npz", "absent.npz': No such file"),
        ("wide.npz", "features of width 4, but the critic .* was trained on width 3"),
        ("few.npz", "few.npz': 1 of 2 images have none; the first: j"),
        ("flat.npz", r"all finite; got 1 ids and features of shape \(3,\)"),
        ("nan.npz", "all finite; got 1 ids"),
        ("text.npz", "expected an .npz file with `image_ids`"),
    ],
)
def test_mistakes_with_features_get_a_sentence(tmp_path: Path, features: str | None, message: str) -> None:
    checkpoint(BOTH).save(tmp_path / "both")
    np.savez(tmp_path / "wide.npz", image_ids=np.array(["i", "j"]), features=np.ones((2, 4)))
    np.savez(tmp_path / "few.npz", image_ids=np.array(["i"]), features=np.ones((1, 3)))
    np.savez(tmp_path / "flat.npz", image_ids=np.array(["i"]), features=np.ones(3))
    np.savez(tmp_path / "nan.npz", image_ids=np.array(["i"]), features=np.full((1, 3), np.nan))
    (tmp_path / "text.npz").write_text("no zip")
    metric = Leic(checkpoint=str(tmp_path / "both"), features=None if features is None else str(tmp_path / features))
    with pytest.raises(InputError, match=message):
        capmeter.score(CaptionSet.from_captions(ROWS), [metric])


def test_words_explain_the_score_by_occlusion(folder: Path) -> None:
    """Contributions add up to the logit; of one word, it is the difference to the caption with that word unknown."""
    captions = CaptionSet.from_captions([*ROWS, Caption("4", "j", "cat", ("a cat sleeps", "the dog"))])
    metric = Leic(checkpoint=str(folder))
    critic = load_critic(str(folder))
    found = metric.explain(captions, Context())
    assert [each.candidate for each in found] == [
        ("a", "dog", "runs"),
        ("a", "zebra", "sleeps"),
        ("the", "cat"),
        ("cat",),
    ]
    for row, each in zip(captions, found, strict=True):
        told = each.contributions
        unknown = " ".join("zebra" for _ in row.candidate.split())
        logits = []
        for text in (unknown, row.candidate):
            probability = np.mean([alone(critic, text, reference) for reference in row.references])
            logits.append(np.log(probability / (1 - probability)))
        assert (told.start, told.logit) == pytest.approx(logits, abs=1e-5)
        assert told.start + sum(part for *_, part in told.inputs) == pytest.approx(told.logit, abs=1e-5)
        assert [name for name, *_ in told.inputs] == row.candidate.split()
        assert each.facts["probability"] == pytest.approx(1 / (1 + np.exp(-told.logit)), abs=1e-6)
    zebra = found[1].contributions.inputs[1]
    assert zebra[0] == "zebra" and zebra[3] == pytest.approx(0, abs=1e-6)  # it is unknown anyway


def test_signature_says_what_moves_the_number(folder: Path) -> None:
    metric = Leic(checkpoint=str(folder), as_released=True, seed=3)
    found = str(capmeter.score(CaptionSet.from_captions(ROWS), [metric])[str(metric)].signature)
    for part in (
        "context:reference",
        "fusion:concatenation",
        "vectors:seeded 0",
        checkpoint(REFERENCE).label,
        "seed:3",
    ):
        assert part in found, part


def test_damaged_checkpoints_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="there is no checkpoint"):
        capmeter.score(CaptionSet.from_captions(ROWS), ["leic(checkpoint=nowhere)"])
    made = checkpoint(REFERENCE)
    replace(made, vocabulary=WORDS[:-1]).save(tmp_path / "short")
    with pytest.raises(AssetError, match="11 words but 12 word vectors"):
        load_critic(str(tmp_path / "short"))
    replace(made, parameters={"start": "seeded"}).save(tmp_path / "shapeless")
    with pytest.raises(AssetError, match="this is not a critic of LEIC"):
        load_critic(str(tmp_path / "shapeless"))
    Checkpoint("lceval", {}, {}).save(tmp_path / "other")
    with pytest.raises(AssetError, match="expected a checkpoint of 'leic'"):
        load_critic(str(tmp_path / "other"))
