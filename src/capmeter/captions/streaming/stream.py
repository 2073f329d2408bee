"""Captions that do not fit in memory: read repeatedly, in parts of bounded size.

One pass over the file collects what requires all captions (see `scanner`). The file is read once, however many systems
it holds and however often it is iterated: rows, and then parts with the tokens of their sentences, are stored in a
temporary file.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.chat_artifacts import CLEANED
from capmeter.captions.load_options import LoadOptions, Source
from capmeter.captions.matching import CaptionInputs, Matching, make_columns, open_references
from capmeter.captions.reading import open_rows
from capmeter.captions.references import MissingCount
from capmeter.captions.rows import CaptionRow
from capmeter.captions.sources import CaptionSource
from capmeter.captions.streaming.disk_join import HasEvents, join_on_disk
from capmeter.captions.streaming.scanner import StreamScanner, StreamSummary
from capmeter.captions.streaming.temporary_rows import TemporaryRows
from capmeter.captions.text_checks import normalise_captions
from capmeter.core.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from capmeter.captions.load_options import LoadKeywords

_MAX_SYSTEMS = 4  # a part holds at most this many times the requested number of captions, of all systems together


def stream(
    candidates: Source,
    references: Source | None = None,
    *,
    options: LoadOptions | None = None,
    rows: int = 8192,
    **keywords: Unpack[LoadKeywords],
) -> CaptionStream:
    """Reads captions in parts of at most `rows`; the other arguments are those of `load`, and so are the ids.

    Native rows in JSON lines, CSV, TSV, Parquet and tar shards are read row by row. A separate file of references is
    held in memory, unless it is large: with DuckDB, both are then joined by image id on disk.

    Raises:
        InputError: the captions are not as expected, or `rows` is below 1.
    """
    options = LoadOptions.of(options, keywords, references)
    return CaptionStream(_StreamedFile(candidates, options, rows, by_system=False))


def stream_systems(
    candidates: Source,
    references: Source | None = None,
    *,
    options: LoadOptions | None = None,
    rows: int = 8192,
    **keywords: Unpack[LoadKeywords],
) -> dict[str, CaptionStream]:
    """Reads captions of several systems in parts: one stream for each, as `load_systems` gives one set for each."""
    options = LoadOptions.of(options, keywords, references)
    streamed_file = _StreamedFile(candidates, options, rows, by_system=True)
    systems = streamed_file.systems()
    source_label = streamed_file.inputs.reader.label
    if len(systems) == 1:
        (system,) = systems
        return {system or source_label: CaptionStream(streamed_file, system)}
    if None in systems:
        raise InputError(f"{source_label}: some captions name their system and some do not; name it in all, or in none")
    return {system: CaptionStream(streamed_file, system) for system in systems if system is not None}


class CaptionStream:
    """Captions in parts, which can be iterated more than once; its length is the number of captions."""

    def __init__(self, file: _StreamedFile, system: str | None = None) -> None:
        self._file, self._system = file, system

    def __len__(self) -> int:
        missing_count = self.summary.missing
        return missing_count.total if self._file.keeps_missing else missing_count.total - missing_count.count

    @property
    def notes(self) -> dict[str, list[str]]:
        """Notes on all captions; each part's own notes list those that were left out."""
        return self.summary.notes

    @property
    def regions(self) -> str:
        """Where the pictures' regions are; "" without any."""
        return self._file.inputs.options.regions

    @property
    def adjustments(self) -> dict[str, str]:
        """How all texts are changed when they are read, for signatures."""
        return self._file.inputs.options.adjustments

    def lacking(self, need: str) -> MissingCount:
        """How many captions lack "references" or a picture ("image"), and the first of these by image."""
        if need == "references":
            return self.summary.missing if self._file.keeps_missing else MissingCount()
        return self.summary.pictureless

    @property
    def summary(self) -> StreamSummary:
        """What requires all captions, collected at the first call."""
        return self._file.summary(self._system)

    def __iter__(self) -> Iterator[CaptionSet]:
        missing_reason = "kept_without_references" if self._file.keeps_missing else "skipped_without_references"
        for part in self._file.parts():
            selection = part.systems.get(self._system)
            if selection is None or not selection.rows:
                continue
            is_all = len(selection.rows) == len(part.captions)
            captions = part.captions if is_all else part.captions.select(selection.rows)
            notes = {**selection.notes, missing_reason: selection.ids_without}
            yield captions.replace(
                ids=tuple(selection.ids), notes={note_reason: ids for note_reason, ids in notes.items() if ids}
            )


@dataclass
class _Selection:
    """One system's captions in a part: rows, ids, the ids of those without references, and notes on their texts."""

    rows: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    ids_without: list[str] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class _Part:
    """A part of the file with the captions of all its systems, which share the analyses of sentences."""

    captions: CaptionSet
    systems: dict[str | None, _Selection]


