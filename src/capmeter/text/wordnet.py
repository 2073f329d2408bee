"""Synonyms as in METEOR 1.5: words that share a WordNet synset, directly or by their base forms.

The synset list has pairs of lines: a word (lower case, `_` for a space), then the numbers of its synsets for all parts
of speech. The list of exceptions has pairs of lines: a base form, then its irregular forms.

>>> words = Synonyms("car\\n1\\nautomobile\\n1 2\\ngoose\\n3\\n", "goose\\ngeese\\n")
>>> sorted(words.synsets("automobiles")), sorted(words.synsets("geese"))
([1, 2], [3])
"""

from __future__ import annotations

from collections.abc import Iterable

_SUFFIXES = (
    *(
        ("s", ""),
        ("ses", "s"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    *(("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    *(("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
)
# The same by the last letter of a word: those that can apply, in their order.
_ENDING_IN = {
    last: tuple(rule for rule in _SUFFIXES if rule[0].endswith(last))
    for last in {suffix[-1] for suffix, _ in _SUFFIXES}
}


def read_pairs(text: str) -> dict[str, str]:
    """Pairs of lines, such as a word and the numbers of its synsets."""
    lines = text.split("\n")
    return dict(zip(lines[0::2], lines[1::2], strict=False))


def bases_by_rule(word: str) -> list[str]:
    """What WordNet's suffix rules make of a word, in their order: the first that is a word is its base form."""
    if word.endswith("ss") or len(word) <= 2:
        return []
    rules = _ENDING_IN.get(word[-1], ())
    return [word[: -len(suffix)] + ending for suffix, ending in rules if word.endswith(suffix)]


class Synonyms:
    """The synsets of words."""

    def __init__(self, synsets: str, exceptions: str) -> None:
        self._synsets = read_pairs(synsets)
        self._bases: dict[str, list[str]] = {}
        for base, forms in read_pairs(exceptions).items():
            for form in forms.split():
                self._bases.setdefault(form, []).append(base)

    def synsets(self, word: str) -> frozenset[int]:
        """The numbers of the synsets of a word and of its base forms."""
        return frozenset(self.numbers(word))

    def numbers(self, word: str) -> list[int]:
        """The same as a list, in which a number may occur more than once."""
        known = self._synsets.get(word, "")
        for base in self._bases.get(word) or (self._base(word),):
            if base != word and base in self._synsets:
                known = f"{known} {self._synsets[base]}"
        return [*map(int, known.split())]

    @property
    def words(self) -> Iterable[str]:
        """All words of the list, with `_` for a space."""
        return self._synsets.keys()

    def knows(self, word: str) -> bool:
        """Whether the word is in the list of synsets."""
        return word in self._synsets

    def bases(self, word: str) -> list[str]:
        """The base forms of an irregular form."""
        return list(self._bases.get(word, ()))

    def _base(self, word: str) -> str:
        """The first form derived by WordNet's suffix rules that is in WordNet; "" if none is."""
        return next((base for base in bases_by_rule(word) if base in self._synsets), "")
