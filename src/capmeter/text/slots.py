"""Words that fill the same slot of a caption: numbers, colours, persons, things of one kind, and so on.

Two different words of one slot, said of the same thing, contradict each other: "two dogs" and "three dogs", "a red
car" and "a blue car", "a man" and "a woman". Things are the categories of COCO by supercategory, with the words that
captions use for them; FOIL (Shekhar et al. 2017) exchanges things within a supercategory.

>>> slot_of("two"), slot_of("Red"), slot_of("bananas"), slot_of("joy")
('number', 'colour', 'food', None)
>>> contradicts("two", "three"), contradicts("man", "guy"), contradicts("man", "woman"), contradicts("man", "dog")
(True, False, True, False)
"""

from __future__ import annotations

from functools import cache

from capmeter.text.porter import stem

# Words of one slot that mean the same are joined by "/". Persons: a child may be called a boy or a girl.
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
    "street thing": "light hydrant sign meter bench",
    "animal": "bird/duck/goose/seagull/pigeon/parrot/owl cat/kitten/kitty dog/puppy/terrier/poodle horse/pony "
    "sheep/lamb/goat cow/bull/cattle/calf/ox elephant bear zebra giraffe",
    "thing carried": "backpack/bag umbrella/parasol handbag/purse tie/necktie suitcase/luggage",
    "sport thing": "frisbee ski snowboard ball/football/baseball/basketball kite bat glove/mitt skateboard surfboard "
    "racket/racquet",
    "tableware": "bottle glass/wineglass cup/mug fork knife spoon bowl plate",
    "food": "banana apple sandwich/sub/burger/hamburger orange broccoli carrot hotdog pizza donut/doughnut "
    "cake/cupcake",
    "furniture": "chair/stool/armchair couch/sofa/loveseat plant bed/mattress table/desk toilet",
    "device": "tv/television laptop/computer mouse remote/controller keyboard phone/cellphone/smartphone",
    "appliance": "microwave oven/stove toaster sink/basin refrigerator/fridge/freezer",
    "house thing": "book clock/watch vase scissors teddy hairdryer toothbrush",
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
def _places() -> dict[str, tuple[tuple[str, int], ...]]:
    """Of each word and each stem, its slots and the number of its meaning there."""
    found: dict[str, dict[str, int]] = {}
    for slot, listed in _SLOTS.items():
        for number, meaning in enumerate(listed.split()):
            for word in meaning.split("/"):
                for form in (word, stem(word)):
                    found.setdefault(form, {}).setdefault(slot, number)
    return {word: tuple(slots.items()) for word, slots in found.items()}


@cache
def _slots_of(word: str) -> tuple[tuple[str, int], ...]:
    plain = word.lower()
    return _places().get(plain) or _places().get(stem(plain), ())


def slot_of(word: str) -> str | None:
    """The first slot that the word fills, if any."""
    slots = _slots_of(word)
    return slots[0][0] if slots else None


def contradicts(one: str, other: str) -> bool:
    """Whether the words fill the same slot with different meanings."""
    theirs = dict(_slots_of(other))
    return any(slot in theirs and theirs[slot] != number for slot, number in _slots_of(one))


@cache
def others(word: str) -> tuple[str, ...]:
    """Words that fill a slot of this word with another meaning; the first word of each meaning."""
    return tuple(
        meaning.split("/")[0]
        for slot, mine in _slots_of(word)
        for number, meaning in enumerate(_SLOTS[slot].split())
        if number != mine
    )


def slots() -> tuple[str, ...]:
    """The names of all slots."""
    return tuple(_SLOTS)
