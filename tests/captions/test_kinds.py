"""Files that people have: each kind is read, in any order of its rows, keys and files, or refused with a sentence."""

from __future__ import annotations

import csv
import json
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.caption_sets import shuffled

import capmeter
from capmeter.captions.validation import examine
from capmeter.core.errors import InputError

SAID = {"7.jpg": "a dog runs", "9.jpg": "two cats", "11.jpg": "a bus"}
TEXTS = {"7.jpg": ["a dog on grass", "the dog"], "9.jpg": ["cats asleep"], "11.jpg": ["a red bus", "one bus", "bus"]}
PICTURE = {"bytes": b"x", "path": None}


def coco(name: str) -> dict[str, Any]:
    number = {key: k for k, key in enumerate(TEXTS)}
    rows = [{name: number[key], "id": 10 * k, "caption": t} for key, ts in TEXTS.items() for k, t in enumerate(ts)]
    return {"info": {}, "images": [{"id": k, "file_name": key} for key, k in number.items()], "annotations": rows}


def numbered(stem: str, first: int = 1) -> Callable[[str, list[str]], dict[str, Any]]:
    return lambda key, texts: {"file_name": key} | {f"{stem}_{k + first}": text for k, text in enumerate(texts)}


def wide(
    image: str, references: str, make: Callable[[list[str]], Any] = list, /, **others: Any
) -> list[dict[str, Any]]:
    return [{**others, image: key, references: make(texts)} for key, texts in TEXTS.items()]


def long(image: str, reference: str, make: Callable[[str], Any] = str, /, **others: Any) -> list[dict[str, Any]]:
    return [{**others, image: key, reference: make(text)} for key, texts in TEXTS.items() for text in texts]


def lines(form: str) -> str:
    return "".join(form.format(key, k, text) for key, texts in TEXTS.items() for k, text in enumerate(texts))


REFERENCES: dict[str, Any] = {
    "COCO": coco("image_id"),
    "DCASE": {**coco("audio_id"), "audio samples": coco("audio_id")["images"], "images": 3},
    "by image": TEXTS,
    "objects by image": {key: [{"caption": text} for text in texts] for key, texts in TEXTS.items()},
    "rows": wide("image_id", "references"),
    "long rows": long("image_id", "caption"),
    "addresses": long("url", "caption"),
    "LAION": long("URL", "TEXT", punsafe=0.1),
    "MSR-VTT 1kA": long("vid", "sentence"),
    "with candidates": {"predictions": SAID, "targets": TEXTS},
    "Weights & Biases": {"columns": ["image", "caption"], "data": [list(r.values()) for r in long("image", "caption")]},
    "Karpathy": {
        "images": wide("filename", "sentences", lambda texts: [{"raw": text} for text in texts], split="test")
    },
    "yerevann": wide("filename", "sentences"),
    "a sentence a row": long("filename", "sentences", lambda text: {"raw": text, "sentid": 1}, image=PICTURE),
    "sentences as columns": wide("filename", "sentences", lambda texts: {"raw": texts, "sentid": [1]}),
    "texts of lists": wide("filename", "caption", str),
    "texts of lists by image": {key: json.dumps(texts) for key, texts in TEXTS.items()},
    "texts of lists as captions": wide("image_id", "captions", str),
    "clips": long("youtube_id", "caption", start=30, end=40),
    "WebDataset": long("__key__", "caption"),
    "HuggingFaceM4": wide("filename", "sentences_raw", image=PICTURE, imgid=3),
    "nlphuji": wide("filename", "caption", image=PICTURE),
    "jxie": [numbered("caption", 0)(key, texts) for key, texts in TEXTS.items()],
    "lmms-lab": wide("question_id", "answer", image=PICTURE, id=1),
    "NoCaps": wide("image_id", "annotations_captions", image=PICTURE),
    "WavCaps": {"data": [{**numbered("caption")("x", texts), "audio": key} for key, texts in TEXTS.items()], "num": 3},
    "NWPU": {
        f"class {k}": [{"filename": key, "raw": texts[0]} | {f"raw_{j + 1}": t for j, t in enumerate(texts[1:])}]
        for k, (key, texts) in enumerate({**TEXTS, "13.jpg": ["a", "b"]}.items())
    },
    "MDETR": {
        "images": long("file_name", "caption", id=0, tokens_negative=[]),
        "annotations": [{"id": 1, "image_id": 0, "bbox": [1, 2, 3, 4]}],
    },
    "ShareGPT4V": wide("image", "conversations", lambda texts: [{"from": "gpt", "value": texts[0]}], id="0"),
    "one language of XM3600": wide("image/key", "en", lambda texts: {"caption": texts}, **{"image/locale": "en"}),
    "lines": lines("{}#zhm#{} {}\n"),
    "translated lines": lines("{}#enc2zh#{} {}\n"),
    "token lines": lines("{}#{}\t{}\n"),
    "two columns": lines("{0}\t {2}\n"),
    "colons": lines("{0}: {2}\n"),
    **{f"lines with {sign}": lines(f"{{0}}{sign}{{2}}\n") for sign in ("##", " ###", ":", " -> ", " - ")},
    "lists written twice": wide("filename", "caption", lambda texts: json.dumps(json.dumps(texts))),
    "picture last": lines("{2} here\thttp://x/{0}\n"),
    "lists in a column": "".join(f"{k}\t{json.dumps([{'caption': t} for t in ts])}\n" for k, ts in TEXTS.items()),
}


