"""Made captions of photos, and small examples of them to train the toolkit's own metric on."""

from __future__ import annotations

from capmeter.checkpoints import TrainingData
from capmeter.learning.capmeter.examples import Examples, known_of, read_examples
from capmeter.learning.corpus import Corpus, Photo
from capmeter.settings import Settings

THINGS = ("dog", "cat", "horse", "girl", "boy", "bird", "cow", "sheep", "man", "woman")
PLACES = ("park", "street", "kitchen", "field", "beach")


def captions(number: int) -> tuple[str, ...]:
    thing, place = THINGS[number % len(THINGS)], PLACES[number // 2 % len(PLACES)]
    return (
        f"Two red {thing}s are standing in the {place}.",
        f"Two {thing}s in a {place}.",
        f"A pair of {thing}s by the {place}",
        f"The {thing}s stand together at the {place} number {number}.",
        f"red {thing}s near the {place}",
    )


def photos(count: int) -> list[Photo]:
    return [Photo("coco", str(number), captions(number)) for number in range(count)]


def small_examples() -> Examples:
    """Of sixteen photos, twelve of them to train on."""
    made = photos(16)
    settings = Settings()
    corpus = Corpus(tuple(made), 0, TrainingData("coco", "0" * 64, 80))
    return read_examples(
        made[:12],
        made[12:],
        known=known_of([corpus], made[:12], "minilm", settings),
        encoder="minilm",
        layer=6,
        wrong=4,
        seed=0,
        settings=settings,
    )
