"""Parts of a file together are the whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.caption_sets import read_parts

import capmeter
from capmeter.captions.parts import hash_images, number_captions, open_parts
from capmeter.captions.writing import convert
from capmeter.core.errors import InputError

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
    numbers = number_captions([hash_images(row.image_id for row in part.rows) for part in read])
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


def test_events_of_a_video_stay_together(tmp_path: Path) -> None:
    rows = [{"video_id": f"v{k % 2}", "start": k, "end": k + 1, "sentence": f"a dog {k}"} for k in range(6)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    captions = read_parts(tmp_path / "x.jsonl", on_missing="keep")
    assert captions == list(capmeter.load(tmp_path / "x.jsonl", on_missing="keep")) and len(captions) == 2


def test_patterns_name_files_once(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.jsonl").write_text('{"image_id": 1, "candidate": "a", "references": ["b"]}\n')
    assert len(open_parts(str(tmp_path / "a" / "*.jsonl"))) == 1
    with pytest.raises(InputError, match=r"two of the files are called x.jsonl"):
        open_parts(str(tmp_path / "*" / "*.jsonl"))
    with pytest.raises(InputError, match=r"no file matches .*expected a pattern"):
        open_parts(str(tmp_path / "*.parquet"))
    with pytest.raises(InputError, match="rows is 0"):
        open_parts(tmp_path / "a" / "x.jsonl", rows=0)
    with pytest.raises(InputError, match="references in memory"):
        open_parts(tmp_path / "a" / "x.jsonl", {"1": ["a"]})
