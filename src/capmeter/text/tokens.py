"""Tokens of every sentence of a pool, as integers over one vocabulary.

There are two views because the standard code has two: ROUGE-L splits a tokenised caption at spaces (`Tokens`); BLEU and
CIDEr split it at any white space (`Words`), which differs where a token contains a no-break space (`1 1/2`).
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.captions.kept import Arrays, smallest
from capmeter.captions.model import Life
from capmeter.errors import InputError
from capmeter.ragged import Ragged
from capmeter.text import ptb
from capmeter.text.languages import PACKAGES, characters, language_version, split_words

TOKENIZERS = ("ptb", "whitespace", "char", *PACKAGES)
Tokenizer = Literal["ptb", "whitespace", "char", "zh", "ja", "ko"]


class Sentences(Protocol):
    """What an analysis of single sentences needs from a pool: the sentences and the results of other analyses."""

    @property
    def sentences(self) -> Sequence[str]:
        """The distinct sentences."""
        ...

    def analyse(self, analysis: Any) -> Any:
        """The table of another analysis."""
        ...


class Vocabulary:
    """The distinct words of a pool."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """A 64-bit hash of each word that is the same in every run and on every machine."""
        return np.frombuffer(b"".join(map(_digest, self.words)), "<u8").astype(np.uint64)


def union(vocabularies: Iterable[Vocabulary]) -> tuple[Vocabulary, list[npt.NDArray[np.int32]]]:
    """The words of all of them, in order of first use, and for each the numbers that its words have there."""
    numbers: dict[str, int] = {}
    found = [
        np.fromiter((numbers.setdefault(word, len(numbers)) for word in each.words), np.int32, len(each))
        for each in vocabularies
    ]
    return Vocabulary(numbers), found


@lru_cache(maxsize=1 << 17)
def _digest(word: str) -> bytes:
    return hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()


@dataclass(frozen=True, eq=False)
class TokenTable:
    """Each sentence's tokens: row i of `ids` has the words of sentence i as indices into the vocabulary."""

    ids: Ragged
    vocabulary: Vocabulary

    @classmethod
    def from_lists(cls, sentences: Sequence[Sequence[str]]) -> TokenTable:
        """The table of these token lists."""
        index: defaultdict[str, int] = defaultdict()
        index.default_factory = index.__len__
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        flat = np.fromiter(map(index.__getitem__, chain.from_iterable(sentences)), np.int32, int(lengths.sum()))
        return cls(Ragged.from_lengths(flat, lengths), Vocabulary(index))

    def take(self, indices: npt.NDArray[np.int64]) -> TokenTable:
        """The rows at these indices, over the same vocabulary."""
        return TokenTable(self.ids.take(indices), self.vocabulary)

    def narrowed(self, indices: npt.NDArray[np.int64]) -> tuple[TokenTable, npt.NDArray[np.int64]]:
        """The rows at these indices over the words that they have, and these words' numbers here."""
        rows = self.ids.take(indices)
        used = np.zeros(len(self.vocabulary), bool)
        used[rows.values] = True
        words = np.flatnonzero(used)
        number = (np.cumsum(used) - 1).astype(rows.values.dtype)
        known = self.vocabulary.words
        return TokenTable(
            Ragged(number[rows.values], rows.offsets), Vocabulary(known[k] for k in words.tolist())
        ), words

    def row(self, index: int) -> tuple[str, ...]:
        """One sentence's tokens as text."""
        return tuple(self.vocabulary.words[i] for i in self.ids[index].tolist())


def tokenizer_version(tokenizer: str) -> str:
    """The tokenizer's name and version for signatures; an unknown tokenizer is an `InputError`."""
    if tokenizer not in TOKENIZERS:
        raise InputError(f"unknown tokenizer {tokenizer!r}; expected one of {', '.join(sorted(TOKENIZERS))}")
    if tokenizer in PACKAGES:
        return language_version(tokenizer)
    return {"ptb": ptb.VERSION, "char": "char-1"}.get(tokenizer, tokenizer)


