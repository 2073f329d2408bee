from __future__ import annotations

import gzip
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plainmeteor import PARAPHRASES, paraphrase_bytes

from capmeter import progress
from capmeter.errors import AssetError
from capmeter.text import paraphrases
from capmeter.text.meteor_resources import meteor_language
from capmeter.text.paraphrases import Paraphrases, build_index, index_path, load_paraphrases, read_index

PHRASES = st.lists(st.sampled_from(["a", "b", "c", "dd"]), min_size=1, max_size=4).map(" ".join)


def phrase_of(index: Paraphrases, node: int) -> str:
    """A node's words, read back from the trie."""
    words = list(index.words)
    first = len(words)
    if node < first:
        return words[node]
    for level in index.levels:
        if node < first + len(level):
            parent, last = divmod(int(level[node - first]), len(words))
            return phrase_of(index, parent) + " " + words[last]
        first += len(level)
    raise AssertionError(node)


def listed(index: Paraphrases, sentence: str) -> list[tuple[int, int, list[str]]]:
    """Every phrase of a sentence that has paraphrases: start, length and the paraphrases in the table's order."""
    words = np.array([index.words.get(word, -1) for word in sentence.split()], np.int64)
    start, length, node = index.phrases(words, np.array([0, len(words)]))
    left, right, rank = index.rights(node)
    found: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for k, other, place in zip(left.tolist(), right.tolist(), rank.tolist(), strict=True):
        found.setdefault((int(start[k]), int(length[k])), []).append((place, phrase_of(index, other)))
    return [(*key, [phrase for _, phrase in sorted(found[key])]) for key in sorted(found)]


def written(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    table = folder / "paraphrase-en.gz"
    table.write_bytes(paraphrase_bytes(pairs))
    return table


def test_by_hand(tmp_path: Path) -> None:
    index = build_index(written(tmp_path, PARAPHRASES))
    assert listed(index, "many dog on the red car") == [
        (0, 1, ["lots of"]),
        (1, 1, ["the animal", "beast"]),
        (2, 2, ["on", "on"]),
        (3, 3, ["it"]),
    ]
    assert listed(index, "") == []


@settings(max_examples=60)
@given(st.lists(st.tuples(PHRASES, PHRASES), min_size=1, max_size=25), PHRASES)
def test_equals_a_dictionary(tmp_path_factory, pairs, sentence) -> None:
    index = build_index(written(tmp_path_factory.mktemp("table"), pairs))
    words, expected = sentence.split(), []
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            rights = [right for left, right in pairs if left == " ".join(words[start:end])]
            expected += [(start, end - start, rights)] if rights else []
    assert listed(index, sentence) == expected


def test_chunks_of_the_table_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"w{k // 3}", f"v{k} x") for k in range(200)]
    table = written(tmp_path, pairs)
    whole = build_index(table)
    monkeypatch.setattr(paraphrases, "_CHUNK", 37)
    parts = build_index(table)
    for k in (0, 7, 66):
        assert listed(parts, f"w{k}") == listed(whole, f"w{k}") == [(0, 1, [r for left, r in pairs if left == f"w{k}"])]


def test_the_index_is_written_once_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, cache = written(tmp_path, PARAPHRASES), tmp_path / "cache"
    built = build_index(table)
    load_paraphrases(table, "v1", cache)
    monkeypatch.setattr(paraphrases, "build_index", lambda table: pytest.fail("built a second time"))
    read = load_paraphrases(table, "v1", cache)
    for name in ("text", "lefts", "offsets", "right"):
        assert np.array_equal(getattr(read, name), getattr(built, name))
    assert all(np.array_equal(one, other) for one, other in zip(read.levels, built.levels, strict=True))
    assert sorted(path.suffix for path in cache.iterdir()) == [".index", ".lock"]


@pytest.mark.parametrize("damage", ["cut", "head", "body", "empty", "other"])
def test_a_damaged_index_is_built_anew(tmp_path: Path, damage: str) -> None:
    table, cache = written(tmp_path, PARAPHRASES), tmp_path / "cache"
    load_paraphrases(table, "v1", cache)
    path = index_path(table, "v1", cache)
    good = path.read_bytes()
    bad = {
        "cut": good[:-100],
        "head": good[:40] + b"x" + good[41:],
        "body": good[:-70] + bytes([good[-70] ^ 1]) + good[-69:],
        "empty": b"",
        "other": b"{}\n" * 5000,
    }[damage]
    path.write_bytes(bad)
    assert read_index(path) is None
    assert listed(load_paraphrases(table, "v1", cache), "dog") == [(0, 1, ["the animal", "beast"])]
    assert path.read_bytes() == good


def test_no_damaged_byte_of_an_index_is_believed(tmp_path: Path) -> None:
    table, cache = written(tmp_path, PARAPHRASES), tmp_path / "cache"
    load_paraphrases(table, "v1", cache)
    path = index_path(table, "v1", cache)
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ (1 << at % 8)]) + good[at + 1 :])
        assert read_index(path) is None, at
    path.write_bytes(good)
    assert read_index(path) is not None


def test_another_version_of_the_table_has_its_own_index(tmp_path: Path) -> None:
    table, cache = written(tmp_path, PARAPHRASES), tmp_path / "cache"
    load_paraphrases(table, "v1", cache)
    written(tmp_path, [("dog", "hound")])
    assert listed(load_paraphrases(table, "v2", cache), "dog") == [(0, 1, ["hound"])]


def _load(table: Path, cache: Path) -> int:
    return len(load_paraphrases(table, "v1", cache).right)


def test_parallel_builders_end_with_one_whole_index(tmp_path: Path) -> None:
    table = written(tmp_path, [(f"w{k % 50} x", f"v{k}") for k in range(3000)])
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.starmap(_load, [(table, tmp_path / "cache")] * 3) == [3000] * 3
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".index", ".lock"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (paraphrase_bytes(PARAPHRASES)[:-20], "damaged"),
        (b"no gzip", "damaged"),
        (gzip.compress(b"", mtime=0), "has no paraphrases"),
        (gzip.compress(b"0.5\n\nword\n", mtime=0), "empty phrase"),
    ],
    ids=["truncated", "no gzip", "empty", "no phrase"],  # a gzip header has the time, a test's name must not
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
        load_paraphrases(written(tmp_path, PARAPHRASES), "v1", tmp_path / "file" / "cache")


def test_progress_reaches_its_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, totals = [], []

    class Task:
        def __init__(self, description: str, total: int | None = None) -> None:
            totals.append(total)

        def __enter__(self):
            return steps.append

        def __exit__(self, *error: object) -> None:
            pass

    monkeypatch.setattr(progress, "task", Task)
    build_index(written(tmp_path, PARAPHRASES))
    assert [sum(steps)] == totals


@pytest.mark.meteor
def test_the_english_table(meteor_index: Path) -> None:
    index = meteor_language().paraphrases
    assert index is not None
    assert (len(index.lefts), len(index.right), len(index.words)) == (430_639, 5_274_084, 43_139)
    path = max(meteor_index.glob("*.index"), key=lambda each: each.stat().st_mtime)  # beside those of former versions
    assert path.stat().st_size < 200e6
