"""What captioners write and benchmarks publish, read as native rows: one table, recognised by the fields' names.

A `Layout` says which fields a row has that nothing else has (`marks`), which of them are whose (`renamed`), and where a
value must be taken apart, how (`convert`). Rows may stand in any file of rows: JSON lines, a JSON list, CSV, TSV,
Parquet, a workbook, or under one key of a JSON document (`INSIDE`). `docs/formats.md` cites where each is published.

>>> layout = layout_of(["videoID", "enCap", "chCap"])
>>> layout.name, layout.fields({"videoID": "v7", "enCap": ["a dog runs"], "chCap": []}, "row 0")
('vatex', {'image_id': 'v7', 'references': ['a dog runs'], 'chCap': []})
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capmeter.captions.rows import described, shortened
from capmeter.errors import InputError

Fields = Mapping[Any, Any]


@dataclass(frozen=True)
class Layout:
    """One program's rows. `single`: each row holds one of several references of its image."""

    name: str
    holds: str
    marks: frozenset[str]
    renamed: Mapping[str, str] = field(default_factory=dict)
    convert: Callable[[Fields, str], dict[Any, Any]] | None = None
    single: bool = False
    without: frozenset[str] = frozenset()

    def fields(self, row: Fields, place: str) -> dict[Any, Any]:
        """The row with the native names of its fields; fields that are not known stay as they are."""
        renamed = {self.renamed.get(name, name): value for name, value in row.items()}
        return renamed if self.convert is None else self.convert(renamed, place)


def _lmms_eval(row: Fields, place: str) -> dict[Any, Any]:
    """A sample's entry for a metric has the caption, the references and the image; tasks without one have `target`."""
    kept = {name: row[name] for name in ("doc_id", "doc_hash") if name in row}
    for value in row.values():
        if isinstance(value, Mapping) and "pred" in value and "image_id" in value:
            found = {"image_id": value["image_id"], "candidate": _first(value["pred"], place, "pred")}
            return found | ({"references": _listed(value["answer"], place, "answer")} if "answer" in value else {})
    found = {"image_id": row.get("doc_id"), "candidate": _first(row.get("filtered_resps"), place, "filtered_resps")}
    return found | ({"references": _listed(row["target"], place, "target")} if row.get("target") else {}) | kept


def _vlmevalkit(row: Fields, place: str) -> dict[Any, Any]:
    kept = {name: value for name, value in row.items() if name != "answer"}
    return kept | {"references": _listed(row.get("answer"), place, "answer")}


def _clip_benchmark(row: Fields, place: str) -> dict[Any, Any]:
    kept = {name: value for name, value in row.items() if name not in ("gen", "true")}
    generated = _listed(row.get("gen"), place, "gen")
    if len(generated) != 1:
        raise InputError(f"{place}: gen is {described(row.get('gen'))}, expected a list of one caption")
    return kept | {"candidate": _text_of(generated[0]), "references": _listed(row.get("true"), place, "true")}


def _blip(row: Fields, place: str) -> dict[Any, Any]:
    kept = {name: value for name, value in row.items() if name != "caption"}
    several = isinstance(row.get("caption"), Sequence) and not isinstance(row.get("caption"), str)
    return kept | {"image": row.get("image_id"), "references" if several else "caption": row.get("caption")}


def _one_reference(row: Fields, place: str) -> dict[Any, Any]:
    kept = {name: value for name, value in row.items() if name != "reference"}
    return kept | {"references": _listed(row.get("reference"), place, "the caption")}


def _first(value: Any, place: str, name: str) -> Any:
    """The only text of a list, of lists of lists too: a model's answers, of which a captioner gives one."""
    given = value
    while isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != 1:
            raise InputError(f"{place}: {name} is {described(given)}, expected the one caption that the model gave")
        value = value[0]
    return value


def _listed(value: Any, place: str, name: str) -> list[Any]:
    """References as a list: as it is, of one text, or of the text that Python writes for a list."""
    if isinstance(value, str) and value.strip()[:1] == "[":
        try:
            value = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise InputError(
                f"{place}: {name} is the text {shortened(value)}, expected a list of captions as Python or JSON writes "
                "it"
            ) from None
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping) or not isinstance(value, Sequence):
        raise InputError(f"{place}: {name} is {described(value)}, expected the captions that people wrote")
    return [_text_of(each) for each in value]


