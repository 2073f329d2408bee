"""What captioners write and benchmarks publish, recognised by the names of fields.

A `RowLayout` lists the fields that only its rows have (`marks`), their native names (`renamed`), and how values that
must be taken apart are converted (`convert`). Rows may be in any file of rows: JSON lines, a JSON list, CSV, TSV,
Parquet, a workbook, or under one key of a JSON document (`captions.documents`). `docs/formats.md` cites where
each is published.

>>> layout = find_layout(["videoID", "enCap", "chCap"])
>>> layout.name, layout.fields({"videoID": "v7", "enCap": ["a dog runs"], "chCap": []}, "row 0")
('vatex', {'image_id': 'v7', 'references': ['a dog runs'], 'chCap': []})
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capmeter.captions.rows import is_finite
from capmeter.core.errors import InputError
from capmeter.core.messages import describe, shorten

Fields = Mapping[Any, Any]
OTHER_NAMES = {
    "caption": "candidate",
    "prediction": "candidate",
    "hypothesis": "candidate",
    "reference": "references",
    "ground_truth": "references",
    "ground_truths": "references",
}
"""Common names of the fields of native rows."""


@dataclass(frozen=True)
class RowLayout:
    """The rows of one program.

    name, holds: its short name, and what its files hold.
    marks, without: the fields that its rows have, and those that they do not have.
    renamed: the native names of its fields.
    convert: turns a row with native names, read at a location, into a native row.
    single: each row holds one of several references of its image.
    """

    name: str
    holds: str
    marks: frozenset[str]
    renamed: Mapping[str, str] = field(default_factory=dict)
    convert: Callable[[Fields, str], dict[Any, Any]] | None = None
    single: bool = False
    without: frozenset[str] = frozenset()

    def fields(self, row: Fields, location: str) -> dict[Any, Any]:
        """The row with the native names of its fields; unknown fields stay as they are."""
        renamed = {self.renamed.get(field_name, field_name): field_value for field_name, field_value in row.items()}
        return renamed if self.convert is None else self.convert(renamed, location)


def _lmms_eval(row: Fields, location: str) -> dict[Any, Any]:
    """A sample's entry for a metric has the caption, the references and the image; tasks without one have `target`."""
    for value in row.values():
        if isinstance(value, Mapping) and "pred" in value and "image_id" in value:
            native_fields = {"image_id": value["image_id"], "candidate": _only_item(value["pred"], location, "pred")}
            return native_fields | (
                {"references": reference_list_of(value["answer"], location, "answer")} if "answer" in value else {}
            )
    candidate = _only_item(row.get("filtered_resps"), location, "filtered_resps")
    native_fields = {"image_id": row.get("doc_id"), "candidate": candidate}
    if row.get("target"):
        native_fields["references"] = reference_list_of(row["target"], location, "target")
    return native_fields | {field_name: row[field_name] for field_name in ("doc_id", "doc_hash") if field_name in row}


def _vlmevalkit(row: Fields, location: str) -> dict[Any, Any]:
    return _without(row, "answer") | {"references": reference_list_of(row.get("answer"), location, "answer")}


def _clip_benchmark(row: Fields, location: str) -> dict[Any, Any]:
    generated_captions = reference_list_of(row.get("gen"), location, "gen")
    if len(generated_captions) != 1:
        raise InputError(f"{location}: gen is {describe(row.get('gen'))}, expected a list of one caption")
    references = reference_list_of(row.get("true"), location, "true")
    return _without(row, "gen", "true") | {"candidate": _text_of(generated_captions[0]), "references": references}


def _blip(row: Fields, location: str) -> dict[Any, Any]:
    captions = row.get("caption")
    caption_field = "references" if isinstance(captions, Sequence) and not isinstance(captions, str) else "caption"
    return _without(row, "caption") | {"image": row.get("image_id"), caption_field: captions}


def _one_reference(row: Fields, location: str) -> dict[Any, Any]:
    return _without(row, "reference") | {"references": reference_list_of(row.get("reference"), location, "the caption")}


def _inspect(row: Fields, location: str) -> dict[Any, Any]:
    """A sample of a log: the answer is the output's `completion`, the references are the target."""
    output = row.get("output")
    completion = output.get("completion") if isinstance(output, Mapping) else None
    references = reference_list_of(row.get("target"), location, "target")
    return {"image_id": row.get("id"), "candidate": completion, "references": references}


