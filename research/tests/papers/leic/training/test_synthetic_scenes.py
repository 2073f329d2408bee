"""The study on the made world: a metric that knows the truth finds every wrong content, one that knows nothing none;
the critic that ships finds most in scenes that it has never seen.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import capmeter_research
import numpy as np
import pytest
from capmeter_research.papers.leic.training.recipe import CriticRecipe
from capmeter_research.papers.leic.training.synthetic_scenes import (
    TAU,
    contexts_on_world,
    critic_on_world,
    world_images,
    world_shares,
    write_features,
)
from capmeter_research.synthetic_scenes.evaluation import SWAPPED
from capmeter_research.synthetic_scenes.scenes import World, true_captions
from capmeter_research.synthetic_scenes.scenes.errors import CONTENT_ERRORS, ERRORS
from capmeter_research.synthetic_scenes.scenes.vocabulary import GENERAL

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext

WORLD = World(split="test", size=12)
KINDS = ("colour", "count", "relation", "object", "hallucinated", "disfluency")
CARD = Path(capmeter_research.__file__).parent / "papers/leic/weights/leic-world" / "README.md"


@dataclass(frozen=True, kw_only=True)
class Truth(MeanMetric):
    NAME: ClassVar[str] = "truth"
    SUMMARY: ClassVar[str] = "the share of facts that hold, or nothing"
    blind: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return ("score",)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        return Measurement(np.array([[0.5 if self.blind else (each.human or (0.0,))[0]] for each in part]))


def test_a_metric_that_knows_the_truth_finds_all_wrong_contents() -> None:
    result = world_shares(Truth(), WORLD)
    assert all(result.found[kind] == 100 for kind in CONTENT_ERRORS if kind in result.found)
    assert result.found["disfluency"] == 50 and result.found[TAU] == pytest.approx(1) and SWAPPED not in result.found


def test_a_metric_that_knows_nothing_is_at_chance() -> None:
    result = world_shares(Truth(blind=True), WORLD, name="blind", picture=True)
    found = dict(result.found)
    assert found.pop(SWAPPED) == found.pop(TAU) == 0 and set(found.values()) == {50} and result.name == "blind"


def test_scenes_as_images() -> None:
    images = world_images(WORLD)
    assert len(images) == 12 and all(len(image.human) == 5 and image.machine for image in images)
    for image, scene in zip(images, WORLD, strict=True):
        truths = [caption.text for caption in true_captions(scene, WORLD.seed, 5)]
        assert list(image.human) == truths
        for inputs in image.machine:
            assert inputs.caption != truths[inputs.of] and inputs.system in ERRORS and inputs.system != "missing"
            if inputs.system == "colour":  # one word differs
                pairs = zip(inputs.caption.split(), truths[inputs.of].split(), strict=True)
                assert sum(one != other for one, other in pairs) in (1, 2)
    assert {inputs.of for image in images for inputs in image.machine} == set(range(5))


def test_parts_of_captions_say_one_thing_or_one_relation() -> None:
    plain, images = {image.id: image for image in world_images(WORLD)}, world_images(WORLD, parts=3)
    times = Counter(image.id for image in images)
    assert set(times) == set(plain) and set(times.values()) <= {3, 5, 6, 8} and 8 in times.values()
    scenes, relations = {scene.id: scene for scene in WORLD}, 0
    for image in images:
        if image.human == plain[image.id].human:
            continue
        groups = scenes[image.id].groups
        nouns = {form for group in groups for noun in group.look.of_kind.nouns for form in noun}
        nouns |= {form for group in groups for noun in GENERAL.get(group.look.of_kind.category, ()) for form in noun}
        kinds = {inputs.system for inputs in image.machine}
        named = {len(nouns & set(text.split())) for text in image.human}
        assert 2 <= len(image.human) <= 3
        if "relation" in kinds:
            counts = Counter((inputs.caption, inputs.of) for inputs in image.machine if inputs.system == "relation")
            assert named == {2} and kinds <= {"relation", "count", "object"} and set(counts.values()) == {4}
            relations += len(counts)
        else:
            assert named <= {1, 2} and kinds <= {"colour", "count", "object", "texture", "size"}
    assert relations > 5


def test_worlds_must_differ_and_pictures_need_features(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the neural extra")
    recipe = CriticRecipe(context="reference")
    with pytest.raises(InputError, match="train and judge on different splits"):
        contexts_on_world(WORLD, WORLD, recipe, ["none"], tmp_path)
    with pytest.raises(InputError, match="context=both needs the features"):
        contexts_on_world(World(size=3), WORLD, recipe, ["both"], tmp_path)


def told(folder: Path, scenes: int, seed: int = 0) -> dict[str, float]:
    pytest.importorskip("torch")
    pytest.importorskip("PIL")
    world = World(split="test", size=scenes, seed=seed)
    return dict(critic_on_world("leic-world", world, write_features((world,), "world-reader", folder)).found)


def test_true_captions_score_above_wrong_ones(tmp_path: Path) -> None:
    result = told(tmp_path, 60, seed=5)
    assert not {kind: result[kind] for kind in KINDS if result[kind] < 85}
    assert result[SWAPPED] > 90


@pytest.mark.slow
def test_the_card_says_what_the_weights_do(tmp_path: Path) -> None:
    result = told(tmp_path, 1000)
    head, _, said = (line.strip("| ").split(" | ") for line in CARD.read_text("utf-8").splitlines() if line[:1] == "|")
    result["another picture"] = result[SWAPPED]
    assert [float(each) for each in said] == pytest.approx([result[kind] for kind in head], abs=0.15)


def test_the_card_names_the_weights() -> None:
    said = re.search(r"SHA-256 of `weights\.safetensors`:\s+`([0-9a-f]{64})`", CARD.read_text("utf-8"))
    weights = (CARD.parent / "weights.safetensors").read_bytes()
    assert said is not None and said.group(1) == hashlib.sha256(weights).hexdigest()
