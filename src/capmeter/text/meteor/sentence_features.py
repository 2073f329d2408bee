"""Per-sentence METEOR features: words as ids, their synsets, and where phrases of the paraphrase table begin.

They depend on the sentence and on METEOR's resources, not on the sentence that it is compared with, so that they are
computed once for each sentence of a pool, and cached on disk for references (`capmeter.captions.reference_cache`).

Sentences prepared for METEOR's aligner: which of their words and phrases may match.

Word identity follows the reference program, which compares 32-bit hash codes of words and stems: two words with the
same hash ("variants" and "gelato") count as the same word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter._version import __version__
from capmeter.core.ragged import Ragged, differ, distinct, expand_ranges, row_offsets
from capmeter.text.meteor.resources import MeteorResources, load_meteor_resources, normalise_texts
from capmeter.text.meteor.synonyms import Ints, polynomial_hashes
from capmeter.text.tokenization.token_tables import (
    SentenceSource,
    Tokens,
    TokenTable,
    merge_vocabularies,
    tokenizer_version,
)


@dataclass(frozen=True, eq=False)
class _MeteorFeatureTable:
    """Normalised sentences with the features of their words and phrases."""

    table: TokenTable
    exact: Ints  # (vocabulary,): Java's hash code of the word
    stem: Ints  # (vocabulary,): Java's hash code of the stem, of the word if the language has no stemmer
    function: npt.NDArray[np.bool_]  # (vocabulary,): whether it is a function word
    synsets: Ragged  # (vocabulary)
    word_phrase: Ints  # (vocabulary,): the word as a phrase of the paraphrase table, -1 if it is none
    phrases: Ragged  # (sentences): phrases of two or more words
    start: Ints  # (phrases,): position of the first word in the sentence
    length: Ints  # (phrases,): number of words

    @classmethod
    def join(
        cls, tables: Sequence[_MeteorFeatureTable], places: Sequence[npt.NDArray[np.int64]]
    ) -> _MeteorFeatureTable:
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
            word_phrase=of_words("word_phrase"),
            phrases=Ragged(of_phrases([table.phrases.values for table in tables]), merged_phrases.offsets),
            start=of_phrases([table.start for table in tables]),
            length=of_phrases([table.length for table in tables]),
        )


def compute_features(table: TokenTable, resources: MeteorResources) -> _MeteorFeatureTable:
    """Computes the features of sentences, given as normalised tokens."""
    vocabulary, word_ids, sentence_offsets = table.vocabulary.words, table.ids.values, table.ids.offsets
    exact_codes, word_count, no_ids = java_hashes(vocabulary), len(vocabulary), np.zeros(0, np.int64)
    phrases = Ragged(no_ids, np.zeros(len(table.ids) + 1, np.int64))
    phrase_starts: Ints = no_ids
    phrase_lengths: Ints = no_ids
    word_phrases = np.full(word_count, -1)
    if (paraphrase_index := resources.paraphrases) is not None:
        word_phrases, position, phrase_lengths, phrase_ids = paraphrase_index.phrases(
            vocabulary, word_ids, sentence_offsets
        )
        sentence = table.ids.rows[position]
        phrases = Ragged.from_lengths(phrase_ids, np.bincount(sentence, minlength=len(table.ids)))
        phrase_starts = position - sentence_offsets[sentence]
    return _MeteorFeatureTable(
        table=table,
        exact=exact_codes,
        stem=java_hashes([resources.stem(word) for word in vocabulary]) if resources.stem else exact_codes,
        function=np.fromiter((word in resources.function_words for word in vocabulary), bool, word_count),
        synsets=resources.synonyms.synsets(vocabulary)
        if resources.synonyms
        else Ragged(no_ids, np.zeros(word_count + 1, np.int64)),
        word_phrase=word_phrases,
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
    TABLE: ClassVar[type[_MeteorFeatureTable]] = _MeteorFeatureTable

    @property
    def _resources(self) -> MeteorResources:
        return load_meteor_resources(self.language, self.path)

    @property
    def identity(self) -> str:
        """The name, the versions of the tokenizer and of METEOR's resources, and the package's."""
        resource_versions = f"{self._resources.word_list_version}/{self._resources.paraphrase_version}"
        return f"meteor/{tokenizer_version(self.tokenizer)}/{self.language}/{resource_versions}/{__version__}"

    def compute(self, pool: SentenceSource) -> _MeteorFeatureTable:
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


Mask = npt.NDArray[np.bool_]
RANK_BITS = 40  # of the rank in a relation's value, below its kind
SYNONYM, FORWARD, BACKWARD = 0, 1, 2
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class _PairTable:
    """A multiset of ordered pairs of numbers below 2**31, each with a value, for batched look-ups.

    Args:
        left: first numbers (pairs,).
        right: second numbers (pairs,).
        values: (pairs,).
    """

    def __init__(self, left: Ints, right: Ints, values: Ints) -> None:
        pair_keys = left.astype(np.int64) << 32 | right.astype(np.int64)
        key_order = np.argsort(pair_keys, kind="stable")
        starts = np.flatnonzero(differ(pair_keys[key_order]))
        self._keys = pair_keys[key_order[starts]]
        self._values = Ragged(values[key_order], np.append(starts, len(values)))
        self._shift = np.uint64(64 - max(12, (8 * len(self._keys)).bit_length()))
        # This hash table rejects nearly all queries at once.
        self._occupied = np.zeros(1 << int(64 - self._shift), bool)
        self._occupied[self._hash(self._keys)] = True

    def _hash(self, pair_keys: Ints) -> npt.NDArray[np.uint64]:
        key_hashes: npt.NDArray[np.uint64] = pair_keys.view(np.uint64) * _HASH_FACTOR >> self._shift
        return key_hashes

    def sides(self) -> tuple[Ints, Ints]:
        """Returns the left and the right numbers of the distinct pairs."""
        return self._keys >> 32, self._keys & 0xFFFFFFFF

    def find(self, left: Ints, right: Ints) -> tuple[Ints, Ints]:
        """Looks pairs up; returns the indices of those in the table (one per occurrence), and their values."""
        pair_keys = left.astype(np.int64, copy=False) << 32 | right
        possible_indices = np.flatnonzero(self._occupied.take(self._hash(pair_keys).view(np.int64)))
        positions = np.searchsorted(self._keys, pair_keys[possible_indices])
        is_present = self._keys.take(positions, mode="clip") == pair_keys[possible_indices]
        found_values = self._values.take(positions[is_present])
        return np.repeat(possible_indices[is_present], found_values.lengths), found_values.values


@dataclass(frozen=True, eq=False)
class AlignerSentences:
    """Sentences as the aligner reads them.

    A phrase is one or more words that a synonym or a paraphrase may match. Phrases k and l can match only if
    `related_signs[k] & sign[l]`. Both arrays are longer than the phrases, so that one may read beyond the end.
    """

    table: TokenTable
    exact: npt.NDArray[np.int32]  # (vocabulary,): equal numbers are the same word
    stem: npt.NDArray[np.int32] | None  # (vocabulary,): equal numbers are the same stem; None without a stemmer
    function_sum: Ints  # (words + 1,): number of function words before each position
    relations: (
        _PairTable  # a reference's phrase, a candidate's phrase: `SYNONYM`, or direction and rank of a paraphrase
    )
    phrase_start: Ints  # (phrases,): position of the first word in the sentence
    phrase_length: Ints  # (phrases,): number of words
    phrase: Ints  # (phrases,): id; that of a single word is the word's
    phrase_offsets: Ints  # (sentences + 1,)
    related_signs: npt.NDArray[np.uint64]  # (more than phrases,): the bits of all phrases that it may match
    sign: npt.NDArray[np.uint64]  # (more than phrases,): one of 64 bits

    @property
    def words(self) -> Ints:
        """The words of all sentences, as indices into the vocabulary (words,)."""
        return self.table.ids.values

    @property
    def offsets(self) -> Ints:
        """Where each sentence begins in `words`, and the end of the last (sentences + 1,)."""
        return self.table.ids.offsets

    @cached_property
    def lengths(self) -> Ints:
        """The number of words of each sentence (sentences,)."""
        return self.table.ids.lengths

    @cached_property
    def padded(self) -> Ints:
        """`words`, and zeros, so that one may read beyond the end of the last sentence."""
        return np.concatenate([self.words, np.zeros(int(self.lengths.max(initial=0)) + 1, np.int64)])


def prepare_sentences(features: _MeteorFeatureTable, resources: MeteorResources, candidates: Ints) -> AlignerSentences:
    """Prepares sentences for alignment.

    Args:
        features: of all sentences.
        resources: METEOR's resources.
        candidates: indices of the sentences that are candidates; other synonyms and paraphrases are left out.
    """
    token_table, word_count = features.table, len(features.table.vocabulary)
    word_ids, sentence_offsets = token_table.ids.values, token_table.ids.offsets
    in_candidate = np.zeros(word_count, bool)
    in_candidate[token_table.ids.take(candidates).values] = True
    synonym_pairs = _pair_synonyms(features.synsets, in_candidate)
    long_phrases, paraphrase_pairs, phrase_id = _pair_paraphrases(features, resources, candidates, in_candidate)
    # A word is a phrase if a synonym or a paraphrase of it occurs; longer phrases have been selected already.
    is_phrase = np.zeros(word_count, bool)
    for pair_side in (*synonym_pairs, *paraphrase_pairs[:2]):
        is_phrase[pair_side[pair_side < word_count]] = True
    single_words = np.flatnonzero(is_phrase[word_ids])
    single_sentence = token_table.ids.rows[single_words]
    phrase_sentences = np.concatenate([single_sentence, features.phrases.rows[long_phrases]])
    phrase_order = np.argsort(phrase_sentences, kind="stable")
    phrase_starts = np.concatenate([single_words - sentence_offsets[single_sentence], features.start[long_phrases]])
    phrase_lengths = np.concatenate([np.ones(len(single_words), np.int64), features.length[long_phrases]])
    phrase_id = np.concatenate([word_ids[single_words], phrase_id])[phrase_order]
    padding = np.zeros(int(np.bincount(phrase_sentences).max(initial=0)) + 1, np.uint64)
    relations = _build_relations(synonym_pairs, paraphrase_pairs)
    related_signs, phrase_signs = _compute_signs(phrase_id, relations)
    return AlignerSentences(
        table=token_table,
        exact=_rank_codes(features.exact),
        stem=_rank_codes(features.stem) if resources.stem else None,
        function_sum=row_offsets(features.function[word_ids].astype(np.int64)),
        relations=relations,
        phrase_start=phrase_starts[phrase_order],
        phrase_length=phrase_lengths[phrase_order],
        phrase=phrase_id,
        phrase_offsets=row_offsets(np.bincount(phrase_sentences, minlength=len(token_table.ids))),
        related_signs=np.concatenate([related_signs[phrase_id], padding]),
        sign=np.concatenate([phrase_signs[phrase_id], padding]),
    )


def _rank_codes(word_codes: Ints) -> npt.NDArray[np.int32]:
    code_ranks: npt.NDArray[np.int32] = np.unique(word_codes, return_inverse=True)[1].astype(np.int32)
    return code_ranks


def _build_relations(synonym_pairs: tuple[Ints, Ints], paraphrase_pairs: tuple[Ints, Ints, Ints]) -> _PairTable:
    """Returns the pairs of words that share a synset, and those of the paraphrase table in both directions."""
    (one, other), (left, right, rank) = synonym_pairs, paraphrase_pairs
    relation_values = np.zeros(len(one), np.int64), FORWARD << RANK_BITS | rank, BACKWARD << RANK_BITS | rank
    return _PairTable(
        np.concatenate([one, left, right]), np.concatenate([other, right, left]), np.concatenate(relation_values)
    )


def _compute_signs(phrase_id: Ints, relations: _PairTable) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Returns for each phrase the signs of all that it is related to, and its own sign.

    Phrases may be related to ones that none of the sentences has: the vocabulary can be that of more sentences.
    """
    left_phrases, right_phrases = relations.sides()
    phrase_count = 1 + max(int(side_ids.max(initial=0)) for side_ids in (phrase_id, left_phrases, right_phrases))
    phrase_signs = np.uint64(1) << (np.arange(phrase_count, dtype=np.uint64) * _HASH_FACTOR >> np.uint64(58))
    related_signs = np.zeros(phrase_count, np.uint64)
    np.bitwise_or.at(related_signs, left_phrases, phrase_signs[right_phrases])
    return related_signs, phrase_signs


