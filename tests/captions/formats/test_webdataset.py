"""Tar shards in the layout of WebDataset."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

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
    candidates = tar(tmp_path / "said.tar", {"1.txt": b"a dog", "2.txt": b"two cats"})
    references = tar(tmp_path / "told.tar", {"2.txt": b"cats", "1.txt": b"the dog"})
    captions = capmeter.load(candidates, references)
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


def test_no_captions_are_lost_where_a_tar_is_damaged(tmp_path: Path) -> None:
    """A damaged header, or a cut between two members, is not the end of the archive."""
    members = {f"{k}.json": json.dumps({"candidate": f"a dog {k}", "references": ["a"]}).encode() for k in range(3)}
    path = tar(tmp_path / "x.tar", members)
    content = path.read_bytes()
    assert len(capmeter.load(path)) == 3
    second = 1024  # the header of the second member
    flipped = content[: second + 1] + b"!" + content[second + 2 :]
    zeroed = content[:second] + bytes(512) + content[second + 512 :]
    for damaged in (flipped, zeroed, content[:second], content[: 3 * 1024], content[: second + 100]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"x\.tar: its tar data is cut off or damaged \(.*\); fetch it again"):
            capmeter.load(path)
        with pytest.raises(InputError, match="cut off or damaged"):
            list(capmeter.stream(path))


def test_an_archive_behind_another_is_read(tmp_path: Path) -> None:
    row = json.dumps({"candidate": "a dog", "references": ["a"]}).encode()
    first, second = (tar(tmp_path / f"{name}.tar", {f"{name}.json": row}) for name in "ab")
    first.write_bytes(first.read_bytes() + second.read_bytes())
    assert list(capmeter.load(first).ids) == ["a", "b"]
