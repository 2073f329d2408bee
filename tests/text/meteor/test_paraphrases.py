"""METEOR's paraphrase index: contents, files, damage, concurrent builders."""

from __future__ import annotations

import gzip
import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.call_counts import record_progress
from support.plain_meteor import PARAPHRASES, paraphrase_bytes

from capmeter.core.errors import AssetError
from capmeter.text.meteor import synonyms as paraphrases
from capmeter.text.meteor.resources import load_meteor_resources
from capmeter.text.meteor.synonyms import Paraphrases, _build_index, index_path, load_paraphrases, read_index

PHRASES = st.lists(st.sampled_from(["a", "b", "c", "dd"]), min_size=1, max_size=4).map(" ".join)


def find_phrases(index: Paraphrases, sentence: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The phrases of a sentence: where they begin, their numbers of words, their numbers in the index."""
    words = sentence.split()
    singles, starts, lengths, phrases = index.phrases(words, np.arange(len(words)), np.array([0, len(words)]))
    first = np.flatnonzero(singles >= 0)
    return np.append(first, starts), np.append(np.ones_like(first), lengths), np.append(singles[first], phrases)


def list_paraphrases(
    index: Paraphrases, sentence: str, pairs: Sequence[tuple[str, str]] = PARAPHRASES
) -> list[tuple[int, int, list[str]]]:
    """Every phrase of a sentence that has paraphrases: start, length and the paraphrases in the table's order."""
    found = {phrase: find_phrases(index, phrase) for pair in pairs for phrase in pair}
    names = {int(numbers[lengths.argmax()]): phrase for phrase, (_, lengths, numbers) in found.items()}
    start, length, phrases = find_phrases(index, sentence)
    left, right, rank = index.rights(phrases)
    paraphrases_of: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for k, other, location in zip(left.tolist(), right.tolist(), rank.tolist(), strict=True):
        paraphrases_of.setdefault((int(start[k]), int(length[k])), []).append((location, names[other]))
    return [(*key, [phrase for _, phrase in sorted(paraphrases_of[key])]) for key in sorted(paraphrases_of)]


def write_table(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    table = folder / "paraphrase-en.gz"
    table.write_bytes(paraphrase_bytes(pairs))
    return table


def test_by_hand(tmp_path: Path) -> None:
    index = _build_index(write_table(tmp_path, PARAPHRASES))
    assert list_paraphrases(index, "many dog on the red car") == [
        (0, 1, ["lots of"]),
        (1, 1, ["the animal", "beast"]),
        (2, 2, ["on", "on"]),
        (3, 3, ["it"]),
    ]
    assert list_paraphrases(index, "") == []


@settings(max_examples=60)
@given(st.lists(st.tuples(PHRASES, PHRASES), min_size=1, max_size=25), PHRASES)
def test_equals_a_dictionary(tmp_path_factory, pairs, sentence) -> None:
    index = _build_index(write_table(tmp_path_factory.mktemp("table"), pairs))
    words, expected = sentence.split(), []
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            rights = [right for left, right in pairs if left == " ".join(words[start:end])]
            expected += [(start, end - start, rights)] if rights else []
    assert list_paraphrases(index, sentence, pairs) == expected


@pytest.mark.parametrize("end", [b"", b"\n", b"\n0.5\n", b"\n0.5\nb"])
def test_a_table_may_end_anywhere(tmp_path: Path, end: bytes) -> None:
    """The last line may lack its line break; three lines that are not complete do not count."""
    table = tmp_path / "paraphrase-en.gz"
    table.write_bytes(gzip.compress("0.5\nein kleiner Müller\nü".encode() + end, mtime=0))
    for chunk_bytes in (1, 7, 100):
        index = _build_index(table, chunk_bytes)
        assert list_paraphrases(index, "ein ein kleiner Müller ü", [("ein kleiner Müller", "ü")]) == [(1, 3, ["ü"])]


def test_the_size_of_chunks_does_not_matter(tmp_path: Path) -> None:
    pairs = [(f"w{k // 3}", f"v{k} x") for k in range(200)]
    table = write_table(tmp_path, pairs)
    one_chunk, many_chunks = _build_index(table), _build_index(table, chunk_bytes=37)
    for k in (0, 7, 66):
        expected = [(0, 1, [right for left, right in pairs if left == f"w{k}"])]
        for index in (one_chunk, many_chunks):
            assert list_paraphrases(index, f"w{k}", pairs) == expected


def test_the_index_is_written_once_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, cache = write_table(tmp_path, PARAPHRASES), tmp_path / "cache"
    built = _build_index(table)
    load_paraphrases(table, "v1", cache)
    monkeypatch.setattr(paraphrases, "_build_index", lambda table: pytest.fail("built a second time"))
    read = load_paraphrases(table, "v1", cache)
    assert all(np.array_equal(array, getattr(built, name)) for name, array in vars(read).items())
    assert sorted(path.suffix for path in cache.iterdir()) == [".index", ".lock"]


@pytest.mark.parametrize("damage", ["cut", "head", "empty", "other"])
def test_a_damaged_index_is_rebuilt(tmp_path: Path, damage: str) -> None:
    table, cache = write_table(tmp_path, PARAPHRASES), tmp_path / "cache"
    load_paraphrases(table, "v1", cache)
    path = index_path(table, "v1", cache)
    intact = path.read_bytes()
    damaged = {"cut": intact[:-100], "head": intact[:8] + b"x" + intact[9:], "empty": b"", "other": b"{}\n" * 5000}[
        damage
    ]
    path.write_bytes(damaged)
    assert read_index(path, Paraphrases) is None
    assert list_paraphrases(load_paraphrases(table, "v1", cache), "dog") == [(0, 1, ["the animal", "beast"])]
    assert path.read_bytes() == intact


def test_another_version_of_the_table_has_its_own_index(tmp_path: Path) -> None:
    table, cache = write_table(tmp_path, PARAPHRASES), tmp_path / "cache"
    load_paraphrases(table, "v1", cache)
    write_table(tmp_path, [("dog", "hound")])
    index = load_paraphrases(table, "v2", cache)
    assert list_paraphrases(index, "dog", [("dog", "hound")]) == [(0, 1, ["hound"])]


def _load(table: Path, cache: Path) -> int:
    return len(load_paraphrases(table, "v1", cache).right)


def test_parallel_builders_write_one_index(tmp_path: Path) -> None:
    table = write_table(tmp_path, [(f"w{k % 50} x", f"v{k}") for k in range(3000)])
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.starmap(_load, [(table, tmp_path / "cache")] * 3) == [3000] * 3
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".index", ".lock"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (paraphrase_bytes(PARAPHRASES)[:-20], "damaged"),
        (b"not gzip", "damaged"),
        (gzip.compress(b"", mtime=0), "has no paraphrases"),
        (gzip.compress(b"0.5\n\nword\n", mtime=0), "empty phrase"),
    ],
    ids=["truncated", "not gzip", "empty", "no phrase"],  # a gzip header has the time, which test ids must not
)
def test_a_damaged_table_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    table = tmp_path / "paraphrase-en.gz"
    table.write_bytes(content)
    with pytest.raises(AssetError, match=message):
        load_paraphrases(table, "v1", tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.index"))


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AssetError, match="CAPMETER_CACHE"):
        load_paraphrases(write_table(tmp_path, PARAPHRASES), "v1", tmp_path / "file" / "cache")


def test_progress_reaches_its_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, totals = record_progress(monkeypatch)
    _build_index(write_table(tmp_path, PARAPHRASES))
    assert [sum(steps)] == totals


@pytest.mark.meteor
def test_the_english_table(meteor_index: Path) -> None:
    index = load_meteor_resources().paraphrases
    assert index is not None
    assert (len(index.hashes), len(index.lefts), len(index.right)) == (2_616_378, 430_639, 5_274_084)
    assert index.longest.tolist() == [7]
    path = max(meteor_index.glob("*.index"), key=lambda each: each.stat().st_mtime)  # the latest version
    assert path.stat().st_size < 200e6
