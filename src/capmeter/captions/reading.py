"""Reading in three stages: a container gives records, a layout says what they are, fields are checked row by row.

>>> reader = open_rows([{"video_id": "v7", "prediction": "a dog", "reference": "the dog"}])
>>> reader.format, [(row.image_id, row.references) for row in reader.rows("candidates")]
('json', [('v7', ('the dog',))])
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from capmeter.captions import containers, layouts
from capmeter.captions.containers import WHOLE, Container, DelimitedRows, JsonLines, Span
from capmeter.captions.documents import Form, find_form, is_row
from capmeter.captions.event_fields import EVENT_NAMES, TEXT_NAMES, TIMED_NAMES, join_events, time_names
from capmeter.captions.fields import PICTURES, FieldMap
from capmeter.captions.rows import (
    CaptionRow,
    Side,
    are_named_lines,
    holds_arrays,
    plain_value,
    read_list,
    read_pairs,
    split_line,
    split_lines,
    spread,
)
from capmeter.captions.sources import CaptionSource, decode
from capmeter.core.errors import InputError, MissingBackend
from capmeter.core.json_text import decode_json
from capmeter.core.messages import describe

NAMES: tuple[str, ...] = tuple(layouts.NAMES["formats"])
FORMATS = (*NAMES, *dict.fromkeys(layout.name for layout in layouts.LAYOUTS if layout.name not in NAMES))
"""The formats, and the layouts of programs, which `--input-format` names where recognition fails."""
_PLAIN = re.compile(r"\.(?:txt|text|hyps?|refs?|out|pred|tok|lines|[a-z]{2}|(?:ref|reference)\d{1,3})")
_JSON_START = re.compile(rb"(?:\{|\[\s*(?:[\[{\"\]\-\d]|true|false|null|NaN|Infinity|$))")
_LINES = (".jsonl", ".ndjson")
_LONGEST = 10_000  # bytes of a line that are looked at


@dataclass
class RowReader:
    """A file or an object of captions whose format is known; its rows can be read more than once.

    name: what messages call it.
    format: one of `NAMES`.
    read: yields the rows of a side, of a container those of a span.
    fields: which names hold which fields.
    label: the name of the system whose captions it holds, if they name none.
    path: the file on disk; None for an object.
    container: the records of the file, if it has any that can be read apart.
    """

    name: str
    format: str
    read: Callable[..., Iterator[CaptionRow]]
    fields: FieldMap = field(default_factory=FieldMap)
    label: str = "candidates"
    path: Path | None = None
    container: Container | None = None

    def rows(self, side: Side, span: Span = WHOLE) -> Iterator[CaptionRow]:
        """The rows, read as candidates or as references; of a container, those of some of its records."""
        return join_events(self.read(side) if span == WHOLE else self.read(side, span))


def open_rows(
    source: Any,
    format: str | None = None,
    *,
    side: Side = "candidates",
    columns: Mapping[str, str] | None = None,
    keep: tuple[str, ...] | None = None,
    numbered: bool = True,
) -> RowReader:
    """Recognises the format of a source.

    Args:
        source: a path, a `CaptionSource`, or captions as lists and dicts.
        format: overrides detection.
        side: what the source holds, for messages.
        columns: paths and the fields of native rows that they hold.
        keep: the columns whose values the rows carry beside their numbers in the file; None: neither.
        numbered: whether rows with a candidate and references, but without an image, are numbered.

    Raises:
        InputError: the source cannot be read, or its format is not recognised or not `format`.
    """
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown format: {describe(format)}; the formats are {', '.join(FORMATS)}")
    if others := [each for each in (columns or {}).values() if each not in layouts.ALL_FIELDS]:
        raise InputError(f"columns: {describe(others[0])} is not a field; fields are {', '.join(layouts.ALL_FIELDS)}")
    is_file = isinstance(source, str | os.PathLike | CaptionSource)
    name = f"the {side}"
    if is_file:
        source = source if isinstance(source, CaptionSource) else CaptionSource.resolve(source)
        name = source.name
    elif not hasattr(source, "columns") and holds_arrays(source):
        index: Any = getattr(source, "index", None)  # a Series of pandas may have ids as its index
        values = plain_value(source)
        has_ids = getattr(index, "is_unique", False) and list(index) != list(range(len(values)))
        source = dict(zip(index, values, strict=True)) if has_ids else values
    fields = FieldMap(columns or {}, name, numbered=numbered, keep=keep)
    if format not in (None, *NAMES):
        fields.forced_layout = next(layout for layout in layouts.LAYOUTS if layout.name == format)
        format = None
    if not is_file:
        return RowReader(name, *_open_document(source, fields, format), fields)
    content = _open_file(source, fields, format)
    if not isinstance(content, Container):
        return RowReader(name, *content, fields, source.label, source.path)
    _learn_container(content, fields, format)
    read = partial(_read_records, content, fields)
    return RowReader(name, content.kind, read, fields, source.label, source.path, content)


def _open_document(document: Any, fields: FieldMap, format: str | None) -> Form:
    if layouts.is_results(document):
        raise InputError(
            f"{fields.name}: this is a results file of capmeter, expected captions; only compare, explain, chair, "
            "report and view take results in their place"
        )
    return find_form(document, fields.name, fields, format)


def _open_file(source: CaptionSource, fields: FieldMap, format: str | None) -> Container | Form:
    """Recognises what a file contains: rows, one document, or lines."""
    first_line, second_line = source.first_lines()
    is_shard = first_line[257:262] == b"ustar" or source.ending == ".tar"  # one without members has zeros alone
    binary_formats = {b"PAR1": containers.ParquetRows, b"PK\x03\x04": containers.Workbook}
    if container := containers.TarShard if is_shard else binary_formats.get(first_line[:4]):
        return container(source)
    for start, description in layouts.NAMES["other files"].items():
        if b"\n".join((first_line, second_line)).startswith(start.encode("latin-1")):
            raise InputError(f"{source.name}: {description}")
    if b"\0" in first_line[:4]:
        raise InputError(f"{source.name}: it looks like UTF-16 or UTF-32; save the file as UTF-8")
    if format == "list" and first_line[:1] != b"[":
        return "list", partial(_read_lines, source, fields)
    are_objects = [line[:1] == b"{" and line[-1:] == b"}" for line in (first_line, second_line)]
    is_named = source.ending in _LINES and second_line and first_line not in (b"[", b"{")
    if (are_objects[0] and second_line[:1] == b"{") or (is_named and any(are_objects)):
        return JsonLines(source)
    if is_named and first_line[:1] in (b"[", b'"') and first_line[-1:] in (b"]", b'"'):
        values = [decode_json(line, source.name, number) for number, line in source.lines() if line.strip()]
        return _open_document(values, fields, format)
    if _JSON_START.match(first_line):
        document = decode_json(source.read_text(), source.name)
        is_one_row = isinstance(document, dict) and is_row(document, fields, is_line=source.ending in _LINES)
        return JsonLines(source) if is_one_row and not second_line else _open_document(document, fields, format)
    if source.ending in (".yaml", ".yml"):
        return _open_document(_decode_yaml(source), fields, format)
    return _open_lines(source, fields, format, first_line)


def _open_lines(source: CaptionSource, fields: FieldMap, format: str | None, first_line: bytes) -> Container | Form:
    """Recognises lines with the name of an image, a table with a heading, or a caption a line."""
    if not first_line:
        raise InputError(
            f"{source.name}: the file is empty; expected captions in one of the formats {', '.join(NAMES)}"
        )
    lines = spread(line for _, line in source.lines() if line.strip())
    heading = [layouts.fold_name(cell) for cell in first_line.decode("utf-8", "ignore").split("\t")]
    chosen = {layouts.fold_name(layouts.path_root(path)) for path in fields.mapping}
    known = [name for name in heading if layouts.is_known(name) or name in chosen]
    kind = "named" if len(known) < 2 and are_named_lines(lines) else ""
    kind = format if format in ("csv", "tsv", "named") else kind or _table_kind(source, first_line)
    if format not in (None, kind, "events"):
        raise InputError(f"{source.name}: this is a {kind} file, not a {format} file; leave the format out")
    if kind in ("csv", "tsv"):
        return DelimitedRows(source, kind)
    if b"\r" in first_line and len(lines) == 1:
        raise InputError(f"{source.name}: lines end in a carriage return alone; save it with those of Unix or Windows")
    if kind == "list":
        return kind, partial(_read_lines, source, fields)
    are_columns = format == "named" or not any(split_line(line.rstrip("\r\n"), False) for line in lines)
    return "named", lambda side: read_pairs(
        split_lines(source.lines(), source.name, are_columns, format == "named"), side
    )


def _table_kind(source: CaptionSource, first_line: bytes) -> str:
    """ "tsv", "csv" or "list": what lines without names of images are."""
    start = first_line[:_LONGEST]
    has_delimiter = any(delimiter in start for delimiter in (b",", b";", b"|"))
    if b"\t" in start:
        return "tsv"
    if source.ending in (".csv", ".tsv") and not has_delimiter:
        return source.ending[1:]
    is_plain = _PLAIN.fullmatch(source.ending) is not None
    if has_delimiter and not is_plain:
        return "csv"
    if not is_plain:
        begins = describe(decode(first_line, source.name))
        raise InputError(
            f"{source.name}: neither JSON nor a table: it begins with {begins}; expected captions in one of the "
            f"formats {', '.join(NAMES)}; one caption a line: {layouts.FORMAT_OPTION.format('list')}"
        )
    is_prose = b"|" not in start and re.search(rb"[,;](?! |$)", start) is None  # each comma ends a word
    return "csv" if has_delimiter and not is_prose else "list"


def _read_lines(source: CaptionSource, fields: FieldMap, side: Side) -> Iterator[CaptionRow]:
    fields.note("read_as_lines", f"{source.name}: a caption a line, images are numbered from 0")
    return read_list(((f"{source.name}, line {number}", line.rstrip("\r\n")) for number, line in source.lines()), side)


def _learn_container(container: Container, fields: FieldMap, format: str | None) -> None:
    """Recognises the layout of a container's records by a sample of them."""
    if format not in (None, container.kind, "events"):
        raise InputError(f"{fields.name}: this is a {container.kind} file, not a {format} file; leave the format out")
    header = container.header
    layout = fields.forced_layout
    try:
        if header is None:
            records = container.sample()
            layout = layout or layouts.find_layout(records)
        else:
            layout = layout or layouts.find_layout([dict.fromkeys(header)])
            probe = FieldMap(fields.mapping, fields.name)
            probe.learn([], layout, header)
            used = _used_columns(header, probe)
            used |= {name for name in header if layouts.fold_name(name) in (*layouts.IMAGE_NAMES, *PICTURES)}
            records = [_without_empty(record, frozenset(), "") for record in container.sample(used)]
    except InputError:
        if header is not None:  # what is wrong with the heading is said first
            fields.learn([], layout, header)
            _refuse_header(container, fields, is_empty=True)
        raise
    for note, detail in container.notes.items():
        fields.note(note, detail)
    fields.learn(records, layout, header or ())
    if header is not None:
        _refuse_header(container, fields, is_empty=not records)


