"""Concepts of captions: the stems of their content words.

As in the code that Feinglass and Yang released with SMURF (2021), stop words are removed, and so is every token that
contains an ASCII punctuation mark (`two-wheeled`, `'s`, `n't`); the rest are stemmed by Porter's algorithm in NLTK's
mode. NLTK itself is not needed. Differences: docs/parity.md.

**Contrast sets** are words that fill the same slot of a caption, such as numbers, colours, persons, objects of one
kind.

Different words of one slot contradict each other if they describe the same object: "two dogs" and "three dogs", "a red
car" and "a blue car", "a man" and "a woman". Objects are the categories of COCO by supercategory, with the words that
captions use for them; FOIL (Shekhar et al. 2017) replaces objects within a supercategory.

>>> find_slot("two"), find_slot("Red"), find_slot("bananas"), find_slot("joy")
('number', 'colour', 'food', None)
>>> contradicts("two", "three"), contradicts("man", "guy"), contradicts("man", "woman"), contradicts("man", "dog")
(True, False, True, False)
"""

from __future__ import annotations

import string
from functools import cache, lru_cache

from capmeter.text.tokenization.porter import stem

STOP_WORDS = frozenset(
    """
    i me my myself we our ours ourselves you you're you've you'll you'd your yours yourself yourselves he him his
    himself she she's her hers herself it it's its itself they them their theirs themselves what which who whom this
    that that'll these those am is are was were be been being have has had having do does did doing a an the and but
    if or because as until while of at by for with about against between into through during before after above below
    to from up down in out on off over under again further then once here there when where why how all any both each
    few more most other some such no nor not only own same so than too very s t can will just don don't should
    should've now d ll m o re ve y ain aren aren't couldn couldn't didn didn't doesn doesn't hadn hadn't hasn hasn't
    haven haven't isn isn't ma mightn mightn't mustn mustn't needn needn't shan shan't shouldn shouldn't wasn wasn't
    weren weren't won won't wouldn wouldn't
    """.split()  # noqa: SIM905
)
"""English stop words: NLTK's list (179 words), which most research code uses."""
_PUNCTUATION = frozenset(string.punctuation)


@lru_cache(maxsize=1 << 16)
def token_concept(token: str) -> str | None:
    """Returns the concept of a token, None for a stop word or a token with punctuation.

    >>> token_concept("wheels"), token_concept("the"), token_concept("two-wheeled")
    ('wheel', None, None)
    """
    if token in STOP_WORDS or not _PUNCTUATION.isdisjoint(token):
        return None
    return stem(token)


# Synonyms within a slot are joined by "/". Persons: a child may be called a boy or a girl.
_SLOTS = {
    "number": "a/an/one/single two/2/couple/pair three/3 four/4 five/5 six/6 seven/7 eight/8 nine/9 ten/10",
    "colour": (
        "red/maroon orange yellow/golden green blue/navy purple/violet pink black white brown/tan gray/grey/silver"
    ),
    "man or woman": "man/guy/gentleman/male/father/dad/boy/he/his/him/himself/son/brother/businessman "
    "woman/lady/female/mother/mom/girl/she/her/herself/daughter/sister/businesswoman",
    "age": "man/woman/lady/guy/gentleman/adult boy/girl/child/kid/toddler/baby/infant/son/daughter",
    "vehicle": "bicycle/bike car/automobile/sedan/suv motorcycle/motorbike/scooter airplane/plane/jet/aircraft "
    "bus train/locomotive truck/pickup boat/ship/sailboat/canoe/kayak",
    "outdoor object": "light hydrant sign meter bench",
    "animal": "bird/duck/goose/seagull/pigeon/parrot/owl cat/kitten/kitty dog/puppy/terrier/poodle horse/pony "
    "sheep/lamb/goat cow/bull/cattle/calf/ox elephant bear zebra giraffe",
    "accessory": "backpack/bag umbrella/parasol handbag/purse tie/necktie suitcase/luggage",
    "sports equipment": "frisbee ski snowboard ball/football/baseball/basketball kite bat glove/mitt skateboard "
    "surfboard racket/racquet",
    "tableware": "bottle glass/wineglass cup/mug fork knife spoon bowl plate",
    "food": "banana apple sandwich/sub/burger/hamburger orange broccoli carrot hotdog pizza donut/doughnut "
    "cake/cupcake",
    "furniture": "chair/stool/armchair couch/sofa/loveseat plant bed/mattress table/desk toilet",
    "electronics": "tv/television laptop/computer mouse remote/controller keyboard phone/cellphone/smartphone",
    "appliance": "microwave oven/stove toaster sink/basin refrigerator/fridge/freezer",
    "indoor object": "book clock/watch vase scissors teddy hairdryer toothbrush",
    "posture": "sitting/sits/sit/seated standing/stands/stand lying/lies/laying/lays sleeping/sleeps "
    "jumping/jumps/jump/leaping/leaps running/runs/run walking/walks/walk flying/flies swimming/swims riding/rides "
    "climbing/climbs",
    "place": "beach/shore/sand street/road/sidewalk snow/snowy field/grass/lawn/meadow kitchen bathroom bedroom "
    "ocean/sea/water/lake/river mountain/mountains city park forest/woods/jungle desert indoors outdoors",
    "side": "left right",
    "height": "above/over below/under/underneath/beneath",
    "in or out": "inside outside",
    "before or behind": "behind front",
    "size": "big/large/huge/giant small/little/tiny",
    "years": "young old/elderly/older",
    "open or closed": "open closed",
    "full or empty": "full empty",
}


@cache
def _load_index() -> dict[str, tuple[tuple[str, int], ...]]:
    """Indexes every word and every stem: its slots, each with the number of its meaning there."""
    slot_index: dict[str, dict[str, int]] = {}
    for slot, meanings in _SLOTS.items():
        for meaning_number, synonyms in enumerate(meanings.split()):
            for word in synonyms.split("/"):
                for word_form in (word, stem(word)):
                    slot_index.setdefault(word_form, {}).setdefault(slot, meaning_number)
    return {word: tuple(slots.items()) for word, slots in slot_index.items()}


@lru_cache(maxsize=1 << 16)
def _find_meanings(word: str) -> tuple[tuple[str, int], ...]:
    lower_word = word.lower()
    return _load_index().get(lower_word) or _load_index().get(stem(lower_word), ())


def find_slot(word: str) -> str | None:
    """Returns the first slot that the word fills, if any."""
    meanings = _find_meanings(word)
    return meanings[0][0] if meanings else None


def contradicts(one: str, other: str) -> bool:
    """Whether the words fill the same slot with different meanings."""
    other_meanings = dict(_find_meanings(other))
    return any(slot in other_meanings and other_meanings[slot] != number for slot, number in _find_meanings(one))


def contrasting_words(word: str) -> tuple[str, ...]:
    """Returns the words that fill a slot of this word with another meaning; the first synonym of each meaning."""
    return tuple(
        synonyms.split("/")[0]
        for slot, own_number in _find_meanings(word)
        for meaning_number, synonyms in enumerate(_SLOTS[slot].split())
        if meaning_number != own_number
    )