def _text_of(value: Any) -> Any:
    return value.get("caption") if isinstance(value, Mapping) else value


_IMAGE_ID = frozenset(("image_id",))
_CLOTHO = {"file_name": "image_id", "caption_predicted": "candidate"}
_CLOTHO |= {f"caption_{k}": f"reference_{k}" for k in range(1, 100)}
_CLOTHO |= {f"caption_reference_{k:02}": f"reference_{k}" for k in range(1, 100)}

LAYOUTS = (
    Layout("lmms-eval", "samples of lmms-eval", frozenset(("doc_id", "filtered_resps")), convert=_lmms_eval),
    Layout(
        "vlmevalkit",
        "predictions of VLMEvalKit",
        frozenset(("index", "prediction", "answer")),
        {"index": "image_id", "prediction": "candidate"},
        _vlmevalkit,
    ),
    Layout("clip-benchmark", "results of clip_benchmark", frozenset(("gen", "true")), convert=_clip_benchmark),
    Layout(
        "textcaps",
        "annotations of TextCaps",
        frozenset(("image_id", "caption_str")),
        {"caption_str": "reference"},
        _one_reference,
        single=True,
    ),
    Layout(
        "msr-vtt",
        "sentences of MSR-VTT",
        frozenset(("video_id", "caption", "sen_id")),
        {"video_id": "image_id", "caption": "reference"},
        _one_reference,
        single=True,
    ),
    Layout("msr-vtt results", "results for MSR-VTT", frozenset(("video_id", "caption")), {"video_id": "image_id"}),
    Layout(
        "vatex", "annotations of VATEX", frozenset(("videoID", "enCap")), {"videoID": "image_id", "enCap": "references"}
    ),
    Layout("audiocaps", "AudioCaps", frozenset(("youtube_id", "caption")), {"youtube_id": "image_id"}),
    *(
        Layout(name, holds, frozenset(("file_name", mark)), _CLOTHO)
        for name, holds, mark in (
            ("clotho", "captions of Clotho", "caption_1"),
            ("clotho results", "predictions for DCASE", "caption_predicted"),
            ("clotho references", "references of DCASE", "caption_reference_01"),
        )
    ),
    *(
        Layout("nocaps", "results for NoCaps", frozenset((mark, "caption")), {mark: "image_id"}, without=_IMAGE_ID)
        for mark in ("open_images_id", "open-images-id")
    ),
    Layout(
        "blip",
        "annotations of BLIP",
        frozenset(("image", "caption")),
        {"image": "image_id"},
        _blip,
        without=_IMAGE_ID | {"candidate", "references"},
    ),
)
"""Every layout; the first whose marks a row has is taken."""
INSIDE = ("data", "result", "sentences", "logs")
"""Keys of documents under which such rows stand: TextCaps, MSR-VTT's results, its sentences, lmms-eval's older logs."""


def layout_of(names: Iterable[Any]) -> Layout | None:
    """The layout of rows with these fields; None for native rows and any other."""
    given = {name for name in names if isinstance(name, str)}
    return next((each for each in LAYOUTS if each.marks <= given and not each.without & given), None)


def rows_under(document: Mapping[Any, Any], key: str) -> list[Any]:
    """The rows under this key; sentences of MSR-VTT with the split of their video."""
    rows: list[Any] = document[key]
    videos = document.get("videos")
    if key != "sentences" or not isinstance(videos, list):
        return rows
    splits = {each.get("video_id"): each.get("split") for each in videos if isinstance(each, Mapping)}
    return [row | {"split": splits.get(row.get("video_id"))} if isinstance(row, dict) else row for row in rows]


def rows_inside(document: Mapping[Any, Any]) -> str | None:
    """The key of this document under which rows of a known layout stand."""
    for key in INSIDE:
        rows = document.get(key)
        if isinstance(rows, list) and rows and isinstance(rows[0], Mapping) and layout_of(rows[0]) is not None:
            return key
    return None
