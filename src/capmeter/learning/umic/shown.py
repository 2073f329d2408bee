"""Which words of the made world's captions name something that can be seen, and which of them are true of a region."""

from __future__ import annotations

import functools
from collections import Counter

from capmeter.learning.world.scenes import Scene
from capmeter.learning.world.vocabulary import (
    ALSO,
    BACKGROUNDS,
    COLOUR_WORDS,
    COUNTS,
    FRAMES,
    GENERAL,
    GLUE,
    KINDS,
    RELATIONS,
    SEEN,
    SIZES,
    SOME,
    TEXTURES,
    WEARING,
)


@functools.cache
def names() -> dict[tuple[str, str], frozenset[str]]:
    """For everything that can be seen, as (what, value), the words that say so."""
    found: dict[tuple[str, str], frozenset[str]] = {}
    for kind in KINDS.values():
        found["kind", kind.name] = frozenset(form for noun in kind.nouns for form in noun)
    for category, nouns in GENERAL.items():
        found["category", category] = frozenset(form for noun in nouns for form in noun)
    for what, table in (("colour", COLOUR_WORDS), ("texture", TEXTURES), ("size", SIZES)):
        found |= {(what, value): frozenset(said) for value, said in table.items()}
    phrases = {each.name: {word for phrase in each.phrases for word in phrase.split()} for each in BACKGROUNDS.values()}
    often = Counter(word for said in phrases.values() for word in said)
    found |= {("background", name): frozenset(w for w in said if often[w] == 1) for name, said in phrases.items()}
    return found


@functools.cache
def visible_words() -> frozenset[str]:
    """Every word that names something that can be seen; none that could also say something else."""
    taken = Counter(word for said in names().values() for word in said)
    others = (*COUNTS.values(), *SOME.values(), *RELATIONS.values(), *SEEN.values(), FRAMES, WEARING, ALSO, GLUE)
    elsewhere = {word for texts in others for text in texts for word in text.split()}
    return frozenset(word for word, count in taken.items() if count == 1 and word not in elsewhere)


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


_ATTRIBUTES = ("colour", "texture", "size")