def said(row: Any) -> list[Any]:
    form = json.dumps(row)
    return [json.loads(form.replace("KEY", key).replace("TEXT", text)) for key, text in SAID.items()]


PARTS = [{"type": "text", "text": "TEXT"}]
OUTPUT = [{"type": "reasoning"}, {"type": "message", "content": PARTS}]
LOGGED = {"completion": "", "choices": [{"message": {"content": PARTS}}]}
LOG = said({"id": "KEY", "epoch": 1, "target": "x", "output": LOGGED})
ASKED = {"contents": [{"parts": [{}, {"fileData": {"fileUri": "KEY"}}]}]}
ANSWERED = {"candidates": [{"content": {"parts": PARTS}}]}
RESULTS: dict[str, Any] = {
    "imgToEval": {
        "overall": {"CIDEr": 1},
        "imgToEval": {k: {"image_id": k, "caption": t, "CIDEr": 1} for k, t in SAID.items()},
    },
    "Oscar": "".join(f"{key}\t{json.dumps([{'caption': text, 'conf': 0.9}])}\n" for key, text in SAID.items()),
    "Inspect": {"version": 2, "status": "success", "eval": {}, "samples": LOG},
    "responses": said({"custom_id": "KEY", "response": {"body": {"output": OUTPUT}}}),
    "Vertex": said({"status": "", "processed_time": "x", "request": ASKED, "response": ANSWERED}),
    "Bedrock": said({"recordId": "KEY", "modelInput": {}, "modelOutput": {"content": PARTS}}),
    "LLaVA": said({"question_id": 5, "image": "KEY", "text": "TEXT", "answer_id": "x"}),
    "AMBER": [
        *said({"id": "KEY", "response": "TEXT"}),
        *({"id": "x", "response": t} for t in ("Yes.", "No, it is red.")),
    ],
}


def write_file(folder: Path, content: Any, name: str) -> Any:
    if not isinstance(content, str):
        return content
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


def by_image(captions: Iterable[capmeter.Caption]) -> dict[str, tuple[str, list[str]]]:
    return {each.image_id: (each.candidate, sorted(each.references)) for each in captions}


@pytest.mark.parametrize(("kind", "name"), [(k, name) for k in range(2) for name in (REFERENCES, RESULTS)[k]])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1000))
def test_files_of_every_kind_in_any_order(kind: int, name: str, seed: int, tmp_path_factory: Any) -> None:
    folder, rng = tmp_path_factory.mktemp("kinds"), random.Random(seed)
    content = shuffled((REFERENCES, RESULTS)[kind][name], rng)
    texts = {key: each[:1] for key, each in TEXTS.items()} if name == "ShareGPT4V" else TEXTS
    texts = {k: [f"{t} here" for t in ts] for k, ts in texts.items()} if name == "picture last" else texts
    if kind == 0:
        captions = capmeter.load(SAID, write_file(folder, content, "references.txt"))
    else:
        captions = capmeter.load(write_file(folder, content, "results.tsv"), shuffled(TEXTS, rng))
    assert by_image(captions) == {key: (SAID[key], sorted(texts[key])) for key in SAID}


