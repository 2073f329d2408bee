"""METEOR's alignment: by hand, against plain Python, and against the Java program."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plain_meteor import PARAPHRASES, Match, align_in_plain_python, small_language

from capmeter.core.ragged import expand_ranges
from capmeter.text.meteor.aligner import MatchedPairs
from capmeter.text.meteor.resources import MeteorResources, load_meteor_resources
from capmeter.text.meteor.sentence_features import _PairTable, compute_features, java_hashes, prepare_sentences
from capmeter.text.tokenization.token_tables import TokenTable

WORDS = st.sampled_from(
    [
        "a",
        "a",
        "the",
        "on",
        "of",
        "dog",
        "dogs",
        "car",
        "automobile",
        "machine",
        "geese",
        "bird",
        "many",
        "lots",
        "of",
        "top",
        "red",
        "it",
        "the",
        "animal",
        "beast",
        "variants",
        "gelato",
    ]
)
SENTENCES = st.lists(WORDS, max_size=14)


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> MeteorResources:
    return small_language(tmp_path_factory.mktemp("meteor"))


def align(pairs: list[tuple[list[str], list[str]]], language: MeteorResources, **options: int) -> list[list[Match]]:
    features = compute_features(TokenTable.from_lists([side for pair in pairs for side in pair]), language)
    candidates = np.arange(0, 2 * len(pairs), 2)
    sentences = prepare_sentences(features, language, candidates)
    matched = MatchedPairs.from_sentences(sentences, candidates, candidates + 1, **options)
    matches = matched.align(np.arange(len(pairs)))
    alignments: list[list[Match]] = [[] for _ in pairs]
    columns = (matches.kind, matches.start, matches.length, matches.candidate_start, matches.candidate_length)
    for pair, *values in zip(matches.pair.tolist(), *(column.tolist() for column in columns), strict=True):
        alignments[pair].append(Match(*values))
    return alignments


def test_by_hand(language: MeteorResources) -> None:
    [alignment] = align(
        [
            (
                ["the", "geese", "ran", "to", "a", "lot", "of", "cars"],
                ["many", "automobiles", "ran", "to", "the", "birds"],
            )
        ],
        language,
    )
    # "geese" and "birds" share a synset by their base forms; "cars" and "automobiles" likewise
    assert alignment == [
        Match(3, 0, 1, 4, 3),
        Match(2, 1, 1, 7, 1),
        Match(0, 2, 1, 2, 1),
        Match(0, 3, 1, 3, 1),
        Match(0, 4, 1, 0, 1),
        Match(2, 5, 1, 1, 1),
    ]


def test_identical_sentences_match_word_by_word(language: MeteorResources) -> None:
    sentence = ["the", "dog", "the", "dog", "the", "dogs"]
    [alignment] = align([(sentence, sentence)], language)
    assert alignment == [Match(0, k, 1, k, 1) for k in range(6)]


def test_words_of_one_hash_are_one_word(language: MeteorResources) -> None:
    variants, gelato, variant = java_hashes(["variants", "gelato", "variant"]).tolist()
    assert variants == gelato != variant
    assert align([(["variants"], ["gelato"])], language) == [[Match(0, 0, 1, 0, 1)]]


def test_java_hashes_utf_16() -> None:
    assert java_hashes(["dog", "\U0001f600"]).tolist() == [99644, 31 * 0xD83D + 0xDE00]


@settings(max_examples=150)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=8), st.sampled_from([1, 2, 5, 40]))
def test_equals_the_search_in_plain_python(language, pairs, beam) -> None:
    expected = [align_in_plain_python(one, other, language, PARAPHRASES, beam) for one, other in pairs]
    assert align(pairs, language, beam=beam) == expected


@settings(max_examples=10)
@given(st.lists(WORDS, min_size=60, max_size=90), st.lists(WORDS, min_size=40, max_size=90))
def test_long_sentences_need_more_than_one_machine_word(language, one, other) -> None:
    assert align([(one, other)], language, beam=8) == [align_in_plain_python(one, other, language, PARAPHRASES, 8)]


@settings(max_examples=30)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=2, max_size=8))
def test_pairs_are_aligned_independently(language, pairs) -> None:
    together = align(pairs, language)
    sentences = [sentence for pair in pairs for sentence in pair]
    features = compute_features(TokenTable.from_lists(sentences), language)
    table = prepare_sentences(features, language, np.arange(0, len(sentences), 2))
    for k in range(len(pairs)):
        alone = MatchedPairs.from_sentences(table, np.array([2 * k]), np.array([2 * k + 1])).align(np.array([0]))
        assert [
            Match(*row)
            for row in zip(
                alone.kind.tolist(),
                alone.start.tolist(),
                alone.length.tolist(),
                alone.candidate_start.tolist(),
                alone.candidate_length.tolist(),
                strict=True,
            )
        ] == together[k]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=60), st.integers(0, 40), st.integers(0, 40))
def test_pair_table_finds_all_occurrences(pairs, left, right) -> None:
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    table = _PairTable(columns[:, 0], columns[:, 1], np.arange(len(pairs)))
    indices, values = table.find(np.array([7, left]), np.array([7, right]))
    expected = [
        (k, n) for k, query in enumerate([(7, 7), (left, right)]) for n, pair in enumerate(pairs) if pair == query
    ]
    assert [*zip(indices.tolist(), values.tolist(), strict=True)] == expected


def test_expand_ranges() -> None:
    assert expand_ranges(np.array([5, 9, 1]), np.array([2, 0, 3])).tolist() == [5, 6, 1, 2, 3]


@pytest.mark.meteor
def test_equals_the_programs_alignments(shared: Path, meteor_index: Path) -> None:
    saved = gzip.decompress((shared / "oracles" / "meteor_alignments_flickr_first1000.txt.gz").read_bytes()).decode()
    blocks = [block.split("\n") for block in saved.strip("\n").split("\n\n")]
    assert len(blocks) == 1000
    alignments = align([(block[1].split(), block[2].split()) for block in blocks], load_meteor_resources())
    for block, alignment in zip(blocks, alignments, strict=True):
        official_rows = [line.split()[:3] for line in block[4:]]
        rows = [[f"{m.start}:{m.length}", f"{m.candidate_start}:{m.candidate_length}", str(m.kind)] for m in alignment]
        assert rows == official_rows, block[1:3]


def test_many_matches_per_pair_give_the_same_alignments(language: MeteorResources) -> None:
    generator = np.random.default_rng(0)
    words = ["a", "the", "on", "of", "top", "dog", "animal", "car", "automobile", "geese", "bird", "many", "lots"]
    pairs = [([*generator.choice(words, 12)], [*generator.choice(words, 10)]) for _ in range(50)]
    alignments = align(pairs, language)
    assert align(pairs, language, matches_per_pair=0) == alignments and sum(map(len, alignments)) > 200
