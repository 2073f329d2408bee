"""Captions as word ids for LEIC (A.2): at most 15 words, with an end token if there is room for it.

Ids 0 to 3 are `<pad>`, `<unk>`, `<sos>` and `<eos>`; words follow, the most frequent first. A caption of fewer than 15
words ends with `<eos>`; a longer one is truncated to 15 words without it. Critics may use other maxima (`steps`).

>>> words = CriticVocabulary(["a", "dog"])
>>> words.encode(["a", "big", "dog"])
[4, 1, 5, 3]
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from capmeter.core.ragged import Ragged
from capmeter.text.tokenization.ptb import split_as_written
from capmeter.text.tokenization.token_tables import SentenceSource, Tokens, TokenTable
from capmeter_research.papers.leic.shape import MAX_WORDS

SPECIAL = ("<pad>", "<unk>", "<sos>", "<eos>")
PAD, UNKNOWN, START, END = range(4)
VOCABULARY_SIZE, MIN_COUNT = 10_000, 5
_BRACKETS = frozenset(("-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-"))  # the Penn Treebank's spelling of ( [ {


class CriticVocabulary:
    """The words of a critic, in the order of their ids."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._ids = {word: word_id for word_id, word in enumerate(self.words, start=len(SPECIAL))}

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.words)

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], size: int = VOCABULARY_SIZE, min_count: int = MIN_COUNT
    ) -> CriticVocabulary:
        """The most frequent words; ties are broken by spelling.

        Args:
            counts: word → number of captions or places that have it.
            size: number of words at most.
            min_count: the least count.
        """
        ordered_words = sorted(
            (word for word, count in counts.items() if count >= min_count), key=lambda w: (-counts[w], w)
        )
        return cls(ordered_words[:size])

    def encode(self, words: Sequence[str], steps: int = MAX_WORDS) -> list[int]:
        """One caption's words as ids, truncated or ended."""
        ids = [self._ids.get(word, UNKNOWN) for word in words[:steps]]
        return [*ids, END] if len(words) < steps else ids

    def decode(self, ids: Sequence[int]) -> list[str]:
        """The words of these ids."""
        return [SPECIAL[k] if k < len(SPECIAL) else self.words[k - len(SPECIAL)] for k in ids]

    def encode_table(self, tokens: TokenTable, steps: int = MAX_WORDS) -> Ragged:
        """Each sentence's words as ids (int32), truncated or ended."""
        ids = np.array([self._ids.get(word, UNKNOWN) for word in tokens.vocabulary.words], np.int32)
        lengths = np.minimum(tokens.ids.lengths, steps)
        padded_lengths = lengths + (tokens.ids.lengths < steps)
        id_table = Ragged.from_lengths(np.full(int(padded_lengths.sum()), END, np.int32), padded_lengths)
        within_sentence = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        token_positions = np.repeat(tokens.ids.offsets[:-1], lengths) + within_sentence
        id_table.values[np.repeat(id_table.offsets[:-1], lengths) + within_sentence] = ids[
            tokens.ids.values[token_positions]
        ]
        return id_table


@dataclass(frozen=True)
class ReleasedTokens:
    """Analysis: tokens of the released code: lower-cased and split by the Penn Treebank's rules.

    Tokens that are substrings of `string.punctuation` are dropped: `.` and `,`, but not `...`, quotation marks (two
    characters each) or `--`.
    """

    portable: ClassVar[bool] = True

    def compute(self, pool: SentenceSource) -> TokenTable:
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


def tokenise_captions(pool: SentenceSource, as_released: bool) -> TokenTable:
    """The words of each sentence: PTB tokens without punctuation, or the released code's."""
    token_table: TokenTable = pool.analyse(ReleasedTokens() if as_released else Tokens("ptb"))
    return token_table


def count_words(tokens: TokenTable) -> Counter[str]:
    """The number of occurrences of each word."""
    word_counts = np.bincount(tokens.ids.values, minlength=len(tokens.vocabulary))
    return Counter(dict(zip(tokens.vocabulary.words, word_counts.tolist(), strict=True)))
