"""Captions of events in time: every layout gives the same events, and mistakes in times get a sentence."""

from __future__ import annotations

import json
from datetime import time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.caption_sets import read_parts

import capmeter
from capmeter.captions.caption_set import Events, VideoEvents
from capmeter.captions.event_fields import read_events
from capmeter.captions.writing import convert, save
from capmeter.core.errors import InputError

TIMES: list[list[float]] = [[0, 4.5], [4, 9]]
SENTENCES = ["a dog eats", "it sleeps"]
GROUND_TRUTH = {"v7": {"duration": 9, "timestamps": [[0, 5], [5, 9]], "sentences": ["a dog eats food", "a dog sleeps"]}}
EVENTS = VideoEvents(
    Events(((0.0, 4.5), (4.0, 9.0)), ("a dog eats", "it sleeps")),
    (Events(((0.0, 5.0), (5.0, 9.0)), ("a dog eats food", "a dog sleeps")),),
)


def timed(start: str, end: str, text: str, form: str = "", **others: Any) -> list[dict[str, Any]]:
    pairs = zip(SENTENCES, [[form.format(each) for each in t] if form else t for t in TIMES], strict=True)
    return [{**others, text: sentence, start: times[0], end: times[1]} for sentence, times in pairs]


STAMPED = [{"sentence": s, "timestamp": t} for s, t in zip(SENTENCES, TIMES, strict=True)]
NAMES = "start end, start_time end_time, start_sec end_sec, begin end, onset offset, st ed, StartSec EndSec"
RESULTS: dict[str, Any] = {
    "ActivityNet": {"version": "VERSION 1.0", "results": {"v7": STAMPED}, "external_data": {"used": False}},
    "bare ActivityNet": {"v7": STAMPED},
    "lists": [{"image_id": "v7", "timestamps": TIMES, "sentences": SENTENCES}],
    "rows of events with ids": [
        {"id": k, **row} for k, row in enumerate(timed("start", "end", "candidate", image_id="v7"))
    ],
    **{
        f"{start}-{end}": timed(start, end, "caption", video_id="v7")
        for start, end in map(str.split, NAMES.split(", "))
    },
    **{
        form: timed("Start Time", "End Time", "caption", form, vid="v7")
        for form in ("{}s", "{:.1f} sec", "00:0{:06.3f}")
    },
    "objects with other names of times": {"v7": {"segments": timed("t_start", "t_end", "text")}},
    "objects as a prediction": [{"id": "v7", "prediction": timed("start", "end", "text")}],
}
REFERENCES: dict[str, Any] = {
    "ActivityNet": GROUND_TRUTH,
    "YouCook2": {
        "database": {
            "v7": {
                "duration": 9,
                "subset": "validation",
                "annotations": [
                    {"segment": [0, 5], "id": 0, "sentence": "a dog eats food"},
                    {"segment": [5, 9], "id": 1, "sentence": "a dog sleeps"},
                ],
            }
        }
    },
    "VidChapters": {
        "v7": {
            "duration": 9,
            "chapters": [{"time": 0, "label": "a dog eats food"}, {"time": 5, "label": "a dog sleeps"}],
        }
    },
    "ViTT": [
        {
            "id": "v7",
            "duration": 9,
            "annotations": [{"timestamp": 0, "tag": "a dog eats food"}, {"timestamp": 5000, "tag": "a dog sleeps"}],
        }
    ],
    "rows of events": [
        {"image_id": "v7", "caption": "a dog eats food", "start": 0, "end": 5},
        {"image_id": "v7", "caption": "a dog sleeps", "start": "5", "end": 9.0},
    ],
}


def write_file(folder: Path, content: Any, name: str) -> Path:
    """Lines of JSON for a list, JSON for another thing."""
    is_lines = isinstance(content, list)
    path = folder / f"{name}.{'jsonl' if is_lines else 'json'}"
    path.write_text("".join(json.dumps(row) + "\n" for row in content) if is_lines else json.dumps(content))
    return path


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str, tmp_path: Path) -> None:
    path, truth = write_file(tmp_path, RESULTS[name], "results"), write_file(tmp_path, GROUND_TRUTH, "truth")
    for captions in (capmeter.load(path, GROUND_TRUTH), read_parts(path, truth)):
        (caption,) = captions
        assert caption.events == EVENTS
        assert caption.candidate == "a dog eats it sleeps"
        assert caption.references == ("a dog eats food a dog sleeps",)


