"""Writing captions to every format that is read, whole or not at all, reporting what the format cannot hold."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from capmeter.captions import writers
from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.containers.table import DELIMITERS
from capmeter.captions.field_names import FIELDS
from capmeter.captions.load_options import LoadOptions, Source
from capmeter.captions.matching import CaptionInputs, match_captions
from capmeter.captions.reading import RowReader, open_rows
from capmeter.captions.references import ReferenceTable
from capmeter.captions.rows import CaptionRow, NotCandidates, Side
from capmeter.core.errors import InputError
from capmeter.core.output_files import atomic_writer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from capmeter.captions.load_options import LoadKeywords

Writer = Callable[[Iterable[CaptionRow], BinaryIO], None]
Fields = frozenset[str]

_IMAGE_AND_CANDIDATE = frozenset(("image_id", "candidate"))
_IMAGE_AND_REFERENCES = frozenset(("image_id", "references"))
CANDIDATES: dict[str, tuple[Writer, Fields]] = {
    "coco": (writers.write_results, _IMAGE_AND_CANDIDATE),
    "pycocoevalcap": (writers.write_candidates, _IMAGE_AND_CANDIDATE),
    "clipscore": (writers.write_single_candidates, _IMAGE_AND_CANDIDATE),
}
REFERENCES: dict[str, tuple[Writer, Fields]] = {
    "coco": (writers.write_annotations, _IMAGE_AND_REFERENCES | {"image"}),
    "pycocoevalcap": (writers.write_references_by_image, _IMAGE_AND_REFERENCES),
    "clipscore": (writers.write_references_by_image, _IMAGE_AND_REFERENCES),
    "karpathy": (writers.write_karpathy, _IMAGE_AND_REFERENCES | {"image", "split"}),
}
WITH_EVENTS = ("jsonl", "json")
"""The formats that hold events in time; the others hold their paragraphs."""
ROWS = ("jsonl", "json", "csv", "tsv", "parquet")
TARGETS = (*ROWS, *dict.fromkeys([*CANDIDATES, *REFERENCES]))


@dataclass
class ConversionSummary:
    """What a conversion read and wrote.

    source_format, side: the source's format, and whether it holds candidates or references.
    files: what each file holds, and the number of rows or images in it.
    dropped: number of rows by field that the new format cannot hold.
    ignored: the source's fields that capmeter does not know.
    """

    source_format: str
    side: Side
    files: dict[str, tuple[str, int]] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


@dataclass
class _Rows:
    """Rows that can be iterated again, so that a large file is never held in memory."""

    again: Callable[[], Iterator[CaptionRow]]

    def __iter__(self) -> Iterator[CaptionRow]:
        return self.again()


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
    caption_rows = [
        CaptionRow("", c.image_id, c.candidate, c.references, c.id, c.image, c.system, c.human) for c in captions
    ]
    for caption_row, caption in zip(caption_rows, captions, strict=True):
        if caption.events is not None:
            caption_row.events, caption_row.reference_events = caption.events.candidate, caption.events.references
    return _write(caption_rows, path, to, references, ConversionSummary("captions", "candidates"))


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
    options = LoadOptions.of(options, {**keywords, "on_missing": "keep"}, references)
    reader = open_rows(source, options.format, columns=options.columns, numbered=options.references is None)
    summary = ConversionSummary(reader.format, "candidates")
    rows: Iterable[CaptionRow]
    if options.references is None and (side or detect_side(reader)) == "references":
        splits = options.splits
        rows = _Rows(lambda: (row for row in reader.rows("references") if not splits or row.split in splits))
        summary.side = "references"
    else:
        inputs = CaptionInputs(reader, options)
        rows = _Rows(inputs.rows)
        if inputs.table is not None:
            matched_rows, captions, _ = match_captions(list(rows), inputs)
            reference_lists, images, events = captions.references, captions.images, captions.events
            rows = [
                replace(
                    row,
                    references=reference_lists[row_index] or None,
                    image=images[row_index],
                    reference_events=video_events.references if (video_events := events[row_index]) else (),
                )
                for row_index, row in enumerate(matched_rows)
            ]
    _write(rows, path, to, references_path, summary)
    summary.ignored = sorted(reader.ignored)
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
    image_counts = Counter(caption_row.image_id for caption_row in (first_row, *rows))
    return "references" if max(image_counts.values()) > 1 else "candidates"


def _write(
    caption_rows: Iterable[CaptionRow],
    target_path: str | os.PathLike[str],
    target_format: str,
    references_path: str | os.PathLike[str] | None,
    summary: ConversionSummary,
) -> ConversionSummary:
    if target_format not in TARGETS:
        raise InputError(f"cannot write the format {target_format!a}; expected one of {', '.join(TARGETS)}")
    field_counts: Counter[str] = Counter()
    for caption_row in caption_rows:
        field_counts.update(
            field_name for field_name in (*FIELDS, "events") if getattr(caption_row, field_name) is not None
        )
    if not field_counts:
        raise InputError(f"there is nothing to write to {target_path}: no rows")
    if target_format in ROWS and references_path is not None:
        raise InputError(
            f"the format {target_format} holds candidates and references in one file: leave out the file of references"
        )
    held_fields: set[str] = set()
    with ExitStack() as open_files:
        for file_path, content_name, write, fields in _parts(field_counts, target_path, target_format, references_path):
            written_rows: Iterable[CaptionRow] = caption_rows
            if content_name == "images' references":
                written_rows = list(ReferenceTable.collect(caption_rows, "the source").rows())
            write(written_rows, open_files.enter_context(atomic_writer(file_path)))
            held_fields.update(fields)
            entry_count = len(written_rows) if isinstance(written_rows, list) else field_counts["image_id"]
            summary.files[str(file_path)] = (content_name, entry_count)
    summary.dropped = {
        field_name: field_count for field_name, field_count in field_counts.items() if field_name not in held_fields
    }
    return summary


def _parts(
    field_counts: Counter[str], path: str | os.PathLike[str], to: str, references_path: str | os.PathLike[str] | None
) -> Iterator[tuple[str | os.PathLike[str], str, Writer, Iterable[str]]]:
    """The files to write: where to, what goes in, how, and the fields that it holds."""
    columns = [field_name for field_name in FIELDS if field_counts[field_name]]
    if to in ROWS:
        yield path, "rows", _row_writer(to, columns), (*FIELDS, *(("events",) if to in WITH_EVENTS else ()))
    elif to in CANDIDATES and field_counts["candidate"]:
        yield path, "candidates", *CANDIDATES[to]
        if references_path is not None and field_counts["references"]:
            if Path(references_path) == Path(path):
                raise InputError(f"candidates and references cannot both be written to {path}")
            yield references_path, "images' references", *REFERENCES[to]
    elif field_counts["references"]:
        yield path, "images' references", *REFERENCES[to]
    else:
        raise InputError(f"the format {to} holds references, and the source has none; name them with references=")


def _row_writer(target_format: str, columns: Sequence[str]) -> Writer:
    if target_format in DELIMITERS:
        return lambda rows, file: writers.write_table(rows, columns, DELIMITERS[target_format], file)
    if target_format == "parquet":
        return lambda rows, file: writers.write_parquet(rows, columns, file)
    return writers.write_json_lines if target_format == "jsonl" else writers.write_json
