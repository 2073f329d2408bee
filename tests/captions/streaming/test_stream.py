"""Parts of a stream together are the whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capmeter.captions.load import load
from capmeter.captions.streaming.stream import stream, stream_systems
from capmeter.captions.writing import convert
from capmeter.core.errors import InputError

captions_of = st.lists(
    st.fixed_dictionaries(
        {
            "image_id": st.sampled_from(["1", "2", "3", "1#0", "2#1", 4]),
            "candidate": st.sampled_from(["a dog", "a cat", ""]),
            "references": st.lists(st.sampled_from(["x", "y z", "a dog"]), max_size=3),
        },
        optional={"id": st.sampled_from(["1", "2", "3", "1#1", "u", "v", "w"]), "system": st.sampled_from(["s", "t"])},
    ),
    min_size=1,
    max_size=12,
)


def outcome(read: Any) -> Any:
    try:
        return read()
    except InputError as error:
        return str(error)


@settings(max_examples=300)
@given(rows=captions_of, size=st.integers(1, 5), on_missing=st.sampled_from(["error", "skip", "keep"]))
def test_the_parts_are_the_whole(rows: list[dict[str, Any]], size: int, on_missing: Any) -> None:
    loaded = outcome(lambda: list(load(rows, on_missing=on_missing)))
    parts = outcome(lambda: [list(part) for part in stream(rows, on_missing=on_missing, rows=size)])
    if isinstance(loaded, str):
        assert parts == loaded
    else:
        assert [caption for part in parts for caption in part] == loaded
        assert all(0 < len(part) <= size for part in parts)
        assert len(stream(rows, on_missing=on_missing)) == len(loaded)


@pytest.mark.parametrize("format", ["jsonl", "csv", "tsv", "parquet", "json"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_every_table_streams(tmp_path: Path, format: str, ending: str) -> None:
    rows = [{"image_id": k // 2, "candidate": f"dog {k}", "references": ["a", f"b\n{k}"]} for k in range(5000)]
    path = tmp_path / f"x{ending}"
    convert(rows, path, to=format)
    parts = stream(path, rows=700)
    assert len(parts) == 5000
    for _ in range(2):
        captions = [caption for part in parts for caption in part]
        assert captions == list(load(rows))
    assert [caption.id for caption in captions[-2:]] == ["2499#0", "2499#1"]


def test_references_apart(tmp_path: Path) -> None:
    candidates = [{"image_id": f"{k}.jpg", "candidate": "a dog"} for k in range(10)]
    references = {str(k): ["dog"] for k in range(20)}
    parts = stream(candidates, references, rows=4)
    assert [len(part) for part in parts] == [4, 4, 2]
    assert parts.notes["matched_by"] == ["file name without its ending"]
    assert parts.notes["references_without_candidate"] == [str(k) for k in range(10, 20)]
    del references["3"]
    with pytest.raises(InputError, match=r'1 of 10 candidates has no references in the references: "3.jpg"\.'):
        len(stream(candidates, references))
    skipping = stream(candidates, references, rows=5, on_missing="skip")
    assert [part.notes for part in skipping] == [{"skipped_without_references": ["3.jpg"]}, {}]
    assert len(skipping) == 9


def test_one_system_of_several(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    row = {"captions": {"one": "a", "two": "b"}, "references": ["c"]}
    path.write_text("\n".join(json.dumps({"image_id": k, **row}) for k in range(3)))
    assert [c.id for part in stream(path, system="two") for c in part] == ["0", "1", "2"]
    assert [c.id for part in stream(path) for c in part] == ["0#0", "0#1", "1#0", "1#1", "2#0", "2#1"]


def test_a_part_has_at_least_one_row() -> None:
    with pytest.raises(InputError, match="rows is 0"):
        stream(["a"], rows=0)


@pytest.mark.slow
def test_memory_stays_bounded(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "x.jsonl"
    peaks = []
    for count in (2_000, 8_000):
        with path.open("w") as file:
            for k in range(count):
                row = {"image_id": k, "candidate": f"a dog runs {k}", "references": [f"dog {k} {j}" for j in range(5)]}
                file.write(json.dumps(row) + "\n")
        tracemalloc.start()
        assert sum(len(part) for part in stream(path, rows=200)) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100 * 6_000, "at most some bytes for each caption"


def test_systems_of_one_file_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from capmeter.captions.load import load_systems
    from capmeter.captions.reading import RowReader

    path, reads = tmp_path / "x.jsonl", []
    rows = [
        {"image_id": k // 2, "system": s, "candidate": f"{s} dog {k}", "references": [f"a dog {k // 2}", "dog"]}
        for k in range(20)
        for s in ("s", "t", "u")
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    sound = RowReader.rows
    monkeypatch.setattr(RowReader, "rows", lambda self, side: reads.append(side) or sound(self, side))
    streams = stream_systems(path, rows=6)
    loaded = load_systems(path)
    reads.clear()
    for _ in range(2):
        for system, captions in streams.items():
            assert [row for part in captions for row in part] == list(loaded[system])
    assert reads == [], "the file was read when its systems were asked for, and never again"