@pytest.mark.parametrize("name", REFERENCES)
def test_references(name: str, tmp_path: Path) -> None:
    captions = capmeter.load(RESULTS["ActivityNet"], write_file(tmp_path, REFERENCES[name], "references"))
    assert captions["v7"].events == EVENTS


def test_rows_with_references_of_several_annotators(tmp_path: Path) -> None:
    other = {"timestamps": [[0, 9]], "sentences": ["a dog"]}
    row = {**RESULTS["lists"][0], "references": [GROUND_TRUTH["v7"], other]}
    captions = capmeter.load(write_file(tmp_path, [row], "rows"))
    assert captions["v7"].references == ("a dog eats food a dog sleeps", "a dog")
    assert captions.events[0] == VideoEvents(EVENTS.candidate, (*EVENTS.references, Events(((0.0, 9.0),), ("a dog",))))
    rows = [{"image_id": "v7", "annotator": k, "caption": "a dog", "start": 0, "end": 9} for k in (1, 2)]
    captions = capmeter.load(RESULTS["ActivityNet"], write_file(tmp_path, rows, "two"))
    assert captions["v7"].references == ("a dog", "a dog")


def test_rows_of_events_may_repeat_the_references_of_their_video() -> None:
    rows = [
        {"image_id": "v7", "candidate": text, "start": 4 * k, "end": 4 * k + 4, "references": texts}
        for k, (text, texts) in enumerate((("a dog eats", None), ("it sleeps", ["a dog"]), ("it wakes", ["a dog"])))
    ]
    (caption,) = capmeter.load(rows)
    assert (caption.candidate, caption.references) == ("a dog eats it sleeps it wakes", ("a dog",))
    as_references = capmeter.load([{"image_id": "v7", "candidate": "x"}], rows[1:])
    assert as_references["v7"].references == ("a dog",)
    rows[2]["references"] = ["a cat"]
    with pytest.raises(InputError, match="other references than an earlier event of 'v7'; repeat all references"):
        capmeter.load(rows)


def test_events_belong_to_one_system() -> None:
    row = {"image_id": "v", "timestamps": [[0, 4]], "sentences": ["a dog"], "references": ["a dog"]}
    with pytest.raises(InputError, match="several systems beside one list of events; give each system a row"):
        capmeter.load([{**row, "captions": {"A": "a cat", "B": "a dog"}}], system="A")
    with pytest.raises(InputError, match="several systems beside one list of events; give each system a row"):
        capmeter.load_systems([{**row, "a": "x", "b": "y"}], columns={"a": "candidate", "b": "candidate"})


