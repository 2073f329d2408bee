"""The file formats: which there are, and which one a file has, detected from its content."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capmeter.captions.columns import OTHER_NAMES, Columns
from capmeter.captions.files import BOM, LARGEST_DOCUMENT, decode, open_bytes, read_text
from capmeter.captions.formats import coco, excel, karpathy, mapping, native, parquet, table, webdataset
from capmeter.captions.jsontext import decode_json
from capmeter.captions.layouts import layout_of, rows_inside, rows_under
from capmeter.captions.rows import NotCandidates, Row, Side, caption_text, described, named, reference_list
from capmeter.captions.standard_input import NAME as STANDARD_INPUT
from capmeter.captions.standard_input import is_standard_input, regular
from capmeter.errors import InputError

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
    "list": "a list of captions; as references a list of lists; ids are positions",
}
STREAMED = ("jsonl", "csv", "tsv", "parquet", "webdataset", "xlsx")


@dataclass
class Reading:
    """A file or an object of captions whose format is known; `rows` can be asked for more than once."""

    name: str
    format: str
    read: Callable[[Side, Columns], Iterator[Row]]
    columns: Columns = field(default_factory=Columns)

    @property
    def ignored(self) -> set[str]:
        """The fields of the rows read so far that capmeter does not know."""
        return self.columns.ignored

    def rows(self, side: Side) -> Iterator[Row]:
        """The rows, read for candidates or for references."""
        return self.read(side, self.columns)


def open_reading(
    source: Any,
    format: str | None = None,
    *,
    side: Side = "candidates",
    columns: Mapping[str, str] | None = None,
) -> Reading:
    """What `source` (a path, or captions as lists and dicts) holds; `format` overrides detection.

    `columns` says which fields of rows mean what: the name in the source → the native row's.
    """
    reading = _opened(source, format, side)
    reading.columns = Columns(columns or {})
    return reading


def _opened(source: Any, format: str | None, side: Side) -> Reading:
    if format is not None and format not in NAMES:
        raise InputError(f"there is no format {format!a}; the formats are {', '.join(NAMES)}")
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        return _file(Path(os.fsdecode(path) if isinstance(path, bytes) else path), format)
    if isinstance(source, bytes) or not isinstance(source, Mapping | Sequence):
        listed = source.tolist() if hasattr(source, "tolist") else None
        if not isinstance(listed, list):
            raise InputError(f"the {side} are {described(source)}; expected a path, a list or a dict of captions")
        source = listed
    return _document(source, f"the {side}", format)


def _file(path: Path, format: str | None) -> Reading:
    if is_standard_input(path):
        name, path = STANDARD_INPUT, regular(path)
    else:
        name = str(path)
    guessed, document = _recognised(path, name)
    if {guessed, format} == {"csv", "tsv"}:
        guessed = format
    if guessed is None:
        if format in STREAMED:
            raise InputError(f"{name}: this is one JSON document, not a {format} file; leave the format out")
        return _document(document, name, format)
    if format not in (None, guessed):
        raise InputError(f"{name}: this is a {guessed} file, not a {format} file; leave the format out")
    if guessed == "jsonl":
        return Reading(name, guessed, lambda side, columns: native.read_json_lines(path, name, side, columns))
    if guessed == "xlsx":
        return Reading(name, guessed, lambda side, columns: excel.read(path, name, side, columns))
    if guessed == "webdataset":
        return Reading(name, guessed, lambda side, columns: webdataset.read(path, name, side, columns))
    if guessed == "parquet":
        return Reading(name, guessed, lambda side, columns: parquet.read(path, name, side, columns))
    delimiter = table.DELIMITERS[guessed]
    return Reading(name, guessed, lambda side, columns: table.read(path, name, side, columns, delimiter))


def _recognised(path: Path, name: str) -> tuple[str | None, Any]:
    """The format of a file, or None and its value if it is one JSON document."""
    if excel.is_workbook(path):
        return "xlsx", None
    with open_bytes(path) as file:
        head = file.read(len(parquet.MAGIC))
        if head == parquet.MAGIC:
            return "parquet", None
        line = head if head.endswith(b"\n") else head + file.readline(LARGEST_DOCUMENT)
        if webdataset.is_tar(line):
            return "webdataset", None
        first = line.removeprefix(BOM).strip()
        while not first and (following := file.readline(LARGEST_DOCUMENT)):
            first = following.strip()
        second = b""
        while not second and (following := file.readline(LARGEST_DOCUMENT)):
            second = following.strip()
    if not first:
        raise InputError(f"{name}: the file is empty; expected captions in one of the formats {', '.join(NAMES)}")
    if first[:1] == b"{" and first[-1:] == b"}" and second[:1] == b"{":
        return "jsonl", None
    if first[:1] in (b"{", b"["):
        document = decode_json(read_text(path), name)
        return ("jsonl" if not second and _is_row(document) else None), document
    text = decode(first, name)
    if "\t" in text or "," in text or ";" in text:
        return ("tsv" if "\t" in text else "csv"), None
    raise InputError(
        f"{name}: neither JSON nor a table: it begins with {described(text)}; expected one of the formats "
        f"{', '.join(NAMES)}"
    )


def _is_row(document: Any) -> bool:
    """Whether an object is one native row rather than captions keyed by image."""
    return isinstance(document, Mapping) and (
        "candidate" in document
        or "references" in document
        or ("image_id" in document and not document.keys().isdisjoint(("captions", *OTHER_NAMES)))
        or layout_of(document) is not None
    )


def _document(document: Any, name: str, format: str | None) -> Reading:
    format = format or _document_format(document, name)
    if isinstance(document, Mapping) and format in ("coco", "karpathy", "pycocoevalcap", "clipscore"):
        if format == "coco":
            _expect_list(document, "annotations", name, format)
            return Reading(name, format, lambda side, _: coco.read_annotations(document, name, side))
        if format == "karpathy":
            _expect_list(document, "images", name, format)
            return Reading(name, format, lambda side, _: karpathy.read(document, name, side))
        return Reading(name, format, lambda side, _: mapping.read(document, name, side))
    items = [document] if _is_row(document) else document
    if isinstance(items, Mapping) and (key := rows_inside(items)) is not None:
        items = rows_under(items, key)
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise InputError(f"{name}: {described(items)} where the format {format} has a list; leave the format out")
    if format == "coco":
        return Reading(name, format, lambda side, _: coco.read_results(items, name, side))
    if format == "json":
        return Reading(name, format, lambda side, columns: native.read_list(items, name, side, columns))
    if format == "list":
        return Reading(name, format, lambda side, _: _read_list(items, name, side))
    raise InputError(f"{name}: {described(items)} does not have the format {format}; leave the format out")


def _document_format(document: Any, name: str) -> str:
    if _is_row(document):
        return "json"
    if not isinstance(document, Mapping | Sequence) or isinstance(document, str) or not document:
        raise InputError(f"{name}: {described(document)}, expected captions as a list or an object")
    if isinstance(document, Mapping):
        if rows_inside(document) is not None:
            return "json"
        if isinstance(document.get("annotations"), list):
            return "coco"
        images = document.get("images")
        if isinstance(images, list) and images and isinstance(images[0], Mapping):
            if "sentences" in images[0]:
                return "karpathy"
            raise InputError(
                f"{name}: it has images, but neither annotations (COCO) nor sentences (Karpathy): it holds no captions"
            )
        return "clipscore" if isinstance(next(iter(document.values())), str) else "pycocoevalcap"
    first = document[0]
    if isinstance(first, Mapping):
        rowlike = {"candidate", "references", "captions", "system", "human", *OTHER_NAMES} - {"caption"}
        plain = "caption" in first and not first.keys() & rowlike and layout_of(first) is None
        return "coco" if plain else "json"
    if first is None or isinstance(first, bool | int | float):
        raise InputError(f"{name}[0]: {described(first)}, expected a caption, a list of references or an object")
    return "list"


def _expect_list(document: Mapping[str, Any], key: str, name: str, format: str) -> None:
    if not isinstance(document.get(key), list):
        raise InputError(f"{name}: no list {key!r}, which the format {format} has (the keys are {named(document, 5)})")


def _read_list(items: Sequence[Any], name: str, side: Side) -> Iterator[Row]:
    for number, item in enumerate(items):
        place = f"{name}[{number}]"
        if side == "references":
            yield Row(place, str(number), references=reference_list(item, place, "the entry"))
        elif isinstance(item, Sequence) and not isinstance(item, str):
            raise NotCandidates(
                f"{place}: {described(item)} where one candidate caption was expected; are candidates and references "
                "swapped? Several candidates of an image come as a dict {id: [caption, ...]} or as rows"
            )
        else:
            yield Row(place, str(number), candidate=caption_text(item, place, "the entry"))
