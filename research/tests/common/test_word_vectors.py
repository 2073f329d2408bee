"""Word vectors from every file format, written here byte by byte, and the index in the cache."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from capmeter_research.common.word_vectors import FileVectors, fnv, ngram_hashes, open_vectors
from pyarrow import parquet

from capmeter.core.errors import AssetError, InputError

WORDS = ["dog", "Dog", "café", ". . .", "run"]
TABLE = np.array([[1, 2, 3], [0.5, -1, 0], [1e-3, 4, 9], [7, 7, 7], [-2, 0, 2]], np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def text_file(path: Path, header: bool, words: list[str] = WORDS) -> Path:
    lines = [f"{len(words)} 3"] if header else []
    lines += [f"{word} {' '.join(repr(float(x)) for x in row)}" for word, row in zip(words, TABLE, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def binary_file(path: Path, line_ends: bool) -> Path:
    words = [word.replace(" ", "_") for word in WORDS]
    end = b"\n" if line_ends else b""
    body = b"".join(w.encode() + b" " + row.astype("<f4").tobytes() + end for w, row in zip(words, TABLE, strict=True))
    path.write_bytes(f"{len(words)} 3\n".encode() + body)
    return path


def fasttext_file(path: Path, *, quantised: bool = False, version: int = 12) -> tuple[Path, np.ndarray]:
    words, buckets, shortest, longest = ["dog", "café", "</s>"], 11, 2, 3
    matrix = np.random.default_rng(0).standard_normal((len(words) + buckets, 4)).astype("<f4")
    arguments = [4, 5, 5, 1, 5, 1, 2, 2, buckets, shortest, longest, 100]
    entries = b"".join(w.encode() + b"\0" + struct.pack("<qb", 3, 0) for w in words)
    entries += b"__label__x\0" + struct.pack("<qb", 1, 1)
    content = struct.pack("<2i12id", 793712314, version, *arguments, 1e-4)
    content += struct.pack("<3i2q", len(words) + 1, len(words), 1, 9, -1) + entries
    content += struct.pack("<?2q", quantised, *matrix.shape) + matrix.tobytes()
    path.write_bytes(content)
    return path, matrix


@pytest.mark.parametrize("order", ["C", "F"])
def test_matrix_with_its_words_beside_it(order: Literal["C", "F"], tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", np.asarray(TABLE, order=order))
    with pytest.raises(AssetError, match="Parquet"):
        open_vectors(str(tmp_path / "table.npy"))
    parquet.write_table(pa.table({"index": WORDS}), tmp_path / "words.parquet")
    in_file, vectors = open_vectors(str(tmp_path / "table.npy")).find([*WORDS, "cat"])
    assert in_file.tolist() == [True] * 5 + [False]
    np.testing.assert_array_equal(vectors[:5], TABLE)


def test_json_with_a_norm_and_an_index_after_the_numbers(tmp_path: Path) -> None:
    words = ['a "quoted" word', "unkVector", *WORDS[2:]]
    rows = {word: [*map(float, row), 9.5, k] for k, (word, row) in enumerate(zip(words, TABLE, strict=True))}
    content = {"precision": 8, "dimensions": 3, "words": words, "vectors": rows, "unkVector": [0, 0, 0, 0, -1]}
    path = tmp_path / "vectors.json"
    path.write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")
    in_file, vectors = open_vectors(str(path)).find([*words, "cat"])
    assert in_file.tolist() == [True] * 5 + [False] and vectors.shape == (6, 3)
    np.testing.assert_allclose(vectors[:5], TABLE)


@pytest.mark.parametrize("header", [True, False])
def test_text(tmp_path: Path, header: bool) -> None:
    word_vectors = open_vectors(str(text_file(tmp_path / "vectors.txt", header)))
    in_file, vectors = word_vectors.find([*WORDS, "cat", ""])
    assert in_file.tolist() == [True] * 5 + [False, False]
    np.testing.assert_allclose(vectors, np.vstack([TABLE, np.zeros((2, 3))]))
    assert word_vectors.width == 3 and len(word_vectors) == 5 and word_vectors.label.startswith("vectors.txt@")


@pytest.mark.parametrize("line_ends", [True, False])
def test_word2vec_binary(tmp_path: Path, line_ends: bool) -> None:
    in_file, vectors = open_vectors(str(binary_file(tmp_path / "vectors.bin", line_ends))).find(["run", "cat", "dog"])
    assert in_file.tolist() == [True, False, True]
    np.testing.assert_array_equal(vectors, [TABLE[4], [0, 0, 0], TABLE[0]])


def test_fasttext_binary_is_the_mean_of_word_and_ngrams(tmp_path: Path) -> None:
    path, matrix = fasttext_file(tmp_path / "model.bin")
    in_file, vectors = open_vectors(str(path)).find(["dog", "café", "cat", "</s>", "__label__x"])
    assert in_file.tolist() == [True, True, False, True, False]
    ngrams = ["<d", "<do", "do", "dog", "og", "og>", "g>"]
    rows = [0, *(3 + fnv(ngram.encode()) % 11 for ngram in ngrams)]
    np.testing.assert_allclose(vectors[0], matrix[rows].mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(vectors[3], matrix[2])


def test_fasttext_hash() -> None:
    assert fnv(b"") == 2166136261 and fnv(b"a") == 0xE40C292C  # the published FNV-1a test values
    assert fnv("é".encode()) != 0 and len(ngram_hashes("é".encode(), 1, 3)) == 4  # é, <é, é>, <é>


def test_the_first_of_duplicate_words_counts(tmp_path: Path) -> None:
    path = text_file(tmp_path / "v.txt", True, ["dog", "dog", "cat", "cat", "dog"])
    _, vectors = open_vectors(str(path)).find(["dog", "cat"])
    np.testing.assert_array_equal(vectors, TABLE[[0, 2]])


def test_the_file_is_indexed_once_and_again_when_it_changes(tmp_path: Path, cache: Path) -> None:
    path = text_file(tmp_path / "v.txt", False)
    first = FileVectors(path)
    (index_file,) = (cache / "word-vectors").glob("*.index")
    index_file_before = index_file.stat().st_ino, index_file.stat().st_mtime_ns
    np.testing.assert_array_equal(FileVectors(path).find(["dog"])[1], first.find(["dog"])[1])
    assert (index_file.stat().st_ino, index_file.stat().st_mtime_ns) == index_file_before, "read, not built again"

    path.write_text("dog 9 9 9 9\n")
    assert FileVectors(path).find(["dog"])[1].tolist() == [[9, 9, 9, 9]]
    (second_file,) = {*(cache / "word-vectors").glob("*.index")} - {index_file}
    for each in (cache / "word-vectors").iterdir():
        each.write_bytes(b"damaged")
    assert FileVectors(path).find(["dog"])[0].all()
    assert second_file.read_bytes() != b"damaged" == index_file.read_bytes()


def test_vectors_work_without_a_writable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blocked").write_text("not a folder")
    monkeypatch.setenv("CAPMETER_CACHE", str(tmp_path / "blocked"))
    assert FileVectors(text_file(tmp_path / "v.txt", True)).find(["dog"])[0].all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08\x00", "gzipped; unzip it first"),
        (b"hello\nworld\n", "expected a word and its numbers"),
        (b"dog 1 2 3\ncat 1 2\n", "line 2: expected a word and 3 numbers"),
        (b"dog 1 2 3\ncat 1 x 3\n", "line 2: expected a word and 3 numbers"),
        (b"2 3\ndog \x00\x00\x80?\x00\x00", "truncated or damaged"),
        (struct.pack("<2i", 793712314, 12), "truncated or damaged"),
    ],
)
def test_damaged_files_are_errors(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "v"
    path.write_bytes(content)
    with pytest.raises(AssetError, match=message):
        FileVectors(path)


def test_quantised_and_unknown_fasttext_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="quantised"):
        FileVectors(fasttext_file(tmp_path / "q.bin", quantised=True)[0])
    with pytest.raises(AssetError, match="format 7"):
        FileVectors(fasttext_file(tmp_path / "o.bin", version=7)[0])


@pytest.mark.parametrize("name", ["nowhere.txt", ".", "loop", "/dev/zero"])
def test_what_is_no_file_is_refused_at_once(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="expected `minilm` or a file"):
        open_vectors(str(tmp_path / name))


@pytest.mark.parametrize("number", ["nan", "inf", "-", "1e99"])
def test_a_vector_that_is_not_finite_is_an_error_that_names_the_word(tmp_path: Path, number: str) -> None:
    lines = [f"word{k} 1 2" for k in range(200)]
    (tmp_path / "vectors.txt").write_text("\n".join([*lines, f"dog 1 {number}"]))
    vectors = open_vectors(str(tmp_path / "vectors.txt"))
    assert vectors.find(["word3"])[0].all()
    with pytest.raises(AssetError, match="word 'dog'"):
        vectors.find(["dog"])