def test_selection_keeps_events_and_ordinary_captions_have_none() -> None:
    captions = capmeter.load(RESULTS["ActivityNet"], GROUND_TRUTH)
    assert captions.select([0]).events == captions.replace(ids=("other",)).events == (EVENTS,)
    assert capmeter.load(["a dog"], [["a dog"]]).events == (None,)


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        ([[5, 2]], "it ends at 2 s, before its start at 5 s"),
        ([[-1, 2]], "its start is the number -1"),
        ([[0, float("nan")]], "its end is NaN"),
        ([[0, float("inf")]], "its end is infinite"),
        ([[0, None]], "its end is missing"),
        ([["now", 2]], 'its start is the text "now"'),
        ([[True, 2]], "its start is true"),
        ([[0, 10**400]], "a number of more than 40 digits"),
        ([[0, 1, 2]], "a list of 3, expected"),
        ([0], "the number 0, expected"),
        ("0-1", r"sentences is a list of 1"),
        ([[0, 1], [1, 2]], "2 timestamps for 1 sentences"),
    ],
)
def test_bad_times_get_a_sentence(times: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        capmeter.load([{"image_id": "v7", "timestamps": times, "sentences": ["a dog"]}], GROUND_TRUTH)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([{"image_id": "v7", "timestamps": [[0, 1]]}], "sentences is missing"),
        ([{"image_id": "v7", "caption": "a", "start": None, "end": 1}], "its start is missing"),
        ([{"image_id": "v7", "caption": "a", "start": "now", "end": 1}], "start is the text"),
        ({"results": {"v7": [{"sentence": "a", "timestamp": [0, 1]}, {"sentence": "a"}]}}, "video v7, event 1"),
        ({"v7": {"timestamps": [[0, 1]], "sentences": [3]}}, r"sentences\[0\] is the number 3"),
        ({"v7": GROUND_TRUTH["v7"], "v8": 5}, "video v8: the number 5"),
        ({"v7": {"chapters": [{"time": 0, "label": "a"}]}}, "no duration"),
        ({"v7": {"chapters": 5}}, "the number 5, expected a list of events"),
        ({"database": {"v7": {"subset": "val", "annotations": "x"}}}, "the text"),
        ([{"id": "v7", "annotations": [{"timestamp": 0, "tag": "a"}]}], "no duration"),
        ([{"id": "v7", "annotations": [{"tag": "a"}]}], "annotations, event 0"),
        ([{"id": "v7", "annotations": "a"}], "expected a list of"),
        (
            {"v7": GROUND_TRUTH["v7"], "v8": {"duration": 4, "sentences": ["a"]}},
            "video v8: .* duration, sentences, exp",
        ),
        (
            {"v7": GROUND_TRUTH["v7"], "v8": {"pred": "From 0 to 4 a"}},
            "video v8: .*the fields pred, expected its events",
        ),
        ({"v7": GROUND_TRUTH["v7"], "v8": {"error": "timeout"}}, "video v8: .*the fields error, expected its events"),
        ({"v7": [GROUND_TRUTH["v7"], {"sentences": ["a"]}]}, r"video v7\[1\]: .*expected its events"),
        ([{"id": "v7", "starts": [0, 1], "ends": [1, 2]}], "captions is missing"),
        (
            [{"id": "v7", "events": [{"segment": [0, 1], "text": "a"}]}, {"id": "v8"}],
            r"\[1\]: it has no time, which the",
        ),
        ([*[{"id": "v7", "timestamps": [], "sentences": []}] * 2, {"id": "v8", "sentences": ["a"]}], "it has no time"),
        ([{"id": "v7", "starts": [0, 1], "ends": [1], "captions": ["a"]}], "2 starts for 1 captions"),
        ([{"id": "v7", "start": 0, "end": 1, "caption": "a"}, {"id": "v7", "start": 1, "caption": "b"}], "has no time"),
        ([{"id": "v7", "start": 0, "end": 1, "caption": "a", "annotator": k} for k in ("A", None)], "no annotator"),
    ],
)
def test_bad_documents_get_a_sentence(content: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        capmeter.load(content, GROUND_TRUTH)


def test_metrics_of_events_say_what_is_missing() -> None:
    with pytest.raises(InputError, match=r"1 caption has no events in time \(the first: 0\), but proposals needs"):
        capmeter.score(candidates=["a dog"], references=[["a dog"]], metrics="proposals")
    without_times = capmeter.load(RESULTS["ActivityNet"], {"v7": ["a dog"]})
    with pytest.raises(InputError, match="1 caption has no events in time"):
        capmeter.score(without_times, "proposals")


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)).map(sorted), max_size=20))
def test_events_in_order_are_the_same_events(times: list[list[float]]) -> None:
    events = read_events(times, [f"event {k}" for k in range(len(times))], "v")
    ordered = events.in_order()
    assert list(ordered.times) == sorted(events.times)
    assert sorted(zip(ordered.times, ordered.sentences, strict=True)) == sorted(
        zip(events.times, events.sentences, strict=True)
    )


