"""Captions as LEIC reads them (A.2): the numbers of at most 15 words, with an end token where there is room for it.

Numbers 0 to 3 are `<pad>`, `<unk>`, `<sos>` and `<eos>`; words follow, the most frequent first. A caption of fewer than
15 words ends with `<eos>`; a longer one is cut at 15 words and has none. A critic may read more words (`steps`).

>>> words = CriticVocabulary(["a", "dog"])
>>> words.numbers(["a", "big", "dog"])
[4, 1, 5, 3]
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from capmeter.captions.model import Life
from capmeter.metrics.leic.shape import STEPS
from capmeter.ragged import Ragged
from capmeter.text.ptb import split_as_written
from capmeter.text.tokens import Sentences, Tokens, TokenTable

SPECIAL = ("<pad>", "<unk>", "<sos>", "<eos>")
PAD, UNKNOWN, START, END = range(4)
MOST_WORDS, LEAST_COUNT = 10_000, 5
_BRACKETS = frozenset(("-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-"))  # the Penn Treebank's spelling of ( [ {


class CriticVocabulary:
    """The words that a critic knows, in the order of their numbers."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._number = {word: number for number, word in enumerate(self.words, start=len(SPECIAL))}

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.words)

    @classmethod
    def learn(cls, counts: Mapping[str, int], most: int = MOST_WORDS, least: int = LEAST_COUNT) -> CriticVocabulary:
        """The `most` frequent words that occur `least` times or more; equally frequent ones by spelling."""
        ordered = sorted((word for word, count in counts.items() if count >= least), key=lambda w: (-counts[w], w))
        return cls(ordered[:most])

    def numbers(self, words: Sequence[str], steps: int = STEPS) -> list[int]:
        """One caption's words as numbers, cut or ended."""
        numbers = [self._number.get(word, UNKNOWN) for word in words[:steps]]
        return [*numbers, END] if len(words) < steps else numbers

    def spelled(self, numbers: Sequence[int]) -> list[str]:
        """The words of these numbers."""
        return [SPECIAL[k] if k < len(SPECIAL) else self.words[k - len(SPECIAL)] for k in numbers]

    def table(self, tokens: TokenTable, steps: int = STEPS) -> Ragged:
        """Each sentence's words as numbers, cut or ended: int32."""
        known = np.array([self._number.get(word, UNKNOWN) for word in tokens.vocabulary.words], np.int32)
        lengths = tokens.ids.lengths
        kept = np.minimum(lengths, steps)
        ended = (lengths < steps).astype(np.int64)
        found = Ragged.from_lengths(np.full(int((kept + ended).sum()), END, np.int32), kept + ended)
        within = np.arange(int(kept.sum())) - np.repeat(np.cumsum(kept) - kept, kept)
        source = np.repeat(tokens.ids.offsets[:-1], kept) + within
        found.values[np.repeat(found.offsets[:-1], kept) + within] = known[tokens.ids.values[source]]
        return found


@dataclass(frozen=True)
class ReleasedTokens:
    """Analysis: tokens as in the released code: lower-cased and split by the Penn Treebank's rules.

    Dropped are tokens that are substrings of `string.punctuation`: `.` and `,`, but not `...`, quotation marks (two
    characters each) or `--`.
    """

    life: ClassVar[Life] = "run"
    portable: ClassVar[bool] = True

    def run(self, pool: Sentences) -> TokenTable:
        """The token table of this pool."""
        return TokenTable.from_lists(
            [
                [
                    token
                    for token in split_as_written(sentence.lower())
                    if token not in string.punctuation and token not in _BRACKETS
                ]
                for sentence in pool.sentences
            ]
        )


def tokens_of(pool: Sentences, as_released: bool) -> TokenTable:
    """The words of each sentence: PTB tokens without punctuation, or the released code's."""
    found: TokenTable = pool.analyse(ReleasedTokens() if as_released else Tokens("ptb"))
    return found


def word_counts(tokens: TokenTable) -> Counter[str]:
    """How often each word occurs."""
    counts = np.bincount(tokens.ids.values, minlength=len(tokens.vocabulary))
    return Counter(dict(zip(tokens.vocabulary.words, counts.tolist(), strict=True)))
