"""Names of columns, and where captions come from besides files."""

# ruff: noqa: E501

from __future__ import annotations

import csv
import gzip
import io
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.caption_sets import read_parts

import capmeter
from capmeter.captions import sources
from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.fields import FieldMap as Columns
from capmeter.captions.layouts import parse_columns
from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.core.output_files import CsvWriter
from capmeter.report.score_table import describe_note

EXPECTED = [("1", "a dog; runs", ("the dog", "one dog")), ("2", "a cat", ("the cat", "one, cat"))]


def held(captions: CaptionSet) -> list[Any]:
    return [(each.image_id, each.candidate, each.references) for each in captions]


TABLES = {
    "numbered from 0": "image_id,prediction,ref0,ref1\n1,a dog; runs,the dog,one dog\n2,a cat,the cat,\"one, cat\"\n",
    "JSON text": 'image_id,hypothesis,references\n1,a dog; runs,"[""the dog"", ""one dog""]"\n2,a cat,"[""the cat"", ""one, cat""]"\n',
    "ground truths": 'image_id,caption,ground_truth\n1,a dog; runs,"[""the dog"", ""one dog""]"\n2,a cat,"[""the cat"", ""one, cat""]"\n',
    "European Excel": '\ufeff\r\nimage_id;candidate;reference_1;reference_2\r\n1;"a dog; runs";the dog;one dog\r\n2;a cat;the cat;one, cat\r\n',
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_other_tools(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(TABLES[name].encode())
    assert held(load(path)) == EXPECTED
    assert held(read_parts(path)) == EXPECTED


@pytest.mark.parametrize("heading", ["image_id,candidate", "video_id,caption", "candidate,references", "caption"])
def test_a_heading_without_rows_lacks_candidates_not_columns(tmp_path: Path, heading: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(heading + "\n")
    with pytest.raises(InputError, match="there are no candidates"):
        load(path)


def test_one_reference_as_text() -> None:
    for name in ("reference", "ground_truth", "ref0", "reference_1", "references"):
        assert load([{"image_id": 1, "prediction": "a", name: "the dog"}])["1"].references == ("the dog",)
    with pytest.raises(InputError, match="both reference and ref0 are given"):
        load([{"image_id": 1, "prediction": "a", "reference": "b", "ref0": "c"}])
    with pytest.raises(InputError, match=r"candidate and prediction are all given, .* --column candidate=candidate"):
        load([{"image_id": 1, "candidate": "a", "prediction": "b", "references": ["c"]}])


def test_chosen_columns(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(
        'photo,said,caption,gt one,gt two\n1,a dog; runs,no,the dog,one dog\n2,a cat,no,the cat,"one, cat"\n'
    )
    columns = parse_columns(["image_id=photo", "candidate=said", "references=gt one", "references=gt two"])
    assert held(load(path, columns=columns)) == EXPECTED
    assert held(read_parts(path, columns=columns)) == EXPECTED
    with pytest.raises(InputError, match=r"no row has the column nothing that was chosen for human; it has caption, "):
        load(path, columns={**columns, "nothing": "human"})
    row = {"image_id": 1, "candidate": "a", "ref1": "b", "other": "c"}
    assert load([row], columns=parse_columns(["references=ref1,other"]))["1"].references == ("b", "c")
    by_image = {"1": {"out": [{"text": "a dog"}]}, "2": {"out": [{"text": "a cat"}]}}
    assert load(by_image, columns={"out[0].text": "candidate"}, on_missing="keep").image_ids == ("1", "2")
    for wrong in (["said"], ["text=said"], ["candidate="], ["image_id=a", "image_id=b"], ["id=a", "system=a"]):
        with pytest.raises(InputError, match=f"--column {wrong[-1]}"):
            parse_columns(wrong)


@pytest.mark.parametrize(
    "source",
    [
        [{"img_id": 1, "caption": "x", "text": "a dog"}, {"img_id": 2, "caption": "y", "text": "a cat"}],
        {"1": [{"text": "a dog"}], "2": [{"text": "a cat"}]},
        {"annotations": [{"img_id": 1, "text": "a dog"}, {"img_id": 2, "text": "a cat"}]},
    ],
)
def test_chosen_columns_of_every_layout(source: Any) -> None:
    columns = {"text": "references"} | ({} if "1" in source else {"img_id": "image_id"})
    captions = load({"1": "a", "2": "b"}, source, reference_columns=columns)
    assert [each.references for each in captions] == [("a dog",), ("a cat",)]


def test_candidates_and_references_have_columns_of_their_own(tmp_path: Path) -> None:
    candidates, references = tmp_path / "a.csv", tmp_path / "b.csv"
    candidates.write_text("key,text\n1,a dog\n")
    references.write_text("name,text\n1,the dog\n1,one dog\n")
    shared = {"key": "image_id", "text": "candidate"}
    captions = load(
        candidates, references, columns=shared, reference_columns={"name": "image_id", "text": "references"}
    )
    assert captions["1"].references == ("the dog", "one dog")
    with pytest.raises(InputError, match="no row has the column title that was chosen for references"):
        load(candidates, {"1": ["x"]}, columns=shared, reference_columns={"title": "references"})


@pytest.mark.parametrize(
    "rows",
    [
        [{"image_id": 1, "text": "a dog"}],
        [{"photo": 1, "caption": "a dog"}],
        [{"image_id": 1, "references": ["a"], "t": 1}],
    ],
)
def test_a_missing_column_is_explained_to_users_of_python_too(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(InputError, match=r'--column .*\(in Python columns=\{"NAME": FIELD\}\)'):
        load(rows, {"1": ["a dog"]})


def test_columns_of_the_candidates_alone() -> None:
    candidates = [{"img": 1, "text": "a dog"}]
    columns = {"img": "image_id", "text": "candidate"}
    annotations = {"images": [], "annotations": [{"id": 7, "image_id": 1, "caption": "the dog"}]}
    assert load(candidates, annotations, columns=columns)["1"].references == ("the dog",)
    rows = [{"image_id": 1, "references": ["the dog"]}]
    assert load(candidates, rows, columns=columns)["1"].references == ("the dog",)


@pytest.mark.parametrize("chosen", [(), ("image_id=ID", "candidate=Caption"), ("image_id=id", "references=caption")])
def test_the_same_headings_in_both_files(tmp_path: Path, chosen: tuple[str, ...]) -> None:
    candidates, references = tmp_path / "a.csv", tmp_path / "b.csv"
    candidates.write_text("ID,Caption\n1,a dog\n2,a cat\n")
    references.write_text("ID,Caption\n1,the dog\n2,the cat\n1,one dog\n")
    if "references=caption" in chosen:
        chosen += ("candidate=caption",)
    captions = load(candidates, references, columns=parse_columns(chosen))
    assert held(captions) == [("1", "a dog", ("the dog", "one dog")), ("2", "a cat", ("the cat",))]
    if "candidate=Caption" not in chosen:
        assert captions.notes["headings_read_without_case"]


def test_a_name_as_it_is_comes_before_one_of_another_case() -> None:
    row = {"Caption": "no", "caption": "a dog", "image_id": 1, "references": ["x"]}
    assert load([row])["1"].candidate == "a dog"
    with pytest.raises(InputError, match="both Image_ID and IMAGE_ID are given for image_id"):
        load([{"Image_ID": 1, "IMAGE_ID": 2, "candidate": "a", "references": ["b"]}])


def test_a_long_table_of_references(tmp_path: Path) -> None:
    path = tmp_path / "refs.csv"
    path.write_text("fname,raw_text\na.wav,Rain falls.\na.wav,Rain falls.\nb.wav,A dog barks.\na.wav,Heavy rain.\n")
    expected = {"a.wav": ("Rain falls.", "Rain falls.", "Heavy rain."), "b.wav": ("A dog barks.",)}
    for text in ("references=raw_text", "candidate=raw_text"):
        assert capmeter.load_references(path, columns=parse_columns(["image_id=fname", text])) == expected


def test_rows_without_an_image_are_numbered() -> None:
    for said, known in (("predict", "label"), ("response", "labels"), ("prediction", "reference")):
        rows = [{"query": "describe", said: text, known: text + " runs"} for text in ("a dog", "a cat")]
        captions = load(rows)
        assert held(captions) == [("0", "a dog", ("a dog runs",)), ("1", "a cat", ("a cat runs",))]
        assert list(captions.notes) == ["rows_without_image"]
    with pytest.raises(InputError, match="image_id is missing"):
        load(rows, {"0": ["a dog"], "1": ["a cat"]})


def test_the_picture_or_the_id_names_the_image() -> None:
    rows = [{"image": f"{k // 2}.jpg", "id": k, "candidate": "a", "references": ["b"]} for k in range(3)]
    captions = load(rows)
    assert captions.image_ids == ("0.jpg", "0.jpg", "1.jpg") and captions.ids == ("0", "1", "2")
    assert load([{"id": 7, "candidate": "a", "references": ["b"]}]).ids == ("7",)
    for order in ([rows[0], {"image_id": "1", **rows[2]}], [{"image_id": "1", **rows[2]}, rows[0]]):
        with pytest.raises(InputError, match="image_id is missing"):
            load(order)


@pytest.mark.parametrize(
    "name", ["video_id", "audio_id", "clip_id", "uid", "key", "video", "image_path", "image_name", "file_name"]
)
def test_other_names_of_what_a_caption_is_of(name: str, tmp_path: Path) -> None:
    videos = ("v9.mp4", "v8.mp4", "v7.mp4")
    rows = [{name: video, "candidate": f"a {video}", "references": ["b"]} for video in videos]
    captions = load(rows)
    assert captions.image_ids == videos and captions.notes == {"images_by": [name]}
    assert captions.images == (videos if name.startswith("image_") else (None, None, None))
    result = load(
        [{name: row[name], "prediction": row["candidate"]} for row in rows], {"v7": ["b"], "v8": ["c"], "v9": ["d"]}
    )
    assert [each.references for each in result] == [("d",), ("c",), ("b",)]
    assert tuple(capmeter.load_references([{name: row[name], "references": ["b"]} for row in rows])) == videos
    (tmp_path / "rows.csv").write_text(f"{name},caption,ref1\n" + "".join(f"{video},a,b\n" for video in videos))
    assert load(tmp_path / "rows.csv").image_ids == videos


@pytest.mark.parametrize("name", ["video_id", "video", "image_path"])
def test_native_names_and_the_users_come_before_other_names(name: str) -> None:
    rows: list[dict[str, Any]] = [{name: f"v{9 - k}", "candidate": "a", "references": ["b"]} for k in range(2)]
    with_id = load([{"id": f"row {k}", **row} for k, row in enumerate(rows)])
    assert with_id.ids == ("row 0", "row 1")
    assert with_id.image_ids == (("v9", "v8") if name == "video_id" else with_id.ids)
    for other in ("image_id", "image", "Image ID", "imageId"):
        assert load([{other: f"photo {k}", **row} for k, row in enumerate(rows)]).image_ids == ("photo 0", "photo 1")
    as_caption = load([{name: "a dog", "candidate": "b"}], columns={name: "candidate", "candidate": "references"})
    assert (as_caption.image_ids, as_caption["0"].candidate) == (("0",), "a dog")
    assert load([{**row, name: [row[name]]} for row in rows]).image_ids == ("0", "1")  # a list is not a name


@pytest.mark.parametrize("name", ["audio", "video", "image"])
def test_what_a_caption_is_of_names_it_by_a_path_alone(name: str) -> None:
    rows = [{name: {"bytes": b"RIFF", "path": path}, "caption": "a"} for path in ("a.wav", "b.wav")]
    assert load(rows, on_missing="keep").image_ids == ("a.wav", "b.wav")
    assert load([{"id": k, **row} for k, row in enumerate(rows)], on_missing="keep").image_ids == ("0", "1")
    nameless = {name: {"bytes": b"RIFF", "path": None}, "caption": "a"}
    with pytest.raises(InputError, match="is missing"):
        load([nameless], on_missing="keep")
    assert load([{**nameless, "references": ["b"]}]).image_ids == ("0",)


def test_a_name_that_is_nearly_known_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("imageid,candidates,Reference\n1,a,b\n")
    with pytest.raises(
        InputError,
        match=r"imageid \(image_id\?\), candidates \(candidate\?\), Reference \(reference\?\); expected image_id",
    ):
        load(path)
    with pytest.raises(InputError, match=r"image_id is missing, .* image_ids \(image_id\?\), .*--column image_id=NAME"):
        load([{"image_ids": 1, "candidate": "a", "references": ["b"]}])


HOSTILE_IDS = ["a\rb", "a\nb", 'a"b', "a,b", "a;b", "a\u2028b", " a ", "\ta", "é", "a\x85b"]
HOSTILE_IDS += ["=1+1", "+a", "-a", "@a", "#"]


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_the_csv_writer_is_read_back(delimiter: str) -> None:
    text = io.StringIO()
    table = CsvWriter(text, delimiter)
    for id in HOSTILE_IDS:
        table.write([id, -0.5])
    assert list(csv.reader(io.StringIO(text.getvalue(), newline=""), delimiter=delimiter)) == [
        [id, "-0.5"] for id in HOSTILE_IDS
    ]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_hostile_ids_come_back_from_per_caption_files(tmp_path: Path, ending: str) -> None:
    from capmeter.evaluation.runner import score
    from capmeter.meta.metric_scores import read_scores
    from capmeter.report.per_caption import write_per_caption
    from capmeter.report.tables import Table, to_csv

    results = score(candidates=dict.fromkeys(HOSTILE_IDS, "a dog"), references={i: ["a cat"] for i in HOSTILE_IDS},
                    metrics="rouge-l")  # fmt: skip
    path = tmp_path / f"x.{ending}"
    write_per_caption({"s": results}, path)
    assert read_scores(path, HOSTILE_IDS)["rouge-l"] == dict(results["rouge-l"].items)
    rows = list(csv.reader(io.StringIO(to_csv(Table("", ["id"], [[id] for id in HOSTILE_IDS], [False])), newline="")))
    assert rows == [["id"], *([id] for id in HOSTILE_IDS)]


ROWS = b'{"image_id": 1, "candidate": "a dog", "references": ["a dog"]}\n'


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input(name: str) -> None:
    code = "import sys; sys.argv = sys.argv[1:]; from capmeter.cli.main import main; main()"
    command = [sys.executable, "-c", code, "capmeter", "score", name, "-m", "rouge-l", "--format", "csv"]
    done = subprocess.run(command, input=gzip.compress(ROWS), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().splitlines()[1].startswith("standard input,rouge-l,1.0")
    done = subprocess.run(command, input=b"a dog", capture_output=True, timeout=120, check=False)
    assert done.returncode == 1 and b"standard input: neither JSON nor a table" in done.stderr


def test_what_is_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name in ("fifo", "socket", "/dev/zero"):
            with pytest.raises(InputError, match="is a pipe, a socket or a device"):
                load(name)
    for name in ("a\ud800", "a\0b"):
        with pytest.raises(InputError, match="is not a file name: it contains"):
            load(name)


def test_a_gzip_bomb_is_refused_before_memory_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LARGEST_DOCUMENT", 1 << 20)
    path = tmp_path / "x"
    for content in (b"[" + b" " * (3 << 20) + b"]", ROWS * 60_000, ROWS + b"{" + b" " * (3 << 20)):
        path.write_bytes(gzip.compress(content))
        for read in (load, read_parts):
            with pytest.raises(InputError, match=r"unzips to more than 0\.0 GiB and 100 times its size"):
                read(path)
    path.write_bytes(b"[" + b" " * (2 << 20) + b"]")
    with pytest.raises(InputError, match="in one document; JSON lines, CSV and Parquet are read in parts"):
        load(path)
    monkeypatch.setattr(sources, "LONGEST_LINE", 100)
    path.write_bytes(ROWS + b'{"image_id": 2, "candidate": "' + b"a" * 100 + b'"}\n')
    with pytest.raises(InputError, match="a line of more than"):
        load(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"image_id": 10**5000}, "thousands of digits"),
        ({"id": 10**5000}, "thousands of digits"),
        ({None: 1, "image_id": None}, "image_id is missing"),
        ({"references": {10**5000: "a"}}, "a number of more than 40 digits"),
        ({"captions": {10**5000: "a"}}, "thousands of digits|are all given"),
        ({"references": [b"a"]}, r"references\[0\] is a bytes"),
        ({"human": [None]}, "human holds"),
    ],
)
def test_hostile_values(row: dict[Any, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load([{"image_id": 1, "candidate": "a", "references": ["b"], **row}])
    with pytest.raises(InputError, match="thousands of digits"):
        load({"1": "a"}, {"annotations": [{"image_id": 10**5000, "caption": "a"}]})


def test_values_of_numpy() -> None:
    import numpy as np

    row = {
        "image_id": np.int64(7),
        "candidate": np.str_("a"),
        "references": np.array(["b", "c"]),
        "human": np.array([1.5]),
    }
    captions = load([row])["7"]
    assert (captions.candidate, captions.references, captions.human) == ("a", ("b", "c"), (1.5,))


def test_many_headings_of_another_case_take_linear_time() -> None:
    names = [f"{'REF' if number % 2 else 'ref'}{number}" for number in range(60_000)]
    start, columns = time.process_time(), Columns()
    assert all(columns.field(name) == "references" for name in names)
    assert time.process_time() - start < 2
    assert len(columns.notes["headings_read_without_case"]) == 30_000


def test_messages_name_the_option_that_was_given_and_a_way_out(tmp_path: Path) -> None:
    rows = [{"human": "a dog runs", "machine": "a dog"}]
    with pytest.raises(InputError, match="both --column candidate=NAME --column references=NAME need none"):
        capmeter.load(rows)
    (caption,) = capmeter.load(rows, columns={"human": "references", "machine": "candidate"})
    assert (caption.candidate, caption.references) == ("a dog", ("a dog runs",))
    notes = capmeter.load(rows, columns={"human": "references", "machine": "candidate"}).notes["rows_without_image"]
    assert "--column image_id=NAME" in describe_note("rows_without_image", notes)
    with pytest.raises(InputError, match="--reference-column id: expected FIELD=NAME"):
        parse_columns(["id"], flag="--reference-column")


def test_messages_name_the_column_that_is_missing() -> None:
    """Advice that works: the column of the references, or of the candidates, is among those that are not used."""
    rows = [{"image_id": "7", "caption": "a dog", "people": ["the dog"]}]
    with pytest.raises(InputError, match=r"or their column \(--column references=NAME; not used: people\)"):
        load(rows)
    assert load(rows, columns={"people": "references"})["7"].references == ("the dog",)
    rows = [{"image_id": "7", "machine": "a dog", "references": ["the dog"]}]
    with pytest.raises(InputError, match="or say which field is the candidate: --column candidate=NAME"):
        load(rows)
    assert load(rows, columns={"machine": "candidate"})["7"].candidate == "a dog"
