"""Tables of references cached on disk: the next run starts from them, with the same scores, damaged or not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.caption_sets import ROWS, SENTENCES, caption_set
from support.plain_meteor import small_release
from support.research import needs_research

from capmeter.captions import reference_cache
from capmeter.captions.caption_set import CaptionSet, SentencePool
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.results import Results
from capmeter.evaluation.runner import score
from capmeter.text.meteor import sentence_features
from capmeter.text.ngrams import NGrams
from capmeter.text.tokenization import ptb
from capmeter.text.tokenization.token_tables import Tokens

METRICS = "bleu-4,rouge-l,cider-d,cider-r"
REFERENCES = [["A dog runs.", f"the dog is running on street {k}", "é dog — a t-shirt"] for k in range(20)]
FIRST = [f"a dog runs on street {k}" for k in range(20)]
SECOND = ["A dog runs.", *(f"two dogs are at house {k}" for k in range(19))]


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_cache, "MIN_REFERENCES", 5)


@pytest.fixture
def tokenised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sentences that were tokenised."""
    tokenised_sentences: list[str] = []
    read = ptb.tokenise_to_ids

    def noting(sentences: Sequence[str]) -> Any:
        tokenised_sentences.extend(sentences)
        return read(sentences)

    monkeypatch.setattr(ptb, "tokenise_to_ids", noting)
    return tokenised_sentences


def scored(candidates: list[str], folder: Path | None) -> Results:
    return score(candidates=candidates, references=REFERENCES, metrics=METRICS, settings=Settings(references=folder))


def assert_same(one: Results, other: Results) -> None:
    for name in other:
        assert np.array_equal(one[name].values, other[name].values) and one[name].score == other[name].score
        assert one[name].signature == other[name].signature and one[name].notes == other[name].notes


def test_the_second_run_reads_only_its_candidates(tmp_path: Path, tokenised: list[str]) -> None:
    scored(FIRST, tmp_path)
    assert set(tokenised) == {*FIRST, *(text for each in REFERENCES for text in each)}
    tokenised.clear()
    results = scored(SECOND, tmp_path)
    assert set(tokenised) == set(SECOND[1:]), "the first is a reference too"
    assert_same(results, scored(SECOND, None))


OTHERS = [
    *("spice", "spider"),
    *(pytest.param(name, marks=needs_research) for name in ("hwcm", "sparcs", "tbr-unigram", "mean(hwcm,bleu-4)")),
]


@pytest.mark.parametrize("metric", OTHERS)
def test_every_metric_of_words_can_score_where_references_are_kept(tmp_path: Path, metric: str) -> None:
    results = []
    for folder in (tmp_path, tmp_path, None):
        settings = Settings(references=folder)
        results.append(score(candidates=SECOND, references=REFERENCES, metrics=metric, settings=settings))
    assert_same(results[0], results[2])
    assert_same(results[1], results[2])


def test_references_are_found_whatever_the_order_of_the_captions(tmp_path: Path, tokenised: list[str]) -> None:
    settings = Settings(references=tmp_path)
    scored(FIRST, tmp_path)
    tokenised.clear()
    candidates = [REFERENCES[0][1], *(f"three dogs, {k}" for k in range(19))]  # what is said of another image too
    results = score(candidates=candidates, references=REFERENCES[::-1], metrics=METRICS, settings=settings)
    assert set(tokenised) == set(candidates[1:])
    plain = score(
        candidates=candidates, references=REFERENCES[::-1], metrics=METRICS, settings=Settings(references=None)
    )
    assert_same(results, plain)


def test_other_references_are_not_mistaken_for_those_kept(tmp_path: Path) -> None:
    scored(FIRST, tmp_path)
    moved = [[text[:-1], text[-1:] + other] for text, other, _ in REFERENCES]  # the same letters, divided elsewhere
    settings = Settings(references=tmp_path)
    results = score(candidates=FIRST, references=moved, metrics=METRICS, settings=settings)
    assert_same(results, score(candidates=FIRST, references=moved, metrics=METRICS, settings=Settings(references=None)))


