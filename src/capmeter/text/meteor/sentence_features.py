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

    @classmethod
    def join(cls, tables: Sequence[MeteorFeatureTable], places: Sequence[npt.NDArray[np.int64]]) -> MeteorFeatureTable:
        """Joins the tables of disjoint parts of a pool."""
        vocabulary, new_ids = merge_vocabularies(table.table.vocabulary for table in tables)
        id_rows, new_words, synsets, phrase_rows, word_count, phrase_begin = [], [], [], [], 0, 0
        for table, table_ids in zip(tables, new_ids, strict=True):
            id_rows.append(Ragged(table_ids[table.table.ids.values], table.table.ids.offsets))
            new_words.append(np.flatnonzero(table_ids >= word_count))  # the words of no table before, in their order
            synsets.append(table.synsets.take(new_words[-1]))
            phrase_rows.append(Ragged(np.arange(phrase_begin, phrase_begin + len(table.start)), table.phrases.offsets))
            word_count, phrase_begin = word_count + len(new_words[-1]), phrase_begin + len(table.start)
        merged_phrases = Ragged.merged(phrase_rows, places)

        def of_words(name: str) -> Any:
            columns = zip(tables, new_words, strict=True)
            return np.concatenate([getattr(table, name)[words] for table, words in columns])

        def of_phrases(columns: list[Ints]) -> Ints:
            values: Ints = np.concatenate(columns)[merged_phrases.values]
            return values

        return cls(
            table=TokenTable(Ragged.merged(id_rows, places), vocabulary),
            exact=of_words("exact"),
            stem=of_words("stem"),
            function=of_words("function"),
            synsets=Ragged.from_lengths(
                np.concatenate([word_synsets.values for word_synsets in synsets]),
                np.concatenate([word_synsets.lengths for word_synsets in synsets]),
            ),
            node=of_words("node"),
            phrases=Ragged(of_phrases([table.phrases.values for table in tables]), merged_phrases.offsets),
            start=of_phrases([table.start for table in tables]),
            length=of_phrases([table.length for table in tables]),
        )


def compute_features(table: TokenTable, resources: MeteorResources) -> MeteorFeatureTable:
    """Computes the features of sentences, given as normalised tokens."""
    vocabulary, word_ids, sentence_offsets = table.vocabulary.words, table.ids.values, table.ids.offsets
    exact_codes, word_count, no_ids = java_hashes(vocabulary), len(vocabulary), np.zeros(0, np.int64)
    phrases = Ragged(no_ids, np.zeros(len(table.ids) + 1, np.int64))
    phrase_starts: Ints = no_ids
    phrase_lengths: Ints = no_ids
    word_nodes = np.full(word_count, -1)
    if (paraphrase_index := resources.paraphrases) is not None:
        word_nodes = np.fromiter((paraphrase_index.words.get(word, -1) for word in vocabulary), np.int64, word_count)
        position, size, nodes = paraphrase_index.phrases(word_nodes[word_ids], sentence_offsets)
        long_phrases = np.flatnonzero(size > 1)
        position = position[long_phrases]
        sentence = table.ids.rows[position]
        order = np.argsort(sentence, kind="stable")
        phrases = Ragged.from_lengths(nodes[long_phrases][order], np.bincount(sentence, minlength=len(table.ids)))
        phrase_starts, phrase_lengths = (position - sentence_offsets[sentence])[order], size[long_phrases][order]
    return MeteorFeatureTable(
        table=table,
        exact=exact_codes,
        stem=java_hashes([resources.stem(word) for word in vocabulary]) if resources.stem else exact_codes,
        function=np.fromiter((word in resources.function_words for word in vocabulary), bool, word_count),
        synsets=resources.synonyms.synsets(vocabulary)
        if resources.synonyms
        else Ragged(no_ids, np.zeros(word_count + 1, np.int64)),
        node=word_nodes,
        phrases=phrases,
        start=phrase_starts,
        length=phrase_lengths,
    )


@dataclass(frozen=True)
class MeteorFeatures:
    """Analysis: the METEOR features of each sentence of a pool."""

    language: str
    tokenizer: str
    path: str | None
    TABLE: ClassVar[type[MeteorFeatureTable]] = MeteorFeatureTable

    @property
    def _resources(self) -> MeteorResources:
        return load_meteor_resources(self.language, self.path)

    @property
    def identity(self) -> str:
        """The name, the versions of the tokenizer and of METEOR's resources, and the package's."""
        resource_versions = f"{self._resources.word_list_version}/{self._resources.paraphrase_version}"
        return f"meteor/{tokenizer_version(self.tokenizer)}/{self.language}/{resource_versions}/{__version__}"

    def compute(self, pool: SentenceSource) -> MeteorFeatureTable:
        """Computes the features of this pool's sentences."""
        tokens: TokenTable = pool.analyse(Tokens(self.tokenizer))
        sentence_count = len(tokens.ids)
        text_sentences = Ragged(np.arange(sentence_count), np.arange(sentence_count + 1))
        return compute_features(normalise_texts(tokens, text_sentences, self._resources.normalise), self._resources)


def java_hashes(words: Sequence[str]) -> Ints:
    """Returns Java's hash codes of strings: Σ unitᵢ 31^(n−1−i) over the n units of UTF-16, modulo 2³².

    >>> java_hashes(["dog", "variants", "gelato"]).tolist()
    [99644, 3045392526, 3045392526]
    """
    hash_codes: Ints = (polynomial_hashes(words, 31) & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return hash_codes
