"""What captioners write and benchmarks publish: a small sample of each, and mistakes in them."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.caption_sets import read_parts, shuffled

import capmeter
from capmeter.captions.layouts import LAYOUTS, SHORT_NAMES
from capmeter.captions.validation import examine
from capmeter.core.errors import InputError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats.md"
DOG, CATS = ["a dog runs on grass", "the dog is running"], ["two cats sleep", "cats asleep on a sofa"]
TEXTS = {"7": DOG, "9": CATS}
SAID = {"7": "a dog runs", "9": "two cats"}


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_file(folder: Path, content: Any, name: str = "file") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def texts_by_image(captions: capmeter.CaptionSet) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {each.image_id: (each.candidate, each.references) for each in captions}


WHOLE = {"7": ("a dog runs", tuple(DOG)), "9": ("two cats", tuple(CATS))}


def sample(k: int, image: Any, candidate: Any, references: Any) -> dict[str, Any]:
    entry = {"answer": references, "pred": candidate, "image_id": image, "id": k}
    return {
        "doc_id": k,
        "target": str(references),
        "filtered_resps": [candidate],
        "doc_hash": f"{k:064x}",
        "input": "Provide a one-sentence caption for the provided image.",
        "coco_Bleu_4": entry,
        "coco_CIDEr": entry,
    }


LMMS = [sample(0, 7, "a dog runs", DOG), sample(1, 9, "two cats", CATS)]
VLMEVALKIT = [
    {"index": "7", "question": "Describe.", "answer": str(DOG), "prediction": "a dog runs"},
    {"index": "9", "question": "Describe.", "answer": str(CATS), "prediction": "two cats"},
]
INSPECT: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {"task": "coco", "scorers": [{"name": "captions"}]},
    "plan": {"name": "plan", "steps": [{"solver": "generate"}]},
    "results": {"total_samples": 2, "scores": [{"name": "captions", "metrics": {}}]},
    "samples": [
        {"id": int(id), "epoch": 1, "input": "?", "target": texts, "output": {"completion": SAID[id]}, "scores": {}}
        for id, texts in TEXTS.items()
    ],
}
SWIFT = [
    {"response": SAID["7"], "labels": str(DOG), "logprobs": None, "images": [{"bytes": None, "path": "7"}]},
    {"response": SAID["9"], "labels": str(CATS), "logprobs": None, "images": ["9"]},
]
MAGIC = [{"image_name": id, "captions": texts, "prediction": SAID[id]} for id, texts in TEXTS.items()]
OPENCOMPASS = {id: {"origin_prompt": "Describe.", "prediction": SAID[id], "gold": texts} for id, texts in TEXTS.items()}
CLIP_BENCHMARK = [
    {"image_id": int(id), "gen": [{"caption": SAID[id]}], "true": [{"caption": text} for text in references]}
    for id, references in TEXTS.items()
]
SCENARIO = [
    {
        "instance": {"id": id, "references": [{"output": {"text": text}} for text in texts]},
        "result": {"completions": [{"text": SAID[id]}]},
        "train_trial_index": 0,
    }
    for id, texts in TEXTS.items()
]


def both(image: str, candidate: str, references: str, **others: Any) -> list[dict[str, Any]]:
    return [{image: id, candidate: SAID[id], references: texts, **others} for id, texts in TEXTS.items()]


FILES: dict[str, tuple[Any, str]] = {
    "spice": (both("image_id", "test", "refs"), "captions for the SPICE program"),
    "mplug": (both("question_id", "pred_caption", "gold_caption"), "results of mPLUG"),
    "video-chatgpt": (lines(both("video", "pred", "answer", question="?")), "answers of Video-ChatGPT"),
    "helm": ({"request_states": SCENARIO}, "a scenario of HELM"),
    "deepeval": ({"cases": both("image", "actual_output", "expected_output", input="?")}, "test cases of DeepEval"),
    "mlflow": (both("image_id", "outputs", "targets", inputs="?"), "an evaluation table of MLflow"),
    "langfuse": (both("id", "output", "expectedOutput", input="?"), "items of Langfuse"),
    "lmms-eval": (lines(LMMS), "samples of lmms-eval"),
    "blank line": (lines(LMMS[:1]) + "\n" + lines(LMMS[1:]), "samples of lmms-eval"),
    "older lmms-eval": ({"args": {}, "model_configs": {}, "logs": LMMS}, "samples of lmms-eval"),
    "vlmevalkit": (table(VLMEVALKIT, "\t"), "predictions of VLMEvalKit"),
    "clip_benchmark": (CLIP_BENCHMARK, "results of clip_benchmark"),
    "inspect": (INSPECT, "a log of Inspect"),
    "ms-swift": (lines(SWIFT), "predictions of ms-swift"),
    "magic": (MAGIC, "results of MAGIC"),
    "opencompass": (OPENCOMPASS, "predictions of OpenCompass"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_with_captions_and_references(name: str, tmp_path: Path) -> None:
    content, layout = FILES[name]
    path = write_file(tmp_path, content)
    assert texts_by_image(capmeter.load(path)) == WHOLE
    assert examine(path).facts["layout"] == layout
    assert [caption.candidate for caption in read_parts(path)] == list(SAID.values())


def test_one_sample_alone_and_samples_without_an_entry(tmp_path: Path) -> None:
    assert texts_by_image(capmeter.load(write_file(tmp_path, lines(LMMS[:1])))) == {"7": WHOLE["7"]}
    bare = [
        {"doc_id": k, "target": str(references), "filtered_resps": [[candidate]], "input": "…"}
        for k, (candidate, references) in enumerate((("a dog runs", DOG), ("two cats", CATS)))
    ]
    assert texts_by_image(capmeter.load(write_file(tmp_path, lines(bare)))) == {"0": WHOLE["7"], "1": WHOLE["9"]}
    hidden = [{"doc_id": 3, "filtered_resps": ["x"], "coco_passthrough": {"pred": ["a dog runs"], "image_id": 7}}]
    captions = capmeter.load(write_file(tmp_path, lines(hidden)), {"7": DOG})
    assert texts_by_image(captions) == {"7": WHOLE["7"]}


RESULTS = {
    "LAVIS and BLIP": [{"caption": text, "image_id": int(id)} for id, text in SAID.items()],
    "TextCaps": [{"image_id": id, "caption_id": 1, "caption": text, "pred_source": []} for id, text in SAID.items()],
    "MSR-VTT": {
        "version": "VERSION 1.0",
        "result": [{"video_id": id, "caption": text} for id, text in SAID.items()],
        "external_data": {"used": "false", "details": ""},
    },
    "NoCaps": [{"open_images_id": id, "caption": text} for id, text in SAID.items()],
    "NoCaps with hyphens": [{"open-images-id": id, "caption": text} for id, text in SAID.items()],
    "Clotho": table([{"file_name": id, "caption_predicted": text} for id, text in SAID.items()]),
}


def batch_line(image: str, text: str) -> dict[str, Any]:
    body = {"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
    response = {"status_code": 200, "request_id": "r", "body": body}
    return {"id": f"vllm-{image}", "custom_id": image, "response": response, "error": None}


RESULTS["vLLM batch"] = lines([batch_line(id, text) for id, text in SAID.items()])
RESULTS["completions"] = lines(
    [{"custom_id": id, "response": {"body": {"choices": [{"text": text}]}}, "error": None} for id, text in SAID.items()]
)


def gemini_line(image: str, parts: list[Any], **fields: Any) -> dict[str, Any]:
    return {"key": image, "response": {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}, **fields}


def anthropic_line(image: str, content: list[Any]) -> dict[str, Any]:
    message = {"type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn"}
    return {"custom_id": image, "result": {"type": "succeeded", "message": message}}


def parts(text: str) -> list[dict[str, Any]]:
    return [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": text[:3]},
        {"type": "text", "text": text[3:]},
    ]


OLLAMA = {"model": "llava", "created_at": "2026-11-01T00:00:00Z", "done": True}
RESULTS["Gemini batch"] = lines(
    [gemini_line(id, [{"text": "hm", "thought": True}, *parts(t)]) for id, t in SAID.items()]
)
RESULTS["Anthropic batch"] = lines([anthropic_line(id, parts(text)) for id, text in SAID.items()])
RESULTS["Ollama"] = lines([{**OLLAMA, "response": text, "image": id} for id, text in SAID.items()])
RESULTS["Ollama chat"] = [{**OLLAMA, "message": {"content": text}, "image_id": id} for id, text in SAID.items()]
RESULTS["an answer in a row"] = lines(
    [{"img": id, "response": gemini_line(id, parts(t))["response"]} for id, t in SAID.items()]
)
RESULTS["SGLang"] = lines([{"image": id, "text": text, "meta_info": {}} for id, text in SAID.items()])
RESULTS["TVC"] = lines(
    [{"vid_name": "v", "clip_id": id, "ts": [0, 9], "descs": [{"desc": t}]} for id, t in SAID.items()]
)
RESULTS["VIST"] = {"output_stories": [{"album_id": id, "story_text_normalized": text} for id, text in SAID.items()]}
RESULTS["promptfoo"] = {
    "results": {"results": [{"promptIdx": 0, "vars": {"image": k}, "response": {"output": t}} for k, t in SAID.items()]}
}
RESULTS["a list with an object"] = [{"img": id, "prediction": [{"generated_text": text}]} for id, text in SAID.items()]
RESULTS["messages"] = [
    {"images": [id], "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": text}]}
    for id, text in SAID.items()
]


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"key": "11", "error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, "RESOURCE_EXHAUSTED"),
        ({"key": "11", "response": {"promptFeedback": {"blockReason": "SAFETY"}}}, "SAFETY"),
        ({"key": "11", "response": {"candidates": [{"finishReason": "MAX_TOKENS"}]}}, "MAX_TOKENS"),
        ({"custom_id": "11", "result": {"type": "expired"}}, "expired"),
        (
            {"custom_id": "11", "result": {"type": "errored", "error": {"error": {"type": "overloaded"}}}},
            "errored, over",
        ),
        ({"error": "model not found"}, "model not found"),
        ({**OLLAMA, "response": "a", "done": False}, "a part of an answer"),
    ],
)
def test_failed_requests_are_named(record: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    name = "Gemini batch" if "key" in record else "Anthropic batch" if "custom_id" in record else "Ollama"
    with pytest.raises(InputError, match=rf"line 3: .*{sentence}.*"):
        capmeter.load(write_file(tmp_path, RESULTS[name] + lines([record])), {"7": DOG, "9": CATS})
    if "error" in record:  # where all have failed no row has an answer
        with pytest.raises(InputError, match=r"failed .*1 more failed: line 2"):
            capmeter.load(write_file(tmp_path, lines([{"id": "7", **record}, {"id": "9", **record}])), [DOG, CATS])


@pytest.mark.parametrize("candidate", [name for name, field in SHORT_NAMES.items() if field == "candidate"])
@pytest.mark.parametrize("reference", [name for name, field in SHORT_NAMES.items() if field == "references"])
def test_short_names(candidate: str, reference: str, tmp_path: Path) -> None:
    rows = [{"image": id, candidate: text, reference: WHOLE[id][1]} for id, text in SAID.items()]
    by_image = {id: {candidate: [text], reference: list(WHOLE[id][1])} for id, text in SAID.items()}
    by_field = {candidate: SAID, reference: {**{id: each[1] for id, each in WHOLE.items()}, "11": ["a bus"]}}
    for content in (rows, lines(rows), {"results": rows, "time": 3}, by_image, by_field):
        assert texts_by_image(capmeter.load(write_file(tmp_path, content))) == WHOLE
    assert texts_by_image(capmeter.load(write_file(tmp_path, lines(rows[:1])))) == {"7": WHOLE["7"]}
    assert set(capmeter.load_references(write_file(tmp_path, by_field))) == {"7", "9", "11"}
    table_rows = [{"IMG": id, candidate.title(): text, reference: DOG[0]} for id, text in SAID.items()]
    assert [each.candidate for each in capmeter.load(write_file(tmp_path, table(table_rows)))] == list(SAID.values())


def test_short_names_come_last() -> None:
    row = {"image_id": "7", "caption": "a dog", "references": ["the dog"]}
    (caption,) = capmeter.load([{**row, **dict.fromkeys(SHORT_NAMES, "no")}])
    assert (caption.candidate, caption.references) == ("a dog", ("the dog",))
    with pytest.raises(InputError, match=r"answer and pred are all given.* --column candidate=answer"):
        capmeter.load([{"image_id": "7", "answer": "a", "pred": "b", "gt": ["c"]}])
    with pytest.raises(InputError, match=r"both gt and refs are given; .* --column references=gt"):
        capmeter.load([{"image_id": "7", "pred": "b", "gt": ["c"], "refs": ["d"]}])
    with pytest.raises(InputError, match="are the two files swapped"):
        capmeter.load_references([{"image_id": "7", "response": "b"}])
    for name in ("answer", "description"):
        assert capmeter.load_references([{"image_id": "7", name: "b"}]) == {"7": ("b",)}
    categories = {"results": [{"image_id": "7", "caption": "a"}], "categories": [{"id": 1, "description": "a person"}]}
    assert capmeter.load(categories, {"7": ["b"]}).ids == ("7",)
    with pytest.raises(InputError, match=r"several keys \(targets, said\)"):
        capmeter.load_references({"targets": {"7": DOG, "9": CATS}, "said": SAID})


def vizwiz() -> dict[str, Any]:
    images = [{"file_name": f"VizWiz_val_{k:08}.jpg", "id": k, "text_detected": False} for k in (7, 9)]
    captions = [(7, DOG[0], 0, 0), (7, "Quality issues are too severe.", 1, 0), (7, DOG[1], 0, 0), (9, "spam", 0, 1)]
    captions += [(9, text, 0, 0) for text in CATS]
    names = ("image_id", "caption", "is_precanned", "is_rejected")
    rows = [
        {"id": k, **dict(zip(names, (i, c, bool(p), bool(r)), strict=True))} for k, (i, c, p, r) in enumerate(captions)
    ]
    return {"info": {}, "images": images, "annotations": rows}


def nocaps() -> dict[str, Any]:
    images = [
        {"id": k, "open_images_id": f"00{k}a", "file_name": f"00{k}a.jpg", "domain": "near-domain"} for k in (7, 9)
    ]
    rows = [{"image_id": k, "id": k, "caption": text} for k, texts in TEXTS.items() for text in texts]
    return {"licenses": [], "info": {}, "images": images, "annotations": rows}


def textcaps() -> dict[str, Any]:
    rows = [
        {"image_id": id, "caption_id": k, "caption_str": text, "reference_strs": texts, "image_path": f"train/{id}.jpg"}
        for id, texts in TEXTS.items()
        for k, text in enumerate(texts)
    ]
    return {"dataset_type": "val", "dataset_name": "textcaps", "dataset_version": "0.1", "data": rows}


def msr_vtt() -> dict[str, Any]:
    videos = [
        {"video_id": "7", "id": 9, "start time": 1.0, "end time": 2.5, "split": "test", "category": 3},
        {"video_id": "9", "id": 7, "start time": 0.0, "end time": 3.0, "split": "validate", "category": 1},
    ]
    pairs = [("7", DOG[0]), ("9", CATS[0]), ("7", DOG[1]), ("9", CATS[1])]
    sentences = [{"caption": text, "video_id": id, "sen_id": k} for k, (id, text) in enumerate(pairs)]
    return {"info": {"year": "2016"}, "videos": videos, "sentences": sentences}


def single(image: str, text: str, **others: Any) -> str:
    return lines([{image: id, text: each, **others} for id, texts in TEXTS.items() for each in texts])


def annotation(id: str, texts: list[str]) -> dict[str, Any]:
    return {"id": int(id), "data": {"image": id}, "annotations": [{"result": [{"value": {"text": texts}}]}]}


REFERENCES: dict[str, Any] = {
    "Stanford paragraphs": single("image_id", "paragraph"),
    "image folder": single("file_name", "text"),
    "DataComp": single("url", "text"),
    "WIT": single("image_url", "caption_reference_description"),
    "ArtEmis": single("painting", "utterance"),
    "Screen2Words": single("screenId", "summary"),
    "PixelProse": single("uid", "vlm_caption", url="http://x", original_caption="x"),
    "Recap-DataComp": single("url", "re_caption", org_caption="x"),
    "LAION-COCO": single("URL", "top_caption", TEXT="x", all_captions=["x"]),
    "CapsFusion": single("image_url", "capsfusion", laion_2b="x"),
    "VIST": {
        "annotations": [[json.loads(line)] for line in single("photo_flickr_id", "text", album_id="1").splitlines()]
    },
    "Doccano": [{"filename": id, "label": texts, "Comments": []} for id, texts in TEXTS.items()],
    "Label Studio": [annotation(id, texts) for id, texts in TEXTS.items()],
    "TVC": [
        {"vid_name": "v", "clip_id": id, "ts": [0, 9], "descs": [{"desc": text} for text in texts]}
        for id, texts in TEXTS.items()
    ],
    "ShareGPT4Video": [
        {
            "video_id": id,
            "keyframe": [0],
            "captions": [{"idx": k, "content": t} for k in ("-1", "1") for t in texts if k < "0"],
        }
        for id, texts in TEXTS.items()
    ],
    "VizWiz": vizwiz(),
    "NoCaps": nocaps(),
    "TextCaps": textcaps(),
    "MSR-VTT": msr_vtt(),
    "VATEX": [{"videoID": "7", "enCap": DOG, "chCap": ["狗"]}, {"videoID": "9", "enCap": CATS, "chCap": ["猫"]}],
    "DCASE": table(
        [{"file_name": k, "caption_reference_01": c[0], "caption_reference_02": c[1]} for k, c in TEXTS.items()]
    ),
    "AudioCaps": table([{"youtube_id": k, "start_time": 3, "caption": t} for k, c in TEXTS.items() for t in c]),
}


@pytest.mark.parametrize(
    ("kind", "name"), [(k, name) for k, each in enumerate((FILES, RESULTS, REFERENCES)) for name in each]
)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_order_of_rows_and_keys_changes_nothing(kind: int, name: str, seed: int, tmp_path_factory: Any) -> None:
    folder, rng = tmp_path_factory.mktemp("order"), random.Random(seed)
    if kind == 0:
        captions = capmeter.load(write_file(folder, shuffled(FILES[name][0], rng)))
    elif kind == 1:
        captions = capmeter.load(write_file(folder, shuffled(RESULTS[name], rng)), shuffled(TEXTS, rng))
    else:
        files = [write_file(folder, shuffled(REFERENCES[name], rng), each) for each in ("one", "two")]
        captions = capmeter.load(SAID, files)
    assert {each.image_id: (each.candidate, sorted(each.references)) for each in captions} == {
        image: (SAID[image], sorted(texts * (1 + kind // 2))) for image, texts in TEXTS.items()
    }


def test_results_with_ids_of_open_images_find_their_references(tmp_path: Path) -> None:
    results = [{"image_id": "009a", "caption": "two cats"}, {"image_id": "007a", "caption": "a dog runs"}]
    captions = capmeter.load(write_file(tmp_path, results), write_file(tmp_path, nocaps(), "references"))
    assert texts_by_image(captions) == {"009a": WHOLE["9"], "007a": WHOLE["7"]}
    assert captions.notes["matched_by"] == ["file name"]


def test_a_weak_layout_gives_way_to_any_other() -> None:
    clotho = [{"file_name": "a.wav", "text": "x", "caption_1": "a dog", "caption_2": "the dog"}]
    assert capmeter.load_references(clotho) == {"a.wav": ("a dog", "the dog")}
    assert capmeter.load_references([{"file_name": "a.jpg", "text": "a dog"}]) == {"a.jpg": ("a dog",)}


def test_fields_that_are_made_of_several() -> None:
    sentences = [
        [{"album_id": "7", "photo_flickr_id": "3", "story_id": s, "worker_arranged_photo_order": k, "text": f"{s}{k}"}]
        for s in "ab"
        for k in (1, 0)
    ]
    assert capmeter.load_references({"images": [{"id": "3", "album_id": "7"}], "annotations": sentences}) == {
        "7": ("a0 a1", "b0 b1")
    }
    described = {
        "image": "7",
        "short_caption": "a dog",
        "extra_caption": "It runs.",
        "summaries": {"base": ["a"]},
        "mask_data": {"0": {"caption": "b"}},
    }
    assert capmeter.load_references(described) == {"7": ("a dog\nIt runs.",)}
    chairs = [{"scene_id": "s", "object_id": "1", "object_name": "chair", "description": text} for text in DOG]
    assert capmeter.load_references(chairs) == {"s|1|chair": tuple(DOG)}
    pair = {"id": 0, "image_0": "a", "image_1": "b", "caption_0": "a dog", "caption_1": "a cat"}  # of two images
    with pytest.raises(InputError, match="neither a candidate"):
        capmeter.load_references([pair])
    for other in ("caption", "references", "timestamp"):  # a weak layout gives way
        row = {"url": "7", "text": "no", other: [0, 1] if other == "timestamp" else ["a dog"]}
        assert capmeter.load_references([row])["7"] == ("no" if other == "timestamp" else "a dog",)


def test_splits_of_msr_vtt(tmp_path: Path) -> None:
    captions = capmeter.load({"7": "a dog"}, write_file(tmp_path, msr_vtt()), split="test")
    assert texts_by_image(captions) == {"7": ("a dog", tuple(DOG))}
    with pytest.raises(InputError, match="the splits are test, validate"):
        capmeter.load({"7": "a dog"}, write_file(tmp_path, msr_vtt()), split="val")


def test_chosen_columns_come_first(tmp_path: Path) -> None:
    path = write_file(tmp_path, REFERENCES["VATEX"])
    selection = {"videoID": "image_id", "chCap": "references"}
    assert capmeter.load_references(path, columns=selection) == {"7": ("狗",), "9": ("猫",)}


def test_workbooks(tmp_path: Path) -> None:
    """VLMEvalKit writes its predictions as a workbook."""
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl (pip install 'capmeter[excel]')")
    book = openpyxl.Workbook()
    rows = [(7, "Describe.", str(DOG), "a dog runs"), (9, "Describe.", str(CATS), "two cats"), (None,) * 4]
    rows += [(11, "Describe.", "['a bus']", None)]
    for row in [("index", "question", "answer", "prediction"), *rows]:
        book.active.append(row)
    book.create_sheet("notes").append(["nothing"])
    book.save(tmp_path / "model_COCO_VAL.xlsx")
    captions = capmeter.load(tmp_path / "model_COCO_VAL.xlsx")
    assert texts_by_image(captions) == WHOLE | {"11": ("", ("a bus",))}
    assert captions.notes["sheets_not_read"] == [f"{tmp_path / 'model_COCO_VAL.xlsx'}: notes"]
    assert examine(tmp_path / "model_COCO_VAL.xlsx").facts["format"] == "xlsx"
    content = (tmp_path / "model_COCO_VAL.xlsx").read_bytes()
    (tmp_path / "cut.xlsx").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="zip data is cut off or damaged"):
        capmeter.load(tmp_path / "cut.xlsx")
    book.active.cell(1, 4).value = "answered"
    book.save(tmp_path / "other.xlsx")
    with pytest.raises(InputError, match="names the columns index, question, answer, answered"):
        capmeter.load(tmp_path / "other.xlsx")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            lines([{**LMMS[0], "coco_Bleu_4": 0, "coco_CIDEr": 0, "filtered_resps": ["a", "b"]}]),
            "filtered_resps is a list of 2",
        ),
        (lines([LMMS[0], {**LMMS[1], "coco_Bleu_4": None, "coco_CIDEr": None}]), "line 2: the id is missing"),
        (lines([sample(0, 7, "a dog", 5)]), "answer is the number 5, expected a list of captions"),
        (lines([sample(0, 7, None, DOG)]), "caption is missing"),
        (table([{**VLMEVALKIT[0], "answer": "['broken"}]), r"answer is the text \"\['broken\", expected a list"),
        (table([{**VLMEVALKIT[0], "answer": "['a' 'b']"}]), r"of a numpy array, write \.tolist\(\)"),
        ([{**CLIP_BENCHMARK[0], "gen": []}], "gen is a list of 0, expected one caption"),
        ([{**CLIP_BENCHMARK[0], "true": 3}], "true is the number 3"),
        (textcaps(), "candidate is missing"),
        (lines([batch_line("7", "a dog") | {"response": None}] * 2), r"the request failed, so"),
        (
            lines([{**batch_line("7", "a"), "error": {"code": 1}}] * 2),
            r"failed \(status 200, code 1\), so there is no caption",
        ),
        (lines([batch_line("7", "a"), {"custom_id": "9", "response": {"body": {}}}]), "line 2: the caption is missing"),
        (lines([{"custom_id": "9", "response": {"body": {"choices": [1]}}}] * 2), "caption is missing"),
        ([{**INSPECT["samples"][0], "output": {}}], "caption is missing"),
        ([{**INSPECT["samples"][0], "target": 3}], "target is the number 3"),
        (msr_vtt(), "it holds references only"),
        ({"data": [{"image_id": 7, "scores": 1}]}, "expected"),
    ],
)
def test_mistakes_get_a_sentence(content: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence) as error_info:
        capmeter.load(write_file(tmp_path, content), on_missing="keep")
    assert "Error" not in str(error_info.value)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_no_row_of_a_layout_is_a_native_row_and_any_value_gives_a_row_or_a_sentence(
    layout: Any, tmp_path: Path
) -> None:
    values = [None, True, 3, 0.5, "a dog", "[", ["a dog"], [["a dog"]], [], {}, {"caption": "a dog"}, [None], "[1]"]
    extra_fields = {} if "image_id" in layout.without else {"image_id": "7"}
    for value in values:
        row = dict.fromkeys(layout.marks, value) | extra_fields
        for side in ("candidates", "references"):
            try:
                captions = (
                    capmeter.load([row], on_missing="keep") if side == "candidates" else capmeter.load_references([row])
                )
            except InputError as error:
                assert str(error).startswith("the ")
            else:
                assert len(captions) == 1


def test_the_page_explains_every_layout() -> None:
    text = PAGE.read_text("utf-8")
    part = text.partition("## Files of captioners and benchmarks")[2].partition("\n## ")[0]
    assert part
    named = set(re.findall(r"`([^`\n]+)`", part))
    fields = {mark.removesuffix("#") for layout in LAYOUTS for mark in layout.marks}
    assert not [name for name in fields if not any(name in each for each in named)]


def test_keys_that_are_splits_choose_rows_of_any_layout() -> None:
    references = {
        "train": [{"image_id": "9", "caption": "a bus"}],
        "val": [{"image_id": "1", "caption": "a dog"}, {"image_id": "1", "caption": "one dog"}],
    }
    (caption,) = capmeter.load({"1": "a dog"}, references, split="val")
    assert caption.references == ("a dog", "one dog")
    with pytest.raises(InputError, match="no image belongs to the split 'dev'; the splits are train, val"):
        capmeter.load({"1": "a dog"}, references, split="dev")
