"""The texts that the detector learns from beside captions of photos.

Captions of sounds that a small grammar writes: one to three events, joined as people join them. Fluency errors made in
captions, after the kinds of Zhou et al. 2022, and captions that break off or lose a word. Their words stand in
`words.json`.

>>> errors = [make_error("a dog barks and a man speaks", random.Random(seed)) for seed in range(4)]
>>> any(error == "a dog barks and a man speaks" for error in errors)
False
"""

from __future__ import annotations

import json
import random
from importlib.resources import files

_WORDS: dict[str, list[str]] = json.loads(
    (files("capmeter_research.networks.fluency") / "words.json").read_text("utf-8")
)
KINDS = ("tail", "tail", "break off", "repeat event", "repeat event", "repeat words", "conjunction", "verb", "word")
_BREAKS = {"and", "with", "in", "on", "of", "a", "the", "as", "while", "to", "at", "is", "are"}
_CONJUNCTIONS = {"and", "while", "as", "with", "then", "before"}
_JOINTS = ("and", "as", "while", "and then", "followed by", "")


def make_error(caption: str, rng: random.Random) -> str:
    """The caption with one error: a tail added, broken off, an event or words repeated, or a word left out."""
    words = caption.split()
    kind = rng.choice(KINDS)
    if kind == "repeat event":
        length = rng.randint(2, max(2, min(len(words), 7)))
        start = rng.randint(0, max(0, len(words) - length))
        joint_words = rng.choice(_JOINTS).split()
        event_words = words[start : start + length]
        return " ".join([*words[: start + length], *joint_words, *event_words, *words[start + length :]])
    if kind == "repeat words":
        start, length = rng.randrange(len(words)), rng.choice((1, 1, 2, 3))
        return " ".join([*words[: start + length], *words[start : start + length], *words[start + length :]])
    if kind == "break off":
        break_positions = [k for k, word in enumerate(words) if word in _BREAKS and k > 1]
        if break_positions:
            return " ".join(words[: rng.choice(break_positions) + 1])
    omittable_positions = {
        "conjunction": [k for k, word in enumerate(words) if word in _CONJUNCTIONS],
        "verb": [k for k, word in enumerate(words) if word.endswith("ing") or word in ("is", "are")],
        "word": list(range(len(words))) if len(words) > 3 else [],
    }.get(kind, [])
    if omittable_positions:
        k = rng.choice(omittable_positions)
        return " ".join([*words[:k], *words[k + 1 :]])
    return f"{caption} {rng.choice(_WORDS['tails'])}"


def write_sound_caption(rng: random.Random) -> str:
    """One caption of a sound."""
    caption = _write_event(rng)
    for _ in range(rng.choice((0, 1, 1, 2))):
        caption += f" {rng.choice(_WORDS['joints'])} {_write_event(rng)}"
    return caption


def _write_event(rng: random.Random) -> str:
    event = rng.choice(_WORDS["sources"])
    if rng.random() < 0.95:
        event += " " + rng.choice(_WORDS["verbs" if rng.random() < 0.6 else "participles"])
    return event + (f" {rng.choice(_WORDS['adverbs'])}" if rng.random() < 0.35 else "")