def _batch_answer(row: Fields, location: str) -> dict[Any, Any]:
    """A line of a batch output: the answer is in the body of the response; failed requests are refused."""
    response = row.get("response")
    response_body = response.get("body") if isinstance(response, Mapping) else None
    if row.get("error") is not None or not isinstance(response_body, Mapping) or response_body.get("error") is not None:
        status = response.get("status_code") if isinstance(response, Mapping) else None
        raise InputError(
            f"{location}: the request failed (status {status}), so there is no caption; ask for it again, or leave "
            "the row out"
        )
    choice = _only_item(response_body.get("choices"), location, "choices")
    message = choice.get("message") if isinstance(choice, Mapping) else None
    answer_text = message.get("content") if isinstance(message, Mapping) else _text_field(choice)
    return {"image_id": row.get("custom_id"), "candidate": answer_text}


def _text_field(choice: Any) -> Any:
    """The text of a choice of the older completions interface."""
    return choice.get("text") if isinstance(choice, Mapping) else None


def _training_answer(row: Fields, location: str) -> dict[Any, Any]:
    """A row of ms-swift: the only picture, a path or an object with one, is the image's id."""
    reference_texts = reference_list_of(row.get("reference"), location, "the label")
    native_fields = _without(row, "reference", "images") | {"references": reference_texts}
    pictures = row.get("images")
    if isinstance(pictures, Sequence) and not isinstance(pictures, str) and len(pictures) == 1:
        picture = pictures[0].get("path") if isinstance(pictures[0], Mapping) else pictures[0]
        if isinstance(picture, str) and picture.strip():
            native_fields.setdefault("image_id", picture)
    return native_fields


def _llava(row: Fields, location: str) -> dict[Any, Any]:
    """An answer, whose image is the question's number where the row does not name one."""
    fields = _without(row, "question_id")
    return fields if {"image", "image_id"} & fields.keys() else fields | {"image_id": row.get("question_id")}


def _opencompass(row: Fields, location: str) -> dict[Any, Any]:
    """A prediction, whose references are `gold`, if there are any."""
    native_fields = _without(row, "gold")
    return native_fields | ({"references": reference_list_of(row["gold"], location, "gold")} if row.get("gold") else {})


def _vitt(row: Fields, location: str) -> dict[Any, Any]:
    """Tags with their start in milliseconds: a tag ends where the next begins, the last at the end of the video."""
    tag_entries: Any = row["annotations"]
    if isinstance(tag_entries, str) or not isinstance(tag_entries, Sequence):
        raise InputError(f"{location}: annotations is {describe(tag_entries)}, expected a list of {{timestamp, tag}}")
    start_times = []
    for tag_index, tag in enumerate(tag_entries):
        start_time = tag.get("timestamp") if isinstance(tag, Mapping) else None
        if not is_finite(start_time):
            raise InputError(f"{location}, annotations[{tag_index}]: {describe(tag)}, expected {{timestamp (ms), tag}}")
        start_times.append(start_time / 1000)
    event_times = chapter_times(start_times, row.get("duration"), location)
    event_fields = {"timestamps": event_times, "sentences": [tag.get("tag") for tag in tag_entries]}
    return _without(row, "annotations", "duration") | event_fields


def chapter_times(starts: Sequence[Any], duration: Any, location: str) -> list[list[Any]]:
    """The times of events that have only starts, in seconds; the last ends with the video."""
    if starts and not is_finite(duration):
        raise InputError(
            f"{location}: it has the starts of its events but no duration, so that the last one has no end; add "
            '"duration": seconds'
        )
    return [[start_time, end_time] for start_time, end_time in zip(starts, [*starts[1:], duration], strict=False)]


def _without(row: Fields, *names: str) -> dict[Any, Any]:
    return {field_name: field_value for field_name, field_value in row.items() if field_name not in names}


def _only_item(field_value: Any, location: str, field_name: str) -> Any:
    """The only text of a list, of lists of lists too: a model's answers, of which a captioner gives one."""
    item = field_value
    while isinstance(item, Sequence) and not isinstance(item, str):
        if len(item) != 1:
            raise InputError(
                f"{location}: {field_name} is {describe(field_value)}, expected the one caption that the model gave"
            )
        item = item[0]
    return item


def reference_list_of(value: Any, location: str, name: str) -> list[Any]:
    """References as a list: unchanged, of one text, or parsed from the text that Python writes for a list."""
    if isinstance(value, str) and value.strip()[:1] == "[":
        try:
            value = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise InputError(
                f"{location}: {name} is the text {shorten(value)}, expected a list of captions as Python or JSON "
                "writes it"
            ) from None
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping) or not isinstance(value, Sequence):
        raise InputError(f"{location}: {name} is {describe(value)}, expected a list of human captions")
    return [_text_of(item) for item in value]


def _text_of(value: Any) -> Any:
    return value.get("caption") if isinstance(value, Mapping) else value


