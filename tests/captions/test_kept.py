"""Tables of references kept on disk: the next run begins there, with the same scores, whatever became of the file."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from captionsets import ROWS, SENTENCES, caption_set
from hypothesis import given
from hypothesis import strategies as st
from plainmeteor import small_release

from capmeter.captions import kept
from capmeter.captions.model import CaptionSet, SentencePool
from capmeter.metrics.evaluation import score
from capmeter.metrics.scores import Results
from capmeter.settings import Settings
from capmeter.store import Store
from capmeter.text import meteor_texts, ptb
from capmeter.text.ngrams import NGrams
from capmeter.text.tokens import Tokens

METRICS = "bleu-4,rouge-l,cider-d,cider-r"
REFERENCES = [["A dog runs.", f"the dog is running on street {k}", "é dog — a t-shirt"] for k in range(20)]
FIRST = [f"a dog runs on street {k}" for k in range(20)]
SECOND = ["A dog runs.", *(f"two dogs are at house {k}" for k in range(19))]


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LEAST", 5)


@pytest.fixture
def tokenised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sentences that were tokenised."""
    seen: list[str] = []
    read = ptb.token_numbers

    def noting(sentences: Sequence[str]) -> Any:
        seen.extend(sentences)
        return read(sentences)

    monkeypatch.setattr(ptb, "token_numbers", noting)
    return seen


def scored(said: list[str], folder: Path | None) -> Results:
    return score(candidates=said, references=REFERENCES, metrics=METRICS, settings=Settings(references=folder))


def assert_same(one: Results, other: Results) -> None:
    for name in other:
        assert np.array_equal(one[name].values, other[name].values) and one[name].score == other[name].score
        assert one[name].signature == other[name].signature and one[name].notes == other[name].notes


def test_the_second_run_reads_only_its_candidates(tmp_path: Path, tokenised: list[str]) -> None:
    scored(FIRST, tmp_path)
    assert set(tokenised) == {*FIRST, *(text for each in REFERENCES for text in each)}
    tokenised.clear()
    found = scored(SECOND, tmp_path)
    assert set(tokenised) == set(SECOND[1:]), "the first is a reference too"
    assert_same(found, scored(SECOND, None))


OTHERS = ("hwcm", "spice", "sparcs", "tbr-unigram", "spider", "mean(hwcm,bleu-4)")


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
    said = [REFERENCES[0][1], *(f"three dogs, {k}" for k in range(19))]  # what is said of another image too
    found = score(candidates=said, references=REFERENCES[::-1], metrics=METRICS, settings=settings)
    assert set(tokenised) == set(said[1:])
    plain = score(candidates=said, references=REFERENCES[::-1], metrics=METRICS, settings=Settings(references=None))
    assert_same(found, plain)


def test_other_references_are_not_mistaken_for_those_kept(tmp_path: Path) -> None:
    scored(FIRST, tmp_path)
    moved = [[text[:-1], text[-1:] + other] for text, other, _ in REFERENCES]  # the same letters, divided elsewhere
    settings = Settings(references=tmp_path)
    found = score(candidates=FIRST, references=moved, metrics=METRICS, settings=settings)
    assert_same(found, score(candidates=FIRST, references=moved, metrics=METRICS, settings=Settings(references=None)))