ROWS = {name: rows for name, rows in {**REFERENCES, **RESULTS}.items() if isinstance(rows, list)}


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_read_alike_as_a_table_by_column_and_under_numbers(name: str, tmp_path: Path) -> None:
    rows = ROWS[name]
    names = list(dict.fromkeys(each for row in rows for each in row))
    values = [[row.get(each) for each in names] for row in rows]
    cells = [[json.dumps(v, default=str) if isinstance(v, list | dict) else v for v in row] for row in values]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *cells])
    by_column = dict(zip(names, map(list, zip(*values, strict=True)), strict=True))
    by_name = {name: dict(zip(map(str, range(len(rows))), column, strict=True)) for name, column in by_column.items()}
    for source in (rows, tmp_path / "rows.csv", by_column, by_name, {str(k): row for k, row in enumerate(rows)}):
        captions = capmeter.load(SAID, source) if name in REFERENCES else capmeter.load(source, TEXTS)
        texts = {key: each[:1] for key, each in TEXTS.items()} if name == "ShareGPT4V" else TEXTS
        assert by_image(captions) == {key: (SAID[key], sorted(texts[key])) for key in SAID}


SPOKEN = {"segments": [{"start": 0, "end": 1, "text": "x"}]}


@pytest.mark.parametrize("others", [{"regions": []}, {"messages": []}, {"annotations": []}, {"comment": "x"}, SPOKEN])
def test_columns_of_other_things_do_not_hide_captions(others: dict[str, Any]) -> None:
    rows = [{"image_name": "7.jpg", "filename": "7.jpg", "pred": ["a dog"], "references": ["the dog"], **others}]
    assert by_image(capmeter.load(rows)) == {"7.jpg": ("a dog", ["the dog"])}


EVENTS = {"v": [([0, 4.0], "it eats"), ([4, 9.0], "it sleeps")], "w": [([1, 2.0], "a bus")], "x": []}
VIDEOS: dict[str, Any] = {
    **{
        f"{time} and {text}": {v: [{time: t, text: s} for t, s in each] for v, each in EVENTS.items()}
        for time, text in (
            ("timestamp", "caption"),
            ("segment", "text"),
            ("timestamps", "description"),
            ("timestamp", "label"),
            ("time_span", "title"),
        )
    },
    "clock": {
        v: [{"start": f"0:0{t[0]}", "end": f"00:00:0{t[1]}", "text": s} for t, s in e] for v, e in EVENTS.items()
    },
    "names": [
        {"video_uid": v, "events": [{"startTime": t[0], "endTime": t[1], "text": s} for t, s in e]}
        for v, e in EVENTS.items()
    ],
    "objects": {v: [{"time": {"start": t[0], "end": t[1]}, "caption": s} for t, s in e] for v, e in EVENTS.items()},
    "words": {v: [{"timestamp": f"from {t[0]} to {t[1]}", "text": s} for t, s in e] for v, e in EVENTS.items()},
    "ids": {v: [{"id": k, "timestamp": t, "text": s} for k, (t, s) in enumerate(e)] for v, e in EVENTS.items()},
    "span": {v: [{"timestamp": f"0:0{t[0]} - 0:0{t[1]}", "text": s} for t, s in e] for v, e in EVENTS.items()},
    "null": {"results": {v: [{"timestamp": t, "sentence": s} for t, s in each] or None for v, each in EVENTS.items()}},
    "rows": [{"id": v, "regions": [{"ts": t, "narration": s} for t, s in e]} for v, e in EVENTS.items()],
    "starts": [
        {"id": v, "starts": [t[0] for t, _ in e], "ends": [t[1] for t, _ in e], "en_captions": [s for _, s in e]}
        for v, e in EVENTS.items()
    ],
    "lists": {v: {"timestamps": [t for t, _ in e], "captions": [s for _, s in e]} for v, e in EVENTS.items()},
    "without events": {
        v: {"duration": 9, "timestamps": [t for t, _ in e], "sentences": [s for _, s in e]} if e else {}
        for v, e in EVENTS.items()
    },
}


@pytest.mark.parametrize("name", VIDEOS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000))
def test_events_keep_their_times_in_any_order(name: str, seed: int) -> None:
    captions = capmeter.load(shuffled(VIDEOS[name], random.Random(seed)), on_missing="keep")
    result = {each.image_id: each.events.candidate for each in captions if each.events is not None}
    assert {video: sorted(zip(events.times, events.sentences, strict=True)) for video, events in result.items()} == {
        video: [(tuple(map(float, time)), text) for time, text in events] for video, events in EVENTS.items()
    }


