"""Words for what is visible in each region of a synthetic scene."""

from __future__ import annotations

from capmeter_research.synthetic_scenes.scenes.scenes import Scene
from capmeter_research.synthetic_scenes.scenes.vocabulary import KINDS, names, visible_words

_ATTRIBUTES = ("colour", "texture", "size")


def region_words(scene: Scene) -> tuple[frozenset[str], ...]:
    """For each region of a scene, the words of `visible_words` that are true of it."""
    regions, words_by_value = scene.regions(), names()
    region_vocabularies = []
    for label, attributes in zip(regions.labels, regions.attributes, strict=True):
        words = words_by_value.get(("background", label), frozenset())
        if label in KINDS:
            words = words_by_value["kind", label] | words_by_value.get(("category", KINDS[label].category), frozenset())
        for value in attributes:
            words |= frozenset().union(*(words_by_value.get((name, value), frozenset()) for name in _ATTRIBUTES))
        region_vocabularies.append(words & visible_words())
    return tuple(region_vocabularies)
