"""Captions of photos by a small grammar, and small training examples of the metric `capmeter`."""

from __future__ import annotations

from capmeter_research.common.corpus import Photo, PhotoCorpus
from capmeter_research.networks.own_metric.examples import PhotoExamples, build_examples
from capmeter_research.networks.own_metric.priors import build_token_priors

from capmeter.core.checkpoints import TrainingData
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder

NOUNS = ("dog", "cat", "horse", "girl", "boy", "bird", "cow", "sheep", "man", "woman")
PLACES = ("park", "street", "kitchen", "field", "beach")


def captions(number: int) -> tuple[str, ...]:
    noun, location = NOUNS[number % len(NOUNS)], PLACES[number // 2 % len(PLACES)]
    return (
        f"Two red {noun}s are standing in the {location}.",
        f"Two {noun}s in a {location}.",
        f"A pair of {noun}s by the {location}",
        f"The {noun}s stand together at the {location} number {number}.",
        f"red {noun}s near the {location}",
    )


def photos(count: int) -> list[Photo]:
    return [Photo("coco", str(number), captions(number)) for number in range(count)]


def small_examples() -> PhotoExamples:
    """Of sixteen photos, twelve of them for training."""
    all_photos = photos(16)
    settings = Settings()
    corpus = PhotoCorpus(tuple(all_photos), 0, TrainingData("coco", "0" * 64, 80))
    return build_examples(
        all_photos[:12],
        all_photos[12:],
        priors=build_token_priors([corpus], all_photos[:12], find_encoder("minilm"), settings),
        encoder=find_encoder("minilm"),
        layer=6,
        perturbations=4,
        seed=0,
        settings=settings,
    )
