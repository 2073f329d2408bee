"""Zip archives as files of captions: chosen by content, bounded, and never unpacked."""

from __future__ import annotations

import json
import random
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from support.caption_sets import read_parts

import capmeter
from capmeter.captions import sources
from capmeter.core.errors import InputError

RESULTS = [{"image_id": 7, "caption": "a dog runs"}]
ANNOTATIONS = {"images": [{"id": 7}], "annotations": [{"image_id": 7, "id": 1, "caption": "a dog"}]}
OTHER = [{"image_id": 7, "caption": "of the test set"}]


def archive(path: Path, members: dict[str, object], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as opened_archive:
        for name, content in members.items():
            opened_archive.writestr(name, content if isinstance(content, str | bytes) else json.dumps(content))
    return path


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_the_only_file_of_captions_is_read(tmp_path: Path, compression: int) -> None:
    members = {"readme.txt": "hello", "__MACOSX/._results.json": "x", "out/": "", "out/results.json": RESULTS}
    path = archive(tmp_path / "results.zip", members, compression)
    captions = capmeter.load(path, archive(tmp_path / "references.zip", {"captions.json": ANNOTATIONS}, compression))
    assert (captions["7"].candidate, captions["7"].references) == ("a dog runs", ("a dog",))


def test_a_log_of_inspect_in_its_own_format_is_named(tmp_path: Path) -> None:
    members = {"_journal/start.json": {}, "samples/1.json": {}, "header.json": {}}
    with pytest.raises(InputError, match="inspect log convert --to json"):
        capmeter.load(archive(tmp_path / "log.eval", members))


def test_one_of_many_is_named(tmp_path: Path) -> None:
    members = {"annotations/captions_val2014.json": ANNOTATIONS, "annotations/instances_val2014.json": {}}
    path = archive(tmp_path / "annotations_trainval2014.zip", members)
    with pytest.raises(InputError, match=r"holds 2 files of captions \(annotations/captions_val2014.json, .*such as"):
        capmeter.load({"7": "a dog"}, path)
    captions = capmeter.load({"7": "a dog"}, str(path / "annotations" / "captions_val2014.json"))
    assert captions["7"].references == ("a dog",)
    with pytest.raises(InputError, match=r"no file called other.json in this archive; it holds annotations/capt"):
        capmeter.load(path / "other.json")


def test_tables_rows_and_parquet_inside(tmp_path: Path) -> None:
    rows = [{"image_id": "7", "candidate": "a dog", "references": ["a dog"]}]
    captions = capmeter.load(rows)
    for kind in ("jsonl", "csv", "parquet"):
        capmeter.save(captions, tmp_path / f"rows.{kind}", to=kind)
        path = archive(tmp_path / f"{kind}.zip", {f"rows.{kind}": (tmp_path / f"rows.{kind}").read_bytes()})
        assert list(capmeter.load(path)) == list(captions)
        assert list(capmeter.load(path / f"rows.{kind}")) == list(captions)
        assert read_parts(path) == list(captions)


def test_names_that_lead_out_of_a_folder_are_only_names(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    path = archive(tmp_path / "inner" / "results.zip", {"../outside.json": RESULTS, "/etc/other.txt": "x"})
    assert capmeter.load(path, {"7": ["a dog"]})["7"].candidate == "a dog runs"
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["inner", "results.zip"]


def test_an_archive_that_fills_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LARGEST_DOCUMENT", 1 << 20)
    path = archive(tmp_path / "bomb.zip", {"results.json": b"[" + b" " * (1 << 24) + b"]"})
    assert path.stat().st_size < 1 << 15
    with pytest.raises(InputError, match=r"results.json: it unzips to more than"):
        capmeter.load(path)


def test_a_member_that_says_less_than_it_holds_is_damaged(tmp_path: Path) -> None:
    path = archive(tmp_path / "lies.zip", {"results.json": RESULTS})
    content = bytearray(path.read_bytes())
    size = len(json.dumps(RESULTS)).to_bytes(4, "little")
    for at in (22, content.index(b"PK\x01\x02") + 24):  # in the member's head, and in the directory
        assert content[at : at + 4] == size
        content[at : at + 4] = (10).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(InputError, match="zip data is cut off or damaged"):
        capmeter.load(path)


def test_damaged_encrypted_and_empty_archives(tmp_path: Path) -> None:
    path = archive(tmp_path / "results.zip", {"results.json": RESULTS})
    content = path.read_bytes()
    for cut in (10, len(content) // 2, len(content) - 5):
        (tmp_path / "cut.zip").write_bytes(content[:cut])
        with pytest.raises(InputError, match="zip data is cut off or damaged"):
            capmeter.load(tmp_path / "cut.zip")
    locked = bytearray(content)
    locked[6] |= 1
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "locked.zip").write_bytes(locked)
    with pytest.raises(InputError, match=r"results.json in it is encrypted"):
        capmeter.load(tmp_path / "locked.zip")
    with pytest.raises(InputError, match=r"holds 0 files of captions \(readme.txt\)"):
        capmeter.load(archive(tmp_path / "empty.zip", {"readme.txt": "nothing here"}))


def test_a_path_into_a_file_that_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(RESULTS))
    with pytest.raises(InputError, match=r"results.json is a file, not a folder or a zip archive"):
        capmeter.load(tmp_path / "results.json" / "inner.json")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_archive_is_a_sentence(tmp_path: Path, compression: int, seed: int) -> None:
    content = archive(tmp_path / "a.zip", {"a.json": RESULTS * 40}, compression).read_bytes()
    rng = random.Random(seed)
    damaged_path = tmp_path / "damaged.zip"
    for _ in range(150):
        damaged = bytearray(content)
        for position in rng.sample(range(4, len(content)), rng.choice((1, 2, 8))):
            damaged[position] = rng.randrange(256)
        damaged_path.write_bytes(damaged[: rng.choice((len(content), rng.randrange(10, len(content))))])
        with suppress(InputError):
            capmeter.load(damaged_path, {"7": ["a dog"]})


def test_a_damaged_workbook_is_a_sentence(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for cells in (("image_id", "candidate", "reference"), (1, "a dog", "the dog"), (2, "a cat", "the cat")):
        book.active.append(cells)
    book.save(tmp_path / "a.xlsx")
    content = (tmp_path / "a.xlsx").read_bytes()
    assert len(capmeter.load(tmp_path / "a.xlsx")) == 2
    rng = random.Random(0)
    for _ in range(150):
        damaged = bytearray(content)
        damaged[rng.randrange(4, len(content))] = rng.randrange(256)
        (tmp_path / "b.xlsx").write_bytes(damaged)
        with suppress(InputError):
            capmeter.load(tmp_path / "b.xlsx")


def test_archives_without_captions_and_behind_other_bytes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"0 files of captions \(notes\.md\), expected one$"):
        capmeter.load(archive(tmp_path / "a.zip", {"notes.md": "x"}))
    pytest.importorskip("openpyxl", reason="needs the excel extra")
    path = archive(tmp_path / "x.zip", {"rows.jsonl": RESULTS})
    path.write_bytes(b"\t" + path.read_bytes())
    with pytest.raises(InputError, match="its Excel data is"):
        capmeter.load(path)