def _refuse_header(container: Container, fields: FieldMap, *, is_empty: bool = False) -> None:
    """Raises if columns are not those of captions: a candidate and references, or one of them and its image."""
    header, heading = container.header or [], container.heading
    found = fields.find_fields({name: [] for name in header})
    text_fields = found & {"candidate", "references"}
    converts = fields.layout is not None and fields.layout.convert is not None
    is_timed = found >= {"box"} or found >= set(layouts.TIMES) or time_names(header)
    has_events = is_timed or fields.event_lists or EVENT_NAMES & set(header)
    if converts or has_events or (text_fields and (is_empty or fields.image_name is not None or len(text_fields) == 2)):
        return
    start = f"the first {heading} names the column{'s' * (len(header) != 1)}" if heading else "the columns are"
    add = "image_id is missing: " * bool(text_fields) + f"add a {heading} with these names, or " * bool(heading)
    ending = f"; without a heading: {layouts.FORMAT_OPTION.format('named')}" * (heading == "line" and found <= {None})
    raise InputError(
        f"{fields.name}: {start} {layouts.suggest_names(header)}; expected image_id with candidate (or caption, "
        f"prediction, hypothesis) and references (or reference, ground_truth, reference_1, reference_2, …); {add}say "
        "which column is which: --column image_id=NAME --column candidate=NAME --column references=NAME "
        f"{layouts.IN_PYTHON}{ending}"
    )