def test_a_part_of_a_large_set_is_kept_too(
    tmp_path: Path, tokenised: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Metric, "PART_SIZE", 7)
    first = scored(FIRST, tmp_path)
    tokenised.clear()
    assert_same(scored(FIRST, tmp_path), first)
    assert not {text for each in REFERENCES for text in each} & set(tokenised)


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    other = {"truncated": content[: len(content) // 2], "foreign": b"not arrays " * 1000, "empty": b""}
    other["renamed"] = content.replace(b"ids.offsets", b"ids.offzets")
    path.write_bytes(other[how])


@pytest.mark.parametrize("how", ["truncated", "foreign", "empty", "renamed"])
def test_a_damaged_file_is_made_again(tmp_path: Path, tokenised: list[str], how: str) -> None:
    scored(FIRST, tmp_path)
    for path in tmp_path.rglob("*.safetensors"):
        damage(path, how)
    assert_same(scored(SECOND, tmp_path), scored(SECOND, None))
    scored(SECOND, tmp_path)
    tokenised.clear()
    scored(SECOND, tmp_path)
    assert set(tokenised) == set(SECOND[1:]), "it was made again"


def test_where_nothing_can_be_written_the_scores_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert_same(scored(FIRST, tmp_path / "file" / "folder"), scored(FIRST, None))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user whom permissions stop")
def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    scored(FIRST, tmp_path)
    tmp_path.chmod(0o000)
    try:
        results = scored(SECOND, tmp_path)
    finally:
        tmp_path.chmod(0o700)
    assert_same(results, scored(SECOND, None))


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    assert_same(scored(FIRST, tmp_path), scored(FIRST, None))


def test_none_keeps_nothing_and_few_references_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPMETER_REFERENCE_CACHE", "")
    assert Settings().references is None
    monkeypatch.setenv("CAPMETER_REFERENCE_CACHE", str(tmp_path / "named"))
    assert Settings().references == tmp_path / "named"
    monkeypatch.delenv("CAPMETER_REFERENCE_CACHE")
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))
    assert Settings().references == tmp_path / "cache" / "references"
    scored(FIRST, None)
    monkeypatch.setattr(reference_cache, "MIN_REFERENCES", 1000)
    scored(FIRST, tmp_path / "few")
    assert not list(tmp_path.iterdir())


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    store = Settings(references=tmp_path, cache=None).reference_cache()
    assert store is not None and store.limit == 1 << 29
    store = Settings(references=tmp_path, cache=tmp_path, cache_bytes=1 << 34).reference_cache()
    assert store is not None and store.limit == 1 << 34, "one folder has one limit"


@pytest.mark.parametrize("language", ["en", "fr", "other"])
def test_what_meteor_knows_of_references_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))
    release = small_release(tmp_path / "release")
    metric = f'meteor(language={language},path="{release}")'
    lists = [["many cars and geese", "on top of the red car's roof", f"a lot of dogs no {k}"] for k in range(9)]
    first = [f"a bird and an automobile no {k}" for k in range(9)]
    second = ["lots of canines", "the animals on it", *first[:6], "many cars and geese"]
    for candidates in (first, second, second):
        results, plain = (
            score(candidates=candidates, references=lists, metrics=metric, settings=Settings(references=folder))
            for folder in (tmp_path / "kept", None)
        )
        assert np.array_equal(results[metric].values, plain[metric].values) and results[metric].score > 0
    read: list[int] = []
    compute_features = sentence_features.compute_features
    monkeypatch.setattr(
        sentence_features,
        "compute_features",
        lambda table, of: read.append(len(table.ids)) or compute_features(table, of),
    )
    score(candidates=second, references=lists, metrics=metric, settings=Settings(references=tmp_path / "kept"))
    assert read == [8], "only candidates that are no references"


def with_cache(captions: CaptionSet, folder: Path) -> CaptionSet:
    reference_cache.enable_reference_cache(captions, Settings(references=folder))
    return captions


@given(rows=ROWS, more=st.lists(SENTENCES, min_size=5, max_size=9, unique=True))
def test_a_joined_table_is_that_of_the_whole(
    rows: list[tuple[str, list[str]]], more: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    rows = [*rows, ("a dog", more)]
    with_cache(caption_set([("other words", lists) for _, lists in rows]), folder).pool.analyse(NGrams())
    content = caption_set(rows)
    tokens, grams = content.pool.analyse(Tokens()), content.pool.analyse(NGrams())
    for _ in range(2):  # found in part, then found
        pool: SentencePool = with_cache(caption_set(rows), folder).pool
        assert pool.division
        results = pool.analyse(Tokens())
        assert [results.row(k) for k in range(len(pool))] == [tokens.row(k) for k in range(len(pool))]
        assert results.ids.values.dtype == tokens.ids.values.dtype
        table = pool.analyse(NGrams())
        for name in ("counts", "order", "hashes", "lengths"):
            one, other = getattr(table, name), getattr(grams, name)
            assert np.array_equal(one, other) and one.dtype == other.dtype
        assert np.array_equal(table.entries.values, grams.entries.values)
        assert np.array_equal(table.entries.offsets, grams.entries.offsets)
    shutil.rmtree(folder)
