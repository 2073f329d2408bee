"""Rows of a file for what is written beside their scores: final ids, numbers, carried columns."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

import capmeter
from capmeter.captions.load_options import LoadOptions
from capmeter.captions.source_rows import SourceRows, unify_columns
from capmeter.core.errors import InputError

ROWS: list[dict[str, Any]] = [
    {"image_id": 1, "candidate": "a dog", "n": 1, "x": 0.5, "ok": True, "tags": ["a"], "t": "é"},
    {"image_id": 1, "candidate": "a cat", "n": None, "x": 2, "ok": False, "t": ""},
    {"image_id": 2, "candidate": "a bus", "n": 1 << 62, "x": float("nan"), "tags": {"k": 1}},
]


def columns_of(source: SourceRows) -> dict[str, list[Any]]:
    columns = source.columns(list(source.read()))
    return {name: values.tolist() if hasattr(values, "tolist") else values for name, values in columns.items()}


def test_values_keep_their_types_and_missing_ones_are_null() -> None:
    assert columns_of(SourceRows(ROWS, keep=["n", "x", "ok", "tags", "t"])) == {
        "row": [0, 1, 2],
        "n": [1, None, 1 << 62],
        "x": [0.5, 2.0, None],
        "ok": [True, False, None],
        "tags": ['["a"]', None, '{"k": 1}'],
        "t": ["é", "", None],
    }


def test_dates_are_iso_and_no_number_is_null_among_texts() -> None:
    values = [date(2026, 1, 2), datetime(2026, 1, 2, 3, 4), float("nan"), "x", 1, [1], float("-inf")]
    rows = [{"image_id": k, "candidate": "a dog", "when": value} for k, value in enumerate(values)]
    texts = columns_of(SourceRows(rows, keep=["when"]))["when"]
    assert texts == ["2026-01-02", "2026-01-02T03:04:00", None, "x", "1", "[1]", None]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv", "parquet", "json"])
def test_ids_are_those_of_load_in_every_format(tmp_path: Path, ending: str) -> None:
    rows = [{"image_id": f"i{k % 3}", "candidate": f"a {k}", "url": f"u{k}"} for k in range(5)]
    path = tmp_path / f"x.{ending}"
    if ending == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), path)
    elif ending in ("csv", "tsv"):
        lines = [list(rows[0]), *(list(row.values()) for row in rows)]
        path.write_text("".join((",", "\t")[ending == "tsv"].join(line) + "\n" for line in lines))
    elif ending == "json":  # COCO's results
        path.write_text(json.dumps([{("caption" if k == "candidate" else k): v for k, v in r.items()} for r in rows]))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = SourceRows(path, keep=["url"])
    assert [row.id for row in source.read()] == list(capmeter.load(path, on_missing="keep").ids)
    assert columns_of(source) == {"row": [0, 1, 2, 3, 4], "url": [f"u{k}" for k in range(5)]}


def test_row_numbers_are_there_without_ids_or_on_request() -> None:
    with_ids = [{"id": f"c{k}", **row} for k, row in enumerate(ROWS)]
    assert list(columns_of(SourceRows(with_ids, keep=["n"]))) == ["n"]
    assert columns_of(SourceRows(with_ids, keep=["row"])) == {"row": [0, 1, 2]}
    assert columns_of(SourceRows([{**row, "row": "z"} for row in ROWS], keep=["row"])) == {"row": ["z"] * 3}


def test_several_columns_of_candidates_have_the_number_of_their_row() -> None:
    rows = [{"image_id": k, "a": "x", "b": "y", "url": f"u{k}"} for k in range(3)]
    options = LoadOptions(columns={"a": "candidate", "b": "candidate"})
    read = list(SourceRows(rows, options, keep=["url"]).read("b"))
    assert [(row.id, row.number, row.kept) for row in read] == [(str(k), k, (f"u{k}",)) for k in range(3)]


def test_several_files_get_the_same_columns() -> None:
    first, second = SourceRows(ROWS, keep=["n"]), SourceRows([{**ROWS[0], "id": "c", "n": "one"}], keep=["n"])
    unify_columns([first, second])
    assert columns_of(first) == {"row": [0, 1, 2], "n": ["1", None, str(1 << 62)]}
    assert columns_of(second) == {"row": [0], "n": ["one"]}


def test_columns_that_cannot_be_carried_are_named() -> None:
    with pytest.raises(InputError, match="no row has the column nosuch that --keep names; the columns are image_id"):
        SourceRows(ROWS, keep=["n", "nosuch"])
    with pytest.raises(InputError, match=r"\[0\]: the column n holds bytes"):
        SourceRows([{**ROWS[0], "n": b"x"}], keep=["n"])