@pytest.mark.parametrize("layout", ["document", "lists", "rows"])
def test_paragraphs_are_joined_by_time_unless_asked_otherwise(layout: str) -> None:
    late, early = ([5.0, 9.0], "it sleeps", 1), ([0.0, 4.0], "a dog eats", 1)
    inputs: Any = {
        "document": {"v7": [{"timestamp": t, "sentence": s, "pred_event_count": n} for t, s, n in (late, early)]},
        "lists": [{"image_id": "v7", "timestamps": [late[0], early[0]], "sentences": [late[1], early[1]]}],
        "rows": [{"video_id": "v7", "caption": s, "start": t[0], "end": t[1]} for t, s, _ in (late, early)],
    }[layout]
    references = {"v7": {"duration": 9, "timestamps": [late[0], early[0]], "sentences": ["a dog rests", "a dog eats"]}}
    same = {"v7": {"duration": 9, "timestamps": [early[0], late[0]], "sentences": [early[1], late[1]]}}
    assert capmeter.load(inputs, same, event_order="file")["v7"].candidate == "it sleeps a dog eats"
    captions = capmeter.load(inputs, references)
    (caption,) = captions
    assert (caption.candidate, caption.references) == ("a dog eats it sleeps", ("a dog eats a dog rests",))
    assert caption.events is not None and caption.events.candidate.sentences == ("it sleeps", "a dog eats")
    assert captions.notes["events joined by time, which is not their order in the file"] == ["v7"]
    assert any("more events than pred_event_count" in note for note in captions.notes) == (layout == "document")
    as_in_file = capmeter.load(inputs, references, event_order="file")
    assert as_in_file["v7"].candidate == "it sleeps a dog eats" and "by time" not in " ".join(as_in_file.notes)
    assert as_in_file["v7"].references == ("a dog rests a dog eats",)
    assert captions.adjustments == {} and as_in_file.adjustments == {"event_order": "file"}
    in_order = capmeter.load({"v7": [{"timestamp": t, "sentence": s} for t, s, _ in (early, late)]}, references)
    assert in_order["v7"].candidate == caption.candidate
    boxes = {"timestamps": [[9, 9, 10, 10], [0, 0, 1, 1]], "sentences": ["a cat", "a dog"], "references": ["a cat"]}
    assert capmeter.load([{"image_id": "1", **boxes}])["1"].candidate == "a cat a dog"


def test_videos_without_results_are_left_out_or_count_zero() -> None:
    truth = {**GROUND_TRUTH, "v8": GROUND_TRUTH["v7"], "v9": GROUND_TRUTH["v7"]}
    captions = capmeter.load(RESULTS["ActivityNet"], truth)
    assert captions.notes == {"references_without_candidate": ["v8", "v9"]}
    total = capmeter.load(RESULTS["ActivityNet"], truth, on_absent="empty")
    assert total.notes == {"scored_as_empty": ["v8", "v9"]}
    few, many = (capmeter.score(each, "proposals(iou=0.5),rouge-l") for each in (captions, total))
    for name in ("proposals(iou=0.5)", "rouge-l"):
        assert many[name].score == pytest.approx(few[name].score / 3)
        assert many[name].items["v8"] == 0
    assert capmeter.load({"7": "a"}, {"7": ["a"], "9": ["b"]}, on_absent="empty")["9"].candidate == ""
    with pytest.raises(InputError, match="on_absent is 'drop'"):
        capmeter.load({"7": "a"}, {"7": ["a"]}, on_absent="drop")  # type: ignore[typeddict-item]
    with pytest.raises(InputError, match="on_absent=empty needs all captions at once"):
        capmeter.open_parts("x.jsonl", on_absent="empty")


def test_files_of_several_annotators_are_joined_by_video(tmp_path: Path) -> None:
    first = write_file(tmp_path, GROUND_TRUTH, "val_1")
    second = {"v7": {"duration": 9, "timestamps": [[0, 9]], "sentences": ["a dog"]}}
    files = [first, write_file(tmp_path, second, "val_2")]
    captions = capmeter.load(RESULTS["ActivityNet"], files)
    assert captions["v7"].references == ("a dog eats food a dog sleeps", "a dog")
    assert captions.events[0] == VideoEvents(EVENTS.candidate, (*EVENTS.references, Events(((0.0, 9.0),), ("a dog",))))