def _pair_synonyms(synsets: Ragged, in_candidate: Mask) -> tuple[Ints, Ints]:
    """Returns all pairs of words that share a synset, at least one of them in a candidate, in both orders."""
    synset_ids, word_ids = synsets.values.astype(np.int64), synsets.rows
    synset_order = np.argsort(synset_ids, kind="stable")
    _, first_members, member_counts = np.unique(synset_ids[synset_order], return_index=True, return_counts=True)
    synset_words = word_ids[synset_order]
    left_words = np.repeat(synset_words, np.repeat(member_counts, member_counts))
    right_words = synset_words[
        expand_ranges(np.repeat(first_members, member_counts), np.repeat(member_counts, member_counts))
    ]
    is_pair = (left_words != right_words) & (in_candidate[left_words] | in_candidate[right_words])
    pair_keys = distinct(left_words[is_pair] << 32 | right_words[is_pair])
    return pair_keys >> 32, pair_keys & 0xFFFFFFFF


def _pair_paraphrases(
    features: _MeteorFeatureTable, resources: MeteorResources, candidates: Ints, in_candidate: Mask
) -> tuple[Ints, tuple[Ints, Ints, Ints], Ints]:
    """Finds the paraphrases among the phrases of the sentences.

    Returns:
        The indices of longer phrases that may be paraphrases; all pairs of phrases, at least one of them in a
        candidate, with their ranks; and the ids of these longer phrases.
    """
    no_ids = np.zeros(0, np.int64)
    if resources.paraphrases is None:
        return no_ids, (no_ids, no_ids, no_ids), no_ids
    paraphrase_index, word_count = resources.paraphrases, len(in_candidate)
    word_ids = np.flatnonzero(features.word_phrase >= 0)
    occurring = distinct(np.concatenate([features.word_phrase[word_ids], features.phrases.values]))
    # The id of a single word is that in the vocabulary; those of longer phrases follow; other phrases of the table: -1.
    phrase_ids = np.full(len(paraphrase_index.hashes), -1, np.int32)
    phrase_ids[occurring] = word_count + np.arange(len(occurring))
    phrase_ids[features.word_phrase[word_ids]] = word_ids
    is_candidate_phrase = np.zeros(word_count + len(occurring), bool)
    is_candidate_phrase[:word_count] = in_candidate
    is_candidate_phrase[phrase_ids[features.phrases.take(candidates).values]] = True
    left, right, rank = paraphrase_index.rights(occurring)
    left, right = phrase_ids[occurring[left]], phrase_ids[right]
    occurring_pairs = np.flatnonzero(right >= 0)
    left, right, rank = left[occurring_pairs], right[occurring_pairs], rank[occurring_pairs]
    relevant_pairs = is_candidate_phrase[left] | is_candidate_phrase[right]
    left, right, rank = left[relevant_pairs], right[relevant_pairs], rank[relevant_pairs]
    occurrence_ids = phrase_ids[features.phrases.values]
    is_related = np.zeros(word_count + len(occurring), bool)
    is_related[left] = is_related[right] = True
    related_occurrences = np.flatnonzero(is_related[occurrence_ids])
    return related_occurrences, (left, right, rank), occurrence_ids[related_occurrences]
