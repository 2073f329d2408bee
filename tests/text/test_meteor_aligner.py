from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plainmeteor import PARAPHRASES, Found, align_plainly, small_language

from capmeter.text.meteor_aligner import MatchedPairs
from capmeter.text.meteor_resources import MeteorLanguage, meteor_language
from capmeter.text.meteor_search import spans
from capmeter.text.meteor_texts import java_hash, texts_of
from capmeter.text.meteor_words import PairTable, meteor_sentences
from capmeter.text.tokens import TokenTable

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
def language(tmp_path_factory: pytest.TempPathFactory) -> MeteorLanguage:
    return small_language(tmp_path_factory.mktemp("meteor"))


def aligned(pairs: list[tuple[list[str], list[str]]], language: MeteorLanguage, beam: int = 40) -> list[list[Found]]:
    texts = texts_of(TokenTable.from_lists([side for pair in pairs for side in pair]), language)
    said = np.arange(0, 2 * len(pairs), 2)
    pairs_ = MatchedPairs.of(meteor_sentences(texts, language, said), said, said + 1, beam=beam)
    matches = pairs_.aligned(np.arange(len(pairs)))
    found: list[list[Found]] = [[] for _ in pairs]
    columns = (matches.kind, matches.start, matches.length, matches.hypothesis_start, matches.hypothesis_length)
    for pair, *values in zip(matches.pair.tolist(), *(column.tolist() for column in columns), strict=True):
        found[pair].append(Found(*values))
    return found


def test_by_hand(language: MeteorLanguage) -> None:
    [found] = aligned(
        [
            (
                ["the", "geese", "ran", "to", "a", "lot", "of", "cars"],
                ["many", "automobiles", "ran", "to", "the", "birds"],
            )
        ],
        language,
    )
    # "geese" and "birds" share a synset by their base forms; "cars" and "automobiles" likewise
    assert found == [
        Found(3, 0, 1, 4, 3),
        Found(2, 1, 1, 7, 1),
        Found(0, 2, 1, 2, 1),
        Found(0, 3, 1, 3, 1),
        Found(0, 4, 1, 0, 1),
        Found(2, 5, 1, 1, 1),
    ]


def test_identical_sentences_match_word_by_word(language: MeteorLanguage) -> None:
    sentence = ["the", "dog", "the", "dog", "the", "dogs"]
    [found] = aligned([(sentence, sentence)], language)
    assert found == [Found(0, k, 1, k, 1) for k in range(6)]


def test_words_of_one_hash_are_one_word(language: MeteorLanguage) -> None:
    assert java_hash("variants") == java_hash("gelato") != java_hash("variant")
    assert aligned([(["variants"], ["gelato"])], language) == [[Found(0, 0, 1, 0, 1)]]


def test_java_hashes_utf_16() -> None:
    assert java_hash("dog") == 99644
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00


@settings(max_examples=150)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=8), st.sampled_from([1, 2, 5, 40]))
def test_equals_the_search_written_plainly(language, pairs, beam) -> None:
    plainly = [align_plainly(one, other, language, PARAPHRASES, beam) for one, other in pairs]
    assert aligned(pairs, language, beam) == plainly


@settings(max_examples=10)
@given(st.lists(WORDS, min_size=60, max_size=90), st.lists(WORDS, min_size=40, max_size=90))
def test_long_sentences_need_more_than_one_machine_word(language, one, other) -> None:
    assert aligned([(one, other)], language, 8) == [align_plainly(one, other, language, PARAPHRASES, 8)]


@settings(max_examples=30)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=2, max_size=8))
def test_a_pair_is_aligned_the_same_alone_and_among_others(language, pairs) -> None:
    together = aligned(pairs, language)
    sentences = [sentence for pair in pairs for sentence in pair]
    texts = texts_of(TokenTable.from_lists(sentences), language)
    table = meteor_sentences(texts, language, np.arange(0, len(sentences), 2))
    for k in range(len(pairs)):
        alone = MatchedPairs.of(table, np.array([2 * k]), np.array([2 * k + 1])).aligned(np.array([0]))
        assert [
            Found(*row)
            for row in zip(
                alone.kind.tolist(),
                alone.start.tolist(),
                alone.length.tolist(),
                alone.hypothesis_start.tolist(),
                alone.hypothesis_length.tolist(),
                strict=True,
            )
        ] == together[k]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=60), st.integers(0, 40), st.integers(0, 40))
def test_pair_table_finds_each_pair_as_often_as_it_is_there(pairs, left, right) -> None:
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    table = PairTable(columns[:, 0], columns[:, 1], np.arange(len(pairs)))
    asked, values = table.find(np.array([7, left]), np.array([7, right]))
    expected = [
        (k, n) for k, asks in enumerate([(7, 7), (left, right)]) for n, pair in enumerate(pairs) if pair == asks
    ]
    assert [*zip(asked.tolist(), values.tolist(), strict=True)] == expected
    assert len(table) == len(pairs)


def test_spans() -> None:
    assert spans(np.array([5, 9, 1]), np.array([2, 0, 3])).tolist() == [5, 6, 1, 2, 3]


@pytest.mark.meteor
def test_equals_the_programs_alignments(shared: Path, meteor_index: Path) -> None:
    saved = gzip.decompress((shared / "oracles" / "meteor_alignments_flickr_first1000.txt.gz").read_bytes()).decode()
    blocks = [block.split("\n") for block in saved.strip("\n").split("\n\n")]
    assert len(blocks) == 1000
    found = aligned([(block[1].split(), block[2].split()) for block in blocks], meteor_language())
    for block, ours in zip(blocks, found, strict=True):
        theirs = [line.split()[:3] for line in block[4:]]
        rows = [[f"{m.start}:{m.length}", f"{m.far}:{m.far_length}", str(m.kind)] for m in ours]
        assert rows == theirs, block[1:3]


def test_captions_with_many_matches_are_aligned_at_once_and_alike(language: MeteorLanguage, monkeypatch) -> None:
    draw = np.random.default_rng(0)
    words = ["a", "the", "on", "of", "top", "dog", "animal", "car", "automobile", "geese", "bird", "many", "lots"]
    pairs = [([*draw.choice(words, 12)], [*draw.choice(words, 10)]) for _ in range(50)]
    later = aligned(pairs, language)
    monkeypatch.setattr("capmeter.text.meteor_aligner._KEPT", 0)
    assert aligned(pairs, language) == later and sum(map(len, later)) > 200
