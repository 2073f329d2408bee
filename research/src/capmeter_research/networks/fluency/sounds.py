"""Captions of sounds that a small grammar writes: one to three events, joined as people join them."""

from __future__ import annotations

import random

SOURCES = (
    *("a man", "a woman", "people", "a crowd", "a child", "a dog", "dogs", "birds", "a bird", "a car", "a vehicle"),
    *("an engine", "a train", "water", "rain", "wind", "a bell", "a door", "music", "a machine", "a crowd of people"),
    *("a group of people", "someone", "an adult male", "a young girl", "traffic", "insects", "a cat", "a siren"),
    *("footsteps", "thunder", "a helicopter", "an airplane", "a clock", "a phone", "leaves", "metal", "a large motor"),
    *("a small engine", "waves"),
)
VERBS = (
    *("speaks", "is speaking", "talks", "is talking", "barks", "chirp", "are chirping", "sing", "passes by", "runs"),
    *("is running", "idles", "revs", "is revving", "flows", "falls", "is falling", "blows", "is blowing", "rings"),
    *(
        "slams",
        "plays",
        "is playing",
        "laughs",
        "is laughing",
        "cries",
        "is crying",
        "honks",
        "drips",
        "hums",
        "buzzes",
    ),
    *("whistles", "clicks", "taps", "squeaks", "rustles", "accelerates", "drives by", "splashes", "crash", "snores"),
)
PARTICIPLES = (
    *("speaking", "talking", "barking", "chirping", "singing", "passing by", "running", "idling", "revving", "flowing"),
    *("falling", "blowing", "ringing", "playing", "laughing", "crying", "honking", "dripping", "humming", "buzzing"),
    *("ticking", "snoring", "clapping", "cheering", "rustling"),
)
ADVERBS = (
    *("loudly", "softly", "in the background", "in the distance", "nearby", "repeatedly", "continuously", "outside"),
    *("several times", "quietly", "at a steady pace", "and then stops", "in a room", "on a hard surface"),
)
JOINTS = ("and", "while", "as", "followed by", "and then", "with", "before", "then")


def write_sound_caption(rng: random.Random) -> str:
    """One caption of a sound."""
    caption = _write_event(rng)
    for _ in range(rng.choice((0, 1, 1, 2))):
        caption += f" {rng.choice(JOINTS)} {_write_event(rng)}"
    return caption


def _write_event(rng: random.Random) -> str:
    event = rng.choice(SOURCES)
    if rng.random() < 0.95:
        event += " " + rng.choice(VERBS if rng.random() < 0.6 else PARTICIPLES)
    return event + (f" {rng.choice(ADVERBS)}" if rng.random() < 0.35 else "")
