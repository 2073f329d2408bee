"""The closed vocabulary of synthetic scenes: kinds of things, colours, sizes, textures, backgrounds, relations, counts.

Everything that can be drawn or said is listed in `vocabulary.json`. `words()` are all the words that a fluent caption
can contain.

>>> KINDS["dog"].category, COLOURS["red"]
('animal', (216, 40, 38))
>>> "umbrella" in words(), "giraffe" in words()
(True, False)
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

Colour = tuple[int, int, int]
Words = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Kind:
    """A kind of thing.

    Args:
        name: its label, and the first of its nouns.
        category: person, animal, vehicle, plant, furniture or object; also a more general noun for it.
        size: width and height of the thing, in parts of the picture's side.
        stands: whether it is found on the ground (or on a floor, or in the water).
        aloft: whether it is found in the air.
        many: the largest number of them in one place.
        nouns: singular and plural of each noun, the label first.
        support: the height of its upper surface from its top, in parts of its height, if things can be on it.
        cavity: the box (x0, y0, x1, y1, in parts of its box) that things can be inside of.
        held: whether a person can hold it.
        untextured: whether it is too small or too thin to show a texture.
    """

    name: str
    category: str
    size: tuple[float, float]
    stands: bool
    aloft: bool
    many: int
    nouns: tuple[tuple[str, str], ...]
    support: float | None = None
    cavity: tuple[float, float, float, float] | None = None
    held: bool = False
    untextured: bool = False


@dataclass(frozen=True)
class Background:
    """A background: what is said of it, the colours that would not show on it, what is found there, its horizon.

    Args:
        phrases: what a caption says of it.
        hidden: colours of things that would not stand out.
        excluded: kinds and categories that are not found there.
        ground: heights that things stand at, in parts of the picture; None if there is no ground (a plain wall).
        sky: heights that things in the air have.
    """

    name: str
    phrases: tuple[str, ...]
    hidden: tuple[str, ...]
    excluded: tuple[str, ...]
    ground: tuple[float, float] | None
    sky: tuple[float, float]


def read_table(name: str) -> dict[str, Any]:
    """A JSON file of this folder, with tuples in place of lists."""

    def freeze(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: freeze(each) for key, each in value.items()}
        return tuple(map(freeze, value)) if isinstance(value, list) else value

    table: dict[str, Any] = freeze(json.loads((files(__package__) / name).read_text("utf-8")))
    return table


_TABLE = read_table("vocabulary.json")
KINDS = {name: Kind(name, **fields) for name, fields in _TABLE["kinds"].items()}
GENERAL: dict[str, tuple[tuple[str, str], ...]] = _TABLE["general"]
"""The nouns of a whole category; furniture and objects have none."""
COLOURS: dict[str, Colour] = _TABLE["colours"]
COLOUR_WORDS: Words = {name: (name,) for name in COLOURS} | _TABLE["colour_words"]
TEXTURES: Words = _TABLE["textures"]
SIZES: Words = _TABLE["sizes"]
SCALES: dict[str, float] = _TABLE["scales"]
COUNTS: dict[int, tuple[str, ...]] = {int(count): texts for count, texts in _TABLE["counts"].items()}
SOME: dict[int, tuple[str, ...]] = {int(count): texts for count, texts in _TABLE["some"].items()}
"""Words for a minimum count."""
BACKGROUNDS = {name: Background(name, **fields) for name, fields in _TABLE["backgrounds"].items()}
RELATIONS: Words = _TABLE["relations"]
OPPOSITES: dict[str, str] = _TABLE["opposites"]
SEEN: Words = _TABLE["seen"]
"""What may stand between a group and its relation; it states no fact, and fits every kind of thing."""
FRAMES: tuple[str, ...] = _TABLE["frames"]
WEARING: tuple[str, ...] = _TABLE["wearing"]
ALSO: tuple[str, ...] = _TABLE["also"]
GLUE: tuple[str, ...] = _TABLE["glue"]


@functools.cache
def words() -> frozenset[str]:
    """Every word that a fluent caption can contain."""
    texts = [form for kind in KINDS.values() for noun in kind.nouns for form in noun]
    texts += [form for nouns in GENERAL.values() for noun in nouns for form in noun]
    for word_table in (COLOUR_WORDS, TEXTURES, SIZES, COUNTS, SOME, RELATIONS, SEEN):
        texts += [text for texts_of_one in word_table.values() for text in texts_of_one]
    texts += [phrase for background in BACKGROUNDS.values() for phrase in background.phrases]
    texts += [*FRAMES, *WEARING, *ALSO, *GLUE]
    return frozenset(word for text in texts for word in text.split() if not word.startswith("{"))


@functools.cache
def names() -> dict[tuple[str, str], frozenset[str]]:
    """For everything that can be seen, as (what, value), the words that say so."""
    names_by_value: dict[tuple[str, str], frozenset[str]] = {}
    for kind in KINDS.values():
        names_by_value["kind", kind.name] = frozenset(form for noun in kind.nouns for form in noun)
    for category, category_nouns in GENERAL.items():
        names_by_value["category", category] = frozenset(form for noun in category_nouns for form in noun)
    for attribute_name, word_table in (("colour", COLOUR_WORDS), ("texture", TEXTURES), ("size", SIZES)):
        names_by_value |= {(attribute_name, value): frozenset(words) for value, words in word_table.items()}
    phrases = {each.name: {word for phrase in each.phrases for word in phrase.split()} for each in BACKGROUNDS.values()}
    word_counts = Counter(word for words in phrases.values() for word in words)
    names_by_value |= {
        ("background", name): frozenset(w for w in words if word_counts[w] == 1) for name, words in phrases.items()
    }
    return names_by_value


@functools.cache
def visible_words() -> frozenset[str]:
    """Every word that names something that can be seen; none that could also say something else."""
    word_counts = Counter(word for words in names().values() for word in words)
    other_tables = (*COUNTS.values(), *SOME.values(), *RELATIONS.values(), *SEEN.values(), FRAMES, WEARING, ALSO, GLUE)
    other_words = {word for texts in other_tables for text in texts for word in text.split()}
    return frozenset(word for word, count in word_counts.items() if count == 1 and word not in other_words)
