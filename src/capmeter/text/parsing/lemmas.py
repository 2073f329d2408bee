"""Lemmas as in Stanford's `Morphology`, from a word and its tag.

Plural nouns (NNS) and verbs (VB…) lose their endings by rules "replace this ending by that one", of which the one with
the longest ending applies; a complete word is an ending too, so that irregular words are rules like any other. A short
table has the rest ("an" → "a", "his" → "he"). Proper nouns keep their case, other words are lower-cased. Rules and
table are learned from parses.

>>> rules = LemmaRules({"NNS": {"s": "", "ies": "y", "^skis": "ski"}, "V": {"ing": ""}}, {"DT": {"an": "a"}})
>>> [rules.lemma(*word) for word in (("Cities", "NNS"), ("skis", "NNS"), ("an", "DT"), ("Paris", "NNP"))]
['city', 'ski', 'a', 'Paris']
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

WHOLE_WORD = "^"
Endings = Mapping[str, str]  # ending -> its replacement; "^word" is a complete word


def inflection_class(tag: str) -> str | None:
    """Returns the kind of endings of words with this tag: "NNS", "V" or None."""
    if tag == "NNS":
        return "NNS"
    return "V" if tag.startswith("V") else None


def fold_case(word: str, tag: str) -> str:
    """Lower-cases a word, unless it is a proper noun."""
    return word if tag.startswith("NNP") else word.lower()


class LemmaRules:
    """Rules that give the lemma of a word with a tag.

    Args:
        endings: the endings and their replacements, per inflection class (see `inflection_class`).
        table: per tag, the words (as from `fold_case`) whose lemmas the rules do not give.
    """

    def __init__(self, endings: Mapping[str, Endings], table: Mapping[str, Mapping[str, str]]) -> None:
        self.endings, self.table = endings, table
        self.lemma = lru_cache(maxsize=1 << 17)(self._derive)

    def _derive(self, word: str, tag: str) -> str:
        """Returns the lemma; never empty for a non-empty word."""
        folded_word = fold_case(word, tag)
        exception = self.table.get(tag, {}).get(folded_word)
        if exception is not None:
            return exception
        kind = inflection_class(tag)
        return folded_word if kind is None else replace_ending(folded_word, self.endings.get(kind, {}))


def replace_ending(word: str, endings: Endings) -> str:
    """Replaces the longest listed ending of a word; returns the word itself if nothing would be left."""
    whole_word_lemma = endings.get(WHOLE_WORD + word)
    if whole_word_lemma is not None:
        return whole_word_lemma
    for ending_start in range(len(word) + 1):
        replacement = endings.get(word[ending_start:])
        if replacement is not None:
            return (word[:ending_start] + replacement) or word
    return word