def token_lists(tokenizer: str, sentences: Sequence[str]) -> list[list[str]]:
    """The tokens of each sentence. `whitespace` takes sentences as already tokenised, one blank between tokens."""
    tokenizer_version(tokenizer)
    if tokenizer == "ptb":
        return ptb.tokenize_all(sentences)
    if tokenizer == "char":
        return [characters(sentence) for sentence in sentences]
    if tokenizer in PACKAGES:
        return split_words(tokenizer, sentences)
    return [sentence.split(" ") for sentence in sentences]


@dataclass(frozen=True)
class Tokens:
    """Analysis: the tokens of each sentence (see `token_lists`)."""

    tokenizer: str = "ptb"
    life: ClassVar[Life] = "run"
    portable: ClassVar[bool] = True
    ARRAYS: ClassVar[tuple[str, ...]] = ("ids", "lengths", "text", "letters")

    @property
    def identity(self) -> str:
        """The name, the tokenizer's version and the package's."""
        return f"tokens/{tokenizer_version(self.tokenizer)}/{__version__}"

    def arrays(self, table: TokenTable, rows: npt.NDArray[np.int64]) -> Arrays:
        """The words' numbers, the sentences' lengths, the words as one text, and how many letters each has."""
        table, _ = table.narrowed(rows)
        words = table.vocabulary.words
        text = "".join(words).encode("utf-8", "surrogatepass")
        return {
            "ids": smallest(table.ids.values),
            "lengths": smallest(table.ids.lengths),
            "text": np.frombuffer(text, np.uint8),
            "letters": smallest(np.fromiter(map(len, words), np.int64, len(words))),
        }

    def table(self, arrays: Arrays) -> TokenTable:
        """The table of these arrays."""
        text = arrays["text"].tobytes().decode("utf-8", "surrogatepass")
        ends = np.cumsum(arrays["letters"], dtype=np.int64).tolist()
        words = Vocabulary(text[begin:end] for begin, end in pairwise([0, *ends]))
        return TokenTable(Ragged.from_lengths(arrays["ids"].astype(np.int32), arrays["lengths"]), words)

    def joined(self, tables: Sequence[TokenTable], places: Sequence[npt.NDArray[np.int64]]) -> TokenTable:
        """The table of all sentences; words are numbered in the order of the tables."""
        vocabulary, numbers = union(table.vocabulary for table in tables)
        rows = [Ragged(n[table.ids.values], table.ids.offsets) for n, table in zip(numbers, tables, strict=True)]
        return TokenTable(Ragged.merged(rows, places), vocabulary)

    def run(self, pool: Sentences) -> TokenTable:
        """The token table of this pool."""
        if self.tokenizer == "ptb":
            rows, words = ptb.token_numbers(pool.sentences)
            return TokenTable(rows, Vocabulary(words))
        return TokenTable.from_lists(token_lists(self.tokenizer, pool.sentences))


@dataclass(frozen=True)
class Words:
    """Analysis: the same tokens split again at any white space, without empty ones (Python's `str.split`).

    With `letters`, words are runs of letters, digits and underscores (`\\w+`): `t-shirt` is two words, `&` none.
    """

    tokenizer: str = "ptb"
    letters: bool = False
    life: ClassVar[Life] = "run"
    portable: ClassVar[bool] = True

    def run(self, pool: Sentences) -> TokenTable:
        """The word table of this pool."""
        tokens: TokenTable = pool.analyse(Tokens(self.tokenizer))
        split = re.compile(r"\w+").findall if self.letters else str.split
        pieces = [split(word) for word in tokens.vocabulary.words]
        if all(
            len(piece) == 1 and piece[0] == word for piece, word in zip(pieces, tokens.vocabulary.words, strict=True)
        ):
            return tokens
        return TokenTable.from_lists(
            [[word for i in tokens.ids[row].tolist() for word in pieces[i]] for row in range(len(tokens.ids))]
        )
