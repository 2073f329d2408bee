"""Large files of references are joined with their candidates on disk, in any temporary folder."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import pytest

import capmeter
from capmeter.captions import sources
from capmeter.captions.references import ReferenceTable
from capmeter.captions.streaming import stream as streaming
from capmeter.core.errors import InputError


def write_files(folder: Path) -> tuple[Path, Path]:
    pytest.importorskip("duckdb", reason="needs capmeter[duckdb]")
    rng = random.Random(0)
    rows = [{"id": f"c{k}", "image_id": f"im'{k // 2}", "candidate": f"a dog {k}", "system": "s"} for k in range(3000)]
    reference_rows = [{"image_id": f"im'{k % 1500}", "caption": f"dog {k}"} for k in range(4500)]
    paths = folder / "candidates.jsonl", folder / "references.jsonl"
    for path, each in zip(paths, (rows, reference_rows), strict=True):
        rng.shuffle(each)
        path.write_text("".join(json.dumps(row) + "\n" for row in each))
    return paths


def test_large_references_are_joined_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    candidates, references = write_files(tmp_path)
    expected = capmeter.load(candidates, references)
    monkeypatch.setattr(sources, "LARGE", 1)
    monkeypatch.setattr(ReferenceTable, "read", lambda *_: pytest.fail("held in memory"))
    parts = capmeter.stream(candidates, references, rows=500)
    assert len(parts) == 3000
    assert [each for part in parts for each in part] == list(expected)
    scores = capmeter.score(parts, "rouge-l,cider-d")
    assert scores["cider-d"].score == capmeter.score(expected, "cider-d")["cider-d"].score


def test_without_duckdb_large_references_are_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    candidates, references = write_files(tmp_path)
    expected = capmeter.load(candidates, references)
    monkeypatch.setattr(sources, "LARGE", 1)
    monkeypatch.setattr(streaming, "find_spec", lambda name: None)
    monkeypatch.setattr(streaming, "join_on_disk", lambda *_, **__: pytest.fail("joined on disk"))
    assert [each for part in capmeter.stream(candidates, references, rows=500) for each in part] == list(expected)


def test_candidates_without_references_are_named_skipped_or_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates, references = write_files(tmp_path)
    with candidates.open("a") as file:
        file.write(json.dumps({"id": "lost", "image_id": "nowhere", "candidate": "a cow"}) + "\n")
    monkeypatch.setattr(sources, "LARGE", 1)
    with pytest.raises(InputError, match=r"1 of 3,001 candidates have no references in .*nowhere"):
        capmeter.stream(candidates, references)
    assert len(capmeter.stream(candidates, references, on_missing="skip")) == 3000
    skipped = capmeter.score(capmeter.stream(candidates, references, on_missing="skip"), metrics="rouge-l")
    assert len(skipped.notes["skipped_without_references"]) == 1
    captions = capmeter.stream(candidates, references, on_missing="keep")
    assert len(captions) == 3001 and [each for part in captions for each in part][-1].references == ()


def test_lists_of_references_count_once_and_must_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="needs capmeter[duckdb]")
    candidates, references = tmp_path / "candidates.jsonl", tmp_path / "references.jsonl"
    candidates.write_text('{"image_id": 1, "candidate": "a dog"}\n{"image_id": 2, "candidate": "a cat"}\n')
    rows = [{"image_id": k, "references": [f"the {k}", "it"]} for k in (2, 1, 2)]
    references.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(sources, "LARGE", 1)
    expected = [("the 1", "it"), ("the 2", "it")]
    assert [each.references for part in capmeter.stream(candidates, references) for each in part] == expected
    references.write_text(references.read_text() + json.dumps({"image_id": 2, "references": ["another"]}) + "\n")
    with pytest.raises(InputError, match="image '2' has different references in two rows"):
        capmeter.stream(candidates, references)


@pytest.mark.parametrize("name", ["it's temporary", 'a "quoted" folder', "a; --comment"])
def test_any_temporary_folder_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    candidates, references = write_files(tmp_path)
    expected = capmeter.load(candidates, references)
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)  # which caches the variable
    monkeypatch.setattr(sources, "LARGE", 1)
    parts = capmeter.stream(candidates, references, rows=500)
    assert any(folder.rglob("joined.parquet"))
    assert [each for part in parts for each in part] == list(expected)


def test_several_files_of_references_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    candidates, references = write_files(tmp_path)
    more = tmp_path / "more.jsonl"
    more.write_text("".join(json.dumps({"image_id": f"im'{k}", "references": ["x", "y"]}) + "\n" for k in (0, 1, 0)))
    expected = capmeter.load(candidates, [references, more])
    monkeypatch.setattr(sources, "LARGE", 1)
    monkeypatch.setattr(ReferenceTable, "read", lambda *_: pytest.fail("held in memory"))
    parts = capmeter.stream(candidates, [references, more], rows=500)
    assert [each for part in parts for each in part] == list(expected)


def test_events_and_human_scores_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="needs capmeter[duckdb]")
    events = {"timestamps": [[0, 4], [4, 9]], "sentences": ["a dog eats", "it sleeps"]}
    candidates, references = tmp_path / "candidates.jsonl", tmp_path / "references.jsonl"
    monkeypatch.setattr(sources, "LARGE", 1)
    for row, reference in (({"human": [1, 0.5], "candidate": "a dog"}, {"caption": "the dog"}), (events, events)):
        candidates.write_text(json.dumps({"image_id": "v", **row}))
        references.write_text(json.dumps({"image_id": "v", **reference}))
        streamed = [each for part in capmeter.stream(candidates, references) for each in part]
        assert streamed == list(capmeter.load(candidates, references))
        assert streamed[0].human is not None or streamed[0].events is not None


def test_images_of_one_id_in_two_splits_are_not_joined_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    candidates, references = tmp_path / "candidates.jsonl", tmp_path / "references.jsonl"
    candidates.write_text('{"image_id": 0, "candidate": "a dog"}\n')
    rows = [{"image_id": 0, "caption": f"a dog {split}", "split": split} for split in ("train", "test")]
    references.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(sources, "LARGE", 1)
    with pytest.raises(InputError, match="image '0' is of the splits 'test' and 'train': two images with one id"):
        capmeter.stream(candidates, references)
