"""The CLIP of synthetic scenes: its examples, one step of learning, the folder it leaves, its evaluation by CLIPScore.

The package is installed for real, into a folder that only the tests see which need its entry points.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from support.command_line import capmeter as run

import capmeter
from capmeter.core.settings import Settings

torch = pytest.importorskip("torch", reason="needs the vision extra")
transformers = pytest.importorskip("transformers", reason="needs the vision extra")
pytest.importorskip("PIL", reason="needs the vision extra")

pytest.importorskip("setuptools", reason="the example's build backend is not installed")

sys.path.insert(0, str(Path(__file__).parent))

from capmeter_research.synthetic_scenes.encoder.encoder import KIND, WorldEncoder, weights_of  # noqa: E402
from capmeter_research.synthetic_scenes.encoder.network import WorldNetwork, WorldShape  # noqa: E402
from capmeter_research.synthetic_scenes.scenes.captions import true_captions  # noqa: E402
from capmeter_research.synthetic_scenes.scenes.vocabulary import KINDS as THINGS  # noqa: E402
from capmeter_research.synthetic_scenes.scenes.world import World  # noqa: E402
from scene_clip.command import clip_shares  # noqa: E402
from scene_clip.examples import END, ERROR_KINDS, LENGTH, START, draw_examples, numbers_of, vocabulary  # noqa: E402
from scene_clip.network import WorldClip, register  # noqa: E402
from scene_clip.training import CARD, WorldClipLearner, WorldClipRecipe, clip_config, train_world_clip  # noqa: E402

from capmeter.core.checkpoints import Checkpoint  # noqa: E402

SMALL = {"width": 64, "layers": 1, "slot": 8, "batch": 8}


def test_examples_are_what_the_world_knows() -> None:
    result = draw_examples("train", 6, 2, seed=3)
    assert result.pixels.shape == (6, 96, 96, 3) and result.true.shape == (6, 2, LENGTH)
    names = vocabulary()
    words = {number: word for word, number in names.items()}
    world = World(split="train", size=6, seed=3)
    first = [words[number] for number in result.true[0, 0].tolist()]
    assert first[:4] == [START, "a", "photo", "depicts"] and END in first
    text = true_captions(world[0], 3, 2)[0].text
    assert " ".join(first[4 : first.index(END)]) == text
    assert (result.true[..., 0] == names[START]).all() and not (result.true == names["<unknown>"]).any()
    mask = result.wrong[..., 0] >= 0
    assert mask.any() and mask.shape == (6, 2, len(ERROR_KINDS))
    for row, k, kind in np.argwhere(mask).tolist():
        assert not np.array_equal(result.wrong[row, k, kind], result.true[row, k])
    assert np.array_equal(result.pixels[0], np.asarray(world[0].render().convert("RGB")))
    again = draw_examples("train", 6, 2, seed=3)
    assert again.digest == result.digest != draw_examples("train", 6, 2, seed=4).digest


def test_an_unknown_word_and_a_long_sentence() -> None:
    names = vocabulary()
    numbers = numbers_of("a xylophone " + "dog " * 60, names)
    assert len(numbers) == LENGTH and names["<unknown>"] in numbers and numbers[-1] == names[END]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder into which pip installed the package."""
    source, target = tmp_path_factory.mktemp("source") / "copy", str(tmp_path_factory.mktemp("installed"))
    shutil.copytree(Path(__file__).parent, source, ignore=shutil.ignore_patterns("test_*"))
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", target]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True, capture_output=True)
    return target