def test_a_part_of_a_large_set_is_kept_too(
    tmp_path: Path, tokenised: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from capmeter.metrics.base import Metric

    monkeypatch.setattr(Metric, "ROWS", 7)
    first = scored(FIRST, tmp_path)
    tokenised.clear()
    assert_same(scored(FIRST, tmp_path), first)
    assert not {text for each in REFERENCES for text in each} & set(tokenised)


def damaged(folder: Path, how: str) -> None:
    (file,) = folder.glob("*.sqlite")
    whole = file.read_bytes()
    if how == "truncated":
        file.write_bytes(whole[: len(whole) // 2])
    elif how == "overwritten":
        file.write_bytes(whole[:5000] + bytes(b ^ 255 for b in whole[5000:]))
    elif how == "foreign":
        file.write_bytes(b"not a database " * 1000)
    elif how == "another database":
        file.unlink()
        with sqlite3.connect(file) as database:
            database.execute("CREATE TABLE entries (other TEXT)")
        database.close()
    elif how == "entries exchanged":
        with sqlite3.connect(file) as database:
            values = [row[0] for row in database.execute("SELECT value FROM entries ORDER BY id")]
            rows = [(value, k + 1) for k, value in enumerate([*values[1:], values[0]])]
            database.executemany("UPDATE entries SET value = ? WHERE id = ?", rows)
        database.close()
    elif how == "an entry lost":
        with sqlite3.connect(file) as database:
            database.execute("DELETE FROM entries WHERE id = 2")
        database.close()


@pytest.mark.parametrize(
    "how", ["truncated", "overwritten", "foreign", "another database", "entries exchanged", "an entry lost"]
)
def test_a_damaged_file_is_made_again(tmp_path: Path, tokenised: list[str], how: str) -> None:
    scored(FIRST, tmp_path)
    damaged(tmp_path, how)
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
        found = scored(SECOND, tmp_path)
    finally:
        tmp_path.chmod(0o700)
    assert_same(found, scored(SECOND, None))


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "put", full)
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
    monkeypatch.setattr(kept, "LEAST", 1000)
    scored(FIRST, tmp_path / "few")
    assert not list(tmp_path.iterdir())


def test_the_file_is_bounded(tmp_path: Path) -> None:
    from capmeter.store import reference_store

    store = reference_store(Settings(references=tmp_path, cache=None))
    assert store is not None and store.limit == 1 << 29
    store = reference_store(Settings(references=tmp_path, cache=tmp_path, cache_bytes=1 << 34))
    assert store is not None and store.limit == 1 << 34, "one file has one limit"


@pytest.mark.parametrize("language", ["en", "fr", "other"])
def test_what_meteor_knows_of_references_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))
    release = small_release(tmp_path / "release")
    metric = f'meteor(language={language},path="{release}")'
    told = [["many cars and geese", "on top of the red car's roof", f"a lot of dogs no {k}"] for k in range(9)]
    first = [f"a bird and an automobile no {k}" for k in range(9)]
    second = ["lots of canines", "the animals on it", *first[:6], "many cars and geese"]
    for said in (first, second, second):
        found, plain = (
            score(candidates=said, references=told, metrics=metric, settings=Settings(references=folder))
            for folder in (tmp_path / "kept", None)
        )
        assert np.array_equal(found[metric].values, plain[metric].values) and found[metric].score > 0
    read: list[int] = []
    known = meteor_texts.texts_of
    monkeypatch.setattr(meteor_texts, "texts_of", lambda table, of: read.append(len(table.ids)) or known(table, of))
    score(candidates=second, references=told, metrics=metric, settings=Settings(references=tmp_path / "kept"))
    assert read == [8], "only candidates that are no references"


def divided(captions: CaptionSet, folder: Path) -> CaptionSet:
    kept.remember(captions, Settings(references=folder))
    return captions


@given(rows=ROWS, more=st.lists(SENTENCES, min_size=5, max_size=9, unique=True))
def test_a_joined_table_is_that_of_the_whole(
    rows: list[tuple[str, list[str]]], more: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    rows = [*rows, ("a dog", more)]
    divided(caption_set([("other words", told) for _, told in rows]), folder).pool.analyse(NGrams())
    whole = caption_set(rows)
    tokens, grams = whole.pool.analyse(Tokens()), whole.pool.analyse(NGrams())
    for _ in range(2):  # found in part, then found
        pool: SentencePool = divided(caption_set(rows), folder).pool
        assert pool.divided
        found = pool.analyse(Tokens())
        assert [found.row(k) for k in range(len(pool))] == [tokens.row(k) for k in range(len(pool))]
        assert found.ids.values.dtype == tokens.ids.values.dtype
        table = pool.analyse(NGrams())
        for name in ("counts", "order", "hashes", "lengths"):
            one, other = getattr(table, name), getattr(grams, name)
            assert np.array_equal(one, other) and one.dtype == other.dtype
        assert np.array_equal(table.entries.values, grams.entries.values)
        assert np.array_equal(table.entries.offsets, grams.entries.offsets)
    shutil.rmtree(folder)