def _read_records(container: Container, fields: FieldMap, side: Side, span: Span = WHOLE) -> Iterator[CaptionRow]:
    """The rows of a container; empty cells are left out, but a candidate's is an empty caption."""
    used, captions = None, frozenset[str]()
    if container.header is not None:
        header = container.header
        kept_fields = ("candidate", "image_id") if container.kind in ("csv", "tsv") else ("candidate",)
        captions = frozenset(name for name in header if fields.field(name, "") in kept_fields)
        used = _used_columns(header, fields)
        fields.ignored |= set(header) - used - set(fields.keep or ())
        fields.names.update(dict.fromkeys(header))
    records = container.records(used, span)
    if container.header is not None:
        records = ((location, _without_empty(record, captions, container.empty)) for location, record in records)
    return fields.read(records, side, span.start)


def _used_columns(header: list[str], fields: FieldMap) -> set[str]:
    """The columns that hold a field, a path's root, or what a layout converts."""
    if fields.layout is not None and fields.layout.convert is not None:
        return set(header)
    names = {*fields.paths.values(), *fields.aliases, *TIMED_NAMES, *TEXT_NAMES, "duration", *(fields.keep or ())}
    return {name for name in header if name in names or fields.field(name, []) is not None}


def _without_empty(record: Mapping[str, Any], captions: frozenset[str], empty: Any) -> dict[str, Any]:
    return {
        name: empty if value is None else value
        for name, value in record.items()
        if (value is not None and value != "") or name in captions
    }


def _decode_yaml(source: CaptionSource) -> Any:
    """The content of a YAML document."""
    try:
        import yaml
    except ImportError:
        raise MissingBackend(
            f"{source.name}: YAML needs PyYAML; install it with: pip install pyyaml, or write the file as JSON"
        ) from None
    loader: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
    loader.add_constructor("tag:yaml.org,2002:map", _construct_object)
    # of its whole numbers those that JSON has: 0123 is octal to YAML, and 12:30 are 750
    loader.add_constructor(
        "tag:yaml.org,2002:int", lambda _, n: int(n.value) if re.fullmatch(r"-?(?:0|[1-9]\d*)", n.value) else n.value
    )
    try:
        return yaml.load(source.read_text(), Loader=loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).replace(' in "<unicode string>"', "").split())[:200]
        raise InputError(f"{source.name}: not valid YAML ({reason}); repair it") from None


def _construct_object(loader: Any, node: Any) -> Any:
    """An object of YAML, whose keys are all different, as in JSON."""
    keys = Counter(str(key.value) for key, _ in node.value)
    if keys and (most := keys.most_common(1)[0])[1] > 1:
        raise ValueError(f"duplicate key {most[0]!a} in one object; keep one")
    return loader.construct_mapping(node, deep=True)
