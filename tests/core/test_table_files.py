"""Tables as files: every text comes back unchanged from each kind."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from capmeter.core.errors import InputError
from capmeter.core.output_files import write_table

ROWS = [{"id": 'a\rb,\t"c"\n', "score": -0.5, "human": [1.0, 2.0]}, {"id": "=1+1", "score": 0.25, "human": []}]


@pytest.mark.parametrize(("name", "delimiter"), [("r.csv", ","), ("r.tsv", "\t"), ("r.csv.gz", ",")])
def test_hostile_ids_come_back(tmp_path: Path, name: str, delimiter: str) -> None:
    write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / name)
    data = (tmp_path / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    (tmp_path / "plain").write_bytes(text.encode())
    with (tmp_path / "plain").open(newline="", encoding="utf-8") as file:
        result = list(csv.DictReader(file, delimiter=delimiter))
    assert [row["id"] for row in result] == [row["id"] for row in ROWS]
    assert [float(row["score"]) for row in result] == [-0.5, 0.25]
    assert [json.loads(row["human"]) for row in result] == [[1.0, 2.0], []]


def test_lines_parts_and_other_endings(tmp_path: Path) -> None:
    write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "r.jsonl")
    assert [json.loads(line) for line in (tmp_path / "r.jsonl").read_text("utf-8").split("\n")[:-1]] == ROWS
    with pytest.raises(InputError, match=r"ends in \.parquet, \.csv, \.tsv or \.jsonl"):
        write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "r.xlsx")
    table = pyarrow.Table.from_pylist(ROWS)
    write_table((table.slice(k, 1) for k in range(2)), tmp_path / "r.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "r.parquet").equals(table)
    assert pyarrow.parquet.ParquetFile(tmp_path / "r.parquet").num_row_groups == 2
