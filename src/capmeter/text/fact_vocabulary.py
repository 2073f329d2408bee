"""What the graph maker writes: tokens of a closed vocabulary, and words that it copies from the sentence.

The vocabulary holds marks, frequent predicates, and those words that people write although the caption does not have
them ("2" for "two", "wooden" for "wood"). Every other word is copied, as it is or as a verb in its base form. What is
in no vocabulary has a number of its own behind the vocabulary's last: by the place where it first stands in the list of
the sentence's n words and their n base forms.

>>> made = FactVocabulary([*MARKS, "dog"])
>>> sentence = made.sentence(["a", "dog", "ran"], ["a", "dog", "run"])
>>> sentence.numbers, made.numbers(["dog", "a", VERB + "run", "cat"], sentence)
([7, 6, 9, 10, 11, 12], [6, 7, 12, 2])
>>> made.texts([6, 9], sentence)
['dog', 'ran']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capmeter.text.facts import CLOSE, NEXT, OPEN, PREDICATE, VERB

NOTHING, STOP, OTHER = "<nothing>", "<stop>", "<other>"
MARKS = (NOTHING, STOP, OTHER, NEXT, OPEN, CLOSE)  # the first tokens
NOTHING_NUMBER, STOP_NUMBER, OTHER_NUMBER, NEXT_NUMBER, OPEN_NUMBER, CLOSE_NUMBER = range(len(MARKS))


@dataclass(frozen=True, eq=False)
class SentenceTokens:
    """What can be copied from a sentence of n words.

    texts: its words in lower case, then their base forms as verbs, each after `VERB`. numbers: of these 2n tokens.
    """

    texts: list[str]
    numbers: list[int]

    @property
    def words(self) -> list[str]:
        """The words in lower case."""
        return self.texts[: len(self.texts) // 2]

    @property
    def verbs(self) -> set[str]:
        """The base forms."""
        return {text[1:] for text in self.texts[len(self.texts) // 2 :]}


class FactVocabulary:
    """Numbers of tokens.

    Args:
        tokens: `MARKS` first; predicates begin with `PREDICATE`.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        if tuple(tokens[: len(MARKS)]) != MARKS:
            raise ValueError(f"expected tokens that begin with {MARKS}")
        self.tokens = tuple(tokens)
        self._token = {token: number for number, token in enumerate(self.tokens)}
        self.predicates = frozenset(token[1:] for token in self.tokens if token.startswith(PREDICATE))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def before_objects(self) -> list[int]:
        """The numbers of the tokens after which a fact's object begins."""
        return [CLOSE_NUMBER, *(number for token, number in self._token.items() if token.startswith(PREDICATE))]

    def sentence(self, words: Sequence[str], lemmas: Sequence[str]) -> SentenceTokens:
        """What can be copied from a sentence.

        Args:
            words: its words.
            lemmas: their base forms as if they were verbs.
        """
        texts = [*(word.lower() for word in words), *(VERB + lemma for lemma in lemmas)]
        own: dict[str, int] = {}
        numbers = [self._token.get(text, own.setdefault(text, len(self) + place)) for place, text in enumerate(texts)]
        return SentenceTokens(texts, numbers)

    def numbers(self, tokens: Sequence[str], sentence: SentenceTokens) -> list[int]:
        """The numbers of tokens; `OTHER_NUMBER` for those that are neither known nor can be copied."""
        own = dict(zip(sentence.texts, sentence.numbers, strict=True))
        return [self._token.get(token, own.get(token, OTHER_NUMBER)) for token in tokens]

    def texts(self, numbers: Sequence[int], sentence: SentenceTokens) -> list[str]:
        """The tokens with these numbers."""
        known = len(self)
        return [self.tokens[number] if number < known else sentence.texts[number - known] for number in numbers]
