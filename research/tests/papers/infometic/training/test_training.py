"""Regression heads: what they read, learning from ratings, the metric that is rebuilt, and its checks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.infometic.head import RegressionHead, joint_inputs
from capmeter_research.papers.infometic.inputs import InputSpec
from support.command_line import capmeter as run
from support.vision_models import pictures, tiny_clip

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError, InputError
from capmeter.core.settings import Settings
from capmeter.encoders.handle import ENCODERS

pytest.importorskip("torch", reason="needs the vision extra")
pytest.importorskip("transformers", reason="needs the vision extra")
pytest.importorskip("PIL", reason="needs the vision extra")

import torch
from capmeter_research.papers.infometic.training.examples import read_examples, read_rated
from capmeter_research.papers.infometic.training.recipe import RegressorRecipe
from capmeter_research.papers.infometic.training.training import RegressorLearner, TunedLearner, train_regressor
from safetensors.numpy import load_file

ON_CPU = Settings(device="cpu", precision="float32", cache=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, pictures, and ratings that follow from what a caption says."""
    folder = tmp_path_factory.mktemp("regressor")
    tiny_clip(folder / "clip")
    shown = pictures(folder, [(32, 32)] * 40)
    rows = [
        {
            "id": f"{k}/{n}",
            "image_id": str(k),
            "image": name,
            "candidate": text,
            "references": ["a dog", "the dog runs"],
            "human": [rating, rating],
        }
        for k, name in enumerate(shown)
        for n, (text, rating) in enumerate((("a dog runs", 5), ("two cats", 1), ("dog and cat", 3)))
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_inputs_by_hand() -> None:
    v, c, r = np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]]), np.array([[0.0, 4.0]])
    assert joint_inputs(v, c).tolist() == [[1, 1, 2, 3, -1, 2, 3, 3, -2]]
    assert joint_inputs(v, c, r).tolist() == [[1, -4, 1, 2, 3, -1, 2, 3, 3, -2, 3, 5, 0, -4]]
    texts = np.array([[2.0]]), np.array([[5.0]])
    assert joint_inputs(v, c, r, texts).tolist() == [[1, -4, 10, 1, 2, 3, -1, 2, 3, 3, -2, 3, 5, 0, -4, 5, 2, 3, 10]]


def test_a_head_by_hand() -> None:
    numbers = [np.array(each, np.float32) for each in ([[1.0], [2.0]], [0.5], [[3.0]], [-1.0], [0.0, 0.0], [1.0, 1.0])]
    first, second, mean, deviation = (numbers[0], numbers[1]), (numbers[2], numbers[3]), numbers[4], numbers[5]
    head = RegressionHead((first, second), mean, deviation, np.array([4.0], np.float32))
    logit = 3 * np.tanh(0.1 + 2 * 0.2 + 0.5) - 1 + 4 * 0.1
    assert head.scores(np.array([[0.1, 0.2]]))[0] == pytest.approx(1 / (1 + np.exp(-logit)))
    again = RegressionHead.from_weights(head.to_weights())
    assert again.scores(np.array([[0.1, 0.2]]))[0] == head.scores(np.array([[0.1, 0.2]]))[0]
    for name, shape in (("mean", (3,)), ("w-1", (2, 1)), ("deviation", (2,)), ("cosines", (3,))):
        wrong = {name: np.zeros(shape, np.float32)}
        with pytest.raises(AssetError, match="do not form a head"):
            RegressionHead.from_weights({**head.to_weights(), **wrong})
    with pytest.raises(AssetError, match="lacks the arrays b-0"):
        RegressionHead.from_weights({name: each for name, each in head.to_weights().items() if name != "b-0"})