_IMAGE_ID = frozenset(("image_id",))
_CLOTHO = {"file_name": "image_id", "caption_predicted": "candidate"}
_CLOTHO |= {f"caption_{k}": f"reference_{k}" for k in range(1, 100)}
_CLOTHO |= {f"caption_reference_{k:02}": f"reference_{k}" for k in range(1, 100)}

LAYOUTS = (
    RowLayout("lmms-eval", "samples of lmms-eval", frozenset(("doc_id", "filtered_resps")), convert=_lmms_eval),
    RowLayout(
        "vlmevalkit",
        "predictions of VLMEvalKit",
        frozenset(("index", "prediction", "answer")),
        {"index": "image_id"},
        _vlmevalkit,
    ),
    RowLayout("clip-benchmark", "results of clip_benchmark", frozenset(("gen", "true")), convert=_clip_benchmark),
    RowLayout(
        "textcaps",
        "annotations of TextCaps",
        frozenset(("image_id", "caption_str")),
        {"caption_str": "reference"},
        _one_reference,
        single=True,
    ),
    RowLayout(
        "msr-vtt",
        "sentences of MSR-VTT",
        frozenset(("video_id", "caption", "sen_id")),
        {"video_id": "image_id", "caption": "reference"},
        _one_reference,
        single=True,
    ),
    RowLayout("msr-vtt results", "results for MSR-VTT", frozenset(("video_id", "caption")), {"video_id": "image_id"}),
    RowLayout(
        "vatex", "annotations of VATEX", frozenset(("videoID", "enCap")), {"videoID": "image_id", "enCap": "references"}
    ),
    RowLayout("vitt", "tags of ViTT", frozenset(("id", "annotations")), {"id": "image_id"}, _vitt, without=_IMAGE_ID),
    RowLayout("audiocaps", "AudioCaps", frozenset(("youtube_id", "caption")), {"youtube_id": "image_id"}),
    *(
        RowLayout(name, holds, frozenset(("file_name", mark)), _CLOTHO)
        for name, holds, mark in (
            ("clotho", "captions of Clotho", "caption_1"),
            ("clotho results", "predictions for DCASE", "caption_predicted"),
            ("clotho references", "references of DCASE", "caption_reference_01"),
        )
    ),
    *(
        RowLayout("nocaps", "results for NoCaps", frozenset((mark, "caption")), {mark: "image_id"}, without=_IMAGE_ID)
        for mark in ("open_images_id", "open-images-id")
    ),
    RowLayout(
        "llama-factory",
        "predictions of LLaMA-Factory",
        frozenset(("predict", "label")),
        {"predict": "candidate", "label": "reference"},
    ),
    *(
        RowLayout(
            "ms-swift",
            "predictions of ms-swift",
            frozenset(marks),
            {"response": "candidate", marks[1]: "reference"},
            _training_answer,
        )
        for marks in (("response", "labels"), ("response", "label", "query"))
    ),
    RowLayout(
        "llava", "answers of LLaVA", frozenset(("question_id", "text", "answer_id")), {"text": "candidate"}, _llava
    ),
    RowLayout("inspect", "a log of Inspect", frozenset(("id", "epoch", "target", "output")), convert=_inspect),
    RowLayout("batch", "answers of a batch", frozenset(("custom_id", "response")), convert=_batch_answer),
    RowLayout(
        "opencompass",
        "predictions of OpenCompass",
        frozenset(("origin_prompt", "prediction")),
        convert=_opencompass,
    ),
    RowLayout(
        "magic",
        "results of MAGIC",
        frozenset(("image_name", "captions")),
        {"image_name": "image_id", "captions": "references"},
    ),
    RowLayout(
        "r2gen",
        "annotations of R2Gen",
        frozenset(("id", "report", "image_path")),
        {"id": "image_id", "report": "reference"},
    ),
    RowLayout(
        "flickr30k",
        "captions of Flickr30k",
        frozenset(("image_name", "comment")),
        {"image_name": "image_id", "comment": "reference"},
        single=True,
    ),
    RowLayout(
        "blip",
        "annotations of BLIP",
        frozenset(("image", "caption")),
        {"image": "image_id"},
        _blip,
        without=_IMAGE_ID | {"candidate", "references"},
    ),
)
"""Every layout; the first whose marks a row has is used."""


def is_results(document: Any) -> bool:
    """Whether this JSON claims to be a results file of capmeter (`capmeter.evaluation.results`)."""
    return isinstance(document, Mapping) and "capmeter" in document and isinstance(document.get("systems"), Mapping)


def find_layout(names: Iterable[Any]) -> RowLayout | None:
    """The layout of rows with these fields; None for native rows and any other."""
    field_names = {field_name for field_name in names if isinstance(field_name, str)}
    return next(
        (layout for layout in LAYOUTS if layout.marks <= field_names and not layout.without & field_names), None
    )
