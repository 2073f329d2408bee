"""Captions out: to every format that is read, whole or not at all, reporting what the format cannot hold."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from capmeter.captions.columns import FIELDS
from capmeter.captions.files import atomic_writer
from capmeter.captions.formats import Reading, coco, karpathy, mapping, native, open_reading, parquet, table
from capmeter.captions.joining import How, Source, Sources, joined
from capmeter.captions.matching import ReferenceTable
from capmeter.captions.model import CaptionSet
from capmeter.captions.rows import NotCandidates, Row, Side
from capmeter.errors import InputError

Writer = Callable[[Iterable[Row], BinaryIO], None]
Fields = frozenset[str]

_IMAGE_AND_CANDIDATE = frozenset(("image_id", "candidate"))
_IMAGE_AND_REFERENCES = frozenset(("image_id", "references"))
CANDIDATES: dict[str, tuple[Writer, Fields]] = {
    "coco": (coco.write_results, _IMAGE_AND_CANDIDATE),
    "pycocoevalcap": (mapping.write_candidates, _IMAGE_AND_CANDIDATE),
    "clipscore": (mapping.write_single_candidates, _IMAGE_AND_CANDIDATE),
}
REFERENCES: dict[str, tuple[Writer, Fields]] = {
    "coco": (coco.write_annotations, _IMAGE_AND_REFERENCES | {"image"}),
    "pycocoevalcap": (mapping.write_references, _IMAGE_AND_REFERENCES),
    "clipscore": (mapping.write_references, _IMAGE_AND_REFERENCES),
    "karpathy": (karpathy.write, _IMAGE_AND_REFERENCES | {"image", "split"}),
}
ROWS = ("jsonl", "json", "csv", "tsv", "parquet")
TARGETS = (*ROWS, *dict.fromkeys([*CANDIDATES, *REFERENCES]))


@dataclass
class Written:
    """What a conversion read and wrote.

    `files` says what each file holds, and of how many captions or images; `dropped` counts the rows whose field did not
    fit; `ignored` names the source's fields that capmeter does not know.
    """

    source_format: str
    side: Side
    files: dict[str, tuple[str, int]] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


@dataclass
class _Rows:
    """Rows that can be iterated again, so that a large file is never whole in memory."""

    again: Callable[[], Iterator[Row]]

    def __iter__(self) -> Iterator[Row]:
        return self.again()


def save(
    captions: CaptionSet, path: str | os.PathLike[str], *, to: str, references: str | os.PathLike[str] | None = None
) -> Written:
    """Writes a set in the format `to`; formats that keep references separate write them to the path `references`."""
    rows = [Row("", c.image_id, c.candidate, c.references, c.id, c.image, c.system, c.human) for c in captions]
    return _write(rows, path, to, references, Written("captions", "candidates"))


def convert(
    source: Source,
    path: str | os.PathLike[str],
    *,
    to: str,
    references: Source | None = None,
    references_path: str | os.PathLike[str] | None = None,
    format: str | None = None,
    references_format: str | None = None,
    system: str | None = None,
    split: str | None = None,
    side: Side | None = None,
    columns: Mapping[str, str] | None = None,
) -> Written:
    """Turns captions of one format into another; arguments for reading are those of `load`.

    Formats that keep references in a separate file write the candidates to `path` and the references to
    `references_path`; a source of references alone becomes one file of them. `side` says what the source holds if `{id:
    [caption, ...]}` could be either.
    """
    reading = open_reading(source, format, columns=columns)
    how = How(
        format=format,
        references_format=references_format,
        on_missing="keep",
        system=system,
        split=split,
        columns=columns,
    )
    rows: Iterable[Row]
    if references is not None:
        sources = Sources(source, references, how)
        found = joined(sources)
        rows = [
            replace(row, references=caption.references or None, image=caption.image)
            for row, caption in zip(found.rows, found.captions, strict=True)
        ]
        reading = sources.reading
        written = Written(reading.format, "candidates")
    elif (side or side_of(reading)) == "references":
        rows = _Rows(lambda: (row for row in reading.rows("references") if split in (None, row.split)))
        written = Written(reading.format, "references")
    else:
        sources = Sources(source, None, how)
        reading, rows = sources.reading, _Rows(sources.rows)
        written = Written(reading.format, "candidates")
    _write(rows, path, to, references_path, written)
    written.ignored = sorted(reading.ignored)
    return written


def side_of(reading: Reading) -> Side:
    """Whether a source holds candidates or references only, judging by its form."""
    try:
        rows = reading.rows("candidates")
        first = next(rows, None)
    except NotCandidates:
        if next(reading.rows("references"), None) is None:
            raise
        return "references"
    if first is None or reading.format != "pycocoevalcap":
        return "candidates"
    images = Counter(row.image_id for row in (first, *rows))
    return "references" if max(images.values()) > 1 else "candidates"


def _write(
    rows: Iterable[Row],
    path: str | os.PathLike[str],
    to: str,
    references_path: str | os.PathLike[str] | None,
    written: Written,
) -> Written:
    if to not in TARGETS:
        raise InputError(f"cannot write the format {to!a}; expected one of {', '.join(TARGETS)}")
    present: Counter[str] = Counter()
    for row in rows:
        present.update(name for name in FIELDS if getattr(row, name) is not None)
    if not present:
        raise InputError(f"there is nothing to write to {path}: no rows")
    if to in ROWS and references_path is not None:
        raise InputError(
            f"the format {to} holds candidates and references in one file: leave out the file of references"
        )
    held: set[str] = set()
    with ExitStack() as open_files:
        for target, what, write, fields in _parts(present, path, to, references_path):
            entries: Iterable[Row] = rows
            if what == "images' references":
                entries = list(ReferenceTable.collect(rows, "the source").rows())
            write(entries, open_files.enter_context(atomic_writer(target)))
            held.update(fields)
            number = len(entries) if isinstance(entries, list) else present["image_id"]
            written.files[str(target)] = (what, number)
    written.dropped = {name: count for name, count in present.items() if name not in held}
    return written


def _parts(
    present: Counter[str], path: str | os.PathLike[str], to: str, references_path: str | os.PathLike[str] | None
) -> Iterator[tuple[str | os.PathLike[str], str, Writer, Iterable[str]]]:
    """The files to write: where to, what goes in, how, and the fields that it holds."""
    columns = [name for name in FIELDS if present[name]]
    if to in ROWS:
        yield path, "rows", _row_writer(to, columns), FIELDS
    elif to in CANDIDATES and present["candidate"]:
        yield path, "candidates", *CANDIDATES[to]
        if references_path is not None and present["references"]:
            if Path(references_path) == Path(path):
                raise InputError(f"candidates and references cannot both be written to {path}")
            yield references_path, "images' references", *REFERENCES[to]
    elif present["references"]:
        yield path, "images' references", *REFERENCES[to]
    else:
        raise InputError(f"the format {to} holds references, and the source has none; name them with references=")


def _row_writer(to: str, columns: Sequence[str]) -> Writer:
    if to in table.DELIMITERS:
        return lambda rows, file: table.write(rows, columns, table.DELIMITERS[to], file)
    if to == "parquet":
        return lambda rows, file: parquet.write(rows, columns, file)
    return native.write_json_lines if to == "jsonl" else native.write_json