def test_ratings_are_learned_and_the_metric_is_rebuilt(folder: Path) -> None:
    ran = run(
        *("train", "regressor", folder / "rows.jsonl", "-o", folder / "head", "-e", folder / "clip"),
        *("--epochs", "150", "--device", "cpu", "--format", "json"),
    )
    assert ran.returncode == 0, ran.stderr
    held_out = json.loads(ran.stdout)["held_out"]
    assert held_out["tau-c"] > 0.95 and held_out["error"] < 0.01
    checkpoint = Checkpoint.read(folder / "head", "regressor")
    assert checkpoint.parameters["shape"] == "polos" and checkpoint.parameters["high"] == 5.0
    assert checkpoint.data[0].name == "rows.jsonl" and checkpoint.data[0].examples == 120
    captions = capmeter.load(folder / "rows.jsonl")
    name = f'regressor(checkpoint="{folder / "head"}")'
    result = capmeter.score(captions, [name], settings=ON_CPU)[name]
    rated = {5.0: [], 3.0: [], 1.0: []}  # type: ignore[var-annotated]
    for caption in captions:
        rated[(caption.human or (0.0,))[0]].append(result.items[caption.id])
    assert min(rated[5.0]) > max(rated[3.0]) and min(rated[3.0]) > max(rated[1.0])
    head, read = (
        RegressionHead.from_weights(checkpoint.weights),
        InputSpec("polos", str(folder / "clip")).compute(captions, ON_CPU),
    )
    scores = head.scores(read.values)
    assert read.rows.tolist() == [row for row in range(120) for _ in range(2)]  # a row for each reference
    assert list(result.items.values()) == pytest.approx(scores.reshape(-1, 2).max(axis=1))
    assert checkpoint.label in result.signature and "preprocessing:" in result.signature


def test_a_pair_needs_no_references_and_other_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    captions = capmeter.load(folder / "rows.jsonl")
    bare = CaptionSet.from_captions(
        Caption(each.id, each.image_id, each.candidate, (), each.image, None, each.human) for each in captions
    )
    inputs = InputSpec("pair", str(folder / "clip"))
    outcome = train_regressor(bare, inputs, RegressorRecipe(epochs=150), tmp_path / "pair", settings=ON_CPU)
    assert outcome.scores["tau-c"] > 0.9
    name = f'regressor(checkpoint="{tmp_path / "pair"}")'
    items = list(capmeter.score(bare, [name], settings=ON_CPU)[name].items.values())
    assert len(set(np.round(items, 6).tolist())) >= 3
    (tmp_path / "other").mkdir()
    tiny_clip(tmp_path / "other", seed=5)
    with pytest.raises(AssetError, match="was trained on another encoder"):
        other = f'regressor(checkpoint="{tmp_path / "pair"}",encoder="{tmp_path / "other"}")'
        capmeter.score(bare, [other], settings=ON_CPU)
    with pytest.raises(InputError, match="have no references, which the shape polos needs"):
        train_regressor(
            bare, InputSpec("polos", str(folder / "clip")), RegressorRecipe(), tmp_path / "x", settings=ON_CPU
        )


def test_rows_that_teach_nothing_are_refused(folder: Path, tmp_path: Path) -> None:
    captions = list(capmeter.load(folder / "rows.jsonl"))
    inputs = InputSpec("polos", str(folder / "clip"))

    def read(rows: list[Caption]) -> None:
        read_examples(CaptionSet.from_captions(rows), inputs, share=0.1, seed=0, settings=ON_CPU)

    bare = Caption("x", "x", "a", ("b",), captions[0].image)
    with pytest.raises(InputError, match=r"1 caption has no human score \(the first: x\)"):
        read([*captions, bare])
    with pytest.raises(InputError, match="name no picture"):
        read([*captions, Caption("x", "x", "a", ("b",), None, None, (1.0,))])
    same = [Caption(c.id, c.image_id, c.candidate, c.references, c.image, None, (2.0,)) for c in captions]
    with pytest.raises(InputError, match="all human scores are 2"):
        read(same)
    with pytest.raises(InputError, match="too few to hold some out"):
        read(captions[:3])


def test_the_command_wants_rows_or_a_world(folder: Path, tmp_path: Path) -> None:
    assert run("train", "regressor", "-o", tmp_path / "a").returncode == 2
    ran = run("train", "regressor", folder / "rows.jsonl", "--scenes", "5", "-o", tmp_path / "a")
    assert ran.returncode == 2


