"""Which words of a caption are right and which regions it mentions, where that is known: of synthetic scenes.

A caption with an error differs from the true one in the words that are wrong and in no others. What a caption mentions
follows from what it states.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter_research.synthetic_scenes.scenes.captions import WorldCaption, names
from capmeter_research.synthetic_scenes.scenes.errors import CONTENT_ERRORS
from capmeter_research.synthetic_scenes.scenes.scenes import Scene
from capmeter_research.synthetic_scenes.scenes.world import World

Floats = npt.NDArray[np.float64]
_ADDING = (*CONTENT_ERRORS, "hallucinated")


@dataclass(frozen=True, eq=False)
class Labels:
    """Of one caption. words: 1 right, 0 wrong, for each of `text.split()`; None: unknown. kinds: what it mentions, by
    the names of the scene's kinds (and `background`), None: unknown; the others of the scene it does not mention.
    """

    words: Floats | None = None
    mentioned: frozenset[str] | None = None
    scene: Scene | None = None


def word_labels(text: str, right: str) -> Floats:
    """1 for the words that a caption shares with the right one, in order; 0 for the others.

    >>> word_labels("two red dogs run", "a red dog runs fast").tolist()
    [0.0, 1.0, 0.0, 0.0]
    """
    caption_words, right_words = text.split(), right.split()
    labels = np.zeros(len(caption_words))
    for block_start, _, block_length in difflib.SequenceMatcher(
        None, caption_words, right_words, autojunk=False
    ).get_matching_blocks():
        labels[block_start : block_start + block_length] = 1
    return labels


def labels_of_world(world: World) -> Mapping[str, Labels]:
    """What is known of the captions of a world, by their ids.

    Words are known of the true caption and of those with one error in it; not of graded ones, of clumsy ones, and of
    captions of another scene.
    """
    labels = {}
    for scene_index, scene in enumerate(world):
        candidates = world.candidates(scene_index)
        true_text = candidates["true"].text
        for system, caption in candidates.items():
            fully_labelled = system in ("true", "missing", *_ADDING)
            word_values = None
            if fully_labelled:
                word_count = len(caption.text.split())
                word_values = word_labels(caption.text, true_text) if system in _ADDING else np.ones(word_count)
            labels[f"{scene.id}#{system}"] = Labels(word_values, _mentioned(scene, caption), scene)
    return labels


def region_labels(labels: Labels, names_of_regions: tuple[str, ...], boxes: npt.NDArray[np.float32]) -> Floats:
    """1 for regions that are mentioned, 0 for those that are not, NaN where nothing of the scene is.

    Args:
        labels: of a caption.
        names_of_regions: kinds and `background`; if empty, a region is what it has in its centre.
        boxes: of the regions, (regions, 4).
    """
    region_values = np.full(len(boxes), np.nan)
    if labels.scene is None or labels.mentioned is None:
        return region_values
    for group in labels.scene.groups:
        is_mentioned = float(group.look.kind in labels.mentioned)
        if names_of_regions:
            if group.look.kind in names_of_regions:
                region_values[names_of_regions.index(group.look.kind)] = is_mentioned
            continue
        x0, y0, x1, y1 = group.box
        x, y = boxes[:, [0, 2]].mean(axis=1), boxes[:, [1, 3]].mean(axis=1)
        region_values[(x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1)] = is_mentioned
    if "background" in names_of_regions:
        region_values[names_of_regions.index("background")] = float("background" in labels.mentioned)
    return region_values


def _mentioned(scene: Scene, caption: WorldCaption) -> frozenset[str]:
    """The kinds of the scene that the caption names, and `background` if it names the right one."""
    nouns = [mention.noun for mention in caption.content.mentions]
    kinds = {group.look.kind for group in scene.groups if any(names(noun, group) for noun in nouns)}
    return frozenset(kinds | ({"background"} if caption.content.background == scene.background else set()))