def test_events_in_rows_and_tables(tmp_path: Path) -> None:
    rows = [{"video_id": v, "timestamp": t, "caption": s} for v, e in EVENTS.items() for t, s in e]
    table = "video_id,timestamp,caption\n" + "".join(
        f'{r["video_id"]},"{r["timestamp"]}",{r["caption"]}\n' for r in rows
    )
    annotations = {
        "annotations": [{"image_id": r["video_id"], "segment": r["timestamp"], "caption": r["caption"]} for r in rows]
    }
    lists = "".join(f'{v},"{[t for t, _ in e]}","{[s for _, s in e]}"\n' for v, e in EVENTS.items() if e)
    bounds = "".join(
        f'{v},"{[t[0] for t, _ in e]}","{[t[1] for t, _ in e]}","{[s for _, s in e]}"\n' for v, e in EVENTS.items() if e
    )
    for source in (
        rows,
        write_file(tmp_path, table, "rows.csv"),
        write_file(tmp_path, "id,segments,text\n" + lists, "lists.csv"),
        write_file(tmp_path, "id,starts,ends,captions\n" + bounds, "bounds.csv"),
    ):
        times = {
            each.image_id: each.events.candidate.times
            for each in capmeter.load(source, on_missing="keep")
            if each.events
        }
        assert times == {"v": ((0.0, 4.0), (4.0, 9.0)), "w": ((1.0, 2.0),)}
    one = write_file(
        tmp_path, json.dumps({"id": "w", "events": [{"start": 1, "end": 2, "text": "a"}]}) + "\n", "x.jsonl"
    )
    assert [each.image_id for each in capmeter.load(one, on_missing="keep") if each.events] == ["w"]
    said = [
        {"video_id": r["video_id"], "segment": r["timestamp"], "label": "x", "reference": r["caption"]} for r in rows
    ]
    for source in (rows, annotations, said):
        (first, _) = capmeter.load([{**r, "caption": "x"} for r in rows], source)
        assert first.events is not None and first.events.references[0].times == ((0.0, 4.0), (4.0, 9.0))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"model": {"name": "x"}, "answers": [{"image": "1", "said": "a"}]}, r"answers\[0\]: candidate is missing"),
        ([{"index": 1, "prediction": "a", "answer": "['a dog' 'a cat']"}], r"numpy array, write \.tolist\(\)"),
        ([{"response": "a", "labels": "['x y'\n 'z']"}], "numpy array"),
        ({"version": 2, "status": "error", "eval": {}, "samples": []}, "log of Inspect with the status error"),
        ({"version": 2, "status": "cancelled", "samples": []}, "log of Inspect with the status cancelled"),
        ({"version": 2, "status": "started", "eval": {}, "samples": None}, "log of Inspect with the status started"),
        (
            [{"image/key": "1", "image/locale": "en", "en": {"caption": ["a"]}, "de": {"caption": ["b"]}}] * 2,
            "--column references=en.caption",
        ),
        ([{"image": [b"x"], "caption": "a"}], "image is a list of 1"),
        ([{"image": "data:image/png;base64,AAAA", "caption": "a"}], "image_id is missing"),
        ([{"image_id": k, "caption": "a" if k else ["a", "b"]} for k in range(3)], r"\[0\]: caption is a list of 2"),
        ({"annotations": [{"image_id": 1, "bbox": []}], "categories": []}, "annotations of COCO without captions"),
        (
            [{"video_id": "v", "start": 0, "end": 4, "caption": "a"}, {"video_id": "v", "caption": "b"}],
            r"\[1\]: it has no time",
        ),
        ({"results": {"coco": {"CIDEr": 1}}, "configs": {}, "versions": {}}, "results of lmms-eval, which are scores"),
        ({"a": {"1": "a dog", "2": "a cat"}, "b": {"1": "the dog", "2": "the cat"}}, "if the keys are systems"),
        ({"qid": 1, "query": "a dog", "windows": [[1, 2]]}, r"candidates: image_id is missing, .*fields are qid"),
        ([{"id": 1, "epoch": 1, "target": "x", "output": {"completion": ""}, "error": {}}], "ended with an error"),
        ([{"id": 1, "epoch": 1, "target": "x", "output": {"error": "no answer in time"}}], "ended with an error"),
        ([{"id": " ", "epoch": 1, "target": "x", "output": {"completion": "a"}}], r"\[0\]: the id is empty"),
        ({"0": {"origin_prompt": "?", "prediction": "a", "gold": "a"}, "1": None}, "key '1': the value is missing"),
        (
            [
                {
                    "doc_id": 0,
                    "filtered_resps": ["a"],
                    "x_CIDEr": {"pred": "a", "image_id": 1},
                    "x_SPICE": {"pred": "b", "image_id": 1},
                }
            ],
            "its metrics have different captions",
        ),
        ([{"recordId": "1", "modelOutput": {}, "error": {"errorCode": 400}}], "the request failed"),
        ({"a": [{"image_id": 1, "caption": "a"}], "b": [{"image_id": 1, "caption": "b"}]}, "under several keys"),
        (
            [{"image_id": 1}, {"image_id": 2, "caption": "a"}, {"image_id": 3, "caption": "b"}],
            r"\[0\]: candidate is missing, .* which has no caption; the fields are image_id",
        ),
        ([{"image_id": 1, "timestamp": [0], "sentence": "a"}], r"timestamp is a list of 1, expected \[start, end\]"),
        ([{"image_id": 1, "caption": None, "error": {"code": 500}}], r"the request failed \(code 500\)"),
        ([{"images": ["a", "b"], "caption": "a"}, {"images": ["c"], "caption": "b"}], "images is a list of 2"),
        (
            [{"index": 1, "prediction": "a", "answer": "[np.str_('a')]"}],
            "expected a list of captions as JSON or Python",
        ),
        ({1: "a"}.values(), r"expected captions as a list .* give list\(…\) of it"),
    ],
)
def test_what_cannot_be_read_gets_a_sentence(content: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        capmeter.load(content, on_missing="keep")


@pytest.mark.parametrize("text", ["[UNK] dog", "[A] a dog", "[music] a man sings", "[a] dog [b]"])
def test_a_caption_that_begins_with_a_bracket_is_a_caption(text: str, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"predict": "a", "label": text},
        {"response": "a", "labels": text},
        {"doc_id": 0, "filtered_resps": ["a"], "target": text},
        {"origin_prompt": "?", "prediction": "a", "gold": text, "image_id": 1},
        {"id": 1, "epoch": 1, "target": text, "output": {"completion": "a"}},
        {"image_id": 1, "candidate": "a", "references": text},
    ]
    for row in rows:
        assert [each.references for each in capmeter.load([row])] == [(text,)]
    assert capmeter.load(write_file(tmp_path, f"{text}\na cat\n", "x.txt"), on_missing="keep")["0"].candidate == text


