"""Parts of a file together are the whole; its rows have final ids, numbers and carried columns."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.caption_sets import read_parts

import capmeter
from capmeter.captions.load_options import LoadOptions
from capmeter.captions.parts import Part, join_types, open_parts
from capmeter.captions.sources import CaptionSource
from capmeter.captions.writing import convert
from capmeter.core.errors import InputError
from capmeter.evaluation.part_scores import hash_names, number_captions

TEXTS = st.sampled_from(["a dog", "a cat", "", 'she said "no"', "two\nlines", 'a ", b', "ends in ,"])
ROWS = st.lists(
    st.fixed_dictionaries({"image_id": st.sampled_from(["1", "2", "3"]), "candidate": TEXTS}), min_size=1, max_size=12
)


@settings(max_examples=150)
@given(ROWS, st.integers(1, 5), st.sampled_from(["jsonl", "csv", "tsv", "parquet"]), st.sampled_from(["", ".gz"]))
def test_the_parts_are_the_whole(tmp_path_factory: Any, rows: Any, size: int, kind: str, ending: str) -> None:
    path = tmp_path_factory.mktemp("parts") / f"x.{kind}{ending}"
    convert([{**row, "references": ["x", "y z"]} for row in rows], path, to=kind)
    parts = open_parts(path, rows=size)
    assert len(parts) == (1 if kind == "parquet" and ending else -(-len(rows) // size)) or kind == "parquet"
    read = [part.read() for part in parts]
    total = list(capmeter.load(path))
    result = [caption for part in read for caption in part.systems[""][1]]
    assert [caption.candidate for caption in result] == [caption.candidate for caption in total]
    assert [row.image_id for part in read for row in part.rows] == [caption.image_id for caption in total]
    numbers = number_captions([hash_names(row.image_id for row in part.rows) for part in read])
    images = [caption.image_id for caption in total]
    flat = [number for part_numbers in numbers for number in part_numbers.tolist()]
    ids = [image if number < 0 else f"{image}#{number}" for image, number in zip(images, flat, strict=True)]
    with_ids = [{"image_id": row["image_id"], "candidate": "a", "references": ["b"]} for row in rows]
    assert ids == list(capmeter.load(with_ids).ids)


def test_row_groups_of_parquet_are_read_apart(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [{"id": str(k), "image_id": str(k), "candidate": f"dog {k}", "references": ["a"]} for k in range(100)]
    for group in (7, 30, 1000):
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet", row_group_size=group)
        parts = open_parts(tmp_path / "x.parquet", rows=20)
        spans = [(part.span.start, part.span.stop) for part in parts]
        assert spans[0] == (0, {7: 14, 30: 20, 1000: 20}[group]) and spans[-1][1] == 100
        assert [row.number for part in parts for row in part.read().rows] == [None] * 100
        result = [caption for part in parts for caption in part.read().systems[""][1]]
        assert result == list(capmeter.load(tmp_path / "x.parquet"))


def test_blank_lines_and_a_mistake_keep_their_numbers(tmp_path: Path) -> None:
    lines = [json.dumps({"image_id": k, "candidate": f"a {k}", "references": ["a"]}) for k in range(6)]
    path = tmp_path / "x.jsonl"
    path.write_text("\n\n".join(lines) + "\n\n")
    parts = open_parts(path, rows=2, keep=[])
    assert [row.number for part in parts for row in part.read().rows] == list(range(6))
    path.write_text("\n".join([*lines, '{"image_id": 9, "candidate": 1}']))
    with pytest.raises(InputError, match="line 7"):
        open_parts(path, rows=2)[-1].read()


def test_a_quote_inside_a_cell_ends_no_part(tmp_path: Path) -> None:
    cells = [f'a 5" pipe {k}' if k % 3 == 1 else f'"a dog, and\n\nits cat {k}"' for k in range(8)]
    path = tmp_path / "x.csv"
    path.write_text("image_id,candidate,references\n" + "".join(f"{k},{cell},a dog\n" for k, cell in enumerate(cells)))
    assert len(open_parts(path, rows=3)) == 3 and read_parts(path, rows=3) == list(capmeter.load(path))
    assert len(open_parts(path, rows=3, columns={"candidate": "candidate"})) == 3
    with pytest.raises(InputError, match="no row has the column nosuch"):
        open_parts(path, rows=3, columns={"nosuch": "human"})


def test_events_of_a_video_stay_together(tmp_path: Path) -> None:
    rows = [{"video_id": f"v{k % 2}", "start": k, "end": k + 1, "sentence": f"a dog {k}"} for k in range(6)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    captions = read_parts(tmp_path / "x.jsonl", on_missing="keep")
    assert captions == list(capmeter.load(tmp_path / "x.jsonl", on_missing="keep")) and len(captions) == 2


def test_patterns_name_files(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.jsonl").write_text('{"image_id": 1, "candidate": "a", "references": ["b"]}\n')
    assert len(open_parts(str(tmp_path / "a" / "*.jsonl"))) == 1
    assert len(open_parts(str(tmp_path / "*" / "*.jsonl"))) == 2
    (tmp_path / "a" / "x.jsonl").write_text('{"candidate": "a", "references": ["b"]}\n')
    assert len(open_parts(str(tmp_path / "a" / "*.jsonl"))) == 1
    with pytest.raises(InputError, match="among several files each needs an image_id"):
        open_parts(str(tmp_path / "*" / "*.jsonl"))
    for nothing in (str(tmp_path / "*.parquet"), []):
        with pytest.raises(InputError, match=r"no file matches .*expected a pattern"):
            open_parts(nothing)
    with pytest.raises(InputError, match="rows is 0"):
        open_parts(tmp_path / "a" / "x.jsonl", rows=0)
    with pytest.raises(InputError, match="references in memory"):
        open_parts(tmp_path / "a" / "x.jsonl", {"1": ["a"]})


CARRIED: list[dict[str, Any]] = [
    {"image_id": 1, "candidate": "a dog", "n": 1, "x": 0.5, "ok": True, "tags": ["a"], "t": "é"},
    {"image_id": 1, "candidate": "a cat", "n": None, "x": 2, "ok": False, "t": ""},
    {"image_id": 2, "candidate": "a bus", "n": 1 << 62, "x": float("nan"), "tags": {"k": 1}},
]


def read_columns(tmp_path: Path, rows: list[dict[str, Any]], *keep: str, **options: Any) -> dict[str, list[Any]]:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return columns_of(path, *keep, **options)


def columns_of(path: Path, *keep: str, system: str = "", **options: Any) -> dict[str, list[Any]]:
    captions = Part(CaptionSource.resolve(path), LoadOptions(on_missing="keep", **options), keep=keep).read()
    rows = [row for row in captions.rows if (row.system or "") == system]
    columns = captions.columns(rows, join_types([captions.column_types()], keep), ())
    return {"id": [row.final_id for row in rows]} | {name: values.to_pylist() for name, values in columns.items()}


def test_values_keep_their_types_and_missing_ones_are_null(tmp_path: Path) -> None:
    assert read_columns(tmp_path, CARRIED, "n", "x", "ok", "tags", "t") == {
        "id": ["1#0", "1#1", "2"],
        "row": [0, 1, 2],
        "n": [1, None, 1 << 62],
        "x": [0.5, 2.0, None],
        "ok": [True, False, None],
        "tags": ['["a"]', None, '{"k": 1}'],
        "t": ["é", "", None],
    }


def test_dates_are_iso_and_no_number_is_null_among_texts(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    days = [date(2026, 1, 2), None]
    rows = {"image_id": [1, 2], "candidate": ["a dog", "a cat"], "day": days, "time": [datetime(2026, 1, 2, 3, 4)] * 2}
    parquet.write_table(pyarrow.table(rows), tmp_path / "x.parquet")
    columns = columns_of(tmp_path / "x.parquet", "day", "time")
    assert columns["day"] == ["2026-01-02", None] and columns["time"] == ["2026-01-02T03:04:00"] * 2
    values = [float("nan"), "x", 1, [1], float("-inf")]
    rows_of_texts = [{"image_id": k, "candidate": "a dog", "when": value} for k, value in enumerate(values)]
    assert read_columns(tmp_path, rows_of_texts, "when")["when"] == [None, "x", "1", "[1]", None]


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
    ids = list(capmeter.load(path, on_missing="keep").ids)
    assert columns_of(path, "url") == {"id": ids, "row": [0, 1, 2, 3, 4], "url": [f"u{k}" for k in range(5)]}


def test_a_column_called_row_hides_the_numbers_where_it_is_carried(tmp_path: Path) -> None:
    rows = [{**row, "row": "z"} for row in CARRIED]
    assert read_columns(tmp_path, rows, "row")["row"] == ["z"] * 3
    assert read_columns(tmp_path, rows, "n")["row"] == read_columns(tmp_path, CARRIED, "row")["row"] == [0, 1, 2]


def test_several_columns_of_candidates_have_the_number_of_their_row(tmp_path: Path) -> None:
    rows = [{"image_id": k, "a": "x", "b": "y", "url": f"u{k}"} for k in range(3)]
    chosen = {"a": "candidate", "b": "candidate"}
    columns = read_columns(tmp_path, rows, "url", system="b", columns=chosen)
    assert columns == {"id": ["0", "1", "2"], "row": [0, 1, 2], "url": ["u0", "u1", "u2"]}


def test_several_files_get_the_same_columns() -> None:
    types = join_types([{"row": {int}, "n": {int}, "m": set()}, {"row": {int}, "n": {str}}], ["n"])
    assert types == {"row": {int}, "n": {int, str}}
    with pytest.raises(InputError, match="no row has the column nosuch that --keep names; the columns are n, m"):
        join_types([{"n": {int}}, {"row": {int}, "m": set()}], ["n", "nosuch"])


def test_bytes_are_not_carried(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"image_id": [1], "candidate": ["a dog"], "n": [b"x"]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="the column n holds bytes"):
        columns_of(tmp_path / "x.parquet", "n")
