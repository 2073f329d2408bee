"""Captions that do not fit in memory: read repeatedly, in parts of bounded size.

One pass over the file collects what requires the whole, in a few bytes per caption: which images have several
candidates (their ids get `#k`), whether ids are duplicated, whether references are missing. The file is read once,
however many systems it holds and however often it is iterated: rows, and then parts with the tokens of their
sentences, are kept in a temporary file.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import islice

from capmeter.captions.formats import open_reading
from capmeter.captions.joining import (
    How,
    Missing,
    OnMissing,
    Source,
    Sources,
    name_of,
)
from capmeter.captions.model import Caption, CaptionSet
from capmeter.captions.rows import Row
from capmeter.captions.spilled import joined_on_disk
from capmeter.captions.spool import Spool
from capmeter.captions.standard_input import is_standard_input, regular
from capmeter.captions.whole import Learner, Whole
from capmeter.errors import InputError

_MOST_SYSTEMS = 4  # a part holds this many times the captions that were asked for, of all systems together
LARGE = 1 << 28
"""Bytes from which `is_large` calls a file large (a quarter of it for a gzipped one)."""
_Path = str | os.PathLike[str]


def stream(
    candidates: Source,
    references: Source | None = None,
    *,
    format: str | None = None,
    references_format: str | None = None,
    on_missing: OnMissing = "error",
    system: str | None = None,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    images_root: str | os.PathLike[str] = "",
    regions: str | os.PathLike[str] = "",
    rows: int = 8192,
) -> CaptionStream:
    """Reads captions in parts of at most `rows`; the arguments are those of `load`, and so are the ids.

    Native rows in JSON lines, CSV, TSV, Parquet and tar shards are read row by row. A separate file of references is
    held in memory, unless it is large: with DuckDB, both are then joined by image id on disk (`spilled`).
    """
    if rows < 1:
        raise InputError(f"rows is {rows}, expected a number of captions from 1")
    how = How(
        format=format,
        references_format=references_format,
        on_missing=on_missing,
        system=system,
        split=split,
        columns=columns,
        images_root=os.fspath(images_root),
        regions=os.fspath(regions),
    )
    return CaptionStream(_File(*_sources(candidates, references, how), rows, by_system=False))


def stream_systems(
    candidates: Source,
    references: Source | None = None,
    *,
    format: str | None = None,
    references_format: str | None = None,
    on_missing: OnMissing = "error",
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
    images_root: str | os.PathLike[str] = "",
    regions: str | os.PathLike[str] = "",
    rows: int = 8192,
) -> dict[str, CaptionStream]:
    """Reads captions of several systems in parts: one stream for each, as `load_systems` gives one set for each."""
    how = How(
        format=format,
        references_format=references_format,
        on_missing=on_missing,
        split=split,
        columns=columns,
        images_root=os.fspath(images_root),
        regions=os.fspath(regions),
    )
    file = _File(*_sources(candidates, references, how), rows, by_system=True)
    found = file.systems()
    if len(found) == 1:
        (system,) = found
        return {system or name_of(candidates): CaptionStream(file, system)}
    if None in found:
        raise InputError(
            f"{name_of(candidates)}: some captions name their system and some do not; name it in all, or in none"
        )
    return {system: CaptionStream(file, system) for system in found if system is not None}


def _sources(
    candidates: Source, references: Source | None, how: How
) -> tuple[Sources, tempfile.TemporaryDirectory[str] | None]:
    """The sources; with a large file of references, and DuckDB, one file of both, joined on disk, and its folder."""
    large = isinstance(references, str | os.PathLike) and not is_standard_input(references) and is_large(references)
    if not large or how.split is not None or find_spec("duckdb") is None:
        return Sources(candidates, references, how), None
    folder = tempfile.TemporaryDirectory(prefix="capmeter-")
    said = open_reading(candidates, how.format, columns=how.columns)
    told = open_reading(references, how.references_format, side="references", columns=how.columns)
    both = joined_on_disk(said, told, folder.name, on_missing=how.on_missing)
    return Sources(both, None, replace(how, format=None, references_format=None, columns=None)), folder


def is_large(source: str | os.PathLike[str]) -> bool:
    """Whether a file is large enough to be read in parts."""
    path = regular(source)
    limit = LARGE // 4 if path.suffix in (".gz", ".zst", ".zip") else LARGE
    try:
        return path.is_file() and path.stat().st_size > limit
    except OSError:  # no name of a file: reading says so
        return False


class CaptionStream:
    """Captions in parts, which can be iterated more than once; its length is the number of captions."""

    def __init__(self, file: _File, system: str | None = None) -> None:
        self._file, self._system = file, system
        self._whole: Whole | None = None

    def __len__(self) -> int:
        missing = self.whole.missing
        return missing.total if self._file.keep else missing.total - missing.count

    @property
    def notes(self) -> dict[str, list[str]]:
        """Notes about the whole; each part's own notes say which captions were left out."""
        return self.whole.notes

    @property
    def regions(self) -> str:
        """Where the pictures' regions are; "" without any."""
        return self._file.sources.how.regions

    def lacking(self, need: str) -> Missing:
        """How many captions lack "references" or a picture ("image"), and the first of these by image."""
        whole = self.whole
        if need == "references":
            return whole.missing if self._file.keep else Missing()
        return whole.pictureless

    @property
    def whole(self) -> Whole:
        """What requires the whole, collected at the first call."""
        if self._whole is None:
            self._whole = self._file.whole(self._system)
        return self._whole

    def __iter__(self) -> Iterator[CaptionSet]:
        reason = "kept_without_references" if self._file.keep else "skipped_without_references"
        self._whole = self.whole
        for part in self._file.parts():
            own = part.systems.get(self._system)
            if own is None or not len(own.rows):
                continue
            captions = part.captions if len(own.rows) == len(part.captions) else part.captions.select(own.rows)
            yield captions.renamed(own.ids, {reason: own.without} if own.without else None)


