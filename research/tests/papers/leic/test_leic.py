"""The metric: scores from a critic whose probabilities are known by hand, notes, needs, signature and mistakes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.leic.critic import Critic, CriticStates, load_critic
from capmeter_research.papers.leic.forward import CriticNetwork, human_probability, weight_shapes
from capmeter_research.papers.leic.leic import Leic
from capmeter_research.papers.leic.shape import CriticShape

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.assets import find_checkpoint
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError, InputError
from capmeter.core.ragged import Ragged
from capmeter.evaluation.base import RunContext

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
        features=("synthetic",) if shape.sees_image else (),
        vocabulary=WORDS,
    )


REFERENCE = CriticShape(context="reference", hidden=(6,), width=5, embedding=4)
BOTH = CriticShape(context="both", hidden=(6,), width=5, embedding=4, image=3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoint(REFERENCE).save(tmp_path / "critic")
    return tmp_path / "critic"


def alone(critic: Critic, candidate: str, reference: str, image: np.ndarray | None = None) -> float:
    """One pair, of an image with these features, step by step: numbers, states, shares, logits."""
    rows = [critic.vocabulary.encode(text.split()) for text in (candidate, reference)]
    states = critic.network.encode(Ragged.from_rows(rows, np.int32))
    inputs = {"candidate": states[:1], "reference": states[1:]}
    if image is not None:
        inputs["image"] = critic.network.project_image(image[None])
    terms = {part: critic.network.fusion_terms(part, each) for part, each in inputs.items()}
    pairs = {part: np.array([0]) for part in terms}
    return float(human_probability(critic.network.logits(terms, pairs))[0])


ROWS = [
    Caption("1", "i", "a dog runs", ("the dog runs", "a dog sleeps on the grass")),
    Caption("2", "i", "a zebra sleeps", ("the dog runs", "a dog sleeps on the grass")),
    Caption("3", "j", "the cat", ("a cat sleeps",)),
]


def test_score_is_the_mean_over_references(folder: Path) -> None:
    critic = load_critic(str(folder))
    scored = capmeter.score(CaptionSet.from_captions(ROWS), [f"leic(checkpoint={folder})"])
    results = scored[f"leic(checkpoint={folder})"]
    for row in ROWS:
        expected = np.mean([alone(critic, row.candidate, reference) for reference in row.references])
        assert results.items[row.id] == pytest.approx(expected, abs=1e-6)
    assert results.score == pytest.approx(np.mean([results.items[k] for k in "123"]), abs=1e-12)
    assert 0 < results.items["1"] < 1


def test_parts_score_as_the_set(folder: Path) -> None:
    metric = Leic(checkpoint=str(folder))
    expected = capmeter.score(CaptionSet.from_captions(ROWS), [metric])[str(metric)]
    for row in ROWS:
        single = capmeter.score(CaptionSet.from_captions([row]), [metric])[str(metric)]
        assert single.score == pytest.approx(expected.items[row.id], abs=1e-6)
    turned = [replace(row, references=row.references[::-1]) for row in reversed(ROWS)]
    other = capmeter.score(CaptionSet.from_captions(turned), [metric])[str(metric)]
    assert dict(other.items) == pytest.approx(dict(expected.items), abs=1e-6)


def test_many_captions_are_scored_in_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captions = CaptionSet.from_captions(
        Caption(f"{k}", f"{k}", f"a {WORDS[k % 7]} {WORDS[k % 5]}", ("the cat", f"on the {WORDS[k % 8]}"))
        for k in range(70)
    )
    metric = Leic(checkpoint=str(folder))
    expected = capmeter.score(captions, [metric])[str(metric)]
    monkeypatch.setattr(Leic, "PART_SIZE", 9)
    parts = capmeter.score(CaptionSet.from_captions(captions), [metric])[str(metric)]
    assert dict(parts.items) == pytest.approx(dict(expected.items), abs=1e-6)


def test_every_distinct_sentence_is_encoded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    original = CriticNetwork.encode
    monkeypatch.setattr(CriticNetwork, "encode", lambda self, rows: encoded.append(len(rows)) or original(self, rows))
    captions = CaptionSet.from_captions(
        Caption(f"{k}", "i", "a dog runs" if k % 2 else "the cat", ("the cat", "a dog sleeps")) for k in range(40)
    )
    capmeter.score(captions, [Leic(checkpoint=str(folder))])
    assert encoded == [3]


def test_long_and_empty_captions(folder: Path) -> None:
    """The paper truncates to 15 words; as released, captions without an end token in them have the zero vector."""
    fourteen, fifteen = "a dog runs " * 4 + "on the", "a dog runs " * 5
    texts = [fourteen, fifteen, fifteen + "on the grass", "", "..."]
    rows = [Caption(f"{k}", f"{k}", text, ("the cat sleeps",)) for k, text in enumerate(texts)]
    metric, released = Leic(checkpoint=str(folder)), Leic(checkpoint=str(folder), as_released=True)
    captions = CaptionSet.from_captions(rows)
    scored = capmeter.score(captions, [metric, released])
    results, other = scored[str(metric)], scored[str(released)]
    assert results.items["1"] == pytest.approx(results.items["2"], abs=1e-9)  # truncated to 15 words
    assert results.items["0"] != pytest.approx(results.items["1"], abs=1e-3)
    assert (results.items["3"], results.items["4"]) == (0.0, 0.0)
    assert results.notes["truncated to 15 words"] == ["2"]
    assert results.notes["empty candidate"] == ["3"] and results.notes["no words in candidate"] == ["4"]
    assert other.items["0"] == pytest.approx(results.items["0"], abs=1e-6)
    assert other.items["1"] == other.items["2"] == other.items["3"] > 0
    assert other.notes["15 words or more: zero vector"] == ["1", "2"]
    states = captions.pool.analyse(CriticStates(str(folder), True)).states
    zero = [not states[row].any() for row in captions.candidates.tolist()]
    assert zero == [False, True, True, True, False]  # `...` is a word of the released code


def test_as_released_uses_one_random_reference_per_image(folder: Path) -> None:
    references = ("the dog runs", "a cat", "the grass", "on the grass a dog", "sleeps")
    rows = [Caption(f"{k}", "same image", text, references) for k, text in enumerate(("a dog", "the cat runs"))]
    critic, sampled = load_critic(str(folder)), set()
    for seed in range(12):
        metric = Leic(checkpoint=str(folder), as_released=True, seed=seed)
        results = capmeter.score(CaptionSet.from_captions(rows), [metric])[str(metric)]
        matches = [
            [abs(results.items[row.id] - alone(critic, row.candidate, each)) < 1e-6 for each in references]
            for row in rows
        ]
        assert matches[0] == matches[1] and sum(matches[0]) == 1  # one reference, the same for the image's captions
        sampled.add(matches[0].index(True))
    assert len(sampled) > 2


def test_image_features_by_image_id(tmp_path: Path) -> None:
    checkpoint(BOTH).save(tmp_path / "both")
    table = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 0.5]])
    np.savez(tmp_path / "features.npz", image_ids=np.array(["j", "i"]), features=table)
    metric = Leic(checkpoint=str(tmp_path / "both"), features=str(tmp_path / "features.npz"))
    results = capmeter.score(CaptionSet.from_captions(ROWS), [metric])[str(metric)]
    critic = load_critic(str(tmp_path / "both"))
    for row in ROWS:
        image = table[0 if row.image_id == "j" else 1]
        expected = np.mean([alone(critic, row.candidate, reference, image) for reference in row.references])
        assert results.items[row.id] == pytest.approx(expected, abs=1e-6)
    assert "features:features.npz@" in str(results.signature)


def test_a_critic_with_the_image_alone_needs_no_references(tmp_path: Path) -> None:
    checkpoint(CriticShape(context="image", hidden=(), width=5, embedding=4, image=3)).save(tmp_path / "image")
    np.savez(tmp_path / "f.npz", image_ids=np.array(["i"]), features=np.ones((1, 3)))
    metric = Leic(checkpoint=str(tmp_path / "image"), features=str(tmp_path / "f.npz"))
    assert metric.needs == frozenset()
    results = capmeter.score(CaptionSet.from_captions([Caption("1", "i", "a dog runs")]), [metric])[str(metric)]
    assert 0 < results.score < 1


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, r"sees the image \(context=both\); give its image features \(synthetic\): leic\(features=FILE.npz\)"),
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
    with pytest.raises(InputError, match="'leic' sees no image; leave features=/dev/zero out"):
        capmeter.score(CaptionSet.from_captions(ROWS), [Leic(features="/dev/zero")])


def test_words_explain_the_score_by_occlusion(folder: Path) -> None:
    """Contributions add up to the logit; of one word, it is the difference to the caption with that word unknown."""
    captions = CaptionSet.from_captions([*ROWS, Caption("4", "j", "cat", ("a cat sleeps", "the dog"))])
    metric = Leic(checkpoint=str(folder))
    critic = load_critic(str(folder))
    results = metric.explain(captions, RunContext())
    assert [each.candidate for each in results] == [
        ("a", "dog", "runs"),
        ("a", "zebra", "sleeps"),
        ("the", "cat"),
        ("cat",),
    ]
    for row, each in zip(captions, results, strict=True):
        contributions = each.contributions
        unknown = " ".join("zebra" for _ in row.candidate.split())
        logits = []
        for text in (unknown, row.candidate):
            probability = np.mean([alone(critic, text, reference) for reference in row.references])
            logits.append(np.log(probability / (1 - probability)))
        assert (contributions.start, contributions.logit) == pytest.approx(logits, abs=1e-5)
        assert contributions.start + sum(part for *_, part in contributions.inputs) == pytest.approx(
            contributions.logit, abs=1e-5
        )
        assert [name for name, *_ in contributions.inputs] == row.candidate.split()
        assert each.facts["probability"] == pytest.approx(1 / (1 + np.exp(-contributions.logit)), abs=1e-6)
    zebra = results[1].contributions.inputs[1]
    assert zebra[0] == "zebra" and zebra[3] == pytest.approx(0, abs=1e-6)  # it is unknown anyway


def test_signature_says_what_moves_the_number(folder: Path) -> None:
    metric = Leic(checkpoint=str(folder), as_released=True, seed=3)
    results = str(capmeter.score(CaptionSet.from_captions(ROWS), [metric])[str(metric)].signature)
    for part in (
        "context:reference",
        "fusion:concatenation",
        "vectors:seeded 0",
        checkpoint(REFERENCE).label,
        "seed:3",
    ):
        assert part in results, part


def test_damaged_checkpoints_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="there is no checkpoint"):
        capmeter.score(CaptionSet.from_captions(ROWS), ["leic(checkpoint=nowhere)"])
    critic = checkpoint(REFERENCE)
    replace(critic, vocabulary=WORDS[:-1]).save(tmp_path / "short")
    with pytest.raises(AssetError, match="11 words but 12 word vectors"):
        load_critic(str(tmp_path / "short"))
    replace(critic, parameters={"start": "seeded"}).save(tmp_path / "shapeless")
    with pytest.raises(AssetError, match="not that of a critic of LEIC"):
        load_critic(str(tmp_path / "shapeless"))
    for steps in (1.5, True, 10**300):
        damaged = {"shape": {**REFERENCE.to_dict(), "steps": steps}, "start": "seeded"}
        replace(critic, parameters=damaged).save(tmp_path / "steps")
        with pytest.raises(AssetError, match="LSTM steps"):
            load_critic(str(tmp_path / "steps"))
    Checkpoint("lceval", {}, {}).save(tmp_path / "other")
    with pytest.raises(AssetError, match="expected a checkpoint of 'leic'"):
        load_critic(str(tmp_path / "other"))


# The critic that ships: it scores offline, and it prefers captions that fit the reference.


PEOPLE = [
    ("a man rides a bicycle down the street", "a man on a bike in the road"),
    ("two dogs play with a ball in the grass", "two dogs run after a ball on the lawn"),
    ("a woman in a red dress sings on a stage", "a singer in a red dress performs on stage"),
    ("children build a castle on the beach", "kids play in the sand at the beach"),
    ("a group of people sit at a table and eat", "several people are eating at a long table"),
    ("a boy jumps into a swimming pool", "a young boy is jumping into the pool"),
]


def test_it_prefers_captions_that_fit_the_reference() -> None:
    rows = [
        Caption(f"{k}/{other}", f"{k}", candidate, (reference,))
        for k, (_, reference) in enumerate(PEOPLE)
        for other, (candidate, _) in enumerate(PEOPLE)
    ]
    scores = capmeter.score(CaptionSet.from_captions(rows), ["leic"])["leic"]
    table = np.array(list(scores.items.values())).reshape(6, 6)
    assert (table > 0).all() and (table < 1).all()
    above = table.diagonal()[:, None] > table
    assert above[~np.eye(6, dtype=bool)].mean() > 0.65
    assert "weights:leic@" in str(scores.signature) and "context:reference" in str(scores.signature)


def test_it_is_small_and_says_what_it_was_trained_on() -> None:
    folder = find_checkpoint("leic")
    assert folder is not None
    assert sum(file.stat().st_size for file in folder.iterdir()) < 10_000_000
    assert load_critic("leic").shape.context == "reference"
    assert "flickr30k" in Path(folder, "README.md").read_text("utf-8")
