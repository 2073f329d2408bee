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

from capmeter.core.json_text import read_bundled_json
from capmeter.text.tokenization.porter import stem

_WORDS = read_bundled_json("words.json")
STOP_WORDS = frozenset(_WORDS["stop words"])
"""English stop words: NLTK's list (179 words), which most research code uses."""
CAPTURE_STOP_WORDS = frozenset(_WORDS["capture stop words"])
"""Nouns that no picture shows ("atmosphere", "scene"): the list that was released with CAPTURE (Dong et al. 2024)."""
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
SLOTS: dict[str, list[str]] = _WORDS["contrast sets"]
"""The words of each slot by meaning."""


@cache
def _load_index() -> dict[str, tuple[tuple[str, int], ...]]:
    """Indexes every word and every stem: its slots, each with the number of its meaning there."""
    slot_index: dict[str, dict[str, int]] = {}
    for slot, meanings in SLOTS.items():
        for meaning_number, synonyms in enumerate(meanings):
            for word in synonyms.split("/"):
                for word_form in (word, stem(word)):
                    slot_index.setdefault(word_form, {}).setdefault(slot, meaning_number)
    return {word: tuple(slots.items()) for word, slots in slot_index.items()}


@lru_cache(maxsize=1 << 16)
def find_meanings(word: str) -> tuple[tuple[str, int], ...]:
    """Returns the slots that the word fills, each with the number of its meaning there."""
    lower_word = word.lower()
    return _load_index().get(lower_word) or _load_index().get(stem(lower_word), ())


def find_slot(word: str) -> str | None:
    """Returns the first slot that the word fills, if any."""
    meanings = find_meanings(word)
    return meanings[0][0] if meanings else None


def contradicts(one: str, other: str) -> bool:
    """Whether the words fill the same slot with different meanings."""
    other_meanings = dict(find_meanings(other))
    return any(slot in other_meanings and other_meanings[slot] != number for slot, number in find_meanings(one))
