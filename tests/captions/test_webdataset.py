"""Tar shards in the layout of WebDataset."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest
from support.caption_sets import read_parts

import capmeter
from capmeter.core.errors import InputError


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
        },
    )
    for captions in (capmeter.load(path), read_parts(path)):
        assert [(each.id, each.candidate, each.references) for each in captions] == [
            ("00/a", "a dog", ("a dog runs",)),
            ("7", "two cats", ("cats", "two")),
        ]
    assert capmeter.load(path)["00/a"].image_id == "00/a"


def test_texts_of_one_tar_are_scored_against_those_of_another(tmp_path: Path) -> None:
    candidates = tar(tmp_path / "said.tar", {"1.txt": b"a dog", "2.txt": b"two cats"})
    references = tar(tmp_path / "told.tar", {"2.txt": b"cats", "1.txt": b"the dog"})
    captions = capmeter.load(candidates, references)
    assert [each.references for each in captions] == [("the dog",), ("cats",)]


def test_what_only_late_samples_have_is_seen(tmp_path: Path) -> None:
    texts = ["a dog"] * 150 + [["a dog", "the dog"]] * 150
    references = tar(
        tmp_path / "r.tar", {f"{k}.json": json.dumps({"caption": text}).encode() for k, text in enumerate(texts)}
    )
    captions = capmeter.load([{"image_id": k, "caption": "a cat"} for k in range(300)], references)
    assert captions["0"].references == ("a dog",) and captions["299"].references == ("a dog", "the dog")


def test_a_tar_that_is_cut_off_or_holds_no_rows_is_named(tmp_path: Path) -> None:
    path = tar(tmp_path / "x.tar", {"1.json": json.dumps({"candidate": "a", "references": ["a"] * 2000}).encode()})
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(InputError, match="cut off or damaged"):
        capmeter.load(path)
    whole = tar(tmp_path / "v.tar", {"1.txt": b"a dog", "2.txt": b"a cat"}).read_bytes()
    for damaged in (whole[:1024], whole[:1200], whole[:2048], whole * 2, whole[:1030] + b"?" + whole[1031:]):
        for content in (damaged, gzip.compress(damaged)):
            path.write_bytes(content)
            with pytest.raises(InputError, match=r"ends or is damaged after [12], without the end"):
                capmeter.load(path, {"1": ["a dog"], "2": ["a cat"]})
    with pytest.raises(InputError, match=r"1\.json: a list"):
        capmeter.load(tar(tmp_path / "y.tar", {"1.json": b"[1]"}))
    with pytest.raises(InputError, match=r"found \.jpg; unpack"):
        capmeter.load(tar(tmp_path / "z.tar", {"1.jpg": b"\n"}))
    with pytest.raises(InputError, match="candidate is missing"):
        capmeter.load(tar(tmp_path / "w.tar", {"1.json": b'{"references": ["a"]}'}))


@pytest.mark.parametrize(
    "members",
    [
        [("1.txt", b"a dog"), ("1.txt", b"a cow")],
        [("1.txt", b"a dog"), ("1.TXT", b"a cow")],
        [("1.txt", b"a dog"), ("./1.txt", b"a cow")],
        [("1.txt", b"a dog"), ("2.txt", b"a cow"), ("1.txt", b"a cow")],
        [("1.json", b'{"caption": "a cow"}'), ("1.txt", b"a dog")],
    ],
)
def test_two_captions_under_one_key_are_refused(members: list[tuple[str, bytes]], tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with pytest.raises(InputError, match=r"a second file of the sample 1|two captions under one key"):
        capmeter.load(tmp_path / "x.tar", {"1": ["a dog"], "2": ["a cow"]})


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_what_is_no_file_in_place_of_a_text_is_refused(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        member = tarfile.TarInfo("1.txt")
        member.type, member.linkname = kind, "2.txt"
        archive.addfile(member)
    with pytest.raises(InputError, match="a folder, link or device"):
        capmeter.load(tmp_path / "x.tar", {"1": ["a dog"]})


def test_shards_without_samples_and_samples_of_one_text_twice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found nothing"):
        capmeter.load(tar(tmp_path / "x.tar", {}), {"1": ["a dog"]})
    path = tar(tmp_path / "x.tar", {"1.json": b'{"caption": "a dog", "txt": "u"}', "1.txt": b"a dog"})
    assert capmeter.load(path, {"1": ["a dog"]})["1"].candidate == "a dog"
    path = tar(tmp_path / "x.tar", {"1.txt": b"a dog", "1.json": b'{"caption": null, "txt": "u"}'})
    assert capmeter.load(path, {"1": ["a dog"]})["1"].candidate == "a dog"
    path = tar(tmp_path / "x.tar", {"1.json": b'{"n": 7, "caption": "a cow", "o": {"a": "a cat"}}', "1.txt": b"a dog"})
    assert capmeter.load(path, {7: ["x"]}, columns={"n": "image_id", "o.a": "candidate"})["7"].candidate == "a cat"
