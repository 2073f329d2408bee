"""Critics on synthetic scenes, where the truth of a caption is known: does a critic use its context?

Negatives are true captions with one controlled error. A critic that sees nothing (`context=none`) cannot tell which
colour is right, and should be at chance on wrong contents; one that sees the picture or a reference should find them;
every critic should find sentences that are no sentences.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.core.checkpoints import TrainingData
from capmeter.core.errors import InputError
from capmeter.core.progress import task
from capmeter.evaluation.base import Metric
from capmeter.stats.kendall import TauB
from capmeter_research.common.image_features import FeatureFile, write_feature_file
from capmeter_research.common.study_table import Part, StudyRow
from capmeter_research.papers.leic.critic import load_critic
from capmeter_research.papers.leic.leic import Leic
from capmeter_research.papers.leic.training.examples import CaptionedImage, MachineText
from capmeter_research.papers.leic.training.recipe import WORLD_CAPTIONS, CriticRecipe
from capmeter_research.synthetic_scenes.evaluation import SWAPPED, scene_outcomes
from capmeter_research.synthetic_scenes.scenes import Content, World, WorldCaption, make_errors, true_captions
from capmeter_research.synthetic_scenes.scenes.errors import CONTENT_ERRORS, ERRORS
from capmeter_research.synthetic_scenes.scenes.grammar import realise
from capmeter_research.synthetic_scenes.scenes.scenes import Scene
from capmeter_research.synthetic_scenes.scenes.world import REFERENCES

TAU = "τb with the truth"
PARTS = 6
_AT_ONCE = 64
_PARTED = 6  # captions of which parts are made
_TIMES = (3, 2, 3)  # a scene comes with whole captions, with captions of one thing, and of two
_OF_ALL = (*CONTENT_ERRORS, "colour", "relation", "relation", "hallucinated", "disfluency")  # the hardest more often
_OF_ONE = ("colour", "count", "object", "texture", "size")
_OF_TWO = ("relation",) * 4 + ("count", "object")
_ALONE: dict[str, Any] = {"fusion": "concatenation", "hidden": (512, 128)}  # a product needs two


def world_images(world: World, captions: int = REFERENCES, parts: int = 0) -> list[CaptionedImage]:
    """The scenes: true captions as human ones, and of each caption, as machine captions, every error it can have.

    With `parts` each scene comes several times, also with this many captions that name one object alone, and as many
    that name one relation of two plain objects: from such short captions it is learned soon which words are about what.
    Left out is `missing`: such a caption is true, and says as much as many human ones.

    Args:
        world: the scenes.
        captions: number of true captions of each.
        parts: number of short captions, about one object and about one relation each; 0: none.
    """
    scene_images = []
    for scene in world:
        scene_captions = true_captions(scene, world.seed, captions + (_PARTED if parts else 0))
        rng = np.random.default_rng([world.seed, zlib.crc32(f"errors {scene.id}".encode())])
        full_count, *shorter = _TIMES if parts else (1,)
        scene_images += [_with_errors(scene, scene_captions[:captions], rng, _OF_ALL)] * full_count
        if parts:
            for brief, kinds, times in zip(_brief(scene_captions[captions:]), (_OF_ONE, _OF_TWO), shorter, strict=True):
                brief_captions = [brief[k] for k in rng.permutation(len(brief))[:parts].tolist()]
                if len({each.text for each in brief_captions}) > 1:  # a reference and a candidate
                    scene_images += [_with_errors(scene, brief_captions, rng, kinds)] * times
    return scene_images


def _with_errors(
    scene: Scene, captions: Sequence[WorldCaption], rng: np.random.Generator, error_kinds: Sequence[str]
) -> CaptionedImage:
    """The scene with these captions, and their errors of these kinds, each as often as the kind is named."""
    human_captions = list({each.text: each for each in captions}.values())
    machine_texts = tuple(
        machine_text
        for caption_index, caption in enumerate(human_captions)
        for error_kind, wrong in make_errors(scene, caption, rng).items()
        for machine_text in [MachineText(wrong.text, (), error_kind, of=caption_index)] * error_kinds.count(error_kind)
    )
    return CaptionedImage(scene.id, tuple(each.text for each in human_captions), machine_texts)


def _brief(captions: Sequence[WorldCaption]) -> tuple[list[WorldCaption], list[WorldCaption]]:
    """True captions of one thing, and of two plain things in a relation, that these captions say."""
    single_captions, relation_captions = [], []
    for caption in captions:
        mentions = caption.content.mentions
        single_captions += [_saying(Content((mention,)), caption.style) for mention in mentions]
        plain_mentions = [replace(mention, colour="", texture="", size="") for mention in mentions]
        relation_captions += [
            _saying(Content((plain_mentions[a], plain_mentions[b]), ((0, relation_name, 1),)), caption.style)
            for a, relation_name, b in caption.content.relations
        ]
    return single_captions, relation_captions


def _saying(content: Content, style: tuple[float, ...]) -> WorldCaption:
    return WorldCaption(realise(content, style), content, style)


def world_shares(metric: Metric, world: World, *, name: str = "", picture: bool = False) -> StudyRow:
    """How a metric orders the captions of scenes: the shares of `scene_outcomes`, in percent, and Kendall's τb.

    Equal scores count half. `TAU` is the agreement of all candidates' scores with the share of their facts that hold.

    Args:
        metric: finds pictures by image id.
        world: the scenes.
        name: in the result; default: the metric's text form.
        picture: whether the metric sees the picture.
    """
    captions = world.captions()
    items, outcomes = scene_outcomes(metric, captions, swap=picture)
    truth = np.array([each.human[0] if each.human else 0.0 for each in captions])
    shares = {kind: 100 * float(np.mean(outcomes[kind])) for kind in (*ERRORS, SWAPPED) if kind in outcomes}
    varies = np.ptp(items.array) > 0  # a metric that says the same of everything orders nothing
    return StudyRow(name or str(metric), {**shares, TAU: float(TauB(items.array, truth)()) if varies else 0.0})


def world_part(rows: Sequence[StudyRow], scenes: int) -> Part:
    """The table of several metrics' `world_shares`, of this number of scenes."""
    title = f"true captions scored above wrong ones, % of {scenes:,} held-out scenes (50: chance)"
    columns = dict.fromkeys(column for row in rows for column in row.found if column != TAU)
    return Part(title, (*sorted(columns, key=SWAPPED.__eq__), TAU), tuple(rows))


