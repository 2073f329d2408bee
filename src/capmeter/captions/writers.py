"""The writers of every format: rows go in, one file comes out."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from capmeter.captions.events import Events
from capmeter.captions.field_names import FIELDS
from capmeter.captions.rows import CaptionRow
from capmeter.core.errors import InputError
from capmeter.core.output_files import CsvWriter

_BATCH = 4096  # rows of a Parquet file in memory


def row_fields(row: CaptionRow) -> dict[str, Any]:
    """The row as an object, without the fields that it does not have."""
    field_values = {field_name: getattr(row, field_name) for field_name in FIELDS}
    return {
        field_name: list(field_value) if isinstance(field_value, tuple) else field_value
        for field_name, field_value in field_values.items()
        if field_value is not None
    }


def _json_fields(caption_row: CaptionRow) -> dict[str, Any]:
    """The fields of a row, with its events and those of its references in place of the paragraphs."""
    fields = row_fields(caption_row)
    if caption_row.events is None:
        return fields
    if caption_row.candidate is None or caption_row.reference_events:
        fields.pop("references", None)
    fields.pop("candidate", None)
    fields |= _event_lists(caption_row.events)
    if caption_row.candidate is not None and caption_row.reference_events:
        fields["references"] = [_event_lists(event_list) for event_list in caption_row.reference_events]
    return fields


def _event_lists(events: Events) -> dict[str, Any]:
    return {"timestamps": [list(event_time) for event_time in events.times], "sentences": list(events.sentences)}


def write_json_lines(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """One object per line."""
    for caption_row in rows:
        file.write(json.dumps(_json_fields(caption_row), ensure_ascii=False).encode() + b"\n")


def write_json(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """A JSON list, one row a line."""
    separator = b"[\n"
    for caption_row in rows:
        file.write(separator + json.dumps(_json_fields(caption_row), ensure_ascii=False).encode())
        separator = b",\n"
    file.write(b"\n]\n" if separator == b",\n" else b"[]\n")


def number_or_text(image_id: str) -> int | str:
    """COCO's ids are numbers: numeric text becomes a number again, other text stays text."""
    is_number = (
        image_id.isascii() and image_id.isdigit() and len(image_id) < 19 and (image_id == "0" or image_id[0] != "0")
    )
    return int(image_id) if is_number else image_id


def write_results(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """The candidates, in their order."""
    items = [
        {"image_id": number_or_text(caption_row.image_id), "caption": caption_row.candidate} for caption_row in rows
    ]
    _write_list(items, file)
    file.write(b"\n")


def write_annotations(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """The references, image by image; annotation ids count from 1."""
    image_entries: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for caption_row in rows:
        key = number_or_text(caption_row.image_id)
        image_entries.append({"id": key} if caption_row.image is None else {"id": key, "file_name": caption_row.image})
        for reference_text in caption_row.references or ():
            annotations.append({"id": len(annotations) + 1, "image_id": key, "caption": reference_text})
    file.write(b'{"images": ')
    _write_list(image_entries, file)
    file.write(b', "annotations": ')
    _write_list(annotations, file)
    file.write(b"}\n")


def _write_list(items: list[dict[str, Any]], file: BinaryIO) -> None:
    entry_lines = b",\n".join(json.dumps(item, ensure_ascii=False).encode() for item in items)
    file.write(b"[\n" + entry_lines + b"\n]" if items else b"[]")


def write_karpathy(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """The references; images without a split go to `test`."""
    image_lines = []
    sentence_count = 0
    for image_number, caption_row in enumerate(rows):
        key = number_or_text(caption_row.image_id)
        reference_texts = caption_row.references or ()
        sentence_ids = range(sentence_count, sentence_count + len(reference_texts))
        sentence_count += len(reference_texts)
        image_entry: dict[str, Any] = {"imgid": image_number, "split": caption_row.split or "test"}
        if isinstance(key, int):
            image_entry["cocoid"] = key
        if isinstance(key, str) or caption_row.image is not None:
            image_entry["filename"] = caption_row.image if isinstance(key, int) else key
        image_entry["sentids"] = list(sentence_ids)
        image_entry["sentences"] = [
            {"raw": reference_text, "imgid": image_number, "sentid": sentence_id}
            for sentence_id, reference_text in zip(sentence_ids, reference_texts, strict=True)
        ]
        image_lines.append(json.dumps(image_entry, ensure_ascii=False).encode())
    file.write(b'{"images": [\n' + b",\n".join(image_lines) + b'\n], "dataset": "capmeter"}\n')


def write_candidates(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """pycocoevalcap's `{id: [candidate, ...]}`."""
    by_image: dict[str, list[str]] = {}
    for caption_row in rows:
        by_image.setdefault(caption_row.image_id, []).append(caption_row.candidate or "")
    _write_object(by_image, file)


def write_single_candidates(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """CLIPScore's `{image: candidate}`; an image with two candidates is an `InputError`."""
    single_candidates: dict[str, str] = {}
    for row in rows:
        if row.image_id in single_candidates:
            raise InputError(
                f"image {row.image_id!a} has several candidates, and this format holds one; convert to pycocoevalcap, "
                "or choose one system"
            )
        single_candidates[row.image_id] = row.candidate or ""
    _write_object(single_candidates, file)


def write_references_by_image(rows: Iterable[CaptionRow], file: BinaryIO) -> None:
    """`{id: [reference, ...]}`."""
    _write_object({caption_row.image_id: list(caption_row.references or ()) for caption_row in rows}, file)


def _write_object(entries: Mapping[str, Any], file: BinaryIO) -> None:
    entry_lines = (
        json.dumps(entry_key, ensure_ascii=False) + ": " + json.dumps(entry_value, ensure_ascii=False)
        for entry_key, entry_value in entries.items()
    )
    file.write(("{\n" + ",\n".join(entry_lines) + "\n}\n" if entries else "{}\n").encode())


def write_parquet(rows: Iterable[CaptionRow], columns: Sequence[str], file: BinaryIO) -> None:
    """These columns of the rows, a few thousand in memory at a time."""
    import pyarrow
    from pyarrow import parquet

    text_type, texts_type, numbers = pyarrow.string(), pyarrow.list_(pyarrow.string()), pyarrow.list_(pyarrow.float64())
    column_types = {"references": texts_type, "human": numbers}
    schema = pyarrow.schema([(column, column_types.get(column, text_type)) for column in columns])
    with parquet.ParquetWriter(file, schema) as writer:
        row_batch: list[dict[str, Any]] = []
        for caption_row in rows:
            row_batch.append(row_fields(caption_row))
            if len(row_batch) == _BATCH:
                writer.write_table(pyarrow.Table.from_pylist(row_batch, schema=schema))
                row_batch.clear()
        writer.write_table(pyarrow.Table.from_pylist(row_batch, schema=schema))


def write_table(rows: Iterable[CaptionRow], columns: Sequence[str], delimiter: str, file: BinaryIO) -> None:
    """These columns of the rows; the references are a JSON list."""
    text_file = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        csv_writer = CsvWriter(text_file, delimiter)
        csv_writer.write(columns)
        for caption_row in rows:
            fields = row_fields(caption_row)
            for column in ("references", "human"):
                if column in fields:
                    fields[column] = json.dumps(fields[column], ensure_ascii=False)
            csv_writer.write([fields.get(column, "") for column in columns])
        text_file.flush()
    finally:
        text_file.detach()
