"""Writing captions to every format that is read, whole or not at all, reporting what the format cannot hold."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from capmeter.captions.caption_set import CaptionSet, Events
from capmeter.captions.layouts import FIELDS
from capmeter.captions.load_options import LoadOptions, Source
from capmeter.captions.matching import CaptionLoader, Notes, collect_references, read_table
from capmeter.captions.reading import RowReader
from capmeter.captions.rows import CaptionRow, NotCandidates, Side
from capmeter.core.errors import InputError
from capmeter.core.messages import describe
from capmeter.core.output_files import atomic_writer, write_parts
from capmeter.core.settings import home_path

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from capmeter.captions.load_options import LoadKeywords

CANDIDATES = dict.fromkeys(("coco", "pycocoevalcap", "clipscore"), ("image_id", "candidate"))
REFERENCES = {
    "coco": ("image_id", "references", "image"),
    "pycocoevalcap": ("image_id", "references"),
    "clipscore": ("image_id", "references"),
    "karpathy": ("image_id", "references", "image", "split"),
}
"""The formats of files of candidates and of references, and the fields that they hold; JSON's hold events, too."""
ROWS = ("jsonl", "json", "csv", "tsv", "parquet")
TARGETS = (*ROWS, *dict.fromkeys([*CANDIDATES, *REFERENCES]))
_BATCH = 1 << 14


@dataclass
class ConversionSummary:
    """What a conversion read and wrote.

    source_format, side: the source's format, and whether it holds candidates or references.
    files: what each file holds, and the number of rows or images in it.
    dropped: number of rows by field that the new format cannot hold.
    ignored: the source's fields that capmeter does not know.
    notes: what was adjusted or left out when the source was read: reason → ids.
    """

    source_format: str
    side: Side
    files: dict[str, tuple[str, int]] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=dict)


def save(
    captions: CaptionSet, path: str | os.PathLike[str], *, to: str, references: str | os.PathLike[str] | None = None
) -> ConversionSummary:
    """Writes a set.

    Args:
        captions: the captions.
        path: the file to write.
        to: the format, one of `TARGETS`.
        references: where to write the references, for formats that keep them in a separate file.

    Raises:
        InputError: the file or the format cannot be written.
    """
    if not isinstance(captions, CaptionSet):
        raise InputError(f"{describe(captions)}, expected captions that capmeter.load has read; convert takes files")
    rows = [CaptionRow("", c.image_id, c.candidate, c.references, c.id, c.image, c.system, c.human) for c in captions]
    for row, events in zip(rows, captions.events, strict=True):
        if events is not None:
            row.events, row.reference_events = events.candidate, events.references
    return _write(rows, path, to, references, ConversionSummary("captions", "candidates"))


def convert(
    source: Source,
    path: str | os.PathLike[str],
    *,
    to: str,
    references: Source | None = None,
    references_path: str | os.PathLike[str] | None = None,
    side: Side | None = None,
    options: LoadOptions | None = None,
    **keywords: Unpack[LoadKeywords],
) -> ConversionSummary:
    """Converts captions from one format to another.

    Args:
        source: a file in any format, or its content.
        path: the file to write.
        to: the format to write, one of `TARGETS`.
        references: the references, if they are in a separate source.
        references_path: where to write the references, for formats that keep them in a separate file.
        side: what the source holds, if `{id: [caption, ...]}` could be either; a source of references alone becomes one
            file of them.
        options: how the captions are read.
        keywords: fields of `LoadOptions`, which replace those of `options`.

    Raises:
        InputError: the source cannot be read, or the format cannot be written.
    """
    options = LoadOptions.from_keywords(options, {**keywords, "on_missing": "keep"}, references)
    loader = CaptionLoader.open(source, options)
    reader = loader.reader
    summary = ConversionSummary(reader.format, "candidates")
    if options.references is None and (side or detect_side(reader)) == "references":
        rows = list(read_table(reader, options.splits).rows.values())
        summary.side, summary.notes = "references", {reason: list(ids) for reason, ids in reader.fields.notes.items()}
    else:
        rows, summary.notes = loader.match(loader.read())
    _write(rows, path, to, references_path, summary)
    summary.ignored = sorted(reader.fields.ignored)
    return summary


def detect_side(reader: RowReader) -> Side:
    """Whether a source holds candidates or references only, judging by its form."""
    try:
        rows = reader.rows("candidates")
        first_row = next(rows, None)
    except NotCandidates:
        if next(reader.rows("references"), None) is None:
            raise
        return "references"
    if first_row is None or reader.format != "pycocoevalcap":
        return "candidates"
    return "references" if max(Counter(row.image_id for row in (first_row, *rows)).values()) > 1 else "candidates"