@pytest.fixture
def installed(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's entry points are found."""
    monkeypatch.syspath_prepend(target)


@pytest.fixture(scope="module")
def seeing() -> WorldEncoder:
    """A world encoder with random weights."""
    torch.manual_seed(0)
    shape = WorldShape(len(THINGS), width=16, slot=8, described=8, region=16)
    return WorldEncoder(Checkpoint(KIND, {"shape": asdict(shape)}, weights_of(WorldNetwork(shape))))


@pytest.fixture(scope="module")
def trained(seeing: WorldEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model after two epochs on a few pictures."""
    folder = tmp_path_factory.mktemp("clip")
    recipe = WorldClipRecipe(epochs=2, pictures=32, held_out=8, **SMALL)
    train, held_out = draw_examples("train", 32, 4, 0), draw_examples("dev", 8, 1, 0)
    outcome = train_world_clip(train, held_out, recipe, seeing, folder)
    assert set(outcome.scores) >= {"right above wrong", "falls with another picture"}
    first, last = (line["losses"] for line in (outcome.history[0], outcome.history[-1]))
    assert sum(last.values()) < sum(first.values())
    return folder


@pytest.mark.usefixtures("installed")
def test_the_folder_is_a_clip_that_clipscore_reads(seeing: WorldEncoder, trained: Path) -> None:
    from capmeter.encoders import find_joint_encoder
    from capmeter.encoders.joint.encoder import load_joint_encoder

    encoder = load_joint_encoder(find_joint_encoder(str(trained)), Settings(device="cpu", cache=None))
    names = vocabulary()
    pieces = encoder.pieces(["A photo depicts a red dog"])
    assert pieces[0].tolist() == [each for each in numbers_of("a red dog", names) if each != 0] + [0]
    card = json.loads((trained / CARD).read_text())
    assert card["recipe"]["pictures"] == 32 and card["licence"] == "Apache-2.0" and len(card["data"]) == 64
    register()
    local = transformers.AutoModel.from_pretrained(str(trained)).eval()
    assert isinstance(local, transformers.CLIPModel)
    world = World(split="dev", size=3)
    example = draw_examples("dev", 3, 1, 0)
    learner = WorldClipLearner(example, example, WorldClipRecipe(pictures=3, held_out=3, **SMALL), seeing, "cpu")
    learner.module.load_state_dict(local.state_dict())
    with torch.no_grad():
        expected = learner.image_features(torch.from_numpy(seeing.pictures(list(example.pixels)))).numpy()
    features = encoder.image_features(["00" * 32, "11" * 32, "22" * 32], lambda k: np.asarray(world[k].render()))
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    assert np.abs(unit - expected).max() < 1e-5  # what was trained is what the metric computes


@pytest.mark.usefixtures("installed")
def test_the_evaluation_is_clipscore_on_held_out_pictures(trained: Path) -> None:
    world = World(split="test", size=6)
    shares = clip_shares(str(trained), world, Settings(device="cpu", cache=None))
    assert all(0 <= share <= 1 for share in shares.values())
    assert shares["falls with another picture"] * 6 == pytest.approx(round(shares["falls with another picture"] * 6))
    kinds = [kind for kind in ERROR_KINDS if kind in shares]
    assert len(kinds) >= 4


@pytest.mark.usefixtures("installed")
def test_a_head_trains_on_the_made_world(trained: Path, tmp_path: Path) -> None:
    added = {"scene-clip": "scene_clip.command", "train": "capmeter_research.cli.train"}
    assert run("scene-clip", "--help", added=added).returncode == 0
    ran = run(
        *("train", "regressor", "--scenes", "12", "-e", trained, "-o", tmp_path / "head", "--epochs", "3"),
        *("--device", "cpu", "--format", "json"),
        added=added,
    )
    assert ran.returncode == 0, ran.stderr
    assert "tau-c" in json.loads(ran.stdout)["held_out"]
    name = f'regressor(checkpoint="{tmp_path / "head"}")'
    world = World(split="dev", size=2)
    for scene in world:
        scene.render().save(tmp_path / f"{scene.id}.png")
    result = capmeter.score(world.captions(str(tmp_path)), [name], settings=Settings(device="cpu", cache=None))[name]
    assert 0 < result.score < 1


def test_a_sentences_feature_does_not_know_its_padding(seeing: WorldEncoder) -> None:
    names = vocabulary()
    torch.manual_seed(1)
    model = WorldClip(clip_config(WorldClipRecipe(**SMALL), seeing.shape)).eval()
    texts = ["a red dog", "two small cats to the left of a striped ball at night"]
    rows = torch.tensor([numbers_of(text, names) for text in texts])
    with torch.no_grad():
        together = model.get_text_features(input_ids=rows).pooler_output
        for row, alone in zip(rows, together, strict=True):
            short = row[: int((row != 0).sum()) + 1]
            assert torch.allclose(model.get_text_features(input_ids=short[None]).pooler_output[0], alone, atol=1e-6)


def test_words_add_to_the_slots_that_they_speak_of(seeing: WorldEncoder) -> None:
    torch.manual_seed(2)
    model = WorldClip(clip_config(WorldClipRecipe(**SMALL), seeing.shape)).eval()
    ids = torch.tensor([numbers_of("a red dog", vocabulary())])
    with torch.no_grad():
        output = model.text_model(input_ids=ids)
        states = output.last_hidden_state[0, : int((ids != 0).sum()) + 1]
        about, message = model.text_model.about, model.text_model.said
        for k, result in enumerate(output.pooler_output.view(-1, SMALL["slot"])):
            weights = [max(0.0, float(about.weight[k] @ state + about.bias[k])) for state in states]
            assert any(weights) or not result.any()
            expected = sum(weight * message(state) for weight, state in zip(weights, states, strict=True))
            assert torch.allclose(result, torch.as_tensor(expected), atol=1e-5)
