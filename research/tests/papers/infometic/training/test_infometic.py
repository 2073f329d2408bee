"""Heads of InfoMetIC's shape: labels by hand, wrong words that are learned and named, the command on the made world."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.infometic.training.labels import Labels, labels_of_world, region_labels, word_labels
from capmeter_research.synthetic_scenes.scenes.world import World
from support.command_line import capmeter as run
from support.vision_models import tiny_clip

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.report.explain import explain

torch = pytest.importorskip("torch", reason="needs the vision extra")
pytest.importorskip("transformers", reason="needs the vision extra")
Image = pytest.importorskip("PIL.Image", reason="needs the vision extra")

from capmeter_research.papers.infometic.inputs import InputSpec  # noqa: E402
from capmeter_research.papers.infometic.training.recipe import InfoMetICRecipe  # noqa: E402
from capmeter_research.papers.infometic.training.training import shares_of_words, train_regressor  # noqa: E402

pytestmark = pytest.mark.neural
ON_CPU = Settings(device="cpu", precision="float32", cache=None)
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 220)}


def test_labels_of_words_by_hand() -> None:
    right = "there is a red dog left of two cats"
    assert word_labels("there is a blue dog left of two cats", right).tolist() == [1, 1, 1, 0, 1, 1, 1, 1, 1]
    assert word_labels("there is a red dog left of one cat", right).tolist() == [1, 1, 1, 1, 1, 1, 1, 0, 0]
    assert word_labels(right + " and a sun", right).tolist() == [1] * 9 + [0, 0, 0]
    assert word_labels("", right).tolist() == []


def test_the_made_world_knows_its_wrong_words() -> None:
    world = World(split="train", size=20)
    expected_names = labels_of_world(world)
    captions = world.captions()
    assert set(expected_names) == set(captions.ids)
    changed = {"colour": 0, "texture": 0}
    for caption in captions:
        words, result = caption.candidate.split(), expected_names[caption.id].words
        if caption.system == "true":
            assert result is not None and result.tolist() == [1.0] * len(words)
        elif caption.system in changed:
            right = captions[caption.id.split("#")[0] + "#true"].candidate.split()
            assert result is not None and len(result) == len(words)
            remaining = [word for word, each in zip(words, result, strict=True) if each]
            assert 1 <= len(words) - len(remaining) <= 4 and set(remaining) <= set(right)
            changed[str(caption.system)] += 1
        elif str(caption.system).startswith("graded") or caption.system in ("other", "disfluency"):
            assert result is None
    assert min(changed.values()) > 0


def test_labels_of_regions_by_hand() -> None:
    scene = World(split="train", size=1)[0]
    kinds = [group.look.kind for group in scene.groups]
    labels = Labels(None, frozenset({kinds[0], "background"}), scene)
    names = (*kinds, "something else", "background")
    expected = [1.0] + [0.0] * (len(kinds) - 1) + [np.nan, 1.0]
    boxes = np.zeros((len(names), 4), np.float32)
    assert region_labels(labels, names, boxes) == pytest.approx(expected, nan_ok=True)
    x0, y0, x1, y1 = scene.groups[0].box
    patches = np.array([[x0, y0, x1, y1], [0.0, 0.0, 0.001, 0.001]], np.float32)
    assert region_labels(labels, (), patches)[0] == 1.0 and np.isnan(region_labels(labels, (), patches)[1])
    assert np.isnan(region_labels(Labels(), names, boxes)).all()


def test_shares_of_words_by_hand() -> None:
    one = (np.array([0.9, 0.1, 0.3]), np.array([1.0, 0.0, 1.0]))
    other = (np.array([0.2, 0.8]), np.array([1.0, 0.0]))
    unknown = (np.array([0.1]), np.array([np.nan]))
    result = shares_of_words([one, other, unknown])
    assert result == {"wrong words found": 0.5, "right words kept": pytest.approx(1 / 3), "worst word is wrong": 0.5}
    assert shares_of_words([unknown]) == {}


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CaptionSet, dict[str, Labels]]:
    """A model, squares of one colour, and captions that name it or another."""
    folder = tmp_path_factory.mktemp("squares")
    tiny_clip(folder / "clip")
    rows, labels = [], {}
    random = np.random.default_rng(0)
    for k in range(45):
        name, shade = list(COLOURS.items())[k % 3]
        noise = random.normal(0, 12, (32, 32, 3))
        Image.fromarray((np.array(shade) + noise).clip(0, 255).astype(np.uint8)).save(folder / f"{k}.png")
        for colour in COLOURS:
            id, right = f"{k}/{colour}", float(colour == name)
            rows.append(Caption(id, str(k), f"a {colour} one", (), str(folder / f"{k}.png"), None, (right,)))
            labels[id] = Labels(np.array([1.0, right, 1.0]))
    return folder, CaptionSet.from_captions(rows), labels


def test_wrong_words_are_learned_and_named(squares: tuple[Path, CaptionSet, dict[str, Labels]], tmp_path: Path) -> None:
    folder, captions, labels = squares
    inputs = InputSpec("infometic", str(folder / "clip"), prefix="")
    recipe = InfoMetICRecipe(epochs=80, width=32, layers=1, dropout=0.0, held_out=0.2)
    outcome = train_regressor(captions, inputs, recipe, tmp_path / "head", labels=labels, settings=ON_CPU)
    assert outcome.scores["wrong words found"] > 0.9 and outcome.scores["right words kept"] > 0.9
    assert outcome.scores["right order"] > 0.9
    name = f'regressor(checkpoint="{tmp_path / "head"}")'
    scores = capmeter.score(captions, [name], settings=ON_CPU)[name]
    right = np.array([human[0] > 0 for human in captions.humans if human])
    assert scores.items.array[right].min() > np.median(scores.items.array[~right])
    assert scores.part_items["wrong words"].array[~right].mean() > 0.9
    (result,) = explain(captions, [name], ids=["0/blue"], settings=ON_CPU)  # picture 0 is red
    (evidence,) = result.evidence.values()
    assert [evidence.candidate[mark.start] for mark in evidence.marks] == ["blue"]
    assert str(evidence.facts["wrong words"]).startswith("blue (0.")
    again = train_regressor(captions, inputs, recipe, tmp_path / "again", labels=labels, settings=ON_CPU)
    assert again.scores == outcome.scores


def test_without_labels_whole_captions_are_learned(
    squares: tuple[Path, CaptionSet, dict[str, Labels]], tmp_path: Path
) -> None:
    folder, captions, _ = squares
    recipe = InfoMetICRecipe(epochs=8, width=32, layers=1, dropout=0.0, held_out=0.2)
    inputs = InputSpec("infometic", str(folder / "clip"), prefix="")
    outcome = train_regressor(captions, inputs, recipe, tmp_path / "head", settings=ON_CPU)
    assert "wrong words found" not in outcome.scores and outcome.scores["right order"] > 0.6
    bare = CaptionSet.from_captions(Caption("a", "0", "a red one", (), captions[captions.ids[0]].image) for _ in "a")
    with pytest.raises(InputError, match="1 caption has no human score"):
        train_regressor(bare, inputs, recipe, tmp_path / "bare", settings=ON_CPU)


def test_the_command_on_the_made_world(tmp_path: Path) -> None:
    tiny_clip(tmp_path / "clip")
    ran = run(
        *("train", "regressor", "--scenes", "12", "-e", tmp_path / "clip", "-o", tmp_path / "head", "--epochs", "2"),
        *("--shape", "infometic", "--device", "cpu", "--format", "json"),
    )
    assert ran.returncode == 0, ran.stderr
    held_out = json.loads(ran.stdout)["held_out"]
    assert {"tau-c", "right order", "wrong words found", "right words kept", "regions right"} <= set(held_out)
    message = run("score", "x", "--metrics", f'regressor(checkpoint="{tmp_path / "head"}")')
    assert message.returncode == 1