class _StreamedFile:
    """The file behind the streams of its systems, read once: its rows are stored, then its parts with their tokens."""

    def __init__(self, candidates: Source, options: LoadOptions, rows: int, *, by_system: bool) -> None:
        if rows < 1:
            raise InputError(f"rows is {rows}, expected a number of captions from 1")
        if options.on_absent == "empty":
            raise InputError("on_absent=empty needs all captions at once: read them without a stream (--no-stream)")
        self._rows, self._by_system = rows, by_system
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # removed with this object
        self.inputs = self._open(candidates, options)
        self.keeps_missing = options.on_missing == "keep"
        self._stored_rows, self._stored_parts = TemporaryRows(), TemporaryRows()
        self._parts_are_stored = False
        self._scanners: dict[str | None, StreamScanner] = {}
        self._summaries: dict[str | None, StreamSummary] = {}

    def _open(self, candidates: Source, options: LoadOptions) -> CaptionInputs:
        """The inputs; with a large file of references without events, and DuckDB, one of both, joined on disk."""
        reader = open_rows(candidates, options.format, columns=options.columns, numbered=options.references is None)
        reference_files = [
            reference_source if isinstance(reference_source, CaptionSource) else CaptionSource.resolve(reference_source)
            for reference_source in options.reference_files
        ]
        options = replace(options, references=reference_files) if reference_files else options
        if options.splits or not any(file.is_large for file in reference_files) or find_spec("duckdb") is None:
            return CaptionInputs(reader, options)
        self._folder = tempfile.TemporaryDirectory(prefix="capmeter-")
        try:
            joined = join_on_disk(reader, open_references(options), self._folder.name, on_missing=options.on_missing)
        except HasEvents:
            return CaptionInputs(reader, options)
        joined_reader = replace(open_rows(joined), label=reader.label)
        joined_reader.fields.notes = reader.fields.notes
        return CaptionInputs(joined_reader, replace(options, references=None, columns=None, reference_columns=None))

    def systems(self) -> list[str | None]:
        """The systems that captions are of, in the order of their first caption."""
        self._scan()
        return list(self._scanners)

    def summary(self, system: str | None) -> StreamSummary:
        """What requires all of one system's captions."""
        self._scan()
        if system not in self._summaries:
            scanner = self._scanners[system]
            self._summaries[system] = scanner.summarise(lambda summary: self._rows_with_ids({system: summary}))
        return self._summaries[system]

    def parts(self) -> Iterator[_Part]:
        """The parts; those of the first complete pass are stored with their analyses for the next."""
        if self._parts_are_stored:
            yield from self._stored_parts.read()
            return
        summaries = {system: self.summary(system) for system in self.systems()}
        stored_parts = TemporaryRows()
        caption_rows = self._rows_with_ids(summaries)
        while row_batch := list(islice(caption_rows, self._rows * min(len(summaries), _MAX_SYSTEMS))):
            part = self._part(row_batch, summaries)
            if part is not None:
                yield part
                stored_parts.write(part)
        self._stored_parts, self._stored_rows, self._parts_are_stored = stored_parts, TemporaryRows(), True

    def _part(self, batch: list[tuple[CaptionRow, str]], summaries: dict[str | None, StreamSummary]) -> _Part | None:
        caption_rows: list[CaptionRow] = []
        reference_lists: list[tuple[str, ...]] = []
        matchings: list[Matching] = []
        selections: dict[str | None, _Selection] = {}
        for row, id in batch:
            system = self._system_of(row)
            selection, matching = selections.setdefault(system, _Selection()), summaries[system].matching
            references = matching.references(row)
            if not references:
                selection.ids_without.append(id)
            if references or self.keeps_missing:
                selection.rows.append(len(caption_rows))
                selection.ids.append(id)
                if row.cleaned:
                    selection.notes.setdefault(CLEANED, []).append(id)
                caption_rows.append(row)
                reference_lists.append(references)
                matchings.append(matching)
        unicode_form = self.inputs.options.unicode
        captions = make_columns(caption_rows, list(map(str, range(len(caption_rows)))), reference_lists, matchings)
        normalised_ids = normalise_captions(captions, unicode_form)
        normalised_rows = set(map(int, normalised_ids))  # until here, a caption's id is its row
        for selection in selections.values():
            system_ids = [id for row, id in zip(selection.rows, selection.ids, strict=True) if row in normalised_rows]
            selection.notes[f"normalised to Unicode {unicode_form}"] = system_ids
        return _Part(self.inputs.make_set(captions), selections) if caption_rows else None

    def _system_of(self, caption_row: CaptionRow) -> str | None:
        return caption_row.system if self._by_system else None

    def _scan(self) -> None:
        """The one pass over the file."""
        if self._scanners:
            return
        stored_rows, scanners = TemporaryRows(), dict[str | None, StreamScanner]()
        caption_rows = self.inputs.rows()
        while row_batch := list(islice(caption_rows, self._rows)):
            for caption_row in row_batch:
                system = self._system_of(caption_row)
                if system not in scanners:
                    scanners[system] = StreamScanner(self.inputs)
                scanners[system].add(caption_row)
            stored_rows.write(row_batch)
        self._stored_rows, self._scanners = stored_rows, scanners

    def _rows_with_ids(self, summaries: dict[str | None, StreamSummary]) -> Iterator[tuple[CaptionRow, str]]:
        """The rows of these systems with their final ids, as `load` gives them."""
        image_positions: dict[str | None, Counter[str]] = {system: Counter() for system in summaries}
        for row_batch in self._stored_rows.read():
            image_ids: dict[str | None, list[str]] = {system: [] for system in summaries}
            for caption_row in row_batch:
                if (system := self._system_of(caption_row)) in summaries:
                    image_ids[system].append(caption_row.image_id)
            shared = {system: iter(summaries[system].are_shared(ids).tolist()) for system, ids in image_ids.items()}
            for caption_row in row_batch:
                if (system := self._system_of(caption_row)) not in summaries:
                    continue
                caption_id = caption_row.image_id
                if next(shared[system]):
                    caption_id = f"{caption_row.image_id}#{image_positions[system][caption_row.image_id]}"
                    image_positions[system][caption_row.image_id] += 1
                yield caption_row, caption_id if caption_row.id is None else caption_row.id