def test_lists_as_text_and_references_of_annotators() -> None:
    objects = [("[{'caption': \"a dog's\", 'id': 3}]", ("a dog's",)), ('[{"raw": "a dog\'s"}]', ("a dog's",))]
    objects += [('{"caption": "a dog\'s"}', ("a dog's",)), ("[1, 2]", ("[1, 2]",))]
    quoted, brackets = ('["caf\\u00e9 \\"x\\"", "b"]', ('café "x"', "b")), ('["a"] on a sign', ('["a"] on a sign',))
    for text, texts in (*objects, quoted, brackets, ("['a', \"it's\"]", ("a", "it's")), ("('a', 'b')", ("a", "b"))):
        assert capmeter.load([{"index": 1, "prediction": "a", "answer": text}])["1"].references == texts
    for text, caption in (("['a dog']", "a dog"), ("['a dog'] barks", "['a dog'] barks"), ('{"a": "b"}', '{"a": "b"}')):
        for source in ({"1": text}, [{"image_id": 1, "caption": text}], [{"id": 1, "pred": text, "gt": ["a"]}]):
            assert capmeter.load(source, {"1": ["a"]})["1"].candidate == caption
    flags = [{"image_id": 1, "caption": text, "is_rejected": flag} for text, flag in (("a", "False"), ("b", "True"))]
    assert capmeter.load_references([*flags, {"image_id": 2, "caption": "[]"}]) == {"1": ("a",), "2": ("[]",)}
    texts = ("['a dog', 'a cat']", "a cat", '["caf\u00e9", "b"]')
    annotations = [{"id": k, "image_id": k, "caption": text} for k, text in enumerate(texts)]
    for coco in ({"images": [{"id": k} for k in range(3)], "annotations": annotations}, annotations):
        assert capmeter.load_references(coco) == {str(k): (text,) for k, text in enumerate(texts)}
    assert capmeter.load_references(annotations[:1]) == {"0": ("a dog", "a cat")}, "all captions are lists"
    rows = [{"image_id": "1", "annotator_id": k, "caption": text} for k, text in enumerate(("a red kite", "a hill"))]
    captions = capmeter.load([{**row, "caption": "x"} for row in rows], rows)
    assert [each.references for each in captions] == [("a red kite",), ("a hill",)]
    assert capmeter.load({"1": "x"}, rows)["1"].references == ("a red kite", "a hill")