@dataclass
class _Own:
    """One system's captions in a part: where they are, their ids, and the ids of those without references."""

    rows: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)


@dataclass
class _Part:
    """A part of the file with the captions of all its systems, which share the analyses of sentences."""

    captions: CaptionSet
    systems: dict[str | None, _Own]


class _File:
    """The file behind the streams of its systems, read once: its rows are kept, then its parts with their tokens."""

    def __init__(
        self, sources: Sources, folder: tempfile.TemporaryDirectory[str] | None, rows: int, *, by_system: bool
    ) -> None:
        self.sources, self._rows, self._by_system = sources, rows, by_system
        self._folder = folder  # removed with this object
        self.keep = sources.how.on_missing == "keep"
        self._spooled: Spool | None = None
        self._learners: dict[str | None, Learner] = {}
        self._wholes: dict[str | None, Whole] = {}
        self._parts: Spool | None = None

    def systems(self) -> list[str | None]:
        """The systems that captions are of, in the order of their first caption."""
        self._read()
        return list(self._learners)

    def whole(self, system: str | None) -> Whole:
        """What requires the whole of one system's captions."""
        self._read()
        if system not in self._wholes:
            self._wholes[system] = self._learners[system].whole(lambda whole: self._named({system: whole}))
        return self._wholes[system]

    def parts(self) -> Iterator[_Part]:
        """The parts, from the file at first; its analyses are kept with each for the next pass."""
        if self._parts is not None:
            yield from self._parts.read()
            return
        kept = Spool()
        wholes = {system: self.whole(system) for system in self._learners}
        named = self._named(wholes)
        while batch := list(islice(named, self._rows * min(len(wholes), _MOST_SYSTEMS))):
            part = self._part(batch, wholes)
            if part is not None:
                yield part
                kept.write(part)
        self._parts, self._spooled = kept, None

    def _part(self, batch: list[tuple[Row, str]], wholes: dict[str | None, Whole]) -> _Part | None:
        captions: list[Caption] = []
        systems: dict[str | None, _Own] = {}
        for row, id in batch:
            system = self._system(row)
            own, matching = systems.setdefault(system, _Own()), wholes[system].matching
            references = self.sources.references(row, matching)
            if not references:
                own.without.append(id)
            if references or self.keep:
                own.rows.append(len(captions))
                own.ids.append(id)
                captions.append(self.sources.caption(row, str(len(captions)), references, matching))
        if not captions:
            return None
        how = self.sources.how
        return _Part(CaptionSet.from_captions(captions, images_root=how.images_root, regions=how.regions), systems)

    def _system(self, row: Row) -> str | None:
        return row.system if self._by_system else None

    def _read(self) -> None:
        """The one pass over the file."""
        if self._learners:
            return
        spooled, learners = Spool(), {}
        rows = self.sources.rows()
        while batch := list(islice(rows, self._rows)):
            for row in batch:
                system = self._system(row)
                if system not in learners:
                    learners[system] = Learner(self.sources)
                learners[system].see(row)
            spooled.write(batch)
        self._spooled, self._learners = spooled, learners

    def _named(self, wholes: dict[str | None, Whole]) -> Iterator[tuple[Row, str]]:
        """The rows of these systems with their final ids, as `load` gives them."""
        seen: dict[str | None, Counter[str]] = {system: Counter() for system in wholes}
        for batch in [] if self._spooled is None else self._spooled.read():
            own: dict[str | None, list[Row]] = {system: [] for system in wholes}
            for row in batch:
                if (system := self._system(row)) in own:
                    own[system].append(row)
            many = {s: iter(wholes[s].has_many([row.image_id for row in rows]).tolist()) for s, rows in own.items()}
            for row in batch:
                if (system := self._system(row)) not in own:
                    continue
                id = row.image_id
                if next(many[system]):
                    id = f"{row.image_id}#{seen[system][row.image_id]}"
                    seen[system][row.image_id] += 1
                yield row, id if row.id is None else row.id