@pytest.mark.parametrize("to", ["jsonl", "json"])
def test_converted_rows_keep_their_times(tmp_path: Path, to: str) -> None:
    results, truth, rows = (tmp_path / name for name in ("results.json", "truth.json", f"rows.{to}"))
    results.write_text(json.dumps(RESULTS["ActivityNet"]))
    truth.write_text(json.dumps(GROUND_TRUTH))
    assert not convert(results, rows, to=to, references=truth).dropped
    assert next(iter(capmeter.load(rows))).events == EVENTS
    convert(truth, rows, to=to, side="references")
    assert next(iter(capmeter.load(results, references=rows))).events == EVENTS
    save(capmeter.load(results, references=truth), rows, to=to)
    assert next(iter(capmeter.load(rows))).events == EVENTS


def test_times_of_excel_parquet_and_python(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl (pip install 'capmeter[excel]')")
    pyarrow, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
    times = [(time(0, 0, 1), time(0, 0, 4, 500_000)), (timedelta(minutes=1), timedelta(hours=1))]
    seconds, book = ((1.0, 4.5), (60.0, 3600.0)), openpyxl.Workbook()
    rows = [{"video_id": "v", "start": start, "end": end, "caption": "it runs"} for start, end in times]
    for row in (list(rows[0]), *(list(row.values()) for row in rows)):
        book.active.append(row)
    book.save(tmp_path / "all.xlsx")
    for k, row in enumerate(rows):
        parquet.write_table(pyarrow.Table.from_pylist([row]), tmp_path / f"{k}.parquet")
    for source, expected in [
        (rows, seconds),
        (tmp_path / "all.xlsx", seconds),
        (tmp_path / "0.parquet", seconds[:1]),
        (tmp_path / "1.parquet", seconds[1:]),
        ({"v": {"start": [1, "60"], "end": [4.5, 3600], "text": ["a", "b"]}}, seconds),
        ([{"id": "v", "timestamps": np.array(seconds), "sentences": np.array(["a", "b"], object)}], seconds),
    ]:
        (caption,) = capmeter.load(source, on_missing="keep")
        assert caption.events is not None and caption.events.candidate.times == expected


@pytest.mark.parametrize("name", ["start", "end_time", "timestamp", "start_frame"])
def test_captions_of_a_video_with_starts_or_ends_alone_are_noted(name: str) -> None:
    rows = [{"video_id": "v", name: k, "caption": f"a {k}"} for k in range(2)]
    assert f"captions of a video differ in {name}, not read" in str(capmeter.load(rows, on_missing="keep").notes)
    systems = [{**row, "system": row["caption"]} for row in rows]
    took = [{"video_id": "v", "time": k, "caption": f"a {k}"} for k in range(2)]  # what a program took
    assert "differ" not in str([capmeter.load(each, on_missing="keep").notes for each in (systems, took)])


def test_a_clip_with_a_time_has_several_references() -> None:
    rows = [{"video_id": id, "start": 0, "end": 4, "captions": ["a dog", "it runs"]} for id in ("v", "w")]
    assert capmeter.load_references(rows) == dict.fromkeys("vw", ("a dog", "it runs"))
    row = {"video_id": "v", "start": 0, "end": 4, "caption": ["a dog"]}  # as decoders write one
    (caption,) = capmeter.load([row], on_missing="keep")
    assert caption.events is not None and caption.events.candidate.times == ((0.0, 4.0),)


def test_tables_say_that_they_hold_no_times(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps(RESULTS["ActivityNet"]))
    assert convert(results, tmp_path / "rows.csv", to="csv").dropped == {"events": 1}
    assert (tmp_path / "rows.csv").read_text() == "image_id,candidate\nv7,a dog eats it sleeps\n"
    results.write_text('[{"video_id": "v", "begin": 0, "t_end": 5, "text": "a dog", "other": 1}]')
    assert convert(results, tmp_path / "rows.jsonl", to="jsonl").ignored == ["other"]  # times and text are used
