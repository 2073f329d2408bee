"""Captions that are written are read again unchanged, in every format; what a format cannot hold is reported."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load import load, load_reference_table
from capmeter.captions.writing import ROWS, TARGETS, convert, save
from capmeter.core.errors import InputError

# before Python 3.11 its csv module cannot read a NUL
characters = st.characters(exclude_categories=["Cs"], exclude_characters="" if sys.version_info >= (3, 11) else "\0")
# a caption without spaces that looks like a file name is refused
text = st.text(characters, max_size=30).filter(lambda t: " " in t or "." not in t)
name = st.text(characters, min_size=1, max_size=8).filter(lambda t: t.strip() != "")
references = st.lists(text, min_size=1, max_size=4).map(tuple)
full = st.builds(
    Caption,
    id=st.just(""),
    image_id=name,
    candidate=text,
    references=references,
    image=st.none() | name,
    system=st.none() | name,
    human=st.none() | st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=3).map(tuple),
)


@st.composite
def sets(draw: Any, rows: Any = full) -> CaptionSet:
    """Captions under ids of their own."""
    captions = draw(st.lists(rows, min_size=1, max_size=6))
    ids = draw(st.lists(name, min_size=len(captions), max_size=len(captions), unique=True))
    identified = (
        Caption(id, c.image_id, c.candidate, c.references, c.image, c.system, c.human)
        for id, c in zip(ids, captions, strict=True)
    )
    return CaptionSet.from_captions(identified)


@settings(max_examples=60)
@given(captions=sets())
@pytest.mark.parametrize("to", ROWS)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_rows_come_back_as_they_were(to: str, ending: str, captions: CaptionSet) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{ending}"
        summary = save(captions, path, to=to)
        assert (summary.files, summary.dropped) == ({str(path): ("rows", len(captions))}, {})
        assert list(load(path, format=to)) == list(captions)


unique_images = st.lists(st.tuples(name, text, references), min_size=1, max_size=6, unique_by=lambda row: row[0]).map(
    lambda rows: CaptionSet.from_captions(Caption(image, image, candidate, texts) for image, candidate, texts in rows)
)


@settings(max_examples=60)
@given(captions=unique_images)
@pytest.mark.parametrize("to", ["coco", "pycocoevalcap", "clipscore"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_pairs_come_back_as_they_were(to: str, ending: str, captions: CaptionSet) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, other = Path(folder) / f"x{ending}", Path(folder) / f"y{ending}"
        summary = save(captions, path, to=to, references=other)
        assert summary.files == {
            str(path): ("candidates", len(captions)),
            str(other): ("images' references", len(captions)),
        }
        again = load(path, other, format=to, references_format=to)
        assert [(c.image_id, c.candidate, c.references) for c in again] == [
            (c.image_id, c.candidate, c.references) for c in captions
        ]


def test_several_candidates_of_an_image(tmp_path: Path) -> None:
    captions = load({"7": ["a", "b"], "8": ["c"]}, {"7": ["x", "y"], "8": ["z"]})
    for to in ("coco", "pycocoevalcap"):
        save(captions, tmp_path / "a", to=to, references=tmp_path / "b")
        assert list(load(tmp_path / "a", tmp_path / "b")) == list(captions)
    with pytest.raises(InputError, match=r"image '7' has several candidates, .* convert to pycocoevalcap"):
        save(captions, tmp_path / "c", to="clipscore")
    assert not (tmp_path / "c").exists()


ANNOTATIONS = {
    "images": [{"id": 7, "file_name": "a.jpg"}, {"id": 30, "file_name": "b.jpg"}],
    "annotations": [
        {"id": 1, "image_id": 7, "caption": "a dog is running"},
        {"id": 2, "image_id": 30, "caption": "two cats sleep"},
        {"id": 3, "image_id": 30, "caption": "cats"},
    ],
}


@pytest.mark.parametrize("to", TARGETS)
def test_references_alone_go_to_every_format_and_back(tmp_path: Path, to: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    summary = convert(ANNOTATIONS, first, to=to)
    assert (summary.source_format, summary.side) == ("coco", "references")
    assert summary.dropped == ({"image": 2} if to in ("pycocoevalcap", "clipscore") else {})
    assert load({"7": "a", "30": "b"}, first)["30"].references == ("two cats sleep", "cats")
    convert(first, second, to="coco", side="references")
    again = json.loads(second.read_text())
    assert again["annotations"] == ANNOTATIONS["annotations"]
    if not summary.dropped:
        assert again["images"] == ANNOTATIONS["images"]


VIDEO = {"timestamps": [[1, 3], [0, 1]], "sentences": ["it runs", "a dog"]}
VIDEOS = {"v1": [VIDEO, {"timestamps": [[0, 2]], "sentences": ["dogs"]}], "v2": [VIDEO]}


@pytest.mark.parametrize("to", ROWS)
@pytest.mark.parametrize(
    ("source", "lost"),
    [
        ([{"image_id": k % 2, "caption": f"a dog {k}", "annotator": k} for k in range(4)], "annotator"),
        (VIDEOS, "events"),
        ([{"video_id": video_id, "references": videos} for video_id, videos in VIDEOS.items()], "events"),
        ([{"image_id": 1, "references": []}, {"image_id": 2, "references": []}], ""),
    ],
)
def test_references_in_several_rows_or_with_events_come_back(tmp_path: Path, to: str, source: Any, lost: str) -> None:
    summary = convert(source, tmp_path / "x", to=to, side="references")
    before, after = (load_reference_table(each).rows.values() for each in (source, tmp_path / "x"))
    assert [row.references for row in after] == [row.references for row in before]
    assert summary.dropped == ({} if not lost or (lost == "events" and to.startswith("json")) else {lost: 2})
    if not summary.dropped:
        assert [row.reference_events for row in after] == [row.reference_events for row in before]


def test_a_text_beside_events_stays(tmp_path: Path) -> None:
    row = {"video_id": "v1", "candidate": "dogs play", **VIDEO, "references": VIDEOS["v1"]}
    convert([row], tmp_path / "x", to="json")
    assert list(load(tmp_path / "x")) == list(load([row])) and load([row])["v1"].candidate == "dogs play"
    with pytest.raises(InputError, match=r"references\[0\] is an object with the fields timestamps, sentences"):
        load([{**row, "references": [VIDEO, "a dog"]}])


def test_splits_stay(tmp_path: Path) -> None:
    dataset = {
        "images": [
            {"cocoid": 7, "filename": "a.jpg", "split": "train", "sentences": [{"raw": "a dog"}]},
            {"cocoid": 8, "filename": "b.jpg", "split": "test", "sentences": [{"raw": "a cat"}]},
        ]
    }
    convert(dataset, tmp_path / "rows.jsonl", to="jsonl")
    convert(tmp_path / "rows.jsonl", tmp_path / "again.json", to="karpathy")
    assert load({"8": "cat"}, tmp_path / "again.json", split="test")["8"].references == ("a cat",)
    mixed = [{"image_id": id, "image": "p.jpg", "caption": id} for id in ("7", "b")]
    convert(mixed, tmp_path / "x", to="karpathy", side="references")
    assert load_reference_table(tmp_path / "x").references == {"7": ("7",), "b": ("b",)}
    assert load_reference_table(tmp_path / "x").images == {"7": "p.jpg", "b": "p.jpg"}
    summary = convert(dataset, tmp_path / "one.json", to="coco", split="test")
    assert json.loads((tmp_path / "one.json").read_text())["images"] == [{"id": 8, "file_name": "b.jpg"}]
    assert summary.dropped == {"split": 1}


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    row = {
        "id": "x",
        "image_id": 7,
        "candidate": "a",
        "references": ["b"],
        "human": [1],
        "system": "s",
        "category": "c",
    }
    summary = convert([row, {"image_id": 8, "candidate": "a"}], tmp_path / "out.json", to="coco")
    assert summary.dropped == {"id": 1, "references": 1, "human": 1, "system": 1}
    assert summary.ignored == ["category"]
    assert json.loads((tmp_path / "out.json").read_text()) == [
        {"image_id": 7, "caption": "a"},
        {"image_id": 8, "caption": "a"},
    ]


def test_a_pair_becomes_rows(tmp_path: Path) -> None:
    convert({"7": "a dog"}, tmp_path / "x.jsonl", to="jsonl", references=ANNOTATIONS)
    expected = {"image_id": "7", "candidate": "a dog", "references": ["a dog is running"], "image": "a.jpg"}
    assert json.loads((tmp_path / "x.jsonl").read_text()) == expected


def test_one_system_of_several(tmp_path: Path) -> None:
    rows = [
        {"image_id": 1, "captions": {"one": "a", "two": "b"}},
        {"image_id": 2, "captions": {"one": "c", "two": "d"}},
    ]
    summary = convert(rows, tmp_path / "x.json", to="clipscore", system="two")
    assert json.loads((tmp_path / "x.json").read_text()) == {"1": "b", "2": "d"}
    assert summary.dropped == {"system": 2}


@pytest.mark.parametrize(
    ("source", "arguments", "expected"),
    [
        ({"1": "a"}, {"to": "karpathy"}, "the format karpathy holds references, and the source has none"),
        ({"1": "a"}, {"to": "coco", "references_path": "r"}, "the source has no references to write to r"),
        ({"1": "a"}, {"to": "xml"}, "cannot write the format 'xml'; expected one of jsonl"),
        ({"1": "a"}, {"to": "list"}, "cannot write the format 'list'"),
        ({"1": "a"}, {"to": "jsonl", "references_path": "x"}, "holds candidates and references in one file"),
        ([{"image_id": 1, "candidate": "a", "references": ["b"]}], {"to": "coco", "references_path": "."}, "a folder"),
        (
            [{"image_id": 1, "candidate": "a", "references": [r]} for r in "bc"],
            {"to": "coco", "references_path": "r"},
            "different references",
        ),
    ],
)
def test_what_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Any, arguments: Any, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=expected):
        convert(source, "out", **arguments)
    assert list(tmp_path.iterdir()) == [], "neither file of a pair stays where the other failed"