def test_data_that_contains_itself_and_keys_and_lists_that_no_file_has_are_refused_at_once() -> None:
    items: list[Any] = []
    items.append(items)
    document: dict[str, Any] = {}
    document["results"] = document
    sources: list[Any] = [items, document, {"1": items}, [{"doc_id": 1, "filtered_resps": items}], {"v": document}]
    sources += [[{"image_id": 1, "candidate": "a", "references": items}]]
    for source in (*sources, [{5: "['a']"}], {"annotations": np.array([])}, {"a": {10**5000: "x"}, "b": {"1": "y"}}):
        with pytest.raises(InputError):
            capmeter.load(source, on_missing="keep")


HOSTILE: dict[str, Callable[[], str]] = {
    "objects under many keys": lambda: json.dumps({f"k{k}": {"a": 1} for k in range(60_000)}),
    "a row of many fields": lambda: json.dumps(
        [{**{f"k{k}": "x" for k in range(60_000)}, "image_id": 1, "caption": "a"}]
    ),
    "a long list as text": lambda: json.dumps([{"index": 1, "prediction": "a", "answer": f"[{'[' * 500_000}]"}]),
    "many columns": lambda: ",".join(f"Caption_{k}" for k in range(60_000)) + ",image_id\n",
    "marks": lambda: "#1" * 500_000,
    "tags": lambda: json.dumps({"1": "<answer " * 120_000, "2": "\n" * 100_000}),
    "an error text": lambda: json.dumps({"1": "an unexpected " * 70_000}),
    "blanks as a time": lambda: json.dumps([{"image_id": 1, "timestamp": " " * 900_000, "caption": "a"}]),
    "a long tuple as text": lambda: json.dumps([{"image_id": 1, "references": "('a'," * 200_000}]),
    "videos": lambda: json.dumps({f"v{k}": [{"timestamp": [0, 1], "caption": "a"}] for k in range(15_000)}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_megabyte_is_answered_in_seconds(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(HOSTILE[name]())
    start = time.process_time()
    examine(tmp_path / "x.txt")
    assert time.process_time() - start < 3


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv"])
@pytest.mark.parametrize(
    "odd", [{"caption": "a bus"}, {"video_id": "x"}, {"video_id": 7.5, "caption": "a bus"}, {"caption": ["a", "b"]}, {}]
)
def test_one_row_among_many_is_named_wherever_it_stands(tmp_path: Path, ending: str, odd: dict[str, Any]) -> None:
    good = [{"video_id": f"v{k}", "id": k, "caption": f"a dog {k}"} for k in range(300)]
    for position in (0, 7, 150, 300):
        rows = [*good[:position], odd, *good[position:]]
        text = json.dumps(rows) if ending == "json" else "".join(json.dumps(row) + "\n" for row in rows)
        if ending == "csv":
            cells = [",".join(str(row.get(name, "")) for name in ("video_id", "id", "caption")) for row in rows]
            text = "\n".join(["video_id,id,caption", *cells])
        path = write_file(tmp_path, text, f"rows.{ending}")
        place = {"jsonl": f"line {position + 1}", "json": f"[{position}]", "csv": f"line {position + 2}"}[ending]
        try:
            captions = capmeter.load(path, on_missing="keep")
        except InputError as error:
            assert str(error).startswith((f"{path}, {place}: ", f"{path}{place}: "))
        else:  # an empty cell is an empty caption, and every id a text
            assert ending == "csv" and len(captions) == 301
            assert captions[str(odd["video_id"])].candidate == odd.get("caption", "")


def test_rows_of_sounds_without_names_are_numbered(tmp_path: Path) -> None:
    said = write_file(tmp_path, "caption_predicted\na dog barks\nrain falls\n", "said.csv")
    texts = write_file(tmp_path, "caption_reference_1,caption_reference_2\na dog,barks\nit rains,rain\n", "texts.csv")
    captions = capmeter.load(said, texts)
    assert [each.references for each in captions] == [("a dog", "barks"), ("it rains", "rain")]


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("x.tsv", "image\tcaption\n7.jpg\ta dog\n9.jpg\ta cat\n", {"7.jpg": ("a dog",), "9.jpg": ("a cat",)}),
        ("x.txt", "fname\tcaption_1\tcaption_2\n7.wav\ta\tb\n", {"7.wav": ("a", "b")}),
        ("x.jsonl", '{"file_name": "7.wav", "caption_1": "a", "caption_2": "b"}\n', {"7.wav": ("a", "b")}),
        ("x.json", '{"image": "7.jpg", "sentences_raw": ["a", "b"]}', {"7.jpg": ("a", "b")}),
        ("x.yaml", "007: a\n1:20: 1:30\n-2: b\n", {"007": ("a",), "1:20": ("1:30",), "-2": ("b",)}),
        ("x.json", '{"images": [{"id": 7}], "captions": [{"image_id": 7, "caption": "a"}]}', {"7": ("a",)}),
    ],
)
def test_headings_and_single_rows(name: str, content: str, texts: dict[str, Any], tmp_path: Path) -> None:
    assert capmeter.load_references(write_file(tmp_path, content, name)) == texts


def test_names_of_columns_and_ends_of_lines(tmp_path: Path) -> None:
    rows = [{"image_id": 1, "caption": "a dog"}]
    assert capmeter.load(rows, on_missing="keep", columns={"Caption": "candidate"})["1"].candidate == "a dog"
    with pytest.raises(InputError, match='the text "hyp" is not a field; fields are id, image_id, candidate'):
        capmeter.load(rows, columns={"candidate": "hyp"})
    with pytest.raises(InputError, match="duplicate key '1' in one object; keep one"):
        capmeter.load_references(write_file(tmp_path, "1: a dog\n'1': a cow\n", "x.yaml"))
    with pytest.raises(InputError, match="lines end in a carriage return alone"):
        capmeter.load(write_file(tmp_path, "a dog\ra cat\r", "x.txt"), on_missing="keep")
    empty = capmeter.load({"v": []}, format="events", on_missing="keep")
    assert empty.events[0] is not None and empty.events[0].candidate.times == ()
    numbered = {"0": {"id": 1, "caption": '{"a"} sign'}, "1": {"id": 0, "caption": "[1, 2]"}}
    assert capmeter.load_references(numbered) == {"0": ('{"a"} sign',), "1": ("[1, 2]",)}
    logged = {"image_id": "7.0", "caption": "a", "startTime": 1.7e12, "endTime": 1.8e12}
    assert capmeter.load([logged], {7: ["a"]})["7.0"].references == ("a",)
    assert len(capmeter.load([{"vid": "v", "start": 1, "end": 2, "caption": t} for t in "ab"], on_missing="keep")) == 1
    answers = said({"custom_id": "KEY", "response": {"body": {"choices": [{"message": {"content": ""}}]}}})
    assert [each.candidate for each in capmeter.load(answers, on_missing="keep")] == [""] * 3


def test_a_cancelled_log_with_an_empty_answer_is_read_with_a_note() -> None:
    outputs = ({"choices": [{"message": {"content": text}}]} for text in ("", "a dog", []))
    log = [{"id": k, "epoch": 1, "target": "x", "output": output} for k, output in enumerate(outputs)]
    captions = capmeter.load({"version": 2, "status": "cancelled", "samples": log})
    assert [each.candidate for each in captions] == ["", "a dog", ""]
    assert captions.notes["incomplete_log"] == ["the run ended with the status cancelled: samples may be missing"]


def test_all_failed_requests_are_named(tmp_path: Path) -> None:
    answer = {"status_code": 200, "body": {"choices": [{"message": {"content": "a dog"}}]}}
    failed = {"status_code": 500, "body": {"error": {"code": "server_error"}}}
    rows = [{"custom_id": str(k), "response": failed if k in (3, 7, 9) else answer, "error": None} for k in range(12)]
    path = write_file(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "batch.jsonl")
    with pytest.raises(InputError, match=r"line 4: .*status 500.*2 more failed: line 8, line 10"):
        capmeter.load(path, on_missing="keep")


def test_times_of_vtimellm_are_hundredths_of_the_video() -> None:
    events = [("it eats", "from 00 to 49"), ("it sleeps", "from 50 to 99")]
    answer = f"Here: {json.dumps([{'event': text, 'timestamps': times} for text, times in events])}"
    row = {"video_id": "v", "task": "captioning", "query_id": 0, "answer": answer}
    grounding = {"video_id": "v", "task": "grounding", "query_id": 0, "answer": "From 10 to 20.", "info": {"iou": 0.5}}
    for text in (answer, answer.removeprefix("Here: ")):
        (caption,) = capmeter.load([{**row, "answer": text, "duration": 20.0}, grounding], on_missing="keep")
        assert caption.events is not None and caption.events.candidate.times == ((0.0, 10.0), (10.0, 20.0))
        assert caption.candidate == "it eats it sleeps"
    with pytest.raises(InputError, match="answer is not a list of events"):
        capmeter.load([{**row, "duration": 20.0, "answer": "A cat."}, grounding], on_missing="keep")
    with pytest.raises(InputError, match="hundredths of the video, whose duration the row lacks"):
        capmeter.load([row, grounding], on_missing="keep")


@pytest.mark.parametrize(
    "values", [{"1": [1, 2]}, {"1": None}, {"1": [None]}, {"1": ["a dog", 2], "2": ["a cat", "b"]}]
)
def test_captions_to_degrade_are_texts(values: Any) -> None:
    with pytest.raises(InputError, match="key '1': the value"):
        capmeter.robustness(values, "bleu-1")


def test_columns_of_other_libraries_lists_under_one_key_and_blanks_after_commas(tmp_path: Path) -> None:
    polars, torch = map(pytest.importorskip, ("polars", "torch"))
    columns = {"image_id": polars.Series([7, 9]), "caption": polars.Series(["a dog", "a cat"])}
    rows = [{"image_id": torch.tensor(k), "caption": text} for k, text in ((7, "a dog"), (9, "a cat"))]
    table = write_file(tmp_path, 'image-id, caption\n7, "a dog"\n9, a cat\n', "table.csv")
    for source in (columns, rows, table):
        captions = capmeter.load(source, on_missing="keep")
        assert [(each.image_id, each.candidate) for each in captions] == [("7", "a dog"), ("9", "a cat")]
    for key, texts in (("output", ["a dog", "a cat"]), ("gts", [["a dog"], ["a cat", "cats"]])):
        assert len(capmeter.load_references({"model": "m", key: texts})) == 2
    for text, sentence in (
        ('image\tcaption\n7\t"a dog\n8\ta cat\n9\ta bus"\n', "line 4: a quoted text with tabs and line breaks"),
        ("AO8RW 0.0 6.9##a person sits\n" * 3, "line 1: .*expected NAME#0"),
    ):
        with pytest.raises(InputError, match=sentence):
            capmeter.load(write_file(tmp_path, text, "lines.txt"), on_missing="keep")


def test_times_pictures_numbers_and_errors_of_fresh_files(tmp_path: Path) -> None:
    timed = capmeter.load({"v": [{"time": [0, 4], "response": "it eats"}]}, {"v": ["it eats"]})
    assert timed.events[0] is not None and timed.events[0].candidate.times == ((0.0, 4.0),)
    pictures = [{"img": {"bytes": b"x", "path": "7.jpg"}, "caption": ["a", "b"]}]
    assert capmeter.load_references(pictures) == {"7.jpg": ("a", "b")}
    hidden = {"image": {"bytes": b"x", "path": None}, "image_path": "7.jpg", "caption": "a"}
    assert capmeter.load([hidden], on_missing="keep").image_ids == ("7.jpg",)
    (tmp_path / "lines.txt").write_text("7 a dog runs\n9 two cats sleep\n11 a bus stops\n")
    assert "begins with a number of its own" in examine(tmp_path / "lines.txt").warnings[0]
