"""Names of columns, and where captions come from besides files."""

# ruff: noqa: E501

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from capmeter.captions import files
from capmeter.captions.columns import chosen_columns
from capmeter.captions.csvtext import CsvWriter, csv_lines
from capmeter.captions.io import load
from capmeter.captions.model import CaptionSet
from capmeter.captions.streaming import stream
from capmeter.captions.writing import convert
from capmeter.errors import InputError

EXPECTED = [("1", "a dog; runs", ("the dog", "one dog")), ("2", "a cat", ("the cat", "one, cat"))]


def held(captions: CaptionSet) -> list[Any]:
    return [(each.image_id, each.candidate, each.references) for each in captions]


TABLES = {
    "numbered from 0": "image_id,prediction,ref0,ref1\n1,a dog; runs,the dog,one dog\n2,a cat,the cat,\"one, cat\"\n",
    "JSON text": 'image_id,hypothesis,references\n1,a dog; runs,"[""the dog"", ""one dog""]"\n2,a cat,"[""the cat"", ""one, cat""]"\n',
    "ground truths": 'image_id,caption,ground_truth\n1,a dog; runs,"[""the dog"", ""one dog""]"\n2,a cat,"[""the cat"", ""one, cat""]"\n',
    "European Excel": '\ufeffimage_id;candidate;reference_1;reference_2\r\n1;"a dog; runs";the dog;one dog\r\n2;a cat;the cat;one, cat\r\n',
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_other_tools(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(TABLES[name].encode())
    assert held(load(path)) == EXPECTED
    assert [row for part in stream(path, rows=1) for row in held(part)] == EXPECTED


def test_one_reference_as_text() -> None:
    for name in ("reference", "ground_truth", "ref0", "reference_1"):
        assert load([{"image_id": 1, "prediction": "a", name: "the dog"}])["1"].references == ("the dog",)
    with pytest.raises(InputError, match="references is one text"):
        load([{"image_id": 1, "prediction": "a", "references": "the dog"}])
    with pytest.raises(InputError, match="both reference and ref0 are given"):
        load([{"image_id": 1, "prediction": "a", "reference": "b", "ref0": "c"}])
    with pytest.raises(InputError, match=r"candidate and prediction are all given, .* --column candidate=candidate"):
        load([{"image_id": 1, "candidate": "a", "prediction": "b", "references": ["c"]}])


def test_chosen_columns(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(
        'photo,said,caption,gt one,gt two\n1,a dog; runs,no,the dog,one dog\n2,a cat,no,the cat,"one, cat"\n'
    )
    columns = chosen_columns(["image_id=photo", "candidate=said", "references=gt one", "references=gt two"])
    assert held(load(path, columns=columns)) == EXPECTED
    assert [row for part in stream(path, columns=columns, rows=1) for row in held(part)] == EXPECTED
    with pytest.raises(
        InputError, match=r"no row has the column nothing that was chosen for human; the unknown ones are caption"
    ):
        load(path, columns={**columns, "nothing": "human"})
    for wrong in (["said"], ["text=said"], ["candidate="], ["candidate=a", "candidate=b"], ["id=a", "system=a"]):
        with pytest.raises(InputError, match=f"--column {wrong[-1]}"):
            chosen_columns(wrong)


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


HOSTILE_IDS = [
    "a\rb",
    "a\nb",
    'a"b',
    "a,b",
    "a;b",
    "a\u2028b",
    "=1+1",
    "+a",
    "-a",
    "@a",
    " a ",
    "\ta",
    "é",
    "a\x85b",
    "#",
]


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_the_csv_writer_is_read_back(delimiter: str) -> None:
    text = io.StringIO()
    table = CsvWriter(text, delimiter)
    for id in HOSTILE_IDS:
        table.write([id, -0.5])
    assert list(csv.reader(csv_lines(text.getvalue()), delimiter=delimiter)) == [[id, "-0.5"] for id in HOSTILE_IDS]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_hostile_ids_come_back_from_per_caption_files(tmp_path: Path, ending: str) -> None:
    from capmeter.meta.scores_file import read_scores
    from capmeter.metrics.evaluation import score
    from capmeter.report.per_caption import write_per_caption
    from capmeter.report.tables import Table, as_csv

    results = score(candidates=dict.fromkeys(HOSTILE_IDS, "a dog"), references={i: ["a cat"] for i in HOSTILE_IDS},
                    metrics="rouge-l")  # fmt: skip
    path = tmp_path / f"x.{ending}"
    write_per_caption({"s": results}, path)
    assert read_scores(path, HOSTILE_IDS)["rouge-l"] == dict(results["rouge-l"].items)
    rows = list(csv.reader(csv_lines(as_csv(Table("", ["id"], [[id] for id in HOSTILE_IDS], [False])))))
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


@pytest.mark.parametrize("where", ["repeated", "compressed", "listed"])
def test_a_parquet_bomb_is_refused_before_memory_goes(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow
    from pyarrow import parquet as arrow

    monkeypatch.setattr(files, "LARGEST_DOCUMENT", 1 << 22)
    long = "a dog " * 10_000
    rows = 2 if where == "compressed" else 1200
    texts = [f"{long * 50}{k}" for k in range(rows)] if where == "compressed" else [long] * rows
    columns = {"image_id": [str(k) for k in range(rows)], "candidate": texts, "references": [["a dog"]] * rows}
    if where == "listed":
        columns |= {"candidate": ["a dog"] * rows, "references": [[long, long]] * rows}
    path = tmp_path / "bomb.parquet"
    arrow.write_table(pyarrow.table(columns), path, compression="zstd")
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match=r"bomb.parquet.* holds more than 0\.0 GiB and 100 times its size"):
        load(path)


def test_long_texts_in_parquet_are_read(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    texts = ["a dog " * 100_000, "a", "", "two cats"]
    columns = {
        "image_id": ["1", "2", "3", "4"],
        "candidate": texts,
        "references": [["a", "b"], ["a"], ["c"], [texts[0]]],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "long.parquet")
    found = load(tmp_path / "long.parquet")
    assert [each.candidate for each in found] == texts
    assert [each.references for each in found] == [("a", "b"), ("a",), ("c",), (texts[0],)]


def test_a_gzip_bomb_is_refused_before_memory_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_DOCUMENT", 1 << 20)
    path = tmp_path / "x"
    for content in (b"[" + b" " * (3 << 20) + b"]", ROWS * 60_000, ROWS + b"{" + b" " * (3 << 20)):
        path.write_bytes(gzip.compress(content))
        for read in (load, lambda source: list(stream(source))):
            with pytest.raises(InputError, match=r"unzips to more than 0\.0 GiB and 100 times its size"):
                read(path)
    path.write_bytes(b"[" + b" " * (2 << 20) + b"]")
    with pytest.raises(InputError, match="in one document; JSON lines, CSV and Parquet are read in parts"):
        load(path)
    monkeypatch.setattr(files, "LONGEST_LINE", 100)
    path.write_bytes(ROWS + b'{"image_id": 2, "candidate": "' + b"a" * 100 + b'"}\n')
    with pytest.raises(InputError, match="a line of more than"):
        load(path)


def test_parquet_with_text_that_is_not_utf8(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    binary = pyarrow.array([b"a\xff"], pyarrow.binary()).view(pyarrow.string())
    table = pyarrow.table({"image_id": ["1"], "candidate": binary, "reference": ["b"]})
    parquet.write_table(table, tmp_path / "x")
    with pytest.raises(InputError, match="text that is not UTF-8"):
        load(tmp_path / "x")


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
    for read in (load, lambda rows: list(stream(rows))):
        with pytest.raises(InputError, match=message):
            read([{"image_id": 1, "candidate": "a", "references": ["b"], **row}])
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
    found = load([row])["7"]
    assert (found.candidate, found.references, found.human) == ("a", ("b", "c"), (1.5,))


def test_json_text_as_references() -> None:
    rows = [{"image_id": 1, "candidate": "a", "references": json.dumps(["b", "c"])}]
    assert load(rows)["1"].references == ("b", "c")


DAMAGED = """
import struct, sys
from pathlib import Path
from capmeter.captions.io import load
from capmeter.errors import CapmeterError

path = Path(sys.argv[1])
sound = path.read_bytes()
(footer,) = struct.unpack("<I", sound[-8:-4])
refused = 0
for place in range(len(sound) - 8 - footer, len(sound) - 8):
    path.write_bytes(sound[:place] + bytes([16]) + sound[place + 1 :])
    try:
        load(path, on_missing="skip")
    except CapmeterError as error:
        assert str(error)
        refused += 1
print(refused)
"""


def test_a_damaged_footer_of_a_parquet_file_is_a_sentence_and_never_ends_the_process(tmp_path: Path) -> None:
    """pyarrow calls `terminate` where it shows the metadata of some damaged columns."""
    path = tmp_path / "captions.parquet"
    convert(
        [{"image_id": k, "candidate": "a dog", "references": ["a dog", "a cat"]} for k in range(4)], path, to="parquet"
    )
    done = subprocess.run([sys.executable, "-c", DAMAGED, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
