"""Which words that name something visible are true of each region of a picture of the made world."""

from __future__ import annotations

from capmeter.learning.world.scenes import Scene
from capmeter.learning.world.vocabulary import KINDS, names, visible_words

_ATTRIBUTES = ("colour", "texture", "size")


def region_words(scene: Scene) -> tuple[frozenset[str], ...]:
    """For each of a picture's regions, the words of `visible_words` that are true of it."""
    regions = scene.regions()
    found = []
    for label, attributes in zip(regions.labels, regions.attributes, strict=True):
        said = names().get(("background", label), frozenset())
        if label in KINDS:
            said = names()["kind", label] | names().get(("category", KINDS[label].category), frozenset())
        for value in attributes:
            said |= frozenset().union(*(names().get((what, value), frozenset()) for what in _ATTRIBUTES))
        found.append(said & visible_words())
    return tuple(found)