def test_a_tuned_encoder_learns_what_a_frozen_one_cannot_and_lies_in_the_checkpoint(
    folder: Path, tmp_path: Path
) -> None:
    """The first steps begin from the frozen scores; in the end the encoder itself tells the captions apart."""
    captions = capmeter.load(folder / "rows.jsonl")
    inputs, recipe = InputSpec("polos", str(folder / "clip")), RegressorRecipe(epochs=30, tune=0.5)
    examples = read_examples(captions, inputs, share=0.1, seed=0, settings=ON_CPU)
    tuned = TunedLearner(examples, recipe, "cpu", captions=captions, inputs=inputs, settings=ON_CPU)
    frozen = RegressorLearner(examples, recipe, "cpu")
    for learner in (tuned, frozen):
        learner.module.eval()
    some = torch.arange(0, 120, 7)
    with torch.no_grad():
        assert torch.allclose(tuned._scores(some), frozen._scores(some), atol=1e-5)

    shown = [np.unique(captions.image_indices[batch]) for batch in tuned.batches(0, np.random.default_rng(0))]
    assert sum(map(len, shown)) <= len(set(captions.image_indices[examples.rated.trained].tolist())) + len(shown) - 1
    assert sorted(np.concatenate(tuned.batches(1, np.random.default_rng(1)))) == examples.rated.trained.tolist()

    before = (folder / "clip" / "model.safetensors").read_bytes()
    ran = run(
        *("train", "regressor", folder / "rows.jsonl", "-o", folder / "tuned", "-e", folder / "clip"),
        *("--epochs", "30", "--tune", "0.5", "--device", "cpu", "--format", "json"),
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["held_out"]["tau-c"] > 0.95
    assert (folder / "clip" / "model.safetensors").read_bytes() == before
    was, now = (load_file(folder / each / "model.safetensors") for each in ("clip", "tuned/encoder"))
    assert was.keys() == now.keys()
    moved = [name for name in was if np.abs(was[name].astype(np.float64) - now[name]).max() > 1e-4]
    assert len(moved) > len(was) / 2

    (folder / "tuned").rename(tmp_path / "moved")  # the checkpoint finds its encoder wherever it lies
    name = f'regressor(checkpoint="{tmp_path / "moved"}")'
    result = capmeter.score(captions, [name], settings=ON_CPU)[name]
    head = RegressionHead.from_weights(Checkpoint.read(tmp_path / "moved", "regressor").weights)
    read = InputSpec("polos", str(tmp_path / "moved" / "encoder")).compute(captions, ON_CPU)
    assert list(result.items.values()) == pytest.approx(head.scores(read.values).reshape(-1, 2).max(axis=1))
    rated = {float(caption.human[0]): result.items[caption.id] for caption in captions if caption.human}
    assert rated[5.0] > rated[3.0] > rated[1.0]


def test_tuning_is_not_for_infometic(folder: Path) -> None:
    ran = run(
        *("train", "regressor", folder / "rows.jsonl", "-o", folder / "no", "-e", folder / "clip"),
        *("--shape", "infometic", "--tune", "0.1"),
    )
    assert ran.returncode == 1 and "tuning the encoder is for the shapes polos and pair" in ran.stderr


def test_ratings_without_pictures_train_a_head_on_the_texts(folder: Path, tmp_path: Path) -> None:
    if ENCODERS["minilm"].find() is None:
        pytest.skip("minilm is not installed")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        del row["image"]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:24]))  # of 8 images
    command = ("train", "regressor", tmp_path / "rows.jsonl", "--device", "cpu")
    ran = run(*command, "-o", tmp_path / "head", "--epochs", "150", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    assert "no caption names a picture: the head reads the texts alone" in ran.stderr
    assert "18 captions are trained on; 6 captions of 2 of 8 images are held out" in ran.stderr
    assert json.loads(ran.stdout)["held_out"]["tau-c"] > 0.9
    captions = capmeter.load(tmp_path / "rows.jsonl")
    name = f'regressor(checkpoint="{tmp_path / "head"}")'
    scored = capmeter.score(captions, [name], settings=ON_CPU)[name]
    assert scored.items["0/0"] > scored.items["0/2"] > scored.items["0/1"]
    assert Checkpoint.read(tmp_path / "head", "regressor").label in scored.signature
    ran = run(*command, "-o", tmp_path / "x", "--tune", "0.5")
    assert ran.returncode != 0 and "text reads it as it is" in ran.stderr
    ran = run(*command, "-o", tmp_path / "x", "--shape", "polos")
    assert ran.returncode != 0 and "or choose the shape text" in ran.stderr


@pytest.mark.parametrize("seed", range(4))
def test_held_out_images_have_different_scores_where_nearly_all_are_equal(seed: int) -> None:
    """One caption in five is wrong: more images are held out until their scores differ, at most half."""
    rows = [Caption(str(k), f"image {k}", "a dog", ("a dog",), human=(float(k % 5 > 0),)) for k in range(50)]
    rated = read_rated(CaptionSet.from_captions(rows), InputSpec("text", "minilm"), share=0.02, seed=seed)
    held_out = rated.held_out.tolist()
    assert 2 <= len(held_out) <= 25 and {k % 5 > 0 for k in held_out} == {False, True}
