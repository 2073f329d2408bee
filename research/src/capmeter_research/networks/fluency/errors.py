"""Fluency errors made in captions, after the kinds of Zhou et al. 2022, and captions that break off or lose a word.

>>> import random
>>> errors = [make_error("a dog barks and a man speaks", random.Random(seed)) for seed in range(4)]
>>> any(error == "a dog barks and a man speaks" for error in errors)
False
"""

from __future__ import annotations

import random

TAILS = (
    *(
        "and a",
        "and",
        "with a",
        "in the",
        "of a",
        "as a",
        "while a",
        "followed by",
        "in",
        "on a",
        "and then",
        "a",
        "the",
    ),
    *("while", "as", "and the", "in a", "to", "and someone", "with", "at"),
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
    return f"{caption} {rng.choice(TAILS)}"
