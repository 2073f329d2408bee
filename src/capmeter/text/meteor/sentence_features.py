"""Per-sentence METEOR features: words as ids, their synsets, and where phrases of the paraphrase table begin.

They depend on the sentence and on METEOR's resources, not on the sentence that it is compared with, so that they are
computed once for each sentence of a pool, and cached on disk for references (`capmeter.captions.reference_cache`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.captions.caption_set import CacheScope
from capmeter.captions.reference_cache import Arrays, compact_integers
from capmeter.core.ragged import Ragged
from capmeter.text.meteor.normaliser import normalise_texts
from capmeter.text.meteor.resources import MeteorResources, load_meteor_resources
from capmeter.text.meteor.synonyms import polynomial_hashes
from capmeter.text.meteor.word_matches import Ints
from capmeter.text.tokenization.token_tables import (
    SentenceSource,
    Tokens,
    TokenTable,
    merge_vocabularies,
    tokenizer_version,
)


@dataclass(frozen=True, eq=False)
class MeteorFeatureTable:
    """Normalised sentences with the features of their words and phrases."""

    table: TokenTable
    exact: Ints  # (vocabulary,): Java's hash code of the word
    stem: Ints  # (vocabulary,): Java's hash code of the stem, of the word if the language has no stemmer
    function: npt.NDArray[np.bool_]  # (vocabulary,): whether it is a function word
    synsets: Ragged  # (vocabulary)
    node: Ints  # (vocabulary,): its node in the paraphrase table, -1 without one
    phrases: Ragged  # (sentences): the nodes of phrases of two or more words, or of their beginnings
    start: Ints  # (phrases,): position of the first word in the sentence
    length: Ints  # (phrases,): number of words


def compute_features(table: TokenTable, resources: MeteorResources) -> MeteorFeatureTable:
    """Computes the features of sentences, given as normalised tokens."""
    vocabulary, words, offsets = table.vocabulary.words, table.ids.values, table.ids.offsets
    exact, count, nothing = java_hashes(vocabulary), len(vocabulary), np.zeros(0, np.int64)
    phrases = Ragged(nothing, np.zeros(len(table.ids) + 1, np.int64))
    start: Ints = nothing
    length: Ints = nothing
    node = np.full(count, -1)
    if (index := resources.paraphrases) is not None:
        node = np.fromiter((index.words.get(word, -1) for word in vocabulary), np.int64, count)
        position, size, nodes = index.phrases(node[words], offsets)
        long = np.flatnonzero(size > 1)
        position = position[long]
        sentence = table.ids.rows[position]
        order = np.argsort(sentence, kind="stable")
        phrases = Ragged.from_lengths(nodes[long][order], np.bincount(sentence, minlength=len(table.ids)))
        start, length = (position - offsets[sentence])[order], size[long][order]
    return MeteorFeatureTable(
        table=table,
        exact=exact,
        stem=java_hashes([resources.stem(word) for word in vocabulary]) if resources.stem else exact,
        function=np.fromiter((word in resources.function_words for word in vocabulary), bool, count),
        synsets=resources.synonyms.synsets(vocabulary)
        if resources.synonyms
        else Ragged(nothing, np.zeros(count + 1, np.int64)),
        node=node,
        phrases=phrases,
        start=start,
        length=length,
    )


@dataclass(frozen=True)
class MeteorFeatures:
    """Analysis: the METEOR features of each sentence of a pool."""

    language: str
    tokenizer: str
    path: str | None
    cache_scope: ClassVar[CacheScope] = "batch"
    ARRAYS: ClassVar[tuple[str, ...]] = (
        *Tokens.ARRAYS,
        *("exact", "stem", "function", "synsets", "synset-counts", "node"),
        *("phrases", "phrase-counts", "start", "length"),
    )

    @property
    def _resources(self) -> MeteorResources:
        return load_meteor_resources(self.language, self.path)

    @property
    def identity(self) -> str:
        """The name, the versions of the tokenizer and of METEOR's resources, and the package's."""
        versions = f"{self._resources.word_list_version}/{self._resources.paraphrase_version}"
        return f"meteor/{tokenizer_version(self.tokenizer)}/{self.language}/{versions}/{__version__}"

    def run(self, pool: SentenceSource) -> MeteorFeatureTable:
        """Computes the features of this pool's sentences."""
        tokens: TokenTable = pool.analyse(Tokens(self.tokenizer))
        count = len(tokens.ids)
        each = Ragged(np.arange(count), np.arange(count + 1))
        return compute_features(normalise_texts(tokens, each, self._resources.normalise), self._resources)

    def arrays(self, table: MeteorFeatureTable, rows: npt.NDArray[np.int64]) -> Arrays:
        """Encodes rows as arrays over the words that they contain."""
        _, words = table.table.compact(rows)
        synsets = table.synsets.take(words)
        phrase = Ragged(np.arange(len(table.start)), table.phrases.offsets).take(rows)
        arrays = {
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
        small_arrays = {name: compact_integers(numbers) for name, numbers in arrays.items()}
        return {**Tokens(self.tokenizer).arrays(table.table, rows), **small_arrays}

    def table(self, arrays: Arrays) -> MeteorFeatureTable:
        """Decodes what `arrays` returned."""
        columns = {name: arrays[name].astype(np.int64) for name in self.ARRAYS if name not in Tokens.ARRAYS}
        return MeteorFeatureTable(
            table=Tokens(self.tokenizer).table(arrays),
            exact=columns["exact"],
            stem=columns["stem"],
            function=columns["function"].astype(bool),
            synsets=Ragged.from_lengths(columns["synsets"], columns["synset-counts"]),
            node=columns["node"] - 1,
            phrases=Ragged.from_lengths(columns["phrases"], columns["phrase-counts"]),
            start=columns["start"],
            length=columns["length"],
        )

    def merge_tables(
        self, tables: Sequence[MeteorFeatureTable], places: Sequence[npt.NDArray[np.int64]]
    ) -> MeteorFeatureTable:
        """Merges the tables of disjoint parts of a pool."""
        vocabulary, new_ids = merge_vocabularies(each.table.vocabulary for each in tables)
        rows, new_words, synsets, phrase_rows, word_count, begin = [], [], [], [], 0, 0
        for each, ids in zip(tables, new_ids, strict=True):
            rows.append(Ragged(ids[each.table.ids.values], each.table.ids.offsets))
            new_words.append(np.flatnonzero(ids >= word_count))  # the words of no table before, in their order
            synsets.append(each.synsets.take(new_words[-1]))
            phrase_rows.append(Ragged(np.arange(begin, begin + len(each.start)), each.phrases.offsets))
            word_count, begin = word_count + len(new_words[-1]), begin + len(each.start)
        phrase = Ragged.merged(phrase_rows, places)

        def of_words(name: str) -> Any:
            columns = zip(tables, new_words, strict=True)
            return np.concatenate([getattr(each, name)[words] for each, words in columns])

        def of_phrases(columns: list[Ints]) -> Ints:
            values: Ints = np.concatenate(columns)[phrase.values]
            return values

        return MeteorFeatureTable(
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
    """Returns Java's hash code of a string.

    >>> java_hash("variants") == java_hash("gelato")
    True
    """
    return int(java_hashes([word])[0])


def java_hashes(words: Sequence[str]) -> Ints:
    """Returns Java's hash codes of strings: Σ unitᵢ 31^(n−1−i) over the n units of UTF-16, modulo 2³²."""
    codes: Ints = (polynomial_hashes(words, 31) & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return codes
