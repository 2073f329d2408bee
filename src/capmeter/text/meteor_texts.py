"""What METEOR knows of each sentence alone: its words as numbers, their synsets, and where phrases of its table begin.

This depends on the sentence and on METEOR's resources, not on what it is compared with, so that it is made once for
each sentence of a pool, and kept on disk for references (`capmeter.captions.kept`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.captions.kept import Arrays, smallest
from capmeter.captions.model import Life
from capmeter.ragged import Ragged
from capmeter.text.meteor_normaliser import normalised
from capmeter.text.meteor_resources import MeteorLanguage, meteor_language
from capmeter.text.synonym_index import polynomials
from capmeter.text.tokens import Sentences, Tokens, TokenTable, tokenizer_version, union

Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class MeteorTexts:
    """Normalised sentences, and what is known of their words and phrases.

    Of each word of the vocabulary: the Java hash codes of the word and of its stem (its own if the language has no
    stemmer), whether it is a function word, its synsets, and its number in the paraphrase table (-1: not there).
    `phrases`: row i has the numbers in the table of the phrases of two or more words, or beginnings of such, in
    sentence i; `start` and `length` (shape of `phrases.values`) are their first word and how many they have.
    """

    table: TokenTable
    exact: Ints
    stem: Ints
    function: npt.NDArray[np.bool_]
    synsets: Ragged
    node: Ints
    phrases: Ragged
    start: Ints
    length: Ints


def texts_of(table: TokenTable, language: MeteorLanguage) -> MeteorTexts:
    """What is known of these sentences (normalised tokens)."""
    vocabulary, words, offsets = table.vocabulary.words, table.ids.values, table.ids.offsets
    exact, count, nothing = java_hashes(vocabulary), len(vocabulary), np.zeros(0, np.int64)
    phrases = Ragged(nothing, np.zeros(len(table.ids) + 1, np.int64))
    start: Ints = nothing
    length: Ints = nothing
    node = np.full(count, -1)
    if (index := language.paraphrases) is not None:
        node = np.fromiter((index.words.get(word, -1) for word in vocabulary), np.int64, count)
        place, size, found = index.phrases(node[words], offsets)
        long = np.flatnonzero(size > 1)
        place = place[long]
        sentence = table.ids.rows[place]
        order = np.argsort(sentence, kind="stable")
        phrases = Ragged.from_lengths(found[long][order], np.bincount(sentence, minlength=len(table.ids)))
        start, length = (place - offsets[sentence])[order], size[long][order]
    return MeteorTexts(
        table=table,
        exact=exact,
        stem=java_hashes([language.stem(word) for word in vocabulary]) if language.stem else exact,
        function=np.fromiter((word in language.function_words for word in vocabulary), bool, count),
        synsets=language.synonyms.synsets(vocabulary)
        if language.synonyms
        else Ragged(nothing, np.zeros(count + 1, np.int64)),
        node=node,
        phrases=phrases,
        start=start,
        length=length,
    )


@dataclass(frozen=True)
class Texts:
    """Analysis: what METEOR knows of each sentence of a pool."""

    language: str
    tokenizer: str
    path: str | None
    life: ClassVar[Life] = "part"
    _OF_WORDS: ClassVar[tuple[str, ...]] = ("exact", "stem", "function", "synsets", "synset-counts", "node")
    _OF_PHRASES: ClassVar[tuple[str, ...]] = ("phrases", "phrase-counts", "start", "length")
    ARRAYS: ClassVar[tuple[str, ...]] = (*Tokens.ARRAYS, *_OF_WORDS, *_OF_PHRASES)

    @property
    def _known(self) -> MeteorLanguage:
        return meteor_language(self.language, self.path)

    @property
    def identity(self) -> str:
        """The name, the versions of the tokenizer and of METEOR's resources, and the package's."""
        known = self._known
        resources = f"{self.language}/{known.lists}/{known.version}"
        return f"meteor/{tokenizer_version(self.tokenizer)}/{resources}/{__version__}"

    def run(self, pool: Sentences) -> MeteorTexts:
        """What is known of this pool's sentences."""
        tokens: TokenTable = pool.analyse(Tokens(self.tokenizer))
        count = len(tokens.ids)
        each = Ragged(np.arange(count), np.arange(count + 1))
        return texts_of(normalised(tokens, each, self._known.normalize), self._known)

    def arrays(self, table: MeteorTexts, rows: npt.NDArray[np.int64]) -> Arrays:
        """The arrays of these texts and of their words, as small as they can be."""
        _, words = table.table.narrowed(rows)
        synsets = table.synsets.take(words)
        phrase = Ragged(np.arange(len(table.start)), table.phrases.offsets).take(rows)
        whole = {
            "exact": table.exact[words],
            "stem": table.stem[words],
            "function": table.function[words].astype(np.int64),
            "synsets": synsets.values,
            "synset-counts": synsets.lengths,
            "node": table.node[words] + 1,
            "phrases": table.phrases.values[phrase.values],
            "phrase-counts": phrase.lengths,
            "start": table.start[phrase.values],
            "length": table.length[phrase.values],
        }
        kept = {name: smallest(numbers) for name, numbers in whole.items()}
        return {**Tokens(self.tokenizer).arrays(table.table, rows), **kept}

    def table(self, arrays: Arrays) -> MeteorTexts:
        """The texts of these arrays."""
        names = [*self._OF_WORDS, *self._OF_PHRASES]
        whole = {name: arrays[name].astype(np.int64) for name in names}
        return MeteorTexts(
            table=Tokens(self.tokenizer).table(arrays),
            exact=whole["exact"],
            stem=whole["stem"],
            function=whole["function"].astype(bool),
            synsets=Ragged.from_lengths(whole["synsets"], whole["synset-counts"]),
            node=whole["node"] - 1,
            phrases=Ragged.from_lengths(whole["phrases"], whole["phrase-counts"]),
            start=whole["start"],
            length=whole["length"],
        )

    def joined(self, tables: Sequence[MeteorTexts], places: Sequence[npt.NDArray[np.int64]]) -> MeteorTexts:
        """The texts of all sentences."""
        vocabulary, numbers = union(each.table.vocabulary for each in tables)
        rows, new, synsets, phrases, known, begin = [], [], [], [], 0, 0
        for each, number in zip(tables, numbers, strict=True):
            rows.append(Ragged(number[each.table.ids.values], each.table.ids.offsets))
            new.append(np.flatnonzero(number >= known))  # the words that no table before has, in their order
            synsets.append(each.synsets.take(new[-1]))
            phrases.append(Ragged(np.arange(begin, begin + len(each.start)), each.phrases.offsets))
            known, begin = known + len(new[-1]), begin + len(each.start)
        phrase = Ragged.merged(phrases, places)

        def of_words(name: str) -> Any:
            return np.concatenate([getattr(each, name)[words] for each, words in zip(tables, new, strict=True)])

        def of_phrases(columns: list[Ints]) -> Ints:
            found: Ints = np.concatenate(columns)[phrase.values]
            return found

        return MeteorTexts(
            table=TokenTable(Ragged.merged(rows, places), vocabulary),
            exact=of_words("exact"),
            stem=of_words("stem"),
            function=of_words("function"),
            synsets=Ragged.from_lengths(
                np.concatenate([each.values for each in synsets]), np.concatenate([each.lengths for each in synsets])
            ),
            node=of_words("node"),
            phrases=Ragged(of_phrases([each.phrases.values for each in tables]), phrase.offsets),
            start=of_phrases([each.start for each in tables]),
            length=of_phrases([each.length for each in tables]),
        )


def java_hash(word: str) -> int:
    """Java's hash code of a string.

    >>> java_hash("variants") == java_hash("gelato")
    True
    """
    return int(java_hashes([word])[0])


def java_hashes(words: Sequence[str]) -> Ints:
    """Java's hash codes of strings: Σ unitᵢ 31^(n−1−i) over the n units of UTF-16, modulo 2³²."""
    codes: Ints = (polynomials(words, 31) & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return codes