def contexts_on_world(
    learned: World,
    test_world: World,
    recipe: CriticRecipe,
    contexts: Sequence[str],
    folder: Path,
    *,
    features: FeatureFile | None = None,
    captions: int = WORLD_CAPTIONS,
    device: str = "cpu",
) -> list[StudyRow]:
    """Trains a critic with each context on one set of scenes, and judges it on another split.

    Args:
        learned, test_world: scenes to train and to judge on.
        recipe: of the training.
        contexts: their names.
        folder: of the critics' folders.
        features: of both worlds' pictures; None: no context sees them.
        captions: number of true captions of each scene.
        device: of torch.

    Raises:
        InputError: the worlds share a split, or a context needs features.
    """
    from capmeter_research.papers.leic.training.training import train_critic

    if learned.split == test_world.split:
        raise InputError(f"{learned} and {test_world} may share scenes; train and judge on different splits")
    training_images = world_images(learned, captions, PARTS)
    digest = hashlib.sha256("\n".join(text for image in training_images for text in image.human).encode()).hexdigest()
    results = []
    for context in contexts:
        context_recipe = replace(
            recipe, context=context, **(_ALONE if context == "none" and recipe.fusion == "bilinear" else {})
        )
        if context_recipe.sees_image and features is None:
            raise InputError(f"context={context} needs the features of both worlds' pictures")
        critic_folder = folder / context
        data = (TrainingData(str(learned), digest, len(learned)),)
        train_critic(training_images, (), context_recipe, critic_folder, data=data, features=features, device=device)
        results.append(critic_on_world(str(critic_folder), test_world, features, name=context))
    return results


def critic_on_world(critic: str, test_world: World, features: FeatureFile | None, *, name: str = "") -> StudyRow:
    """How a trained critic orders the captions of scenes.

    Args:
        critic: its name or folder.
        test_world: the scenes.
        features: of their pictures, for a critic that sees them.
        name: in the result; default: the critic's.

    Raises:
        InputError: it sees the picture, and there are no features.
    """
    sees_image = load_critic(critic).shape.sees_image
    if sees_image and features is None:
        raise InputError(f"critic {critic}: it sees the picture; features of the judged pictures are needed")
    metric = Leic(checkpoint=critic, features=features.path if features and sees_image else None)
    return world_shares(metric, test_world, name=name or critic, picture=sees_image)


def write_features(worlds: Sequence[World], reader: str, folder: Path) -> FeatureFile:
    """Draws the pictures of worlds, and writes a reader's features of them to an .npz file.

    Args:
        A file that has all of them is kept: its name ends with the reader's label.
        worlds: the scenes.
        reader: name or folder.
        folder: of the file.
    """
    from capmeter_research.synthetic_scenes.attribute_reader.reader import load_world_reader

    world_reader = load_world_reader(reader)
    feature_path = folder / f"features-{world_reader.label.replace('@', '-')}.npz"
    if feature_path.exists():
        feature_file = FeatureFile(str(feature_path))
        if not feature_file.missing([scene.id for world in worlds for scene in world]):
            return feature_file
    image_ids: list[str] = []
    feature_parts = []
    for world in worlds:
        with task("picture features", len(world)) as advance:
            for scene_part in _parts(list(world)):
                image_ids += [scene.id for scene in scene_part]
                feature_parts.append(world_reader.pictures([np.asarray(scene.render()) for scene in scene_part]))
                advance(len(scene_part))
    folder.mkdir(parents=True, exist_ok=True)
    write_feature_file(feature_path, image_ids, np.concatenate(feature_parts))
    return FeatureFile(str(feature_path))


def _parts(scenes: Sequence[Scene]) -> list[Sequence[Scene]]:
    return [scenes[start : start + _AT_ONCE] for start in range(0, len(scenes), _AT_ONCE)]
