"""Lemmas as Stanford's `Morphology` gives them, from a word and its tag.

Plural nouns (NNS) and verbs (VB…) lose their endings by rules "this ending becomes that one", of which the longest
matching one applies; a whole word is an ending too, so that irregular words are rules like any other. A short table
has the rest ("an" → "a", "his" → "he"). Proper nouns keep their case, other words are lower-cased. Rules and table are
learned from parses (`capmeter.learning.parser.lemma_rules`).

>>> rules = LemmaRules({"NNS": {"s": "", "ies": "y", "^skis": "ski"}, "V": {"ing": ""}}, {"DT": {"an": "a"}})
>>> [rules.lemma(*word) for word in (("Cities", "NNS"), ("skis", "NNS"), ("an", "DT"), ("Paris", "NNP"))]
['city', 'ski', 'a', 'Paris']
"""

from __future__ import annotations

from collections.abc import Mapping

WHOLE_WORD = "^"
Endings = Mapping[str, str]  # ending -> its replacement; "^word" is a whole word


def inflected(tag: str) -> str | None:
    """The kind of endings that words with this tag have: "NNS", "V" or None."""
    if tag == "NNS":
        return "NNS"
    return "V" if tag.startswith("V") else None


def folded(word: str, tag: str) -> str:
    """The word with the case of its lemma: proper nouns keep theirs."""
    return word if tag.startswith("NNP") else word.lower()


class LemmaRules:
    """The lemma of a word with a tag.

    Args:
        endings: per kind (see `inflected`) the endings and their replacements.
        table: per tag the words (as `folded`) whose lemma is not covered by rules.
    """

    def __init__(self, endings: Mapping[str, Endings], table: Mapping[str, Mapping[str, str]]) -> None:
        self.endings, self.table = endings, table
        self._known: dict[tuple[str, str], str] = {}

    def lemma(self, word: str, tag: str) -> str:
        """The lemma; never empty for a non-empty word."""
        known = self._known.get((word, tag))
        if known is None:
            known = self._find(word, tag)
            if len(self._known) < 1 << 17:
                self._known[word, tag] = known
        return known

    def _find(self, word: str, tag: str) -> str:
        plain = folded(word, tag)
        special = self.table.get(tag, {}).get(plain)
        if special is not None:
            return special
        kind = inflected(tag)
        return plain if kind is None else without_ending(plain, self.endings.get(kind, {}))


def without_ending(word: str, endings: Endings) -> str:
    """The word with its longest known ending replaced; the word itself if nothing would be left."""
    whole = endings.get(WHOLE_WORD + word)
    if whole is not None:
        return whole
    for cut in range(len(word) + 1):
        instead = endings.get(word[cut:])
        if instead is not None:
            return (word[:cut] + instead) or word
    return word
