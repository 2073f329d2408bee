"""Tar shards, Zstandard, and references that are joined on disk."""

from __future__ import annotations

import io
import json
import random
import tarfile
from pathlib import Path

import pyarrow
import pytest

import capmeter
from capmeter.captions import streaming
from capmeter.errors import InputError


def tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_a_sample_is_a_row(tmp_path: Path) -> None:
    path = tar(
        tmp_path / "00000.tar",
        {
            "00/a.jpg": b"\xff\xd8\n",
            "00/a.json": json.dumps({"references": ["a dog runs"], "width": 3}).encode(),
            "00/a.txt": b"a dog\n",
            "00/b.seg.png": b"",
            "00/b.json": json.dumps({"image_id": 7, "caption": "two cats", "references": ["cats", "two"]}).encode(),
            "00/b.txt": b"not this one",
        },
    )
    for captions in (capmeter.load(path), *capmeter.stream(path)):
        assert [(each.id, each.candidate, each.references) for each in captions] == [
            ("00/a", "a dog", ("a dog runs",)),
            ("7", "two cats", ("cats", "two")),
        ]
    assert capmeter.load(path)["00/a"].image_id == "00/a"


def test_texts_of_one_tar_are_scored_against_those_of_another(tmp_path: Path) -> None:
    said = tar(tmp_path / "said.tar", {"1.txt": b"a dog", "2.txt": b"two cats"})
    told = tar(tmp_path / "told.tar", {"2.txt": b"cats", "1.txt": b"the dog"})
    captions = capmeter.load(said, told)
    assert [each.references for each in captions] == [("the dog",), ("cats",)]


def test_a_tar_that_is_cut_off_or_holds_no_rows_is_named(tmp_path: Path) -> None:
    path = tar(tmp_path / "x.tar", {"1.json": json.dumps({"candidate": "a", "references": ["a"] * 2000}).encode()})
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(InputError, match="cut off or damaged"):
        capmeter.load(path)
    with pytest.raises(InputError, match=r"1\.json: a list"):
        capmeter.load(tar(tmp_path / "y.tar", {"1.json": b"[1]"}))
    with pytest.raises(InputError, match="there are no candidates"):
        capmeter.load(tar(tmp_path / "z.tar", {"1.jpg": b"\n"}))
    with pytest.raises(InputError, match="candidate is missing"):
        capmeter.load(tar(tmp_path / "w.tar", {"1.json": b'{"references": ["a"]}'}))


def test_zstandard_is_read_as_gzip_is(tmp_path: Path) -> None:
    lines = "".join(
        json.dumps({"image_id": k, "candidate": f"a dog {k}", "references": [f"dog {k}"]}) + "\n" for k in range(999)
    ).encode()
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(pyarrow.Codec("zstd").compress(lines, asbytes=True))
    assert [each.candidate for each in capmeter.load(path)] == [f"a dog {k}" for k in range(999)]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"x\.jsonl\.zst"):
        capmeter.load(path)


def both(folder: Path) -> tuple[Path, Path, list[dict[str, str]], list[dict[str, str]]]:
    pytest.importorskip("duckdb", reason="needs capmeter[duckdb]")
    draw = random.Random(0)
    said = [{"id": f"c{k}", "image_id": f"im'{k // 2}", "candidate": f"a dog {k}", "system": "s"} for k in range(3000)]
    told = [{"image_id": f"im'{k % 1500}", "caption": f"dog {k}"} for k in range(4500)]
    draw.shuffle(said)
    draw.shuffle(told)
    paths = folder / "said.jsonl", folder / "told.jsonl"
    for path, rows in zip(paths, (said, told), strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return *paths, said, told


def test_large_references_are_joined_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, told, _, _ = both(tmp_path)
    expected = capmeter.load(said, told)
    monkeypatch.setattr(streaming, "LARGE", 1)
    monkeypatch.setattr(
        streaming.Sources, "matching", lambda self, images: self.table and pytest.fail("held in memory")
    )
    found = capmeter.stream(said, told, rows=500)
    assert len(found) == 3000
    assert [each for part in found for each in part] == list(expected)
    scores = capmeter.score(found, "rouge-l,cider-d")
    assert scores["cider-d"].score == capmeter.score(expected, "cider-d")["cider-d"].score


def test_without_duckdb_large_references_are_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, told, _, _ = both(tmp_path)
    expected = capmeter.load(said, told)
    monkeypatch.setattr(streaming, "LARGE", 1)
    monkeypatch.setattr(streaming, "find_spec", lambda name: None)
    monkeypatch.setattr(streaming, "joined_on_disk", lambda *_, **__: pytest.fail("joined on disk"))
    assert [each for part in capmeter.stream(said, told, rows=500) for each in part] == list(expected)


def test_what_has_no_reference_there_is_named_skipped_or_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, told, rows, _ = both(tmp_path)
    with said.open("a") as file:
        file.write(json.dumps({"id": "lost", "image_id": "nowhere", "candidate": "a cow"}) + "\n")
    monkeypatch.setattr(streaming, "LARGE", 1)
    with pytest.raises(InputError, match=r"1 of 3,001 candidates have no references in .*nowhere"):
        capmeter.stream(said, told)
    assert len(capmeter.stream(said, told, on_missing="skip")) == 3000
    kept = capmeter.stream(said, told, on_missing="keep")
    assert len(kept) == 3001 and [each for part in kept for each in part][-1].references == ()
    assert rows


def test_lists_of_references_count_once_and_must_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="needs capmeter[duckdb]")
    said, told = tmp_path / "said.jsonl", tmp_path / "told.jsonl"
    said.write_text('{"image_id": 1, "candidate": "a dog"}\n{"image_id": 2, "candidate": "a cat"}\n')
    rows = [{"image_id": k, "references": [f"the {k}", "it"]} for k in (2, 1, 2)]
    told.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(streaming, "LARGE", 1)
    expected = [("the 1", "it"), ("the 2", "it")]
    assert [each.references for part in capmeter.stream(said, told) for each in part] == expected
    told.write_text(told.read_text() + json.dumps({"image_id": 2, "references": ["another"]}) + "\n")
    with pytest.raises(InputError, match="image '2' has different references in two rows"):
        capmeter.stream(said, told)
