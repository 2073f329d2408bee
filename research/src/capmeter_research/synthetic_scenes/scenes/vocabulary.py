"""The closed vocabulary of synthetic scenes: kinds of things, colours, sizes, textures, backgrounds, relations, counts.

Everything that can be drawn or said is listed here. `words()` are all the words that a fluent caption can contain.

>>> KINDS["dog"].category, COLOURS["red"]
('animal', (216, 40, 38))
>>> "umbrella" in words(), "giraffe" in words()
(True, False)
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass

Colour = tuple[int, int, int]


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

    @property
    def untextured(self) -> bool:
        """Whether it is too small or too thin to show a texture."""
        return self.name in _UNTEXTURED


_UNTEXTURED = ("bicycle", "chair", "bird", "butterfly", "flower", "ring", "boat", "child", "plane", "bed", "lamp")


def _kinds() -> dict[str, Kind]:
    def ground(name: str, category: str, width: float, height: float, many: int, *nouns: str, **more: object) -> Kind:
        return Kind(name, category, (width, height), True, False, many, _nouns(name, *nouns), **more)  # type: ignore[arg-type]

    def air(name: str, category: str, width: float, height: float, many: int, *nouns: str, **more: object) -> Kind:
        return Kind(name, category, (width, height), False, True, many, _nouns(name, *nouns), **more)  # type: ignore[arg-type]

    def shape(name: str, *nouns: str, size: float = 0.17, held: bool = True) -> Kind:
        return Kind(name, "object", (size, size), True, True, 4, _nouns(name, *nouns), held=held)

    all_kinds = [
        ground("man", "person", 0.17, 0.38, 2, "guy"),
        ground("woman", "person", 0.18, 0.37, 2, "lady"),
        ground("child", "person", 0.15, 0.25, 3, "kid"),
        ground("dog", "animal", 0.26, 0.2, 3, "puppy"),
        ground("cat", "animal", 0.21, 0.22, 3, "kitten"),
        ground("horse", "animal", 0.31, 0.31, 2, "pony"),
        ground("elephant", "animal", 0.36, 0.29, 2),
        Kind("bird", "animal", (0.2, 0.16), True, True, 4, _nouns("bird")),
        Kind("fish", "animal", (0.21, 0.14), True, False, 4, _nouns("fish")),
        air("butterfly", "animal", 0.16, 0.15, 4),
        ground("car", "vehicle", 0.34, 0.17, 3, "automobile"),
        ground("bus", "vehicle", 0.42, 0.23, 2, "coach"),
        ground("truck", "vehicle", 0.4, 0.22, 2, "lorry"),
        ground("bicycle", "vehicle", 0.32, 0.22, 2, "bike"),
        Kind("boat", "vehicle", (0.33, 0.3), True, False, 2, _nouns("boat", "sailboat")),
        air("plane", "vehicle", 0.32, 0.18, 3, "airplane"),
        ground("tree", "plant", 0.27, 0.42, 3),
        ground("flower", "plant", 0.14, 0.26, 4, "blossom", held=True),
        ground("cactus", "plant", 0.18, 0.29, 3),
        ground("mushroom", "plant", 0.17, 0.17, 4, "toadstool"),
        ground("chair", "furniture", 0.2, 0.3, 3, "seat"),
        ground("table", "furniture", 0.4, 0.25, 1, "desk", support=0.0),
        ground("sofa", "furniture", 0.42, 0.24, 1, "couch"),
        ground("bed", "furniture", 0.46, 0.22, 1, support=0.42),
        ground("lamp", "furniture", 0.17, 0.36, 2),
        ground("house", "object", 0.36, 0.38, 2, "cottage"),
        ground("box", "object", 0.33, 0.27, 1, "crate", cavity=(0.1, 0.1, 0.9, 0.9), support=0.0),
        Kind("ring", "object", (0.34, 0.34), True, True, 1, _nouns("ring", "hoop"), cavity=(0.2, 0.2, 0.8, 0.8)),
        Kind("umbrella", "object", (0.25, 0.25), True, False, 2, _nouns("umbrella", "parasol"), held=True),
        air("balloon", "object", 0.14, 0.24, 4, held=True),
        air("kite", "object", 0.2, 0.28, 3),
        shape("ball", "sphere"),
        shape("cube", "block"),
        shape("star"),
        shape("heart"),
        shape("triangle"),
    ]
    return {kind.name: kind for kind in all_kinds}


def _nouns(*singular: str) -> tuple[tuple[str, str], ...]:
    return tuple((noun, _PLURALS.get(noun, f"{noun}s")) for noun in singular)


_PLURALS = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "fish": "fish",
    "lady": "ladies",
    "puppy": "puppies",
    "pony": "ponies",
    "butterfly": "butterflies",
    "bus": "buses",
    "coach": "coaches",
    "lorry": "lorries",
    "cactus": "cacti",
    "couch": "couches",
    "box": "boxes",
    "person": "people",
    "furniture": "furniture",
}
KINDS = _kinds()
GENERAL = {
    "person": _nouns("person"),
    "animal": _nouns("animal"),
    "vehicle": _nouns("vehicle"),
    "plant": _nouns("plant"),
}
"""The nouns of a whole category; furniture and objects have none."""

COLOURS: dict[str, Colour] = {
    "red": (216, 40, 38),
    "orange": (247, 140, 28),
    "yellow": (250, 221, 52),
    "green": (52, 158, 62),
    "blue": (38, 96, 214),
    "purple": (132, 58, 172),
    "pink": (250, 142, 190),
    "brown": (130, 80, 42),
    "black": (40, 40, 44),
    "white": (248, 248, 246),
    "grey": (146, 149, 154),
}
COLOUR_WORDS: dict[str, tuple[str, ...]] = {name: (name,) for name in COLOURS} | {
    "grey": ("grey", "gray"),
    "purple": ("purple", "violet"),
}
TEXTURES: dict[str, tuple[str, ...]] = {
    "striped": ("striped", "stripy"),
    "spotted": ("spotted", "dotted"),
    "checked": ("checked", "checkered"),
}
SIZES: dict[str, tuple[str, ...]] = {"small": ("small", "little", "tiny"), "large": ("large", "big", "huge")}
SCALES = {"small": 0.7, "": 1.0, "large": 1.34}
COUNTS: dict[int, tuple[str, ...]] = {
    1: ("a", "a", "a", "one", "a single"),
    2: ("two", "two", "a pair of"),
    3: ("three",),
    4: ("four",),
    5: ("five",),
}
SOME = {2: ("some", "a few", "several")}
"""Words for a minimum count."""


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


BACKGROUNDS: dict[str, Background] = {
    each.name: each
    for each in (
        Background(
            "grass",
            ("on the grass", "in a green field", "on a meadow"),
            ("green",),
            ("furniture", "boat", "fish"),
            (0.62, 0.96),
            (0.03, 0.6),
        ),
        Background(
            "beach",
            ("on the beach", "on the sand", "by the sea"),
            ("yellow",),
            ("furniture", "house", "bus", "boat", "fish", "truck"),
            (0.68, 0.96),
            (0.03, 0.6),
        ),
        Background(
            "street",
            ("on the street", "on the road", "in the city"),
            ("grey",),
            ("furniture", "boat", "fish", "mushroom", "cactus", "elephant", "house"),
            (0.66, 0.96),
            (0.03, 0.6),
        ),
        Background(
            "snow",
            ("in the snow", "on a snowy field", "on a winter day"),
            ("white",),
            ("furniture", "boat", "fish", "cactus", "butterfly"),
            (0.62, 0.96),
            (0.03, 0.6),
        ),
        Background(
            "room",
            ("in a room", "inside a room", "indoors"),
            ("brown",),
            ("vehicle", "tree", "house", "horse", "elephant", "kite", "fish", "mushroom"),
            (0.74, 0.97),
            (0.04, 0.66),
        ),
        Background(
            "night",
            ("at night", "in the dark", "under the moon"),
            ("black",),
            ("furniture", "boat", "fish", "butterfly"),
            (0.64, 0.96),
            (0.2, 0.6),
        ),
        Background(
            "sea",
            ("on the sea", "on the water", "in the ocean"),
            ("blue",),
            (
                "person", "furniture", "plant", "dog", "cat", "horse", "elephant", "car", "bus", "truck", "bicycle",
                "house", "box", "ring", "umbrella", "cube", "butterfly", "triangle", "kite", "heart", "star",
            ),
            (0.62, 0.96),
            (0.03, 0.5),
        ),
        Background(
            "plain",
            ("on a plain background", "with a plain background", "on an empty background"),
            ("white",),
            (),
            None,
            (0.03, 0.97),
        ),
    )
}  # fmt: skip

RELATIONS: dict[str, tuple[str, ...]] = {
    "left of": ("left of", "to the left of", "on the left of", "on the left side of"),
    "right of": ("right of", "to the right of", "on the right of", "on the right side of"),
    "above": ("above", "over", "higher than"),
    "below": ("below", "under", "beneath", "lower than"),
    "on": ("on", "on top of", "resting on"),
    "inside": ("inside", "in", "within"),
    "behind": ("behind", "in back of", "partly hidden by"),
    "in front of": ("in front of",),
    "next to": ("next to", "beside", "close to", "near"),
    "holding": ("holding", "carrying"),
}
OPPOSITES = {
    "left of": "right of",
    "right of": "left of",
    "above": "below",
    "below": "above",
    "behind": "in front of",
    "in front of": "behind",
    "next to": "next to",
}
SEEN: dict[str, tuple[str, ...]] = {
    "": ("{is}", "that {is}", "which {is}", "{is} seen", "can be seen", "located", "seen"),
    "holding": ("{is}", "who {is}", "that {is}"),
}
"""What may stand between a group and its relation; it states no fact, and fits every kind of thing."""
FRAMES = (
    "there {is} {what}",
    "we see {what}",
    "a picture of {what}",
    "the image shows {what}",
    "an image of {what}",
    "i can see {what}",
)
WEARING = ("in {look}", "dressed in {look}", "wearing {look}", "wearing {look} clothes")
ALSO = ("and there {is} also", "and there {is}", "and also")
GLUE = ("a", "an", "and", "is", "are", "there", "can be seen")


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