def _write(
    rows: Sequence[CaptionRow],
    path: str | os.PathLike[str],
    to: str,
    references_path: str | os.PathLike[str] | None,
    summary: ConversionSummary,
) -> ConversionSummary:
    if to not in TARGETS:
        raise InputError(f"cannot write the format {to!a}; expected one of {', '.join(TARGETS)}")
    path, references_path = home_path(path), None if references_path is None else home_path(references_path)
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(name for name in (*FIELDS, "events", "annotator") if getattr(row, name) not in (None, ()))
        counts["events"] += row.events is None and row.reference_events != ()
    if not rows:
        raise InputError(f"there is nothing to write to {path}: no rows")
    if to in ROWS and references_path is not None:
        raise InputError(f"the format {to} holds candidates and references in one file: leave out that of references")
    if references_path is not None and not counts["references"]:
        raise InputError(
            f"the source has no references to write to {references_path}; name them (references=, --references), or "
            "leave out the file for them"
        )
    held_fields: set[str] = set()
    with ExitStack() as files:
        if to in ROWS:
            counts["references"] += not counts["candidate"]  # empty lists, without which nothing would be left
            _write_rows(rows, [name for name in FIELDS if counts[name]], to, files.enter_context(atomic_writer(path)))
            held_fields.update(FIELDS, ["events"] if to.startswith("json") else [])
            summary.files[str(path)] = ("rows", len(rows))
        elif to in CANDIDATES and counts["candidate"]:
            files.enter_context(atomic_writer(path)).write(_lines(_candidates_document(rows, to)))
            held_fields.update(CANDIDATES[to])
            summary.files[str(path)] = ("candidates", len(rows))
        elif counts["references"]:
            references_path = path
        else:
            raise InputError(f"the format {to} holds references, and the source has none; name them with references=")
        if references_path is not None:
            if summary.files and references_path == path:
                raise InputError(f"candidates and references cannot both be written to {path}")
            images = list(collect_references(rows, "the source").rows.values())
            files.enter_context(atomic_writer(references_path)).write(_lines(_references_document(images, to)))
            held_fields.update(REFERENCES[to])
            summary.files[str(references_path)] = ("images' references", len(images))
    summary.dropped = {name: count for name, count in counts.items() if count and name not in held_fields}
    return summary


def _write_rows(rows: Sequence[CaptionRow], columns: Sequence[str], to: str, file: Any) -> None:
    """Rows of the fields of `FIELDS`; of JSON the events of a video take the place of their paragraphs."""
    import pyarrow

    if to == "json":
        file.write(_lines(list(map(_json_row, rows))))
    elif to == "jsonl":
        file.writelines(json.dumps(_json_row(row), ensure_ascii=False).encode() + b"\n" for row in rows)
    else:
        column_types = {"references": pyarrow.list_(pyarrow.string()), "human": pyarrow.list_(pyarrow.float64())}
        schema = pyarrow.schema([(name, column_types.get(name, pyarrow.string())) for name in columns])
        batches = (rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH))
        tables = (
            pyarrow.table([[getattr(row, name) for row in batch] for name in columns], schema=schema)
            for batch in batches
        )
        write_parts(tables, f".{to}", file)


def _json_row(row: CaptionRow) -> dict[str, Any]:
    """The row as an object, without the fields that it does not have."""
    values = {name: value for name in FIELDS if (value := getattr(row, name)) is not None}
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    if row.events is not None and row.candidate is not None:
        if row.candidate in (row.events.paragraph, row.events.in_file):
            del values["candidate"]
        values |= _event_lists(row.events)
    if len(row.reference_events) == len(row.references or ()) > 0:
        values["references"] = list(map(_event_lists, row.reference_events))
    return values


def _event_lists(events: Events) -> dict[str, Any]:
    return {"timestamps": list(map(list, events.times)), "sentences": list(events.sentences)}


def _lines(document: Any) -> bytes:
    """A JSON document, an entry a line."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    is_object = isinstance(document, dict)
    entries = [f"{encode(key)}: {encode(document[key])}" for key in document] if is_object else map(encode, document)
    return "\n".join(["{" if is_object else "[", ",\n".join(entries), "}\n" if is_object else "]\n"]).encode()


def _number_or_text(image_id: str) -> int | str:
    """COCO's ids are numbers: numeric text becomes a number again, other text stays text."""
    is_number = image_id.isascii() and image_id.isdigit() and len(image_id) < 19 and str(int(image_id)) == image_id
    return int(image_id) if is_number else image_id


def _candidates_document(rows: Sequence[CaptionRow], to: str) -> Any:
    """COCO's results, or candidates by image; CLIPScore's format has one candidate of each."""
    if to == "coco":
        return [{"image_id": _number_or_text(row.image_id), "caption": row.candidate} for row in rows]
    by_image: dict[str, list[str]] = {}
    for row in rows:
        by_image.setdefault(row.image_id, []).append(row.candidate or "")
    if to == "pycocoevalcap":
        return by_image
    for image_id, candidates in by_image.items():
        if len(candidates) > 1:
            raise InputError(
                f"image {image_id!a} has several candidates, and this format holds one; convert to pycocoevalcap, or "
                "choose one system"
            )
    return {image_id: candidates[0] for image_id, candidates in by_image.items()}


def _references_document(images: Sequence[CaptionRow], to: str) -> Any:
    """The references of each image; in Karpathy's format images without a split go to `test`."""
    if to not in ("coco", "karpathy"):
        return {row.image_id: list(row.references or ()) for row in images}
    image_entries: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    first_id = 0
    for number, row in enumerate(images):
        key, texts = _number_or_text(row.image_id), row.references or ()
        if to == "coco":
            image_entries.append({"id": key} if row.image is None else {"id": key, "file_name": row.image})
            annotations += [
                {"id": len(annotations) + k, "image_id": key, "caption": text} for k, text in enumerate(texts, 1)
            ]
            continue
        entry: dict[str, Any] = {"imgid": number, "cocoid": key, "split": row.split or "test"}
        entry |= {"filename": row.image or key} if row.image is not None or isinstance(key, str) else {}
        sentences = [{"raw": text, "imgid": number, "sentid": first_id + k} for k, text in enumerate(texts)]
        image_entries.append({**entry, "sentids": [each["sentid"] for each in sentences], "sentences": sentences})
        first_id += len(texts)
    return {"images": image_entries} | ({"annotations": annotations} if to == "coco" else {"dataset": "capmeter"})
