"""The file formats: which there are, and which one a file has, detected from its content."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from capmeter.captions.columns import Columns
from capmeter.captions.documents import are_named_pairs, detect_format, is_row, unwrap, wrong_form
from capmeter.captions.event_rows import join_events
from capmeter.captions.formats import coco, events, excel, karpathy, lines, mapping, native, parquet, table, webdataset
from capmeter.captions.layouts import is_results
from capmeter.captions.rows import CaptionRow, NotCandidates, Side, caption_text, reference_list
from capmeter.captions.sources import CaptionSource, decode
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe

NAMES = {
    "jsonl": "native rows, one JSON object per line",
    "json": "native rows, a JSON list",
    "csv": "native rows, comma separated, with a header",
    "tsv": "native rows, tab separated, with a header",
    "parquet": "native rows, columns",
    "webdataset": "native rows, tar shards of KEY.json and KEY.txt",
    "xlsx": "native rows, the first sheet of an Excel workbook",
    "coco": "COCO results [{image_id, caption}]; as references, annotations {images, annotations}",
    "pycocoevalcap": "{id: [caption, ...]}",
    "clipscore": "{image: caption}; as references {image: [caption, ...]}",
    "karpathy": "dataset_coco.json and similar files: references by split",
    "events": "videos with events in time: ActivityNet's results and ground truth, YouCook2, VidChapters",
    "list": "a list of captions, or a caption a line; as references a list of lists; ids are positions",
    "named": "an image's name and a caption: lines (Flickr8k.token.txt, 10.jpg a dog), or a JSON list of pairs",
}


@dataclass
class RowReader:
    """A file or an object of captions whose format is known; its rows can be read more than once.

    name: what messages call it.
    format: one of `NAMES`.
    read: yields the rows.
    columns: which columns hold which fields.
    label: the name of the system whose captions it holds, if they name none.
    path: the file on disk; None for an object.
    """

    name: str
    format: str
    read: Callable[[Side, Columns], Iterator[CaptionRow]]
    columns: Columns = field(default_factory=Columns)
    label: str = "candidates"
    path: Path | None = None

    def with_hint(self, hint: str) -> RowReader:
        """The same reader; an error before its first row ends with this hint, unless it is empty."""

        def read(side: Side, columns: Columns) -> Iterator[CaptionRow]:
            is_first = True
            try:
                for caption_row in self.read(side, columns):
                    is_first = False
                    yield caption_row
            except InputError as problem:
                if not is_first:
                    raise
                raise type(problem)(f"{problem}; {hint}") from problem

        return replace(self, read=read) if hint else self

    @property
    def ignored(self) -> set[str]:
        """The fields of the rows read so far that capmeter does not know."""
        return self.columns.ignored

    def rows(self, side: Side) -> Iterator[CaptionRow]:
        """The rows, read as candidates or as references."""
        return join_events(self.read(side, self.columns))


def _read_list(items: Sequence[Any], source_name: str, side: Side, _: Columns) -> Iterator[CaptionRow]:
    if isinstance(items, Mapping | str) or not isinstance(items, Sequence):
        raise wrong_form(items, source_name, "list")
    for item_number, item in enumerate(items):
        location = f"{source_name}[{item_number}]"
        if side == "references":
            yield CaptionRow(location, str(item_number), references=reference_list(item, location, "the entry"))
        elif isinstance(item, Sequence) and not isinstance(item, str):
            if item and isinstance(item[0], Mapping):
                raise InputError(
                    f"{location}: a list of objects where one row was expected; join the lists, such as "
                    "the batches of a data loader, to one list of rows"
                )
            raise NotCandidates(
                f"{location}: {describe(item)} where one candidate caption was expected; are candidates and references "
                "swapped? Several candidates of an image come as a dict {id: [caption, ...]} or as rows"
            )
        else:
            yield CaptionRow(location, str(item_number), candidate=caption_text(item, location, "the entry"))


def _read_pairs(items: Any, source_name: str, side: Side, _: Columns) -> Iterator[CaptionRow]:
    if not are_named_pairs(items):
        raise wrong_form(items, source_name, "named")
    for item_number, (image_name, caption) in enumerate(items):
        yield lines.named_row(image_name, caption, f"{source_name}[{item_number}]", side)


_FILE_READERS: dict[str, Callable[[CaptionSource, Side, Columns], Iterator[CaptionRow]]] = {
    "jsonl": native.read_json_lines,
    "csv": partial(table.read, delimiter=","),
    "tsv": partial(table.read, delimiter="\t"),
    "parquet": parquet.read,
    "webdataset": webdataset.read,
    "xlsx": excel.read,
    "list": lines.read,
    "named": lines.read_named,
}
_BY_IMAGE = ("pycocoevalcap", "clipscore", "karpathy")
_SIGNATURES: dict[str, Callable[[bytes], bool]] = {
    "xlsx": excel.is_workbook,
    "parquet": parquet.is_parquet,
    "webdataset": webdataset.is_tar,
}
_DOCUMENT_READERS: dict[str, Callable[[Any, str, Side, Columns], Iterator[CaptionRow]]] = {
    "json": native.read_document,
    "coco": coco.read,
    "karpathy": karpathy.read,
    "pycocoevalcap": mapping.read,
    "clipscore": mapping.read,
    "events": events.read,
    "list": _read_list,
    "named": _read_pairs,
}


def open_rows(
    source: Any,
    format: str | None = None,
    *,
    side: Side = "candidates",
    columns: Mapping[str, str] | None = None,
    keep: tuple[str, ...] | None = None,
) -> RowReader:
    """Recognises the format of a source.

    Args:
        source: a path, a `CaptionSource`, or captions as lists and dicts.
        format: overrides detection.
        side: what the source holds, for messages.
        columns: column names and the fields of native rows that they hold.
        keep: the columns whose values the rows carry beside their numbers in the file; None: neither.

    Raises:
        InputError: the source cannot be read, or its format is not recognised or not `format`.
    """
    if format is not None and format not in NAMES:
        raise InputError(f"unknown format {format!a}; the formats are {', '.join(NAMES)}")
    source_name, source_label, detected_format, document = f"the {side}", "candidates", "document", source
    known_columns = Columns(columns or {}, keep=keep)
    if isinstance(source, str | os.PathLike):
        source = CaptionSource.resolve(source)
    if isinstance(source, CaptionSource):
        source_name, source_label = source.name, source.label
        first_line, second_line = source.first_lines()
        detected_format = _detect_file_format(first_line, second_line, source, format)
        if detected_format == "document":
            document = decode_json(source.read_text(), source_name)
            if not second_line and is_row(document, known_columns.mapping):
                detected_format = "jsonl"
    elif hasattr(source, "tolist"):
        document = source.tolist()
    if {detected_format, format} == {"csv", "tsv"}:
        detected_format = format or ""
    if detected_format == "document":
        if is_results(document):
            raise InputError(
                f"{source_name}: this is a results file of capmeter, expected captions; only compare, explain, chair "
                "and systems take results in their place"
            )
        if format not in _BY_IMAGE:
            document = unwrap(document, source_name, known_columns)
        detected_format = format or detect_format(document, source_name)
        if detected_format not in _DOCUMENT_READERS:
            raise wrong_form(document, source_name, detected_format)
        read_rows = partial(_DOCUMENT_READERS[detected_format], document, source_name)
    elif format in (None, detected_format):
        read_rows = partial(_FILE_READERS[detected_format], source)
    else:
        raise InputError(f"{source_name}: this is a {detected_format} file, not a {format} file; leave the format out")
    path = source.path if isinstance(source, CaptionSource) else None
    return RowReader(source_name, detected_format, read_rows, known_columns, source_label, path)


def _detect_file_format(first_line: bytes, second_line: bytes, source: CaptionSource, chosen_format: str | None) -> str:
    """The format of a file with these first two lines: "document" for one JSON document."""
    for known_format, has_signature in _SIGNATURES.items():
        if has_signature(first_line):
            return known_format
    is_json = first_line[:1] in (b"{", b"[")
    if chosen_format == "list" and first_line[:1] != b"[":
        return "list"
    if first_line[:1] == b"{" and first_line[-1:] == b"}" and second_line[:1] == b"{":
        return "jsonl"
    if is_json:
        return "document"
    if lines.is_named_line(first_line) and (b"\t" in first_line or not second_line or lines.is_named_line(second_line)):
        return "named"
    if b"\t" in first_line:
        return "tsv"
    file_ending = source.ending
    if first_line and (file_ending in (".csv", ".tsv") or (lines.is_table(first_line) and file_ending != ".txt")):
        return file_ending[1:] if file_ending == ".tsv" else "csv"
    if first_line and lines.may_be_plain(file_ending):
        return "csv" if lines.is_table(first_line) and not lines.is_prose(first_line) else "list"
    start = f"neither JSON nor a table: it begins with {describe(decode(first_line, source.name))}"
    raise InputError(
        f"{source.name}: {start if first_line else 'the file is empty'}; expected captions in one of the formats "
        f"{', '.join(NAMES)} (--input-format list: one caption a line)"
    )
